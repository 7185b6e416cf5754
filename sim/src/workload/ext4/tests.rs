//! The whole load on a disk that writes down what it is asked.

use alloc::collections::VecDeque;
use alloc::vec;
use core::fmt;

use super::layout::GROUP_BLOCKS;
use super::*;
use crate::{Stop, World};
use alloc::vec::Vec;
use shingle_core::block::{BlockDevice, Cx, Event, Limits, Stack};
use shingle_core::time::Duration;

/// A write that came to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Write {
    block: u64,
    blocks: u64,
    flags: Flags,
}

/// A disk of one arm and a rate, in bytes per second.
struct Disk {
    limits: Limits,
    rate: u64,
    /// Fails writes from this one on.
    fails_at: usize,
    queue: VecDeque<Box<Bio>>,
    log: Vec<Write>,
}

impl Disk {
    fn new(blocks: u64, rate: u64) -> Self {
        let limits = Limits {
            write_cache: true,
            logical_block_bytes: 4096,
            physical_block_bytes: 4096,
            ..Limits::new(blocks * 8)
        };
        Self { limits, rate, fails_at: usize::MAX, queue: VecDeque::new(), log: Vec::new() }
    }

    fn begin(&self, cx: &mut Cx<'_>) {
        if let Some(bio) = self.queue.front() {
            cx.wake_at(cx.now() + Duration(u64::from(bio.sectors) * 512 * 1_000_000_000 / self.rate), 0);
        }
    }
}

impl BlockDevice for Disk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.queue.push_back(bio);
        if self.queue.len() == 1 {
            self.begin(cx);
        }
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        let Some(bio) = self.queue.pop_front() else { return };
        self.log.push(Write { block: bio.sector.0 / 8, blocks: u64::from(bio.sectors) / 8, flags: bio.flags });
        let status = if self.log.len() > self.fails_at { Status::Medium } else { Status::Ok };
        cx.complete(bio, status);
        self.begin(cx);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("test disk")
    }
}

const MIB: u64 = 1 << 20;
/// 64 GiB.
const BLOCKS: u64 = 1 << 24;

/// Four programs with 256 MiB of memory, for a minute.
fn options() -> Ext4Options {
    let all = Ext4Options::default();
    Ext4Options {
        load: Load { writers: 4, files: 5, ..all.load },
        format: Format { make: false, ..all.format },
        memory: Memory { dirtyable_bytes: 256 * MIB, ..all.memory },
        runtime: Duration::from_millis(60_000),
        ..all
    }
}

struct Run {
    world: World,
    disk: DeviceId,
}

impl Run {
    fn of(disk: Disk, options: Ext4Options) -> Self {
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(disk)).unwrap();
        let mut world = World::new(stack);
        world.add(Box::new(Ext4::new(disk, options)));
        assert_eq!(world.run(Instant(u64::MAX)), Stop::Done);
        Self { world, disk }
    }

    fn load(&self) -> &Ext4 {
        self.world.actor(0).unwrap()
    }

    fn log(&self) -> &[Write] {
        &self.world.stack.device::<Disk>(self.disk).unwrap().log
    }

    fn layout(&self) -> &Layout {
        &self.load().fs.as_ref().unwrap().layout
    }

    /// Writes of data: behind the metadata, and not of single blocks, as those of directories are.
    fn data(&self) -> impl Iterator<Item = &Write> {
        let journal = &self.layout().journal;
        self.log().iter().filter(move |write| write.block >= journal.end && write.blocks > 1)
    }
}

#[test]
fn mkfs_writes_superblocks_and_journal_first_and_time_begins_after_it() {
    let format = Format { make: true, ..options().format };
    let run = Run::of(Disk::new(BLOCKS, 1_000_000_000), Ext4Options { format, ..options() });
    let began = run.load().began().unwrap();
    assert!((1_000_000_000..2_000_000_000).contains(&began.0), "{began:?}, after a journal of 1 GiB");
    let layout = run.layout();
    let (journal, backups) = (layout.journal.clone(), (0..layout.groups).filter_map(|group| layout.backup_in(group)));
    let expected: Vec<u64> = [0, journal.start].into_iter().chain(backups.map(|backup| backup.start)).collect();
    let made = &run.log()[..run.log().iter().position(|write| write.flags != Flags::NONE).unwrap()];
    assert!(expected.iter().all(|block| made.iter().any(|write| write.block == *block)), "{expected:?}");
    let end = run.world.now().since(began).0;
    assert!((60_000_000_000..61_000_000_000).contains(&end), "a minute, and what was on its way: {end} ns");
    assert!(run.load().samples()[0].closed > 0);
}

#[test]
fn programs_get_what_the_disk_takes_once_memory_is_full() {
    let run = Run::of(Disk::new(BLOCKS, 100_000_000), options());
    assert_eq!(run.load().ending(), Some(Ending::Time));
    for sample in &run.load().samples()[1..6] {
        let rate = sample.closed as f64 / 10.0 / 1e6;
        assert!((95.0..101.0).contains(&rate), "{rate} MB/s: {:?}", run.load().samples());
    }
    assert!(run.load().points().len() > 50, "{} data points of 50 MB", run.load().points().len());
}

