//! Arbitrary bytes, and arbitrary chunks with checksums that are right, for the reader of recordings: it never panics, and what
//! it accepts can be summed up and replayed on any device.

use arbitrary::Arbitrary;
use libfuzzer_sys::Corpus;
use shingle_core::block::{Limits, Status, ZonedLimits};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::{Condition, Zone, ZoneKind};
use shingle_host::trace::{Summary, read, work_of};
use shingle_lab::replay::Script;
use shingle_sim::workload::replay::{Fit, Next, Pace, Player, PlayerOptions};

use crate::of_value;

#[derive(Arbitrary, Debug)]
struct Input {
    raw: Option<Vec<u8>>,
    chunks: Vec<(u8, Vec<u8>)>,
    zoned: bool,
    /// Bits of how the bios of the replay end.
    failures: u64,
}

/// Runs one input.
pub fn run(bytes: &[u8]) -> Corpus {
    of_value(bytes, fuzz)
}

fn fuzz(input: Input) {
    let bytes = input.raw.unwrap_or_else(|| file(&input.chunks));
    let Ok(recording) = read(bytes.as_slice()) else { return };
    for place in 0..recording.devices.len() as u16 {
        let _ = Summary::new(&recording.devices[usize::from(place)], &work_of(&recording, place)).to_json();
        play(Script::of(&recording, place), input.zoned, input.failures);
    }
}

/// A file of these chunks, as far as they can have the length, with its end.
fn file(chunks: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = [&b"shgltrc\n"[..], &1_u32.to_le_bytes(), &[0; 16]].concat();
    seal(&mut bytes, 0);
    let mut entries = 0;
    for (kind, content) in chunks {
        let (kind, unit) = [(b"DEVS", 192), (b"EVTS", 32), (b"ZONE", 16)][usize::from(kind % 3)];
        let mut content = content.clone();
        content.resize(content.len().next_multiple_of(unit).max(unit), 0);
        entries += if kind == b"EVTS" { content.len() as u64 / 32 } else { 0 };
        chunk(&mut bytes, kind, &content);
    }
    chunk(&mut bytes, b"DONE", &[&entries.to_le_bytes()[..], &[0; 24]].concat());
    bytes
}

fn chunk(bytes: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    let start = bytes.len();
    bytes.extend(kind);
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes.extend(content);
    seal(bytes, start);
}

fn seal(bytes: &mut Vec<u8>, start: usize) {
    let check = crc32c::crc32c(&bytes[start..]);
    bytes.extend(check.to_le_bytes());
}

fn play(script: Script, zoned: bool, mut failures: u64) {
    let zones: Vec<Zone> = (0..8).map(zone).collect();
    let limits = Limits {
        logical_block_bytes: 4096,
        physical_block_bytes: 4096,
        zoned: zoned.then(|| ZonedLimits { write_granularity_bytes: 4096, ..ZonedLimits::new(256) }),
        ..Limits::new(8 * 256)
    };
    let report = if zoned { zones.as_slice() } else { &[] };
    // The memory of the longest bio is not what is tested.
    if script.work.iter().any(|work| work.op.has_data() && work.sectors > 1 << 12) {
        return;
    }
    let Ok(fit) = Fit::new(script.origin, &script.work, &limits, report) else { return };
    let mut player = Player::new(script.work, fit, PlayerOptions { pace: Pace::Max, depth: 4 });
    let mut out = std::collections::VecDeque::new();
    loop {
        match player.next(Instant(1)) {
            Next::Submit(tag, bio) => {
                assert!(bio.end().0 <= limits.capacity, "{bio:?} lies past the end");
                out.push_back(tag);
            }
            Next::Done => break,
            Next::At(_) | Next::Wait => {
                failures = failures.rotate_left(1);
                let status = if failures & 1 == 0 { Status::Ok } else { Status::Io };
                player.complete(out.pop_front().expect("it waits for something"), status, Instant(2));
            }
        }
    }
    assert!(player.is_done());
}

fn zone(number: u64) -> Zone {
    let conventional = number < 2;
    Zone {
        start: Sector(number * 256),
        len: 256,
        capacity: if conventional { 256 } else { 248 },
        wp: Sector(number * 256 + 8 * (number % 3)),
        kind: if conventional { ZoneKind::Conventional } else { ZoneKind::Sequential },
        cond: if conventional { Condition::NotWp } else { Condition::Closed },
    }
}
