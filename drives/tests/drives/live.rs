//! A live drive keeps the times of its model however late the machine is, counts how late it was, and loses its power.

use shingle_core::block::{Bio, BlockDevice, Completion, Data, Flags, Op, Payload, Reason, Status};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::ZoneNo;
use shingle_drives::live::{LiveDrive, Model, Power};
use shingle_drives::service::ServiceTime;
use shingle_drives::{RamConfig, RamDisk, SmrConfig, SmrDisk, Ssd, SsdConfig, ZnsConfig, ZnsSsd};

use crate::desk::Desk;

const BLOCK: u32 = 8;
const MS: u64 = 1_000_000;

fn smr() -> Box<dyn Model> {
    Box::new(SmrDisk::new(&SmrConfig::new(100)).unwrap())
}

fn zns() -> Box<dyn Model> {
    let us = Duration::from_micros;
    let times = ZnsConfig { write_command: us(7), completion: us(3), program: us(410), ..ZnsConfig::new(100) };
    Box::new(ZnsSsd::new(ZnsConfig { write_cache: true, memory_backed: true, ..times }).unwrap())
}

fn ssd() -> Box<dyn Model> {
    let ms = Duration::from_millis;
    let (read, write, flush) = (ms(1), ms(2), ms(30));
    let rates = SsdConfig {
        capacity: 1 << 20,
        block_bytes: 4096,
        max_sectors: 2048,
        read_rate: 200 << 20,
        write_rate: 100 << 20,
        read,
        write,
        flush,
        memory_backed: true,
    };
    Box::new(Ssd::new(&rates).unwrap())
}

fn ram() -> Box<dyn Model> {
    let write = ServiceTime::Constant(Duration::from_micros(150));
    let config = RamConfig { servers: 3, write, block_bytes: 4096, ..RamConfig::new(1 << 20) };
    Box::new(RamDisk::new(&config).unwrap())
}

const MODELS: [fn() -> Box<dyn Model>; 4] = [smr, zns, ssd, ram];

impl Desk {
    /// Lets all that was submitted end. `look` says when the machine gets to what is due at a time. Returns the times by tag.
    fn ends(&mut self, look: impl Fn(Instant) -> Instant) -> Vec<(u64, Instant)> {
        let mut ends = Vec::new();
        loop {
            let next = self.stack.turn(self.now);
            while let Some(Completion { tag, status, .. }) = self.stack.poll_completion(self.port) {
                assert_eq!(status, Status::Ok);
                ends.push((tag, self.now));
            }
            match next {
                Some(next) if self.stack.outstanding(self.port) > 0 => self.now = look(next).max(self.now),
                _ => return ends,
            }
        }
    }

    fn cut(&mut self) -> bool {
        self.stack.with_device(self.device, LiveDrive::cut_power).unwrap()
    }

    fn restore(&mut self) -> bool {
        self.stack.with_device(self.device, LiveDrive::restore_power).unwrap()
    }
}

/// A block of a zone of the SMR disk, the third, which is sequential.
fn block(number: u64) -> Sector {
    Sector(2 * 524_288 + number * u64::from(BLOCK))
}

/// A block where this device takes writes in order.
fn on(device: &dyn BlockDevice, number: u64) -> Sector {
    let has_conventional = device.limits().rotational;
    if has_conventional { block(number) } else { Sector(number * u64::from(BLOCK)) }
}

fn write(at: Sector, byte: u8) -> Bio {
    let data = Data::zeroed(4096);
    data.fill(byte);
    Bio::new(Op::Write, at, BLOCK, Payload::Data(data))
}

fn read(at: Sector) -> Bio {
    Bio::new(Op::Read, at, BLOCK, Payload::Data(Data::zeroed(4096)))
}

fn flush() -> Bio {
    Bio::new(Op::Flush, Sector(0), 0, Payload::None)
}

/// Many writes at once, and a flush.
fn load(desk: &mut Desk) {
    for number in 0..64 {
        let at = on(desk.stack.any_device(desk.device), number);
        desk.submit(number, write(at, 1));
    }
    desk.submit(64, flush());
}

