//! How much of a set is metadata, and how much it exposes: the numbers of dmzadm, to the block.

use core::ops::Range;

use super::{ENTRIES, bitmap_blocks};
use crate::dm::zoned::{MemberNo, Number, SetZone, ZoneClass, ZoneHealth, ZoneInfo, ZoneSpace};
use crate::prelude::*;

/// The numbers of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// First zone of the first metadata set.
    pub first_zone: SetZone,
    /// Blocks of a metadata set, its superblock included.
    pub metadata_blocks: u32,
    /// Zones of a metadata set.
    pub metadata_zones: u32,
    /// Blocks of the mapping table.
    pub map_blocks: u32,
    /// Blocks of bitmaps.
    pub bitmap_blocks: u32,
    /// Sequential zones that are kept for reclaim.
    pub reserved: u32,
    /// Chunks that are exposed.
    pub chunks: u32,
}

/// Zones that dmzadm calls cache zones: those of the regular device, or without one the conventional ones, whatever their
/// condition is.
pub(crate) fn random_zones(space: &ZoneSpace) -> u64 {
    space.zones().numbers().filter(|zone| space.is_random(*zone)).count() as u64
}

/// Zones that dmzadm calls usable: the good ones, and the runt of a regular device.
pub(crate) fn usable_zones(space: &ZoneSpace) -> u64 {
    let is_usable =
        |zone: &&ZoneInfo| zone.health == ZoneHealth::Good || (zone.is_runt && zone.class == ZoneClass::Cache);
    space.zones().iter().filter(is_usable).count() as u64
}

/// Zones that hold `blocks` of metadata.
#[must_use]
pub fn metadata_zones(blocks: u32, zone_blocks: u32) -> u32 {
    blocks.div_ceil(zone_blocks)
}

impl Layout {
    /// The layout of a set with `reserved` zones for reclaim, as dmzadm computes it (dm-zoned-tools 2.2,
    /// `dmzadm` "format"): zones of a regular device count as data whether they can be used or not.
    ///
    /// # Errors
    /// If the set is too small for it.
    pub fn compute(space: &ZoneSpace, reserved: u32) -> Result<Self, LayoutError> {
        let error = |message| Err(LayoutError(message));
        let (random, usable) = (random_zones(space), usable_zones(space));
        let Some(first_zone) = space.metadata_zone().filter(|_| random >= 3) else {
            return error(format!(
                "the disks have {random} zones that take random writes, and at least 3 that can be used are needed: put a \
                 regular disk in front of the zoned ones, or use a zoned disk with more conventional zones"
            ));
        };
        let reserved = if u64::from(reserved) > random { random - 1 } else { u64::from(reserved) };
        if reserved == 0 || reserved >= usable {
            return error(format!(
                "{reserved} of {usable} zones cannot be kept for reclaim: keep at least 1 and fewer than all (--seq)"
            ));
        }
        let zone_blocks = u64::from(space.zone_blocks());
        let bitmaps = space.zones().len() as u64 * u64::from(bitmap_blocks(space.zone_blocks()));
        let blocks_of = |chunks: u64| 1 + chunks.div_ceil(ENTRIES as u64) + bitmaps;
        let too_small = || LayoutError(format!("{usable} usable zones have no room for metadata, reclaim and data"));
        let guess = usable.checked_sub(bitmaps.div_ceil(zone_blocks) + reserved).ok_or_else(too_small)?;
        let both_sets = 2 * blocks_of(guess).div_ceil(zone_blocks);
        if both_sets > random {
            return error(format!("2 sets of metadata need {both_sets} random zones, of which there are {random}"));
        }
        let chunks = usable.checked_sub(both_sets + reserved).filter(|chunks| *chunks > 0).ok_or_else(too_small)?;
        let number = |n: u64| u32::try_from(n).map_err(|_| LayoutError("more than 2^32 blocks of metadata".into()));
        let layout = Self {
            first_zone,
            metadata_blocks: number(blocks_of(chunks))?,
            metadata_zones: number(blocks_of(chunks).div_ceil(zone_blocks))?,
            map_blocks: number(chunks.div_ceil(ENTRIES as u64))?,
            bitmap_blocks: number(bitmaps)?,
            reserved: number(reserved)?,
            chunks: number(chunks)?,
        };
        layout.check_metadata_zones(space).map(|()| layout)
    }

