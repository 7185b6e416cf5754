//! `striped`: where sectors lie, what goes to all stripes, how it tells of errors, and what it refuses.

use shingle_core::block::{BlockDevice, DeviceId, Flags, Op, Status};
use shingle_core::device::null::{NullConfig, NullDevice};
use shingle_core::harness::MockDevice;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;

use crate::desk::{at_desk_of, flush, preflush, read, write};
use crate::tables::{Mapped, data, pattern, range};

/// Sectors of each disk.
const DISK: u64 = 4096;

/// Disks that keep what is written and do everything at once.
fn disks(count: usize) -> Mapped {
    let config = NullConfig { memory_backed: true, write_zeroes: true, discard: true, ..NullConfig::new(DISK) };
    Mapped::over((0..count).map(|_| Box::new(NullDevice::new(&config).unwrap()) as Box<dyn BlockDevice>))
}

/// Desks with a write cache.
fn desks(count: usize) -> Mapped {
    let desk = || {
        let mut desk = MockDevice::regular();
        let limits = desk.limits_mut();
        (limits.write_cache, limits.max_discard, limits.max_write_zeroes) = (true, Some(1 << 16), Some(1 << 16));
        Box::new(desk) as Box<dyn BlockDevice>
    };
    Mapped::over((0..count).map(|_| desk()))
}

/// Ends what lies on the desks with `status`, and what follows from it with success. The result is what it was.
fn end_all(mapped: &mut Mapped, mut status: Status) -> Vec<String> {
    let mut seen = vec![];
    loop {
        mapped.rig.settle();
        let now = at_desk_of(&mut mapped.rig.stack, &mapped.shelf.0, status);
        status = Status::Ok;
        if now.is_empty() {
            return seen;
        }
        seen.extend(now);
    }
}

/// A striped line of random shape, and for each of its sectors the disk and the sector where it has to be.
fn random_line(rng: &mut Rng) -> (String, Vec<(usize, u64)>) {
    let (count, chunk, rows) = (1 + rng.below(5), 1 + rng.below(12), 1 + rng.below(6));
    let starts: Vec<u64> = (0..count).map(|_| rng.below(1000)).collect();
    let len = count * chunk * rows;
    let parts = starts.iter().enumerate().map(|(disk, start)| format!(" {} {start}", char::from(b'a' + disk as u8)));
    let text = format!("0 {len} striped {count} {chunk}{}", parts.collect::<String>());
    // As it is told: chunks go to the stripes in turn, and each stripe is filled from its start on.
    let mut next = starts;
    let mut place = |sector: u64| {
        let disk = (sector / chunk % count) as usize;
        next[disk] += 1;
        (disk, next[disk] - 1)
    };
    (text, (0..len).map(&mut place).collect())
}

#[test]
fn every_sector_goes_once_to_the_place_that_a_model_has_for_it() {
    let mut rng = Rng::new(31);
    for round in 0..60 {
        let (text, model) = random_line(&mut rng);
        let mut mapped = disks(5).traced();
        mapped.add("striped", &text).unwrap();
        for _ in 0..30 {
            let first = rng.below(model.len() as u64);
            let sectors = (1 + rng.below(model.len() as u64 - first)) as u32;
            let op = [Op::Read, Op::Write, Op::Discard, Op::WriteZeroes][rng.below(4) as usize];
            let bio = if op.has_data() { data(op, first, sectors, 7) } else { range(op, first, sectors) };
            assert_eq!(mapped.run(bio), Status::Ok);
            let arrivals = mapped.arrivals(5);
            assert!(arrivals.iter().all(|arrival| arrival.op == op), "{arrivals:?}");
            let mut touched: Vec<(usize, u64)> = arrivals
                .iter()
                .flat_map(|a| (a.sector..a.sector + u64::from(a.sectors)).map(|s| (a.device, s)))
                .collect();
            let mut wanted = model[first as usize..][..sectors as usize].to_vec();
            if !op.has_data() {
                // One bio for each stripe, so in another order.
                let mut devices: Vec<_> = arrivals.iter().map(|arrival| arrival.device).collect();
                devices.dedup();
                assert_eq!(devices.len(), arrivals.len(), "round {round}: more than one {op:?} for a stripe");
                touched.sort_unstable();
                wanted.sort_unstable();
            }
            assert_eq!(touched, wanted, "round {round}: {op:?} {first}+{sectors} of {text}");
        }
    }
}

#[test]
fn what_is_written_is_read_back_and_lies_on_the_disks_in_chunks() {
    let mut rng = Rng::new(5);
    for _ in 0..20 {
        let (text, model) = random_line(&mut rng);
        let mut mapped = disks(5);
        let striped = mapped.add("striped", &text).unwrap();
        let mut bytes = vec![0u8; model.len() * 512];
        for n in 0..20 {
            let first = rng.below(model.len() as u64) as usize;
            let sectors = 1 + rng.below((model.len() - first) as u64) as usize;
            let place = first * 512..(first + sectors) * 512;
            let (sector, len) = (first as u64, sectors as u32);
            let bio = match rng.below(4) {
                0 => range(Op::WriteZeroes, sector, len),
                _ => data(Op::Write, sector, len, n + 1),
            };
            let content = if bio.op == Op::Write { pattern(n + 1, len) } else { vec![0; place.len()] };
            assert_eq!(mapped.run(bio), Status::Ok);
            bytes[place].copy_from_slice(&content);
        }
        assert!(mapped.read(striped, 0, model.len() as u32).unwrap() == bytes, "{text}");
        for (sector, (disk, at)) in model.into_iter().enumerate().step_by(7) {
            assert!(mapped.read(DeviceId(disk as u16), at, 1).unwrap() == bytes[sector * 512..][..512], "{text}");
        }
    }
}

