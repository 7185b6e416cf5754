//! Which write goes next: the choice a device's owner makes.

use core::str::FromStr;

use super::elevator::ElevatorOptions;
use crate::block::Limits;

named_enum! {
    /// How writes to sequential zones are ordered on their way to the device. The default comes first.
    ///
    /// A further policy is another arm here, another `match` arm in [`super::ZonePlug`], and a file beside `zone_lock.rs`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum WritePolicy {
        /// Zone write plugging: a FIFO per zone, above everything else.
        #[default]
        Plug => "plug",
        /// Zone write plugging with one zone write in flight for the whole disk, each zone drained before the next.
        Qd1 => "qd1",
        /// As `plug` where zones do not hinder each other, with a moment's wait for writes to merge. On a rotational disk one
        /// zone write at a time, in the order that moves most bytes, and nobody waits longer than is promised.
        Elevator => "elevator",
        /// Zone write locking in a deadline scheduler, as Linux did until 6.9: the baseline.
        ZoneLock => "zone-lock",
        /// No ordering at all: the device sees writes as they come.
        None => "none",
    }

    /// The name in stack files and on the command line.
    fn name(self) -> &'static str;
}

impl WritePolicy {
    /// What a device gets when nobody names a policy: zone writes of a rotational disk go one at a time, as in Linux 7.1
    /// (`block/blk-sysfs.c:blk_register_queue`).
    #[must_use]
    pub fn default_for(limits: &Limits) -> Self {
        if limits.rotational { WritePolicy::Qd1 } else { WritePolicy::Plug }
    }

    /// Whether writes reach each zone in order and at its write pointer, whatever the submitters do.
    #[must_use]
    pub const fn orders(self) -> bool {
        matches!(self, WritePolicy::Plug | WritePolicy::Qd1 | WritePolicy::Elevator)
    }
}

impl_display!(WritePolicy, |self, f| f.write_str(self.name()));

/// A policy name that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl_error!(UnknownPolicy, |self, f| {
    f.write_str("unknown write policy; use one of: ")?;
    WritePolicy::ALL.iter().enumerate().try_for_each(|(n, policy)| {
        let comma = if n > 0 { ", " } else { "" };
        write!(f, "{comma}{policy}")
    })
});

impl FromStr for WritePolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or(UnknownPolicy)
    }
}

/// Where zone appends are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Append {
    /// By the device if it can, else emulated.
    #[default]
    Native,
    /// Always as writes at the tracked write pointer.
    Emulated,
}

/// What can be chosen about a plug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlugOptions {
    /// The policy it starts with.
    pub policy: WritePolicy,
    /// Where appends are executed.
    pub append: Append,
    /// Most segments of a merged write, within what the device takes. 1 switches merging off.
    pub max_segments: u32,
    /// Commands that the `zone-lock` scheduler keeps at the device (null_blk's `hw_queue_depth`).
    pub queue_depth: u32,
    /// How the `elevator` policy works.
    pub elevator: ElevatorOptions,
}

impl PlugOptions {
    /// What a device gets when nobody chooses: see [`WritePolicy::default_for`].
    #[must_use]
    pub fn for_device(limits: &Limits) -> Self {
        Self { policy: WritePolicy::default_for(limits), ..Self::default() }
    }
}

impl Default for PlugOptions {
    fn default() -> Self {
        let (policy, append, elevator) = Default::default();
        Self { policy, append, max_segments: 128, queue_depth: 64, elevator }
    }
}