#[test]
fn dirty_memory_stays_between_the_background_and_the_limit() {
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(Disk::new(BLOCKS, 50_000_000))).unwrap();
    let mut world = World::new(stack);
    world.add(Box::new(Ext4::new(disk, options())));
    for second in 5..60 {
        world.run(Instant(second * 1_000_000_000));
        let dirty = world.actor::<Ext4>(0).unwrap().dirty_bytes();
        let (background, limit) = (256 * MIB / 10, 256 * MIB / 5);
        assert!((background..=limit + 4 * MIB).contains(&dirty), "{dirty} bytes after {second} s");
    }
}

#[test]
fn a_file_is_written_in_one_piece_and_files_of_a_directory_follow_each_other() {
    let run = Run::of(Disk::new(BLOCKS, 100_000_000), options());
    let (mut follow, mut all) = (0, 0);
    for pair in run.data().collect::<Vec<_>>().windows(2) {
        follow += usize::from(pair[1].block == pair[0].block + pair[0].blocks);
        all += 1;
    }
    // What does not follow is the first file of a data point, of 20 with three or four bios each.
    assert!(follow * 100 > all * 95, "{follow} of {all}");
}

#[test]
fn data_points_go_to_flex_groups_of_their_own() {
    let run = Run::of(Disk::new(BLOCKS, 100_000_000), options());
    let flexes: alloc::collections::BTreeSet<u64> = run.data().map(|write| write.block / GROUP_BLOCKS / 16).collect();
    assert!(flexes.len() >= 20, "of 32 flex groups, {flexes:?} have data");
}

#[test]
fn every_commit_block_carries_preflush_and_fua_and_data_does_not() {
    let run = Run::of(Disk::new(BLOCKS, 100_000_000), options());
    let journal = &run.layout().journal;
    let marked = run.log().iter().filter(|write| write.flags != Flags::NONE);
    let marked: Vec<&Write> = marked.collect();
    assert!(marked.iter().all(|write| journal.contains(&write.block) && write.blocks == 1));
    assert!(marked.iter().all(|write| write.flags == Flags::PREFLUSH.with(Flags::FUA)));
    assert_eq!(marked.len() as u64, run.load().commits());
    assert!((10..=13).contains(&marked.len()), "one each five seconds: {}", marked.len());
}

#[test]
fn metadata_is_written_in_place_half_a_minute_after_its_commit() {
    let run = Run::of(Disk::new(BLOCKS, 100_000_000), options());
    let bitmaps = run.layout().block_bitmap(0)..run.layout().inode(0, 0).1;
    assert!(run.log().iter().any(|write| bitmaps.contains(&write.block)));
    let short = Ext4Options { runtime: Duration::from_millis(4_000), ..options() };
    let run = Run::of(Disk::new(BLOCKS, 100_000_000), short);
    assert!(run.log().iter().all(|write| !bitmaps.contains(&write.block)), "nothing was committed yet");
}

#[test]
fn a_synced_data_point_has_nothing_dirty_when_it_ends() {
    let load = Load { sync: true, ..options().load };
    let run = Run::of(Disk::new(BLOCKS, 100_000_000), Ext4Options { load, ..options() });
    let points = run.load().points();
    assert!(points.len() > 20 && run.load().commits() >= points.len() as u64);
    assert!(points.iter().all(|point| point.mb_per_s() < 100.0), "faster than the disk: {points:?}");
}

#[test]
fn a_full_file_system_ends_the_load_and_says_so() {
    let format = Format { journal_blocks: 1024, ..options().format };
    let run = Run::of(Disk::new(100_000, 1_000_000_000), Ext4Options { format, ..options() });
    assert_eq!(run.load().ending(), Some(Ending::Full));
    let mut taken = vec![false; 100_000];
    for write in run.data() {
        for block in write.block..write.block + write.blocks {
            assert!(!core::mem::replace(&mut taken[block as usize], true), "block {block} was given twice");
        }
    }
}

#[test]
fn a_small_journal_wraps_and_the_load_goes_on() {
    let format = Format { journal_blocks: 1024, ..options().format };
    let load = Load { file_bytes: 4096..=65536, files: 50, ..options().load };
    let run = Run::of(Disk::new(BLOCKS, 100_000_000), Ext4Options { format, load, ..options() });
    assert_eq!(run.load().ending(), Some(Ending::Time));
    let journal = &run.layout().journal;
    let logged: u64 = run.log().iter().filter(|w| journal.contains(&w.block)).map(|w| w.blocks).sum();
    assert!(logged > 2 * 1024, "only {logged} blocks were logged");
    assert!(run.log().iter().any(|write| write.block == journal.start), "the tail never moved");
}

#[test]
fn a_device_without_room_or_with_errors_ends_the_load() {
    let run = Run::of(Disk::new(10_000, 100_000_000), options());
    assert_eq!(run.load().ending(), Some(Ending::TooSmall));
    let run = Run::of(Disk { fails_at: 100, ..Disk::new(BLOCKS, 100_000_000) }, options());
    assert_eq!(run.load().ending(), Some(Ending::Failed(Status::Medium)));
}

#[test]
fn the_same_seed_writes_the_same_and_another_seed_does_not() {
    let log = |seed| Run::of(Disk::new(BLOCKS, 100_000_000), Ext4Options { seed, ..options() }).log().to_vec();
    assert!(log(3) == log(3));
    assert!(log(3) != log(4));
}
