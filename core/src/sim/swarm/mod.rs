//! Random worlds: one seed draws a disk, a stack, its users and what goes wrong, and the checkers look at all of it.
//!
//! ```text
//!   seed ──> Scenario ──> life 1: hosts, operator ── power cut ──> life 2: auditor, hosts, ... ──> auditor ──> Report
//!                              └────────── model, plug, disk, trace ──────────┘                 └──> Failure
//! ```
//!
//! What is looked at: after every hop the plug's own invariants; at the disk, one command at a time in a zone, or one write
//! on the whole disk, at the write pointer and not after a failed one; at every completion the [model](super::model), which knows what may be read,
//! reported and refused; after every loss of power and at the end, all data. And that nothing gets stuck.
//!
//! One seed, one run: the trace is the same to the byte, and its sum is part of the report.

mod audit;
mod host;
mod ledger;
mod operator;
mod scenario;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use audit::Auditor;
use host::{Habits, Host};
use ledger::{Door, Ledger, PATIENCE, Shared, TRACE, TraceSum};
use operator::Operator;
pub use scenario::Profile;
use scenario::{Above, Scenario, discipline, draw_faulty};

use super::disk::{CrashDisk, Medium};
use super::fault::FaultPlan;
use super::model::{Model, Rule, Violation};
use super::world::{Stop, World};
use crate::block::{BlockDevice, DeviceId, Limits, Stack};
use crate::plug::{Append, PlugOptions, WritePolicy, ZonePlug};
use crate::random::Rng;
use crate::target::{build_table, parse_table};
use crate::time::{Duration, Instant};
use crate::zone::ZoneNo;

/// Puts a device over another one.
pub type Wrap = fn(DeviceId, &Limits) -> Box<dyn BlockDevice>;
/// Makes what stands in the plug's place.
pub type MakePlug = fn(DeviceId, &Limits, PlugOptions) -> Box<dyn BlockDevice>;

/// How a seed is run.
#[derive(Clone, Debug, Default)]
pub struct SwarmOptions {
    /// What is looked at most.
    pub profile: Profile,
    /// Most requests, if that is fewer than the seed draws: a run is cut short, not changed.
    pub ops: Option<u64>,
    /// Whether the whole trace is kept as text.
    pub trace: bool,
    /// A device between disk and plug: bugs are planted with it.
    pub below_plug: Option<Wrap>,
    /// A device right above the plug.
    pub above_plug: Option<Wrap>,
    /// Another plug.
    pub plug: Option<MakePlug>,
}

/// What a run without a violation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests.
    pub ops: u64,
    /// Losses of power.
    pub cuts: u64,
    /// Faults that happened at the disk.
    pub faults: u64,
    /// Time that passed in the simulated world.
    pub virtual_time: Duration,
    /// Trace events.
    pub events: u64,
    /// A sum over the trace: two runs that agree in it took the same steps.
    pub sum: u64,
    /// The whole trace, if it was asked for.
    pub trace: Option<String>,
}

/// A run that found a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The profile.
    pub profile: Profile,
    /// What is broken.
    pub violation: Violation,
    /// Starts of the disk up to there.
    pub life: u64,
    /// Requests up to there; with fewer the run may pass.
    pub ops: u64,
    /// The scenario, in words.
    pub scenario: String,
    /// The whole trace up to there, if it was asked for.
    pub trace: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, violation, life, ops, scenario, .. } = self;
        writeln!(f, "seed {seed}, life {life}, after {ops} requests: {violation}")?;
        writeln!(f, "  world: {scenario}")?;
        write!(f, "  replay: {}", self.replay())
    }
}

impl Failure {
    /// The command that runs it again.
    #[must_use]
    pub fn replay(&self) -> String {
        format!(
            "shingle sim --seed {} --profile {} --ops {} --trace sim.trace",
            self.seed,
            self.profile.name(),
            self.ops
        )
    }
}

/// Runs one seed.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64, options: &SwarmOptions) -> Result<Report, Box<Failure>> {
    Run::new(seed, options).play()
}

/// The smallest number of requests with which `seed` still fails, as far as bisection finds it, and that failure.
#[must_use]
pub fn shorten(failure: Box<Failure>, options: &SwarmOptions) -> Box<Failure> {
    let (mut least, mut best) = (0, failure);
    while least < best.ops {
        let ops = least + (best.ops - least) / 2;
        match run(best.seed, &SwarmOptions { ops: Some(ops), ..options.clone() }) {
            Err(shorter) if shorter.ops < best.ops => best = shorter,
            Err(_) => return best,
            Ok(_) => least = ops + 1,
        }
    }
    best
}

/// What a seed draws, in words.
#[must_use]
pub fn describe(seed: u64, profile: Profile) -> String {
    Scenario::draw(seed, profile).to_string()
}

struct Run<'a> {
    seed: u64,
    options: &'a SwarmOptions,
    scenario: Scenario,
    rng: Rng,
    shared: Shared,
    report: Report,
    life: u64,
}

