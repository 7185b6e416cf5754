//! Health of a device, as the device itself knows it.

use crate::prelude::*;

/// Health of a device. The order is from good to bad.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceHealth {
    /// The device works, or has no way to know.
    #[default]
    Works,
    /// The device reads its metadata; requests wait until that is done.
    Loading,
    /// The device accepts no writes any more: the reason.
    ReadOnly(String),
    /// The device cannot be read or written: the reason.
    Failed(String),
}

impl DeviceHealth {
    /// Name of the health, for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::Loading => "loading",
            Self::ReadOnly(_) => "read-only",
            Self::Failed(_) => "failed",
        }
    }

    /// Predicate of a sentence about a device that cannot be used or written; `None` for other devices.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Failed(why) => Some(format!("cannot be used: {why}")),
            Self::ReadOnly(why) => Some(format!("is read-only: {why}")),
            Self::Works | Self::Loading => None,
        }
    }
}
