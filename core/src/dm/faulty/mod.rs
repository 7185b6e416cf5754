//! `faulty`: a device that fails on purpose, by rules and a seed.
//!
//! ```text
//!   bio ── no rule picks it ──────────────────────────────> device below
//!      ├── error ───────────> fails here, nothing is done
//!      └── error-after, delay, lose ──> device below ──> failed, late, or never told: Timeout
//! ```
//!
//! Everything but `error` happens on the way back, so bios reach the device below in the order in which they came: a
//! delayed write is not overtaken by the next one of its zone. A lost completion is kept here and ended with
//! [`Reason::NoAnswer`] when its time is up, as a driver would: a bio has one owner, and nobody above could end it.

mod parse;
mod trigger;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;

pub use trigger::{OpSet, Trigger, Window};

use crate::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Reason, Status};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;
use crate::random::Rng;
use crate::time::{Duration, Instant};

pub(super) const TYPE: TargetType = TargetType {
    name: "faulty",
    version: [1, 0, 0],
    usage: "faulty <device> <start sector> [seed=<number>] <rule>...",
    parse: parse_arguments,
};

/// `faulty <device> <start> [seed=<number>] <rule>...`.
#[derive(Debug)]
struct FaultyArgs {
    device: DeviceArg,
    start: u64,
    seed: u64,
    rules: Vec<FaultyRule>,
    /// Seed and rules as they were written.
    words: Vec<String>,
}

fn parse_arguments(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let (device, start) = (args.device()?, args.sectors("the start on the device")?);
    let (place, words) = (args.place(), args.rest());
    let (seed, rules) = parse::parse_faulty(&words)
        .map_err(|(word, message)| ArgError::at(place + word, format!("faulty: {message}")))?;
    let words = words.into_iter().map(String::from).collect();
    Ok(Arc::new(FaultyArgs { device, start, seed, rules, words }))
}

impl Target for FaultyArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        Vec::from([&self.device])
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} {}", quote(&self.device.name), self.start)?;
        self.words.iter().try_for_each(|word| write!(out, " {word}"))
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let below = context.part_device(&self.device, self.start)?;
        let faulty = Faulty::new(below, context.stack.limits(below), self.rules.clone(), self.seed);
        context.map(Box::new(faulty))
    }
}

/// What a rule does to the bios that it picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyAction {
    /// They fail, and nothing is done.
    Error(Status),
    /// They are carried out, and reported as failed.
    ErrorAfter(Status),
    /// Their completions come so much later.
    Delay(Duration),
    /// Their completions are lost; they end with [`Reason::NoAnswer`] so long after they were submitted.
    Lose(Duration),
}

/// A rule of a faulty device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyRule {
    /// To which bios.
    pub trigger: Trigger,
    /// What.
    pub action: FaultyAction,
}

/// A device that passes everything on to another one, but for what its rules pick.
pub struct Faulty {
    below: [DeviceId; 1],
    limits: Limits,
    rules: Vec<FaultyRule>,
    rng: Rng,
    injected: u64,
    /// Bios that are back and not told yet: when and how they end.
    late: BTreeMap<(Instant, u64), (Box<Bio>, Status)>,
}

impl Faulty {
    /// Faults over device `below`, whose limits are `limits`. The first rule that picks a bio decides.
    #[must_use]
    pub fn new(below: DeviceId, limits: &Limits, rules: Vec<FaultyRule>, seed: u64) -> Self {
        let limits = limits.clone();
        Self { below: [below], limits, rules, rng: Rng::new(seed), injected: 0, late: BTreeMap::new() }
    }

    /// Faults so far, delays included.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.injected
    }

    fn keep(&mut self, due: Instant, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        cx.wake_at(due, 0);
        // Two that end at the same time do so in the order in which they came back.
        let place = self.late.range((due, 0)..=(due, u64::MAX)).next_back().map_or(0, |((_, last), _)| last + 1);
        self.late.insert((due, place), (bio, status));
    }
}

impl BlockDevice for Faulty {
    keeps_limits_and_below!();

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let (rng, now) = (&mut self.rng, cx.now());
        let Some(rule) = self.rules.iter_mut().position(|rule| rule.trigger.picks(&bio, now, rng)) else {
            return cx.remap(self.below[0], bio);
        };
        self.injected += 1;
        match self.rules[rule].action {
            FaultyAction::Error(status) => cx.fail(bio, Reason::Injected(status)),
            _ => cx.submit(self.below[0], bio, rule as u64),
        }
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, rule: u64, cx: &mut Cx<'_>) {
        match self.rules[rule as usize].action {
            FaultyAction::ErrorAfter(error) if status.is_ok() => cx.fail(bio, Reason::Injected(error)),
            FaultyAction::ErrorAfter(_) => cx.complete(bio, status),
            FaultyAction::Delay(time) => self.keep(cx.now() + time, bio, status, cx),
            FaultyAction::Lose(timeout) => {
                let due = (bio.since + timeout).max(cx.now());
                let status = bio.blame(Reason::NoAnswer(due.since(bio.since)));
                self.keep(due, bio, status, cx);
            }
            FaultyAction::Error(_) => unreachable!("{bio:?} came back and was never sent"),
        }
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        while let Some(entry) = self.late.first_entry().filter(|entry| entry.key().0 <= cx.now()) {
            let (bio, status) = entry.remove();
            cx.complete(bio, status);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.late.values().for_each(|(bio, _)| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (rules, below) = (self.rules.len(), self.below[0].0);
        write!(out, "faulty, {rules} rules over device {below}, {} faults so far", self.injected)
    }
}