struct Bare(Box<dyn Model>);

impl BlockDevice for Bare {
    fn limits(&self) -> &shingle_core::block::Limits {
        self.0.limits()
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut shingle_core::block::Cx<'_>) {
        self.0.submit(bio, cx);
    }

    fn on_event(&mut self, event: shingle_core::block::Event, cx: &mut shingle_core::block::Cx<'_>) {
        self.0.on_event(event, cx);
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        self.0.describe(out)
    }
}

fn at_once(due: Instant) -> Instant {
    due
}

/// A machine that looks every 5 ms.
fn slowly(due: Instant) -> Instant {
    Instant(due.0.next_multiple_of(5 * MS))
}

#[test]
fn on_a_machine_that_is_never_late_answers_come_when_the_model_alone_gives_them() {
    for model in MODELS {
        let (mut live, mut bare) = (Desk::live(model(), 1), Desk::new(Box::new(Bare(model()))));
        load(&mut live);
        load(&mut bare);
        let ends = live.ends(at_once);
        assert_eq!(ends, bare.ends(at_once));
        assert_eq!(ends.len(), 65);
        let lateness = live.drive().lateness();
        // Without a write cache a flush does not come to the drive.
        assert!(lateness.count() >= 64 && lateness.max() == Duration::ZERO);
    }
}

#[test]
fn what_a_bio_took_is_counted_until_the_machine_has_answered_it_however_late_that_is() {
    for model in MODELS {
        let mut late = Desk::live(model(), 1);
        load(&mut late);
        // All of them came in the beginning.
        let waited: u64 = late.ends(slowly).iter().map(|(_, at)| at.0).sum();
        let drive = late.drive();
        let counted: u64 = Op::ALL.into_iter().map(|op| drive.times(op).sum().0).sum();
        assert_eq!((counted, drive.times(Op::Write).count(), drive.times(Op::Read).count()), (waited, 64, 0));
    }
}

#[test]
fn a_late_machine_answers_each_time_at_its_first_look_and_what_follows_is_not_late_for_that() {
    let mut drifted = 0;
    for model in MODELS {
        let [mut exact, mut late] = [(); 2].map(|()| Desk::live(model(), 1));
        load(&mut exact);
        load(&mut late);
        let due = exact.ends(at_once);
        let answered = late.ends(slowly);
        let expected: Vec<(u64, Instant)> = due.iter().map(|(tag, at)| (*tag, slowly(*at))).collect();
        assert_eq!(answered, expected);
        let lates = due.iter().map(|(_, at)| slowly(*at).since(*at).0);
        let lateness = late.drive().lateness();
        assert_eq!(lateness.sum(), Duration(lates.clone().sum()));
        assert_eq!(lateness.max(), Duration(lates.max().unwrap()));
        // Without a time of its own the model waits for the machine again and again: this comparison can fail.
        let mut bare = Desk::new(Box::new(Bare(model())));
        load(&mut bare);
        drifted += usize::from(bare.ends(slowly) != expected);
    }
    assert!(drifted >= 3, "{drifted} models would have drifted");
}

#[test]
fn what_is_in_flight_at_a_cut_fails_once_and_without_power_everything_does() {
    for model in MODELS {
        let mut desk = Desk::live(model(), 1);
        load(&mut desk);
        desk.now = Instant(1);
        desk.stack.turn(desk.now);
        let held = desk.drive().in_flight();
        assert!(desk.cut() && !desk.cut());
        desk.stack.turn(desk.now);
        let mut failed = 0;
        while let Some(Completion { bio, status, .. }) = desk.stack.poll_completion(desk.port) {
            if status == Status::Offline {
                assert_eq!(bio.why().unwrap().reason, Reason::NoPower);
                assert!(bio.op == Op::Flush || bio.payload.bytes() == 4096, "the memory is back");
                failed += 1;
            }
        }
        assert!(held > 0 && failed == held, "{failed} of {held}");
        assert_eq!((desk.stack.outstanding(desk.port), desk.drive().in_flight()), (0, 0));
        assert_eq!(desk.drive().power(), Power::Off);
        assert_eq!(desk.wait(read(Sector(0))).0, Status::Offline);
        assert!(desk.restore() && !desk.restore());
        assert_eq!((desk.wait(read(Sector(0))).0, desk.drive().cuts()), (Status::Ok, 1));
        // Timers of before the cut find nobody.
        while let Some(next) = desk.stack.turn(desk.now) {
            desk.now = next.max(desk.now);
        }
    }
}