#[test]
fn a_flush_reaches_every_device_once() {
    let mut mapped = desks(2);
    mapped.add("striped", "0 48 striped 3 8 a 0 b 0 a 64\n48 8 linear a 512").unwrap();
    mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(flush()));
    assert_eq!(end_all(&mut mapped, Status::Ok), ["a FLUSH 0+0", "b FLUSH 0+0"]);
    assert_eq!(mapped.rig.stack.poll_completion(mapped.rig.port).unwrap().status, Status::Ok);
}

#[test]
fn what_a_write_comes_after_is_flushed_on_all_devices_first() {
    let mut mapped = desks(3);
    mapped.add("striped", "0 48 striped 2 8 a 0 b 0\n48 8 linear c 0").unwrap();
    let mut sent = |bio| {
        mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(bio));
        let seen = end_all(&mut mapped, Status::Ok);
        assert_eq!(mapped.rig.stack.poll_completion(mapped.rig.port).unwrap().status, Status::Ok);
        seen
    };
    assert_eq!(sent(preflush(write(8, 8))), ["a FLUSH 0+0", "c FLUSH 0+0", "b WRITE 0+8 preflush"]);
    let all = ["a FLUSH 0+0", "b FLUSH 0+0", "c FLUSH 0+0"];
    assert_eq!(sent(preflush(write(4, 8))), [&all[..], &["a WRITE 4+4", "b WRITE 0+4"]].concat());
    let zeroes = preflush(range(Op::WriteZeroes, 0, 32));
    assert_eq!(sent(zeroes), [&all[..], &["a WRITE_ZEROES 0+16", "b WRITE_ZEROES 0+16"]].concat());
}

#[test]
fn a_failed_flush_keeps_the_write_back() {
    let mut mapped = desks(2);
    mapped.add("striped", "0 48 striped 2 8 a 0 b 0").unwrap();
    mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(preflush(write(0, 8))));
    assert_eq!(end_all(&mut mapped, Status::Medium), ["b FLUSH 0+0"]);
    assert_eq!(mapped.rig.stack.poll_completion(mapped.rig.port).unwrap().status, Status::Medium);
    assert_eq!(status(&mapped), "2 a b 1 AD");
}

#[test]
fn a_device_without_a_cache_still_waits_for_one_with() {
    let mut desk = MockDevice::regular();
    desk.limits_mut().write_cache = true;
    let mut mapped = Mapped::over([Box::new(desk) as Box<dyn BlockDevice>, Box::new(MockDevice::regular())]);
    mapped.add("striped", "0 48 striped 2 8 a 0 b 0").unwrap();
    mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(preflush(write(8, 8))));
    assert_eq!(end_all(&mut mapped, Status::Ok), ["a FLUSH 0+0", "b WRITE 0+8"]);
}

/// What the target of the one line says.
fn status(mapped: &Mapped) -> String {
    let mut text = String::new();
    mapped.rig.stack.status(target(mapped), &mut text).unwrap();
    text
}

/// The device of the target: what lies between the named devices and the table.
fn target(mapped: &Mapped) -> DeviceId {
    DeviceId(mapped.shelf.0.len() as u16 - 1)
}

#[test]
fn an_error_marks_the_stripes_of_its_device_and_raises_an_event_fourteen_times() {
    let mut mapped = desks(3);
    mapped.add("striped", "0 96 striped 4 8 a 0 b 0 c 0 b 64").unwrap();
    assert_eq!((status(&mapped).as_str(), mapped.rig.stack.events(target(&mapped))), ("4 a b c b 1 AAAA", 0));
    let mut fail = |bio, error| {
        mapped.rig.stack.submit(mapped.rig.port, 0, mapped.rig.top, Box::new(bio));
        end_all(&mut mapped, error);
        assert_eq!(mapped.rig.stack.poll_completion(mapped.rig.port).unwrap().status, error);
        (status(&mapped), mapped.rig.stack.events(target(&mapped)))
    };
    assert_eq!(fail(write(8, 8), Status::NotSupported).1, 0, "that is no failure of the device");
    assert_eq!(fail(read(26, 2), Status::Medium), ("4 a b c b 1 ADAD".into(), 1));
    for n in 2..=20 {
        assert_eq!(fail(write(8, 8), Status::Io).1, n.min(14));
    }
    let (text, events) = fail(range(Op::Discard, 18, 2), Status::Target);
    assert_eq!((text.as_str(), events), ("4 a b c b 1 ADDD", 15));
}

