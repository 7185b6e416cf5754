//! The way of a shard to its end: sources finish, mapped devices come to rest, devices flush.

use shingle_core::block::{Bio, DeviceId, Op, Payload, Status};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

use super::{Shard, ShardError};
use crate::devices::QuiesceProgress;

/// How far a shard is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    /// Sources finish what they have.
    Draining {
        give_up: Instant,
    },
    /// Mapped devices come to rest, from the top down: their targets end what they have under way.
    Suspending {
        give_up: Instant,
    },
    /// Devices make durable what they have.
    Flushing {
        give_up: Instant,
    },
    Stopped,
}

impl Stage {
    /// When patience with it ends.
    pub fn give_up(self) -> Option<Instant> {
        match self {
            Stage::Draining { give_up } | Stage::Suspending { give_up } | Stage::Flushing { give_up } => Some(give_up),
            Stage::Running | Stage::Stopped => None,
        }
    }
}

impl Shard {
    /// Asks for the end: sources finish, mapped devices are suspended, all devices flush, then [`Shard::run`] returns.
    pub fn stop(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        self.stage = Stage::Draining { give_up: self.now + self.grace };
        self.again = true;
        self.devices.let_in(&mut self.stack);
        let (sources, mut around) = self.sources();
        sources.stop(&mut around);
    }

    pub(super) fn advance_stop(&mut self) -> Result<bool, ShardError> {
        match self.stage {
            Stage::Running | Stage::Stopped => return Ok(false),
            Stage::Draining { give_up } => {
                if !self.sources.is_empty() && self.now < give_up {
                    return Ok(false);
                }
                self.sources.give_up();
                self.stage = Stage::Suspending { give_up: self.now + self.grace };
            }
            Stage::Suspending { give_up } => {
                match self.devices.suspend_from_top(&mut self.stack) {
                    QuiesceProgress::Begun => return Ok(true),
                    QuiesceProgress::Awaited if self.now < give_up => return Ok(false),
                    QuiesceProgress::Awaited => self.stuck_at_the_end = self.stuck(Duration::ZERO),
                    QuiesceProgress::Reached => {}
                }
                self.flush_all();
            }
            Stage::Flushing { give_up } => {
                if self.thens.is_empty() {
                    self.stage = Stage::Stopped;
                } else if self.now >= give_up {
                    return Err(ShardError::Stuck(self.stuck(Duration::ZERO)));
                } else {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn flush_all(&mut self) {
        self.stage = Stage::Flushing { give_up: self.now + self.grace };
        // A volume that could not record acknowledged writes no longer flushes, so no flush of it can fail.
        let all = (0..self.stack.devices()).map(|index| DeviceId(index as u16));
        let lost = all.filter(|device| self.stack.is_replaceable(*device).is_err());
        self.failed_flushes.extend(lost.map(|device| (device, Status::Io)));
        for device in self.reach_disks() {
            let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            self.submit(device, flush, move |shard, _, status| {
                if !status.is_ok() {
                    shard.failed_flushes.push((device, status));
                }
            });
        }
    }

    /// Devices with no shut door at them or below them: at one, a flush would wait for ever. Targets of suspended devices have ended what they
    /// had under way, so what is left to be flushed is below the lowest doors. Nor is one asked for a flush by a way of its own, past the door
    /// above it: it would begin something new, which nobody waits for.
    fn reach_disks(&self) -> Vec<DeviceId> {
        let all = || (0..self.stack.devices()).map(|index| DeviceId(index as u16));
        let mut shut: Vec<bool> = all().map(|device| self.stack.is_suspended(device)).collect();
        // As many rounds as there are layers.
        loop {
            let is_new = |device: &DeviceId| {
                !shut[device.0 as usize] && self.stack.below(*device).iter().any(|below| shut[below.0 as usize])
            };
            let new: Vec<DeviceId> = all().filter(is_new).collect();
            if new.is_empty() {
                let is_part = |device: &DeviceId| self.devices.mapper.is_part(*device);
                return all().filter(|device| !shut[device.0 as usize] && !is_part(device)).collect();
            }
            new.into_iter().for_each(|device| shut[device.0 as usize] = true);
        }
    }
}
