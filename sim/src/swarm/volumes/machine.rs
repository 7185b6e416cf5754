//! The machine that the volume runs on: disks, plugs, the table, and what an operator does with them.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use super::super::base::{PATIENCE, TRACE, add, wrapped};
use super::super::scenario::discipline;
use super::drives::Drives;
use super::kind::Built;
use super::ledger::{NAP, Shared};
use super::life::Loss;
use super::mapped::Mapped;
use super::scenario::Scenario;
use super::{Media, Run};
use crate::choices::Choices;
use crate::disk::{CrashDisk, Medium, Powered};
use crate::fault::FaultPlan;
use crate::model::Rule;
use crate::world::{Actor, Io};
use shingle_core::block::{DeviceId, Event, Stack};
use shingle_core::mapper::StateName;
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// What lies where in a stack.
#[derive(Clone, Default)]
pub(super) struct Machine {
    disks: Rc<[DeviceId]>,
    /// What the volume is made of, the volume, and what lies on it; the last is the door.
    parts: Rc<[DeviceId]>,
    /// What speaks for the target.
    pub target: Option<DeviceId>,
    /// True if the volume tells damaged data from right data.
    has_checksums: bool,
    /// What has the volume, where its tables are swapped.
    pub mapped: Option<Rc<RefCell<Mapped>>>,
}

impl Machine {
    /// The disks with what is on them, and the volume above, which lets nobody in yet.
    pub fn build(
        run: &Run<'_>,
        media: Option<Media>,
        shared: &Shared,
        choices: &mut Choices,
    ) -> Result<(Stack, Machine), String> {
        let (blocks, removal) = (shared.borrow().volume.blocks(), shared.borrow().removal);
        let Run { scenario, options, kind, .. } = run;
        let mut stack = Stack::new();
        stack.set_trace(Some(TRACE));
        let (mut disks, mut tops) = (Vec::new(), Vec::new());
        let mut media = media.into_iter().flatten();
        for number in 0..scenario.disks.len() {
            let (disk, top) = add_disk(&mut stack, run, (number, media.next()), choices)?;
            disks.push(disk);
            tops.push(top);
        }
        let is_mapped = scenario.swaps.is_some() || removal.is_some();
        let tables = kind.tables().filter(|_| is_mapped);
        let mut mapped = None;
        let built = match tables {
            Some(tables) => {
                let (device, id) = Mapped::build(&mut stack, tables, (&tops, blocks), removal)?;
                mapped = Some(Rc::new(RefCell::new(device)));
                Built { parts: Vec::new(), device: id, target: None }
            }
            None => kind.build(&mut stack, &tops, blocks)?,
        };
        let Built { mut parts, device, target } = built;
        let door = wrapped(&mut stack, device, options.above_tables)?;
        parts.push(device);
        parts.extend(Some(door).filter(|door| *door != device));
        stack.suspend(door);
        let (disks, parts, has_checksums) = (disks.into(), parts.into(), kind.has_checksums());
        Ok((stack, Machine { disks, parts, target, has_checksums, mapped }))
    }

    /// What hosts use.
    pub fn door(&self) -> DeviceId {
        self.parts[self.parts.len() - 1]
    }

    /// These words, and what the volume says of itself.
    pub fn with_status(&self, stack: &Stack, mut what: String) -> String {
        if let Some(target) = self.target {
            what += "; the volume: ";
            let _ = stack.status(target, &mut what);
        }
        if let Some(mapped) = self.mapped.as_ref().and_then(|mapped| mapped.try_borrow().ok()) {
            what += "; the volume: ";
            let _ = mapped.status(stack, &mut what);
        }
        what
    }

    /// Sends a message to the target, if there is one.
    fn message(&self, words: &[&str], io: &mut Io<'_>) -> Result<(), String> {
        let now = io.now();
        match (&self.mapped, self.target) {
            (Some(mapped), _) => mapped.borrow_mut().message(words, (&mut *io.stack, now)),
            (None, Some(target)) => io.stack.message(target, words).map(drop).map_err(|error| error.to_string()),
            (None, None) => Ok(()),
        }
    }

    /// What each disk may hold if that is lost now.
    pub fn lose(&self, loss: Loss, stack: &Stack, choices: &mut Choices) -> Media {
        let lose = |disk: &CrashDisk, choices: &mut Choices| match loss {
            Loss::Power => disk.cut_power(choices),
            Loss::Process => disk.kill_host(choices),
        };
        let disks = (1..).zip(self.on_disks(stack));
        disks.map(|(number, disk)| choices.scoped("disk", number, |choices| lose(disk, choices))).collect()
    }

