//! Mends a set, so that at every moment one of its two copies of the metadata is whole.
//!
//! ```text
//!   the set in force, read and mended ──> the other set ── flush ── its superblock, a generation later ── flush
//!   the other set ──> the set in force ── flush ── its superblock ── flush
//!   third superblocks, then zones that nobody has: emptied ── flush
//! ```

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::bitmaps::needs_reset;
use super::{Finding, Report, check};
use crate::target::zoned::format::{
    Bitmap, Choice, ENTRIES, Label, Layout, LoadError, Media, MediaError, NO_ZONE, Other, Progress, Sets, Superblock,
    Volume, bitmap_start, pieces, read_bitmap, tertiaries, validate_superblock,
};
use crate::target::zoned::{BLOCK_BYTES, ZoneClass, ZoneHealth, ZoneSpace};

/// Why a set was not mended, or not wholly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairError {
    /// There is nothing to go by.
    Load(LoadError),
    /// A disk failed. One of the sets is whole.
    Media(MediaError),
    /// The generation has no next one.
    Generation,
    /// The set has another version or no name, so it cannot get this one.
    Label(String),
}

impl fmt::Display for RepairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => write!(f, "{error}; nothing to repair it from, but it may be salvaged"),
            Self::Media(error) => error.fmt(f),
            Self::Generation => f.write_str("the generation is the last that there is: copy the data to a new set"),
            Self::Label(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for RepairError {}

impl From<LoadError> for RepairError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<MediaError> for RepairError {
    fn from(error: MediaError) -> Self {
        Self::Media(error)
    }
}

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The check before it.
    pub before: Report,
    /// The check after it: nothing was done if they are equal.
    pub after: Report,
}

/// Mends what `check` calls an error. A set without errors is left as it is.
///
/// Bad entries keep the part of them that is right, bits past write pointers and ends of zones go, of a block that is
/// valid twice the buffer's counts, and zones that nobody has are emptied. The version stays; superblocks that
/// `dmzadm --repair` made a nameless version 2 of become version 1 again.
///
/// # Errors
/// If there is no set, or a disk fails. After a failure, or a power cut, it can be called again.
pub fn repair(media: &mut dyn Media, progress: Progress<'_>) -> Result<Repair, RepairError> {
    let before = check(media, &mut |done, total| progress(done, 3 * total));
    if before.is_clean() {
        return Ok(Repair { after: before.clone(), before });
    }
    let sets = Sets::find(media)?;
    let sets = exact_set(media.space(), sets);
    let volume = Volume::of(media, sets)?;
    let blocks = u64::from(volume.sets.layout.metadata_blocks);
    let mut done = 2 * blocks;
    let mut step = |count: u64| {
        done += count;
        progress(done.min(6 * blocks), 6 * blocks);
    };
    let thirds = thirds(media);
    let plan = Plan::new(media.space(), &volume, &thirds).ok_or(RepairError::Generation)?;
    plan.write_sets(media, &mut step)?;
    plan.write_thirds(media, &thirds)?;
    plan.empty_zones(media)?;
    let after = check(media, &mut |done, total| progress(4 * blocks + done.min(2 * blocks), 4 * blocks + total));
    Ok(Repair { before, after })
}

/// Gives a set another label, in all its superblocks.
///
/// # Errors
/// If it is of version 1, which has none; if there is no set; or if a disk fails. Then some superblocks can have the old
/// label, and it can be done again.
pub fn relabel(media: &mut dyn Media, label: Label) -> Result<(), RepairError> {
    let sets = Sets::find(media)?;
    if sets.superblock.version < 2 {
        return Err(RepairError::Label(String::from("the set is of version 1, which has no label")));
    }
    if label.is_empty() {
        return Err(RepairError::Label(String::from("a set needs a label")));
    }
    let own = |superblock: &&Superblock| superblock.set_uuid == sets.superblock.set_uuid;
    // The one in force last: until then it is as it was.
    for set in [1 - sets.choice.set, sets.choice.set] {
        if let Some(superblock) = sets.found[set].as_ref().ok().filter(own) {
            media.write(superblock.block, &Superblock { label, ..*superblock }.encode())?;
            media.flush()?;
        }
    }
    for third in thirds(media) {
        if let Some(superblock) = third.found.as_ref().filter(own) {
            third.write(media, &Superblock { label, ..*superblock })?;
        }
    }
    Ok(media.flush()?)
}

