//! What a device knows of its sectors without reading them.

use super::id::DeviceId;
use crate::sector::Sector;

/// What a read of some sectors would find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data, or nobody knows.
    Data,
    /// Zeroes, for which nothing is kept.
    Hole,
    /// What this device has, from this sector of it on.
    Below(DeviceId, Sector),
}