impl<'a> Run<'a> {
    fn new(seed: u64, options: &'a SwarmOptions) -> Self {
        let scenario = Scenario::draw(seed, options.profile);
        let disk = &scenario.disk;
        let limited = disk.resources.max_open().is_some() || disk.resources.max_active().is_some();
        let model = Model::new(disk.geometry, scenario.trust, disk.write_cache, limited);
        let unordered = scenario.switches.iter().chain([&scenario.plug.policy]).any(|p| *p == WritePolicy::None);
        let emulated = scenario.plug.append == Append::Emulated || disk.max_append.is_none();
        let ledger = Ledger {
            model,
            disk: DeviceId(0),
            plug: DeviceId(0),
            layer: None,
            no_append: unordered && emulated,
            left: options.ops.map_or(scenario.ops, |ops| ops.min(scenario.ops)),
            submitted: 0,
            cut_at: None,
            violation: None,
            trace: TraceSum { sum: seed, events: 0, text: options.trace.then(String::new) },
        };
        let rng = Rng::new(seed);
        let shared = Rc::new(RefCell::new(ledger));
        Self { seed, options, scenario, rng, shared, report: Report::default(), life: 0 }
    }

    fn play(mut self) -> Result<Report, Box<Failure>> {
        let mut cuts: VecDeque<u64> = self.scenario.cuts.iter().copied().collect();
        let mut medium = None;
        loop {
            self.life += 1;
            let cut = cuts.pop_front();
            self.shared.borrow_mut().cut_at = cut;
            medium = self.live(medium).map_err(|violation| self.failure(violation))?;
            if medium.is_none() {
                break;
            }
            self.report.cuts += 1;
        }
        let ledger = self.shared.borrow();
        let (sum, events, trace) = (ledger.trace.sum, ledger.trace.events, ledger.trace.text.clone());
        Ok(Report { ops: ledger.submitted, sum, events, trace, ..self.report.clone() })
    }

    fn failure(&self, violation: Violation) -> Box<Failure> {
        let mut ledger = self.shared.borrow_mut();
        ledger.trace.line(&violation.to_string());
        let (ops, trace) = (ledger.submitted, ledger.trace.text.take());
        let (seed, profile, scenario) = (self.seed, self.options.profile, self.scenario.to_string());
        Box::new(Failure { seed, profile, violation, life: self.life, ops, scenario, trace })
    }

    /// One life of the disk, from power on to the cut, of which the medium is left, or to the end.
    fn live(&mut self, medium: Option<Medium>) -> Result<Option<Medium>, Violation> {
        self.shared.borrow_mut().trace.line(&format!("life {}", self.life));
        let restarted = medium.is_some();
        let (mut world, doors) = self.build(medium)?;
        let geometry = self.scenario.disk.geometry;
        let audit =
            |run: &Self, after_cut| Box::new(Auditor::new(run.shared.clone(), doors[0].clone(), geometry, after_cut));
        if restarted {
            world.add(audit(self, true));
            self.watch(&mut world)?;
        }
        let (disk, faults) = (self.shared.borrow().disk, self.scenario.faults.clone());
        world.stack.with_device(disk, |disk: &mut CrashDisk, _| disk.set_plan(faults));
        self.populate(&mut world, &doors);
        self.watch(&mut world)?;
        let cut = self.shared.borrow().is_cut();
        if !cut {
            world.stack.with_device(disk, |disk: &mut CrashDisk, _| disk.set_plan(FaultPlan::none()));
            world.add(audit(self, false));
            self.watch(&mut world)?;
        }
        self.report.virtual_time.0 += world.now().0;
        let mut rng = self.rng.fork();
        let taken = world.stack.with_device(disk, |disk: &mut CrashDisk, _| (disk.faults(), disk.cut_power(&mut rng)));
        let Some((faults, medium)) = taken else { return Ok(None) };
        self.report.faults += faults;
        if !cut {
            return Ok(None);
        }
        self.shared.borrow_mut().model.power_cut();
        Ok(Some(medium))
    }

    /// Runs the world until its actors are done, the power goes, or something is broken.
    fn watch(&mut self, world: &mut World) -> Result<(), Violation> {
        let until = world.now() + Duration(4 * PATIENCE.0);
        let shared = self.shared.clone();
        let mut watch = |stack: &Stack| {
            let mut ledger = shared.borrow_mut();
            ledger.inspect(stack);
            !ledger.is_over()
        };
        let stop = world.run_watched(until, &mut watch);
        let now = world.now();
        let mut ledger = self.shared.borrow_mut();
        ledger.collect_trace(&mut world.stack);
        ledger.ask_disk(&world.stack);
        if let Err(violation) = ledger.model.verdict(Instant(u64::MAX)) {
            ledger.violation.get_or_insert(violation);
        }
        if let Some(mut violation) = ledger.violation.take() {
            violation.at = if violation.at == Instant::ZERO { now } else { violation.at };
            return Err(violation);
        }
        if stop == Stop::Done || ledger.is_cut() {
            return Ok(());
        }
        let what = match ledger.model.oldest() {
            Some((since, what)) => format!("{what} does not end, since {} us", since.0 / 1_000),
            None => String::from("nothing is in flight, and the hosts wait"),
        };
        Err(Violation { rule: Rule::Stuck, at: now, what })
    }

