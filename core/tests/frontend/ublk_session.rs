//! The server of a ublk device alone: descriptors in, bios out; completions in, answers out; and what the next server does when one
//! is killed in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use shingle_core::block::{Bio, Buffer, Data, Flags, Memory, Op, Payload, Region, RemoteMemory, Status};
use shingle_core::frontend::ublk::{
    Answer, Descriptor, Next, Progress, RecordsShape, Session, SessionShape, Unflushed, UserCopy, ZONE_BYTES,
    ZoneRecords, log_bytes,
};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

const SHAPE: SessionShape = SessionShape { tags: 4, io_bytes: 8192 };
const ZONES: u32 = 16;
const ZONE: u64 = 64;
const FUA: u32 = 1 << 13;

/// The data of requests.
#[derive(Default)]
struct Copies {
    /// The byte that all of a tag's write is of.
    brings: BTreeMap<u32, u8>,
    given: BTreeMap<u32, Vec<u8>>,
    is_gone: bool,
}

impl UserCopy for Copies {
    fn take(&mut self, tag: u32, data: &Data) -> Result<(), Status> {
        data.fill(self.brings.get(&tag).copied().unwrap_or(0));
        if self.is_gone { Err(Status::Io) } else { Ok(()) }
    }

    fn give(&mut self, tag: u32, data: &Data) -> Result<(), Status> {
        self.given.insert(tag, data.to_vec());
        if self.is_gone { Err(Status::Io) } else { Ok(()) }
    }
}

/// A session, and what it wants.
struct Desk {
    session: Session,
    copies: Copies,
    bios: Vec<(u64, Box<Bio>)>,
    answers: Vec<(u32, Answer)>,
}

/// What is seen of a bio.
type Seen = (Op, u64, u32);

impl Desk {
    fn new(session: Session) -> Self {
        let mut desk = Self { session, copies: Copies::default(), bios: Vec::new(), answers: Vec::new() };
        desk.collect();
        desk
    }

    fn plain() -> Self {
        Self::new(Session::new(SHAPE).unwrap())
    }

    /// With a log of unflushed writes in `memory`.
    fn logging(memory: &Arc<dyn Memory>) -> Self {
        Self::new(Session::new(SHAPE).unwrap().with_unflushed(Unflushed::open(memory.clone(), 1)).unwrap())
    }

    /// With records of zones in `memory`.
    fn recording(memory: &Arc<dyn Memory>) -> Self {
        Self::new(Session::new(SHAPE).unwrap().with_records(ZoneRecords::open(memory.clone(), 1, records())))
    }

    fn collect(&mut self) {
        while let Some(next) = self.session.poll() {
            match next {
                Next::Submit(word, bio) => self.bios.push((word, bio)),
                Next::Answer(tag, answer, clear) => {
                    clear.into_iter().for_each(|clear| clear.fill(0));
                    self.answers.push((tag, answer));
                }
            }
        }
    }

    fn ask(&mut self, tag: u32, operation: u32, sector: u64, count: u32) {
        self.session.handle_request(tag, Descriptor { operation, count, sector }, &mut self.copies);
        self.collect();
    }

    /// A write, all of one byte.
    fn write(&mut self, tag: u32, sector: u64, count: u32, byte: u8) {
        self.copies.brings.insert(tag, byte);
        self.ask(tag, 1, sector, count);
    }

    fn seen(&self) -> Vec<Seen> {
        self.bios.iter().map(|(_, bio)| (bio.op, bio.sector.0, bio.sectors)).collect()
    }

    /// Ends the oldest bio.
    fn end(&mut self, status: Status) {
        self.end_with(status, |_| ());
    }

    fn end_with(&mut self, status: Status, change: impl FnOnce(&mut Bio)) {
        let (word, mut bio) = self.bios.remove(0);
        change(&mut bio);
        self.session.handle_completion(word, bio, status, &mut self.copies);
        self.collect();
    }

    /// Ends what there is, and what comes of it; reports say that zones are written up to there.
    fn end_all(&mut self, pointers: &[(u64, u64)]) {
        while !self.bios.is_empty() {
            self.end_with(Status::Ok, |bio| {
                let start = bio.sector.0;
                let pointer = pointers.iter().find(|(zone, _)| *zone == start).map_or(start, |(_, pointer)| *pointer);
                if let Payload::Zones(zones) = &mut bio.payload {
                    zones.push(zone(start, pointer));
                }
            });
        }
    }

    fn answered(&mut self) -> Vec<(u32, i32)> {
        self.answers.drain(..).map(|(tag, answer)| (tag, answer.result)).collect()
    }
}

fn records() -> RecordsShape {
    RecordsShape { zones: ZONES, zone_sectors: ZONE as u32, tags: SHAPE.tags }
}

fn record_memory() -> Arc<dyn Memory> {
    Arc::new(Buffer::try_new(records().bytes()).unwrap())
}

/// A log with room for two of the longest requests.
fn log_memory() -> Arc<dyn Memory> {
    Arc::new(Buffer::try_new(log_bytes(2 * SHAPE.io_bytes as usize)).unwrap())
}

fn zone(start: u64, wp: u64) -> Zone {
    let cond = if wp == start { Condition::Empty } else { Condition::ImplicitOpen };
    Zone { start: Sector(start), len: ZONE, capacity: ZONE, wp: Sector(wp), kind: ZoneKind::Sequential, cond }
}