    /// The most zones that can be kept for reclaim: more, and `dmzadm --check` miscounts (it takes the zones of metadata
    /// from those that take random writes, and compares the rest).
    #[must_use]
    pub fn most_reserved(&self, space: &ZoneSpace) -> u32 {
        (random_zones(space) as u32).saturating_sub(2 * self.metadata_zones)
    }

    /// The fewest zones that have to be kept for reclaim so that one zone is free when every chunk is written.
    #[must_use]
    pub fn least_reserved(&self, space: &ZoneSpace) -> u32 {
        u32::try_from(i64::from(self.reserved) + 1 - self.slack(space)).unwrap_or(1).max(1)
    }

    /// Both sets lie in zones that follow each other on the first device.
    fn check_metadata_zones(&self, space: &ZoneSpace) -> Result<(), LayoutError> {
        let Some(bad) = self.unfit_metadata_zone(space) else { return Ok(()) };
        let Range { start, end } = self.metadata();
        let message = format!("metadata takes zones {start} to {}, but zone {bad} takes no random writes", end.0 - 1);
        Err(LayoutError(message))
    }

    /// The first of the zones of both sets that cannot hold metadata.
    #[must_use]
    pub fn unfit_metadata_zone(&self, space: &ZoneSpace) -> Option<SetZone> {
        let own = &space.zones().as_slice()[..space.members()[MemberNo(0)].zones as usize];
        let is_unfit = |zone: &SetZone| {
            let info = own.get(zone.index());
            info.is_none_or(|info| info.class == ZoneClass::Sequential || info.health != ZoneHealth::Good)
        };
        let Range { start, end } = self.metadata();
        start.onwards().take_while(|zone| *zone < end).find(is_unfit)
    }

    /// The zones of both sets.
    #[must_use]
    pub fn metadata(&self) -> Range<SetZone> {
        let end = self.first_zone.0.saturating_add(self.metadata_zones.saturating_mul(2));
        self.first_zone..SetZone(end)
    }

    /// First global block of set 0 or 1: its superblock.
    #[must_use]
    pub fn set_start(&self, space: &ZoneSpace, set: usize) -> u64 {
        space.start(self.first_zone) + set as u64 * u64::from(self.metadata_zones) * u64::from(space.zone_blocks())
    }

    /// Zones that can hold data, less the chunks: what is left to move things around in. A set in which this is 0 cannot be
    /// filled.
    #[must_use]
    pub fn slack(&self, space: &ZoneSpace) -> i64 {
        let good = |zone: &SetZone| space.zones()[*zone].health == ZoneHealth::Good;
        let zones = space.zones().numbers().filter(good).filter(|zone| !self.is_metadata(space, *zone));
        zones.count() as i64 - i64::from(self.chunks)
    }

    /// Whether `zone` holds metadata, a third superblock included, and so no data.
    #[must_use]
    pub fn is_metadata(&self, space: &ZoneSpace, zone: SetZone) -> bool {
        self.metadata().contains(&zone) || is_tertiary(space, zone)
    }
}

/// The zoned devices behind a regular one, and the first zone of each, which holds its third superblock.
pub fn tertiaries(space: &ZoneSpace) -> impl Iterator<Item = (MemberNo, SetZone)> {
    let zoned = space.members().numbered().filter(|(_, member)| space.has_cache() && member.is_zoned);
    zoned.map(|(place, member)| (place, member.first_zone))
}

/// Whether `zone` holds the third superblock of a zoned device that stands behind a regular one.
#[must_use]
pub fn is_tertiary(space: &ZoneSpace, zone: SetZone) -> bool {
    tertiaries(space).any(|(_, first)| first == zone)
}

/// Error of laying out a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutError(pub String);

impl_error!(LayoutError, |self, f| f.write_str(&self.0));
