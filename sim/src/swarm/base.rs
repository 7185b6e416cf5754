//! What both kinds of swarm have in common: what a run keeps of itself, and what it draws.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::{Display, Write};

use super::options::Wrap;
use super::outcome::{Failure, Report};
use crate::model::{Rule, Violation};
use crate::profile::Profile;
use shingle_core::block::{BlockDevice, Completion, DeviceId, Flags, Stack, TraceEvent};
use shingle_core::dm::{OpSet, Trigger, Window};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// The longest that a bio may take, however much is in line before it.
pub(super) const PATIENCE: Duration = Duration::from_millis(120_000);
/// Trace events between two looks at the trace.
pub(super) const TRACE: usize = 1 << 16;

/// The trace, as a sum, and as text if somebody wants it.
#[derive(Default)]
pub(super) struct TraceSum {
    pub sum: u64,
    pub events: u64,
    pub text: Option<String>,
}

impl TraceSum {
    pub fn line(&mut self, line: &str) {
        line.bytes().for_each(|byte| self.mix(byte.into()));
        if let Some(text) = &mut self.text {
            text.push_str(line);
            text.push('\n');
        }
    }

    fn event(&mut self, event: &TraceEvent) {
        let TraceEvent { at, action, device, op, sector, sectors, status, .. } = *event;
        self.events += 1;
        self.mix(at.0);
        self.mix((action as u64) << 56 | u64::from(device.0) << 40 | (op as u64) << 32 | u64::from(sectors));
        self.mix(sector.0 << 8 | status as u64);
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "{event}");
        }
    }

    fn mix(&mut self, word: u64) {
        let wide = u128::from(self.sum ^ word ^ 0xe703_7ed1_a0b4_28db) * 0xa076_1d64_78bd_642f;
        self.sum = (wide >> 64) as u64 ^ wide as u64;
    }
}

/// What a run has left to do, and what was seen of it.
#[derive(Default)]
pub(super) struct Log {
    /// Requests that may still be submitted.
    pub left: u64,
    pub submitted: u64,
    /// Hosts that may still submit some.
    pub hosts: u32,
    /// What was done, and how often.
    pub noted: BTreeMap<&'static str, u64>,
    pub violation: Option<Violation>,
    pub trace: TraceSum,
}

impl Log {
    pub fn note(&mut self, what: &'static str) {
        *self.noted.entry(what).or_default() += 1;
    }

    /// The same, so often.
    pub fn add(&mut self, what: &'static str, times: u64) {
        *self.noted.entry(what).or_default() += times;
    }

    /// Counts a request.
    pub fn count(&mut self) {
        self.submitted += 1;
        self.left = self.left.saturating_sub(1);
    }

    pub fn violate(&mut self, rule: Rule, at: Instant, what: String) {
        self.violation.get_or_insert(Violation { rule, at, what });
    }

    /// A host of a recorded scenario has no further request. When that is true of all hosts, none is left.
    pub fn host_has_ended(&mut self) {
        self.hosts -= 1;
        if self.hosts == 0 {
            self.left = 0;
        }
    }

    /// Judges the time that something took which was `asked`.
    pub fn judge_time(&mut self, asked: &dyn Display, back: &Completion, now: Instant) {
        let took = now.since(back.bio.since);
        if took > PATIENCE {
            self.violate(Rule::Stuck, now, format!("request {}: {asked} took {} ms", back.tag, took.0 / 1_000_000));
        }
    }

    /// Judges what a completion says of its reason.
    pub fn judge_reason(&mut self, asked: &dyn Display, back: &Completion, now: Instant) {
        if !back.is_explained() {
            let why = back.why().map_or(String::from("nothing"), |why| format!("`{why}`"));
            let what = format!("request {}: {asked} failed with {} and said {why}", back.tag, back.status);
            self.violate(Rule::Reason, now, what);
        }
    }

    /// Takes the trace out of the stack.
    pub fn collect_trace(&mut self, stack: &mut Stack) {
        let Some(trace) = stack.trace() else { return };
        while let Some(event) = trace.pop() {
            self.trace.event(&event);
        }
    }

    /// The violation that was found, if one was; its time is `now` if nobody knows better.
    pub fn verdict(&mut self, now: Instant) -> Result<(), Violation> {
        let Some(mut violation) = self.violation.take() else { return Ok(()) };
        violation.at = if violation.at == Instant::ZERO { now } else { violation.at };
        Err(violation)
    }

