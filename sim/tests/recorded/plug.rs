//! The checkers are checked: a bug is planted in a world, and the swarm has to find it, and name the promise that is broken.
//! The same seeds pass without the bug.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use crate::harness::{Mutation, Rules, first};
use shingle_core::block::{
    self, Bio, BlockDevice, Cx, DeviceId, Event, Flags, Limits, Op, Payload, Reason, Stack, Status,
};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::time::Duration;
use shingle_sim::model::Rule;
use shingle_sim::swarm::{MakePlug, Profile, SwarmOptions, Wrap, run, shorten};

const SEEDS: usize = 60;

/// Asserts that the bug is found, as one of `rules` and no other.
fn is_found(name: &str, planted: &SwarmOptions, rules: &[Rule], at_least: u64) {
    let (sound, rules) = (SwarmOptions { profile: planted.profile, ..SwarmOptions::default() }, Rules::Only(rules));
    Mutation { name, planted: planted.clone(), sound, rules, seeds: &first::<SEEDS>(), at_least }.is_found();
}

/// Seeds whose scenario breaks a rule.
fn failing(options: &SwarmOptions) -> usize {
    (0..SEEDS as u64).filter(|seed| run(*seed, options).is_err()).count()
}

fn below(wrap: Wrap) -> SwarmOptions {
    SwarmOptions { profile: Profile::All, below_plug: Some(wrap), ..SwarmOptions::default() }
}

#[test]
fn without_a_bug_every_seed_passes() {
    let options = SwarmOptions { profile: Profile::All, ..SwarmOptions::default() };
    assert_eq!(failing(&options), 0);
}

/// A device that changes something on the way down or up, and passes on the rest.
struct Tampered<T> {
    below: [DeviceId; 1],
    limits: Limits,
    tamper: T,
}

/// What it changes.
trait Tamper: 'static {
    /// A bio goes down; false: it is done at once.
    fn down(&mut self, _bio: &mut Bio) -> bool {
        true
    }

    /// A bio comes up.
    fn up(&mut self, _bio: &mut Bio, status: Status) -> Status {
        status
    }
}

impl<T: Tamper> Tampered<T> {
    fn boxed(below: DeviceId, limits: &Limits, tamper: T) -> Box<dyn BlockDevice> {
        Box::new(Self { below: [below], limits: limits.clone(), tamper })
    }
}

impl<T: Tamper> BlockDevice for Tampered<T> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.tamper.down(&mut bio) { cx.submit(self.below[0], bio, 0) } else { cx.complete(bio, Status::Ok) }
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, _: u64, cx: &mut Cx<'_>) {
        let status = self.tamper.up(&mut bio, status);
        cx.complete(bio, status);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("planted bug")
    }
}

/// A disk that answers a flush before anything is durable.
struct EagerFlush;

impl Tamper for EagerFlush {
    fn down(&mut self, bio: &mut Bio) -> bool {
        bio.op != Op::Flush
    }
}

#[test]
fn a_flush_that_ends_before_the_data_is_durable_is_found_after_a_loss_of_power() {
    is_found("plug-eager-flush", &below(|id, limits| Tampered::boxed(id, limits, EagerFlush)), &[Rule::Durability], 2);
}

/// A disk that takes FUA and PREFLUSH for decoration.
struct NoFua;

impl Tamper for NoFua {
    fn down(&mut self, bio: &mut Bio) -> bool {
        bio.flags = bio.flags.without(Flags::FUA).without(Flags::PREFLUSH);
        true
    }
}

#[test]
fn fua_that_is_ignored_is_found_after_a_loss_of_power() {
    is_found("plug-no-fua", &below(|id, limits| Tampered::boxed(id, limits, NoFua)), &[Rule::Durability], 2);
}

