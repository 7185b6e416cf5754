//! What can be wrong with a plug.

use crate::block::Status;
use crate::prelude::*;

/// Error of creating or changing a zone plug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlugError {
    /// The device below has no zones.
    NotZoned,
    /// Writes are waiting or in flight.
    Busy,
    /// The device's report contradicts itself; the text says where.
    Report(String),
    /// The device did not report its zones.
    NoReport(Status),
}

impl_error!(PlugError, |self, f| match self {
    Self::NotZoned => f.write_str("the device below is not zoned: leave the write policy out"),
    Self::Busy => f.write_str("writes are in flight: suspend the device and wait until it is drained"),
    Self::Report(what) => write!(f, "{what}: the zones cannot be trusted, check the device"),
    Self::NoReport(status) => write!(f, "the device does not report its zones ({status}): check the device"),
});