    fn build(&mut self, medium: Option<Medium>) -> Result<(World, Vec<Door>), Violation> {
        let broken = |what: String| Violation { rule: Rule::Accepted, at: Instant::ZERO, what };
        let Scenario { disk, plug, above, .. } = &self.scenario;
        let mut stack = Stack::new();
        stack.set_trace(Some(TRACE));
        let seed = self.rng.draw();
        let device = match medium {
            None => CrashDisk::new(disk.clone(), FaultPlan::none(), seed),
            Some(medium) => CrashDisk::restart(disk.clone(), FaultPlan::none(), seed, medium),
        };
        let mut device = device.map_err(|error| broken(error.to_string()))?;
        device.expect(discipline(plug.policy, disk.rotational));
        let add = |stack: &mut Stack, device| stack.add(device).map_err(|error| broken(error.to_string()));
        let leaf = add(&mut stack, Box::new(device))?;
        let mut top = leaf;
        if let Some(wrap) = self.options.below_plug {
            let device = wrap(top, stack.limits(top));
            top = add(&mut stack, device)?;
        }
        let device = match self.options.plug {
            Some(make) => make(top, stack.limits(top), *plug),
            None => Box::new(ZonePlug::new(top, stack.limits(top), *plug).map_err(|error| broken(error.to_string()))?),
        };
        let plug = add(&mut stack, device)?;
        top = plug;
        if let Some(wrap) = self.options.above_plug {
            let device = wrap(top, stack.limits(top));
            top = add(&mut stack, device)?;
        }
        let doors = self.doors(&mut stack, top, *above).map_err(broken)?;
        let mut ledger = self.shared.borrow_mut();
        (ledger.disk, ledger.plug) = (leaf, plug);
        Ok((World::new(stack), doors))
    }

    /// The devices that hosts use: the plug, and the table above it.
    fn doors(&self, stack: &mut Stack, plug: DeviceId, above: Above) -> Result<Vec<Door>, String> {
        let geometry = &self.scenario.disk.geometry;
        let (zones, zone_sectors) = (geometry.zones(), geometry.zone_sectors());
        let own = Door { device: plug, zones: (0..zones).map(ZoneNo).collect(), whole: true, zone_sectors };
        let lines: Vec<(u32, u32)> = match above {
            Above::Nothing => return Ok(Vec::from([own])),
            Above::Linear(from, count) => Vec::from([(from, count)]),
            Above::Two(at, false) => Vec::from([(0, at), (at, zones - at)]),
            Above::Two(at, true) => Vec::from([(at, zones - at), (0, at)]),
            Above::Faulty(_) => Vec::from([(0, zones)]),
        };
        let target =
            if let Above::Faulty(seed) = above { ("faulty", draw_faulty(seed)) } else { ("linear", String::new()) };
        let (mut text, mut mapped, mut start) = (String::new(), Vec::new(), 0);
        for (from, count) in &lines {
            let first = u64::from(*from) * u64::from(zone_sectors);
            let end = (first + u64::from(*count) * u64::from(zone_sectors)).min(geometry.capacity());
            text += &format!("{start} {} {} plug {first} {}\n", end - first, target.0, target.1);
            start += end - first;
            mapped.extend((*from..from + count).map(ZoneNo));
        }
        let table = parse_table(&text).map_err(|error| format!("{error}"))?;
        let built = build_table(stack, &table, &|_: &str| Ok(plug)).map_err(|error| format!("{error}"))?;
        let device = stack.add(Box::new(built.table)).map_err(|error| format!("{error}"))?;
        self.shared.borrow_mut().layer = built.targets[0];
        let whole = lines == [(0, zones)];
        Ok(Vec::from([own, Door { device, zones: mapped, whole, zone_sectors }]))
    }

    fn populate(&mut self, world: &mut World, doors: &[Door]) {
        let Scenario { disk, hosts, depth, weights, longest, flags, trust, switches, .. } = &self.scenario;
        for number in 0..*hosts {
            // The last door is the table, if there is one; both are in use at once.
            let door = &doors[if number % 2 == 0 { doors.len() - 1 } else { 0 }];
            let habits = Habits {
                geometry: disk.geometry,
                depth: *depth,
                weights: *weights,
                longest: *longest,
                flags: *flags,
                trust: *trust,
            };
            world.add(Box::new(Host::new(self.shared.clone(), door.clone(), habits, self.rng.fork())));
        }
        let policies = switches.iter().copied().collect();
        world.add(Box::new(Operator::new(self.shared.clone(), policies, self.rng.fork())));
    }
}