#[test]
fn a_fua_write_acknowledged_before_its_flush_is_found() {
    let unflushed = block::Sabotage { fua_unflushed: true };
    let planted = SwarmOptions { profile: Profile::All, sabotage_fua: unflushed, ..SwarmOptions::default() };
    is_found("plug-fua-unflushed", &planted, &[Rule::Durability], 1);
}

/// A disk whose every 50th read has a wrong word.
struct BitRot(u32);

impl Tamper for BitRot {
    fn up(&mut self, bio: &mut Bio, status: Status) -> Status {
        self.0 += u32::from(bio.op == Op::Read && status.is_ok());
        if let (Op::Read, 0, Payload::Data(data)) = (bio.op, self.0 % 50, &bio.payload) {
            data.write(data.len() / 2, &[0x55; 8]);
        }
        status
    }
}

#[test]
fn a_wrong_word_in_one_read_is_found() {
    is_found(
        "plug-bit-rot",
        &below(|id, limits| Tampered::boxed(id, limits, BitRot(0))),
        &[Rule::Data, Rule::Durability],
        30,
    );
}

/// A disk that says of a write that met a bad spot that it is done.
struct Optimist;

impl Tamper for Optimist {
    fn up(&mut self, bio: &mut Bio, status: Status) -> Status {
        if bio.op == Op::Write && status == Status::Medium { Status::Ok } else { status }
    }
}

#[test]
fn a_failed_write_that_is_reported_as_done_is_found() {
    // The data is not there, or the pointer is not, or the next write does not fit, or lands where one is already.
    let rules = [Rule::Append, Rule::Data, Rule::Durability, Rule::Pointer, Rule::Order, Rule::Unexplained];
    is_found("plug-optimist", &below(|id, limits| Tampered::boxed(id, limits, Optimist)), &rules, 2);
}

/// A layer that lets no failure pass with its reason, as one that ends the bios above it for others of its own.
struct Mute;

impl Tamper for Mute {
    fn up(&mut self, bio: &mut Bio, status: Status) -> Status {
        let mut silent = Bio::new(bio.op, bio.sector, 0, Payload::None);
        bio.inherit(&mut silent);
        status
    }
}

#[test]
fn a_layer_that_drops_the_reason_of_a_failure_is_found() {
    is_found("plug-mute", &below(|id, limits| Tampered::boxed(id, limits, Mute)), &[Rule::Reason], 20);
    is_found(
        "plug-mute-above-tables",
        &with_tables(|id, limits| Tampered::boxed(id, limits, Mute)),
        &[Rule::Reason],
        20,
    );
}

/// A layer that answers with another status than the reason gives.
struct Disagrees;

impl Tamper for Disagrees {
    fn up(&mut self, _: &mut Bio, status: Status) -> Status {
        if status == Status::Medium { Status::Target } else { status }
    }
}

#[test]
fn a_status_that_does_not_follow_from_its_reason_is_found() {
    is_found("plug-disagrees", &below(|id, limits| Tampered::boxed(id, limits, Disagrees)), &[Rule::Reason], 5);
}

/// What is done to a plug before it hears that a bio has ended. False: it does not hear of it.
type Alter = dyn FnMut(&mut ZonePlug, &Bio, Status) -> bool + Send;

/// A plug to which something is done.
struct Altered {
    plug: ZonePlug,
    alter: Box<Alter>,
}

/// Does not hear of the 20th write that ends: what waits in that zone is never woken.
fn drowsy(below: DeviceId, limits: &Limits, options: PlugOptions) -> Box<dyn BlockDevice> {
    let mut writes = 0;
    let alter = move |_: &mut ZonePlug, bio: &Bio, status: Status| {
        let plain = bio.op == Op::Write && status.is_ok() && matches!(bio.payload, Payload::Data(_));
        writes += u32::from(plain);
        !plain || writes != 20
    };
    Box::new(Altered { plug: ZonePlug::new(below, limits, options).unwrap(), alter: Box::new(alter) })
}

