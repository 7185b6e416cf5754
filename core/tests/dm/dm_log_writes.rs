//! `log-writes`: the log is read back by a reader of the test's own, which knows the kernel's format and nothing of the
//! target, and replayed.

use std::collections::BTreeMap;

use shingle_core::block::{Bio, BlockDevice, Event, Flags, Op, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::parse_table;
use shingle_core::harness::MockDevice;
use shingle_core::mapper::Mapper;
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

use crate::desk::{flush, read, write};
use crate::mapped::{Mapped, bare, bytes, disk, filled, ms, refused};

const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// An entry, as the reader of xfstests finds it.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    sector: u64,
    sectors: u64,
    flags: u64,
    text: String,
    data: Vec<u8>,
}

/// Reads a log as `src/log-writes/log-writes.c` of xfstests does, and is as strict.
fn parse(log: &[u8]) -> Vec<Entry> {
    let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    assert_eq!(word(0), 0x6a736677736872, "the magic number");
    assert_eq!(word(8), 1, "the version");
    let block = u32::from_le_bytes(log[24..28].try_into().unwrap()) as usize;
    let mut at = block;
    let read_one = |_| {
        let [sector, sectors, flags, text_bytes] = [0, 8, 16, 24].map(|field| word(at + field));
        let behind_header = &log[at + 32..at + block];
        let text = String::from_utf8(behind_header[..text_bytes as usize].to_vec()).unwrap();
        assert!(behind_header[text_bytes as usize..].iter().all(|byte| *byte == 0), "a header is followed by zeroes");
        assert!(flags != 0 || sectors != 0, "an entry of nothing");
        at += block;
        let bytes = if flags & DISCARD != 0 { 0 } else { sectors as usize * block };
        at += bytes;
        let unit = block as u64 / 512;
        Entry { sector: sector * unit, sectors: sectors * unit, flags, text, data: log[at - bytes..at].to_vec() }
    };
    (0..word(16)).map(read_one).collect()
}

/// Short words for entries: `w8`, `fua8`, `flush`, `discard8`, `mark(x)`.
fn words(entries: &[Entry]) -> Vec<String> {
    let word = |entry: &Entry| match entry.flags {
        0 => format!("w{}", entry.sector),
        FLUSH => format!("flush{}", if entry.sectors > 0 { entry.sector.to_string() } else { String::new() }),
        FUA => format!("fua{}", entry.sector),
        DISCARD => format!("discard{}", entry.sector),
        MARK => format!("mark({})", entry.text),
        flags => format!("{flags}:{}", entry.sector),
    };
    entries.iter().map(word).collect()
}

fn replay(entries: &[Entry], sectors: u64) -> Vec<u8> {
    let mut disk = vec![0; sectors as usize * 512];
    for entry in entries {
        let range = entry.sector as usize * 512..(entry.sector + entry.sectors) as usize * 512;
        if entry.flags & DISCARD != 0 { disk[range].fill(0) } else { disk[range].copy_from_slice(&entry.data) }
    }
    disk
}

/// All bytes of a disk.
fn contents(mapped: &mut Mapped, name: &str) -> Vec<u8> {
    let (device, port) = (mapped.device(name), mapped.rig.stack.open_port());
    let sectors = mapped.rig.stack.limits(device).capacity as u32;
    mapped.rig.stack.submit(port, 0, device, Box::new(filled(Op::Read, 0, sectors, 0xee)));
    loop {
        match mapped.rig.stack.poll_completion(port) {
            Some(done) => return bytes(&done.bio),
            None => mapped.rig.now = mapped.rig.stack.turn(mapped.rig.now).unwrap_or(mapped.rig.now),
        }
    }
}

fn log_of(mapped: &mut Mapped) -> Vec<Entry> {
    parse(&contents(mapped, "b"))
}

/// A data disk with a cache that keeps bios until it is told how they ended, and a log on a disk with data.
fn by_hand() -> Mapped {
    let mut data = MockDevice::regular();
    (data.limits_mut().write_cache, data.limits_mut().max_discard) = (true, Some(u32::MAX));
    Mapped::new("0 1048576 log-writes a b", vec![("a", Box::new(data)), ("b", disk(4096))])
}

