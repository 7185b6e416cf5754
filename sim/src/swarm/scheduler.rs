//! I/O schedulers of the disks of a scenario, and the operator who changes them under load.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::agenda::Agenda;
use super::base::{between, some};
use super::ledger::Shared;
use super::options::SwarmOptions;
use crate::choices::Choices;
use crate::world::{Actor, Io};
use shingle_core::block::{DeviceId, Priority, Stack};
use shingle_core::random::Rng;
use shingle_core::scheduler::{DeadlineOptions, MqDeadline, SchedulerKind, SchedulerOptions};
use shingle_core::time::Duration;

/// Schedulers of a scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct SchedulerPlan {
    /// The scheduler that each disk starts with.
    pub options: SchedulerOptions,
    /// Schedulers that the operator sets, one after the other, on a disk that it draws.
    pub switches: Vec<SchedulerKind>,
    /// Priority classes of the hosts, which take turns.
    pub classes: Vec<Priority>,
}

impl SchedulerPlan {
    pub fn draw(rng: &mut Rng) -> Self {
        let micros = |rng: &mut Rng, from: &[u64]| Duration::from_micros(some(rng, from));
        let deadline = DeadlineOptions {
            read_expire: micros(rng, &[0, 100, 5_000, 500_000]),
            write_expire: micros(rng, &[0, 100, 5_000, 5_000_000]),
            batch: some(rng, &[1, 2, 16]),
            writes_starved: some(rng, &[0, 1, 2]),
            aging: micros(rng, &[0, 1_000, 20_000, 10_000_000]),
        };
        let switches = if rng.chance(1, 2) { between(rng, 1, 6) } else { 0 };
        let classes = if rng.chance(1, 2) { between(rng, 2, 4) } else { 1 };
        Self {
            options: SchedulerOptions {
                kind: some(rng, &SchedulerKind::ALL),
                queue_depth: some(rng, &[1, 2, 4, 32]),
                deadline,
            },
            switches: (0..switches).map(|_| some(rng, &SchedulerKind::ALL)).collect(),
            classes: (0..classes).map(|_| some(rng, &Priority::ALL)).collect(),
        }
    }

    /// The plan with each value recorded, or replaced by the recorded one.
    #[must_use]
    pub fn pinned(self, choices: &mut Choices) -> Self {
        let Self { options, switches, classes } = self;
        let (calm, deadline) = (DeadlineOptions::default(), options.deadline);
        Self {
            options: SchedulerOptions {
                kind: choices.pin("scheduler", SchedulerKind::None, options.kind),
                queue_depth: choices.pin("scheduler-depth", 1, options.queue_depth).max(1),
                deadline: DeadlineOptions {
                    read_expire: choices.pin("read-expire-ns", calm.read_expire, deadline.read_expire),
                    write_expire: choices.pin("write-expire-ns", calm.write_expire, deadline.write_expire),
                    batch: choices.pin("batch", calm.batch, deadline.batch),
                    writes_starved: choices.pin("writes-starved", calm.writes_starved, deadline.writes_starved),
                    aging: choices.pin("aging-ns", calm.aging, deadline.aging),
                },
            },
            switches: choices.pin("scheduler-switches", Vec::new(), switches),
            classes: choices.pin("classes", Vec::new(), classes),
        }
    }

    /// Priority class of host `number`.
    pub fn class(&self, number: u32) -> Priority {
        let place = (number as usize).checked_rem(self.classes.len());
        place.map_or(Priority::default(), |place| self.classes[place])
    }
}

shingle_core::impl_display!(SchedulerPlan, |self, f| {
    let SchedulerOptions { kind, queue_depth, .. } = self.options;
    write!(f, "scheduler {kind} at depth {queue_depth}")?;
    self.switches.iter().try_for_each(|kind| write!(f, "->{kind}"))?;
    self.classes.iter().try_for_each(|class| write!(f, ", class {}", class.name()))
});

/// Sets the scheduler of `disk`.
pub(super) fn set(stack: &mut Stack, disk: DeviceId, options: SchedulerOptions, swarm: &SwarmOptions) {
    match options.kind {
        SchedulerKind::None => stack.set_scheduler(disk, None),
        SchedulerKind::MqDeadline => {
            let scheduler = guarded(MqDeadline::new(stack.limits(disk), options.deadline), swarm);
            stack.set_scheduler(disk, Some((Box::new(scheduler), options.queue_depth)));
        }
    }
}

#[cfg(feature = "sabotage")]
fn guarded(scheduler: MqDeadline, swarm: &SwarmOptions) -> MqDeadline {
    scheduler.without(swarm.sabotage_scheduler)
}

#[cfg(not(feature = "sabotage"))]
fn guarded(scheduler: MqDeadline, _: &SwarmOptions) -> MqDeadline {
    scheduler
}

/// Changes schedulers while the disks are in use.
pub(super) struct SchedulerOperator {
    shared: Shared,
    agenda: Agenda,
    plan: SchedulerPlan,
    swarm: SwarmOptions,
    switched: usize,
}

impl SchedulerOperator {
    pub fn new(shared: Shared, plan: SchedulerPlan, swarm: &SwarmOptions, choices: Choices) -> Self {
        Self { shared, agenda: Agenda::starting(choices), plan, swarm: swarm.clone(), switched: 0 }
    }

    fn switch(&mut self, kind: SchedulerKind, io: &mut Io<'_>) {
        let ledger = &mut *self.shared.borrow_mut();
        let place = self.agenda.choices.below("disk", ledger.disks.len() as u64) as usize;
        let queue_depth = self.agenda.choices.decide("depth", (1, &[]), |rng| some(rng, &[1, 2, 4, 32])).max(1);
        let options = SchedulerOptions { kind, queue_depth, ..self.plan.options };
        set(io.stack, ledger.disks[place], options, &self.swarm);
        ledger.schedulers.remove(&ledger.disks[place]);
        self.switched += 1;
    }
}

impl Actor for SchedulerOperator {
    fn act(&mut self, io: &mut Io<'_>) {
        self.shared.clone().borrow_mut().log.collect_trace(io.stack);
        if self.agenda.begins(io.now())
            && let Some(kind) = self.plan.switches.get(self.switched).copied()
        {
            self.switch(kind, io);
        }
        if !self.is_done() {
            self.agenda.go_on(io, |rng| Duration(1_000 + rng.below(10_000_000)));
        }
    }

    fn is_done(&self) -> bool {
        self.switched == self.plan.switches.len() || self.shared.borrow().log.left == 0
    }
}
