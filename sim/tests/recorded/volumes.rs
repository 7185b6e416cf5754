//! The checker of volumes is checked: a regular device with a bug stands in for dm-zoned, and the swarm has to find the bug
//! and name the promise that is broken. The same seeds pass without it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use crate::harness::{Mutation, Rules, first};
use shingle_core::block::{Bio, BlockDevice, Content, Cx, DeviceId, Event, Flags, Limits, Op, Payload, Status};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_sim::model::Rule;
use shingle_sim::swarm::{Profile, SwarmOptions, Wrap, run, shorten};

const SEEDS: usize = 40;

fn over(volume: Wrap) -> SwarmOptions {
    SwarmOptions { profile: Profile::DmZoned, volume: Some(volume), ..SwarmOptions::default() }
}

/// Asserts that the bug is found, as one of `rules` and no other.
fn is_found(name: &str, volume: Wrap, rules: &[Rule], at_least: u64) {
    let (planted, sound) = (over(volume), over(|id, limits| Volume::boxed(id, limits, Sound)));
    Mutation { name, planted, sound, rules: Rules::Only(rules), seeds: &first::<SEEDS>(), at_least }.is_found();
}

/// A regular device on a regular disk, which zeroes what is discarded.
struct Volume<B> {
    below: [DeviceId; 1],
    limits: Limits,
    bug: B,
}

/// What is wrong with it.
trait Bug: 'static {
    /// A bio comes; `None`: it is dealt with.
    fn comes(&mut self, bio: Box<Bio>, _cx: &mut Cx<'_>) -> Option<Box<Bio>> {
        Some(bio)
    }

    fn goes(&mut self, _bio: &mut Bio) {}

    fn wakes(&mut self, _cx: &mut Cx<'_>) {}

    /// What it knows of the first of these sectors, and of how many.
    fn knows(&self, sectors: Range<u64>) -> (Content, u64) {
        (Content::Data, sectors.end - sectors.start)
    }

    /// Whether it makes everything durable before it stops.
    fn flushes_at_last(&self) -> bool {
        true
    }
}

/// Marks the volume's own flush among the bios that come back.
const OWN: u64 = u64::MAX;

impl<B: Bug> Volume<B> {
    fn boxed(below: DeviceId, limits: &Limits, bug: B) -> Box<dyn BlockDevice> {
        let limits = Limits { max_discard: limits.max_write_zeroes, ..limits.clone() };
        Box::new(Self { below: [below], limits, bug })
    }
}

impl<B: Bug> BlockDevice for Volume<B> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Some(mut bio) = self.bug.comes(bio, cx) else { return };
        let word = bio.op as u64;
        if bio.op == Op::Discard {
            bio.op = Op::WriteZeroes;
        }
        cx.submit(self.below[0], bio, word);
    }

    fn content(&self, sectors: Range<u64>) -> (Content, u64) {
        self.bug.knows(sectors)
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if word == OWN {
            return cx.recycle(bio);
        }
        bio.op = Op::ALL[word as usize];
        if status.is_ok() {
            self.bug.goes(&mut bio);
        }
        cx.complete(bio, status);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(_) => self.bug.wakes(cx),
            Event::Suspend { .. } if self.bug.flushes_at_last() => {
                let flush = cx.own_bio(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None));
                cx.submit(self.below[0], flush, OWN);
            }
            _ => {}
        }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("a stand-in for a volume")
    }
}

struct Sound;

impl Bug for Sound {}

#[test]
fn a_sound_device_passes_every_seed() {
    let sound = over(|id, limits| Volume::boxed(id, limits, Sound));
    let failing = (0..SEEDS as u64).filter(|seed| run(*seed, &sound).is_err());
    assert_eq!(failing.count(), 0);
}

