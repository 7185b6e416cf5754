//! Members of a set. The superblock at the start of each disk names the set of the disk and its first zone there, so disks in another order
//! and disks of another set are found before anything is read or written on the strength of their positions.

use super::sets::are_strangers;
use super::{Media, Superblock, bitmap_blocks};
use crate::dm::zoned::{BLOCK_BYTES, MemberNo, SetZone};
use crate::prelude::*;
use crate::uuid::Uuid;

/// A disk that a tool was given, and what its superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFound {
    /// Name of the disk in messages.
    pub name: String,
    /// First zone in the set, by the order in which the disks were given.
    pub first_zone: SetZone,
    /// Zones of the disk.
    pub zones: u32,
    /// Superblock of version 2 in the first block of the disk, if there is one.
    pub superblock: Option<Superblock>,
}

impl MemberFound {
    /// A disk with these zones. `start`: its first block, `None` if that cannot be read.
    #[must_use]
    pub fn new(name: String, (first_zone, zones): (SetZone, u32), start: Option<&[u8]>) -> Self {
        let superblock = start.and_then(|start| Superblock::decode(start).ok()).filter(|found| found.version > 1);
        Self { name, first_zone, zones, superblock }
    }
}

/// Disks that are not the members of one set in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongMembers {
    disks: Vec<MemberFound>,
    /// Blocks of a zone; `None` if no disk is zoned.
    zone_blocks: Option<u32>,
}

impl_error!(WrongMembers, |self, f| {
    f.write_str("these disks are not one dm-zoned set in its order, nothing was changed\n")?;
    for MemberFound { name, superblock, .. } in &self.disks {
        match superblock {
            None => writeln!(f, "  {name}: no superblock")?,
            Some(own) => {
                let (set, disk) = (Uuid(own.set_uuid), Uuid(own.device_uuid));
                write!(f, "  {name}: label {:?}, set {set}, disk {disk}, ", own.label.text())?;
                match self.zone_blocks {
                    None => writeln!(f, "first block {}", own.block)?,
                    Some(zone) => {
                        writeln!(f, "first zone {} of {}", own.block / u64::from(zone), zones_of(own, zone))?;
                    }
                }
            }
        }
    }
    match self.order() {
        Some(names) => write!(f, "give the disks in this order: {}", names.join(" ")),
        None => write!(f, "{}", self.advice()),
    }
});

/// Looks at the first block of each disk, and compares what the superblocks there say with the positions of the disks and with `set`, the
/// superblock that is in force if one was found.
///
/// A disk without a superblock there passes: a repair writes one.
///
/// # Errors
/// If a superblock names another set or another position than that of its disk, or if the set has another number of zones.
pub fn check_members(media: &mut dyn Media, set: Option<&Superblock>) -> Result<(), WrongMembers> {
    let found = WrongMembers { disks: read_members(media), zone_blocks: Some(media.space().zone_blocks()) };
    if !media.space().has_cache() {
        // The first zone of a single zoned disk can hold data: its first block counts only if no set was found.
        let zone_blocks = u64::from(media.space().zone_blocks());
        let is_of_many = found.superblocks().any(|(_, own)| own.block > 0 && own.block.is_multiple_of(zone_blocks));
        return if set.is_none() && is_of_many { Err(found) } else { Ok(()) };
    }
    match found.reference(set) {
        Some(set) if !found.are_of(&set) => Err(found),
        None if found.superblocks().next().is_some() => Err(found),
        _ => Ok(()),
    }
}

/// Reads the first block of each disk. A disk that cannot be read is one without a superblock.
pub fn read_members(media: &mut dyn Media) -> Vec<MemberFound> {
    let members = media.space().members().clone();
    let mut read = |member: MemberNo| {
        let zones = (members[member].first_zone, members[member].zones);
        let (block, mut bytes) = (media.space().start(zones.0), vec![0; BLOCK_BYTES]);
        let is_read = media.read(block, &mut bytes).is_ok();
        MemberFound::new(media.name(member), zones, is_read.then_some(&bytes))
    };
    members.numbers().map(&mut read).collect()
}

impl WrongMembers {
    /// Disks that cannot be put together as a set at all, in the order in which they were given. `zone_blocks`: blocks of a zone, `None` if no
    /// disk is zoned. Returns `None` if no disk has a superblock.
    #[must_use]
    pub fn of_disks(disks: Vec<MemberFound>, zone_blocks: Option<u32>) -> Option<Self> {
        let found = Self { disks, zone_blocks };
        let has_any = found.superblocks().next().is_some();
        has_any.then_some(found)
    }

