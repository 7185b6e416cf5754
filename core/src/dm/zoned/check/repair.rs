//! Mends a set, so that at every moment one of its two copies of the metadata is whole.
//!
//! ```text
//!   what both copies say together ──> the other set ── flush ── read again ── its superblock, a generation later ── flush
//!   the other set ──> the set in force ── flush ── its superblock ── flush
//!   third superblocks, then zones that nobody has: emptied ── flush
//! ```

use super::bitmaps::needs_reset;
use super::copies::{Copies, exact, is_exact};
use super::view::View;
use super::{Finding, Loss, Next, Report, check, next_step};
use crate::dm::zoned::format::{
    Bitmap, ENTRIES, Label, Layout, LoadError, Media, MediaError, Progress, Sets, Superblock, WrongMembers,
    bitmap_start, pieces, read_members, tertiaries,
};
use crate::dm::zoned::{BLOCK_BYTES, Block, ChunkNo, MemberNo, Number, Rows, SetZone, ZoneSpace};
use crate::prelude::*;

/// What a repair does if there is something that neither copy of the metadata has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// It changes nothing, so that it can be looked for.
    Refuse,
    /// It gives that up: the chunks read as zeroes, and their zones are emptied.
    GiveUp,
}

/// Error of a repair, or what it left unrepaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairError {
    /// There is nothing to go by. Then what to do next.
    Load(LoadError, Next),
    /// The disks are in another order than in their set, or not of one set. Nothing was changed.
    Members(WrongMembers),
    /// Something is in neither copy of the metadata, or a disk is an older copy of itself, and [`OnLoss::Refuse`] was given.
    /// Nothing was changed.
    Loss(Vec<Loss>),
    /// A disk failed. One of the sets is whole.
    Media(MediaError),
    /// The generation has no next one.
    Generation,
    /// The set has another version or no name, so it cannot get this one.
    Label(String),
}

/// Losses that a message tells.
const MOST_TOLD: usize = 20;

impl_error!(RepairError, Media(MediaError), |self, f| match self {
    Self::Load(error, next) => write!(f, "{error}: {next}"),
    Self::Members(wrong) => wrong.fmt(f),
    Self::Loss(losses) if let Some(copy) = Loss::older_copy(losses) => {
        write!(f, "{copy}; nothing was changed: {}", Next::FindDisk)
    }
    Self::Loss(losses) => {
        f.write_str("neither copy of the metadata has what follows; nothing was changed")?;
        losses.iter().take(MOST_TOLD).try_for_each(|loss| write!(f, "\n  {loss}"))?;
        let more = losses.len().saturating_sub(MOST_TOLD);
        if more > 0 {
            write!(f, "\n  and {more} more")?;
        }
        f.write_str("\nsave what can be read with `shingle dmz salvage`, then give up the rest with `--lossy`")
    }
    Self::Media(error) => error.fmt(f),
    Self::Generation => f.write_str("the generation is the last that there is: copy the data to a new set"),
    Self::Label(why) => f.write_str(why),
});

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
/// What one copy of the metadata has is taken from there. Bad entries keep the part of them that is right, bits past write
/// pointers and ends of zones go, and zones that nobody has are emptied. Nothing goes that `Salvage` reads. The version stays;
/// superblocks that `dmzadm --repair` made a nameless version 2 of become version 1 again.
///
/// # Errors
/// If there is no set, if something is in neither copy and is not given up, or if a disk fails. After a failure, or a power
/// cut, it can be called again.
pub fn repair(media: &mut dyn Media, on_loss: OnLoss, progress: Progress<'_>) -> Result<Repair, RepairError> {
    let before = check(media, &mut |done, total| progress(done, 3 * total));
    if before.is_clean() {
        return Ok(Repair { after: before.clone(), before });
    }
    let sets = find(media)?;
    if on_loss == OnLoss::Refuse && !before.lost.is_empty() {
        return Err(RepairError::Loss(before.lost));
    }
    let sets = exact(media.space(), sets);
    let copies = Copies::of(&sets, media.space());
    let view = View::new(media, copies, &mut |_, _| ());
    let blocks = u64::from(view.layout().metadata_blocks);
    let mut done = 2 * blocks;
    let mut step = |count: u64| {
        done += count;
        progress(done.min(6 * blocks), 6 * blocks);
    };
    let thirds = thirds(media);
    let plan = Plan::new(media.space(), (&sets, &view), &thirds).ok_or(RepairError::Generation)?;
    plan.write_sets(media, &mut step)?;
    plan.write_thirds(media, &thirds)?;
    plan.empty_zones(media)?;
    let after = check(media, &mut |done, total| progress(4 * blocks + done.min(2 * blocks), 4 * blocks + total));
    Ok(Repair { before, after })
}

