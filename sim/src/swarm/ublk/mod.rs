//! Kills of the server of a ublk device: users of a block device whose server is killed at any step and started again see nothing
//! but a pause.
//!
//! ```text
//!   users ──> kernel: queue, tags ── descriptors, data ──> session ── bios ──> zoned disk behind a plug, dm-zoned, a disk that forgets
//!               ^ │ comes again after a kill                 │ │
//!               │ └──────────────────────────────────────────┘ └── memory that outlives the server
//!               └────────── promises: all that was acknowledged
//! ```
//!
//! Everything goes in steps: a user submits, the kernel hands a request over, the session has one thing done, a bio comes back, time
//! passes. Which is next is drawn, and so is after which step the server is killed, or the power goes. A killed server loses what it
//! has in memory; the kernel sends all again that was not answered, in any order; and what lay in the disk is carried out, in part,
//! or not. With the power, the kernel's requests are gone as well, and what the disks had not made durable.
//!
//! What is looked at: that no request fails because of that; at every read, report and append what was acknowledged; that appends
//! which were done in part leave no garbage, unless later ones have all tags; after a loss of power what was flushed; and that everything ends.

mod kernel;
mod machine;
mod pages;
mod promises;
mod scenario;
mod users;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};

use super::base::{Log, TraceSum, between};
use super::options::SwarmOptions;
use super::outcome::{Failure, Report};
use crate::choices::{Choices, Origin, choices_by_name};
use crate::model::{Rule, Violation};
use kernel::{Kernel, Request};
use machine::{Left, Machine};
use promises::{Promises, Verdict};
use scenario::{Backing, Scenario};
use shingle_core::block::Op;
use shingle_core::frontend::ublk::{Answer, Next};
use shingle_core::random::Rng;
use users::Users;

/// Steps in which a request and what it has to wait for end.
const PATIENCE: u64 = 200_000;

/// Runs one seed.
pub(super) fn run(seed: u64, options: &SwarmOptions, origin: &Origin) -> Result<Report, Box<Failure>> {
    let scenario = Scenario::draw(seed).pinned(&mut Choices::root(Rng::new(seed), origin, "scenario"));
    let trace = TraceSum { sum: seed, events: 0, text: options.trace.then(String::new) };
    let left = options.ops.map_or(scenario.ops, |ops| ops.min(scenario.ops));
    let mut log = Log { left, trace, ..Log::default() };
    let mut life = 0;
    let choices = Choices::root(Rng::new(seed).fork(), origin, "run");
    let outcome = Run::new(choices, options, &scenario).and_then(|mut run| {
        let outcome = run.play(&mut log);
        life = run.report.cuts + run.report.kills + 1;
        outcome.map(|()| run.report)
    });
    match outcome {
        Ok(report) => Ok(log.report(&report)),
        Err(violation) => Err(log.failure(violation, (seed, options.profile, life), &scenario)),
    }
}

/// What a seed draws, in words.
pub(super) fn describe(seed: u64) -> String {
    Scenario::draw(seed).to_string()
}

/// One seed on its way.
struct Run<'a> {
    options: &'a SwarmOptions,
    scenario: &'a Scenario,
    choices: Choices,
    kernel: Kernel,
    promises: Promises,
    users: Users,
    machine: Machine,
    left: Left,
    /// What is asked for before anything that users draw.
    script: VecDeque<Request>,
    /// After so many steps the server is killed.
    until_kill: Option<u64>,
    kills_left: u64,
    report: Report,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Use,
    Begin,
    DoNext,
    Complete,
    Wait,
}

choices_by_name!(Step);

impl<'a> Run<'a> {
    fn new(mut choices: Choices, options: &'a SwarmOptions, scenario: &'a Scenario) -> Result<Self, Violation> {
        let broken = |what: String| Violation { rule: Rule::Accepted, at: shingle_core::time::Instant::ZERO, what };
        let mut left = Left::new(scenario, &mut choices).map_err(broken)?;
        let machine = Machine::start(scenario, &mut left, gone(options)).map_err(broken)?;
        let limits = machine.limits();
        let mut promises = match (&scenario.backing, limits.zoned.as_ref()) {
            (Backing::Zoned(disk), Some(zoned)) => {
                let (zone, conventional) = (zoned.zone_sectors / scenario.unit, disk.geometry.conventional());
                let capacity = disk.geometry.capacity_of(shingle_core::zone::ZoneNo(conventional)) / scenario.unit;
                let zones = disk.geometry.zones() - conventional;
                Promises::new(scenario.unit, conventional * zone, zones, (zone, capacity))
            }
            _ => {
                let blocks = (limits.capacity / u64::from(scenario.unit)).min(u64::from(scenario.span));
                Promises::new(scenario.unit, blocks as u32, 0, (0, 0))
            }
        };
        promises.is_write_through = !limits.write_cache;
        let kernel = Kernel::new(scenario.unit, left.pages.clone(), scenario.registers);
        let users = Users::new(limits, scenario);
        let until_kill = Some(between(choices.rng(), 1, scenario.apart));
        let mut run = Self {
            options,
            scenario,
            choices,
            kernel,
            promises,
            users,
            machine,
            left,
            script: VecDeque::new(),
            until_kill,
            kills_left: scenario.kills,
            report: Report::default(),
        };
        run.appear();
        Ok(run)
    }