#[test]
fn every_operation_has_its_bio_and_its_answer() {
    let cases = [
        (0, (Op::Read, 8, 4), 2048),
        (1, (Op::Write, 8, 4), 2048),
        (2, (Op::Flush, 8, 0), 0),
        (3, (Op::Discard, 8, 4), 0),
        (5, (Op::WriteZeroes, 8, 4), 0),
        (10, (Op::ZoneOpen, 8, 0), 0),
        (11, (Op::ZoneClose, 8, 0), 0),
        (12, (Op::ZoneFinish, 8, 0), 0),
        (13, (Op::ZoneAppend, 8, 4), 2048),
        (14, (Op::ZoneResetAll, 8, 0), 0),
        (15, (Op::ZoneReset, 8, 0), 0),
    ];
    let mut desk = Desk::plain();
    for (operation, seen, result) in cases {
        desk.ask(3, operation, 8, 4);
        assert_eq!((desk.seen(), desk.session.busy()), (vec![seen], 1));
        desk.end_with(Status::Ok, |bio| bio.sector = Sector(40));
        let sector = if seen.0 == Op::ZoneAppend { 40 } else { 0 };
        assert_eq!(desk.answers.pop(), Some((3, Answer { result, sector })), "{seen:?}");
        desk.ask(3, operation, 8, 4);
        desk.end(Status::Medium);
        assert_eq!(desk.answered(), [(3, -Status::Medium.errno())], "{seen:?}");
    }
    assert_eq!(desk.session.busy(), 0);
}

#[test]
fn a_write_brings_its_data_and_its_flags_and_a_read_takes_what_is_there() {
    let mut desk = Desk::plain();
    desk.copies.brings.insert(1, 7);
    desk.ask(1, 1 | FUA, 0, 2);
    let bio = &desk.bios[0].1;
    assert_eq!((bio.payload.segments()[0].to_vec(), bio.flags), (vec![7; 1024], Flags::FUA));
    desk.end(Status::Ok);
    desk.ask(2, 5 | 1 << 15, 0, 2);
    assert_eq!(desk.bios[0].1.flags, Flags::NO_UNMAP);
    desk.end(Status::Ok);
    desk.ask(1, 0, 0, 2);
    desk.end_with(Status::Ok, |bio| bio.payload.segments()[0].fill(9));
    assert_eq!(desk.copies.given[&1], vec![9; 1024]);
}

/// Memory of requests that is registered under this number.
struct Elsewhere(u32);

impl RemoteMemory for Elsewhere {
    fn region(&self) -> Region {
        Region(self.0)
    }

    fn fetch(&self, _: usize, _: &Data) -> Result<(), Status> {
        Err(Status::Io)
    }

    fn store(&self, _: usize, _: &Data) -> Result<(), Status> {
        Err(Status::Io)
    }
}

fn with_remote(session: Session) -> Desk {
    Desk::new(session.with_remote((0..SHAPE.tags).map(|tag| Arc::new(Elsewhere(100 + tag)) as Arc<dyn RemoteMemory>)))
}

const UNREGISTERED: u32 = 1 << 17;

#[test]
fn data_of_a_request_whose_memory_is_registered_is_named_and_not_copied() {
    let mut desk = with_remote(Session::new(SHAPE).unwrap());
    desk.copies.is_gone = true;
    for (tag, operation) in [(1, 0), (2, 1), (3, 1 | FUA), (0, 13)] {
        desk.ask(tag, operation, 0, 3);
        let Payload::Remote(remote) = &desk.bios[0].1.payload else { panic!("{:?} is copied", desk.bios[0]) };
        assert_eq!((remote.region(), remote.len()), ((Region(100 + tag), 0), 1536));
        let Payload::Remote(piece) = desk.bios[0].1.payload.slice(1, 2) else { panic!("a piece is copied") };
        assert_eq!((piece.region(), piece.len()), ((Region(100 + tag), 512), 1024));
        desk.end(Status::Ok);
        assert_eq!(desk.answered(), [(tag, 1536)]);
        desk.ask(tag, operation, 0, 3);
        desk.end(Status::NoSpace);
        assert_eq!(desk.answered(), [(tag, -Status::NoSpace.errno())]);
    }
    desk.ask(1, 0, 0, 17);
    assert_eq!(desk.answered(), [(1, -Status::Invalid.errno())], "longer than any");
}

#[test]
fn data_of_a_request_whose_memory_could_not_be_registered_is_copied() {
    let mut desk = with_remote(Session::new(SHAPE).unwrap());
    desk.copies.brings.insert(2, 5);
    desk.ask(2, 1 | UNREGISTERED, 0, 2);
    assert_eq!(desk.bios[0].1.payload.segments()[0].to_vec(), vec![5; 1024]);
    desk.end(Status::Ok);
    desk.ask(2, UNREGISTERED, 0, 2);
    desk.end_with(Status::Ok, |bio| bio.payload.segments()[0].fill(9));
    assert_eq!(desk.copies.given[&2], vec![9; 1024]);
}

