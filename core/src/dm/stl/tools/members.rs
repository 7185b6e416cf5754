//! Members of a volume among the disks that a tool was given, members that are missing, and the blocks that are on them.

use core::ops::Range;

use super::finding::Findings;
use super::media::{Media, Spot, room_for};
use super::volume::{RootFound, Volume};
use super::walk::Walk;
use crate::dm::stl::format::{Header, Member, MemberState, SetId};
use crate::dm::stl::map::LeafNo;
use crate::dm::stl::stale::HEADER_BLOCKS;
use crate::dm::stl::{BLOCK_SECTORS, Lba, Pba};
use crate::prelude::*;
use crate::uuid::Uuid;

/// Disks that are not the members of one volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrongMembers {
    /// The volume.
    pub set: SetId,
    /// Members that the newest root names, and that are none of the disks.
    pub missing: Vec<Member>,
    /// Disks that cannot be used as members: their names, and why not.
    pub foreign: Vec<(String, Foreign)>,
}

/// Reason for which a disk cannot be used as a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// The disk belongs to another volume.
    Of(SetId),
    /// Nothing on it says what it belongs to.
    Unknown,
    /// The disk is an older copy of a member: the number of its newest root, and that of the newest root of the volume.
    Older(u64, u64),
}

impl WrongMembers {
    /// True if the disks are the members of one volume, and all of them.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.missing.is_empty() && self.foreign.is_empty()
    }

    /// A line for each disk that is missing or foreign.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let set = Uuid(self.set.0);
        let missing = self
            .missing
            .iter()
            .map(move |member| format!("disk {} of volume {set} is missing ({} zones)", Uuid(member.id), member.zones));
        let foreign = self.foreign.iter().map(move |(name, why)| match why {
            Foreign::Of(its) => format!("{name} belongs to volume {}, not to volume {set}", Uuid(its.0)),
            Foreign::Unknown => format!("{name} does not belong to volume {set}"),
            Foreign::Older(own, newest) => {
                format!("{name} is an older copy of a disk of volume {set}: its newest root is {own}, that of the volume {newest}")
            }
        });
        missing.chain(foreign)
    }
}

impl_error!(WrongMembers, |self, f| {
    for (place, line) in self.lines().enumerate() {
        write!(f, "{}{line}", if place > 0 { "; " } else { "" })?;
    }
    f.write_str(": give all disks of one volume, and no other")
});

/// Reads the header at the start of each written zone of a disk. Returns the volume that each names, and the address of the first block of the disk there.
pub(super) fn firsts(media: &mut dyn Media, disk: usize, zone_blocks: u32) -> Vec<(SetId, Pba)> {
    let zones = media.disks()[disk].sectors / u64::from(BLOCK_SECTORS) / u64::from(zone_blocks);
    let mut found = Vec::new();
    for number in 0..zones {
        let block = number * u64::from(zone_blocks);
        if media.disks()[disk].written(number as usize, zone_blocks) == 0 {
            continue;
        }
        let mut bytes = room_for(HEADER_BLOCKS.min(zone_blocks));
        if media.read(Spot { disk, block }, &mut bytes).is_err() {
            continue;
        }
        let Ok((header, _)) = Header::decode(&bytes) else { continue };
        if let Some(first) = header.batch.place.0.checked_sub(block) {
            found.push((header.batch.set, Pba(first)));
        }
    }
    found
}

/// The volume that most of these disks are of, by the newest root of each; of two, that of the disk that was given first.
pub(super) fn set_of_most(found: &[Vec<RootFound>]) -> Option<SetId> {
    let sets: Vec<SetId> = found.iter().filter_map(|roots| set_of(roots)).collect();
    let count = |set: &SetId| sets.iter().filter(|other| *other == set).count();
    // The first of several that are equal, which `max_by_key` would not take.
    sets.iter().rev().max_by_key(|set| count(set)).copied()
}

/// The volume of the newest of these roots.
fn set_of(roots: &[RootFound]) -> Option<SetId> {
    roots.iter().max_by_key(|found| found.header.batch.number).map(|found| found.header.batch.set)
}

/// The disks of the members of a volume.
pub(super) struct Assigned {
    /// The disk of each member; `None` if it is missing or gone.
    pub disks: Vec<Option<usize>>,
    /// The member whose disk was taken because nothing was ever written to it, and one member was missing.
    pub blank: Option<usize>,
    pub wrong: WrongMembers,
}