/// The superblocks, or what to do without.
fn find(media: &mut dyn Media) -> Result<Sets, RepairError> {
    Sets::find(media).map_err(|error| match error {
        LoadError::Members(wrong) => RepairError::Members(wrong),
        error => RepairError::Load(error, next_step(media)),
    })
}

/// Gives a set another label, in all its superblocks.
///
/// # Errors
/// If it is of version 1, which has none; if there is no set; or if a disk fails. Then some superblocks can have the old
/// label, and it can be done again.
pub fn relabel(media: &mut dyn Media, label: Label) -> Result<(), RepairError> {
    let sets = find(media)?;
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
    member: MemberNo,
    zone: SetZone,
    found: Option<Superblock>,
}

impl Third {
    /// Writes it anew; a sequential zone is emptied first.
    fn write(&self, media: &mut dyn Media, superblock: &Superblock) -> Result<(), MediaError> {
        if media.space().zones()[self.zone].wp > Block::FIRST {
            media.reset(self.zone)?;
        }
        media.write(media.space().start(self.zone), &superblock.encode())
    }
}

/// The third superblocks that are such.
fn thirds(media: &mut dyn Media) -> Vec<Third> {
    let found = read_members(media);
    let third = |(member, zone): (MemberNo, _)| Third { member, zone, found: found[member.index()].superblock };
    tertiaries(media.space()).map(third).collect()
}

/// A superblock of version 2 with nothing of version 2 in it, where there could be one of version 1.
fn is_nameless(superblock: &Superblock, space: &ZoneSpace) -> bool {
    let none = [0; 16];
    let Superblock { version, set_uuid, device_uuid, .. } = *superblock;
    version > 1 && !space.has_cache() && superblock.label.is_empty() && [set_uuid, device_uuid] == [none; 2]
}

/// A UUID for device `member`, if its own is lost: that of the set with the number in it, as a UUID of version 8.
fn derived_uuid(set_uuid: [u8; 16], member: MemberNo) -> [u8; 16] {
    let mut uuid = set_uuid;
    (member.0 + 1).to_be_bytes().iter().zip(&mut uuid[12..]).for_each(|(own, byte)| *byte ^= own);
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Told a piece of a set: the first block of it and what is in it.
type Visit<'a> = dyn FnMut(&mut dyn Media, u64, &[u8]) -> Result<(), MediaError> + 'a;

/// What the metadata has to be.
struct Plan<'a> {
    sets: &'a Sets,
    view: &'a View,
    space: ZoneSpace,
    /// The superblock, of a generation after the last but one.
    superblock: Superblock,
    /// The chunk that has a zone.
    owners: Rows<SetZone, Option<ChunkNo>>,
}

impl<'a> Plan<'a> {
    fn new(space: &ZoneSpace, (sets, view): (&'a Sets, &'a View), thirds: &[Third]) -> Option<Self> {
        let superblock = mended_superblock(sets, space, thirds)?;
        Some(Self { sets, view, space: space.clone(), superblock, owners: view.owners(space) })
    }

    /// Writes the mended metadata to the other set, makes that the newest, and then the same of the one in force. Whatever only
    /// the other set has was mended with: it is written over with the same.
    fn write_sets(&self, media: &mut dyn Media, step: &mut dyn FnMut(u64)) -> Result<(), MediaError> {
        let set = self.sets.choice.set;
        let starts = [1 - set, set].map(|set| self.layout().set_start(&self.space, set));
        self.write_mended(media, starts[0], step)?;
        media.flush()?;
        // A block that was written and still cannot be read must not come into force.
        self.for_each_piece(media, starts[0], &mut |_, _, _| Ok(()))?;
        self.write_superblock(media, starts[0])?;
        self.for_each_piece(media, starts[0], &mut |media, block, bytes| {
            step((bytes.len() / BLOCK_BYTES) as u64);
            media.write(starts[1] + block, bytes)
        })?;
        self.write_superblock(media, starts[1])
    }

