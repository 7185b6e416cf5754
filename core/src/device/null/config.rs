//! What a null device is asked to be. The names and meanings are those of `null_blk`, the units are ours.

use core::ops::Range;

use crate::block::{Limits, LimitsError, ZonedLimits};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::Duration;
use crate::zone::{GeometryError, ResourceLimits, ResourceLimitsError, ZoneGeometry, ZoneKind, ZoneNo};

/// The largest device: its size in bytes is a positive 64-bit number.
const MOST_SECTORS: u64 = i64::MAX as u64 / 512;

/// Most zones: two hundred times as many as the largest drives have. Each takes memory.
const MOST_ZONES: u32 = 1 << 24;

/// Parameters of a null device. Lengths are in sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NullConfig {
    /// Size of the device.
    pub capacity: u64,
    /// Logical and physical block size in bytes (`blocksize`).
    pub block_bytes: u32,
    /// Longest read or write.
    pub max_sectors: Option<u32>,
    /// Whether it keeps what is written. If not, reads leave the memory of the bio as it is.
    pub memory_backed: bool,
    /// The byte that sectors which were never written, or were reset or discarded, read as. Only if memory-backed.
    pub unwritten: u8,
    /// Time from arrival to completion (`completion_nsec`); zero: completes within `submit`.
    pub completion: Duration,
    /// Whether it tells that it has a volatile write cache.
    pub write_cache: bool,
    /// True if it has a write cache and no FUA: the stack then makes a write and a flush of a FUA write (`fua=0` of `null_blk`).
    pub without_fua: bool,
    /// Whether it tells that it turns.
    pub rotational: bool,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether it does `WriteZeroes`.
    pub write_zeroes: bool,
    /// Whether it does `Discard`; not on a zoned device.
    pub discard: bool,
    /// Sectors that cannot be read or written.
    pub bad_blocks: Vec<Range<Sector>>,
    /// Whether a range of bad blocks is good again after it was hit once.
    pub bad_blocks_once: bool,
    /// Whether the blocks in front of the first bad one are read or written; else nothing is.
    pub bad_blocks_partial_io: bool,
    /// Present if it is zoned.
    pub zoned: Option<NullZones>,
}

/// Parameters of a zoned null device. Lengths are in sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NullZones {
    /// Zone size, a power of two.
    pub zone_sectors: u64,
    /// Writable sectors of a sequential zone; `None`: all.
    pub zone_capacity: Option<u64>,
    /// Number of conventional zones; they come first (`zone_nr_conv`).
    pub conventional: u32,
    /// Most open zones. A limit that covers all sequential zones is none.
    pub max_open: Option<u32>,
    /// Most active zones. A limit that covers all sequential zones is none.
    pub max_active: Option<u32>,
    /// Longest native append; `None`: it does not append, and a plug emulates it.
    pub max_append: Option<u32>,
    /// Whether sequential zones start full.
    pub zone_full: bool,
    /// Zones that start read-only.
    pub read_only: Vec<ZoneNo>,
    /// Zones that start offline.
    pub offline: Vec<ZoneNo>,
}

impl NullConfig {
    /// A regular device of `capacity` sectors with 512-byte blocks, which keeps nothing and completes at once.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self { capacity, block_bytes: 512, ..Self::default() }
    }

    /// The same with zones.
    #[must_use]
    pub fn zoned(capacity: u64, zones: NullZones) -> Self {
        Self { zoned: Some(zones), ..Self::new(capacity) }
    }

    /// The limits of the device, if its parameters go together.
    pub(super) fn limits(&self) -> Result<Limits, NullConfigError> {
        if self.capacity > MOST_SECTORS {
            return bad("capacity", self.capacity, "at most 18014398509481983 sectors, which is 8 EiB");
        }
        let mut limits = Limits {
            logical_block_bytes: self.block_bytes,
            physical_block_bytes: self.block_bytes,
            max_sectors: self.max_sectors,
            max_write_zeroes: self.write_zeroes.then_some(u32::MAX),
            max_discard: self.discard.then_some(u32::MAX),
            write_cache: self.write_cache,
            fua: !self.without_fua,
            rotational: self.rotational,
            read_only: self.read_only,
            ..Limits::new(self.capacity)
        };
        limits.validate()?;
        for range in &self.bad_blocks {
            if range.end.0 > self.capacity {
                return bad("bad_blocks", range.end.0, "a range that ends within the device");
            }
        }
        if let Some(zones) = &self.zoned {
            if self.discard {
                return bad("discard", 1, "left out on a zoned device: reset zones instead");
            }
            let geometry = zones.geometry(self.capacity)?;
            if geometry.zones() > MOST_ZONES {
                return bad(
                    "zone size",
                    zones.zone_sectors,
                    "so large (in sectors) that there are at most 16777216 zones",
                );
            }
            limits.zoned = Some(zones.limits(&geometry, self.block_bytes)?);
            limits.validate()?;
            zones.check_units(&geometry, limits.block_sectors())?;
            zones.check_failed(&geometry)?;
        }
        Ok(limits)
    }
}

