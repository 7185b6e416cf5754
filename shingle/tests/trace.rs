//! Recordings: what the file keeps, what damage does to it, and the program as users run it on a daemon.

use shingle::trace::{
    Asked, Damage, End, EndReason, Entry, ReadError, RecordedDevice, Recording, Summary, Writer, ZoneStart, read,
    work_of,
};
use shingle_core::block::{Action, DeviceId, Flags, Limits, Op, Status, TraceEvent, ZonedLimits};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::{Condition, ZoneKind};

fn device(name: &str) -> RecordedDevice {
    let limits = Limits {
        rotational: true,
        zoned: Some(ZonedLimits { max_open: Some(8), ..ZonedLimits::new(2048) }),
        ..Limits::new(1 << 20)
    };
    RecordedDevice::new(name.into(), 0, true, &limits)
}

fn event(at: u64, action: Action, number: u32, sector: u64) -> TraceEvent {
    TraceEvent {
        at: Instant(at),
        action,
        device: DeviceId(0),
        number,
        depth: u8::from(action != Action::Queue),
        returned: action == Action::Complete,
        op: Op::Write,
        flags: Flags::NONE,
        sector: Sector(sector),
        sectors: 8,
        status: Status::Ok,
    }
}

/// `bios` writes, one after the other, each with its three events.
fn recording(bios: u32) -> Recording {
    let hops = |n: u32| {
        let (at, sector) = (u64::from(n) * 1000, u64::from(n) * 8);
        let event = move |after, action| Entry::Hop(event(at + after, action, n + 1, sector));
        [event(0, Action::Queue), event(100, Action::Dispatch), event(700, Action::Complete)]
    };
    let mut entries: Vec<Entry> = (0..bios).flat_map(hops).collect();
    entries.push(Entry::Lost { at: Instant(u64::from(bios) * 1000), shard: 0, count: 3 });
    let zone =
        ZoneStart { device: 0, zone: 7, kind: ZoneKind::Sequential, cond: Condition::Closed, wp: 24, capacity: 2000 };
    Recording {
        started_unix_ns: 1_700_000_000_123_456_789,
        devices: vec![device("smr"), device("smr/disk")],
        entries,
        zones: vec![zone],
        end: End { lost: 3, at: u64::from(bios) * 1000, reason: EndReason::Stopped },
    }
}

fn bytes_of(recording: &Recording) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), recording.started_unix_ns, &recording.devices).unwrap();
    recording.entries.iter().for_each(|entry| writer.push(entry).unwrap());
    writer.finish(&recording.zones, recording.end).unwrap()
}

#[test]
fn what_was_written_is_what_is_read() {
    for bios in [0, 1, 5000] {
        let recording = recording(bios);
        assert_eq!(read(bytes_of(&recording).as_slice()).unwrap(), recording, "{bios} bios");
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused_at_the_byte_where_the_missing_part_begins() {
    let bytes = bytes_of(&recording(300));
    let starts = chunk_starts(&bytes);
    for end in (0..bytes.len()).step_by(7).chain(starts.iter().copied()) {
        let ReadError { offset, damage } = read(&bytes[..end]).unwrap_err();
        let begins = if end < 32 { 0 } else { *starts.iter().rfind(|start| **start <= end).unwrap() as u64 };
        assert_eq!(offset, begins, "cut off at {end}: {damage:?}");
        let expected = match end {
            0..8 => matches!(damage, Damage::NoRecording),
            end if starts.contains(&end) => matches!(damage, Damage::NoEnd),
            _ => matches!(damage, Damage::Truncated(_)),
        };
        assert!(expected, "cut off at {end}: {damage:?}");
    }
}

/// Where the chunks of a good file begin.
fn chunk_starts(bytes: &[u8]) -> Vec<usize> {
    let length = |at: usize| u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    let next = |at: &usize| Some(at + 12 + length(*at)).filter(|next| *next < bytes.len());
    std::iter::successors(Some(32), next).collect()
}

#[test]
fn every_single_bit_that_flips_is_found() {
    let bytes = bytes_of(&recording(3));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(damaged.as_slice()).is_err(), "bit {} of byte {} went unnoticed", bit % 8, bit / 8);
    }
}