#[test]
fn data_that_is_remembered_until_a_flush_is_copied_and_what_is_only_read_is_not() {
    let memory = log_memory();
    let log = Unflushed::open(memory.clone(), 1);
    let mut desk = with_remote(Session::new(SHAPE).unwrap().with_unflushed(log).unwrap());
    desk.write(0, 0, 2, 7);
    assert_eq!(desk.bios[0].1.payload.segments()[0].to_vec(), vec![7; 1024]);
    desk.end(Status::Ok);
    desk.ask(0, 0, 0, 2);
    assert!(matches!(desk.bios[0].1.payload, Payload::Remote(_)), "{:?}", desk.bios[0]);
}

#[test]
fn a_report_shorter_than_asked_leaves_empty_entries_and_is_answered_with_the_whole_buffer() {
    let mut desk = Desk::plain();
    desk.ask(0, 18, 0, 3);
    desk.end_with(Status::Ok, |bio| bio.payload = Payload::Zones(vec![zone(0, 5)]));
    assert_eq!(desk.answered(), [(0, 8192)]);
    let given = &desk.copies.given[&0];
    assert_eq!((given.len(), given[16], given[24], given[25]), (3 * ZONE_BYTES, 5, 2, 2));
    assert!(given[ZONE_BYTES..].iter().all(|byte| *byte == 0));
}

#[test]
fn what_cannot_be_is_an_error_and_the_tag_goes_on() {
    let wrong = [
        (0, 99, 0, 1, Status::NotSupported),
        (0, 0, 0, 17, Status::Invalid),
        (0, 1, 0, u32::MAX, Status::Invalid),
        (0, 13, 0, u32::MAX, Status::Invalid),
        (0, 18, 0, u32::MAX, Status::Invalid),
        (0, 18, 0, 129, Status::Invalid),
        (4, 1, 0, 1, Status::Invalid),
        (u32::MAX, 13, 0, 1, Status::Invalid),
        (u32::MAX, 2, u64::MAX, 0, Status::Invalid),
    ];
    for kind in [|| Desk::plain(), || Desk::logging(&log_memory()), || Desk::recording(&record_memory())] {
        let mut desk = kind();
        for (tag, operation, sector, count, status) in wrong {
            desk.ask(tag, operation, sector, count);
            assert_eq!(desk.answered(), [(tag, -status.errno())], "{operation} of {count}");
        }
        desk.copies.is_gone = true;
        desk.write(1, 0, 1, 1);
        assert_eq!(desk.answered(), [(1, -Status::Io.errno())], "a request that is gone");
        desk.copies.is_gone = false;
        // Sectors beyond all zones, and a discard longer than memory: that is for those below to refuse.
        for (tag, operation, sector) in [(0, 12, u64::MAX), (1, 15, u64::MAX), (2, 13, u64::MAX), (3, 3, u64::MAX)] {
            desk.ask(tag, operation, sector, if operation == 3 { u32::MAX } else { 1 });
            desk.end(Status::Io);
        }
        assert_eq!((desk.answered().len(), desk.session.busy()), (4, 0));
        desk.write(0, 0, 16, 1);
        desk.end(Status::Ok);
        assert_eq!(desk.answered(), [(0, 8192)]);
    }
}

#[test]
fn writes_wait_for_room_in_the_log_in_their_order_and_one_flush_makes_it() {
    let mut desk = Desk::logging(&log_memory());
    (0..4).for_each(|tag| desk.write(tag, u64::from(tag) * 16, 16 - 8 * (tag / 3), 1));
    let sent = [(Op::Write, 0, 16), (Op::Write, 16, 16), (Op::Flush, 0, 0)];
    assert_eq!(desk.seen(), sent, "the third waits, and the smaller one behind it as well");
    desk.end(Status::Ok);
    desk.end(Status::Ok);
    assert_eq!(desk.seen(), [(Op::Flush, 0, 0)], "one flush, which came too early for them");
    desk.end(Status::Ok);
    assert_eq!(desk.seen(), [(Op::Flush, 0, 0)]);
    desk.end(Status::Ok);
    assert_eq!(desk.seen()[..2], [(Op::Write, 32, 16), (Op::Write, 48, 8)]);
    desk.end_all(&[]);
    assert_eq!(desk.answered(), [(0, 8192), (1, 8192), (2, 8192), (3, 4096)]);
}

#[test]
fn a_log_is_flushed_when_half_of_it_is_taken_before_somebody_waits() {
    for (writes, is_due) in [(1, false), (2, false), (3, true), (4, true)] {
        let mut desk = Desk::logging(&log_memory());
        (0..writes).for_each(|tag| desk.write(tag, u64::from(tag) * 8, 8, 1));
        assert_eq!(desk.seen().contains(&(Op::Flush, 0, 0)), is_due, "{writes} of 4");
    }
    // All of it at once, from the begin of the ring to its end.
    let mut desk = Desk::logging(&log_memory());
    (0..2).for_each(|tag| desk.write(tag, u64::from(tag) * 16, 16, 1));
    assert_eq!(desk.seen().last(), Some(&(Op::Flush, 0, 0)));
    let mut desk = Desk::logging(&log_memory());
    desk.ask(0, 5, 0, 1 << 20);
    assert_eq!(desk.seen(), [(Op::WriteZeroes, 0, 1 << 20)], "zeroes take no room");
}