/// A third superblock.
struct Third {
    member: usize,
    zone: u32,
    found: Option<Superblock>,
}

impl Third {
    /// Writes it anew; a sequential zone is emptied first.
    fn write(&self, media: &mut dyn Media, superblock: &Superblock) -> Result<(), MediaError> {
        if media.space().zones()[self.zone as usize].wp > 0 {
            media.reset(self.zone)?;
        }
        media.write(media.space().start(self.zone), &superblock.encode())
    }
}

/// The third superblocks that are such.
fn thirds(media: &mut dyn Media) -> Vec<Third> {
    let places: Vec<_> = tertiaries(media.space()).collect();
    let mut read = |(member, zone)| {
        let mut bytes = vec![0; BLOCK_BYTES];
        let is_read = media.read(media.space().start(zone), &mut bytes).is_ok();
        let found = Superblock::decode(&bytes).ok().filter(|superblock| is_read && superblock.version > 1);
        Third { member, zone, found }
    };
    places.into_iter().map(&mut read).collect()
}

/// A superblock of version 2 with nothing of version 2 in it, where there could be one of version 1.
fn is_nameless(superblock: &Superblock, space: &ZoneSpace) -> bool {
    let none = [0; 16];
    let Superblock { version, set_uuid, device_uuid, .. } = *superblock;
    version > 1 && !space.has_cache() && superblock.label.is_empty() && [set_uuid, device_uuid] == [none; 2]
}

/// A UUID for device `member`, if its own is lost: that of the set with the number in it, as a UUID of version 8.
fn derived_uuid(set_uuid: [u8; 16], member: usize) -> [u8; 16] {
    let mut uuid = set_uuid;
    (member as u32 + 1).to_be_bytes().iter().zip(&mut uuid[12..]).for_each(|(own, byte)| *byte ^= own);
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// What the metadata has to be.
struct Plan<'a> {
    volume: &'a Volume,
    space: ZoneSpace,
    /// The superblock, of a generation after the last but one.
    superblock: Superblock,
    /// The chunk that has a zone, or [`NO_ZONE`].
    owners: Vec<u32>,
}

impl<'a> Plan<'a> {
    fn new(space: &ZoneSpace, volume: &'a Volume, thirds: &[Third]) -> Option<Self> {
        let mut owners = vec![NO_ZONE; space.zones().len()];
        for (chunk, entry) in (0..).zip(volume.right_entries()) {
            let zones = [entry.dzone, entry.bzone].into_iter().filter(|zone| *zone != NO_ZONE);
            zones.for_each(|zone| owners[zone as usize] = chunk);
        }
        let superblock = mended_superblock(volume, space, thirds)?;
        Some(Self { volume, space: space.clone(), superblock, owners })
    }

    /// Writes the mended metadata to the other set, makes that the newest, and then the same of the one in force.
    fn write_sets(&self, media: &mut dyn Media, step: &mut dyn FnMut(u64)) -> Result<(), MediaError> {
        let sets = &self.volume.sets;
        let starts = [1 - sets.choice.set, sets.choice.set].map(|set| self.layout().set_start(&self.space, set));
        if sets.choice.set == 1 && sets.choice.other == Other::InStep {
            // The first set would win while it is written.
            let generation = self.superblock.generation - 1;
            media.write(starts[1], &Superblock { generation, ..sets.superblock }.encode())?;
            media.flush()?;
        }
        self.write_mended(media, starts[0], step)?;
        self.write_superblock(media, starts[0])?;
        let mut buffer = Vec::new();
        let count = u64::from(self.layout().metadata_blocks) - 1;
        for (block, len) in pieces(self.space.zone_blocks(), starts[0] + 1, count) {
            buffer.resize(len * BLOCK_BYTES, 0);
            media.read(block, &mut buffer)?;
            media.write(block - starts[0] + starts[1], &buffer)?;
            step(len as u64);
        }
        self.write_superblock(media, starts[1])
    }

    fn write_superblock(&self, media: &mut dyn Media, block: u64) -> Result<(), MediaError> {
        media.flush()?;
        media.write(block, &Superblock { block, ..self.superblock }.encode())?;
        media.flush()
    }