    fn superblocks(&self) -> impl Iterator<Item = (&MemberFound, &Superblock)> {
        self.disks.iter().filter_map(|disk| Some((disk, disk.superblock.as_ref()?)))
    }

    /// The superblock that the others are compared with: the one in force, or the first that is where it says it is, of a set with as many
    /// zones as these disks have.
    fn reference(&self, set: Option<&Superblock>) -> Option<Superblock> {
        let is_whole = |own: &Superblock| self.zone_blocks.is_some_and(|zone| zones_of(own, zone) == self.zones());
        let mut fits = self.superblocks().filter(|(disk, own)| self.is_in_place(disk, own) && is_whole(own));
        set.copied().or_else(|| fits.next().map(|(_, own)| *own))
    }

    /// True if each superblock is of `set`, and where it says it is.
    fn are_of(&self, set: &Superblock) -> bool {
        // `Sets::find` judges the superblocks of the metadata, which are at the start of the first disk.
        let is_in_place = |disk: &MemberFound, own| disk.first_zone.0 == 0 || self.is_in_place(disk, own);
        self.superblocks().all(|(disk, own)| !are_strangers(set, own) && is_in_place(disk, own))
    }

    fn is_in_place(&self, disk: &MemberFound, own: &Superblock) -> bool {
        self.zone_blocks.is_some_and(|zone| own.block == u64::from(disk.first_zone.0) * u64::from(zone))
    }

    /// Zones of all these disks.
    fn zones(&self) -> u64 {
        self.disks.iter().map(|disk| u64::from(disk.zones)).sum()
    }

    /// The disks that have a superblock, in the order of the set.
    fn in_order(&self) -> Vec<(&MemberFound, &Superblock)> {
        let mut disks: Vec<_> = self.superblocks().collect();
        disks.sort_by_key(|(_, own)| own.block);
        disks
    }

    /// Names of the disks in the order of the set, if each of them has its place there and none is missing.
    fn order(&self) -> Option<Vec<&str>> {
        let (disks, zone, mut end) = (self.in_order(), self.zone_blocks?, 0);
        let (_, first) = *disks.first()?;
        for (disk, own) in &disks {
            if own.set_uuid != first.set_uuid || own.block != end * u64::from(zone) {
                return None;
            }
            end += u64::from(disk.zones);
        }
        let is_all = disks.len() == self.disks.len() && end == zones_of(first, zone);
        is_all.then(|| disks.into_iter().map(|(disk, _)| disk.name.as_str()).collect())
    }

    fn advice(&self) -> String {
        let mut sets: Vec<([u8; 16], Vec<&str>)> = Vec::new();
        for (disk, own) in self.superblocks() {
            match sets.iter_mut().find(|(uuid, _)| *uuid == own.set_uuid) {
                Some((_, names)) => names.push(&disk.name),
                None => sets.push((own.set_uuid, vec![&disk.name])),
            }
        }
        if sets.len() > 1 {
            let list = sets.iter().map(|(uuid, names)| format!("set {} has {}", Uuid(*uuid), names.join(" ")));
            return format!("{}; give all disks of one set", list.collect::<Vec<_>>().join(", "));
        }
        match self.missing() {
            Some((from, to)) => format!("the disk with zones {from} to {to} of the set is missing; give all its disks"),
            None => "give all disks of the set, in the order of their first zones".into(),
        }
    }

    /// The first zones of the set that none of these disks has: the first and the last of them.
    fn missing(&self) -> Option<(u64, u64)> {
        let (disks, zone, mut end) = (self.in_order(), self.zone_blocks?, 0);
        for (disk, own) in &disks {
            let first = own.block / u64::from(zone);
            if first > end {
                return Some((end, first - 1));
            }
            end = first + u64::from(disk.zones);
        }
        let all = disks.first().map_or(0, |(_, own)| zones_of(own, zone));
        (end < all).then(|| (end, all - 1))
    }
}

/// Zones of the set of a superblock, whose zones have `zone_blocks` blocks: it counts the blocks of a bitmap for each.
fn zones_of(own: &Superblock, zone_blocks: u32) -> u64 {
    u64::from(own.bitmap_blocks / bitmap_blocks(zone_blocks))
}
