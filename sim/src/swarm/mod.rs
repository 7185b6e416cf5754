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

mod agenda;
mod audit;
mod base;
mod door;
mod host;
mod layout;
mod ledger;
mod lines;
mod operator;
mod options;
mod outcome;
mod path;
mod path_operator;
mod paths;
mod power;
mod replay;
#[cfg(test)]
mod replay_tests;
mod scenario;
mod scheduler;
mod tables;
mod ublk;
mod volumes;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;

use audit::Auditor;
use base::{PATIENCE, TRACE, TraceSum, add, some, stuck, wrapped};
use door::{Door, Piece, ZoneSet, one};
use host::{Habits, Host};
use ledger::{Behind, Ledger, Shared};
use operator::Operator;
pub use options::{BuildOver, FormatOver, MakePlug, Over, SwarmOptions, Wrap};
pub use outcome::{Failure, Report};
use path_operator::PathOperator;
use power::PowerSwitch;
pub use replay::{MAX_REPLAYS, Recorder, Replay, replay, shrink};
use scenario::{Above, Scenario, discipline};
use scheduler::SchedulerOperator;
pub use tables::Meddle;
use tables::{TableHabits, TableOperator, Tables};

use super::choices::{Choices, Origin};
use super::disk::{Leaf, MakeDisk, OtherDisk, crash_disk};
use super::fault::FaultPlan;
use super::model::{Model, Rule, Violation};
pub use super::profile::Profile;
use super::world::{Stop, World};
use shingle_core::block::{Cx, DeviceId, Stack};
use shingle_core::device::null::{NullConfig, NullDevice};
use shingle_core::dm::{build_table, parse_table};
use shingle_core::plug::{Append, WritePolicy, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::ZoneNo;

/// Size of the disk that takes logs.
const LOG_SECTORS: u64 = 1 << 14;

/// Runs one seed.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64, options: &SwarmOptions) -> Result<Report, Box<Failure>> {
    run_from(seed, options, &Origin::Seed)
}

/// Runs a scenario whose choices come from `origin`.
fn run_from(seed: u64, options: &SwarmOptions, origin: &Origin) -> Result<Report, Box<Failure>> {
    match options.profile {
        Profile::DmZoned | Profile::Stl => volumes::run(seed, options, origin),
        Profile::Ublk => ublk::run(seed, options, origin),
        _ => Run::new(seed, options, origin).play(),
    }
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
    match profile {
        Profile::DmZoned | Profile::Stl => volumes::describe(seed, profile),
        Profile::Ublk => ublk::describe(seed),
        _ => Scenario::draw(seed, profile).to_string(),
    }
}

/// The mapped devices of a world, as their operator holds them.
type SharedTables = Rc<RefCell<Tables>>;

/// The devices that hosts use, and the mapped ones among them.
type Doors = (Vec<Door>, Option<SharedTables>);

/// What is left of the disks after a loss of power.
type Media = Vec<Box<dyn Any>>;

struct Run<'a> {
    seed: u64,
    options: &'a SwarmOptions,
    scenario: Scenario,
    choices: Choices,
    shared: Shared,
    report: Report,
    life: u64,
}