    /// Writes mapping table and bitmaps, mended, to the set that starts at `start`.
    fn write_mended(&self, media: &mut dyn Media, start: u64, step: &mut dyn FnMut(u64)) -> Result<(), MediaError> {
        let mut map = vec![0xff; self.layout().map_blocks as usize * ENTRIES * 8];
        let entries = map.chunks_mut(8).zip(self.volume.right_entries());
        entries.for_each(|(bytes, entry)| bytes.copy_from_slice(&entry.encode()));
        for (block, len) in pieces(self.space.zone_blocks(), start + 1, self.layout().map_blocks.into()) {
            let at = (block - start - 1) as usize * BLOCK_BYTES;
            media.write(block, &map[at..at + len * BLOCK_BYTES])?;
        }
        let first = bitmap_start(&self.space, start, self.layout(), 0);
        let (mut zone, mut pending) = (0, Vec::new());
        for (block, len) in pieces(self.space.zone_blocks(), first, self.layout().bitmap_blocks.into()) {
            while pending.len() < len * BLOCK_BYTES {
                pending.extend_from_slice(self.mended(media, zone)?.bytes());
                zone += 1;
            }
            media.write(block, &pending[..len * BLOCK_BYTES])?;
            pending.drain(..len * BLOCK_BYTES);
            step(len as u64);
        }
        Ok(())
    }

    /// The bitmap of `zone` as it should be.
    fn mended(&self, media: &mut dyn Media, zone: u32) -> Result<Bitmap, MediaError> {
        let owner = self.owners[zone as usize];
        if owner == NO_ZONE || self.layout().is_metadata(&self.space, zone) {
            return Ok(Bitmap::empty(self.space.zone_blocks()));
        }
        let mut bits = self.possible(media, zone)?;
        let entry = self.volume.right_entries()[owner as usize];
        if entry.dzone == zone && entry.bzone != NO_ZONE {
            let twice = bits.common(&self.possible(media, entry.bzone)?);
            twice.blocks(0).for_each(|block| bits.set(block, false));
        }
        Ok(bits)
    }

    /// The bits of `zone` that stand for blocks which can have been written.
    fn possible(&self, media: &mut dyn Media, zone: u32) -> Result<Bitmap, MediaError> {
        let (mut bits, info) = (self.found(media, zone)?, self.space.zones()[zone as usize]);
        let is_offline = info.health == ZoneHealth::Offline && !info.is_runt;
        let is_written_in_order = info.class == ZoneClass::Sequential && !is_offline;
        let end = if is_written_in_order { info.wp } else { u32::MAX }.min(self.space.zone_len(zone));
        let stray: Vec<u32> = bits.blocks(end).collect();
        stray.into_iter().for_each(|block| bits.set(block, false));
        Ok(bits)
    }

    /// The bits of `zone` as they are in the set in force.
    fn found(&self, media: &mut dyn Media, zone: u32) -> Result<Bitmap, MediaError> {
        read_bitmap(media, self.volume.sets.start(&self.space), self.layout(), zone)
    }

    fn layout(&self) -> &Layout {
        &self.volume.sets.layout
    }

    /// Writes those third superblocks that are not as they should be.
    fn write_thirds(&self, media: &mut dyn Media, thirds: &[Third]) -> Result<(), MediaError> {
        for third in thirds {
            let own = third.found.map(|found| found.device_uuid).filter(|uuid| *uuid != [0; 16]);
            let device_uuid = own.unwrap_or(derived_uuid(self.superblock.set_uuid, third.member));
            let block = self.space.start(third.zone);
            let wanted = Superblock { generation: 0, block, device_uuid, ..self.superblock };
            if third.found != Some(wanted) {
                third.write(media, &wanted)?;
            }
        }
        media.flush()
    }

    /// Empties sequential zones that nobody has: only now does no set name them any more.
    fn empty_zones(&self, media: &mut dyn Media) -> Result<(), MediaError> {
        for zone in 0..self.space.zones().len() as u32 {
            let is_free = self.owners[zone as usize] == NO_ZONE && !self.layout().is_metadata(&self.space, zone);
            if is_free && needs_reset(&self.space, zone) {
                media.reset(zone)?;
            }
        }
        media.flush()
    }
}