/// Believes every report, whatever has happened since it was asked for.
fn credulous(below: DeviceId, limits: &Limits, options: PlugOptions) -> Box<dyn BlockDevice> {
    let alter = |plug: &mut ZonePlug, bio: &Bio, _: Status| {
        if bio.op == Op::ReportZones {
            plug.forget_changes();
        }
        true
    };
    Box::new(Altered { plug: ZonePlug::new(below, limits, options).unwrap(), alter: Box::new(alter) })
}

impl BlockDevice for Altered {
    fn limits(&self) -> &Limits {
        self.plug.limits()
    }

    fn below(&self) -> &[DeviceId] {
        self.plug.below()
    }

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.plug.attached(cx);
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.plug.submit(bio, cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        match (self.alter)(&mut self.plug, &bio, status) {
            true => self.plug.end_io(bio, status, word, cx),
            false => cx.complete(bio, status),
        }
    }

    fn on_event(&mut self, event: shingle_core::block::Event, cx: &mut Cx<'_>) {
        self.plug.on_event(event, cx);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.plug.describe(out)
    }
}

fn with_plug(plug: MakePlug) -> SwarmOptions {
    SwarmOptions { profile: Profile::Plug, plug: Some(plug), ..SwarmOptions::default() }
}

#[test]
fn a_wake_up_that_is_dropped_once_is_found_as_a_world_that_is_stuck() {
    // An append that was emulated comes back as the write that it became.
    is_found("plug-drowsy", &with_plug(drowsy), &[Rule::Stuck, Rule::Completion], 20);
}

#[test]
fn a_report_that_is_older_than_what_the_plug_learns_from_it_is_found() {
    is_found(
        "plug-credulous",
        &with_plug(credulous),
        &[Rule::Unexplained, Rule::Order, Rule::Pointer, Rule::Append],
        5,
    );
}

thread_local! {
    /// Writes that failed at the disk, each with the sectors whose submitters were not told yet. The plug never is.
    static FAILED: RefCell<Vec<(Range<u64>, u32)>> = const { RefCell::new(Vec::new()) };
}

/// A plug that takes a write that failed for one that succeeded: its pointer goes on.
struct Careless;

impl Tamper for Careless {
    fn up(&mut self, bio: &mut Bio, status: Status) -> Status {
        let fails = bio.op == Op::Write && matches!(status, Status::Io | Status::Medium | Status::Target);
        if fails {
            FAILED.with_borrow_mut(|failed| failed.push((bio.sector.0..bio.end().0, bio.sectors)));
            return Status::Ok;
        }
        status
    }
}

/// Tells the submitter what the plug was not told.
struct Confession;

impl Tamper for Confession {
    fn up(&mut self, bio: &mut Bio, status: Status) -> Status {
        let is_write = matches!(bio.op, Op::Write | Op::ZoneAppend);
        let lies_in = |failed: &Range<u64>| failed.start <= bio.sector.0 && bio.end().0 <= failed.end;
        let has_failed = FAILED.with_borrow_mut(|all| {
            let found = all.iter_mut().find(|(failed, _)| is_write && lies_in(failed));
            let has_failed = found.map(|(_, left)| *left -= bio.sectors).is_some();
            all.retain(|(_, left)| *left > 0);
            has_failed
        });
        if has_failed { bio.blame(Reason::Injected(Status::Io)) } else { status }
    }
}

#[test]
fn a_pointer_that_is_advanced_on_failure_is_found_at_the_disk() {
    let bug = SwarmOptions {
        profile: Profile::Plug,
        below_plug: Some(|id, limits| {
            FAILED.take();
            Tampered::boxed(id, limits, Careless)
        }),
        above_plug: Some(|id, limits| Tampered::boxed(id, limits, Confession)),
        ..SwarmOptions::default()
    };
    is_found("plug-careless", &bug, &[Rule::Order], 2);
}

