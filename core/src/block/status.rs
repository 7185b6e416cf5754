//! One byte of outcome, and the only tables that map it to other people's numbers. What explains it is a [`Reason`](super::Reason).
//!
//! Sources: errno `block/blk-core.c:blk_errors`; NBD `nbd/doc/proto.md` "Error values".

/// How a bio ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done.
    #[default]
    Ok,
    /// The device does not do this operation.
    NotSupported,
    /// No answer in time.
    Timeout,
    /// A device below, or the file system under it, is out of space.
    NoSpace,
    /// The way to the device failed.
    Transport,
    /// The device failed for good, whatever the path.
    Target,
    /// The medium could not be read or written.
    Medium,
    /// Data and its protection information disagree.
    Protection,
    /// Out of memory or of a bounded host resource.
    Resource,
    /// A NOWAIT bio would have had to wait.
    Again,
    /// The device is out of a resource for a moment.
    DeviceResource,
    /// Too many open zones.
    ZoneOpenResource,
    /// Too many active zones.
    ZoneActiveResource,
    /// The device or the zone is offline.
    Offline,
    /// Out of range, misaligned, or against a limit.
    Invalid,
    /// The device is read-only.
    ReadOnly,
    /// Any other failure.
    Io,
}

use Status as S;

/// Status, name, errno, NBD error.
type Row = (Status, &'static str, i32, u32);

#[rustfmt::skip]
const TABLE: [Row; Status::COUNT] = [
    (S::Ok,                 "ok",                        0,   0),
    (S::NotSupported,       "not supported",             95, 95),
    (S::Timeout,            "timeout",                  110,  5),
    (S::NoSpace,            "no space",                  28, 28),
    (S::Transport,          "transport error",           67,  5),
    (S::Target,             "target error",             121,  5),
    (S::Medium,             "medium error",              61,  5),
    (S::Protection,         "protection error",          84,  5),
    (S::Resource,           "out of resources",          12, 12),
    (S::Again,              "would wait",                11,  5),
    (S::DeviceResource,     "device busy",               16,  5),
    (S::ZoneOpenResource,   "too many open zones",      109,  5),
    (S::ZoneActiveResource, "too many active zones",     75,  5),
    (S::Offline,            "offline",                   19,  5),
    (S::Invalid,            "invalid request",           22, 22),
    (S::ReadOnly,           "read-only",                 30,  1),
    (S::Io,                 "I/O error",                  5,  5),
];

impl Status {
    /// Number of statuses.
    pub const COUNT: usize = S::Io as usize + 1;

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The status with this value as a byte.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        TABLE.get(usize::from(byte)).map(|row| row.0)
    }

    /// Whether the bio did what it asked.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        matches!(self, S::Ok)
    }

    /// What a log or a table calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().1
    }

    /// The Linux errno, positive; 0 for success.
    #[must_use]
    pub const fn errno(self) -> i32 {
        self.row().2
    }

    /// The NBD error value; 0 for success.
    #[must_use]
    pub const fn nbd(self) -> u32 {
        self.row().3
    }

    /// The status for a positive Linux errno; an unknown one is an I/O error.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            1 | 13 => S::ReadOnly,
            122 => S::NoSpace,
            _ => TABLE.iter().find(|row| row.2 == errno).map_or(S::Io, |row| row.0),
        }
    }

    /// Whether the way to the device failed and not the device, so that another path may do what this one could not (NVMe: status code
    /// type 3, path related, or a queue that is going). A medium, target or zone error is the same on every path.
    #[must_use]
    pub const fn is_path_error(self) -> bool {
        matches!(self, S::Timeout | S::Transport | S::Offline)
    }

    /// The first failure of two outcomes.
    #[must_use]
    pub const fn and(self, other: Status) -> Status {
        if self.is_ok() { other } else { self }
    }
}

impl_display!(Status, |self, f| f.write_str(self.name()));

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_status_has_its_own_row_and_a_failure_is_never_reported_as_success() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{} is in the wrong row", row.1);
            assert_eq!(row.0.is_ok(), row.2 == 0 && row.3 == 0, "{}", row.1);
            assert_eq!(Status::from_byte(row.0 as u8), Some(row.0));
            assert_eq!(Status::from_errno(row.0.errno()), row.0, "errno of {} does not lead back", row.1);
        }
    }

    #[test]
    fn only_a_lost_silent_or_broken_way_is_a_path_error() {
        let found: Vec<Status> = TABLE.iter().map(|row| row.0).filter(|status| status.is_path_error()).collect();
        assert_eq!(found, [Status::Timeout, Status::Transport, Status::Offline]);
    }

    #[test]
    fn zone_resource_errors_have_the_errnos_that_the_kernel_documents() {
        assert_eq!(Status::ZoneOpenResource.errno(), 109, "ETOOMANYREFS");
        assert_eq!(Status::ZoneActiveResource.errno(), 75, "EOVERFLOW");
        assert_eq!(Status::from_errno(123_456), Status::Io);
    }
}