#[test]
fn a_failed_flush_fails_those_that_wait_and_is_sent_again_when_somebody_wants_room() {
    let mut desk = Desk::logging(&log_memory());
    (0..3).for_each(|tag| desk.write(tag, 0, 16, 1));
    desk.end(Status::Ok);
    desk.end(Status::Ok);
    desk.answered();
    desk.end(Status::Medium);
    assert_eq!(desk.answered(), [(2, -Status::Medium.errno())]);
    assert_eq!(desk.seen(), [], "nobody wants room");
    desk.write(2, 0, 16, 1);
    assert_eq!(desk.seen(), [(Op::Flush, 0, 0)]);
    desk.end_all(&[]);
    assert_eq!(desk.answered(), [(2, 8192)]);
}

/// A copy of the memory, as another server would find it.
fn copy(memory: &Arc<dyn Memory>) -> Arc<dyn Memory> {
    let copy: Arc<dyn Memory> = Arc::new(Buffer::try_new(memory.words().len() * 8).unwrap());
    for (to, from) in copy.words().iter().zip(memory.words()) {
        to.store(from.load(Relaxed), Relaxed);
    }
    copy
}

fn first_byte(bio: &Bio) -> u8 {
    bio.payload.segments().first().map_or(0, |data| data.to_vec()[0])
}

/// Writes of the next server's replay, with the first byte of the data of each. The memory stays as it is.
fn written_again(memory: &Arc<dyn Memory>) -> Vec<(Seen, u8)> {
    let (mut desk, mut again) = (Desk::logging(&copy(memory)), Vec::new());
    while let Some((_, bio)) = desk.bios.first() {
        again.extend(
            (bio.op == Op::Write || bio.op == Op::WriteZeroes)
                .then(|| ((bio.op, bio.sector.0, bio.sectors), first_byte(bio))),
        );
        desk.end(Status::Ok);
    }
    again.sort_by_key(|((_, sector, _), _)| *sector);
    again
}

/// A log with room for 16 batches of 8 sectors.
fn wide_log() -> Arc<dyn Memory> {
    Arc::new(Buffer::try_new(log_bytes(16 * 4096)).unwrap())
}

/// Replays until that many flushes have completed, then the server is killed.
fn replayed_until(memory: &Arc<dyn Memory>, flushes: usize) {
    let (mut desk, mut done) = (Desk::logging(memory), 0);
    while done < flushes {
        done += usize::from(desk.bios[0].1.op == Op::Flush);
        desk.end(Status::Ok);
    }
}

#[test]
fn a_kill_during_replay_does_not_begin_it_anew() {
    let memory = wide_log();
    let mut desk = Desk::logging(&memory);
    for number in 0..4 {
        desk.write(0, u64::from(number) * 8, 8, number + 1);
        desk.end(Status::Ok);
    }
    replayed_until(&memory, 1);
    assert_eq!(written_again(&memory), [8, 16, 24].map(|sector| ((Op::Write, sector, 8), sector as u8 / 8 + 1)));
    replayed_until(&memory, 2);
    assert_eq!(written_again(&memory), [((Op::Write, 24, 8), 4)]);
    let mut last = Desk::logging(&memory);
    last.end_all(&[]);
    assert_eq!((last.session.is_ready(), written_again(&memory)), (Ok(true), vec![]));
}

#[test]
fn a_write_is_forgotten_in_replay_only_when_a_flush_behind_it_succeeds() {
    let memory = wide_log();
    let mut desk = Desk::logging(&memory);
    desk.write(0, 0, 8, 1);
    desk.end(Status::Ok);
    let mut next = Desk::logging(&memory);
    next.end(Status::Ok);
    assert_eq!((next.seen(), written_again(&memory)), (vec![(Op::Flush, 0, 0)], vec![((Op::Write, 0, 8), 1)]));
    next.end(Status::Io);
    assert_eq!((next.session.is_ready(), written_again(&memory)), (Err(Status::Io), vec![((Op::Write, 0, 8), 1)]));
}

/// An older write that outlived a newer one in the log would be written again over it.
#[test]
fn after_a_kill_during_replay_no_older_data_is_written_again() {
    let memory = wide_log();
    let mut desk = Desk::logging(&memory);
    for (sector, count, byte) in [(8, 16, 1), (4, 12, 2), (0, 8, 3)] {
        desk.write(0, sector, count, byte);
        desk.end(Status::Ok);
    }
    let newest = |sector: u64| [3, 2, 1][sector as usize / 8];
    for flushes in 0..=3 {
        let memory = copy(&memory);
        replayed_until(&memory, flushes);
        for ((_, sector, count), byte) in written_again(&memory) {
            assert!(
                (sector..sector + u64::from(count)).all(|sector| newest(sector) == byte),
                "{sector} after {flushes}"
            );
        }
    }
}

#[test]
fn progress_of_replay_counts_durable_sectors_and_completions() {
    let memory = wide_log();
    let mut desk = Desk::logging(&memory);
    for number in 0..2 {
        desk.write(0, number * 8, 8, 1);
        desk.end(Status::Ok);
    }
    let mut next = Desk::logging(&memory);
    let progress = |desk: &Desk| {
        let Progress { durable, all, completions } = desk.session.progress();
        (durable, all, completions)
    };
    let mut seen = vec![progress(&next)];
    for _ in 0..3 {
        next.end(Status::Ok);
        seen.push(progress(&next));
    }
    assert_eq!(seen, [(0, 16, 0), (0, 16, 1), (8, 16, 2), (8, 16, 3)]);
}

