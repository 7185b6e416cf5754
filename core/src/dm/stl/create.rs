//! Making a volume: how large it can be, and the first roots.

use super::checkpoint::encode_root;
use super::format::{Batch, Member, MemberKind, MemberState, OpenZone, ROOT_BLOCKS, Root, SetId, Sizing, ZoneRow};
use super::map::LeafSize;
use super::roots::ROOT_ZONES;
use super::{BLOCK_BYTES, BLOCK_SECTORS, Epoch, Generation, Pba};
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::{Condition, Zone, ZoneKind};

/// A device of which a volume is to be made.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its identity: drawn for it, never used before.
    pub id: [u8; 16],
    /// Its zones; none of a regular device.
    pub zones: Vec<Zone>,
    /// Its sectors.
    pub sectors: u64,
    /// Most active zones, if the device has a limit.
    pub max_active: Option<u32>,
}

/// What to write where, when all zones are empty.
#[derive(Clone, Debug)]
pub struct Created {
    /// Sectors of the exposed disk.
    pub sectors: u64,
    /// For each device the sector of its first root, and its bytes.
    pub roots: Vec<(Sector, Vec<u8>)>,
}

/// Most zones that the first root names.
const MAX_NAMED: usize = 16;
/// Active zones that a disk has to allow, without those of side lanes: of roots, of the base lanes, of one that failed, and one for a start.
pub(super) const MIN_ACTIVE: u32 = 7;

/// Why no volume can be made of these devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// There is no device with zones, or none at all.
    NoZones,
    /// Zones of other lengths, in sectors.
    OtherZones(u64, u64),
    /// This device has no two zones for roots: one of its first two cannot be written, or is shorter than a root.
    DeadRoots(usize),
    /// This device allows so few active zones.
    FewActive(usize, u32),
    /// So few zones that can be written; so many are needed.
    TooFew(usize, usize),
    /// A reserve in thousandths that is out of its range.
    Reserve(u32),
}

impl_error!(CreateError, |self, f| match self {
    Self::NoZones => f.write_str("a volume needs a zoned device"),
    Self::OtherZones(one, other) =>
        write!(f, "zones of {one} and of {other} sectors: the zones of all disks of a volume have to be of one length"),
    Self::DeadRoots(device) => {
        write!(
            f,
            "the first two zones of device {device} cannot hold roots: each has to take whole blocks of 4 KiB, {ROOT_BLOCKS} or more"
        )
    }
    Self::FewActive(device, most) => {
        write!(f, "device {device} allows {most} active zones at a time, and a volume needs {MIN_ACTIVE}")
    }
    Self::TooFew(has, needed) => write!(
        f,
        "{has} zones can be written, and a volume needs {needed}: take a larger disk, or one with smaller zones"
    ),
    Self::Reserve(found) => write!(f, "a reserve of {found} thousandths: it has to be 30 to 900"),
});

/// Zones that the volume needs beside those with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Zones of roots.
    pub roots: usize,
    /// The map: its largest size, and what it may fill in one cycle.
    pub map: usize,
    /// What a checkpoint and a sweep may fill.
    pub cycle: usize,
    /// What recovery needs.
    pub recovery: usize,
    /// Open zones of users and of cleaning, and free ones for cleaning.
    pub open: usize,
}

