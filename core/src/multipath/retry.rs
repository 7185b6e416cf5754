//! What becomes of a bio that failed on a path: a pure choice.
//!
//! Another path is tried only if the path failed and not the disk: a medium that is bad is so on every path, and a rule that was broken
//! stays broken. What the disk could not do at the moment it may do soon, and the path has nothing to do with it. Source: Linux,
//! `drivers/nvme/host/core.c:nvme_decide_disposition`; there a device says by a bit that trying again is useless, here it follows
//! from the status. dm-multipath cannot look into its disks and takes for a path error what is not known to be something else
//! (`include/linux/blk_types.h:blk_path_error`).

use crate::block::{Bio, Op, Reason, Status};

/// Which errors are a path's, and who brings it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Those of NVMe hosts: errors that say so; probes bring a path back.
    #[default]
    Nvme,
    /// dm-multipath's: also errors that say nothing; who stands above brings a path back.
    Dm,
}

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

impl Rules {
    /// What becomes of `bio`, which has ended so, if its path may get it again or not.
    #[must_use]
    pub fn dispose(self, bio: &Bio, status: Status, may_retry: bool) -> Disposition {
        match status {
            _ if self.is_path_error(bio, status) && changes(bio.op) => Disposition::FailOverWhenSilent,
            _ if self.is_path_error(bio, status) => Disposition::FailOver,
            _ if self == Self::Dm => Disposition::Complete,
            // It may be done, and then it would be done twice.
            Status::Target if bio.op == Op::ZoneAppend => Disposition::Complete,
            Status::DeviceResource | Status::Target if may_retry => Disposition::Retry,
            _ => Disposition::Complete,
        }
    }

    /// Whether `bio`, which has ended so, has failed because of its path.
    #[must_use]
    pub fn is_path_error(self, bio: &Bio, status: Status) -> bool {
        let says_nothing = matches!(status, Status::Io | Status::DeviceResource) && !breaks_a_rule(bio);
        status.is_path_error() || (self == Self::Dm && says_nothing)
    }
}

/// Whether a mistake of the host is known to be why it failed. The kernel does not know that, and one such write fails all paths.
fn breaks_a_rule(bio: &Bio) -> bool {
    let reason = bio.why().map(|why| &why.reason);
    matches!(reason, Some(Reason::Zone(_) | Reason::PointerUnknown { .. }))
}

/// Whether it matters when a command takes effect, and how often.
fn changes(op: Op) -> bool {
    !matches!(op, Op::Read | Op::Flush | Op::ReportZones)
}
