//! The zones of a set of devices in one numbering.

use super::{BLOCK_SECTORS, Block, MemberNo, Number, Rows, SetZone};
use crate::block::Limits;
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::{Condition, Zone, ZoneKind};

/// What a zone can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneClass {
    /// A zone-sized piece of the regular device of a set.
    Cache,
    /// A conventional zone of a zoned device.
    Random,
    /// A sequential zone.
    Sequential,
}

/// Whether a zone can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneHealth {
    /// It can be read and written.
    Good,
    /// It can be read.
    ReadOnly,
    /// It holds nothing: offline, or too short to be a zone.
    Offline,
}

/// A zone of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// What it can be used for.
    pub class: ZoneClass,
    /// Whether it can be used.
    pub health: ZoneHealth,
    /// Whether it is the last, shorter zone of its device.
    pub is_runt: bool,
    /// The block, counted from the zone's start, at which its next write has to begin; 0 if it takes random writes.
    pub wp: Block,
}

/// A device of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its first zone in the common numbering.
    pub first_zone: SetZone,
    /// Its zones, a runt zone included.
    pub zones: u32,
    /// Size in blocks.
    pub blocks: u64,
    /// Whether it has zones of its own, or is a regular device that is cut into some.
    pub is_zoned: bool,
}

/// The zones of a set of devices: device after device in the order of the table, from zone 0 on. A global block number is
/// `zone * zone_blocks + block in the zone`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSpace {
    zone_blocks: u32,
    members: Rows<MemberNo, Member>,
    zones: Rows<SetZone, ZoneInfo>,
}

/// Devices that do not form a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceError {
    /// The device, by its place in the table; `None` if it is about all of them.
    pub member: Option<MemberNo>,
    /// What is wrong and what to do.
    pub message: String,
}

impl_error!(SpaceError, |self, f| f.write_str(&self.message));

impl ZoneSpace {
    /// The space of these devices. The zones themselves are not known yet: those of a zoned device are taken as empty and
    /// good until [`ZoneSpace::learn`] is told its report.
    ///
    /// # Errors
    /// If they are no set: that is one zoned device alone, or a regular one and zoned ones behind it with the same zones
    /// (`drivers/md/dm-zoned-target.c:dmz_ctr`).
    pub fn new(devices: &[&Limits]) -> Result<Self, SpaceError> {
        let error = |member, message: String| Err(SpaceError { member, message });
        let mut zone_sectors = None;
        for (place, limits) in MemberNo(0).onwards().zip(devices) {
            match (&limits.zoned, zone_sectors) {
                (None, _) if place.0 == 0 && devices.len() > 1 => {}
                (None, _) if place.0 == 0 => {
                    return error(Some(place), "a regular device alone: add the zoned devices behind it".into());
                }
                (None, _) => return error(Some(place), "not a zoned device: only the first may be regular".into()),
                (Some(zoned), None) => zone_sectors = Some(zoned.zone_sectors),
                (Some(_), Some(_)) if devices[0].zoned.is_some() => {
                    return error(Some(MemberNo(0)), "the first of several devices has to be a regular one".into());
                }
                (Some(zoned), Some(first)) if zoned.zone_sectors != first => {
                    let own = zoned.zone_sectors;
                    return error(Some(place), format!("its zones have {own} sectors, those before {first}"));
                }
                (Some(_), Some(_)) => {}
            }
        }
        let Some(zone_sectors) = zone_sectors else { return error(None, "no device is zoned".into()) };
        if zone_sectors < BLOCK_SECTORS {
            return error(None, format!("zones of {zone_sectors} sectors are shorter than a block of 4096 bytes"));
        }
        let mut space =
            Self { zone_blocks: zone_sectors / BLOCK_SECTORS, members: Rows::default(), zones: Rows::default() };
        MemberNo(0).onwards().zip(devices).try_for_each(|(place, limits)| space.add(place, limits))?;
        Ok(space)
    }

    fn add(&mut self, place: MemberNo, limits: &Limits) -> Result<(), SpaceError> {
        let (blocks, first_zone) = (limits.capacity / u64::from(BLOCK_SECTORS), SetZone::of(self.zones.len()));
        let zone_sectors = u64::from(self.zone_blocks) * u64::from(BLOCK_SECTORS);
        let zones = limits.capacity.div_ceil(zone_sectors);
        // 2^32 - 1 is no zone: it says that there is none.
        let Some(zones) = u32::try_from(zones).ok().filter(|zones| first_zone.0.checked_add(*zones).is_some()) else {
            return Err(SpaceError { member: Some(place), message: "more than 4294967295 zones".into() });
        };
        let is_zoned = limits.zoned.is_some();
        let has_runt = !limits.capacity.is_multiple_of(zone_sectors);
        let conventional = limits.zoned.iter().flat_map(|zoned| zoned.conventional.iter());
        let sequential = if is_zoned { ZoneClass::Sequential } else { ZoneClass::Cache };
        let good = ZoneInfo { class: sequential, health: ZoneHealth::Good, is_runt: false, wp: Block::FIRST };
        (0..zones).for_each(|_| self.zones.push(good));
        let own = &mut self.zones.as_mut_slice()[first_zone.index()..];
        for run in conventional {
            own[run.start as usize..run.end as usize].iter_mut().for_each(|zone| zone.class = ZoneClass::Random);
        }
        if let (true, Some(last)) = (has_runt, own.last_mut()) {
            (last.is_runt, last.health) = (true, ZoneHealth::Offline);
        }
        self.members.push(Member { first_zone, zones, blocks, is_zoned });
        Ok(())
    }

