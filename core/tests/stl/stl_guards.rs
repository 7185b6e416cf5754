//! Guards of the target `stl` that random worlds seldom need: with them nothing is lost, and without each something is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Cx, Data, DeviceId, Limits, Op, Payload, Reason, Status};
use shingle_core::dm::stl::format::{Batch, BatchKind, Checksum, Header, SetId, Written};
use shingle_core::dm::stl::map::LeafSize;
use shingle_core::dm::stl::tools::Spot;
use shingle_core::dm::stl::{Epoch, Lba, Options, Sabotage, Stl};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;

use crate::shingled;
use crate::shingled::shelf::{put_back, taken_out};
use crate::shingled::{Volume, ZONE, disk, first_bytes, read, small};

/// Keeps one read back for as long as somebody says.
struct Gate {
    below: [DeviceId; 1],
    limits: Limits,
    is_armed: bool,
    kept: Option<Box<Bio>>,
}

impl BlockDevice for Gate {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.is_armed && bio.op == Op::Read {
            self.is_armed = false;
            self.kept = Some(bio);
            return;
        }
        cx.submit(self.below[0], bio, 0);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, _: u64, cx: &mut Cx<'_>) {
        cx.complete(bio, status);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.kept.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("a gate")
    }
}

/// The disk is 0.
const GATE: DeviceId = DeviceId(1);