    /// Commands that the disks have carried out.
    pub fn commands(&self, stack: &Stack) -> u64 {
        self.on_disks(stack).map(CrashDisk::commands).sum()
    }

    /// Faults that happened.
    pub fn faults(&self, stack: &Stack) -> u64 {
        self.on_disks(stack).map(Powered::faults).sum()
    }

    /// True if a disk has other data than was written to it, and the volume tells.
    pub fn is_damaged(&self, stack: &Stack) -> bool {
        self.has_checksums && self.on_disks(stack).any(|disk| disk.damages() > 0)
    }

    /// Blocks that may read as anything, as a disk has damaged them and the volume does not tell.
    pub fn damaged<'a>(&'a self, stack: &'a Stack) -> impl Iterator<Item = u32> + 'a {
        self.on_disks(stack).filter(|_| !self.has_checksums).flat_map(CrashDisk::damaged)
    }

    pub fn on_disks<'a>(&'a self, stack: &'a Stack) -> impl Iterator<Item = &'a CrashDisk> {
        self.disks.iter().filter_map(|disk| stack.device(*disk))
    }

    /// From now on the disks fail as these plans say; those without one do not.
    pub fn set_plans(&self, stack: &mut Stack, plans: &[FaultPlan]) {
        for (number, disk) in self.disks.iter().enumerate() {
            let plan = plans.get(number).cloned().unwrap_or_default();
            stack.with_device(*disk, |disk: &mut CrashDisk, _| disk.set_plan(plan));
        }
    }

    /// The first rule of zoned disks that somebody broke.
    pub fn complaint(&self, stack: &Stack) -> Option<(Instant, String)> {
        self.on_disks(stack).find_map(|disk| disk.complaint())
    }

    fn is_ready(&self, stack: &Stack) -> Result<(), String> {
        self.parts.iter().try_for_each(|part| stack.is_ready(*part))
    }

    fn open(&self, stack: &mut Stack) {
        self.parts.iter().for_each(|part| stack.deliver(*part, Event::Resume));
        stack.resume(self.door());
    }

    fn shut(&self, stack: &mut Stack) -> Result<(), String> {
        if let Some(mapped) = &self.mapped {
            mapped.borrow_mut().suspend(false, stack)?;
        }
        stack.suspend(self.door());
        self.parts.iter().for_each(|part| stack.deliver(*part, Event::Suspend { push_back: false }));
        Ok(())
    }

    fn is_drained(&self, now: Instant, stack: &mut Stack) -> bool {
        let is_shut = self.mapped.as_ref().is_none_or(|mapped| {
            mapped.borrow_mut().poll(now, stack);
            mapped.borrow().state(stack) == Some(StateName::Suspended)
        });
        is_shut && self.parts.iter().all(|part| stack.is_drained(*part))
    }
}

/// A disk with what is on it.
fn power_on(
    scenario: &Scenario,
    (number, left): (usize, Option<Medium>),
    choices: Choices,
) -> Result<CrashDisk, String> {
    let (config, is_new) = (scenario.disks[number].clone(), left.is_none());
    let device = CrashDisk::power_on(config, FaultPlan::none(), choices, left);
    let mut device = device.map_err(|error| error.to_string())?;
    let dead = scenario.dead.iter().filter(|(disk, ..)| *disk == number && is_new);
    dead.for_each(|(_, zone, offline)| device.fail_zone(*zone, *offline));
    Ok(device)
}

/// The disks alone, as tools use them.
/// How long their commands take is of no consequence, and not recorded.
pub(super) fn bare(scenario: &Scenario, media: Option<Media>, rng: &mut Rng) -> Result<Drives, String> {
    let (mut stack, mut disks) = (Stack::new(), Vec::new());
    let mut media = media.into_iter().flatten();
    for number in 0..scenario.disks.len() {
        let disk = power_on(scenario, (number, media.next()), Choices::new(rng.fork()))?;
        disks.push(add(&mut stack, Box::new(disk))?);
    }
    let used = (0..disks.len()).collect();
    Ok(Drives { stack, disks, used })
}