/// A plug that never lets writes take turns: it does `plug` where `qd1` was asked for.
fn impatient(below: DeviceId, limits: &Limits, options: PlugOptions) -> Box<dyn BlockDevice> {
    let policy = if options.policy == WritePolicy::Qd1 { WritePolicy::Plug } else { options.policy };
    Box::new(ZonePlug::new(below, limits, PlugOptions { policy, ..options }).unwrap())
}

#[test]
fn two_zone_writes_at_a_disk_that_was_promised_one_are_found_at_the_disk() {
    is_found("plug-impatient", &with_plug(impatient), &[Rule::Order], 5);
}

/// A plug that believes that its disk does not turn, so `elevator` gives it several writes.
fn misinformed(below: DeviceId, limits: &Limits, options: PlugOptions) -> Box<dyn BlockDevice> {
    let limits = Limits { rotational: false, ..limits.clone() };
    Box::new(ZonePlug::new(below, &limits, options).unwrap())
}

#[test]
fn an_elevator_that_takes_a_disk_that_turns_for_one_that_does_not_is_found_at_the_disk() {
    is_found("plug-misinformed", &with_plug(misinformed), &[Rule::Order], 2);
}

fn with_tables(above: Wrap) -> SwarmOptions {
    SwarmOptions { profile: Profile::Mapper, above_tables: Some(above), ..SwarmOptions::default() }
}

#[test]
fn without_a_bug_every_world_of_tables_passes() {
    let options = SwarmOptions { profile: Profile::Mapper, ..SwarmOptions::default() };
    assert_eq!(failing(&options), 0);
    assert_eq!(failing(&with_tables(|id, limits| Tampered::boxed(id, limits, Faithful))), 0);
}

/// Changes nothing.
struct Faithful;

impl Tamper for Faithful {}

/// A mapped device that lets bios in while it is suspended.
#[test]
fn a_bio_that_gets_into_a_suspended_device_is_found() {
    let leak = |stack: &mut Stack, device: DeviceId, is_suspended: bool| {
        if is_suspended {
            stack.resume(device);
        }
    };
    let bug = SwarmOptions { profile: Profile::Mapper, meddle: Some(leak), ..SwarmOptions::default() };
    is_found("mapper-leak", &bug, &[Rule::Table], 10);
}

/// A mapped device that opens its door before what is inside is out: then nothing can be swapped.
#[test]
fn a_door_that_opens_before_the_device_is_drained_is_found() {
    let hasty = |stack: &mut Stack, device: DeviceId, is_suspended: bool| {
        if !is_suspended {
            stack.resume(device);
        }
    };
    let bug = SwarmOptions { profile: Profile::Mapper, meddle: Some(hasty), ..SwarmOptions::default() };
    // The table is refused at last; before that, bios went through targets that were told to come to rest.
    is_found("mapper-hasty", &bug, &[Rule::Table, Rule::Durability, Rule::Data, Rule::Pointer, Rule::Unexplained], 20);
}

/// What becomes of bios at a swap.
#[derive(Clone, Copy, PartialEq)]
enum Swap {
    /// A late table is replaced, every 30 bios, and bios go through the new one before those in the old one are out.
    TooEarly,
    /// Every 30 bios some wait at the door, and then go in with the oldest last, as if it had been pushed back behind them.
    OldestLast,
}

/// A device that is swapped every now and then, and loses the order.
struct Swapped {
    below: [DeviceId; 1],
    limits: Limits,
    how: Swap,
    seen: u32,
    #[expect(clippy::vec_box, reason = "a bio keeps its box on its whole way")]
    waiting: Vec<Box<Bio>>,
}

impl Swapped {
    fn boxed(below: DeviceId, limits: &Limits, how: Swap) -> Box<dyn BlockDevice> {
        Box::new(Self { below: [below], limits: limits.clone(), how, seen: 0, waiting: vec![] })
    }
}

