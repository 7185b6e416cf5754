//! What the policies of the target `zoned` come to: what is written how often, and how long users wait, on a rotational disk.

use std::collections::BTreeMap;

use shingle_core::block::Status;
use shingle_core::device::NullConfig;
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_drives::{SmrConfig, SmrDisk};

use crate::zoned::{Volume, ZONE, disk, read, write};

const HOUR: Duration = Duration::from_millis(3_600_000);

/// Blocks of a zone of the rotational disk: 8 MiB.
const LARGE: u32 = 2_048;

/// A volume on a disk with the mechanics of a 7200 rpm drive: 20 conventional and 180 sequential zones.
fn on_a_spindle(policy: &str) -> Volume {
    let zone_sectors = u64::from(LARGE) * 8;
    let config = SmrConfig {
        capacity: 200 * zone_sectors,
        zone_sectors,
        conventional: 20,
        conventional_at: 0.5,
        keep_data: true,
        ..SmrConfig::new(200)
    };
    let mut volume = Volume::over(vec![Box::new(SmrDisk::new(&config).unwrap())], 8);
    volume.message(&format!("set policy {policy}"));
    volume
}

/// Writes all of `writes`, `depth` at a time; how long it took, and the longest that one of them took.
fn run(volume: &mut Volume, depth: usize, writes: impl IntoIterator<Item = (u64, u32)>) -> (Duration, Duration) {
    let (began, mut sent, mut longest) = (volume.rig.now, BTreeMap::<u64, Instant>::new(), Duration::ZERO);
    let mut writes = writes.into_iter();
    loop {
        while sent.len() < depth {
            let Some((block, blocks)) = writes.next() else { break };
            let tag = volume.submit(write(block, blocks, block as u8));
            sent.insert(tag, volume.rig.now);
        }
        if sent.is_empty() {
            return (volume.rig.now.since(began), longest);
        }
        let (tag, _, status) = volume.next();
        assert_eq!(status, Status::Ok, "{}", volume.status());
        longest = longest.max(volume.rig.now.since(sent.remove(&tag).unwrap()));
    }
}

/// The chunks' blocks in pieces of `piece`, one behind the other.
fn stream(chunks: std::ops::Range<u64>, piece: u32) -> impl Iterator<Item = (u64, u32)> {
    let blocks = chunks.start * u64::from(LARGE)..chunks.end * u64::from(LARGE);
    blocks.step_by(piece as usize).map(move |block| (block, piece))
}

fn rewrites(rng: &mut Rng, chunks: u64, count: u32) -> Vec<(u64, u32)> {
    (0..count).map(|_| (rng.below(chunks * u64::from(LARGE)), 1)).collect()
}

#[test]
fn a_stream_is_written_once_and_with_the_kernels_policy_twice() {
    let total = |policy| {
        let mut volume = on_a_spindle(policy);
        let (took, _) = run(&mut volume, 8, stream(0..50, 256));
        volume.flush();
        volume.rig.pass(HOUR);
        let counters = volume.counters();
        (took, counters.direct_blocks, counters.random_blocks + counters.copied_blocks)
    };
    let blocks = 50 * u64::from(LARGE);
    let (took, direct, rest) = total("shingle");
    assert_eq!((direct, rest), (blocks, 0));
    let (kernel_took, kernel_direct, kernel_rest) = total("kernel");
    assert_eq!(kernel_direct, 0);
    assert_eq!(kernel_rest, 2 * blocks);
    assert!(kernel_took.0 > 2 * took.0, "{kernel_took:?} and {took:?}");
}

#[test]
fn a_stream_that_arrives_in_disorder_goes_straight_to_its_zone_all_the_same() {
    let mut volume = on_a_spindle("shingle");
    volume.message("set reorder_busy_ms 100");
    let mut writes: Vec<_> = stream(0..8, 64).collect();
    // Each four neighbours turned around.
    writes.chunks_mut(4).for_each(<[_]>::reverse);
    run(&mut volume, 16, writes);
    let counters = volume.counters();
    assert_eq!((counters.direct_blocks, counters.filled_blocks), (8 * u64::from(LARGE), 0));
}