/// Ends the bio with this place on the data disk.
fn end(mapped: &mut Mapped, place: usize, status: Status) {
    let id = mapped.device("a");
    let number = mapped.rig.stack.device::<MockDevice>(id).unwrap().held()[place].number;
    mapped.rig.stack.with_device(id, |desk: &mut MockDevice, cx| desk.end(number, status, 0, cx));
    mapped.rig.turn();
}

fn fua(sector: u64) -> Bio {
    filled(Op::Write, sector, 8, 0xff).with_flags(Flags::FUA)
}

#[test]
fn writes_are_logged_in_the_order_in_which_they_were_done_by_the_next_flush_that_began_later() {
    // Wa,Wb,Wc,Cc,Ca,FLUSH,FUAd,Cb,CFLUSH,CFUAd as in the comment of drivers/md/dm-log-writes.c.
    let mut mapped = by_hand();
    for bio in [write(0, 8), write(8, 8), write(16, 8)] {
        mapped.rig.submit(bio);
    }
    end(&mut mapped, 2, Status::Ok);
    end(&mut mapped, 0, Status::Ok);
    mapped.rig.submit(flush());
    mapped.rig.submit(fua(24));
    end(&mut mapped, 0, Status::Ok);
    assert_eq!(mapped.status(), "0 0", "nothing is known to be durable");
    end(&mut mapped, 0, Status::Ok);
    end(&mut mapped, 0, Status::Ok);
    assert_eq!(words(&log_of(&mut mapped)), ["w16", "w0", "flush", "fua24"]);
    mapped.rig.submit(flush());
    end(&mut mapped, 0, Status::Ok);
    let log = log_of(&mut mapped);
    assert_eq!(words(&log)[4..], ["w8", "flush"]);
    assert_eq!((log[4].sectors, log[4].data.clone()), (8, bytes(&write(8, 8))));
    assert_eq!(mapped.status(), format!("6 {}", 6 + 4 * 8));
}

#[test]
fn what_was_submitted_is_logged_whatever_becomes_of_the_submitters_memory() {
    let mut mapped = by_hand();
    let bio = filled(Op::Write, 0, 8, 0x55);
    let shared = bio.payload.segments()[0].clone();
    mapped.rig.submit(bio);
    shared.fill(0x66);
    end(&mut mapped, 0, Status::Ok);
    mapped.rig.submit(flush());
    end(&mut mapped, 0, Status::Ok);
    assert_eq!(log_of(&mut mapped)[0].data, [0x55; 4096]);
}

#[test]
fn marks_are_logged_at_once_and_discards_like_writes() {
    let mut mapped = by_hand();
    for bio in [write(0, 8), bare(Op::Discard, 0, 64), write(8, 8)] {
        mapped.rig.submit(bio);
        end(&mut mapped, 0, Status::Ok);
    }
    mapped.message("mark mkfs").unwrap();
    assert_eq!(words(&log_of(&mut mapped)), ["mark(mkfs)"]);
    mapped.rig.submit(flush());
    end(&mut mapped, 0, Status::Ok);
    mapped.message("MARK x").unwrap();
    let log = log_of(&mut mapped);
    assert_eq!(words(&log), ["mark(mkfs)", "w0", "discard0", "w8", "flush", "mark(x)"]);
    assert_eq!((log[2].sectors, log[2].data.len()), (64, 0));
}

#[test]
fn a_write_with_preflush_is_logged_behind_what_it_flushed() {
    let mut mapped = by_hand();
    mapped.rig.submit(write(0, 8));
    end(&mut mapped, 0, Status::Ok);
    mapped.rig.submit(write(8, 8).with_flags(Flags::PREFLUSH));
    mapped.rig.submit(write(16, 8).with_flags(Flags::PREFLUSH.with(Flags::FUA)));
    end(&mut mapped, 0, Status::Ok);
    end(&mut mapped, 0, Status::Ok);
    assert_eq!(words(&log_of(&mut mapped)), ["w0", "flush8", "3:16"]);
}

