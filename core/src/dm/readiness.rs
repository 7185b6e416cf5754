//! What a volume with metadata can do: `stl` and dm-zoned.

use crate::block::DeviceHealth;
use crate::prelude::*;

/// State of a volume that has to be loaded from its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// No request has asked for the volume yet.
    Unloaded,
    /// The metadata is being read.
    Loading,
    /// The volume is in use.
    Ready,
    /// The volume takes no changes any more: the reason.
    ReadOnly(String),
    /// The volume cannot be used at all: the reason.
    Failed(String),
}

impl Readiness {
    /// Answer to [`BlockDevice::health`](crate::block::BlockDevice::health).
    pub fn health(&self) -> DeviceHealth {
        match self {
            Self::Unloaded | Self::Loading => DeviceHealth::Loading,
            Self::Ready => DeviceHealth::Works,
            Self::ReadOnly(why) => DeviceHealth::ReadOnly(why.clone()),
            Self::Failed(why) => DeviceHealth::Failed(why.clone()),
        }
    }
}