#[test]
fn a_bio_that_must_not_wait_is_not_cut() {
    let mut mapped = disks(2);
    mapped.add("striped", "0 64 striped 2 8 a 0 b 0").unwrap();
    assert_eq!(mapped.run(data(Op::Read, 0, 8, 0).with_flags(Flags::NOWAIT)), Status::Ok);
    assert_eq!(mapped.run(data(Op::Read, 4, 8, 0).with_flags(Flags::NOWAIT)), Status::Again);
}

#[test]
fn limits_are_the_stricter_of_all_stripes() {
    let plain = NullConfig { discard: true, max_sectors: Some(64), ..NullConfig::new(DISK) };
    let other = NullConfig { block_bytes: 4096, write_cache: true, max_sectors: Some(32), ..NullConfig::new(DISK) };
    let null = |config| Box::new(NullDevice::new(config).unwrap()) as Box<dyn BlockDevice>;
    let mut mapped = Mapped::over([null(&plain), null(&other)]);
    let striped = mapped.add("striped", "0 64 striped 2 8 a 4 b 0").unwrap();
    let limits = mapped.rig.stack.limits(striped);
    assert_eq!((limits.capacity, limits.logical_block_bytes, limits.max_sectors), (64, 4096, Some(32)));
    assert!(limits.write_cache && limits.max_discard.is_none());
}

#[test]
fn arguments_are_printed_so_that_they_can_be_read_again() {
    let text = "0 96 striped 4 8 a 0 b 0 two\\ words 0 b 64";
    let line = &shingle_core::dm::parse_table(text).unwrap()[0];
    let mut printed = String::new();
    line.write(&shingle_core::dm::View { shows_keys: false, device: None }, &mut printed).unwrap();
    assert_eq!(printed, text);
    assert_eq!(line.needs().collect::<Vec<_>>(), ["a", "b", "two words", "b"]);
}

#[test]
fn wrong_arguments_are_refused_with_their_place_and_the_next_step() {
    let coarse = NullConfig { block_bytes: 4096, ..NullConfig::new(DISK) };
    for (table, words) in [
        ("0 64 striped", "the number of stripes is missing; write `striped <number of stripes>"),
        ("0 64 striped two 8 a 0 b 0", "argument 1: striped: the number of stripes is `two`"),
        ("0 64 striped 0 8", "argument 1: striped: the number of stripes is 0: write 1 to 4096"),
        ("0 64 striped 5000 8", "argument 1: striped: the number of stripes is 5000"),
        ("0 64 striped 2 0 a 0 b 0", "argument 2: striped: the chunk size is 0"),
        ("0 64 striped 2", "the chunk size is missing"),
        ("0 64 striped 2 8 a 0 b", "argument 1: striped: the number of stripes is 2, but 3 words follow"),
        ("0 64 striped 2 8 a 0 b 0 c 0", "argument 7: striped: `c` is too much"),
        ("0 64 striped 2 8 a x b 0", "argument 4: striped: the start on the device is `x`"),
        (
            "0 60 striped 2 8 a 0 b 0",
            "the length is 60, no multiple of 2 stripes in chunks of 8: the next shorter one is 48",
        ),
        ("0 66 striped 3 8 a 0 b 0 a 64", "the length is 66"),
        ("0 64 striped 2 8 a 0 z 0", "argument 5: there is no device `z`"),
        ("0 64 striped 2 8 a 0 b 4090", "argument 6: `b`: sectors 4090+32 lie past the end"),
        ("0 24 striped 2 4 c 0 a 0", "whole blocks of 8 sectors"),
        ("0 32 striped 2 4 c 0 a 0", "argument 2: striped: the chunk size is 4, and `c` has blocks of 8 sectors"),
    ] {
        let null = |config| Box::new(NullDevice::new(config).unwrap()) as Box<dyn BlockDevice>;
        let plain = NullConfig::new(DISK);
        let mut mapped = Mapped::over([null(&plain), null(&plain), null(&coarse)]);
        let error = mapped.add("striped", table).err().unwrap_or_else(|| panic!("accepted: {table}"));
        assert!(error.starts_with("table line 1") && error.contains(words), "{table}: {error}");
    }
}

#[test]
fn chunks_can_be_stacked() {
    let mut mapped = disks(4).traced();
    mapped.add("left", "0 512 striped 2 8 a 0 b 0").unwrap();
    mapped.add("right", "0 512 striped 2 8 c 0 d 0").unwrap();
    let both = mapped.add("both", "0 1024 striped 2 16 left 0 right 0").unwrap();
    assert_eq!(mapped.run(data(Op::Write, 0, 64, 3)), Status::Ok);
    assert!(mapped.read(both, 0, 64).unwrap() == pattern(3, 64));
    let first: Vec<_> = mapped.arrivals(4).iter().take(8).map(|a| (a.device, Sector(a.sector))).collect();
    let at = |device: usize, sector| (device, Sector(sector));
    assert_eq!(first, [at(0, 0), at(1, 0), at(2, 0), at(3, 0), at(0, 8), at(1, 8), at(2, 8), at(3, 8)]);
}