#[test]
fn a_writer_who_leaves_gaps_does_not_wait_long_for_what_never_comes() {
    let mut volume = on_a_spindle("shingle");
    // One write at a time: nothing is under way that others could wait for.
    let (_, longest) = run(&mut volume, 1, (0..100).map(|n| (n * 20, 16)));
    let counters = volume.counters();
    assert_eq!((counters.direct_blocks, counters.filled_blocks), (1_600, 4 * 99));
    assert!(longest < Duration::from_millis(40), "{longest:?}");
}

#[test]
fn scattered_rewrites_cost_half_of_what_the_kernels_policy_copies() {
    let copied = |policy| {
        let mut volume = on_a_spindle(policy);
        run(&mut volume, 8, stream(0..50, 256));
        volume.rig.pass(HOUR);
        let before = volume.counters().copied_blocks;
        for round in 0..4 {
            run(&mut volume, 8, rewrites(&mut Rng::new(round), 10, 500));
            volume.rig.pass(HOUR);
        }
        assert!(volume.status().contains(" 18/18 random"), "all is reclaimed: {}", volume.status());
        volume.counters().copied_blocks - before
    };
    let (ours, kernels) = (copied("shingle"), copied("kernel"));
    assert_eq!(ours, 4 * 10 * u64::from(LARGE), "each chunk is written anew once");
    assert!(kernels > ours * 3 / 2, "{kernels}");
}

#[test]
fn users_who_have_used_up_all_buffers_get_more_done_than_with_the_kernels_policy() {
    let time = |policy| {
        let mut volume = on_a_spindle(policy);
        run(&mut volume, 8, stream(0..50, 256));
        volume.rig.pass(HOUR);
        let (took, longest) = run(&mut volume, 8, rewrites(&mut Rng::new(1), 50, 300));
        assert!(longest < Duration::from_millis(10_000), "{policy}: {longest:?}");
        took
    };
    let (ours, kernels) = (time("shingle"), time("kernel"));
    assert!(ours.0 * 5 < kernels.0 * 4, "{ours:?} {kernels:?}");
}

#[test]
fn a_chunk_that_is_written_again_and_again_stays_in_its_random_zone() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    for second in 0..600 {
        volume.write(u64::from(ZONE) * 3 + 40, 4, second as u8);
        volume.rig.pass(Duration::from_millis(5_000));
    }
    assert_eq!(volume.counters().copied_blocks, 0);
    volume.message("set hot_ms 1000");
    volume.message("set dense_percent 0");
    volume.rig.pass(HOUR);
    assert_eq!(volume.counters().reclaimed_zones, 1, "it is cold now");
}