/// A disk, and on a zoned one a plug; returns the disk and what the table is to use.
fn add_disk(
    stack: &mut Stack,
    run: &Run<'_>,
    disk: (usize, Option<Medium>),
    choices: &mut Choices,
) -> Result<(DeviceId, DeviceId), String> {
    let (config, plug, options) = (&run.scenario.disks[disk.0], run.scenario.plug, run.options);
    let is_zoned = config.regular.is_none();
    let choices = choices.fork("disk", disk.0 as u64 + 1);
    let mut device = power_on(run.scenario, disk, choices)?;
    if is_zoned {
        device.expect(discipline(plug.policy, config.rotational));
    }
    let disk = add(stack, Box::new(device))?;
    let mut top = wrapped(stack, disk, options.below_plug)?;
    if is_zoned {
        top = add_plug(stack, top, plug)?;
    }
    Ok((disk, top))
}

pub(super) fn add_plug(stack: &mut Stack, below: DeviceId, plug: PlugOptions) -> Result<DeviceId, String> {
    let device = ZonePlug::new(below, stack.limits(below), plug).map_err(|error| error.to_string())?;
    add(stack, Box::new(device))
}

/// What an operator does, and then no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Waits until the volume is loaded, and lets hosts in.
    Open,
    /// Suspends the volume: what is under way is finished, and all is durable.
    Stop,
}

/// Somebody who opens or stops the volume.
pub(super) struct Switch {
    shared: Shared,
    machine: Machine,
    verb: Verb,
    since: Option<Instant>,
    is_done: bool,
}

impl Switch {
    pub fn new(shared: Shared, machine: Machine, verb: Verb) -> Self {
        Self { shared, machine, verb, since: None, is_done: false }
    }

    fn complain(&self, io: &Io<'_>) {
        let what = match self.machine.is_ready(io.stack) {
            Err(missing) if self.verb == Verb::Open => format!("the volume does not come up: {missing}"),
            _ => format!("the volume does not end its {:?}", self.verb),
        };
        let what = self.machine.with_status(io.stack, what);
        self.shared.borrow_mut().violate(Rule::Stuck, io.now(), what);
    }
}

impl Actor for Switch {
    fn act(&mut self, io: &mut Io<'_>) {
        self.shared.borrow_mut().log.collect_trace(io.stack);
        let since = *self.since.get_or_insert_with(|| {
            self.shared.borrow_mut().is_stopping = self.verb == Verb::Stop;
            if self.verb == Verb::Stop
                && let Err(what) = self.machine.shut(io.stack)
            {
                self.shared.borrow_mut().violate(Rule::Table, io.now(), what);
            }
            io.now()
        });
        if io.now().since(since) > PATIENCE {
            self.complain(io);
        } else if !self.is_done {
            io.wake_at(io.now() + NAP);
        }
    }

    fn after_turn(&mut self, io: &mut Io<'_>) -> bool {
        if !self.is_done {
            self.is_done = match self.verb {
                Verb::Open => self.machine.is_ready(io.stack).is_ok(),
                Verb::Stop => self.machine.is_drained(io.now(), io.stack),
            };
            if self.is_done && self.verb == Verb::Open {
                self.machine.open(io.stack);
            }
        }
        // Letting hosts in is something to go on with.
        self.is_done && self.verb == Verb::Open && io.stack.has_arrivals()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Somebody who says things to the volume, and now and then has all hosts pause.
pub(super) struct Operator {
    pub shared: Shared,
    pub machine: Machine,
    pub pauses: bool,
    /// What it may say.
    pub messages: &'static str,
    pub choices: Choices,
}

impl Actor for Operator {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        ledger.log.collect_trace(io.stack);
        if ledger.log.left == 0 || self.choices.next_item("step").is_none() {
            return;
        }
        let pauses = self.pauses;
        let pause = self
            .choices
            .decide("pause-ms", (None, &[]), |rng| (pauses && rng.chance(1, 4)).then(|| 1_000 + rng.below(30_000)));
        if let Some(pause) = pause {
            ledger.log.note("pause");
            ledger.pause = io.now() + Duration::from_millis(pause);
        } else if !self.messages.is_empty() {
            let messages: Vec<&'static str> = self.messages.split(", ").collect();
            let words: Vec<&str> = self.choices.one("message", &messages).split(' ').collect();
            match self.machine.message(&words, io) {
                Ok(()) => ledger.log.note(words[words.len().min(2) - 1]),
                Err(what) => ledger.violate(Rule::Accepted, io.now(), what),
            }
        }
        let wait = self.choices.decide("wait-ns", (1_000_000, &[]), |rng| rng.below(200_000_000));
        io.wake_at(io.now().max(ledger.pause) + Duration(1_000 + wait));
    }

    fn is_done(&self) -> bool {
        true
    }
}