#[test]
fn a_durable_write_is_logged_behind_what_it_was_written_over() {
    let mut mapped = by_hand();
    for sector in [0, 8, 16] {
        mapped.rig.submit(write(sector, 8));
        end(&mut mapped, 0, Status::Ok);
    }
    mapped.rig.submit(flush());
    mapped.rig.submit(filled(Op::Write, 12, 2, 0xff).with_flags(Flags::FUA));
    end(&mut mapped, 1, Status::Ok);
    assert_eq!(words(&log_of(&mut mapped)), ["w0", "w8", "fua12"], "in the order in which they were done");
    end(&mut mapped, 0, Status::Ok);
    assert_eq!(words(&log_of(&mut mapped))[3..], ["w16", "flush"]);
}

#[test]
fn failed_writes_are_not_logged_and_a_failed_flush_covers_nothing() {
    let mut mapped = by_hand();
    mapped.rig.submit(write(0, 8));
    end(&mut mapped, 0, Status::Medium);
    mapped.rig.submit(write(8, 8));
    end(&mut mapped, 0, Status::Ok);
    mapped.rig.submit(flush());
    end(&mut mapped, 0, Status::Io);
    mapped.rig.submit(fua(64));
    end(&mut mapped, 0, Status::Ok);
    assert_eq!(words(&log_of(&mut mapped)), ["fua64"]);
    mapped.rig.submit(flush());
    end(&mut mapped, 0, Status::Ok);
    assert_eq!(words(&log_of(&mut mapped)), ["fua64", "w8", "flush"]);
    let statuses: Vec<Status> = mapped.ended().into_iter().map(|(_, status)| status).collect();
    assert_eq!(statuses, [Status::Medium, Status::Ok, Status::Io, Status::Ok, Status::Ok]);
}

/// A random load on a disk that takes some time for each bio, with a mark at every moment at which nothing is in flight
/// and all is flushed; returns the marks and what the disk was then.
fn random_load(mapped: &mut Mapped, seed: u64, sectors: u64) -> BTreeMap<String, Vec<u8>> {
    let (mut rng, mut snapshots) = (Rng::new(seed), BTreeMap::new());
    for round in 0..40 {
        for _ in 0..rng.below(30) {
            // Those in flight together do not overlap: which of two such writes lasts nobody knows.
            let mut free: Vec<u64> = (0..sectors / 8).collect();
            for _ in 0..1 + rng.below(4) {
                let sector = free.remove(rng.below(free.len() as u64) as usize) * 8 + rng.below(4);
                let bio = match rng.below(12) {
                    0 => bare(Op::Discard, sector, 4),
                    1 => flush(),
                    kind => {
                        let flags = [Flags::FUA, Flags::PREFLUSH, Flags::FUA.with(Flags::PREFLUSH)];
                        let flags = flags.get(kind as usize - 2).copied().unwrap_or(Flags::NONE);
                        filled(Op::Write, sector, 1 + rng.below(4) as u32, rng.draw() as u8).with_flags(flags)
                    }
                };
                mapped.rig.submit(bio);
            }
            mapped.rig.pass(ms(1));
        }
        assert_eq!(mapped.finish(flush()).status, Status::Ok);
        mapped.message(&format!("mark m{round}")).unwrap();
        snapshots.insert(format!("m{round}"), contents(mapped, "a"));
    }
    assert!(mapped.ended().iter().all(|(_, status)| status.is_ok()));
    snapshots
}

fn slow_disk(sectors: u64, write_cache: bool, discards: bool) -> Box<dyn BlockDevice> {
    let config = NullConfig {
        memory_backed: true,
        write_cache,
        discard: discards,
        completion: Duration::from_micros(100),
        ..NullConfig::new(sectors)
    };
    Box::new(NullDevice::new(&config).unwrap())
}

#[test]
fn a_replay_up_to_each_mark_gives_the_disk_as_it_was_then() {
    const SECTORS: u64 = 512;
    for seed in 0..6 {
        let devices = vec![("a", slow_disk(SECTORS, true, true)), ("b", disk(32 * 1024))];
        let mut mapped = Mapped::new("0 512 log-writes a b", devices);
        let snapshots = random_load(&mut mapped, seed, SECTORS);
        mapped.event(Event::Suspend { push_back: false });
        mapped.rig.pass(ms(1));
        let log = log_of(&mut mapped);
        assert_eq!(words(&log).last().unwrap(), "mark(dm-log-writes-end)");
        for (mark, disk) in &snapshots {
            let end = log.iter().position(|entry| entry.text == *mark).expect("every mark is in the log");
            assert!(replay(&log[..end], SECTORS) == *disk, "seed {seed}, mark {mark}");
        }
        assert!(replay(&log, SECTORS) == contents(&mut mapped, "a"), "seed {seed}: all of it");
    }
}

