//! What a volume with metadata can do: `stl` and dm-zoned.

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
    /// Answer to [`BlockDevice::fault`](crate::block::BlockDevice::fault).
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Failed(why) => Some(format!("it cannot be used: {why}")),
            Self::ReadOnly(why) => Some(format!("it is read-only: {why}")),
            Self::Unloaded | Self::Loading | Self::Ready => None,
        }
    }
}