#[test]
fn a_volume_that_is_written_to_the_last_block_can_still_be_written_anywhere() {
    for (policy, reserved) in [("shingle", 1), ("shingle", 4), ("kernel", 4), ("kernel-2020", 4)] {
        let mut volume = Volume::new(&[disk(40, Some(8))], reserved);
        volume.message(&format!("set policy {policy}"));
        let (all, mut rng) = (volume.blocks, Rng::new(5));
        (0..all).step_by(16).for_each(|block| volume.write(block, 16, 1));
        let mut model = vec![1; all as usize];
        for n in 0..2_000 {
            let (block, blocks) = (rng.below(all - 4), 1 + rng.below(4) as u32);
            volume.write(block, blocks, n as u8);
            model[block as usize..][..blocks as usize].fill(n as u8);
        }
        let found: Vec<u8> = (0..all).step_by(256).flat_map(|at| volume.read(at, 256.min(all - at) as u32)).collect();
        assert!(
            found == model,
            "{policy} {reserved}: {:?}",
            (0..all as usize)
                .filter(|at| found[*at] != model[*at])
                .map(|at| (at, found[at], model[at]))
                .take(10)
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_write_waits_for_a_buffer_that_is_taken_but_not_written_yet() {
    for policy in ["shingle", "kernel", "kernel-2020"] {
        // Two of the conventional zones hold metadata, so there is one buffer.
        let mut volume = Volume::new(&[disk(40, Some(3))], 1);
        volume.message(&format!("set policy {policy}"));
        for chunk in 0..4 {
            volume.write(chunk * u64::from(ZONE), ZONE, 1);
            volume.message("reclaim");
            volume.rig.pass(HOUR);
        }
        let rewrites = (0..40).map(|n| (n % 4 * u64::from(ZONE) + n, 1));
        run(&mut volume, 4, rewrites);
    }
}

#[test]
fn reads_beside_reclaim_wait_for_few_commands_of_it() {
    let longest = |words: &str| {
        let mut volume = on_a_spindle("shingle");
        let early = ["set stop_percent 60", "set start_percent 40", "set window_blocks 4096", "set hot_ms 0"];
        early.iter().chain([&words]).for_each(|words| drop(volume.message(words)));
        run(&mut volume, 8, stream(0..50, 256));
        run(&mut volume, 8, (0..12).map(|chunk| (chunk * u64::from(LARGE), 1)));
        let (mut rng, mut longest) = (Rng::new(3), Duration::ZERO);
        for _ in 0..200 {
            let began = volume.rig.now;
            assert_eq!(volume.run(read(rng.below(50 * u64::from(LARGE)), 1)).1, Status::Ok);
            longest = longest.max(volume.rig.now.since(began));
        }
        longest
    };
    let (few, many) = (longest("set busy_pieces 1"), longest("set busy_pieces 8"));
    assert!(few < many, "{few:?} {many:?}");
}

#[test]
fn a_copy_from_the_cache_reads_while_it_writes_and_takes_a_quarter_less_time_than_one_on_the_disk() {
    let slow = |config| NullConfig { completion: Duration::from_millis(10), ..config };
    let time = |disks: &[NullConfig]| {
        let mut volume = Volume::new(disks, 4);
        let knobs =
            "direct_blocks 65536 stream_percent 0 hot_ms 0 window_blocks 64 flash_share 4 pieces 2 piece_blocks 1";
        volume.message(&format!("set {knobs}"));
        (0..4).for_each(|chunk| volume.write(chunk * u64::from(ZONE), ZONE, chunk as u8 + 1));
        assert_eq!(volume.counters().direct_blocks, 0, "all is in zones that take random writes");
        let mut busy = 0;
        while volume.counters().reclaimed_zones < 4 {
            volume.rig.pass(Duration::from_millis(5));
            busy += u64::from(volume.counters().copied_blocks > 0);
        }
        assert_eq!(volume.counters().copied_blocks, 4 * u64::from(ZONE));
        for chunk in 0..4 {
            assert_eq!(volume.read(chunk * u64::from(ZONE), ZONE), [chunk as u8 + 1; ZONE as usize]);
        }
        busy
    };
    let from_cache = time(&[slow(disk(9, None)), slow(disk(24, Some(0)))]);
    let on_the_disk = time(&[slow(disk(40, Some(8)))]);
    assert!(from_cache * 4 < on_the_disk * 3, "{from_cache} and {on_the_disk}");
}

/// Reclaim sleeps until the volume is changed. An overwrite changes no metadata and told nobody, so it went on sleeping.
#[test]
fn the_first_write_after_a_table_is_loaded_wakes_reclaim() {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    volume.message("set fill_share 0 fill_blocks 0 fill_scarce_blocks 0");
    for chunk in 0..3 {
        volume.write(chunk * u64::from(ZONE) + 1, ZONE - 1, 1);
    }
    volume.reload();
    assert_eq!(volume.read(1, 1), [1]);
    volume.rig.pass(HOUR);
    assert_eq!(volume.counters().reclaimed_zones, 0, "nothing is changed before a user does");
    volume.write(1, 1, 2);
    volume.rig.pass(HOUR);
    assert_eq!(volume.counters().reclaimed_zones, 3, "{}", volume.status());
}