    /// The device is new to the kernel, which asks where its zones are written up to.
    fn appear(&mut self) {
        if !self.promises.zones.is_empty() {
            self.script.push_front(self.users.report(&self.promises, true));
        }
    }

    fn violation(&self, (rule, what): (Rule, String)) -> Violation {
        Violation { rule, at: self.machine.now, what }
    }

    fn play(&mut self, log: &mut Log) -> Result<(), Violation> {
        self.rounds(log)?;
        // At last everything is looked at, killed or not.
        for _ in 0..2 {
            self.script.extend(self.users.audit(&self.promises, false, self.scenario.longest));
            if !self.promises.zones.is_empty() {
                self.script.push_back(self.users.report(&self.promises, false));
            }
            self.rounds(log)?;
        }
        if self.promises.garbage > 0 {
            *log.noted.entry("garbage").or_default() += self.promises.garbage;
        }
        self.report.virtual_time.0 += self.machine.now.0;
        Ok(())
    }

    /// Goes on until nobody wants anything.
    fn rounds(&mut self, log: &mut Log) -> Result<(), Violation> {
        let mut steps = 0;
        while log.left > 0 || !self.script.is_empty() || self.kernel.pending().next().is_some() {
            steps += 1;
            let outcome = self.step(log);
            log.collect_trace(&mut self.machine.stack);
            outcome.map_err(|broken| self.violation(broken))?;
            if let Some(what) = self.machine.complaint() {
                return Err(self.violation((Rule::Order, what)));
            }
            if steps > PATIENCE {
                return Err(self.stuck());
            }
            self.until_kill = self.until_kill.map(|steps| steps.saturating_sub(1));
            if self.choices.pin("kill", false, self.until_kill == Some(0)) {
                self.kill(log)?;
            }
        }
        Ok(())
    }

    fn stuck(&self) -> Violation {
        let oldest = self.kernel.pending().min_by_key(|request| request.id);
        let what = oldest.map_or("nothing goes on".into(), |request| {
            format!("request {} ({:?} {}+{}) does not end", request.id, request.op, request.sector, request.count)
        });
        self.violation((Rule::Stuck, what))
    }

    fn step(&mut self, log: &mut Log) -> Verdict {
        let is_ready = match self.machine.session.is_ready() {
            Ok(is_ready) => is_ready,
            Err(status) => return Err((Rule::Unexplained, format!("a server gives up: {status}"))),
        };
        let pending = self.kernel.pending().count();
        // Nobody uses a device before the kernel knows it.
        let is_known = !self.kernel.pending().any(|request| request.note.is_first_look);
        let depth = self.scenario.depth.min(4 * self.scenario.tags) as usize;
        let wants = !self.script.is_empty() || log.left > 0 && is_known && pending < depth;
        let steps = [
            (Step::Use, wants, 4),
            (Step::Begin, is_ready && self.kernel.can_dispatch(), 5),
            (Step::DoNext, self.machine.has_next(), 8),
            (Step::Complete, self.machine.has_completion(), 6),
            (Step::Wait, true, 3),
        ];
        let step = self.choose_step(&steps, log);
        // What is recorded may not be possible in another scenario.
        let can = steps.iter().any(|(possible, can, _)| *can && *possible == step);
        if can { self.take(step, log) } else { Ok(()) }
    }

    /// The next step, of those that are possible, as often as their weights say. Behind the end of a recording all that was begun comes to
    /// its end.
    fn choose_step(&mut self, steps: &[(Step, bool, u64); 5], log: &mut Log) -> Step {
        let possible = || steps.iter().filter(|(_, can, _)| *can);
        if self.choices.next_item("step").is_none() {
            log.left = 0;
            let begun = [Step::DoNext, Step::Complete, Step::Begin, Step::Use];
            return begun.into_iter().find(|step| possible().any(|(other, ..)| other == step)).unwrap_or(Step::Wait);
        }
        let weights: u64 = possible().map(|(.., weight)| weight).sum();
        self.choices.decide("do", (Step::Wait, &steps.map(|(step, ..)| step)), |rng| {
            let mut at = rng.below(weights);
            let drawn = possible().find(|(.., weight)| {
                let hit = at < *weight;
                at = at.saturating_sub(*weight);
                hit
            });
            drawn.map_or(Step::Wait, |(step, ..)| *step)
        })
    }