/// Found by the swarm: a write that was durable by itself was not remembered, and the older data of its sectors was.
#[test]
fn older_data_is_not_written_again_over_a_write_that_is_durable() {
    let memory = log_memory();
    let mut desk = Desk::logging(&memory);
    desk.write(0, 0, 8, 1);
    desk.end(Status::Ok);
    desk.copies.brings.insert(1, 2);
    desk.ask(1, 1 | FUA, 0, 8);
    desk.end(Status::Ok);
    assert_eq!(written_again(&memory), [((Op::Write, 0, 8), 2)]);
}

/// Found by the swarm: the power went between the two, and the older data was what had become durable.
#[test]
fn each_sector_is_written_again_once_as_it_was_acknowledged_last() {
    let memory = log_memory();
    let mut desk = Desk::logging(&memory);
    desk.write(0, 8, 8, 1);
    desk.end(Status::Ok);
    desk.write(1, 4, 6, 2);
    desk.end(Status::Ok);
    desk.ask(2, 5, 12, 2);
    desk.end(Status::Ok);
    let expected =
        [((Op::Write, 4, 6), 2), ((Op::Write, 10, 2), 1), ((Op::WriteZeroes, 12, 2), 0), ((Op::Write, 14, 2), 1)];
    assert_eq!(written_again(&memory), expected);
}

#[test]
fn what_is_written_again_is_flushed_and_forgotten_before_requests_are_asked_for() {
    let memory = log_memory();
    let mut desk = Desk::logging(&memory);
    desk.write(0, 0, 8, 1);
    desk.end(Status::Ok);
    let mut next = Desk::logging(&memory);
    assert_eq!((next.seen(), next.session.is_ready()), (vec![(Op::Write, 0, 8)], Ok(false)));
    next.end(Status::Ok);
    assert_eq!((next.seen(), next.session.is_ready()), (vec![(Op::Flush, 0, 0)], Ok(false)));
    next.end(Status::Ok);
    assert_eq!((next.session.is_ready(), written_again(&memory)), (Ok(true), vec![]));
}

#[test]
fn a_device_on_which_it_cannot_be_written_again_is_not_served_and_nothing_is_forgotten() {
    let memory = log_memory();
    let mut desk = Desk::logging(&memory);
    desk.write(0, 0, 8, 1);
    desk.end(Status::Ok);
    let mut next = Desk::logging(&memory);
    next.end(Status::Medium);
    assert_eq!((next.seen(), next.session.is_ready()), (vec![], Err(Status::Medium)));
    assert_eq!(written_again(&memory), [((Op::Write, 0, 8), 1)]);
}

#[test]
fn the_memory_of_another_boot_or_shape_means_nothing() {
    let (log, recorded) = (log_memory(), record_memory());
    let mut desk = Desk::logging(&log);
    desk.write(0, 0, 8, 1);
    desk.end(Status::Ok);
    assert_eq!(Unflushed::open(log, 2).1.len(), 0);
    let mut desk = Desk::recording(&recorded);
    desk.write(0, 0, 8, 1);
    let shape = RecordsShape { zones: ZONES - 1, ..records() };
    for (owner, shape) in [(2, records()), (2, shape)] {
        let mut next = Session::new(SHAPE).unwrap().with_records(ZoneRecords::open(recorded.clone(), owner, shape));
        assert!(next.poll().is_none(), "a question for what was not there");
        assert_eq!(next.is_ready(), Ok(true));
    }
}

#[test]
fn of_a_write_that_was_done_in_part_the_rest_is_written_and_one_that_was_done_is_only_answered() {
    let memory = record_memory();
    let mut desk = Desk::recording(&memory);
    desk.write(0, 0, 8, 1);
    desk.write(1, ZONE, 8, 1);
    desk.write(2, 2 * ZONE, 8, 1);
    let mut next = Desk::recording(&memory);
    assert_eq!(next.session.is_ready(), Ok(false));
    next.end_all(&[(ZONE, ZONE + 3), (2 * ZONE, 2 * ZONE + 8)]);
    assert_eq!(next.session.is_ready(), Ok(true));
    (0..3).for_each(|zone| next.write(3 - zone, u64::from(zone) * ZONE, 8, 1));
    assert_eq!(next.seen(), [(Op::Write, 0, 8), (Op::Write, ZONE + 3, 5)]);
    next.end_all(&[]);
    assert_eq!(next.answered(), [(1, 4096), (3, 4096), (2, 4096)]);
}

/// While a request waits to come again, the kernel's scheduler merges the next write of the zone into it.
#[test]
fn a_write_that_comes_again_longer_is_written_behind_what_is_done() {
    let memory = record_memory();
    let mut desk = Desk::recording(&memory);
    desk.write(0, ZONE, 8, 1);
    let mut next = Desk::recording(&memory);
    next.end_all(&[(ZONE, ZONE + 8)]);
    next.write(2, ZONE, 12, 1);
    assert_eq!(next.seen(), [(Op::Write, ZONE + 8, 4)]);
    let mut last = Desk::recording(&memory);
    last.end_all(&[(ZONE, ZONE + 11)]);
    last.write(1, ZONE, 12, 1);
    assert_eq!(last.seen(), [(Op::Write, ZONE + 11, 1)]);
    last.end_all(&[]);
    assert_eq!(last.answered(), [(1, 12 * 512)]);
}

