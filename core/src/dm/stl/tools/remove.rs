//! A device less, of a volume that nobody uses.
//!
//! ```text
//!   plan_removal ── may it be? ──> the target, told to let it go ── moves all away ──> finish_removal ── nothing is on it? ──> roots ──> wiped
//! ```
//!
//! The first of the devices that stay which has the root without it puts that in force. Whatever was cut off goes on with all of it again.

use super::finding::{Finding, Findings};
use super::format::wipe;
use super::media::{Media, MediaError, Progress};
use super::roots::{next_life, next_root};
use super::volume::{FindError, Volume};
use super::walk::Walk;
use crate::dm::stl::checkpoint::encode_root;
use crate::dm::stl::create::capacity;
use crate::dm::stl::format::{Batch, Member, MemberKind, MemberState, Root};
use crate::dm::stl::map::LeafNo;
use crate::dm::stl::{BLOCK_SECTORS, CreateError, Lba, Pba, ZoneIndex};
use crate::prelude::*;

/// Why no device was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoveError {
    /// A disk failed.
    Media(MediaError),
    /// There is no volume, or the disks are not its members.
    Find(FindError),
    /// The volume is not in order: what is wrong.
    Volume(String),
    /// It has batches that no root covers.
    NotAtRest,
    /// The disk is none of the volume.
    NotOfSet,
    /// Another device leaves.
    Other,
    /// No zoned device would be left.
    LastZoned,
    /// The other devices have too little room for any volume.
    Room(CreateError),
    /// More sectors are wanted than the other devices have room for: how many, and how many these are.
    Size(u64, u64),
    /// So many sectors it would have, and there is data up to this one.
    Data(u64, u64),
    /// There is something on the device that is needed.
    InUse(String),
    /// A root cannot name all of the tables.
    TooLarge,
    /// It is removed, and its own roots cannot be erased.
    NotWiped(MediaError),
}

impl_error!(RemoveError, Media(MediaError), Find(FindError), Room(CreateError), |self, f| match self {
    Self::Media(error) => error.fmt(f),
    Self::Volume(what) => f.write_str(what),
    Self::Find(error) => error.fmt(f),
    Self::NotAtRest => f.write_str("the volume was not put away cleanly: serve it once, and stop the daemon"),
    Self::NotOfSet => f.write_str("it is not of the volume"),
    Self::Other => f.write_str("another disk of the volume is being removed: go on with that first"),
    Self::LastZoned => f.write_str("no zoned disk would be left: add another one first"),
    Self::Room(error) => write!(f, "the other disks have too little room: {error}"),
    Self::Size(wanted, most) => write!(f, "the other disks have room for {most} sectors, and {wanted} are wanted"),
    Self::Data(sectors, end) => write!(
        f,
        "the volume would have {sectors} sectors, and there is data up to sector {end}: serve it, make what is on it that short, and \
         discard what is behind"
    ),
    Self::InUse(what) => write!(f, "something on it is needed: {what}"),
    Self::TooLarge => f.write_str("a root cannot name all of the tables"),
    Self::NotWiped(error) => write!(f, "the volume is without it, but its own roots could not be erased: {error}"),
});

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The identity of the device that leaves.
    pub id: [u8; 16],
    /// Sectors of the exposed disk now.
    pub before: u64,
    /// And then.
    pub sectors: u64,
    /// What the newest root says of the device.
    pub state: MemberState,
}

/// What it takes to take the last of the disks away, of a volume of all of them. `size`: sectors that it is to have; if left out, as many as
/// there is room for, but not more than now. Nothing is changed.
///
/// # Errors
/// Why it cannot be.
pub fn plan_removal(media: &mut dyn Media, size: Option<u64>, progress: Progress<'_>) -> Result<Removal, RemoveError> {
    let (volume, number) = find(media)?;
    let root = &volume.newest.root;
    let Member { id, state, .. } = root.members[number];
    let sectors = |blocks: u64| blocks * u64::from(BLOCK_SECTORS);
    let removal = Removal { id, before: sectors(root.capacity), sectors: sectors(root.capacity), state };
    if state == MemberState::Gone {
        return Ok(removal);
    }
    may_leave(&volume, number)?;
    let room = room_without(&volume, number).map_err(RemoveError::Room)?;
    let wanted = size.map_or(room.min(root.capacity), |sectors| sectors / u64::from(BLOCK_SECTORS));
    if wanted > room.min(root.capacity) || wanted == 0 {
        return Err(RemoveError::Size(sectors(wanted), sectors(room.min(root.capacity))));
    }
    let end = end_of_data(media, &volume, Lba(wanted), progress)?;
    if end > Lba(wanted) {
        return Err(RemoveError::Data(sectors(wanted), sectors(end.0)));
    }
    Ok(Removal { sectors: sectors(wanted), ..removal })
}

/// The volume of these disks, and which of its devices the last one is.
fn find(media: &mut dyn Media) -> Result<(Volume, usize), RemoveError> {
    let mut findings = Findings::default();
    let volume = Volume::find(media, &mut findings)?;
    sound(&findings)?;
    let last = media.disks().len() - 1;
    let number = volume.space.disks.iter().position(|disk| *disk == Some(last));
    number.map(|number| (volume, number)).ok_or(RemoveError::NotOfSet)
}

/// Those that stay.
fn others(volume: &Volume, number: usize) -> impl Iterator<Item = (usize, &Member)> {
    let members = volume.newest.root.members.iter().enumerate();
    members.filter(move |(other, member)| *other != number && member.state != MemberState::Gone)
}

