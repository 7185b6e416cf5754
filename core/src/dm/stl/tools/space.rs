//! The blocks of a set on disks that are read one block after the other.

use super::media::{Disk, Media, MediaError, Spot, room_for};
use crate::dm::stl::disks::Shape;
use crate::dm::stl::format::Member;
use crate::dm::stl::set::Set;
use crate::dm::stl::{BLOCK_SECTORS, Pba, ZoneIndex};
use crate::prelude::*;
use crate::zone::Condition;

/// The devices of a set, and which of the given disks each is.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// The devices.
    pub set: Set,
    /// The disk of each device; none of one that is gone.
    pub disks: Vec<Option<usize>>,
    shapes: Vec<Shape>,
    /// Blocks up to which each zone is written.
    pointers: Vec<u32>,
    /// Conditions of those that have a pointer.
    conditions: Vec<Option<Condition>>,
}

impl Space {
    /// The set of these devices on these disks.
    pub(super) fn new(zone_blocks: u32, members: &[Member], of: Vec<Option<usize>>, disks: &[Disk]) -> Self {
        let set = Set::new(zone_blocks, members.to_vec());
        let (mut shapes, mut pointers, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for (place, disk) in of.iter().enumerate() {
            let zones = set.zones(place);
            shapes.resize(zones.end.0 as usize, Shape::default());
            pointers.resize(zones.end.0 as usize, 0);
            conditions.resize(zones.end.0 as usize, None);
            let Some(disk) = disk.map(|disk| &disks[disk]) else { continue };
            for (number, zone) in (zones.start.0..zones.end.0).enumerate() {
                shapes[zone as usize] = shape(disk, number, zone_blocks);
                pointers[zone as usize] = disk.written(number, zone_blocks);
                let has_pointer = shapes[zone as usize].is_sequential;
                conditions[zone as usize] = disk.zones.get(number).filter(|_| has_pointer).map(|zone| zone.cond);
            }
        }
        Self { set, disks: of, shapes, pointers, conditions }
    }

    /// All zones.
    pub fn zones(&self) -> impl Iterator<Item = ZoneIndex> + use<> {
        (0..self.shapes.len() as u32).map(ZoneIndex)
    }

    /// Blocks that a volume may write to a zone: none to a short one.
    #[must_use]
    pub fn writable(&self, zone: ZoneIndex) -> u32 {
        self.shapes[zone.0 as usize].writable()
    }

    /// Blocks that a zone can hold.
    #[must_use]
    pub fn room(&self, zone: ZoneIndex) -> u32 {
        self.shapes[zone.0 as usize].room
    }

    /// Whether a zone has a pointer.
    #[must_use]
    pub fn is_sequential(&self, zone: ZoneIndex) -> bool {
        self.shapes[zone.0 as usize].is_sequential
    }

    /// The condition of a zone; `None` if it has no pointer.
    #[must_use]
    pub fn condition(&self, zone: ZoneIndex) -> Option<Condition> {
        self.conditions[zone.0 as usize]
    }

    /// The block up to which a zone is written; its end if it has no pointer.
    #[must_use]
    pub fn pointer(&self, zone: ZoneIndex) -> u32 {
        self.pointers[zone.0 as usize].min(self.room(zone))
    }

    /// Where a block is; `None`: no disk has it.
    #[must_use]
    pub fn spot(&self, place: Pba) -> Option<Spot> {
        let found = self.set.locate(place)?;
        let disk = (*self.disks.get(found.member)?)?;
        Some(Spot { disk, block: found.sector.0 / u64::from(BLOCK_SECTORS) })
    }

    /// UUID of the member that has a block, if none of the disks is that member.
    pub(super) fn missing_member(&self, place: Pba) -> Option<[u8; 16]> {
        let member = self.set.locate(place)?.member;
        self.disks.get(member)?.is_none().then(|| self.set.members()[member].id)
    }

    /// Reads blocks of one zone.
    pub(super) fn read(&self, media: &mut dyn Media, place: Pba, blocks: u32) -> Result<Vec<u8>, MediaError> {
        let error = |why: &str| MediaError(format!("blocks {place}+{blocks}: {why}"));
        let spot = self.spot(place).ok_or_else(|| error("no disk has them"))?;
        let (zone, at) = self.set.zone_of(place);
        if at.saturating_add(blocks) > self.room(zone) {
            return Err(error("not in one zone"));
        }
        let mut bytes = room_for(blocks);
        media.read(spot, &mut bytes).map(|()| bytes)
    }
}

fn shape(disk: &Disk, number: usize, zone_blocks: u32) -> Shape {
    match disk.zones.get(number) {
        Some(zone) => Shape::of(zone, zone_blocks),
        None if disk.zones.is_empty() => Shape::of_regular(zone_blocks),
        None => Shape::default(),
    }
}