/// Found by the swarm: records of writes that were answered long ago had taken all places.
#[test]
fn what_was_under_way_is_known_however_many_zones_were_written_before() {
    let memory = record_memory();
    let (mut desk, mut pointers) = (Desk::recording(&memory), Vec::new());
    for zone in 0..u64::from(ZONES) - 1 {
        desk.write(zone as u32 % 4, zone * ZONE, 8, 1);
        desk.end_all(&[]);
        pointers.push((zone * ZONE, zone * ZONE + 8));
        if zone % 2 == 1 {
            desk = Desk::recording(&memory);
            desk.end_all(&pointers);
        }
    }
    let last = (u64::from(ZONES) - 1) * ZONE;
    desk.write(3, last, 8, 1);
    pointers.push((last, last + 8));
    let mut next = Desk::recording(&memory);
    next.end_all(&pointers);
    next.write(0, last, 8, 1);
    assert_eq!((next.seen(), next.answered()), (vec![], vec![(0, 4096)]), "it is done");
}

/// Operation and sector of a reset of the second zone.
const RESET: (u32, u64) = (15, ZONE);

/// A session that has recorded a reset.
fn after_a_reset(memory: &Arc<dyn Memory>, (operation, sector): (u32, u64)) -> Desk {
    let mut desk = Desk::recording(memory);
    desk.ask(0, operation, sector, 0);
    desk.end(Status::Ok);
    desk
}

/// Found by the swarm: where zones end was not known after a reset of all of them.
#[test]
fn an_append_that_was_done_after_a_reset_is_not_done_twice() {
    for reset in [RESET, (14, 0)] {
        let memory = record_memory();
        let mut desk = after_a_reset(&memory, reset);
        desk.ask(0, 13, ZONE, 4);
        let mut next = Desk::recording(&memory);
        next.end_all(&[(ZONE, ZONE + 4)]);
        next.ask(2, 13, ZONE, 4);
        assert_eq!(next.seen(), [(Op::Read, ZONE, 4)], "it looks whether that is there");
        next.end(Status::Ok);
        assert_eq!(next.answers, [(2, Answer { result: 2048, sector: ZONE })]);
    }
}

#[test]
fn an_append_behind_one_that_was_done_is_not_done_twice() {
    let memory = record_memory();
    let mut desk = after_a_reset(&memory, RESET);
    desk.ask(0, 13, ZONE, 4);
    desk.end_with(Status::Ok, |bio| bio.sector = Sector(ZONE));
    desk.ask(0, 13, ZONE, 4);
    let mut next = Desk::recording(&memory);
    next.end_all(&[(ZONE, ZONE + 8)]);
    next.ask(2, 13, ZONE, 4);
    assert_eq!(next.seen(), [(Op::Read, ZONE + 4, 4)], "the zone ended behind the first append");
    next.end(Status::Ok);
    assert_eq!(next.answers, [(2, Answer { result: 2048, sector: ZONE + 4 })]);
}

#[test]
fn an_append_is_known_by_its_data_and_otherwise_is_a_new_one() {
    let memory = record_memory();
    let mut desk = after_a_reset(&memory, RESET);
    desk.ask(0, 13, ZONE, 4);
    let mut next = Desk::recording(&memory);
    next.end_all(&[(ZONE, ZONE + 4)]);
    next.copies.brings.insert(1, 5);
    next.ask(1, 13, ZONE, 4);
    next.end_with(Status::Ok, |bio| bio.payload.segments()[0].fill(6));
    assert_eq!(next.seen(), [(Op::ZoneAppend, ZONE, 4)]);
    next.end_with(Status::Ok, |bio| bio.sector = Sector(ZONE + 4));
    assert_eq!(next.answers, [(1, Answer { result: 2048, sector: ZONE + 4 })]);
}

/// A session after a kill in which so many of the 8 sectors of an append to the second zone were written.
fn appended_in_part(memory: &Arc<dyn Memory>, written: u64) -> Desk {
    let mut desk = after_a_reset(memory, RESET);
    desk.copies.brings.insert(0, 5);
    desk.ask(0, 13, ZONE, 8);
    taken_over(memory, written)
}

/// The next session, when the second zone has so many sectors.
fn taken_over(memory: &Arc<dyn Memory>, written: u64) -> Desk {
    let mut next = Desk::recording(memory);
    next.end_all(&[(ZONE, ZONE + written)]);
    next.copies.brings = (0..4).map(|tag| (tag, 5)).collect();
    next
}

#[test]
fn of_an_append_that_was_done_in_part_the_rest_is_written_and_its_place_told_however_often_it_is_killed() {
    let memory = record_memory();
    let mut next = appended_in_part(&memory, 3);
    for (written, tag) in [(3, 2), (5, 1), (5, 3)] {
        next.ask(tag, 13, ZONE, 8);
        assert_eq!(next.seen(), [(Op::Read, ZONE, written)]);
        next.end_with(Status::Ok, |bio| bio.payload.segments()[0].fill(5));
        assert_eq!(next.seen(), [(Op::Write, ZONE + u64::from(written), 8 - written)]);
        next = taken_over(&memory, 5);
    }
    next.ask(0, 13 | FUA, ZONE, 8);
    next.end_with(Status::Ok, |bio| bio.payload.segments()[0].fill(5));
    next.end(Status::Ok);
    assert_eq!(next.seen(), [(Op::Flush, 0, 0)], "the part may not be durable");
    next.end(Status::Ok);
    assert_eq!(next.answers, [(0, Answer { result: 4096, sector: ZONE })]);
}

