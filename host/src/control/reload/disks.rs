//! Disks that a stack file has, or has no more.

use shingle_core::block::{Bio, Op, Payload};
use shingle_core::sector::Sector;

use super::{PATIENCE, Reloader, find, mistake};
use crate::config::{DiskPlan, open_disk};
use crate::control::protocol::SetPolicy;
use crate::control::users::{Offers, users_of};
use crate::control::{ControlError, ErrorKind};
use crate::mailbox::Reply;
use crate::shard::Shard;

impl Reloader<'_> {
    pub(super) fn open_disk(&self, name: &str) -> Result<(), ControlError> {
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
            reply.send(opened.map_err(|error| mistake(&plan.fail(vec![*error]))));
        })?
    }

    pub(super) fn set_policy(&self, name: &str) -> Result<(), ControlError> {
        let disk = find(&self.wanted.disks, name, |disk: &DiskPlan| &disk.name)?;
        let policy = disk.policy.map(|policy| policy.name().to_owned());
        (self.policy_setter)(&SetPolicy { device: name.to_owned(), policy }).map(drop)
    }

    /// Closes a disk that nobody uses. What was written to it is durable then.
    pub(super) fn close_disk(&self, name: &str) -> Result<(), ControlError> {
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
}