    fn take(&mut self, step: Step, log: &mut Log) -> Verdict {
        match step {
            Step::Use => self.use_it(log),
            Step::Begin => {
                let begun = self.machine.begin(&mut self.kernel, &mut self.choices);
                begun.into_iter().for_each(|(tag, id)| log.trace.line(&format!("tag {tag} has request {id}")));
            }
            Step::Complete => self.machine.complete(&mut self.kernel),
            Step::Wait if self.machine.give_up_parts(&mut self.kernel) => {
                log.note("gives up");
                self.promises.overtaken(self.kernel.again());
            }
            Step::Wait => _ = self.machine.pass_time(),
            Step::DoNext => {
                if let Some(Next::Answer(tag, answer, clear)) = self.machine.do_next() {
                    // The kernel clears what there is with the answer.
                    clear.into_iter().for_each(|clear| clear.fill(0));
                    return self.answered(tag, answer, log);
                }
            }
        }
        Ok(())
    }

    fn use_it(&mut self, log: &mut Log) {
        let is_scripted = !self.script.is_empty();
        let drawn = match self.script.pop_front() {
            Some(request) => Some(request),
            None => self.users.draw(self.scenario, (&self.kernel, &mut self.promises), &mut self.choices),
        };
        let Some(mut request) = drawn else {
            // There are users that have nothing left to do: all zones are full.
            log.left -= u64::from(self.choices.chance("has-enough", 1, 20));
            return;
        };
        if !is_scripted {
            log.count();
            log.note(request.op.name());
        }
        let beside = core::mem::take(&mut request.torn) as u32;
        let reset = (request.op == Op::ZoneReset && beside > 0).then_some(request.sector);
        let Request { op, sector, count, is_fua, .. } = request;
        log.trace.line(&format!("request {}: {op:?} {sector}+{count}, FUA {is_fua}", self.users.submitted() + 1));
        self.users.submit(request, &mut self.kernel, &mut self.promises);
        if let Some(sector) = reset {
            log.note("race");
            self.promises.races(sector, beside);
        }
    }

    fn answered(&mut self, tag: u32, answer: Answer, log: &mut Log) -> Verdict {
        log.trace.line(&format!("answer {tag}: {answer:?}"));
        let requests = self.kernel.commit(tag);
        let outcome = if answer.result < 0 { Err(answer.result) } else { Ok(answer.sector) };
        let with_data = requests.iter().filter(|request| request.op.has_data());
        let bytes = with_data.map(|request| request.count * 512).sum::<u32>();
        if requests.is_empty() || outcome.is_ok() && (answer.result as u32) < bytes {
            return Err((Rule::Completion, format!("tag {tag} is done as far as {} of {bytes} bytes", answer.result)));
        }
        for request in requests {
            self.promises.answered(&request, outcome)?;
            if request.op == Op::ReportZones && request.note.is_first_look {
                self.script.extend(self.users.audit(&self.promises, true, self.scenario.longest));
            }
        }
        Ok(())
    }

    /// The server is killed, or the power goes, and it is started again.
    fn kill(&mut self, log: &mut Log) -> Result<(), Violation> {
        let (scenario, choices) = (self.scenario, &mut self.choices);
        let broken = |what: String| Violation { rule: Rule::Accepted, at: shingle_core::time::Instant::ZERO, what };
        let is_cut = choices.chance("power-cut", scenario.cuts, 100);
        log.trace.line(if is_cut { "the power goes" } else { "killed" });
        let has = self.kernel.sent().map(|request| request.id).collect::<alloc::vec::Vec<_>>();
        log.trace.line(&format!("with {has:?} unanswered"));
        self.kills_left = self.kills_left.saturating_sub(1);
        let rng = choices.rng();
        let soon = rng.chance(1, 4);
        self.until_kill = (self.kills_left > 0).then(|| between(rng, 1, if soon { 15 } else { scenario.apart }));
        self.report.virtual_time.0 += self.machine.now.0;
        if is_cut {
            self.report.cuts += 1;
            self.left.disks = self.machine.cut_power(scenario, choices).map_err(broken)?;
            self.left.owner += 1;
            if choices.chance("loses-memory", 1, 2) {
                self.left.memory = None;
            }
            self.promises.power_cut(self.kernel.pending());
            self.left.pages = machine::pages(scenario);
            self.kernel = Kernel::new(scenario.unit, self.left.pages.clone(), scenario.registers);
            self.script.clear();
        } else {
            self.report.kills += 1;
            self.left.disks = self.machine.kill(scenario, choices).map_err(broken)?;
            let keeps_tags = choices.chance("keeps-tags", scenario.same_tags, 100);
            let merge = choices.chance("merges", 1, 2).then_some(scenario.longest * scenario.unit);
            self.kernel.reissue(keeps_tags, merge);
        }
        self.machine = Machine::start(scenario, &mut self.left, gone(self.options)).map_err(broken)?;
        if is_cut {
            self.appear();
        }
        Ok(())
    }
}

#[cfg(feature = "sabotage")]
fn gone(options: &SwarmOptions) -> machine::Gone {
    options.sabotage_ublk
}

#[cfg(not(feature = "sabotage"))]
fn gone(_: &SwarmOptions) -> machine::Gone {
    machine::Gone
}
