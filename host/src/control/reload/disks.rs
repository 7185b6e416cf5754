//! Disks that a stack file has, or has no more.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, thread};

use shingle_core::block::{Bio, DeviceId, Op, Payload};
use shingle_core::scheduler::{SchedulerKind, SchedulerOptions};
use shingle_core::sector::Sector;

use super::{PATIENCE, Reloader, find, mistake};
use crate::config::{DiskPlan, open_disk};
use crate::control::protocol::{SetPolicy, SetScheduler};
use crate::control::scheduler::scheduler;
use crate::control::users::{Offers, users_of};
use crate::control::{ControlError, ErrorKind};
use crate::daemon_state::ShardInfo;
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
        answers_in_time(&disk)?;
        let (plan, shard) = (self.wanted.clone(), &self.daemon.shards[disk.shard as usize]);
        shard.mailbox.ask_slowly(PATIENCE, move |shard, reply: Reply<Result<(), ControlError>>| {
            let opened = open_disk(&disk, shard);
            reply.send(opened.map_err(|error| mistake(&plan.fail(vec![*error]))));
        })?
    }

    pub(super) fn set_policy(&self, name: &str) -> Result<(), ControlError> {
        let disk = find(&self.wanted.disks, name, |disk: &DiskPlan| &disk.name)?;
        let Some(policy) = disk.policy else { return Ok(()) };
        let policy = Some(policy.name().to_owned());
        (self.policy_setter)(&SetPolicy { device: name.to_owned(), policy }).map(drop)
    }

    /// Sets the scheduler that the stack file names, or none.
    pub(super) fn set_scheduler(&self, name: &str) -> Result<(), ControlError> {
        let SchedulerOptions { kind, queue_depth, .. } =
            find(&self.wanted.disks, name, |disk: &DiskPlan| &disk.name)?.scheduler;
        let queue_depth = (kind != SchedulerKind::None).then_some(queue_depth);
        let request = SetScheduler { device: name.to_owned(), scheduler: Some(kind.name().to_owned()), queue_depth };
        scheduler(self.daemon, &request).map(drop)
    }

    /// Closes a disk that nobody uses. What was written to it is durable then.
    pub(super) fn close_disk(&self, name: &str) -> Result<(), ControlError> {
        let Some((shard, named)) = self.daemon.find(name)? else { return Ok(()) };
        let offers = Offers { exports: self.daemon.exports.clone(), shard: shard.number };
        settled(shard, named.leaf)?;
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

/// How long the path of a disk may take to be looked at before it is opened.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);

/// Looks at the path of a disk in a thread, since its file system may not answer, and the shard that opens it would wait as well.
fn answers_in_time(disk: &DiskPlan) -> Result<(), ControlError> {
    let Some(path) = disk.back_end.path().map(Path::to_path_buf) else { return Ok(()) };
    let (answers, answered) = mpsc::channel();
    let look = {
        let path = path.clone();
        move || {
            // What is wrong with it is for the one who opens it to say.
            let _ =
                path.metadata().and_then(|found| if found.is_dir() { fs::read_dir(&path).map(drop) } else { Ok(()) });
            let _ = answers.send(());
        }
    };
    let spawned = thread::Builder::new().name("shingle-look".into()).spawn(look);
    let error = |message| ControlError::new(ErrorKind::Io, message);
    spawned.map_err(|why| error(format!("disk `{}`: no thread to look at its path: {why}", disk.name)))?;
    answered.recv_timeout(LOOK_PATIENCE).map_err(|_| {
        let (name, path, seconds) = (&disk.name, path.display(), LOOK_PATIENCE.as_secs());
        error(format!(
            "disk `{name}`: the file system of {path} has not answered for {seconds} s; check its server, then reload again"
        ))
    })
}

/// Waits a moment until a disk has no requests of its own under way, such as a look at its files. One whose file system does not answer keeps them.
fn settled(shard: &ShardInfo, leaf: DeviceId) -> Result<(), ControlError> {
    for _ in 0..50 {
        if !shard.mailbox.ask(move |shard: &mut Shard| shard.stack.has_own_requests_only(leaf))? {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