/// The superblock in force with what it lacks, of a generation after the last; `None` if there is no such.
fn mended_superblock(volume: &Volume, space: &ZoneSpace, thirds: &[Third]) -> Option<Superblock> {
    let (none, mut superblock) = ([0; 16], volume.sets.superblock);
    let found = volume.sets.found.iter().filter_map(|found| found.as_ref().ok());
    let others: Vec<&Superblock> = found.chain(thirds.iter().filter_map(|third| third.found.as_ref())).collect();
    let newest = volume.sets.found.iter().flatten().map(|found| found.generation).max()?;
    superblock.generation = newest.checked_add(2)?;
    superblock.reserved = exact_reserve(&superblock, space);
    if is_nameless(&superblock, space) && others.iter().all(|other| other.version < 2 || is_nameless(other, space)) {
        superblock.version = 1;
    }
    if superblock.version < 2 {
        return Some(superblock);
    }
    if superblock.set_uuid == none {
        superblock.set_uuid = others.iter().map(|other| other.set_uuid).find(|uuid| *uuid != none).unwrap_or(none);
    }
    let own = |other: &&&Superblock| other.set_uuid == superblock.set_uuid;
    if superblock.label.is_empty() {
        let label = others.iter().filter(own).map(|other| other.label).find(|label| !label.is_empty());
        superblock.label = label.unwrap_or_default();
    }
    if superblock.device_uuid == none {
        let sets = volume.sets.found.iter().flatten();
        let uuid = sets.map(|other| other.device_uuid).find(|uuid| *uuid != none);
        superblock.device_uuid = uuid.unwrap_or(derived_uuid(superblock.set_uuid, 0));
    }
    Some(superblock)
}

/// The sets with the other one in force if both are of the same generation and only the numbers of that one are exact.
fn exact_set(space: &ZoneSpace, sets: Sets) -> Sets {
    let set = 1 - sets.choice.set;
    let other = sets.found[set]
        .as_ref()
        .ok()
        .filter(|_| sets.choice.other == Other::InStep && !is_exact(&sets.superblock, space));
    let Some(superblock) = other.filter(|other| is_exact(other, space)).copied() else { return sets };
    match validate_superblock(&superblock, space, superblock.block) {
        Ok((layout, _)) => Sets { choice: Choice { set, ..sets.choice }, superblock, layout, ..sets },
        Err(_) => sets,
    }
}

/// Whether these devices, made a set with the same reserve, would have as many chunks.
fn is_exact(superblock: &Superblock, space: &ZoneSpace) -> bool {
    let Superblock { chunks, reserved, .. } = *superblock;
    Layout::compute(space, reserved).is_ok_and(|layout| (layout.chunks, layout.reserved) == (chunks, reserved))
}

/// The reserve with which these devices have as many chunks as the set has; if there is none, the one it has.
fn exact_reserve(superblock: &Superblock, space: &ZoneSpace) -> u32 {
    let least = Layout::compute(space, 1).ok();
    let other = least.map(|layout| (layout.chunks + 1).saturating_sub(superblock.chunks));
    let fits = |reserved: &u32| is_exact(&Superblock { reserved: *reserved, ..*superblock }, space);
    [Some(superblock.reserved), other].into_iter().flatten().find(fits).unwrap_or(superblock.reserved)
}

impl Repair {
    /// Whether there was nothing to mend.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.before.is_clean()
    }

    /// What could not be mended.
    pub fn left(&self) -> impl Iterator<Item = &Finding> {
        self.after.findings.iter().filter(|finding| finding.is_error())
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_idle() {
            return writeln!(f, "No error detected: nothing to repair");
        }
        let left: Vec<String> = self.left().map(ToString::to_string).collect();
        for finding in self.before.findings.iter().filter(|finding| finding.is_error()) {
            let text = finding.to_string();
            let verdict = if left.contains(&text) { "cannot be repaired" } else { "repaired" };
            writeln!(f, "  {text}: {verdict}")?;
        }
        match left.is_empty() {
            true => writeln!(f, "All errors are repaired"),
            false => writeln!(f, "Errors are left"),
        }
    }
}
