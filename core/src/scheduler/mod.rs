//! I/O schedulers for disks: `none` and `mq-deadline`, by the names that Linux gives them.
//!
//! A scheduler lies below the zone plug and above the queue of the disk:
//!
//! ```text
//!  zone plug: one write per zone ──> scheduler: which of the waiting bios is next ──> disk: `queue-depth` commands at a time
//! ```
//!
//! The order of writes to a zone is the plug's task; a scheduler must not break it. [`MqDeadline`] dispatches writes and zone
//! management of one zone in the order of their arrival, whatever is above. Why a scheduler is part of the block layer and not
//! a device: `docs/decisions/0021-scheduler.md`.

mod fifo;
mod guards;
mod mq_deadline;
mod sorted;

use core::str::FromStr;

#[cfg(feature = "sabotage")]
pub use guards::Sabotage;
pub use mq_deadline::{DeadlineOptions, MqDeadline, WaitingBio};

use crate::block::{DeviceId, Limits, Scheduler, Stack};
use crate::prelude::*;

named_enum! {
    /// I/O scheduler of a disk. The default comes first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum SchedulerKind {
        /// No scheduler: every bio goes to the disk at once.
        #[default]
        None => "none",
        /// Sorted by sector for each direction, in batches, with deadlines and priority classes.
        MqDeadline => "mq-deadline",
    }

    /// Name in stack files and on the command line.
    fn name(self) -> &'static str;
}

impl_display!(SchedulerKind, |self, f| f.write_str(self.name()));

/// Error: a scheduler name that is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownScheduler;

impl_error!(UnknownScheduler, |self, f| {
    f.write_str("unknown scheduler; use one of: ")?;
    SchedulerKind::ALL.iter().enumerate().try_for_each(|(n, kind)| {
        let comma = if n > 0 { ", " } else { "" };
        write!(f, "{comma}{kind}")
    })
});

impl FromStr for SchedulerKind {
    type Err = UnknownScheduler;

    fn from_str(name: &str) -> Result<Self, UnknownScheduler> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownScheduler)
    }
}

/// Scheduler of a disk with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// Scheduler.
    pub kind: SchedulerKind,
    /// Most commands in flight at the disk under `mq-deadline`, at least 1.
    pub queue_depth: u32,
    /// Options of `mq-deadline`.
    pub deadline: DeadlineOptions,
}

/// Greatest `queue_depth`, as in Linux (`BLK_MQ_MAX_DEPTH`).
pub const MAX_QUEUE_DEPTH: u32 = 10_240;

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self { kind: SchedulerKind::None, queue_depth: 64, deadline: DeadlineOptions::default() }
    }
}

impl SchedulerOptions {
    /// Sets the scheduler of `disk`, which may be in use. See [`Stack::set_scheduler`].
    pub fn apply(self, stack: &mut Stack, disk: DeviceId) {
        let scheduler = self.build(stack.limits(disk));
        stack.set_scheduler(disk, scheduler.map(|scheduler| (scheduler, self.queue_depth)));
    }

    fn build(self, limits: &Limits) -> Option<Box<dyn Scheduler>> {
        match self.kind {
            SchedulerKind::None => None,
            SchedulerKind::MqDeadline => Some(Box::new(MqDeadline::new(limits, self.deadline))),
        }
    }
}

/// Scheduler in force at `disk`.
#[must_use]
pub fn scheduler_of(stack: &Stack, disk: DeviceId) -> SchedulerKind {
    let name = stack.scheduler(disk).map(Scheduler::name);
    name.and_then(|name| name.parse().ok()).unwrap_or_default()
}