#[test]
fn many_points_of_a_run_are_cut_and_recovery_is_cut_too() {
    let reports =
        (0..SEEDS as u64).map(|seed| run(seed, &over(|id, limits| Volume::boxed(id, limits, Sound))).unwrap());
    let (cuts, ops) = reports.fold((0, 0), |(cuts, ops), report| (cuts + report.cuts, ops + report.ops));
    println!("{cuts} cuts, {ops} requests");
    assert!(cuts > 20 * SEEDS as u64 && ops > 100 * SEEDS as u64, "{cuts} cuts, {ops} requests");
}

/// A flush that ends before anything is durable.
struct NoFlush;

impl Bug for NoFlush {
    fn comes(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) -> Option<Box<Bio>> {
        if bio.op == Op::Flush {
            cx.complete(bio, Status::Ok);
            return None;
        }
        bio.flags = bio.flags.without(Flags::PREFLUSH);
        Some(bio)
    }
}

#[test]
fn a_flush_that_is_acknowledged_without_flushing_is_found() {
    is_found("volume-no-flush", |id, limits| Volume::boxed(id, limits, NoFlush), &[Rule::Durability, Rule::Data], 10);
}

/// A stop that leaves the disk's cache as it is.
struct NoLastFlush;

impl Bug for NoLastFlush {
    fn flushes_at_last(&self) -> bool {
        false
    }
}

#[test]
fn a_stop_that_leaves_something_volatile_is_found_at_the_next_start() {
    is_found(
        "volume-no-last-flush",
        |id, limits| Volume::boxed(id, limits, NoLastFlush),
        &[Rule::Durability, Rule::Data],
        20,
    );
}

struct NoFua;

impl Bug for NoFua {
    fn comes(&mut self, mut bio: Box<Bio>, _: &mut Cx<'_>) -> Option<Box<Bio>> {
        bio.flags = bio.flags.without(Flags::FUA);
        Some(bio)
    }
}

#[test]
fn fua_that_is_ignored_is_found() {
    is_found("volume-no-fua", |id, limits| Volume::boxed(id, limits, NoFua), &[Rule::Durability, Rule::Data], 5);
}

/// Every 20th write lands one block too far.
struct Misplaced(u32);

impl Bug for Misplaced {
    fn comes(&mut self, mut bio: Box<Bio>, _: &mut Cx<'_>) -> Option<Box<Bio>> {
        self.0 += u32::from(bio.op == Op::Write);
        if bio.op == Op::Write && self.0.is_multiple_of(20) && bio.sector.0 >= 8 {
            bio.sector = Sector(bio.sector.0 - 8);
        }
        Some(bio)
    }
}

#[test]
fn data_of_another_block_is_called_foreign() {
    let rules = [Rule::Foreign, Rule::Data, Rule::Durability];
    is_found("volume-misplaced", |id, limits| Volume::boxed(id, limits, Misplaced(0)), &rules, 20);
    let first =
        (0..SEEDS as u64).find_map(|seed| run(seed, &over(|id, limits| Volume::boxed(id, limits, Misplaced(0)))).err());
    assert!(first.is_some_and(|failure| matches!(failure.violation.rule, Rule::Foreign | Rule::Data)));
}

/// Every 20th write is acknowledged and not done.
struct Forgetful(u32);

impl Bug for Forgetful {
    fn comes(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) -> Option<Box<Bio>> {
        self.0 += u32::from(bio.op == Op::Write);
        if bio.op == Op::Write && self.0.is_multiple_of(20) {
            cx.complete(bio, Status::Ok);
            return None;
        }
        Some(bio)
    }
}

#[test]
fn a_write_that_is_acknowledged_and_lost_is_found() {
    is_found(
        "volume-forgetful",
        |id, limits| Volume::boxed(id, limits, Forgetful(0)),
        &[Rule::Data, Rule::Durability],
        20,
    );
}

/// Every 10th read has a wrong word.
struct BitRot(u32);

impl Bug for BitRot {
    fn goes(&mut self, bio: &mut Bio) {
        self.0 += u32::from(bio.op == Op::Read);
        if let (Op::Read, 0, Payload::Data(data)) = (bio.op, self.0 % 10, &bio.payload) {
            data.write(data.len() / 2, &[0x55; 8]);
        }
    }
}

