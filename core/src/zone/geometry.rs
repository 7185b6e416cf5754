//! Where zones begin and end.

use super::{ZoneKind, ZoneNo};
use crate::sector::Sector;

/// The fixed shape of a zoned device: equal zones, a power of two long, the last one perhaps shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneGeometry {
    capacity: u64,
    zone_sectors: u32,
    zone_capacity: u32,
    conventional: u32,
    shift: u8,
}

/// Invalid zone geometry. The message names the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// The device has no sectors.
    Empty,
    /// The zone size is zero or no power of two (sectors).
    ZoneSize(u64),
    /// Zone capacity (first) is zero or above the zone size (second), in sectors.
    ZoneCapacity(u64, u64),
    /// A short last zone of this many sectors together with capacity below size.
    RuntWithCapacity(u64),
    /// All of the zones (second) would be conventional (first).
    Conventional(u64, u64),
    /// More zones than 2^32 - 1.
    TooManyZones(u64),
}

impl_error!(GeometryError, |self, f| match *self {
    Self::Empty => write!(f, "the device has no sectors: give it a size of at least one zone"),
    Self::ZoneSize(n) => {
        write!(f, "zone size of {n} sectors is no power of two between 512 bytes and 1 TiB")
    }
    Self::ZoneCapacity(c, s) => {
        write!(f, "zone capacity of {c} sectors is not between 1 and the zone size of {s} sectors")
    }
    Self::RuntWithCapacity(n) => write!(
        f,
        "a last zone of {n} sectors cannot be combined with a zone capacity below the zone size: \
         make the size a multiple of the zone size"
    ),
    Self::Conventional(c, n) => {
        write!(f, "{c} conventional zones of {n} leave no sequential zone: at least one is needed")
    }
    Self::TooManyZones(n) => write!(f, "{n} zones are more than 4294967295: use larger zones"),
});

impl ZoneGeometry {
    /// A device of `capacity` sectors in zones of `zone_sectors`, of which the first `conventional` take random writes and
    /// the others `zone_capacity` sectors of sequential ones.
    pub fn new(capacity: u64, zone_sectors: u64, zone_capacity: u64, conventional: u64) -> Result<Self, GeometryError> {
        if capacity == 0 {
            return Err(GeometryError::Empty);
        }
        if !zone_sectors.is_power_of_two() || zone_sectors > 1 << 31 {
            return Err(GeometryError::ZoneSize(zone_sectors));
        }
        if zone_capacity == 0 || zone_capacity > zone_sectors {
            return Err(GeometryError::ZoneCapacity(zone_capacity, zone_sectors));
        }
        let runt = capacity % zone_sectors;
        if runt != 0 && zone_capacity != zone_sectors {
            return Err(GeometryError::RuntWithCapacity(runt));
        }
        let zones = capacity.div_ceil(zone_sectors);
        if zones > u64::from(u32::MAX) {
            return Err(GeometryError::TooManyZones(zones));
        }
        if conventional >= zones {
            return Err(GeometryError::Conventional(conventional, zones));
        }
        Ok(Self {
            capacity,
            zone_sectors: zone_sectors as u32,
            zone_capacity: zone_capacity as u32,
            conventional: conventional as u32,
            shift: zone_sectors.trailing_zeros() as u8,
        })
    }

    /// Sectors of the whole device.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Length of every zone but perhaps the last, in sectors.
    #[must_use]
    pub const fn zone_sectors(&self) -> u32 {
        self.zone_sectors
    }

    /// Writable sectors of every sequential zone but perhaps the last.
    #[must_use]
    pub const fn zone_capacity(&self) -> u32 {
        self.zone_capacity
    }

    /// Number of zones.
    #[must_use]
    pub const fn zones(&self) -> u32 {
        self.capacity.div_ceil(self.zone_sectors as u64) as u32
    }

    /// Number of conventional zones; they come first.
    #[must_use]
    pub const fn conventional(&self) -> u32 {
        self.conventional
    }

    /// Number of sequential zones.
    #[must_use]
    pub const fn sequential(&self) -> u32 {
        self.zones() - self.conventional
    }

    /// The zone that holds `sector`. Past the end of the device it is a zone that does not exist.
    #[must_use]
    pub const fn zone_of(&self, sector: Sector) -> ZoneNo {
        let zone = sector.0 >> self.shift;
        // There are at most u32::MAX zones, so no zone has that number.
        ZoneNo(if zone > u32::MAX as u64 { u32::MAX } else { zone as u32 })
    }

    /// Distance of `sector` from the start of its zone.
    #[must_use]
    pub const fn offset_in_zone(&self, sector: Sector) -> u32 {
        (sector.0 & (self.zone_sectors as u64 - 1)) as u32
    }

    /// First sector of `zone`.
    #[must_use]
    pub const fn start(&self, zone: ZoneNo) -> Sector {
        Sector((zone.0 as u64) << self.shift)
    }

    /// Length of `zone` in sectors.
    #[must_use]
    pub const fn len(&self, zone: ZoneNo) -> u32 {
        let rest = self.capacity - self.start(zone).0;
        if rest < self.zone_sectors as u64 { rest as u32 } else { self.zone_sectors }
    }

    /// Writable sectors of `zone`: its whole length if it is conventional.
    #[must_use]
    pub const fn capacity_of(&self, zone: ZoneNo) -> u32 {
        let len = self.len(zone);
        if zone.0 < self.conventional || self.zone_capacity > len { len } else { self.zone_capacity }
    }

    /// Conventional or sequential.
    #[must_use]
    pub const fn kind(&self, zone: ZoneNo) -> ZoneKind {
        if zone.0 < self.conventional { ZoneKind::Conventional } else { ZoneKind::Sequential }
    }
}