/// Finds the disk of each member that the newest root names: the disk whose own roots say that it is at the place of the member. A disk that
/// lost its roots is found by the headers of its zones, or if it was never written and one member alone is missing. `found`: all roots of each
/// disk; `own`: the newest of this volume.
pub(super) fn assign(
    media: &mut dyn Media,
    newest: &RootFound,
    (found, own): (&[Vec<RootFound>], &[Option<RootFound>]),
) -> Assigned {
    let (root, set) = (&newest.root, newest.header.batch.set);
    let is_it = |own: &RootFound, member: &Member| {
        let is_listed = |listed: &Member| (listed.id, listed.first) == (member.id, member.first);
        own.header.batch.set == set
            && own.header.batch.place == member.first + own.spot.block
            && own.root.members.iter().any(is_listed)
    };
    let disk_of = |member: &Member| own.iter().position(|own| own.as_ref().is_some_and(|own| is_it(own, member)));
    let mut of: Vec<Option<usize>> = root.members.iter().map(disk_of).collect();
    let is_missing =
        |place: usize, of: &[Option<usize>]| of[place].is_none() && root.members[place].state != MemberState::Gone;
    let (mut blank, mut foreign) = (Vec::new(), Vec::new());
    for disk in (0..found.len()).filter(|disk| !of.contains(&Some(*disk))).collect::<Vec<_>>() {
        if let Some(its) = set_of(&found[disk]) {
            foreign.push((media.name(disk), if its == set { Foreign::Unknown } else { Foreign::Of(its) }));
            continue;
        }
        let firsts = firsts(media, disk, root.zone_blocks);
        let is_at = |place: &usize| firsts.iter().any(|first| *first == (set, root.members[*place].first));
        match (0..of.len()).filter(|place| is_missing(*place, &of)).find(is_at) {
            Some(place) => of[place] = Some(disk),
            None if firsts.is_empty() => blank.push(disk),
            None => {
                let other = firsts.iter().map(|first| first.0).find(|its| *its != set);
                foreign.push((media.name(disk), other.map_or(Foreign::Unknown, Foreign::Of)));
            }
        }
    }
    let missing: Vec<usize> = (0..of.len()).filter(|place| is_missing(*place, &of)).collect();
    if let ([disk], [place]) = (&blank[..], &missing[..]) {
        of[*place] = Some(*disk);
        return Assigned {
            disks: of,
            blank: Some(*place),
            wrong: WrongMembers { set, foreign, ..WrongMembers::default() },
        };
    }
    foreign.extend(blank.iter().map(|disk| (media.name(*disk), Foreign::Unknown)));
    let missing = missing.into_iter().map(|place| root.members[place]).collect();
    Assigned { disks: of, blank: None, wrong: WrongMembers { set, missing, foreign } }
}

/// Blocks of the exposed disk whose newest data may be on a member that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The first block.
    pub first: Lba,
    /// Number of blocks.
    pub blocks: u64,
    /// UUID of the member that has them; `None` if the part of the map that knows is on a missing member itself.
    pub member: Option<[u8; 16]>,
}

impl_display!(Absent, |self, f| {
    let (first, last) = (self.first, self.first.0 + self.blocks - 1);
    match self.member {
        Some(id) => write!(f, "blocks {first} to {last}: on the missing disk {}", Uuid(id)),
        None => write!(f, "blocks {first} to {last}: the map that says where they are is on a missing disk"),
    }
});

/// Walks the map of the newest root, and passes all ranges of blocks that are on a missing member to `tell`.
pub fn absent(media: &mut dyn Media, volume: &Volume, tell: &mut dyn FnMut(Absent)) {
    let capacity = volume.newest.root.capacity;
    if volume.is_run_lost {
        return tell(Absent { first: Lba(0), blocks: capacity, member: None });
    }
    let (mut walk, mut last) = (Walk::new(volume), None::<Absent>);
    let mut add = |next: Absent| match &mut last {
        Some(last) if last.member == next.member && last.first + last.blocks == next.first => {
            last.blocks += next.blocks
        }
        _ => last.replace(next).into_iter().for_each(&mut *tell),
    };
    for leaf in (0..volume.leaves.len() as u32).map(LeafNo) {
        let (extents, is_whole) = walk.leaf(media, leaf, &mut Findings::default());
        if !is_whole {
            let Range { start, end } = volume.leaf_size().range(leaf);
            add(Absent { first: start, blocks: end.0.min(capacity) - start.0, member: None });
            continue;
        }
        for extent in extents.iter() {
            // An extent lies in one zone.
            if let Some(id) = extent.place.and_then(|place| volume.space.missing_member(place)) {
                add(Absent { first: extent.lba, blocks: extent.blocks.into(), member: Some(id) });
            }
        }
    }
    last.into_iter().for_each(tell);
}