#[test]
fn a_replay_up_to_any_flush_has_all_that_was_done_before_it_began() {
    // One write at a time, each sector once: whatever was done before a flush has to be in front of it.
    let mut mapped = by_hand();
    let (mut rng, mut done, mut required) = (Rng::new(11), vec![], vec![]);
    for sector in 0..300u64 {
        match rng.below(4) {
            0 => {
                mapped.rig.submit(flush());
                required.push(done.clone());
            }
            _ => drop(mapped.rig.submit(write(sector * 8, 8))),
        }
        while rng.chance(1, 2) && !mapped.at("a").is_empty() {
            let place = rng.below(mapped.at("a").len() as u64) as usize;
            let bio = mapped.at("a")[place].clone();
            // Flushes end in their order here, so that the nth in the log is the nth that was sent.
            if bio.starts_with("FLUSH") && mapped.at("a")[..place].iter().any(|other| other.starts_with("FLUSH")) {
                continue;
            }
            end(&mut mapped, place, Status::Ok);
            if let Some(sector) = bio.strip_prefix("WRITE ") {
                done.push(format!("w{}", sector.split('+').next().unwrap()));
            }
        }
    }
    mapped.end_all("a");
    let log = words(&log_of(&mut mapped));
    let flushes: Vec<usize> = (0..log.len()).filter(|place| log[*place] == "flush").collect();
    assert_eq!(flushes.len(), required.len());
    for (flush, required) in flushes.iter().zip(&required) {
        assert!(
            required.iter().all(|write| log[..*flush].contains(write)),
            "flush at {flush}: {required:?} in {log:?}"
        );
    }
    let logged: Vec<&String> = log.iter().filter(|word| word.starts_with('w')).collect();
    assert!(logged.iter().zip(&done).all(|(logged, done)| *logged == done), "in the order in which they were done");
}

#[test]
fn a_disk_without_a_cache_and_without_discards_is_logged_too() {
    let devices = vec![("a", slow_disk(512, false, false)), ("b", disk(32 * 1024))];
    let mut mapped = Mapped::new("0 512 log-writes a b", devices);
    let status = |mapped: &mut Mapped, bio| mapped.finish(bio).status;
    for bio in [write(0, 8), bare(Op::Discard, 64, 8), fua(8), write(16, 8).with_flags(Flags::PREFLUSH), flush()] {
        assert_eq!(status(&mut mapped, bio), Status::Ok);
    }
    assert_eq!(words(&log_of(&mut mapped)), ["fua8", "w0", "discard64", "flush16", "flush"]);
    assert_eq!(mapped.rig.stack.counters(mapped.device("a")).ios[Op::Flush as usize], 0);
    mapped.rig.submit(write(24, 8));
    mapped.rig.pass(ms(1));
    mapped.event(Event::Suspend { push_back: false });
    assert_eq!(words(&log_of(&mut mapped))[5..], ["w24", "mark(dm-log-writes-end)"]);
}

#[test]
fn a_suspend_brings_the_log_to_an_end_and_a_resume_goes_on_before_it() {
    let mut mapped = by_hand();
    mapped.rig.submit(write(0, 8));
    mapped.event(Event::Suspend { push_back: true });
    assert_eq!(mapped.at("a"), ["WRITE 0+8"], "what is in flight is waited for");
    mapped.end("a", Status::Ok);
    assert_eq!(mapped.at("a"), ["FLUSH 0+0"], "a flush of our own: what is logged is durable");
    mapped.end("a", Status::Ok);
    assert_eq!(words(&log_of(&mut mapped)), ["w0", "mark(dm-log-writes-end)"]);
    mapped.event(Event::Resume);
    mapped.rig.submit(fua(8));
    mapped.end("a", Status::Ok);
    assert_eq!(words(&log_of(&mut mapped)), ["w0", "fua8"], "one end is enough");
    mapped.message("mark dm-log-writes-end").unwrap();
    mapped.message("mark more").unwrap();
    assert_eq!(
        words(&log_of(&mut mapped))[2..],
        ["mark(dm-log-writes-end)", "mark(more)"],
        "a mark of the user's stays"
    );
    mapped.event(Event::Suspend { push_back: false });
    mapped.event(Event::Suspend { push_back: false });
    assert_eq!(words(&log_of(&mut mapped))[3..], ["mark(more)", "mark(dm-log-writes-end)"]);
}

