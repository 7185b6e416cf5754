//! Devices that a stack file has, has otherwise, or has no more.

use shingle_core::multipath::PolicyOptions;
use shingle_core::time::Duration;

use super::{PATIENCE, Reloader, find, mistake};
use crate::config::{DevicePlan, MadeOf, TablePlan, add_device};
use crate::control::protocol::{Clear, Drain, Load, Message, Remove, SetPathPolicy};
use crate::control::users::{Offers, users_of};
use crate::control::{ControlError, ErrorKind, bad, mapped, paths};
use crate::daemon_state::ShardInfo;
use crate::devices::{MULTIPATH, Named};
use crate::mailbox::Reply;

impl Reloader<'_> {
    pub(super) fn make_device(&self, name: &str) -> Result<(), ControlError> {
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
            reply.send(made.map_err(|error| mistake(&plan.fail(vec![*error]))));
        })?
    }

    pub(super) fn made_of(&self, name: &str) -> Result<&MadeOf, ControlError> {
        find(&self.wanted.devices, name, |device: &DevicePlan| &device.name).map(|device| &device.made_of)
    }

    fn table(&self, name: &str) -> Result<&TablePlan, ControlError> {
        match self.made_of(name)? {
            MadeOf::Table(table) => Ok(table),
            MadeOf::Paths(_) => Err(bad(format!("`{name}` has paths, and no table"))),
        }
    }

    pub(super) fn swap_table(&self, name: &str) -> Result<(), ControlError> {
        let (device, table) = (name.to_owned(), self.table(name)?.text().to_owned());
        mapped::load(self.daemon, &Load { device: device.clone(), table, read_only: false })?;
        let swapped = mapped::resume(self.daemon, &Drain { device: device.clone(), ..Drain::default() });
        if swapped.is_err() {
            // It goes on with the table that it has, and nobody finds another one there later.
            let _ = mapped::clear(self.daemon, &Clear { device });
        }
        swapped.map(drop)
    }

    pub(super) fn set_device(&self, name: &str) -> Result<(), ControlError> {
        match self.made_of(name)? {
            MadeOf::Table(_) => self.set_knobs(name),
            MadeOf::Paths(head) => {
                let disks = &self.wanted.disks;
                let kind_of = |path: &str| disks.iter().find(|disk| disk.name == path).map(|disk| disk.kind.name);
                let PolicyOptions { decay: decay_percent, window, low_water } = head.policy_options;
                let (device, policy) = (name.to_owned(), head.policy(kind_of).name().into());
                let window_ns = window.map(Duration::as_nanos);
                let policy = SetPathPolicy { device, policy, decay_percent, window_ns, low_water };
                paths::set_policy(self.daemon, &policy).map(drop)
            }
        }
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

    pub(super) fn remove_device(&self, name: &str) -> Result<(), ControlError> {
        match self.daemon.find(name)? {
            Some((shard, head)) if head.kind == MULTIPATH => self.remove_head(shard, head),
            _ => {
                let request = Remove { device: name.to_owned(), ..Remove::default() };
                mapped::remove(self.daemon, &request).map(drop)
            }
        }
    }

    fn remove_head(&self, shard: &ShardInfo, head: Named) -> Result<(), ControlError> {
        let offers = Offers { exports: self.daemon.exports.clone(), shard: shard.number };
        shard.mailbox.ask(move |shard| {
            let busy = |users: String| {
                ControlError::new(ErrorKind::Busy, format!("device `{}` is in use by {users}", head.name))
            };
            match users_of(shard, head.device, &offers) {
                Some(users) => Err(busy(users)),
                None => shard.devices.remove_head(&head, &mut shard.stack).map_err(|error| busy(error.to_string())),
            }
        })?
    }
}
