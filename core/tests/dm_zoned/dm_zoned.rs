//! The target `zoned` as a disk: what is written is read, whatever happens below.

use std::ops::Range;

use shingle_core::block::{Bio, Op, Payload, Status};
use shingle_core::dm::zoned::format::Media;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Duration;

use crate::zoned::{Volume, ZONE, disk, first_bytes, fua, read, write};

#[test]
fn what_was_never_written_reads_as_zeroes() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    assert_eq!(volume.read(0, ZONE * 3), vec![0; ZONE as usize * 3]);
    assert_eq!(volume.status(), "40 zones 0/0 cache 6/6 random 28/28 sequential");
}

#[test]
fn a_stream_is_written_once_to_sequential_zones() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    (0..8).for_each(|n| volume.write(n * 16, 16, n as u8 + 1));
    let counters = volume.counters();
    assert_eq!((counters.direct_blocks, counters.random_blocks, counters.copied_blocks), (128, 0, 0));
    assert_eq!(volume.status(), "40 zones 0/0 cache 6/6 random 26/28 sequential");
    assert_eq!(volume.read(0, 128), (0..8).flat_map(|n| [n + 1; 16]).collect::<Vec<u8>>());
}

#[test]
fn a_rewrite_goes_to_a_buffer_and_is_merged_in_one_pass() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    volume.write(0, ZONE, 1);
    volume.write(10, 5, 2);
    assert_eq!(volume.status(), "40 zones 0/0 cache 5/6 random 27/28 sequential");
    volume.message("reclaim");
    volume.rig.pass(Duration::from_millis(60_000));
    assert_eq!(volume.status(), "40 zones 0/0 cache 6/6 random 27/28 sequential");
    assert_eq!(volume.counters().copied_blocks, u64::from(ZONE));
    let expected = [vec![1; 10], vec![2; 5], vec![1; ZONE as usize - 15]].concat();
    assert_eq!(volume.read(0, ZONE), expected);
}

#[test]
fn a_copy_leaves_zeroes_in_the_holes_of_its_windows_and_nothing_that_it_copied_before() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    // Windows of 4 blocks, in which no hole is read through.
    for knob in ["window_blocks 64", "flash_share 16", "gap_blocks 0"] {
        volume.message(&format!("set {knob}"));
    }
    (0..ZONE).for_each(|block| volume.write(block.into(), 1, block as u8 + 1));
    volume.write(40, 2, 0xbb);
    [17..19, 30..31, 42..43].into_iter().for_each(|hole: Range<u64>| volume.discard(hole.start, hole.count() as u32));
    volume.message("reclaim");
    volume.rig.pass(Duration::from_millis(60_000));
    let content = |block: u8| match block {
        17 | 18 | 30 | 42 => 0,
        40 | 41 => 0xbb,
        _ => block + 1,
    };
    let expected: Vec<u8> = (0..ZONE as u8).map(content).collect();
    assert_eq!(volume.read(0, ZONE), expected);
    volume.stop();
    // The zone itself, without the bitmap that hides its holes.
    let zones = volume.with_media(|media| {
        let mut bytes = vec![0; ZONE as usize * 4096];
        let zones = (8..40).map(|zone| {
            media.read(u64::from(zone * ZONE), &mut bytes).unwrap();
            bytes.chunks(4096).map(|block| block[100]).collect::<Vec<u8>>()
        });
        zones.filter(|blocks| blocks[0] == 1).collect::<Vec<_>>()
    });
    assert_eq!(zones, [expected]);
}

#[test]
fn discarded_chunks_give_their_zones_back() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    volume.write(0, ZONE, 1);
    volume.write(3, 1, 2);
    volume.discard(0, ZONE);
    assert_eq!(volume.read(0, ZONE), vec![0; ZONE as usize]);
    volume.flush();
    volume.rig.pass(Duration::from_millis(100));
    assert_eq!(volume.status(), "40 zones 0/0 cache 6/6 random 28/28 sequential");
}

