//! The unit of addresses: a sector is 512 bytes everywhere inside; only frontends and real devices convert.

use core::ops::{Add, AddAssign, Sub};

/// Bytes in a sector.
pub const SECTOR_BYTES: u32 = 512;

/// An address on a device, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sector(pub u64);

impl Sector {
    /// The first sector of a device.
    pub const ZERO: Sector = Sector(0);

    /// The sector that holds byte `offset_bytes`.
    #[must_use]
    pub const fn from_bytes(offset_bytes: u64) -> Self {
        Sector(offset_bytes / SECTOR_BYTES as u64)
    }

    /// The byte address of the sector's start.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0 * SECTOR_BYTES as u64
    }
}

impl Add<u64> for Sector {
    type Output = Sector;
    fn add(self, sectors: u64) -> Sector {
        Sector(self.0 + sectors)
    }
}

impl AddAssign<u64> for Sector {
    fn add_assign(&mut self, sectors: u64) {
        self.0 += sectors;
    }
}

impl Sub<Sector> for Sector {
    type Output = u64;
    fn sub(self, start: Sector) -> u64 {
        self.0 - start.0
    }
}

impl_display!(Sector, |self, f| self.0.fmt(f));
