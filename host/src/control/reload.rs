//! A stack file that was changed, applied to the stack that runs.

use std::sync::Arc;
use std::time::Duration;

use shingle_core::block::{Bio, Op, Payload};
use shingle_core::sector::Sector;

use super::changes::{Change, changes};
use super::protocol::{
    Drain, Load, Message, Outcome, Part, Policy, Reload, Reloaded, Remove, RemoveExport, SetPolicy, StackChange, Verb,
};
use super::users::{Offers, users_of};
use super::{ControlError, ErrorKind, bad, exports, mapped};
use crate::config::{DevicePlan, DiskPlan, ExportPlan, MadeOf, Plan, TablePlan, add_device, check_disk, open_disk};
use crate::daemon_state::DaemonState;
use crate::mailbox::Reply;
use crate::shard::Shard;

/// How long a disk may take that is opened or closed.
const PATIENCE: Duration = Duration::from_secs(20);

/// What sets the policy of a disk.
type PolicySetter<'a> = &'a dyn Fn(&SetPolicy) -> Result<Policy, ControlError>;

/// `reload`. One at a time.
pub(super) fn reload(
    daemon: &DaemonState,
    policy_setter: PolicySetter<'_>,
    Reload { dry_run }: &Reload,
) -> Result<Reloaded, ControlError> {
    let now = daemon.plan();
    let wanted = Plan::load(&now.source.path).map_err(|error| bad(error.to_string()))?;
    let stack = now.source.path.display().to_string();
    let reloader = Reloader { daemon, policy_setter, wanted: Arc::new(wanted) };
    let changes = changes(&now, &reloader.wanted);
    let changes = if *dry_run { reloader.preview(changes) } else { reloader.apply(changes) };
    Ok(Reloaded { stack, changes })
}

struct Reloader<'a> {
    daemon: &'a DaemonState,
    policy_setter: PolicySetter<'a>,
    wanted: Arc<Plan>,
}

