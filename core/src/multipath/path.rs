//! One path of a head: what it is to the disk, whether it works, and what it has done.

use super::policy::{Access, Node};
use crate::block::{AnaState, DeviceId, Silence};
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// A path as it is given to a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// The device that leads there.
    pub device: DeviceId,
    /// When a command can no longer take effect whose bio it gave back: [`Stack::silence`](crate::block::Stack::silence).
    pub silence: Silence,
    /// What the disk at the end says it is; `None`: it does not say.
    pub identity: Option<String>,
    /// What it is to the disk, to begin with.
    pub state: AnaState,
    /// How often the disk has lost its power so far; `None`: it does not say.
    pub losses: Option<u64>,
    /// NUMA node that the path is near to; `None`: it is equally near to all.
    pub node: Option<Node>,
}

impl PathConfig {
    /// An optimized path to a disk that does not say what it is, of which nothing can land later.
    #[must_use]
    pub fn new(device: DeviceId) -> Self {
        Self { device, silence: Silence::AtOnce, identity: None, state: AnaState::Optimized, losses: None, node: None }
    }
}

/// Whether a path works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// As far as is known.
    Live,
    /// It failed.
    Failed(Probing),
    /// An operator has taken it out.
    Offline,
    /// An operator has removed it, and it has something under way.
    Leaving,
    /// It is removed, and its number is free.
    Gone,
}

/// When a path is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probing {
    /// The last pause between two probes.
    pub pause: Duration,
    /// When the next one is due.
    pub due: Instant,
}

/// What a path has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Bios that were sent on it.
    pub sent: u64,
    /// Bios that it failed, and another one got.
    pub failovers: u64,
    /// Bios that it got again.
    pub retries: u64,
    /// Errors of the disk that came over it.
    pub errors: u64,
    /// Times it failed.
    pub failures: u64,
    /// Probes that were sent on it.
    pub probes: u64,
    /// Bios of users that it did.
    pub done: u64,
    /// How long these took, together.
    pub latency: Duration,
}

impl PathCounters {
    /// Counts a bio of a user that took so long.
    #[inline]
    pub(super) fn add(&mut self, latency: Duration) {
        self.done += 1;
        self.latency.0 += latency.0;
    }
}

crate::named_enum! {
    /// Whether a path works, in a word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PathHealth {
        /// As far as is known.
        Live => "live",
        /// It failed, and is probed.
        Failed => "failed",
        /// An operator has taken it out.
        Offline => "offline",
        /// An operator has removed it, and what it was given has not ended.
        Leaving => "leaving",
    }

    /// The word.
    fn name(self) -> &'static str;
}

/// A path from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// Its number, which it keeps.
    pub number: usize,
    /// The device that leads there.
    pub device: DeviceId,
    /// What it is to the disk.
    pub state: AnaState,
    /// Whether it works.
    pub health: PathHealth,
    /// NUMA node that the path is near to; `None`: it is equally near to all.
    pub node: Option<Node>,
    /// Bios under way on it.
    pub in_flight: u32,
    /// What it has done.
    pub counters: PathCounters,
}

/// A path of a head.
pub(super) struct Path {
    pub device: DeviceId,
    pub silence: Silence,
    pub state: AnaState,
    pub health: Health,
    pub counters: PathCounters,
    /// Until when it may be between two states.
    pub change_ends: Option<Instant>,
    pub is_probed: bool,
}

impl Health {
    /// Whether it is a path of the disk, and not one that was removed.
    pub fn is_in_use(self) -> bool {
        !matches!(self, Self::Leaving | Self::Gone)
    }
}

impl Path {
    pub fn new(config: &PathConfig) -> Self {
        let (health, counters) = (Health::Live, PathCounters::default());
        let PathConfig { device, silence, state, .. } = *config;
        Self { device, silence, state, health, counters, change_ends: None, is_probed: false }
    }

    pub fn access(&self) -> Access {
        if self.health == Health::Live { self.state.access() } else { Access::Unusable }
    }

    /// Whether it works, in a word.
    pub fn health(&self) -> PathHealth {
        match self.health {
            Health::Live => PathHealth::Live,
            Health::Failed(_) => PathHealth::Failed,
            Health::Offline => PathHealth::Offline,
            Health::Leaving | Health::Gone => PathHealth::Leaving,
        }
    }

    /// Whether it may take I/O some time without an operator.
    pub fn may_return(&self) -> bool {
        matches!(self.health, Health::Live | Health::Failed(_)) && self.state != AnaState::PersistentLoss
    }
}