#[test]
fn other_appends_wait_for_the_rest_of_one_that_was_done_in_part() {
    let mut next = appended_in_part(&record_memory(), 3);
    next.ask(0, 13, ZONE, 1);
    assert_eq!(next.seen(), [], "another length");
    next.copies.brings.insert(1, 6);
    next.ask(1, 13, ZONE, 8);
    next.end_with(Status::Ok, |bio| bio.payload.segments()[0].fill(5));
    assert_eq!(next.seen(), [], "other data");
    next.ask(2, 13, ZONE, 8);
    next.end_with(Status::Ok, |bio| bio.payload.segments()[0].fill(5));
    assert_eq!(next.seen(), [(Op::Write, ZONE + 3, 5)]);
    next.end(Status::Ok);
    assert_eq!(next.seen(), [(Op::ZoneAppend, ZONE, 1)]);
    next.end(Status::Ok);
    assert_eq!(next.seen(), [(Op::ZoneAppend, ZONE, 8)]);
    next.end(Status::Ok);
    assert_eq!(next.answered(), [(2, 4096), (0, 512), (1, 4096)]);
}

/// The one that they wait for may need their tags, or bring other data now.
#[test]
fn appends_that_wait_for_one_that_was_done_in_part_go_when_that_is_given_up() {
    let mut next = appended_in_part(&record_memory(), 3);
    assert!(!next.session.is_holding());
    next.ask(0, 13, ZONE, 1);
    next.copies.brings.insert(1, 6);
    next.ask(1, 13, ZONE, 8);
    next.end_with(Status::Ok, |bio| bio.payload.segments()[0].fill(5));
    assert_eq!((next.seen(), next.session.is_holding()), (vec![], true));
    next.session.give_up_parts(&mut next.copies);
    next.collect();
    assert!(!next.session.is_holding());
    next.end_all(&[]);
    assert_eq!(next.answered(), [(0, 512), (1, 4096)]);
}

#[test]
fn a_reset_takes_what_was_done_of_an_append_in_part() {
    let mut next = appended_in_part(&record_memory(), 3);
    next.ask(0, 13, ZONE, 1);
    next.ask(1, 15, ZONE, 0);
    assert_eq!(next.seen(), [(Op::ZoneReset, ZONE, 0)]);
    next.end(Status::Ok);
    assert_eq!(next.seen(), [(Op::ZoneAppend, ZONE, 1)]);
    next.ask(2, 13, ZONE, 8);
    next.end_all(&[]);
    assert_eq!(next.answered(), [(1, 0), (0, 512), (2, 4096)]);
}

#[test]
fn what_was_done_and_is_to_be_durable_is_flushed_before_it_is_acknowledged() {
    let memory = record_memory();
    let mut desk = Desk::recording(&memory);
    desk.ask(0, 1 | FUA, 0, 8);
    let mut next = Desk::recording(&memory);
    next.end_all(&[(0, 8)]);
    next.ask(0, 1 | FUA, 0, 8);
    assert_eq!((next.seen(), next.answered()), (vec![(Op::Flush, 0, 0)], vec![]));
    next.end(Status::Ok);
    assert_eq!(next.answered(), [(0, 4096)]);
}

/// The kernel gives requests without a range any length.
#[test]
fn a_reset_that_was_done_and_not_answered_does_not_take_newer_data_whatever_length_it_has() {
    for count in [0, ZONE as u32] {
        let memory = record_memory();
        let mut desk = Desk::recording(&memory);
        desk.ask(0, 15, ZONE, count);
        let (word, bio) = desk.bios.remove(0);
        // It is done, and killed before the kernel is told.
        desk.session.handle_completion(word, bio, Status::Ok, &mut desk.copies);
        let mut next = Desk::recording(&memory);
        next.ask(3, 15, ZONE, count);
        assert_eq!((next.seen(), next.answered()), (vec![], vec![(3, 0)]));
        next.ask(3, 15, ZONE, count);
        assert_eq!(next.seen(), [(Op::ZoneReset, ZONE, 0)], "another one is another one");
    }
}

#[test]
fn appends_of_a_zone_go_one_at_a_time_and_others_beside_them() {
    let mut desk = Desk::recording(&record_memory());
    (0..3).for_each(|tag| desk.ask(tag, 13, 0, 1));
    desk.ask(3, 13, ZONE, 1);
    assert_eq!(desk.seen(), [(Op::ZoneAppend, 0, 1), (Op::ZoneAppend, ZONE, 1)]);
    desk.end(Status::Io);
    assert_eq!(desk.seen(), [(Op::ZoneAppend, ZONE, 1), (Op::ZoneAppend, 0, 1)], "also after one that failed");
    desk.end_all(&[]);
    assert_eq!(desk.answered(), [(0, -5), (3, 512), (1, 512), (2, 512)]);
}