impl Reloader<'_> {
    /// What would be done. Disks that are to be opened are looked at.
    fn preview(&self, changes: Vec<Change>) -> Vec<StackChange> {
        let look = |change: &Change| match (change.part, change.verb) {
            (Part::Disk, Verb::Add) => {
                let disk = find(&self.wanted.disks, &change.name, |disk: &DiskPlan| &disk.name)?;
                check_disk(disk).map_err(|error| bad(self.wanted.fail(vec![*error]).to_string()))
            }
            _ => Ok(()),
        };
        changes.into_iter().map(|change| tell(&change, Outcome::Planned, || look(&change))).collect()
    }

    /// Does them, in their order. When something new cannot be made, what would need it is not tried; what is to go is removed whether or not others can be.
    fn apply(&self, changes: Vec<Change>) -> Vec<StackChange> {
        let mut has_failed = false;
        let mut told = Vec::with_capacity(changes.len());
        for change in changes {
            if has_failed {
                told.push(tell(&change, Outcome::Skipped, || Ok(())));
                continue;
            }
            let done = tell(&change, Outcome::Done, || self.carry_out(&change));
            match done.outcome {
                Outcome::Done => self.note(&change),
                Outcome::Failed => has_failed = change.verb != Verb::Remove,
                _ => {}
            }
            told.push(done);
        }
        told
    }

    fn carry_out(&self, Change { part, name, verb, .. }: &Change) -> Result<(), ControlError> {
        match (part, verb) {
            (Part::Disk, Verb::Add) => self.open_disk(name),
            (Part::Disk, Verb::Set) => self.set_policy(name),
            (Part::Disk, Verb::Remove) => self.close_disk(name),
            (Part::Device, Verb::Add) => self.make_device(name),
            (Part::Device, Verb::Swap) => self.swap_table(name),
            (Part::Device, Verb::Set) => self.set_knobs(name),
            (Part::Device, Verb::Remove) => {
                let request = Remove { device: name.clone(), ..Remove::default() };
                mapped::remove(self.daemon, &request).map(drop)
            }
            (Part::Export, Verb::Remove) => {
                exports::remove(self.daemon, &RemoveExport { name: name.clone() }).map(drop)
            }
            (Part::Export, _) => {
                let export = find(&self.wanted.exports, name, |export: &ExportPlan| &export.name)?;
                exports::show(self.daemon, export.clone()).map(drop)
            }
            (Part::Disk | Part::Device | Part::Section, _) => {
                Err(bad(format!("`{name}` changes when the stack starts again")))
            }
        }
    }

    fn open_disk(&self, name: &str) -> Result<(), ControlError> {
        let disk = find(&self.wanted.disks, name, |disk: &DiskPlan| &disk.name)?.clone();
        if let Some((shard, _)) = self.daemon.find(name)? {
            let message = format!(
                "`{name}` is a device of shard {} already: remove it, or give the disk another name",
                shard.number
            );
            return Err(ControlError::new(ErrorKind::Exists, message));
        }
        let (plan, shard) = (self.wanted.clone(), &self.daemon.shards[disk.shard as usize]);
        shard.mailbox.ask_slowly(PATIENCE, move |shard, reply: Reply<Result<(), ControlError>>| {
            let opened = open_disk(&disk, shard);
            reply.send(opened.map_err(|error| bad(plan.fail(vec![*error]).to_string())));
        })?
    }

    fn make_device(&self, name: &str) -> Result<(), ControlError> {
        let device = find(&self.wanted.devices, name, |device: &DevicePlan| &device.name)?.clone();
        if self.daemon.find(name)?.is_some() {
            let message = format!(
                "there is a device `{name}` that no stack file has made: `shingle dm remove {name}`, or give this one another name"
            );
            return Err(ControlError::new(ErrorKind::Exists, message));
        }
        let (plan, shard) = (self.wanted.clone(), &self.daemon.shards[device.shard as usize]);
        shard.mailbox.ask_slowly(PATIENCE, move |shard, reply: Reply<Result<(), ControlError>>| {
            let made = add_device(&plan, &device, shard);
            reply.send(made.map_err(|error| bad(plan.fail(vec![*error]).to_string())));
        })?
    }

    fn table(&self, name: &str) -> Result<&TablePlan, ControlError> {
        match &find(&self.wanted.devices, name, |device: &DevicePlan| &device.name)?.made_of {
            MadeOf::Table(table) => Ok(table),
            MadeOf::Paths(_) => Err(bad(format!("`{name}` has paths, and no table"))),
        }
    }

    fn swap_table(&self, name: &str) -> Result<(), ControlError> {
        let (device, table) = (name.to_owned(), self.table(name)?.text().to_owned());
        mapped::load(self.daemon, &Load { device: device.clone(), table, read_only: false })?;
        let swapped = mapped::resume(self.daemon, &Drain { device: device.clone(), ..Drain::default() });
        if swapped.is_err() {
            // It goes on with the table that it has, and nobody finds another one there later.
            let _ = mapped::clear(self.daemon, &super::protocol::Clear { device });
        }
        swapped.map(drop)
    }

    fn set_knobs(&self, name: &str) -> Result<(), ControlError> {
        let knobs = &self.table(name)?.knobs;
        if knobs.is_empty() {
            return Err(bad(format!("`{name}` keeps its knobs: a start without `knobs` has the defaults")));
        }
        let pairs: Vec<String> = knobs.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let message = format!("set {}", pairs.join(" "));
        mapped::message(self.daemon, &Message { device: name.to_owned(), sector: 0, message }).map(drop)
    }

    fn set_policy(&self, name: &str) -> Result<(), ControlError> {
        let disk = find(&self.wanted.disks, name, |disk: &DiskPlan| &disk.name)?;
        let policy = disk.policy.map(|policy| policy.name().to_owned());
        (self.policy_setter)(&SetPolicy { device: name.to_owned(), policy }).map(drop)
    }

    /// Closes a disk that nobody uses. What was written to it is durable then.
    fn close_disk(&self, name: &str) -> Result<(), ControlError> {
        let Some((shard, named)) = self.daemon.find(name)? else { return Ok(()) };
        let offers = Offers { exports: self.daemon.exports.clone(), shard: shard.number };
        shard.mailbox.ask_slowly(PATIENCE, move |shard: &mut Shard, reply: Reply<Result<(), ControlError>>| {
            let name = named.name.clone();
            let busy =
                move |users: String| ControlError::new(ErrorKind::Busy, format!("disk `{name}` is in use by {users}"));
            if let Some(users) = users_of(shard, named.device, &offers) {
                return reply.send(Err(busy(users)));
            }
            let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            shard.submit(named.device, flush, move |shard, bio, status| {
                if !status.is_ok() {
                    let why = shard.devices.tell(&bio, status);
                    let message =
                        format!("disk `{}` stays open, since what it has cannot be made durable: {why}", named.name);
                    return reply.send(Err(ControlError::new(ErrorKind::Io, message)));
                }
                reply.send(match users_of(shard, named.device, &offers) {
                    Some(users) => Err(busy(users)),
                    None => {
                        let removed = shard.devices.remove_disk(&named.name, &mut shard.stack);
                        removed.map_err(|error| busy(error.to_string()))
                    }
                });
            });
        })?
    }

    /// From now on that part of what is wanted is in force.
    fn note(&self, Change { part, name, .. }: &Change) {
        let wanted = &self.wanted;
        self.daemon.amend(|plan| {
            match part {
                Part::Disk => put(&mut plan.disks, &wanted.disks, |disk| disk.name == *name),
                Part::Device => put(&mut plan.devices, &wanted.devices, |device| device.name == *name),
                Part::Export => put(&mut plan.exports, &wanted.exports, |export| export.name == *name),
                Part::Section => {}
            }
            plan.written.adopt(&wanted.written, part.name(), name);
        });
    }
}

/// Tells of a change what comes of it, unless something keeps it from being tried.
fn tell(change: &Change, outcome: Outcome, try_it: impl FnOnce() -> Result<(), ControlError>) -> StackChange {
    let Change { part, name, verb, obstacle } = change.clone();
    let (outcome, why) = match obstacle {
        Some(why) => (Outcome::AfterRestart, Some(why)),
        None => match try_it() {
            Ok(()) => (outcome, None),
            Err(error) => (Outcome::Failed, Some(error.message)),
        },
    };
    StackChange { part, name, verb, outcome, why }
}

fn find<'a, T>(all: &'a [T], name: &str, name_of: impl Fn(&T) -> &String) -> Result<&'a T, ControlError> {
    all.iter().find(|one| name_of(one) == name).ok_or_else(|| bad(format!("there is no `{name}` in the stack file")))
}

/// Puts what is called so into the place that it had, or at the end; or takes it out.
fn put<T: Clone>(plan: &mut Vec<T>, wanted: &[T], is_it: impl Fn(&T) -> bool) {
    let (place, new) = (plan.iter().position(&is_it), wanted.iter().find(|one| is_it(one)).cloned());
    match (place, new) {
        (Some(place), Some(new)) => plan[place] = new,
        (Some(place), None) => _ = plan.remove(place),
        (None, new) => plan.extend(new),
    }
}
