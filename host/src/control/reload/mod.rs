//! A stack file that was changed, applied to the stack that runs.

mod changes;
mod devices;
mod disks;
mod paths;
mod sections;

use std::sync::Arc;
use std::time::Duration;

use self::changes::{Change, changes};
use super::protocol::{Outcome, Part, Policy, Reload, Reloaded, RemoveExport, SetPolicy, StackChange, Verb};
use super::{ControlError, bad, exports};
use crate::config::{ConfigError, DiskPlan, ExportPlan, Plan, Written, check_disk};
use crate::daemon_state::DaemonState;

/// How long a disk may take that is opened or closed, and what is under way on a path that goes.
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
    let wanted = Plan::load(&now.source.path).map_err(|error| mistake(&error))?;
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
                check_disk(disk).map_err(|error| mistake(&self.wanted.fail(vec![*error])))
            }
            _ => Ok(()),
        };
        changes.into_iter().map(|change| tell(&change, Outcome::Planned, || look(&change))).collect()
    }

    /// Does them, in their order. When something new cannot be made, what would need it is not tried; what is to go is removed whether or not others can be.
    fn apply(&self, changes: Vec<Change>) -> Vec<StackChange> {
        let mut has_failed = false;
        let mut told = Vec::with_capacity(changes.len());
        let mut rest = changes.as_slice();
        while let Some((change, behind)) = rest.split_first() {
            rest = behind;
            if has_failed {
                told.push(tell(change, Outcome::Skipped, || Ok(())));
                continue;
            }
            let done = tell(change, Outcome::Done, || self.carry_out(change));
            let is_last = !behind.iter().any(|other| (other.part, &other.name) == (change.part, &change.name));
            match done.outcome {
                Outcome::Done if change.verb == Verb::Remove => self.forget(change),
                // What is done in part is done again by the next reload if the rest fails.
                Outcome::Done if is_last => self.note(change),
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
            (Part::Disk, Verb::Set) => self.set_scheduler(name).and_then(|()| self.set_policy(name)),
            (Part::Disk, Verb::Remove) => self.close_disk(name),
            (Part::Device, Verb::Add) => self.make_device(name),
            (Part::Device, Verb::Swap) => self.swap_table(name),
            (Part::Device, Verb::Set) => self.set_device(name),
            (Part::Device, Verb::Change) => self.change_paths(name),
            (Part::Device, Verb::Remove) => self.remove_device(name),
            (Part::Export, Verb::Remove) => {
                exports::remove(self.daemon, &RemoveExport { name: name.clone() }).map(drop)
            }
            (Part::Export, _) => {
                let export = find(&self.wanted.exports, name, |export: &ExportPlan| &export.name)?;
                exports::show(self.daemon, export.clone()).map(drop)
            }
            (Part::Section, _) => self.change_section(name),
            (Part::Disk, _) => Err(bad(format!("`{name}` changes when the stack starts again"))),
        }
    }

    /// That part is no more in force.
    fn forget(&self, Change { part, name, .. }: &Change) {
        self.daemon.amend(|plan| {
            plan.disks.retain(|disk| *part != Part::Disk || disk.name != *name);
            plan.devices.retain(|device| *part != Part::Device || device.name != *name);
            plan.exports.retain(|export| *part != Part::Export || export.name != *name);
            plan.written.adopt(&Written::default(), part.name(), name);
        });
    }

    /// From now on that part of what is wanted is in force.
    fn note(&self, Change { part, name, .. }: &Change) {
        let wanted = &self.wanted;
        self.daemon.amend(|plan| {
            match part {
                Part::Disk => put(&mut plan.disks, &wanted.disks, |disk| disk.name == *name),
                Part::Device => put(&mut plan.devices, &wanted.devices, |device| device.name == *name),
                Part::Export => put(&mut plan.exports, &wanted.exports, |export| export.name == *name),
                Part::Section => {
                    match name.as_str() {
                        "metrics" => plan.metrics = wanted.metrics.clone(),
                        "web" => plan.web = wanted.web.clone(),
                        "control" => plan.control.clone_from(&wanted.control),
                        _ => plan.front_ends.clone_from(&wanted.front_ends),
                    }
                    return plan.written.adopt_section(&wanted.written, name);
                }
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

/// A mistake in the stack file. Whoever shows it says that it is an error.
fn mistake(error: &ConfigError) -> ControlError {
    let text = error.to_string();
    bad(text.strip_prefix("error: ").unwrap_or(&text).to_owned())
}

fn find<'a, T>(all: &'a [T], name: &str, name_of: impl Fn(&T) -> &String) -> Result<&'a T, ControlError> {
    all.iter().find(|one| name_of(one) == name).ok_or_else(|| bad(format!("there is no `{name}` in the stack file")))
}

/// Puts what is called so into the place that it had, or at the end.
fn put<T: Clone>(plan: &mut Vec<T>, wanted: &[T], is_it: impl Fn(&T) -> bool) {
    let new = wanted.iter().find(|one| is_it(one)).cloned();
    match (plan.iter_mut().find(|one| is_it(one)), new) {
        (Some(old), Some(new)) => *old = new,
        (_, new) => plan.extend(new),
    }
}