#[test]
fn an_unused_table_writes_nothing_and_an_empty_log_has_its_end() {
    let mut mapped = by_hand();
    assert!(contents(&mut mapped, "b").iter().all(|byte| *byte == 0));
    mapped.event(Event::Suspend { push_back: false });
    assert_eq!(words(&log_of(&mut mapped)), ["mark(dm-log-writes-end)"]);
}

#[test]
fn a_device_that_is_removed_ends_its_log_and_an_inactive_table_leaves_it_alone() {
    let mut stack = Stack::new();
    let data = stack.add(slow_disk(512, true, true)).unwrap();
    let [log, other] = [0, 1].map(|_| stack.add(disk(4096)).unwrap());
    let resolver = |name: &str| match name {
        "data" => Ok(data),
        "log" => Ok(log),
        _ => Ok(other),
    };
    let (mut mapper, mut now) = (Mapper::new(), Instant::ZERO);
    let mut turn = |stack: &mut Stack, mapper: &mut Mapper| {
        now = stack.turn(now).unwrap_or(now);
        mapper.poll(now, (stack, &resolver));
    };
    mapper.create("logged", "").unwrap();
    let load = |stack: &mut Stack, mapper: &mut Mapper, log: &str| {
        let lines = parse_table(&format!("0 512 log-writes data {log}")).unwrap();
        mapper.load("logged", lines, false, (stack, &resolver)).unwrap();
    };
    load(&mut stack, &mut mapper, "log");
    mapper.resume("logged", false, &mut stack).unwrap();
    turn(&mut stack, &mut mapper);
    let (port, top) = (stack.open_port(), mapper.device("logged").unwrap());
    stack.submit(port, 0, top, Box::new(write(0, 8)));
    while stack.poll_completion(port).is_none() {
        turn(&mut stack, &mut mapper);
    }
    load(&mut stack, &mut mapper, "other");
    mapper.remove("logged", false, &mut stack).unwrap();
    while stack.has_abandoned() {
        turn(&mut stack, &mut mapper);
    }
    let mut read_all = |device| {
        stack.submit(port, 0, device, Box::new(filled(Op::Read, 0, 4096, 0xee)));
        stack.turn(Instant::ZERO);
        bytes(&stack.poll_completion(port).unwrap().bio)
    };
    assert_eq!(words(&parse(&read_all(log))), ["w0", "mark(dm-log-writes-end)"]);
    assert!(read_all(other).iter().all(|byte| *byte == 0));
}

#[test]
fn what_lies_below_a_removed_device_keeps_its_length_until_the_log_has_its_end() {
    let mut stack = Stack::new();
    let [data, log] = [512, 4096].map(|sectors| stack.add(slow_disk(sectors, true, false)).unwrap());
    let disks = |name: &str| Ok(if name == "data" { data } else { log });
    let (mut mapper, mut now) = (Mapper::new(), Instant::ZERO);
    let load = |stack: &mut Stack, mapper: &mut Mapper, name: &str, table: &str| {
        mapper.load(name, parse_table(table).unwrap(), false, (stack, &disks))
    };
    for (name, table) in [("below", "0 4096 linear log 0"), ("logged", "0 512 log-writes data below")] {
        mapper.create(name, "").unwrap();
        load(&mut stack, &mut mapper, name, table).unwrap();
        mapper.resume(name, false, &mut stack).unwrap();
        mapper.poll(now, (&mut stack, &disks));
    }
    mapper.remove("logged", false, &mut stack).unwrap();
    let shorter = "0 8 linear log 0";
    assert!(load(&mut stack, &mut mapper, "below", shorter).is_err(), "the end of the log is on its way");
    while stack.has_abandoned() {
        now = stack.turn(now).unwrap_or(now);
    }
    load(&mut stack, &mut mapper, "below", shorter).unwrap();
}

