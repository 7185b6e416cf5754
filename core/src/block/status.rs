//! One byte of outcome, and the only tables that map it to other people's numbers. What explains it is a [`Reason`](super::Reason).
//!
//! Sources: errno `block/blk-core.c:blk_errors`; path errors `include/linux/blk_types.h:blk_path_error`; NBD
//! `nbd/doc/proto.md` "Error values"; virtio 1.3 section 5.2.6; NVM Express base 2.0 figure 94 and ZNS command set 1.1.

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

/// Status, name, errno, NBD error, virtio-blk status, NVMe (status code type << 8 | status code).
type Row = (Status, &'static str, i32, u32, u8, u16);

#[rustfmt::skip]
const TABLE: [Row; 17] = [
    (S::Ok,                 "ok",                        0,   0, 0, 0x000),
    (S::NotSupported,       "not supported",             95, 95, 2, 0x001),
    (S::Timeout,            "timeout",                  110,  5, 1, 0x371),
    (S::NoSpace,            "no space",                  28, 28, 1, 0x081),
    (S::Transport,          "transport error",           67,  5, 1, 0x370),
    (S::Target,             "target error",             121,  5, 1, 0x006),
    (S::Medium,             "medium error",              61,  5, 1, 0x281),
    (S::Protection,         "protection error",          84,  5, 1, 0x282),
    (S::Resource,           "out of resources",          12, 12, 1, 0x006),
    (S::Again,              "would wait",                11,  5, 1, 0x006),
    (S::DeviceResource,     "device busy",               16,  5, 1, 0x006),
    (S::ZoneOpenResource,   "too many open zones",      109,  5, 5, 0x1be),
    (S::ZoneActiveResource, "too many active zones",     75,  5, 6, 0x1bd),
    (S::Offline,            "offline",                   19,  5, 1, 0x1bb),
    (S::Invalid,            "invalid request",           22, 22, 1, 0x002),
    (S::ReadOnly,           "read-only",                 30,  1, 1, 0x182),
    (S::Io,                 "I/O error",                  5,  5, 1, 0x006),
];

impl Status {
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

    /// The virtio-blk status byte.
    #[must_use]
    pub const fn virtio(self) -> u8 {
        self.row().4
    }

    /// NVMe status code type and status code, as `type << 8 | code`.
    #[must_use]
    pub const fn nvme(self) -> u16 {
        self.row().5
    }

    /// Whether another path to the same device might succeed.
    #[must_use]
    pub const fn is_path_error(self) -> bool {
        !matches!(
            self,
            S::Ok
                | S::NotSupported
                | S::NoSpace
                | S::Target
                | S::Medium
                | S::Protection
                | S::ZoneOpenResource
                | S::ZoneActiveResource
                | S::Invalid
                | S::ReadOnly
        )
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

    #[test]
    fn every_status_has_its_own_row_and_a_failure_is_never_reported_as_success() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{} is in the wrong row", row.1);
            assert_eq!(row.0.is_ok(), row.2 == 0 && row.3 == 0 && row.4 == 0 && row.5 == 0, "{}", row.1);
            assert_eq!(Status::from_byte(row.0 as u8), Some(row.0));
            assert_eq!(Status::from_errno(row.0.errno()), row.0, "errno of {} does not lead back", row.1);
        }
    }

    #[test]
    fn zone_resource_errors_have_the_errnos_that_the_kernel_documents() {
        assert_eq!(Status::ZoneOpenResource.errno(), 109, "ETOOMANYREFS");
        assert_eq!(Status::ZoneActiveResource.errno(), 75, "EOVERFLOW");
        assert_eq!(Status::from_errno(123_456), Status::Io);
    }
}