fn may_leave(volume: &Volume, number: usize) -> Result<(), RemoveError> {
    if others(volume, number).any(|(_, member)| member.state == MemberState::Leaving) {
        return Err(RemoveError::Other);
    }
    if !others(volume, number).any(|(_, member)| member.kind == MemberKind::Zoned) {
        return Err(RemoveError::LastZoned);
    }
    let is_begun = volume.newest.root.members[number].state == MemberState::Leaving;
    if !volume.is_at_rest() && !is_begun { Err(RemoveError::NotAtRest) } else { Ok(()) }
}

/// Blocks that a volume of the other devices has room for.
fn room_without(volume: &Volume, number: usize) -> Result<u64, CreateError> {
    let zones = others(volume, number).map(|(other, _)| volume.space.set.zones(other));
    let zones =
        zones.flat_map(|zones| (zones.start.0..zones.end.0).map(ZoneIndex)).filter(|zone| volume.can_be_written(*zone));
    let rooms = zones.map(|zone| volume.space.writable(zone));
    capacity(others(volume, number).count(), rooms, volume.newest.root.sizing())
}

/// Behind the last block from `from` on that has data; or `from`, if none has.
fn end_of_data(media: &mut dyn Media, volume: &Volume, from: Lba, progress: Progress<'_>) -> Result<Lba, RemoveError> {
    let (mut walk, mut findings, mut end) = (Walk::new(volume), Findings::default(), from);
    let leaves = volume.leaf_size().leaf_of(from).0.0..volume.leaves.len() as u32;
    let all = u64::from(leaves.end.saturating_sub(leaves.start));
    for (done, leaf) in (1..).zip(leaves) {
        let (extents, _) = walk.leaf(media, LeafNo(leaf), &mut findings);
        sound(&findings)?;
        let data = extents.iter().filter(|extent| extent.place.is_some());
        end = data.map(|extent| extent.end()).fold(end, Ord::max);
        progress(done, all);
    }
    Ok(end)
}

fn sound(findings: &Findings) -> Result<(), RemoveError> {
    let wrong = findings.all().iter().find(|finding| Finding::is_error(finding));
    wrong.map_or(Ok(()), |finding| Err(RemoveError::Volume(format!("{finding}"))))
}

/// Ends what the target has begun: roots without the last of the disks, which is wiped then.
///
/// # Errors
/// If something on it is needed, and then nothing was changed; or if a disk fails.
pub fn finish_removal(media: &mut dyn Media, progress: Progress<'_>) -> Result<(), RemoveError> {
    let (volume, number) = find(media)?;
    if volume.newest.root.members[number].state != MemberState::Gone {
        may_leave(&volume, number)?;
        is_empty(media, &volume, number, progress)?;
    }
    let root = without(&volume, number);
    if !root.fits() {
        return Err(RemoveError::TooLarge);
    }
    // What is in force is durable.
    media.flush()?;
    for (other, member) in others(&volume, number) {
        let Some(disk) = volume.space.disks[other] else { continue };
        let spot = next_root(media, &volume, (other, disk))?;
        let next = volume.newest.header.batch.number + 1;
        let batch = Batch { place: member.first + spot.block, number: next, ..next_life(&volume) };
        let bytes = encode_root(&root, volume.newest.header.lives(), &batch).map_err(|_| RemoveError::TooLarge)?;
        media.write(spot, &bytes)?;
        media.flush()?;
    }
    let last = media.disks().len() - 1;
    wipe(media, last, root.zone_blocks).and_then(|()| media.flush()).map_err(RemoveError::NotWiped)
}

/// The newest root, where a device is gone.
fn without(volume: &Volume, number: usize) -> Root {
    let mut root = volume.newest.root.clone();
    root.members[number].state = MemberState::Gone;
    root.open.retain(|open| !is_on(volume, number, open.start));
    root
}

fn is_on(volume: &Volume, number: usize, place: Pba) -> bool {
    let (zone, _) = volume.space.set.zone_of(place);
    volume.space.set.zones(number).contains(&zone)
}

/// Whether nothing that counts is on a device: of the map, and of what that leads to.
fn is_empty(media: &mut dyn Media, volume: &Volume, number: usize, progress: Progress<'_>) -> Result<(), RemoveError> {
    if !volume.is_at_rest() {
        return Err(RemoveError::NotAtRest);
    }
    let in_use = |what: &str, place: Pba| Err(RemoveError::InUse(format!("{what} at block {place}")));
    let pieces = volume.newest.root.pieces.iter().map(|piece| piece.place);
    let leaves = volume.leaves.iter().flatten().filter(|row| row.blocks > 0).map(|row| row.place);
    let pages = volume.runs.iter().flat_map(|(_, pages)| pages).map(|page| page.place);
    if let Some(place) = pieces.chain(leaves).chain(pages).find(|place| is_on(volume, number, *place)) {
        return in_use("a part of the map", place);
    }
    let (mut walk, mut findings, all) = (Walk::new(volume), Findings::default(), volume.leaves.len() as u64);
    for leaf in (0..volume.leaves.len() as u32).map(LeafNo) {
        let (extents, _) = walk.leaf(media, leaf, &mut findings);
        sound(&findings)?;
        let places = extents.iter().filter_map(|extent| extent.place);
        if let Some(place) = places.into_iter().find(|place| is_on(volume, number, *place)) {
            return in_use("data", place);
        }
        progress(u64::from(leaf.0) + 1, all);
    }
    Ok(())
}