/// Writes 64 blocks, flushes after the first 16, and loses the power; which blocks are there then.
fn survivors(model: Box<dyn Model>, seed: u64, flags: Flags) -> Vec<bool> {
    let mut desk = Desk::live(model, seed);
    let places: Vec<Sector> = (0..64).map(|number| on(desk.stack.any_device(desk.device), number)).collect();
    for (number, at) in places.iter().enumerate() {
        assert_eq!(desk.wait(write(*at, 1).with_flags(flags)).0, Status::Ok);
        if number == 15 {
            assert_eq!(desk.wait(flush()).0, Status::Ok);
        }
    }
    assert!(desk.cut() && desk.restore());
    let there = |at: &Sector| desk.wait(read(*at)).1 == [1; 4096];
    places.iter().map(there).collect()
}

#[test]
fn a_cut_takes_only_what_was_not_flushed_and_of_a_zone_it_leaves_a_prefix() {
    for (model, is_zoned) in [(smr as fn() -> Box<dyn Model>, true), (zns, true), (ssd, false)] {
        let mut lost = 0;
        for seed in 0..20 {
            let there = survivors(model(), seed, Flags::NONE);
            assert!(there[..16].iter().all(|there| *there), "what was flushed is there");
            assert!(!is_zoned || there.is_sorted_by(|before, after| before >= after), "{there:?}");
            lost += there.iter().filter(|there| !**there).count();
            assert_eq!(there, survivors(model(), seed, Flags::NONE), "the seed decides");
        }
        assert!(lost > 0, "something is lost, or this test would see nothing");
    }
    assert!(survivors(ram(), 1, Flags::NONE).iter().all(|there| *there), "memory with a battery");
}

#[test]
fn what_was_written_with_fua_survives() {
    for model in MODELS {
        assert!(survivors(model(), 3, Flags::FUA).iter().all(|there| *there));
    }
}

#[test]
fn a_pointer_is_where_the_data_that_was_left_ends() {
    let mut desk = Desk::live(smr(), 1);
    for number in 0..64 {
        assert_eq!(desk.wait(write(block(number), 1)).0, Status::Ok);
    }
    assert!(desk.cut() && desk.restore());
    let state = desk.drive().zones().unwrap().state(ZoneNo(2));
    assert!(state.wp < 64 * BLOCK && state.wp.is_multiple_of(BLOCK) && !state.cond.is_open(), "{state:?}");
    let next = u64::from(state.wp / BLOCK);
    assert_eq!(desk.wait(read(block(next))).1, [0; 4096]);
    assert_eq!(desk.wait(write(block(next), 2)).0, Status::Ok, "writing goes on there");
}

#[test]
fn beyond_its_limit_of_memory_a_write_fails_and_what_was_written_stays() {
    for model in MODELS {
        let mut desk = Desk::new(Box::new(LiveDrive::new(model(), Some(2 * 16384), 1).unwrap()));
        let at = |desk: &Desk, number| on(desk.stack.any_device(desk.device), number);
        let ended: Vec<Status> = (0..9)
            .map(|number| {
                let at = at(&desk, number);
                desk.wait(write(at, 1)).0
            })
            .collect();
        assert_eq!(ended, [vec![Status::Ok; 8], vec![Status::NoSpace]].concat());
        assert_eq!(desk.drive().memory_bytes(), 32768);
        let last = at(&desk, 7);
        assert_eq!(desk.wait(read(last)).1, [1; 4096]);
    }
}