#[test]
fn the_super_block_never_counts_an_entry_that_is_not_there() {
    let mut mapped = Mapped::over_desks("0 1048576 log-writes a b");
    for sector in [0, 8] {
        mapped.rig.submit(fua(sector));
        mapped.end("a", Status::Ok);
    }
    assert_eq!(mapped.at("b"), ["WRITE 0+1", "WRITE 1+9"], "an empty log in place of what was there before");
    mapped.end("b", Status::Ok);
    assert_eq!(mapped.at("b"), ["WRITE 1+9"], "entries wait for the super block that counts those before them");
    mapped.end("b", Status::Ok);
    assert_eq!(mapped.at("b"), ["WRITE 0+1", "WRITE 10+9"]);
    assert_eq!(mapped.bytes_at("b")[16], 1);
    mapped.end("b", Status::Ok);
    mapped.end("b", Status::Ok);
    assert_eq!((mapped.at("b"), mapped.bytes_at("b")[16]), (vec!["WRITE 0+1".into()], 2));
}

#[test]
fn logging_ends_when_the_log_is_full_and_writing_does_not() {
    let devices = vec![("a", slow_disk(512, true, true)), ("b", disk(30))];
    let mut mapped = Mapped::new("0 512 log-writes a b", devices);
    for sector in [0, 8, 16, 24] {
        assert_eq!(mapped.finish(fua(sector)).status, Status::Ok);
    }
    mapped.rig.pass(ms(1));
    assert_eq!(words(&log_of(&mut mapped)), ["fua0", "fua8", "fua16"]);
    assert_eq!((mapped.status().as_str(), mapped.rig.stack.events(mapped.target)), ("3 27 logging_disabled", 1));
    assert!(mapped.message("mark x").unwrap_err().contains("load the table again"));
    assert_eq!(mapped.finish(write(32, 8)).status, Status::Ok);
    assert_eq!(mapped.finish(bare(Op::Discard, 32, 8)).status, Status::Ok);
    assert_eq!(mapped.finish(flush()).status, Status::Ok);
    mapped.event(Event::Suspend { push_back: false });
    assert_eq!(log_of(&mut mapped).len(), 3);
}

#[test]
fn logging_ends_when_the_log_device_fails() {
    let mut mapped = Mapped::over_desks("0 1048576 log-writes a b");
    mapped.rig.submit(fua(0));
    mapped.end("a", Status::Ok);
    mapped.end("b", Status::Ok);
    mapped.end("b", Status::Medium);
    assert_eq!(mapped.status(), "1 9 logging_disabled");
    mapped.rig.submit(fua(8));
    mapped.end("a", Status::Ok);
    assert_eq!((mapped.ended().len(), mapped.at("b").len()), (2, 0), "writers do not notice");
}

#[test]
fn when_memory_is_used_up_writes_wait_and_what_was_done_is_flushed_and_logged() {
    let mut mapped = Mapped::over_desks("0 1048576 log-writes a b");
    let mebibyte = |n: u64| filled(Op::Write, n * 2048, 2048, n as u8);
    (0..40).for_each(|n| {
        mapped.rig.submit(mebibyte(n));
    });
    let at_disk = mapped.at("a").len();
    assert!((30..40).contains(&at_disk), "{at_disk} MiB and their headers");
    let mut held = 0;
    mapped.rig.stack.held(&mut |_, bio| held += usize::from(bio.op == Op::Write));
    assert_eq!(held, 40, "those that wait are shown");
    let refused = mapped.rig.submit(mebibyte(50).with_flags(Flags::NOWAIT));
    assert_eq!(mapped.ended(), [(refused, Status::Again)]);
    mapped.end("a", Status::Ok);
    assert_eq!(mapped.at("a").last().unwrap(), "FLUSH 0+0");
    (0..at_disk).for_each(|_| mapped.end("a", Status::Ok));
    while !(mapped.at("a").is_empty() && mapped.at("b").is_empty()) {
        mapped.end_all("a");
        mapped.end_all("b");
    }
    assert_eq!(mapped.ended().len(), 40);
    mapped.rig.submit(flush());
    mapped.end_all("a");
    mapped.end_all("b");
    assert!(mapped.status().starts_with("41 "), "all of them, and one flush: {}", mapped.status());
}