impl NullZones {
    /// Zones of `zone_sectors`, all sequential and wholly writable, without limits and without native append.
    #[must_use]
    pub fn new(zone_sectors: u64) -> Self {
        Self { zone_sectors, ..Self::default() }
    }

    fn limits(&self, geometry: &ZoneGeometry, block_bytes: u32) -> Result<ZonedLimits, NullConfigError> {
        let resources = self.resources(geometry)?;
        Ok(ZonedLimits {
            max_open: resources.max_open(),
            max_active: resources.max_active(),
            max_append: self.max_append,
            write_granularity_bytes: block_bytes,
            ..ZonedLimits::new(geometry.zone_sectors()).with_conventional(geometry.conventional())
        })
    }

    pub(super) fn geometry(&self, capacity: u64) -> Result<ZoneGeometry, NullConfigError> {
        let zone_capacity = self.zone_capacity.unwrap_or(self.zone_sectors);
        Ok(ZoneGeometry::new(capacity, self.zone_sectors, zone_capacity, self.conventional.into())?)
    }

    pub(super) fn resources(&self, geometry: &ZoneGeometry) -> Result<ResourceLimits, NullConfigError> {
        Ok(ResourceLimits::new(self.max_open, self.max_active)?.enforceable(geometry.sequential()))
    }

    fn check_units(&self, geometry: &ZoneGeometry, block: u32) -> Result<(), NullConfigError> {
        if !geometry.zone_capacity().is_multiple_of(block) {
            return bad("zone_capacity", geometry.zone_capacity().into(), "a multiple of the block size (in sectors)");
        }
        if let Some(append) = self.max_append
            && (!append.is_multiple_of(block) || append > geometry.zone_capacity())
        {
            let needs = "a multiple of the block size, at most the zone capacity (in sectors), or left out";
            return bad("max_append", append.into(), needs);
        }
        Ok(())
    }

    fn check_failed(&self, geometry: &ZoneGeometry) -> Result<(), NullConfigError> {
        for (field, zones) in [("read_only", &self.read_only), ("offline", &self.offline)] {
            for zone in zones {
                if zone.0 >= geometry.zones() || geometry.kind(*zone) != ZoneKind::Sequential {
                    return bad(field, zone.0.into(), "the number of a sequential zone");
                }
            }
        }
        Ok(())
    }
}

/// Invalid parameters of a null device. The message names the parameter and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NullConfigError {
    /// The zones have no shape.
    Geometry(GeometryError),
    /// The open and active limits do not go together.
    Resources(ResourceLimitsError),
    /// A value is out of its range, or the limits of the device do not go together.
    Limits(LimitsError),
}

fn bad<T>(field: &'static str, value: u64, needs: &'static str) -> Result<T, NullConfigError> {
    Err(LimitsError::Value { field, value, needs }.into())
}

impl_error!(
    NullConfigError,
    Geometry(GeometryError),
    Resources(ResourceLimitsError),
    Limits(LimitsError),
    |self, f| {
        f.write_str("null device: ")?;
        match self {
            Self::Geometry(error) => error.fmt(f),
            Self::Resources(error) => error.fmt(f),
            Self::Limits(error) => error.fmt(f),
        }
    }
);