#[test]
fn flushed_data_is_there_after_the_target_is_loaded_anew() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    volume.write(0, ZONE, 1);
    volume.write(20, 3, 2);
    volume.write(u64::from(ZONE) * 5 + 7, 3, 3);
    volume.flush();
    volume.reload();
    assert_eq!(volume.read(18, 7), [1, 1, 2, 2, 2, 1, 1]);
    assert_eq!(volume.read(u64::from(ZONE) * 5 + 6, 5), [0, 3, 3, 3, 0]);
}

#[test]
fn a_fua_write_is_durable_when_it_is_done() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    assert_eq!(volume.run(fua(write(100, 2, 9))).1, Status::Ok);
    volume.rig.pass(Duration::from_millis(10));
    assert_eq!(volume.counters().commits, 1);
    assert_eq!(volume.run(fua(write(100, 2, 8))).1, Status::Ok);
    volume.reload();
    assert_eq!(volume.read(100, 2), [8, 8]);
}

/// A bio under way: its tag, its blocks, and what a read has to find.
type InFlight = (u64, Range<usize>, Option<Vec<u8>>);

/// Random reads, writes and discards of a volume, beside a model of what it holds.
fn play(volume: &mut Volume, rng: &mut Rng, ops: u32, model: &mut [u8]) {
    // Blocks in flight are not touched again, so there is one right answer to everything.
    let mut in_flight: Vec<InFlight> = vec![];
    let mut streams: Vec<u64> = (0..3).map(|_| rng.below(volume.blocks)).collect();
    for _ in 0..ops {
        while in_flight.len() >= 8 {
            settle(volume, &mut in_flight);
        }
        let stream = rng.below(3) as usize;
        let longest = if rng.chance(1, 8) { 100 } else { 6 };
        let (at, len) = match rng.below(3) {
            0 => (streams[stream], 1 + rng.below(16)),
            _ => (rng.below(volume.blocks), 1 + rng.below(longest)),
        };
        let end = (at + len).min(volume.blocks);
        let range = at as usize..end as usize;
        if range.is_empty() || in_flight.iter().any(|(_, other, _)| other.start < range.end && range.start < other.end)
        {
            streams[stream] = rng.below(volume.blocks);
            continue;
        }
        let blocks = (end - at) as u32;
        let (bio, expected) = match rng.below(20) {
            0..8 => (read(at, blocks), Some(model[range.clone()].to_vec())),
            8 => {
                model[range.clone()].fill(0);
                (Bio::new(Op::Discard, Sector(at * 8), blocks * 8, Payload::None), None)
            }
            kind => {
                let fill = 1 + rng.below(250) as u8;
                model[range.clone()].fill(fill);
                streams[stream] = end % volume.blocks;
                (if kind == 9 { fua(write(at, blocks, fill)) } else { write(at, blocks, fill) }, None)
            }
        };
        let tag = volume.submit(bio);
        in_flight.push((tag, range, expected));
    }
    while !in_flight.is_empty() {
        settle(volume, &mut in_flight);
    }
}

fn settle(volume: &mut Volume, in_flight: &mut Vec<InFlight>) {
    let (tag, bio, status) = volume.next();
    assert_eq!(status, Status::Ok, "{bio:?}: {}", volume.status());
    let at = in_flight.iter().position(|(of, ..)| *of == tag).unwrap();
    let (_, range, expected) = in_flight.swap_remove(at);
    if let Some(expected) = expected {
        assert_eq!(first_bytes(&bio), expected, "blocks {range:?}");
    }
}

fn check(volume: &mut Volume, model: &[u8]) {
    for (n, expected) in model.chunks(ZONE as usize).enumerate() {
        let at = n as u64 * u64::from(ZONE);
        assert_eq!(volume.read(at, expected.len() as u32), expected, "from block {at} on");
    }
}

#[test]
fn a_volume_is_a_disk_whatever_is_done_with_it() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let mut volume = Volume::of_seed(seed);
        let mut model = vec![0; volume.blocks as usize];
        for _ in 0..3 {
            play(&mut volume, &mut rng, 600, &mut model);
            check(&mut volume, &model);
            volume.flush();
            volume.reload();
            check(&mut volume, &model);
        }
    }
}