    /// Learns the zones of device `member` from (a part of) its report.
    ///
    /// # Errors
    /// If a zone can hold less than its size: dm-zoned has no idea of that.
    pub fn learn(&mut self, member: MemberNo, report: &[Zone]) -> Result<(), SpaceError> {
        let Member { first_zone, zones, .. } = self.members[member];
        for zone in report {
            let at = zone.start.0 / (u64::from(self.zone_blocks) * u64::from(BLOCK_SECTORS));
            if at >= u64::from(zones) {
                continue;
            }
            if zone.capacity != zone.len {
                let message = format!("zone {at} has a capacity of {} sectors of {}", zone.capacity, zone.len);
                return Err(SpaceError { member: Some(member), message });
            }
            let is_sequential = zone.kind == ZoneKind::Sequential;
            let own = &mut self.zones[first_zone + at as u32];
            own.class = if is_sequential { ZoneClass::Sequential } else { ZoneClass::Random };
            own.health = match zone.cond {
                _ if own.is_runt => ZoneHealth::Offline,
                Condition::Offline => ZoneHealth::Offline,
                Condition::ReadOnly => ZoneHealth::ReadOnly,
                _ => ZoneHealth::Good,
            };
            // A block that is written in part is no place for the next write either.
            let written = zone.wp.0.saturating_sub(zone.start.0).div_ceil(u64::from(BLOCK_SECTORS));
            own.wp = match zone.cond {
                _ if !is_sequential => Block::FIRST,
                Condition::Full | Condition::ReadOnly => Block(self.zone_blocks),
                Condition::Empty | Condition::Offline => Block::FIRST,
                _ => Block(written.min(u64::from(self.zone_blocks)) as u32),
            };
        }
        Ok(())
    }

    /// Notes that the next write to `zone` has to begin at block `wp` of it. Zones that take random writes have no such.
    pub fn set_wp(&mut self, zone: SetZone, wp: Block) {
        let own = &mut self.zones[zone];
        own.wp = if own.class == ZoneClass::Sequential { wp.min(Block(self.zone_blocks)) } else { Block::FIRST };
    }

    /// Blocks of a zone, and of a chunk.
    #[must_use]
    pub fn zone_blocks(&self) -> u32 {
        self.zone_blocks
    }

    /// The devices.
    #[must_use]
    pub fn members(&self) -> &Rows<MemberNo, Member> {
        &self.members
    }

    /// All zones.
    #[must_use]
    pub fn zones(&self) -> &Rows<SetZone, ZoneInfo> {
        &self.zones
    }

    /// The zones of device `member`.
    #[must_use]
    pub fn zones_of(&self, member: MemberNo) -> &[ZoneInfo] {
        let Member { first_zone, zones, .. } = self.members[member];
        &self.zones.as_slice()[first_zone.index()..][..zones as usize]
    }

    /// Whether the first device is a regular one, so that there are cache zones.
    #[must_use]
    pub fn has_cache(&self) -> bool {
        self.members.get(MemberNo(0)).is_some_and(|member| !member.is_zoned)
    }

    /// Whether `zone` is one of those that buffer writes: of the regular device, or without one a conventional one.
    #[must_use]
    pub fn is_random(&self, zone: SetZone) -> bool {
        let wanted = if self.has_cache() { ZoneClass::Cache } else { ZoneClass::Random };
        self.zones.get(zone).is_some_and(|info| info.class == wanted)
    }

    /// The device that has `zone`.
    #[must_use]
    pub fn member_of(&self, zone: SetZone) -> MemberNo {
        MemberNo::of(self.members.as_slice().partition_point(|member| member.first_zone <= zone) - 1)
    }

    /// First global block of `zone`.
    #[must_use]
    pub fn start(&self, zone: SetZone) -> u64 {
        u64::from(zone) * u64::from(self.zone_blocks)
    }

    /// Blocks of `zone`: fewer than those of others if it is a runt.
    #[must_use]
    pub fn zone_len(&self, zone: SetZone) -> u32 {
        let member = &self.members[self.member_of(zone)];
        let before = u64::from(zone - member.first_zone) * u64::from(self.zone_blocks);
        (member.blocks - before).min(u64::from(self.zone_blocks)) as u32
    }

    /// The block of `zone` from which on nothing can have been written: its end, or its write pointer if it has one.
    #[must_use]
    pub fn written_end(&self, zone: SetZone) -> Block {
        let (info, end) = (self.zones[zone], Block(self.zone_len(zone)));
        let is_offline = info.health == ZoneHealth::Offline && !info.is_runt;
        let is_written_in_order = info.class == ZoneClass::Sequential && !is_offline;
        if is_written_in_order { info.wp.min(end) } else { end }
    }

    /// The zone of a global block.
    #[must_use]
    pub fn zone_of(&self, block: u64) -> SetZone {
        SetZone((block / u64::from(self.zone_blocks)) as u32)
    }

    /// Where global block `block` lies: the device, and the sector there.
    #[must_use]
    pub fn place(&self, block: u64) -> (MemberNo, Sector) {
        let member = self.member_of(self.zone_of(block));
        let first = self.start(self.members[member].first_zone);
        (member, Sector((block - first) * u64::from(BLOCK_SECTORS)))
    }

    /// First zone of the first metadata set: on a regular device zone 0, else the first conventional zone that can be used.
    #[must_use]
    pub fn metadata_zone(&self) -> Option<SetZone> {
        let is_fit = |zone: &ZoneInfo| zone.class != ZoneClass::Sequential && zone.health == ZoneHealth::Good;
        let own = &self.zones.as_slice()[..self.members.get(MemberNo(0))?.zones as usize];
        own.iter().position(is_fit).map(SetZone::of)
    }
}
