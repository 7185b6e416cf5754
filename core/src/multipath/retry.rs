//! What becomes of a bio that failed on a path: a pure choice.
//!
//! Another path is tried only if the path failed and not the disk: a medium that is bad is so on every path, and a rule that was broken
//! stays broken. What the disk could not do at the moment it may do soon, and the path has nothing to do with it. Source: Linux,
//! `drivers/nvme/host/core.c:nvme_decide_disposition`; there a device says by a bit that trying again is useless, here it follows
//! from the status.

use crate::block::{Op, Status};

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It ends, well or not.
    Complete,
    /// The same path gets it again after a pause.
    Retry,
    /// Another path gets it, at once.
    FailOver,
    /// The same, but only when the old path can do no more of it.
    FailOverWhenSilent,
}

/// What becomes of a bio that ended so after that many attempts on its path, of at most `most`.
#[must_use]
pub fn dispose(op: Op, status: Status, attempts: u8, most: u8) -> Disposition {
    match status {
        _ if status.is_path_error() && changes(op) => Disposition::FailOverWhenSilent,
        _ if status.is_path_error() => Disposition::FailOver,
        // It may be done, and then it would be done twice.
        Status::Target if op == Op::ZoneAppend => Disposition::Complete,
        Status::DeviceResource | Status::Target if attempts < most => Disposition::Retry,
        _ => Disposition::Complete,
    }
}

/// Whether it matters when a command takes effect, and how often.
fn changes(op: Op) -> bool {
    !matches!(op, Op::Read | Op::Flush | Op::ReportZones)
}