#[test]
fn a_wrong_word_in_one_read_is_found() {
    is_found("volume-bit-rot", |id, limits| Volume::boxed(id, limits, BitRot(0)), &[Rule::Data, Rule::Durability], 15);
}

/// Discards are acknowledged and do nothing.
struct NoDiscard;

impl Bug for NoDiscard {
    fn comes(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) -> Option<Box<Bio>> {
        if bio.op == Op::Discard {
            cx.complete(bio, Status::Ok);
            return None;
        }
        Some(bio)
    }
}

#[test]
fn a_discarded_block_that_keeps_its_data_is_found() {
    is_found(
        "volume-no-discard",
        |id, limits| Volume::boxed(id, limits, NoDiscard),
        &[Rule::Data, Rule::Durability],
        15,
    );
}

/// Keeps in mind what was discarded, and not that it was written since.
#[derive(Default)]
struct StaleHoles(BTreeSet<u64>);

impl Bug for StaleHoles {
    fn goes(&mut self, bio: &mut Bio) {
        if matches!(bio.op, Op::Discard | Op::WriteZeroes) {
            self.0.extend((bio.sector.0..bio.end().0).step_by(8));
        }
    }

    fn knows(&self, sectors: Range<u64>) -> (Content, u64) {
        let is_hole = self.0.contains(&sectors.start);
        (if is_hole { Content::Hole } else { Content::Data }, 8)
    }
}

#[test]
fn a_hole_that_was_written_since_is_found() {
    is_found(
        "volume-stale-holes",
        |id, limits| Volume::boxed(id, limits, StaleHoles::default()),
        &[Rule::Data, Rule::Durability],
        15,
    );
}

/// The 20th bio is put aside and never ends.
#[derive(Default)]
struct Hang {
    seen: u32,
    kept: Option<Box<Bio>>,
}

impl Bug for Hang {
    fn comes(&mut self, bio: Box<Bio>, _: &mut Cx<'_>) -> Option<Box<Bio>> {
        self.seen += 1;
        if self.seen == 20 {
            self.kept = Some(bio);
            return None;
        }
        Some(bio)
    }
}

#[test]
fn a_bio_that_never_ends_is_found_as_stuck() {
    is_found("volume-hang", |id, limits| Volume::boxed(id, limits, Hang::default()), &[Rule::Stuck], 30);
}

/// The same, and it looks every second whether something has happened.
#[derive(Default)]
struct Poll(Hang);

impl Bug for Poll {
    fn comes(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) -> Option<Box<Bio>> {
        let gone = self.0.comes(bio, cx);
        if self.0.seen == 20 {
            cx.wake_at(cx.now(), 0);
        }
        gone
    }

    fn wakes(&mut self, cx: &mut Cx<'_>) {
        cx.wake_at(cx.now() + Duration::from_millis(1_000), 0);
    }
}

#[test]
fn a_device_that_looks_busy_and_gets_nowhere_is_found_as_stuck() {
    is_found("volume-poll", |id, limits| Volume::boxed(id, limits, Poll::default()), &[Rule::Stuck], 30);
}

#[test]
fn a_failure_is_shortened_and_says_how_to_replay_it() {
    let options = over(|id, limits| Volume::boxed(id, limits, NoFlush));
    let failure = (0..SEEDS as u64).find_map(|seed| run(seed, &options).err()).expect("a seed that fails");
    let short = shorten(failure.clone(), &options);
    assert!(short.ops <= failure.ops);
    let replay = format!("shingle sim --seed {} --profile dmzoned --ops {}", failure.seed, short.ops);
    assert!(short.to_string().contains(&replay), "{short}");
    let again = run(short.seed, &SwarmOptions { ops: Some(short.ops), trace: true, ..options }).unwrap_err();
    assert_eq!(again.violation, short.violation);
    assert!(again.trace.is_some_and(|trace| trace.contains("the power goes") && trace.contains("Q ")));
}