impl BlockDevice for Swapped {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.seen += 1;
        let waits = match self.how {
            Swap::TooEarly => self.seen.is_multiple_of(30),
            Swap::OldestLast => self.seen % 30 < 4,
        };
        if !waits {
            return cx.remap(self.below[0], bio);
        }
        cx.wake_at(cx.now() + Duration::from_micros(300), 0);
        self.waiting.push(bio);
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        if self.how == Swap::OldestLast && self.waiting.len() > 1 {
            self.waiting.rotate_left(1);
        }
        self.waiting.drain(..).for_each(|bio| cx.remap(self.below[0], bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("planted bug")
    }
}

#[test]
fn a_swap_that_does_not_wait_for_the_drain_is_found_as_writes_out_of_order() {
    let bug = with_tables(|id, limits| Swapped::boxed(id, limits, Swap::TooEarly));
    // An error that has no reason, data of the wrong of two writes, a report of the wrong pointer.
    let rules = [Rule::Unexplained, Rule::Data, Rule::Durability, Rule::Pointer, Rule::Append, Rule::Condition];
    is_found("mapper-swap-too-early", &bug, &rules, 5);
}

#[test]
fn a_pushed_back_bio_behind_those_that_came_later_is_found_as_writes_out_of_order() {
    let bug = with_tables(|id, limits| Swapped::boxed(id, limits, Swap::OldestLast));
    let rules = [Rule::Unexplained, Rule::Data, Rule::Durability, Rule::Pointer, Rule::Append, Rule::Condition];
    is_found("mapper-oldest-last", &bug, &rules, 5);
}

/// A table that goes on with a write that asks for a flush before it, and flushes nothing.
struct NoPreflush;

impl Tamper for NoPreflush {
    fn down(&mut self, bio: &mut Bio) -> bool {
        bio.flags = bio.flags.without(Flags::PREFLUSH);
        true
    }
}

#[test]
fn a_preflush_that_does_not_reach_the_other_disks_is_found_after_a_loss_of_power() {
    let bug = with_tables(|id, limits| Tampered::boxed(id, limits, NoPreflush));
    let sound = SwarmOptions { profile: Profile::Mapper, ..SwarmOptions::default() };
    let (rules, seeds) = (Rules::Only(&[Rule::Durability]), &first::<{ 20 * SEEDS }>());
    Mutation { name: "mapper-no-preflush", planted: bug, sound, rules, seeds, at_least: 2 }.is_found();
}

/// A table that says of every 10th append that it landed in the next zone.
struct WrongZone(u32);

impl Tamper for WrongZone {
    fn up(&mut self, bio: &mut Bio, status: Status) -> Status {
        let landed = bio.op == Op::ZoneAppend && status.is_ok();
        self.0 += u32::from(landed);
        if landed && self.0.is_multiple_of(10) {
            bio.sector += 256;
        }
        status
    }
}

#[test]
fn an_append_that_is_translated_with_the_wrong_zone_is_found() {
    let bug = with_tables(|id, limits| Tampered::boxed(id, limits, WrongZone(0)));
    is_found("mapper-wrong-zone", &bug, &[Rule::Append, Rule::Completion], 10);
}

#[test]
fn a_failure_is_shortened_and_says_how_to_replay_it() {
    let bug = with_plug(drowsy);
    let failure = (0..SEEDS as u64).find_map(|seed| run(seed, &bug).err()).expect("some seed finds the bug");
    let (seed, first) = (failure.seed, failure.ops);
    let shorter = shorten(failure, &bug);
    assert!(shorter.ops <= first);
    let text = shorter.to_string();
    assert!(text.contains(&format!("shingle sim --seed {seed} --profile plug --ops {}", shorter.ops)), "{text}");
    let again = run(seed, &SwarmOptions { ops: Some(shorter.ops), ..bug }).expect_err("it fails again");
    assert_eq!(again.violation, shorter.violation);
}