#[test]
fn a_flush_of_our_own_that_fails_ends_the_log_and_lets_the_writes_go() {
    let mut mapped = Mapped::over_desks("0 1048576 log-writes a b");
    (0..40).for_each(|n| {
        mapped.rig.submit(filled(Op::Write, n * 2048, 2048, 1));
    });
    let at_disk = mapped.at("a").len();
    (0..at_disk).for_each(|_| mapped.end("a", Status::Ok));
    assert_eq!(mapped.at("a"), ["FLUSH 0+0"]);
    mapped.end("a", Status::Io);
    mapped.end_all("a");
    assert_eq!(mapped.ended().len(), 40);
    assert!(mapped.status().ends_with("logging_disabled"));
}

#[test]
fn numbers_in_the_log_are_of_the_data_devices_blocks() {
    let config = NullConfig { memory_backed: true, block_bytes: 4096, ..NullConfig::new(4096) };
    let data = || Box::new(NullDevice::new(&config).unwrap()) as Box<dyn BlockDevice>;
    let mut mapped = Mapped::new("0 4096 log-writes a b", vec![("a", data()), ("b", disk(4096))]);
    mapped.finish(fua(24));
    let log = contents(&mut mapped, "b");
    assert_eq!((log[24..28].to_vec(), log[4096], log[4096 + 8]), (4096u32.to_le_bytes().to_vec(), 3, 1));
    assert_eq!(words(&parse(&log)), ["fua24"]);
    let longest = "x".repeat(4096 - 33);
    assert_eq!(mapped.message(&format!("mark {longest}")).as_deref(), Ok(""));
    assert_eq!(log_of(&mut mapped)[1].text, longest);
    assert!(mapped.message(&format!("mark {longest}x")).unwrap_err().contains("at most 4063"));
    let error = Mapped::try_new("0 4096 log-writes b a", vec![("a", data()), ("b", disk(4096))]).err().unwrap();
    assert!(error.contains("argument 2") && error.contains("has blocks of 4096 bytes"), "{error}");
}

#[test]
fn reads_are_not_logged_and_long_writes_are_cut() {
    let mut mapped = Mapped::over_desks("0 1048576 log-writes a b");
    mapped.rig.submit(read(0, 8));
    mapped.rig.submit(filled(Op::Write, 0, 3000, 1));
    assert_eq!(mapped.at("a"), ["READ 0+8", "WRITE 0+2048", "WRITE 2048+952"]);
    let zeroes = mapped.rig.submit(bare(Op::WriteZeroes, 0, 8));
    assert_eq!(mapped.ended(), [(zeroes, Status::NotSupported)]);
}

#[test]
fn a_wrong_line_or_message_is_refused_with_its_argument() {
    assert_eq!(by_hand().table(), "0 1048576 log-writes a b");
    refused("0 8 log-writes a", &["the device is missing", "log-writes <device> <log device>"]);
    refused("0 8 log-writes a b c", &["argument 3", "too much"]);
    refused("0 8 log-writes a a", &["argument 2", "cannot log to itself"]);
    refused("0 8 log-writes a c", &["argument 2", "known devices are: a, b"]);
    refused("0 9999999 log-writes a b", &["argument 1", "past the end"]);
    for (table, argument) in [("0 512 log-writes z a", "argument 1"), ("0 512 log-writes a z", "argument 2")] {
        let error = Mapped::over_zones(table).err().unwrap();
        assert!(error.contains(argument) && error.contains("`z` is zoned"), "{error}");
    }
    let mut log = MockDevice::regular();
    log.limits_mut().max_sectors = Some(1);
    let error = Mapped::try_new("0 8 log-writes a b", vec![("a", disk(64)), ("b", Box::new(log))]).err().unwrap();
    assert!(error.contains("argument 2") && error.contains("two blocks at once"), "{error}");
    for message in ["mark", "mark two words", "unmark x", ""] {
        assert!(by_hand().message(message).unwrap_err().contains("write mark <word>"), "{message}");
    }
}