/// What a read finds that is under way while all that it could find is written over several times, if anything.
fn late_read(gone: Sabotage) -> Option<u8> {
    let mut volume = Volume::over(&[disk(40, Some(0))], 200, small(), |stack, leaf| {
        let limits = stack.limits(leaf).clone();
        stack.add(Box::new(Gate { below: [leaf], limits, is_armed: false, kept: None })).unwrap()
    });
    let top = volume.rig.top;
    volume.rig.stack.with_device(top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    (0..volume.blocks).for_each(|block| volume.write(block, 1, 1));
    assert_eq!(volume.read(7, 1), [1]);
    volume.rig.stack.with_device(GATE, |gate: &mut Gate, _| gate.is_armed = true).unwrap();
    let late = volume.rig.submit(read(7, 1));
    let mut rng = Rng::new(1);
    for _ in 0..4 * volume.blocks {
        let block = rng.below(volume.blocks);
        volume.write(block, 1, 2);
    }
    assert!(volume.work().0 > 20, "hardly anything was cleaned");
    volume
        .rig
        .stack
        .with_device(GATE, |gate: &mut Gate, cx| {
            let bio = gate.kept.take().expect("the read came there");
            cx.submit(gate.below[0], bio, 0);
        })
        .unwrap();
    let done = volume.rig.next();
    assert_eq!(done.tag, late);
    done.status.is_ok().then(|| first_bytes(&done.bio)[0])
}

#[test]
fn a_read_finds_what_was_there_when_it_began_however_late_it_comes() {
    assert_eq!(late_read(Sabotage::default()), Some(1));
}

#[test]
fn a_read_that_does_not_keep_its_zone_finds_something_else() {
    assert_ne!(late_read(Sabotage { readers_unpinned: true, ..Sabotage::default() }), Some(1));
}

/// Puts a batch behind the newest of users' that says `change` of itself, as if it had got there by mistake; what block 0 reads as after a start, if it
/// can be read.
fn stray(gone: Sabotage, change: impl Fn(&mut Batch)) -> Option<u8> {
    let mut volume = Volume::new(&[disk(40, Some(0))], 200, small());
    volume.write(0, 1, 1);
    let top = volume.rig.top;
    volume.rig.settle();
    volume.rig.stack.remove(top).unwrap();
    // The only zone that has a batch of users has it at its start.
    let zones = (2..40).map(|zone| (zone, header_at(&mut volume, zone * ZONE)));
    let found = zones.filter_map(|(zone, header)| Some((zone, header?)));
    let (zone, newest) = found.into_iter().find(|(_, header)| matches!(header.kind, BatchKind::User(_))).unwrap();
    let at = zone * ZONE + 2;
    let mut batch = Batch { number: newest.batch.number + 1, place: newest.batch.place + 2, ..newest.batch };
    change(&mut batch);
    let data = Data::zeroed(2 * 4096);
    data.fill(9);
    let checksums = vec![Checksum::of_block(Lba(0), &[9; 4096])];
    let kind = BatchKind::User(vec![Written { lba: Lba(0), blocks: 1, has_data: true }]);
    data.write(0, &Header { batch, kind, checksums }.encode());
    let bio = Bio::new(Op::Write, Sector(u64::from(at) * 8), 16, Payload::Data(data));
    assert_eq!(volume.rig.finish(DISK, bio).status, Status::Ok);
    volume.load();
    let top = volume.rig.top;
    volume.rig.stack.with_device(top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    let (bio, status) = volume.run(read(0, 1));
    status.is_ok().then(|| first_bytes(&bio)[0])
}

/// The plug of the only disk.
const DISK: DeviceId = DeviceId(1);

fn header_at(volume: &mut Volume, block: u32) -> Option<Header> {
    let done = volume.rig.finish(DISK, read(block.into(), 1));
    let Payload::Data(data) = &done.bio.payload else { panic!("no data") };
    Header::decode(&data.to_vec()).ok().map(|(header, _)| header)
}

#[test]
fn a_batch_counts_only_where_it_says_that_it_belongs() {
    let unchecked = Sabotage { headers_unchecked: true, ..Sabotage::default() };
    let changes: [fn(&mut Batch); 3] = [
        |batch| batch.set = SetId([8; 16]),
        |batch| batch.place = batch.place + 1,
        |batch| batch.generation = batch.generation + 1,
    ];
    assert_eq!(stray(Sabotage::default(), |_| ()), Some(9), "a batch that is in order");
    for change in changes {
        assert_eq!(stray(Sabotage::default(), change), Some(1));
        assert_ne!(stray(unchecked, change), Some(1));
    }
    // That of another life does not count in any case.
    for gone in [Sabotage::default(), unchecked] {
        assert_eq!(stray(gone, |batch| batch.epoch = Epoch(batch.epoch.0 - 1)), Some(1));
    }
}

/// Blocks that are read wrong after a sweep, of those before the end of a leaf: an older run has one extent there that reaches into the next leaf, a newer
/// one has `count` single blocks up to that, and the volume was stopped when its first sweep had come there.
fn wrong_after_half_a_sweep(gone: Sabotage, count: u64) -> usize {
    // A sweep takes a leaf at a time.
    let options =
        Options { batch_blocks: 63, pending_bytes: 1 << 20, replay_blocks: 10_000, sweep_blocks: 16, ..small() };
    let options = Options { most_runs: 100, runs_of_tier: 100, ..options };
    let mut volume = Volume::new(&[disk(450, Some(0))], 100, options);
    let told = |volume: &mut Volume, words: &str| {
        assert_eq!(volume.message(words), "");
        volume.rig.settle();
    };
    let end = u64::from(LeafSize::default().blocks());
    volume.write(end - 58, 60, 1);
    told(&mut volume, "checkpoint");
    (1..=count).rev().for_each(|back| volume.write(end - 2 * back, 1, 2));
    told(&mut volume, "checkpoint");
    volume.message("sweep");
    // It rests behind its first leaf while somebody writes.
    volume.write(end + 100, 1, 3);
    volume.reload();
    assert_eq!(volume.before.1, 0, "the sweep was over");
    let top = volume.rig.top;
    volume.rig.stack.with_device(top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    // So that the next one has to look at that leaf.
    volume.write(0, 1, 3);
    told(&mut volume, "checkpoint");
    told(&mut volume, "sweep");
    assert_eq!(volume.work().1, 1, "no sweep was made");
    let found = volume.read(end - 58, 58);
    found.iter().enumerate().filter(|(at, byte)| **byte != 2 - *at as u8 % 2).count()
}

/// Of the newer run too much is read, too, unless a page of it ends there: with one of these counts one does.
const COUNTS: [u64; 6] = [980, 1000, 1020, 1040, 1060, 1080];

#[test]
fn leaves_that_have_all_of_a_run_are_told_nothing_of_it_by_an_extent_that_reaches_beyond_them() {
    assert_eq!(COUNTS.map(|count| wrong_after_half_a_sweep(Sabotage::default(), count)), [0; COUNTS.len()]);
}

#[test]
fn an_extent_that_reaches_beyond_leaves_that_have_all_of_a_run_would_go_over_what_is_newer() {
    let gone = Sabotage { merged_again: true, ..Sabotage::default() };
    assert_ne!(COUNTS.map(|count| wrong_after_half_a_sweep(gone, count)), [0; COUNTS.len()]);
}

/// What a disk is told, and when its power is lost.
#[derive(Clone, Default)]
struct Watch {
    told: Rc<RefCell<Vec<Op>>>,
    /// From the first reset of a zone there, or behind, on it takes no changes.
    until: Rc<Cell<Option<Sector>>>,
    is_lost: Rc<Cell<bool>>,
    /// Number of flushes that are still to fail.
    failing_flushes: Rc<Cell<u32>>,
}

/// A disk that is watched.
struct Watched {
    below: [DeviceId; 1],
    limits: Limits,
    watch: Watch,
}

impl BlockDevice for Watched {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Watch { told, until, is_lost, failing_flushes } = &self.watch;
        told.borrow_mut().push(bio.op);
        let is_last = bio.op == Op::ZoneReset && until.get().is_some_and(|first| bio.sector >= first);
        is_lost.set(is_lost.get() || is_last);
        if is_lost.get() && !is_read(bio.op) {
            return cx.fail(bio, Reason::Medium);
        }
        if bio.op == Op::Flush && failing_flushes.get() > 0 {
            failing_flushes.set(failing_flushes.get() - 1);
            return cx.fail(bio, Reason::Medium);
        }
        cx.submit(self.below[0], bio, 0);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, _: u64, cx: &mut Cx<'_>) {
        cx.complete(bio, status);
    }

    fn held(&self, _: &mut dyn FnMut(&Bio)) {}

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("watched")
    }
}

fn is_read(op: Op) -> bool {
    matches!(op, Op::Read | Op::ReportZones)
}

fn watched() -> (Volume, Watch) {
    let watch = Watch::default();
    let volume = Volume::over(&[disk(40, Some(0))], 200, small(), |stack, leaf| {
        let limits = stack.limits(leaf).clone();
        stack.add(Box::new(Watched { below: [leaf], limits, watch: watch.clone() })).unwrap()
    });
    (volume, watch)
}

/// Whether a start flushes before it changes anything.
fn does_flush_first(gone: Sabotage) -> bool {
    let (mut volume, watch) = watched();
    volume.write(3, 1, 1);
    volume.reload();
    volume.rig.stack.with_device(volume.rig.top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    watch.told.borrow_mut().clear();
    assert_eq!(volume.read(3, 1), [1]);
    let told = watch.told.borrow();
    let first = |is_one: fn(&Op) -> bool| told.iter().position(is_one).expect("a start writes a root");
    first(|op| *op == Op::Flush) < first(|op| !is_read(*op) && *op != Op::Flush)
}

/// The program may have ended, and not the disk, before what it wrote was durable.
#[test]
fn a_start_changes_nothing_before_what_it_found_is_durable() {
    assert!(does_flush_first(Sabotage::default()));
    assert!(!does_flush_first(Sabotage { start_unflushed: true, ..Sabotage::default() }), "the test does not show it");
}

/// Flushes of the disk that a FLUSH causes, behind one that has failed.
fn flushes_after_a_failed_one(gone: Sabotage) -> usize {
    let (mut volume, watch) = watched();
    volume.rig.stack.with_device(volume.rig.top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    volume.write(3, 1, 1);
    volume.rig.settle();
    watch.failing_flushes.set(1);
    assert_ne!(volume.run(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)).1, Status::Ok);
    watch.told.borrow_mut().clear();
    volume.flush();
    watch.told.borrow().iter().filter(|op| **op == Op::Flush).count()
}

#[test]
fn a_flush_after_a_failed_flush_reaches_the_disk() {
    assert_eq!(flushes_after_a_failed_one(Sabotage::default()), 1);
    let gone = Sabotage { failed_flush_counts: true, ..Sabotage::default() };
    assert_eq!(flushes_after_a_failed_one(gone), 0, "the test does not show it");
}

/// Flushes of the disk that a FLUSH causes, behind a start whose own flush has failed. Its data was written before a kill, and never flushed.
fn flushes_after_a_start_that_could_not_flush(gone: Sabotage) -> usize {
    let (mut volume, _) = watched();
    volume.write(3, 1, 1);
    volume.rig.settle();
    let media = taken_out(&mut volume);
    let (mut volume, watch) = watched();
    volume.stop();
    put_back(&mut volume, &media);
    watch.failing_flushes.set(4);
    volume.load();
    volume.rig.stack.with_device(volume.rig.top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    assert_eq!(volume.read(3, 1), [1]);
    watch.told.borrow_mut().clear();
    volume.flush();
    watch.told.borrow().iter().filter(|op| **op == Op::Flush).count()
}

#[test]
fn a_flush_after_a_start_that_could_not_flush_reaches_the_disk() {
    assert_eq!(flushes_after_a_start_that_could_not_flush(Sabotage::default()), 1);
    let gone = Sabotage { failed_flush_counts: true, ..Sabotage::default() };
    assert_eq!(flushes_after_a_start_that_could_not_flush(gone), 0, "the test does not show it");
}

/// Data of a block that has changed on the disk, if it can be read.
fn rotten_block(gone: Sabotage) -> Option<u8> {
    let mut volume = Volume::new(&[disk(40, Some(0))], 200, small());
    volume.write(0, 1, 1);
    volume.stop();
    let mut media = taken_out(&mut volume);
    let blocks = (0..40 * u64::from(ZONE)).map(|block| Spot { disk: 0, block });
    let data = blocks.into_iter().find(|spot| media.block(*spot) == [1; 4096]).unwrap();
    media.put(data, &[2; 4096]);
    put_back(&mut volume, &media);
    volume.load();
    volume.rig.stack.with_device(volume.rig.top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    let (bio, status) = volume.run(read(0, 1));
    status.is_ok().then(|| first_bytes(&bio)[0])
}

#[test]
fn a_block_that_has_changed_on_the_disk_reads_as_an_error() {
    assert_eq!(rotten_block(Sabotage::default()), None);
    let gone = Sabotage { reads_unchecked: true, ..Sabotage::default() };
    assert_eq!(rotten_block(gone), Some(2), "the test does not show it");
}

/// The power is lost when a start, which has written its root, gives back the first zone.
#[test]
fn starts_that_are_cut_off_do_not_use_up_zones() {
    let (mut volume, _) = watched();
    (0..volume.blocks).for_each(|block| volume.write(block, 1, 1));
    volume.stop();
    let mut media = taken_out(&mut volume);
    for _ in 0..40 {
        let (mut volume, watch) = watched();
        volume.stop();
        put_back(&mut volume, &media);
        // Zones for roots are in turn.
        watch.until.set(Some(Sector(2 * u64::from(ZONE) * 8)));
        volume.load();
        assert_eq!(volume.read(3, 1), [1]);
        volume.rig.settle();
        media = taken_out(&mut volume);
    }
    let (mut volume, _) = watched();
    volume.stop();
    put_back(&mut volume, &media);
    volume.load();
    volume.write(3, 1, 2);
    assert_eq!([volume.read(3, 1), volume.read(4, 1)], [[2], [1]]);
}

/// Whether all is there after users who do not wait for each other have written over zones that are cleaned, turn by turn of so many blocks.
fn outlives_a_rush(gone: Sabotage, turn_blocks: u32, seed: u64) -> bool {
    let mut volume = Volume::new(&[disk(30, Some(0))], 200, Options { turn_blocks, ..small() });
    volume.rig.stack.with_device(volume.rig.top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    let (mut rng, mut model) = (Rng::new(seed), vec![0_u8; volume.blocks as usize]);
    for _ in 0..400 {
        let (first, stride) = (rng.below(volume.blocks), 1 + rng.below(3));
        for number in 0..rng.below(24) {
            let (block, byte) = ((first + stride * number) % volume.blocks, 1 + rng.below(255) as u8);
            model[block as usize] = byte;
            volume.rig.submit(shingled::write(block, 1, byte));
        }
        volume.rig.settle();
        if volume.rig.done().iter().any(|done| done.status != Status::Ok) {
            return false;
        }
    }
    assert!(volume.work().0 > 10, "{}", volume.status());
    volume.reload();
    volume.read(0, model.len() as u32) == model
}

/// They were taken for unreadable, and the volume for full.
#[test]
fn zones_are_cleaned_whose_batches_are_longer_than_a_turn() {
    for turn_blocks in [1, 4, 12, 24] {
        assert!(outlives_a_rush(Sabotage::default(), turn_blocks, 1), "turns of {turn_blocks} blocks");
    }
}