impl Spare {
    /// Spare zones of a volume of so many devices and zones, with `room` blocks in a zone.
    #[must_use]
    pub fn new((devices, zones): (usize, usize), room: u32, leaf_size: LeafSize) -> Self {
        let room = room as usize;
        let blocks = zones * room;
        // 9 bytes a block, where all is written at random.
        let leaves = blocks * 9 / BLOCK_BYTES + leaf_size.leaves(blocks as u64);
        let tables = zones * ZoneRow::BYTES / BLOCK_BYTES + 4 + leaves / 512;
        let checkpoint = (2 * (tables + 2)).div_ceil(room) + 1;
        let cycle = checkpoint + leaves.div_ceil(room);
        let map = (leaves * 13 / 10).div_ceil(room) + 1 + cycle;
        Self { roots: 2 * devices, map, cycle, recovery: 1 + checkpoint, open: 4 }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> usize {
        self.roots + self.map + self.recovery + self.open
    }
}

/// A volume over these devices.
///
/// # Errors
/// Why there can be none.
pub fn create(set: SetId, parts: &[Part], sizing: Sizing) -> Result<Created, CreateError> {
    let (zone_sectors, Sizing { reserve, leaf_size }) = (zone_sectors(parts)?, sizing);
    if !(30..=900).contains(&reserve) {
        return Err(CreateError::Reserve(reserve));
    }
    let zone_blocks = (zone_sectors / u64::from(BLOCK_SECTORS)) as u32;
    let rooms: Vec<Vec<u32>> = parts.iter().map(|part| rooms(part, zone_sectors)).collect();
    for (device, (part, rooms)) in parts.iter().zip(&rooms).enumerate() {
        check_member(device, part, rooms)?;
    }
    let capacity = capacity(parts.len(), rooms.iter().flatten().copied(), sizing)?;
    let members = members(parts, &rooms, zone_blocks);
    let open = to_name(parts, &rooms, (&members, zone_blocks));
    let root = Root { capacity, zone_blocks, reserve, leaf_size, members, open, ..Root::default() };
    let roots = root.members.iter().map(|member| {
        let batch = Batch {
            set,
            place: member.first,
            generation: Generation(0),
            epoch: Epoch(1),
            number: 1,
            ..Batch::default()
        };
        (Sector(0), encode_root(&root, &[], &batch).unwrap_or_default())
    });
    Ok(Created { sectors: capacity * u64::from(BLOCK_SECTORS), roots: roots.collect() })
}

/// Checks that a device can be a member: `rooms` are the blocks that can be written in each of its zones.
pub(super) fn check_member(device: usize, part: &Part, rooms: &[u32]) -> Result<(), CreateError> {
    let holds_root = |room: &&u32| **room as usize >= ROOT_BLOCKS;
    if rooms.iter().take(ROOT_ZONES as usize).filter(holds_root).count() < ROOT_ZONES as usize {
        return Err(CreateError::DeadRoots(device));
    }
    match part.max_active {
        Some(most) if most < MIN_ACTIVE => Err(CreateError::FewActive(device, most)),
        _ => Ok(()),
    }
}

/// Blocks of the exposed disk of a volume of so many devices, whose zones can take so many blocks.
pub(super) fn capacity(
    devices: usize,
    rooms: impl Iterator<Item = u32>,
    Sizing { reserve, leaf_size }: Sizing,
) -> Result<u64, CreateError> {
    let usable: Vec<u32> = rooms.filter(|room| *room > 0).collect();
    let least = usable.iter().copied().min().unwrap_or(0);
    let spare = Spare::new((devices, usable.len()), least, leaf_size).all();
    let data = usable.len().checked_sub(spare).filter(|data| *data > 0);
    let data = data.ok_or(CreateError::TooFew(usable.len(), spare + 1))?;
    Ok(data as u64 * u64::from(payload_of(least)) * u64::from(1000 - reserve) / 1000)
}

/// Blocks of data that survivors of cleaning fill a zone with.
fn payload_of(room: u32) -> u32 {
    if room < 512 { room * 3 / 4 } else { room - room / 64 }
}

fn zone_sectors(parts: &[Part]) -> Result<u64, CreateError> {
    let mut lengths = parts.iter().filter_map(|part| part.zones.first()).map(|zone| zone.len);
    let first = lengths.next().ok_or(CreateError::NoZones)?;
    lengths.find(|len| *len != first).map_or(Ok(first), |other| Err(CreateError::OtherZones(first, other)))
}

/// Blocks that can be written in each zone; 0 if the capacity of the zone is not a multiple of a block.
pub(super) fn rooms(part: &Part, zone_sectors: u64) -> Vec<u32> {
    if part.zones.is_empty() {
        return vec![(zone_sectors / u64::from(BLOCK_SECTORS)) as u32; (part.sectors / zone_sectors) as usize];
    }
    let room = |zone: &Zone| match zone.cond {
        Condition::Offline | Condition::ReadOnly => 0,
        _ if zone.len != zone_sectors => 0,
        // It would stay active when all its blocks are written.
        _ if !zone.capacity.is_multiple_of(BLOCK_SECTORS.into()) => 0,
        _ => (zone.capacity / u64::from(BLOCK_SECTORS)) as u32,
    };
    part.zones.iter().map(room).collect()
}

/// Zones without a write pointer for the first root to name, where few zones have one: a start opens others only if a root names them.
fn to_name(parts: &[Part], rooms: &[Vec<u32>], (members, zone_blocks): (&[Member], u32)) -> Vec<OpenZone> {
    let of_member = |((part, rooms), member): ((&Part, &Vec<u32>), &Member)| {
        let first = member.first;
        let usable = rooms.iter().enumerate().skip(ROOT_ZONES as usize).filter(|(_, room)| **room > 0);
        let zone = |(number, _): (usize, &u32)| {
            let has_pointer = part.zones.get(number).is_some_and(|zone| zone.kind == ZoneKind::Sequential);
            (has_pointer, first + number as u64 * u64::from(zone_blocks))
        };
        usable.map(zone).collect::<Vec<_>>()
    };
    let zones = parts.iter().zip(rooms).zip(members).flat_map(of_member);
    let (with_pointer, without): (Vec<_>, Vec<_>) = zones.partition(|(has_pointer, _)| *has_pointer);
    if with_pointer.len() >= MAX_NAMED {
        return Vec::new();
    }
    let named = without.into_iter().take(MAX_NAMED);
    named.map(|(_, start)| OpenZone { start, generation: Generation(0), written: 0, stream: 0 }).collect()
}

fn members(parts: &[Part], rooms: &[Vec<u32>], zone_blocks: u32) -> Vec<Member> {
    let mut first = Pba(0);
    let member = |(part, rooms): (&Part, &Vec<u32>)| {
        let kind = if part.zones.is_empty() { MemberKind::Regular } else { MemberKind::Zoned };
        let member = Member { id: part.id, first, zones: rooms.len() as u32, kind, state: MemberState::Used };
        first = first + u64::from(member.zones) * u64::from(zone_blocks);
        member
    };
    parts.iter().zip(rooms).map(member).collect()
}
