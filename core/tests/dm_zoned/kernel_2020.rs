//! The policy `kernel-2020`: dm-zoned as it was posted in May 2020, with a regular device and before there were cache zones.

use shingle_core::dm::zoned::check::check;
use shingle_core::random::Rng;
use shingle_core::time::Duration;

use crate::zoned::{Volume, ZONE, disk, write};

const HOUR: Duration = Duration::from_millis(3_600_000);

/// A set with seven cache zones for data and five conventional ones.
fn set(policy: &str) -> Volume {
    let mut volume = Volume::new(&[disk(9, None), disk(24, Some(6))], 3);
    volume.message(&format!("set policy {policy}"));
    // That loads it.
    volume.read(0, 1);
    volume
}

/// Free cache zones and conventional zones.
fn free(volume: &mut Volume) -> (u32, u32) {
    let counters = volume.message("counters");
    let of = |name: &str| {
        let line = counters.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.and_then(|count| count.parse().ok()).expect("there is such a figure")
    };
    (of("free_cache_zones"), of("free_random_zones"))
}

fn fill(volume: &mut Volume, chunk: u64) {
    volume.write(chunk * u64::from(ZONE), ZONE, chunk as u8 + 1);
}

#[test]
fn first_writes_go_to_conventional_zones_when_the_cache_is_used_up() {
    let mut volume = set("kernel-2020");
    let (cache, random) = free(&mut volume);
    assert_eq!((cache, random), (7, 5));
    (0..u64::from(cache)).for_each(|chunk| fill(&mut volume, chunk));
    assert_eq!(free(&mut volume), (0, 5), "{}", volume.status());
    fill(&mut volume, 7);
    assert_eq!(free(&mut volume), (0, 4), "12 zones, of which a third was free: reclaim had no reason");
    let mut today = set("kernel");
    (0..8).for_each(|chunk| fill(&mut today, chunk));
    assert_eq!(free(&mut today).1, 5, "since Linux 5.8 they take no new writes");
}

#[test]
fn zones_are_taken_in_the_order_in_which_they_became_free() {
    let mut volume = set("kernel-2020");
    (0..3).for_each(|chunk| fill(&mut volume, chunk));
    // Idle reclaim wins these three back; they are the last in the queue then.
    volume.rig.pass(HOUR);
    assert_eq!((free(&mut volume), volume.counters().reclaimed_zones), ((7, 5), 3));
    (3..7).for_each(|chunk| fill(&mut volume, chunk));
    assert_eq!(free(&mut volume), (3, 5));
    fill(&mut volume, 7);
    assert_eq!(free(&mut volume), (3, 4), "a conventional zone has been free for longer than what reclaim freed");
}

#[test]
fn buffers_lie_in_conventional_zones_and_survive_a_new_table() {
    let mut volume = set("kernel-2020");
    fill(&mut volume, 0);
    volume.rig.pass(HOUR);
    // The chunk is in a sequential zone now. All zones of the cache but the one that it had, and then what is rewritten.
    (1..7).for_each(|chunk| fill(&mut volume, chunk));
    assert_eq!(free(&mut volume), (1, 5));
    volume.write(3, 2, 99);
    assert_eq!(free(&mut volume), (1, 4), "the buffer is a conventional zone");
    volume.stop();
    let report = volume.with_media(|media| check(media, &mut |_, _| {}));
    assert!(report.is_clean(), "{:?}", report.findings);
    volume.load();
    assert_eq!(volume.read(0, 6), [1, 1, 1, 99, 99, 1]);
    for policy in ["shingle", "kernel"] {
        volume.message(&format!("set policy {policy}"));
        volume.write(2, 1, 98);
        assert_eq!(volume.read(0, 6), [1, 1, 98, 99, 99, 1], "{policy}");
    }
}

/// A chunk that is copied is locked: its users wait for the end of the copy, which today they would end.
#[test]
fn a_user_waits_for_the_copy_of_a_chunk_and_does_not_end_it() {
    let slow = |config| shingle_core::device::NullConfig { completion: Duration::from_millis(20), ..config };
    let copied = |policy: &str| {
        let mut volume = Volume::new(&[slow(disk(9, None)), slow(disk(24, Some(4)))], 3);
        volume.message(&format!("set policy {policy}"));
        // Every other block: runs of one block, each a copy of its own.
        (0..u64::from(ZONE)).step_by(2).for_each(|block| volume.write(block, 1, 7));
        volume.message("reclaim");
        volume.rig.pass(Duration::from_millis(200));
        assert!(volume.counters().copied_blocks > 0, "{policy}: the copy has not begun");
        volume.submit(write(0, 1, 8));
        let (began, (_, _, status)) = (volume.rig.now, volume.next());
        assert!(status.is_ok());
        let waited = volume.rig.now.since(began);
        assert_eq!(volume.read(0, 3), [8, 0, 7], "{policy}");
        (volume.counters().reclaimed_zones, waited)
    };
    let (then, today) = (copied("kernel-2020"), copied("kernel"));
    assert_eq!((then.0, today.0), (1, 0));
    assert!(then.1 > today.1, "{then:?} {today:?}");
}

#[test]
fn a_full_set_with_a_cache_can_be_written_anywhere_under_it() {
    for reserved in [3, 5] {
        let mut volume = Volume::new(&[disk(9, None), disk(24, Some(4))], reserved);
        volume.message("set policy kernel-2020");
        let (all, mut rng) = (volume.blocks, Rng::new(7));
        (0..all).step_by(16).for_each(|block| volume.write(block, 16, 1));
        let mut model = vec![1; all as usize];
        for n in 0..1_500 {
            let (block, blocks) = (rng.below(all - 4), 1 + rng.below(4) as u32);
            volume.write(block, blocks, n as u8);
            model[block as usize..][..blocks as usize].fill(n as u8);
            if n % 500 == 250 {
                volume.reload();
                volume.message(["set policy shingle", "set policy kernel-2020"][usize::from(n > 500)]);
            }
        }
        let found: Vec<u8> = (0..all).step_by(256).flat_map(|at| volume.read(at, 256.min(all - at) as u32)).collect();
        assert!(found == model, "{reserved}: {}", volume.status());
        volume.stop();
        let report = volume.with_media(|media| check(media, &mut |_, _| {}));
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}