/// Found by the swarm: an append that was done before a reset beside it was taken for one of the same data after it, at a place that
/// another one had.
#[test]
fn a_reset_waits_for_the_append_of_its_zone_and_appends_for_the_reset() {
    for (operation, sector) in [(15, ZONE), (12, ZONE), (14, 0)] {
        let mut desk = Desk::recording(&record_memory());
        desk.ask(0, 13, ZONE, 1);
        desk.ask(2, 13, 2 * ZONE, 1);
        desk.ask(1, operation, sector, 0);
        assert_eq!(desk.seen(), [(Op::ZoneAppend, ZONE, 1), (Op::ZoneAppend, 2 * ZONE, 1)]);
        desk.end(Status::Ok);
        desk.end(Status::Ok);
        desk.ask(0, 13, ZONE, 1);
        assert_eq!(desk.seen().len(), 1, "the append waits");
        desk.end(Status::Ok);
        assert_eq!(desk.seen(), [(Op::ZoneAppend, ZONE, 1)]);
        desk.end(Status::Ok);
        assert_eq!((desk.answered().len(), desk.session.busy()), (4, 0));
    }
}

#[test]
fn a_reset_of_all_zones_is_not_overtaken_by_later_appends_and_two_of_them_end() {
    let mut desk = Desk::recording(&record_memory());
    desk.ask(0, 13, ZONE, 1);
    desk.ask(1, 14, 0, 0);
    desk.ask(2, 13, 2 * ZONE, 1);
    desk.ask(3, 14, 0, 0);
    assert_eq!(desk.seen(), [(Op::ZoneAppend, ZONE, 1)]);
    desk.end(Status::Ok);
    assert_eq!(desk.seen(), [(Op::ZoneResetAll, 0, 0)]);
    desk.end_all(&[]);
    assert_eq!((desk.answered().len(), desk.session.busy()), (4, 0));
}

/// What outlives a process is not believed: whoever can write to it must not be able to end the next server.
#[test]
fn an_entry_of_the_log_that_cannot_be_one_is_none() {
    let good = [1, 8, 8, 0];
    for (bad, why) in [
        ([2, u64::MAX - 3, 8, 4096], "it ends behind the last sector there can be"),
        ([2, u64::MAX - 3, 8 | 1 << 32, 0], "so do zeroes"),
        ([2, 16, 8, 4], "its data begins inside of a word"),
        ([2, 16, 8, u64::MAX - 7], "its data lies outside of the log"),
        ([2, 16, u64::from(u32::MAX), 0], "its data is longer than the log"),
    ] {
        let memory = log_memory();
        drop(Unflushed::open(memory.clone(), 1));
        put(&memory, 8, &good);
        put(&memory, 12, &bad);
        let mut desk = Desk::logging(&memory);
        assert_eq!(desk.seen(), [(Op::Write, 8, 8)], "{why}");
        desk.end_all(&[]);
        assert_eq!(desk.session.is_ready(), Ok(true));
    }
}

/// Found by the fuzz target `ublk_session`.
#[test]
fn zeroes_of_more_than_four_gibibytes_are_written_again() {
    let memory = log_memory();
    drop(Unflushed::open(memory.clone(), 1));
    put(&memory, 8, &[1, 0, 1 << 24 | 1 << 32, 0]);
    assert_eq!(Desk::logging(&memory).seen(), [(Op::WriteZeroes, 0, 1 << 24)]);
}

#[test]
fn a_record_that_cannot_be_one_is_none() {
    let append = 1 | (Op::ZoneAppend as u64) << 8 | 8 << 32;
    for (bad, why) in [
        ([append, u64::MAX - 3, 0, 1], "it ends behind the last sector there can be"),
        ([append + 1, ZONE, u64::MAX - 3, 1], "so does what it has written"),
        ([append, ZONE, 0, u64::MAX], "nothing could come after it"),
        ([append & !0xff00 | (Op::Read as u64) << 8, ZONE, 0, 1], "nobody remembers reads"),
    ] {
        let memory = record_memory();
        drop(ZoneRecords::open(memory.clone(), 1, records()));
        put(&memory, 8 + ZONES as usize, &bad);
        let mut desk = Desk::recording(&memory);
        assert!(desk.seen().is_empty(), "{why}: {:?}", desk.seen());
        desk.write(0, ZONE, 8, 1);
        desk.end_all(&[]);
        assert_eq!(desk.answered(), [(0, 4096)], "{why}");
    }
}

#[test]
fn an_end_of_a_zone_that_cannot_be_one_is_not_reckoned_with() {
    let memory = record_memory();
    drop(ZoneRecords::open(memory.clone(), 1, records()));
    put(&memory, 8 + 1, &[u64::MAX]);
    put(&memory, 8 + ZONES as usize, &[1 | (Op::ZoneAppend as u64) << 8 | 8 << 32, ZONE, 0, 1]);
    let mut desk = Desk::recording(&memory);
    assert_eq!(desk.seen(), [(Op::ReportZones, ZONE, 0)]);
    desk.end_all(&[(ZONE, ZONE + 5)]);
    assert_eq!(desk.session.is_ready(), Ok(true));
}

fn put(memory: &Arc<dyn Memory>, place: usize, words: &[u64]) {
    let there = &memory.words()[place..place + words.len()];
    there.iter().zip(words).for_each(|(to, word)| to.store(*word, Relaxed));
}