impl<'a> Run<'a> {
    fn new(seed: u64, options: &'a SwarmOptions, origin: &Origin) -> Self {
        let drawn = Scenario::draw(seed, options.profile);
        let mut scenario = drawn.pinned(&mut Choices::root(Rng::new(seed), origin, "scenario"));
        if let Some(other) = options.disk {
            scenario.with_disk(other);
        }
        let disk = &scenario.disk;
        let limited = disk.resources.max_open().is_some() || disk.resources.max_active().is_some();
        let mut model = Model::new(&scenario.layouts.shapes, scenario.habits.trust, limited);
        model.of_emulated_fua(scenario.layouts.disks.iter().any(|disk| disk.write_cache && !disk.fua));
        model.of_files(options.disk.is_some_and(OtherDisk::is_of_files));
        let unordered = scenario.switches.iter().chain([&scenario.plug.policy]).any(|p| *p == WritePolicy::None);
        let emulated = scenario.plug.append == Append::Emulated || disk.max_append.is_none();
        let left = match options.swaps {
            Some(_) => u64::MAX,
            None => options.ops.map_or(scenario.ops, |ops| ops.min(scenario.ops)),
        };
        let trace = TraceSum { sum: seed, events: 0, text: options.trace.then(String::new) };
        let ledger = Ledger {
            no_append: unordered && emulated,
            is_late: scenario.above == Above::Mapped,
            parts: scenario.layouts.parts.clone().into(),
            ..Ledger::new(model, left, trace)
        };
        let choices = Choices::root(Rng::new(seed), origin, "run");
        let shared = Rc::new(RefCell::new(ledger));
        Self { seed, options, scenario, choices, shared, report: Report::default(), life: 0 }
    }

    fn play(mut self) -> Result<Report, Box<Failure>> {
        let mut cuts: VecDeque<u64> = self.scenario.cuts.iter().copied().collect();
        let mut medium = None;
        loop {
            self.life += 1;
            self.choices.begin("life", self.life);
            {
                let ledger = &mut *self.shared.borrow_mut();
                ledger.cut_at = cuts.pop_front();
                ledger.is_cut = self.choices.pin("cut-at-start", false, ledger.is_cut_due());
            }
            medium = self.live(medium).map_err(|violation| self.failure(violation))?;
            if medium.is_none() {
                break;
            }
            self.report.cuts += 1;
        }
        let mut ledger = self.shared.borrow_mut();
        (self.report.swaps, self.report.longest_swap) = (ledger.swaps, ledger.longest_swap);
        Ok(ledger.log.report(&self.report))
    }

    fn failure(&self, violation: Violation) -> Box<Failure> {
        let run = (self.seed, self.options.profile, self.life);
        self.shared.borrow_mut().log.failure(violation, run, &self.scenario)
    }

