//! `scheduler`: the I/O scheduler of a disk.

use shingle_core::scheduler::{MAX_QUEUE_DEPTH, SchedulerKind, SchedulerOptions, scheduler_of};

use super::names::unknown_device;
use super::protocol::{Scheduler, SetScheduler};
use super::{ControlError, ErrorKind, bad};
use crate::daemon_state::DaemonState;
use crate::devices::Named;
use crate::shard::Shard;

/// Shows or changes the scheduler of a disk. Nothing is suspended: I/O that waits in the scheduler moves to the new one in the order of its
/// arrival.
pub(super) fn scheduler(daemon: &DaemonState, request: &SetScheduler) -> Result<Scheduler, ControlError> {
    let wanted = Wanted::read(request)?;
    let name = &request.device;
    let (shard, _) = daemon.find(name)?.ok_or(()).or_else(|()| Err(unknown_device(daemon, name)?))?;
    let plan = daemon.plan();
    let planned = plan.disk(name).map(|disk| disk.scheduler).unwrap_or_default();
    let name = name.clone();
    shard.mailbox.ask(move |shard| {
        let gone = || ControlError::new(ErrorKind::UnknownDevice, format!("`{name}` is gone"));
        let named = shard.devices.find(&name).ok_or_else(gone)?;
        wanted.set(shard, &named, planned)
    })?
}

/// A validated request.
struct Wanted {
    kind: Option<SchedulerKind>,
    queue_depth: Option<u32>,
}

impl Wanted {
    fn read(SetScheduler { scheduler, queue_depth, .. }: &SetScheduler) -> Result<Self, ControlError> {
        let kind = scheduler.as_deref().map(str::parse::<SchedulerKind>).transpose();
        let kind = kind.map_err(|error| bad(error.to_string()))?;
        match *queue_depth {
            Some(depth) if !(1..=MAX_QUEUE_DEPTH).contains(&depth) => {
                Err(bad(format!("`queue_depth` is {depth}: write 1 to {MAX_QUEUE_DEPTH}")))
            }
            queue_depth => Ok(Self { kind, queue_depth }),
        }
    }

    fn set(self, shard: &mut Shard, named: &Named, planned: SchedulerOptions) -> Result<Scheduler, ControlError> {
        if !named.is_disk() {
            let message =
                format!("`{}` is not a disk: name one of the disks below it, only those have a scheduler", named.name);
            return Err(bad(message));
        }
        let before = scheduler_of(&shard.stack, named.leaf);
        let Self { kind, queue_depth } = self;
        let now = kind.unwrap_or(before);
        if now == SchedulerKind::None && queue_depth.is_some() {
            return Err(bad("`queue_depth` belongs to scheduler `mq-deadline`: choose that, or leave it out".into()));
        }
        if kind.is_some() || queue_depth.is_some() {
            let current = shard.stack.scheduler_depth(named.leaf);
            let queue_depth = queue_depth.or(current).unwrap_or(planned.queue_depth);
            SchedulerOptions { kind: now, queue_depth, ..planned }.apply(&mut shard.stack, named.leaf);
        }
        let queue_depth = shard.stack.scheduler_depth(named.leaf);
        Ok(Scheduler { scheduler: now.name().into(), before: before.name().into(), queue_depth })
    }
}
