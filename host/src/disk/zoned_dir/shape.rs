//! What a disk is made to be: geometry, block size and limits.

use shingle_core::block::{Limits, ZonedLimits};
use shingle_core::impl_error;
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{ResourceLimits, ZoneGeometry};

use crate::disk::transfer::{MOST_SECTORS, MOST_SEGMENTS};

/// Everything about a disk that does not change after it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Where its zones begin and end.
    pub zones: ZoneGeometry,
    /// Smallest unit of I/O, in bytes.
    pub block_bytes: u32,
    /// Most open and active zones.
    pub limits: ResourceLimits,
    /// Whether it does zone appends itself; if not, the plug above emulates them.
    pub append: bool,
}

impl Shape {
    /// A disk with 4096-byte blocks, or smaller ones if its zones are no multiple, without limits, that does appends.
    #[must_use]
    pub fn new(zones: ZoneGeometry) -> Self {
        let fits = |block: u32| Self { zones, block_bytes: block, limits: ResourceLimits::NONE, append: true };
        let block_bytes =
            [4096, 2048, 1024, 512].into_iter().find(|b| fits(*b).check().is_ok()).unwrap_or(SECTOR_BYTES);
        fits(block_bytes)
    }

    /// Checks that the values make sense together.
    pub fn check(&self) -> Result<(), ShapeError> {
        let block = self.block_bytes;
        if !block.is_power_of_two() || !(SECTOR_BYTES..=1 << 16).contains(&block) {
            return Err(ShapeError::Block(block));
        }
        let sized = [
            ("capacity", self.zones.capacity()),
            ("zone size", self.zones.zone_sectors().into()),
            ("zone capacity", self.zones.zone_capacity().into()),
        ];
        for (field, sectors) in sized {
            if !(sectors * u64::from(SECTOR_BYTES)).is_multiple_of(block.into()) {
                return Err(ShapeError::Unaligned { field, bytes: sectors * u64::from(SECTOR_BYTES), block });
            }
        }
        Ok(())
    }

    /// What the disk accepts.
    #[must_use]
    pub fn device_limits(&self) -> Limits {
        let limits = self.limits.enforceable(self.zones.sequential());
        Limits {
            logical_block_bytes: self.block_bytes,
            physical_block_bytes: self.block_bytes,
            max_sectors: Some(MOST_SECTORS),
            max_segments: Some(MOST_SEGMENTS),
            max_write_zeroes: Some(self.zones.zone_sectors()),
            write_cache: true,
            zoned: Some(ZonedLimits {
                max_open: limits.max_open(),
                max_active: limits.max_active(),
                max_append: self.append.then_some(MOST_SECTORS.min(self.zones.zone_capacity())),
                write_granularity_bytes: self.block_bytes,
                ..ZonedLimits::new(self.zones.zone_sectors()).with_conventional(self.zones.conventional())
            }),
            ..Limits::new(self.zones.capacity())
        }
    }

    /// The first field in which two shapes differ, and both values.
    pub(super) fn difference(&self, other: &Shape) -> Option<(&'static str, String, String)> {
        let optional = |limit: Option<u32>| limit.map_or("none".into(), |n| n.to_string());
        let fields = |s: &Shape| {
            [
                ("capacity in sectors", s.zones.capacity().to_string()),
                ("zone size in sectors", s.zones.zone_sectors().to_string()),
                ("zone capacity in sectors", s.zones.zone_capacity().to_string()),
                ("number of conventional zones", s.zones.conventional().to_string()),
                ("block size in bytes", s.block_bytes.to_string()),
                ("max_open", optional(s.limits.max_open())),
                ("max_active", optional(s.limits.max_active())),
                ("native append", s.append.to_string()),
            ]
        };
        let pairs = fields(self).into_iter().zip(fields(other));
        pairs.into_iter().find(|(a, b)| a != b).map(|((field, a), (_, b))| (field, a, b))
    }
}

/// Invalid shape of a zoned disk. The message names the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// The block size (bytes) is not one.
    Block(u32),
    /// A size is no multiple of the block size.
    Unaligned {
        /// Which.
        field: &'static str,
        /// What it is.
        bytes: u64,
        /// The block size in bytes.
        block: u32,
    },
}

impl_error!(ShapeError, |self, f| match self {
    Self::Block(block) => write!(f, "block size of {block} bytes is no power of two between 512 and 65536"),
    Self::Unaligned { field, bytes, block } => write!(
        f,
        "{field} of {bytes} bytes is no multiple of the block size of {block} bytes: choose a smaller block size"
    ),
});