    /// One life of the disks, from power on to the cut, of which the media are left, or to the end.
    fn live(&mut self, media: Option<Media>) -> Result<Option<Media>, Violation> {
        self.shared.borrow_mut().log.trace.line(&format!("life {}", self.life));
        let restarted = media.is_some();
        let (mut world, (doors, tables)) = self.build(media)?;
        let audit = |run: &Self, after_cut| Box::new(Auditor::new(run.shared.clone(), doors.clone(), after_cut));
        if restarted {
            world.add(audit(self, true));
            self.watch(&mut world)?;
        }
        self.set_plans(&mut world, &self.scenario.faults);
        self.calm_paths(&mut world, false);
        self.populate(&mut world, &doors, tables);
        self.watch(&mut world)?;
        let cut = self.shared.borrow().is_cut;
        if !cut {
            self.set_plans(&mut world, &[]);
            self.calm_paths(&mut world, true);
            world.add(audit(self, false));
            self.watch(&mut world)?;
        }
        self.report.virtual_time.0 += world.now().0;
        let mut choices = self.choices.fork("end", 0);
        let heads = self.shared.borrow().heads.clone();
        let figures = heads.as_ref().map_or(Vec::new(), |heads| heads.figures(&world.stack));
        figures.into_iter().for_each(|(what, times)| self.shared.borrow_mut().log.add(what, times));
        // Of a host that reaches its disk over paths the power can go alone.
        let host = heads.filter(|_| cut && choices.chance("of-host-alone", 1, 2));
        let disks = self.shared.borrow().disks.clone();
        let mut media = Vec::new();
        for (number, disk) in (1..).zip(disks.iter()) {
            let goes_dark = |disk: &mut Leaf, cx: &mut Cx<'_>| {
                let faults = disk.0.faults();
                (faults, choices.scoped("disk", number, |choices| disk.0.go_dark(choices, cx)))
            };
            let Some((faults, medium)) = world.stack.with_device(*disk, goes_dark) else { return Ok(None) };
            self.report.faults += faults;
            let lose_host = |choices: &mut Choices| host.as_ref()?.lose_host(&world.stack, *disk, choices);
            media.push(choices.scoped("host", number, lose_host).unwrap_or(medium));
        }
        if !cut {
            return Ok(None);
        }
        self.shared.borrow_mut().power_cut(host.is_some());
        Ok(Some(media))
    }

    /// From now on the disks fail as these plans say; those without one do not.
    fn set_plans(&self, world: &mut World, plans: &[FaultPlan]) {
        let disks = self.shared.borrow().disks.clone();
        for (number, disk) in disks.iter().enumerate() {
            let plan = plans.get(number).cloned().unwrap_or_default();
            world.stack.with_device(*disk, |disk: &mut Leaf, _| disk.0.set_plan(plan));
        }
    }

    /// From now on everything can go wrong with the paths to the disk, or nothing.
    fn calm_paths(&self, world: &mut World, calm: bool) {
        let ledger = &mut *self.shared.borrow_mut();
        let Some(heads) = &mut ledger.heads else { return };
        let now = world.now();
        heads.calm(&mut world.stack, calm, now);
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
        ledger.log.collect_trace(&mut world.stack);
        ledger.ask_disk(&world.stack);
        if let Err(violation) = ledger.model.verdict(Instant(u64::MAX)) {
            ledger.log.violation.get_or_insert(violation);
        }
        ledger.log.verdict(now)?;
        if stop == Stop::Done || ledger.is_cut { Ok(()) } else { Err(stuck(ledger.model.oldest(), now)) }
    }

    fn build(&mut self, media: Option<Media>) -> Result<(World, Doors), Violation> {
        let broken = |what: String| Violation::at_rest(Rule::Accepted, what);
        let mut stack = Stack::new();
        #[cfg(feature = "sabotage")]
        stack.sabotage(self.options.sabotage_fua);
        stack.set_trace(Some(TRACE));
        let mut media = media.into_iter().flatten();
        let (mut disks, mut plugs, mut tops) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..self.scenario.layouts.disks.len() {
            let (disk, plug, top) = self.add_disk(&mut stack, number, media.next()).map_err(broken)?;
            disks.push(disk);
            plugs.extend(plug);
            tops.push(top);
        }
        {
            let mut ledger = self.shared.borrow_mut();
            (ledger.disks, ledger.plugs) = (disks.into(), plugs);
            ledger.schedulers.clear();
        }
        let mut world = World::new(stack);
        let (doors, tables) = match self.scenario.above {
            Above::Mapped => self.mapped_doors(&mut world, tops).map_err(broken)?,
            above => (self.doors(&mut world.stack, tops[0], above).map_err(broken)?, None),
        };
        self.shared.borrow_mut().doors = doors.iter().map(|_| Behind { failing: 0, reach: u32::MAX }).collect();
        Ok((world, (doors, tables)))
    }

    /// A disk, and on a zoned one a plug; returns both, and the device that others are to use.
    fn add_disk(
        &mut self,
        stack: &mut Stack,
        number: usize,
        medium: Option<Box<dyn Any>>,
    ) -> Result<(DeviceId, Option<DeviceId>, DeviceId), String> {
        let Scenario { layouts, plug, .. } = &self.scenario;
        let (disk, choices) = (&layouts.disks[number], self.choices.fork("disk", number as u64 + 1));
        let other = self.options.disk.filter(|_| disk.regular.is_none());
        let make = other.map_or(crash_disk as MakeDisk, OtherDisk::make);
        let mut device = Leaf(make(disk, choices, medium)?);
        if disk.regular.is_some() && self.scenario.paths.is_none() {
            let leaf = add(stack, Box::new(device))?;
            scheduler::set(stack, leaf, self.scenario.schedulers.options, self.options);
            return Ok((leaf, None, leaf));
        }
        device.0.expect(discipline(plug.policy, disk.rotational));
        let leaf = add(stack, Box::new(device))?;
        scheduler::set(stack, leaf, self.scenario.schedulers.options, self.options);
        let mut below = wrapped(stack, leaf, self.options.below_plug)?;
        if let Some(paths) = &self.scenario.paths {
            let heads = paths.build(stack, below, &mut self.choices, self.options)?;
            below = heads.head;
            self.shared.borrow_mut().heads = Some(heads);
        }
        let regular = self.scenario.layouts.disks[number].regular.is_some();
        if regular {
            return Ok((leaf, None, below));
        }
        let device = match self.options.plug {
            Some(make) => make(below, stack.limits(below), *plug),
            None => Box::new(ZonePlug::new(below, stack.limits(below), *plug).map_err(|error| error.to_string())?),
        };
        let plug = add(stack, device)?;
        Ok((leaf, Some(plug), wrapped(stack, plug, self.options.above_plug)?))
    }

    /// A door to a disk, behind which is all of it.
    fn disk_door(&self, number: usize, device: DeviceId) -> Door {
        let layouts = &self.scenario.layouts;
        let (pieces, zoned) = (layouts.disk_pieces[number].clone(), layouts.is_zoned(number));
        let (writes, longest_append) = (ZoneSet::MAX, u32::MAX);
        Door { number, device, pieces, zoned, whole: true, writes, changes: false, longest_append }
    }

    /// The devices that hosts use: disks and mapped devices. Every sequential zone is written through one of them.
    fn mapped_doors(&mut self, world: &mut World, mut tops: Vec<DeviceId>) -> Result<Doors, String> {
        let disks = (0..tops.len()).map(|disk| self.disk_door(disk, tops[disk]));
        let mut doors: Vec<Door> = disks.collect();
        let layouts = Rc::new(self.scenario.layouts.clone());
        let log = NullDevice::new(&NullConfig { memory_backed: true, ..NullConfig::new(LOG_SECTORS) });
        let log = log.map_err(|error| error.to_string())?;
        tops.push(add(&mut world.stack, Box::new(log))?);
        let tables = Tables::build(world, layouts.clone(), tops, &mut self.choices)?;
        let stack = &mut world.stack;
        let longest_append = layouts.disks.iter().filter_map(|disk| disk.max_append).min().unwrap_or(u32::MAX);
        for (id, layout) in tables.ids().zip(&layouts.devices) {
            // The highest ones may have no room above them.
            let device = wrapped(stack, id, self.options.above_tables).unwrap_or(id);
            let (number, pieces, zoned) = (doors.len(), layout.pieces.clone(), layout.zoned);
            doors.push(Door { number, device, pieces, zoned, whole: false, writes: 0, changes: true, longest_append });
        }
        doors.iter_mut().for_each(|door| door.writes = 0);
        for zone in (0..layouts.parts.len() as u32).map(ZoneNo) {
            let maps = |door: &usize| doors[*door].pieces.iter().any(|piece| piece.zone == zone && piece.clear);
            let mapping: Vec<usize> = (0..doors.len()).filter(maps).collect();
            let Some(highest) = mapping.last().copied() else { continue };
            let writer =
                self.choices.scoped("zone", zone.0.into(), |choices| {
                    choices.decide("writer", (highest, &[]), |rng| {
                        if rng.chance(3, 4) { highest } else { some(rng, &mapping) }
                    })
                });
            let writer = if mapping.contains(&writer) { writer } else { highest };
            doors[writer].writes |= one(zone);
        }
        Ok((doors, Some(Rc::new(RefCell::new(tables)))))
    }

    /// The devices that hosts use: the plug, and the table above it.
    fn doors(&self, stack: &mut Stack, plug: DeviceId, above: Above) -> Result<Vec<Door>, String> {
        let geometry = &self.scenario.disk.geometry;
        let (zones, zone_sectors) = (geometry.zones(), u64::from(geometry.zone_sectors()));
        let own = self.disk_door(0, plug);
        let lines: Vec<(u32, u32)> = match above {
            Above::Nothing | Above::Mapped => return Ok(Vec::from([own])),
            Above::Linear(from, count) => Vec::from([(from, count)]),
            Above::Two(at, false) => Vec::from([(0, at), (at, zones - at)]),
            Above::Two(at, true) => Vec::from([(at, zones - at), (0, at)]),
            Above::Faulty(_) => Vec::from([(0, zones)]),
        };
        let is_faulty = matches!(above, Above::Faulty(_));
        let target = if is_faulty { ("faulty", self.scenario.faulty_rules.as_str()) } else { ("linear", "") };
        let (mut text, mut pieces, mut start) = (String::new(), Vec::new(), 0);
        for (from, count) in &lines {
            let first = u64::from(*from) * zone_sectors;
            let end = (first + u64::from(*count) * zone_sectors).min(geometry.capacity());
            text += &format!("{start} {} {} plug {first} {}\n", end - first, target.0, target.1);
            let shifted = |piece: &Piece| Piece { start: piece.start + start - first, ..*piece };
            pieces.extend(own.pieces[*from as usize..(from + count) as usize].iter().map(shifted));
            start += end - first;
        }
        let table = parse_table(&text).map_err(|error| format!("{error}"))?;
        let built = build_table(stack, &table, &|_: &str| Ok(plug)).map_err(|error| format!("{error}"))?;
        let device = add(stack, Box::new(built.table))?;
        self.shared.borrow_mut().layer = built.targets[0];
        let whole = lines == [(0, zones)];
        let table = Door { number: 1, device, pieces, whole, ..own.clone() };
        Ok(Vec::from([own, table]))
    }

    fn populate(&mut self, world: &mut World, doors: &[Door], tables: Option<SharedTables>) {
        let Scenario { hosts, habits, switches, schedulers, .. } = &self.scenario;
        // Where swaps are counted, hosts need not do more than they must.
        let (hosts, depth) = if self.options.swaps.is_some() { (2, 2) } else { (*hosts, habits.depth) };
        self.shared.borrow_mut().log.hosts = hosts;
        for number in 0..hosts {
            // The last door is the highest table, if there is one; all are in use at once.
            let door = &doors[match &tables {
                Some(_) if number > 0 => self
                    .choices
                    .scoped("host", u64::from(number) + 1, |choices| choices.below("door", doors.len() as u64))
                    as usize,
                _ if number % 2 == 0 => doors.len() - 1,
                _ => 0,
            }];
            let habits = Habits { depth, class: schedulers.class(number), ..habits.clone() };
            let choices = self.choices.fork("host", u64::from(number) + 1);
            world.add(Box::new(Host::new(self.shared.clone(), door.clone(), habits, choices)));
        }
        let policies = switches.iter().copied().collect();
        if self.scenario.layouts.is_zoned(0) {
            world.add(Box::new(Operator::new(self.shared.clone(), policies, self.choices.fork("operator", 0))));
        }
        if !schedulers.switches.is_empty() {
            let choices = self.choices.fork("scheduler-operator", 0);
            let operator = SchedulerOperator::new(self.shared.clone(), schedulers.clone(), self.options, choices);
            world.add(Box::new(operator));
        }
        let heads = self.shared.borrow().heads.clone();
        if let Some(heads) = heads {
            world.add(Box::new(PathOperator::new(
                self.shared.clone(),
                heads.clone(),
                self.choices.fork("path-operator", 0),
            )));
            if let Some(outages) = self.scenario.paths.as_ref().and_then(|paths| paths.outages) {
                world.add(Box::new(PowerSwitch::new(
                    self.shared.clone(),
                    heads,
                    outages,
                    self.choices.fork("power", 0),
                )));
            }
        }
        if let Some(tables) = tables {
            let (swaps, meddle) = (self.options.swaps, self.options.meddle);
            let pace = if swaps.is_some() { Duration::from_micros(50) } else { self.scenario.pace };
            let habits = TableHabits { pace, swaps, meddle };
            world.add(Box::new(TableOperator::new(
                self.shared.clone(),
                tables,
                self.choices.fork("tables", 0),
                habits,
            )));
        }
    }
}