#[test]
fn an_error_names_the_byte_the_part_and_what_to_do() {
    let bytes = bytes_of(&recording(3));
    let says = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(says(b"#!/bin/sh\n").contains("at byte 0: it does not begin as a recording"));
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert!(says(&newer).contains("at byte 8: it is of format version 2, and this program knows version 1 only"));
    let mut damaged = bytes.clone();
    damaged[32 + 100] ^= 1;
    assert!(says(&damaged).starts_with("at byte 32: the checksum of the list of devices"), "{}", says(&damaged));
    assert!(says(&bytes[..bytes.len() - 1]).contains("it was cut off; record again"));
    assert!(says(&[bytes.as_slice(), b"x"].concat()).contains("after the last chunk"));
    let events = chunk_starts(&bytes)[1];
    let without = [&bytes[..events], &bytes[chunk_starts(&bytes)[2]..]].concat();
    assert!(says(&without).contains("counts 10 entries, but the file has 0"), "{}", says(&without));
}

#[test]
fn whatever_the_bytes_are_the_reader_returns() {
    let mut rng = Rng::new(3);
    let good = bytes_of(&recording(40));
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.draw() as u8;
        }
        if rng.chance(1, 8) {
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        }
        let starts = if rng.chance(1, 2) { chunk_starts(&good) } else { Vec::new() };
        // With checksums that are right the values behind them are what is tested.
        starts.iter().for_each(|start| mend(&mut bytes, *start));
        if let Ok(recording) = read(bytes.as_slice()) {
            accepted += 1;
            // What is accepted can be worked with.
            (0..3).for_each(|device| drop(work_of(&recording, device)));
            let work = work_of(&recording, 0);
            let _ = Summary::new(&recording.devices[0], &work).to_json();
        }
    }
    assert!(
        (2_000..15_000).contains(&accepted),
        "{accepted} of 20000 were accepted: the test does not try what it should"
    );
    for length in (0..200).chain([4096, 70_000]) {
        let noise: Vec<u8> = (0..length).map(|_| rng.draw() as u8).collect();
        assert!(read(noise.as_slice()).is_err());
    }
}

/// Makes the checksum of the chunk that began at `start` right again.
fn mend(bytes: &mut [u8], start: usize) {
    let Some(length) = bytes.get(start + 4..start + 8) else { return };
    let end = start + 8 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
    if end + 4 <= bytes.len() {
        let check = crc32c::crc32c(&bytes[start..end]);
        bytes[end..end + 4].copy_from_slice(&check.to_le_bytes());
    }
}

#[test]
fn a_bio_counts_once_as_it_was_handed_over_and_ends_when_its_submitter_has_it_back() {
    let mut recording = recording(2);
    // The second one is split: the pieces have its number, and only the whole returns.
    let piece =
        |at, action, sector| Entry::Hop(TraceEvent { returned: false, sectors: 4, ..event(at, action, 2, sector) });
    let pieces = [
        piece(1150, Action::Dispatch, 8),
        piece(1150, Action::Dispatch, 12),
        piece(1300, Action::Complete, 8),
        piece(1400, Action::Complete, 12),
    ];
    recording.entries.splice(5..5, pieces);
    let work = work_of(&recording, 0);
    let brief = |asked: &Asked| (asked.at.0, asked.sector.0, asked.sectors, asked.done.map(|(at, _)| at.0));
    assert_eq!(work.iter().map(brief).collect::<Vec<_>>(), [(0, 0, 8, Some(700)), (1000, 8, 8, Some(1700))]);
    let summary = Summary::new(&recording.devices[0], &work);
    let writes = &summary.ops[&Op::Write];
    assert_eq!((writes.count, writes.bytes, writes.sequential, writes.unfinished), (2, 8192, 1, 0));
    assert_eq!((summary.most_in_flight, summary.span), (1, 1700));
}

#[test]
fn a_bio_whose_end_was_lost_is_not_taken_for_one_in_flight() {
    let mut recording = recording(3);
    recording.entries.remove(2);
    recording.entries.insert(2, Entry::Lost { at: Instant(800), shard: 0, count: 1 });
    let work = work_of(&recording, 0);
    assert_eq!(work.iter().map(|asked| asked.done.is_some()).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(Summary::new(&recording.devices[0], &work).most_in_flight, 1);
}