    /// What a run did that came to its end.
    pub fn report(&mut self, report: &Report) -> Report {
        let TraceSum { sum, events, text } = core::mem::take(&mut self.trace);
        let mut noted = report.noted.clone();
        self.noted.iter().for_each(|(what, times)| *noted.entry(what).or_default() += times);
        Report { ops: self.submitted, noted, sum, events, trace: text, ..report.clone() }
    }

    /// A run that came to this `violation`: its seed, its profile and the number of its life, and what was drawn.
    pub fn failure(&mut self, violation: Violation, run: (u64, Profile, u64), scenario: &dyn Display) -> Box<Failure> {
        let (seed, profile, life) = run;
        self.trace.line(&violation.to_string());
        let (ops, scenario, trace) = (self.submitted, scenario.to_string(), self.trace.text.take());
        Box::new(Failure { seed, profile, violation, life, ops, scenario, trace })
    }
}

/// Nothing goes on, and this is what is in flight longest.
pub(super) fn stuck(oldest: Option<(Instant, String)>, at: Instant) -> Violation {
    let what = match oldest {
        Some((since, what)) => format!("{what} does not end, since {} us", since.0 / 1_000),
        None => String::from("nothing is in flight, and the hosts wait"),
    };
    Violation { rule: Rule::Stuck, at, what }
}

pub(super) fn add(stack: &mut Stack, device: Box<dyn BlockDevice>) -> Result<DeviceId, String> {
    stack.add(device).map_err(|error| error.to_string())
}

/// What is on top when `wrap` has put its device over `below`, if there is one.
pub(super) fn wrapped(stack: &mut Stack, below: DeviceId, wrap: Option<Wrap>) -> Result<DeviceId, String> {
    let device = wrap.map(|wrap| wrap(below, stack.limits(below)));
    device.map_or(Ok(below), |device| add(stack, device))
}

pub(super) fn some<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

pub(super) fn between(rng: &mut Rng, least: u64, most: u64) -> u64 {
    least + rng.below(most - least + 1)
}

/// One of these, as often as their weights say; the first of them is possible.
pub(super) fn weighted<T: Copy>(rng: &mut Rng, of: &[T], weights: &[u64]) -> T {
    let mut at = rng.below(weights.iter().sum());
    let drawn = of.iter().zip(weights).find(|(_, weight)| {
        let hit = at < **weight;
        at = at.saturating_sub(**weight);
        hit
    });
    drawn.map_or(of[0], |(one, _)| *one)
}

/// True if a disk honours FUA. Drawn apart from all else, so that a seed draws what it drew before disks could lack it.
pub(super) fn draw_fua(seed: u64, disk: u64) -> bool {
    Rng::new(seed ^ 0xf0a0_f0a0_f0a0_f0a0 ^ disk << 32).fork().chance(2, 3)
}

/// A swarm is diverse: each run leaves something out, but never the first.
pub(super) fn leave_out<const N: usize>(mut weights: [u64; N], rng: &mut Rng) -> [u64; N] {
    for weight in &mut weights[1..] {
        if rng.chance(1, 4) {
            *weight = 0;
        }
    }
    weights
}

/// Flags of writes; a volume knows all but the last.
pub(super) const FLAGS: [Flags; 4] = [Flags::FUA, Flags::PREFLUSH, Flags::FUA.with(Flags::PREFLUSH), Flags::NOWAIT];

/// One of these flags for so many of 100 writes.
pub(super) fn draw_flags(rng: &mut Rng, of_100: u64, from: &[Flags]) -> Flags {
    if rng.chance(of_100, 100) { some(rng, from) } else { Flags::NONE }
}

/// When one of `ops` meets a fault: one in `rare` at the most often, at times, or a few times only, which is drawn once in
/// `seldom`.
pub(super) fn draw_trigger(rng: &mut Rng, ops: OpSet, rare: u64, seldom: u64) -> Trigger {
    let rate = (1, between(rng, rare, rare * 10));
    let window = rng
        .chance(1, 4)
        .then(|| Window { period: Duration::from_millis(20), active: Duration::from_millis(between(rng, 1, 10)) });
    let count = rng.chance(1, seldom).then(|| between(rng, 1, 3));
    Trigger { ops, rate, window, count, ..Trigger::default() }
}