    /// Reads the set that starts at `start` but for its superblock; the blocks are counted from there.
    fn for_each_piece(&self, media: &mut dyn Media, start: u64, visit: &mut Visit<'_>) -> Result<(), MediaError> {
        let (mut buffer, count) = (Vec::new(), u64::from(self.layout().metadata_blocks) - 1);
        for (block, len) in pieces(self.space.zone_blocks(), start + 1, count) {
            buffer.resize(len * BLOCK_BYTES, 0);
            media.read(block, &mut buffer)?;
            visit(media, block - start, &buffer)?;
        }
        Ok(())
    }

    fn write_superblock(&self, media: &mut dyn Media, block: u64) -> Result<(), MediaError> {
        media.flush()?;
        media.write(block, &Superblock { block, ..self.superblock }.encode())?;
        media.flush()
    }

    /// Writes mapping table and bitmaps, mended, to the set that starts at `start`.
    fn write_mended(&self, media: &mut dyn Media, start: u64, step: &mut dyn FnMut(u64)) -> Result<(), MediaError> {
        let mut map = vec![0xff; self.layout().map_blocks as usize * ENTRIES * 8];
        let entries = map.chunks_mut(8).zip(self.view.entries.iter());
        entries.for_each(|(bytes, entry)| bytes.copy_from_slice(&entry.encode()));
        for (block, len) in pieces(self.space.zone_blocks(), start + 1, self.layout().map_blocks.into()) {
            let at = (block - start - 1) as usize * BLOCK_BYTES;
            media.write(block, &map[at..at + len * BLOCK_BYTES])?;
        }
        let first = bitmap_start(&self.space, start, self.layout(), SetZone(0));
        let (mut zone, mut pending) = (SetZone(0), Vec::new());
        for (block, len) in pieces(self.space.zone_blocks(), first, self.layout().bitmap_blocks.into()) {
            while pending.len() < len * BLOCK_BYTES {
                pending.extend_from_slice(self.mended(media, zone).bytes());
                zone = zone + 1;
            }
            media.write(block, &pending[..len * BLOCK_BYTES])?;
            pending.drain(..len * BLOCK_BYTES);
            step(len as u64);
        }
        Ok(())
    }

    /// The bitmap of `zone` as it should be.
    fn mended(&self, media: &mut dyn Media, zone: SetZone) -> Bitmap {
        let Some(owner) = self.owners[zone] else { return Bitmap::empty(self.space.zone_blocks()) };
        let [data, buffer] = self.view.parts(media, owner, &mut |_| ());
        if self.view.entries[owner].dzone == zone { data } else { buffer }
    }

    fn layout(&self) -> &Layout {
        self.view.layout()
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
        for zone in self.space.zones().numbers() {
            let is_free = self.owners[zone].is_none() && !self.layout().is_metadata(&self.space, zone);
            if is_free && needs_reset(&self.space, zone) {
                media.reset(zone)?;
            }
        }
        media.flush()
    }
}

/// The superblock in force with what it lacks, of a generation after the last; `None` if there is no such.
fn mended_superblock(sets: &Sets, space: &ZoneSpace, thirds: &[Third]) -> Option<Superblock> {
    let (none, mut superblock) = ([0; 16], sets.superblock);
    let found = sets.found.iter().filter_map(|found| found.as_ref().ok());
    let others: Vec<&Superblock> = found.chain(thirds.iter().filter_map(|third| third.found.as_ref())).collect();
    let newest = sets.found.iter().flatten().map(|found| found.generation).max()?;
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
        let uuid = sets.found.iter().flatten().map(|other| other.device_uuid).find(|uuid| *uuid != none);
        superblock.device_uuid = uuid.unwrap_or(derived_uuid(superblock.set_uuid, MemberNo(0)));
    }
    Some(superblock)
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

impl_display!(Repair, |self, f| {
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
});
