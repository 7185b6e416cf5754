//! Gets out of a set what is left of it, whatever is damaged. Nothing is written.
//!
//! The numbers come from the first superblock that has sound ones: of a set, a third one, or else from the devices
//! themselves. The rest is what both copies of the metadata say together.

use super::Loss;
use super::copies::{Copies, Twin, exact};
use super::view::View;
use crate::dm::zoned::format::{
    Chunk, DEFAULT_RESERVED, Layout, LoadError, MapEntry, Media, MediaError, Progress, Sets, Superblock, WrongMembers,
    read_run, tertiaries,
};
use crate::dm::zoned::{BLOCK_BYTES, Block, ChunkNo, MemberNo, SetZone, ZoneSpace};
use crate::prelude::*;

/// Where the numbers of a set were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A superblock of the set.
    Set(usize),
    /// The third superblock of this device.
    Third(MemberNo),
    /// The devices, as if they were made a set now: the number of chunks is a guess.
    Devices,
}

impl_display!(Source, |self, f| match self {
    Self::Set(0) => f.write_str("primary superblock"),
    Self::Set(_) => f.write_str("secondary superblock"),
    Self::Third(member) => write!(f, "tertiary superblock of device {member}"),
    Self::Devices => f.write_str("no superblock: the devices themselves"),
});

/// Error of a salvage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SalvageError {
    /// Nothing on the disks looks like a set.
    Nothing(String),
    /// The disks are in another order than in their set, or not of one set.
    Members(WrongMembers),
}

impl_error!(SalvageError, |self, f| match self {
    Self::Nothing(why) => write!(f, "{why}: there is nothing to salvage"),
    Self::Members(wrong) => wrong.fmt(f),
});

/// What is left of a set.
#[derive(Clone, Debug)]
pub struct Salvage {
    /// Where its numbers are from.
    pub source: Source,
    /// Its numbers.
    pub layout: Layout,
    /// What is lost, as far as the mapping tells.
    pub losses: Vec<Loss>,
    view: View,
}

impl Salvage {
    /// Looks at the metadata.
    ///
    /// # Errors
    /// If nothing looks like a set, or if the disks are not those of one set in its order.
    pub fn survey(media: &mut dyn Media, progress: Progress<'_>) -> Result<Self, SalvageError> {
        let (guesses, error) = match Sets::find(media) {
            Ok(sets) => (vec![Guess::of(sets, media.space())], None),
            Err(LoadError::Members(wrong)) => return Err(SalvageError::Members(wrong)),
            Err(error) => {
                let guesses = match &error {
                    LoadError::Ambiguous { layout, .. } => Guess::either(layout, media.space()),
                    _ => vec![Guess::without_sets(media)?],
                };
                (guesses, Some(Loss::Superblocks(error)))
            }
        };
        let mut surveys: Vec<_> = guesses.into_iter().map(|guess| Self::with(media, guess, progress)).collect();
        surveys.sort_by_key(|salvage| salvage.losses.len());
        let nothing = "no superblock, and no mapping table where one would be";
        let best = surveys.into_iter().find(Self::is_plausible).ok_or_else(|| SalvageError::Nothing(nothing.into()));
        best.map(|mut salvage| {
            salvage.losses.splice(0..0, error);
            salvage
        })
    }

    fn with(media: &mut dyn Media, guess: Guess, progress: &mut dyn FnMut(u64, u64)) -> Self {
        let view = View::new(media, guess.copies, progress);
        let mut losses = view.losses.clone();
        // An entry that is lost leaves zones that nobody has: then those are no news.
        if !losses.iter().any(Loss::is_of_both) {
            losses.extend(view.older_copy(media));
            losses.extend(view.orphans(media));
        }
        Self { source: guess.source, layout: *view.layout(), losses, view }
    }

    /// Chunks that have a zone.
    #[must_use]
    pub fn mapped(&self) -> usize {
        self.view.entries.iter().filter(|entry| **entry != MapEntry::UNMAPPED).count()
    }

    /// Reads chunk `chunk` into `to`, which has its length; what is lost is zeroes and told to `lost`. False if no block of
    /// it was ever written.
    pub fn read(&self, media: &mut dyn Media, chunk: ChunkNo, to: &mut [u8], lost: &mut dyn FnMut(Loss)) -> bool {
        to.fill(0);
        let entry = self.view.entries.get(chunk).copied().unwrap_or(MapEntry::UNMAPPED);
        if entry == MapEntry::UNMAPPED {
            return false;
        }
        let [data, buffer] = self.view.parts(media, chunk, lost);
        let own = Chunk::new(entry, data, buffer);
        let (mut at, mut is_written) = (Block::FIRST, false);
        for (first, len) in own.runs(media.space(), Block::FIRST, (to.len() / BLOCK_BYTES) as u32) {
            let to = &mut to[at.0 as usize * BLOCK_BYTES..][..len as usize * BLOCK_BYTES];
            if let Some(first) = first {
                is_written = true;
                let exposed = u64::from(chunk) * u64::from(media.space().zone_blocks()) + u64::from(at);
                read_run(media, first, to, &mut |block, error| {
                    lost(Loss::Blocks { first: exposed + u64::from(block), count: 1, error });
                });
            }
            at = at + len;
        }
        is_written
    }

    /// Without a superblock, what is in place of the mapping table has to look like one: more of it right than wrong.
    fn is_plausible(&self) -> bool {
        let wrong = self.losses.iter().filter(|loss| matches!(loss, Loss::Entry(_))).count();
        self.source != Source::Devices || (self.mapped() > 0 && self.mapped() > wrong)
    }
}

fn read_block(media: &mut dyn Media, block: u64) -> Result<Vec<u8>, MediaError> {
    let mut bytes = vec![0; BLOCK_BYTES];
    media.read(block, &mut bytes).map(|()| bytes)
}

/// What the numbers of a set may be.
struct Guess {
    source: Source,
    copies: Copies,
}

impl Guess {
    fn of(sets: Sets, space: &ZoneSpace) -> Self {
        let sets = exact(space, sets);
        Self { source: Source::Set(sets.choice.set), copies: Copies::of(&sets, space) }
    }

    /// The one superblock that is left may be that of the second set, whose first one was in zones that failed.
    fn either(layout: &Layout, space: &ZoneSpace) -> Vec<Self> {
        let [first, second] = [0, 1].map(|set| layout.set_start(space, set));
        let guess = |set: usize, first_zone: SetZone, starts: [u64; 2]| {
            let layout = Layout { first_zone, ..*layout };
            Self { source: Source::Set(set), copies: Copies { layout, starts, twin: Twin::Perhaps } }
        };
        let as_first = guess(0, layout.first_zone, [first, second]);
        let before = layout.first_zone.0.checked_sub(layout.metadata_zones).map(SetZone);
        let as_second = before.map(|first_zone| guess(1, first_zone, [first, space.start(first_zone)]));
        [Some(as_first), as_second].into_iter().flatten().collect()
    }

    /// The numbers of a set whose superblocks are both lost.
    fn without_sets(media: &mut dyn Media) -> Result<Self, SalvageError> {
        let (source, layout) = match from_third(media) {
            Some(found) => found,
            None => (Source::Devices, from_devices(media)?),
        };
        let starts = [0, 1].map(|set| layout.set_start(media.space(), set));
        Ok(Self { source, copies: Copies { layout, starts, twin: Twin::Equal } })
    }
}

/// The numbers that a third superblock tells.
fn from_third(media: &mut dyn Media) -> Option<(Source, Layout)> {
    let places: Vec<_> = tertiaries(media.space()).map(|(member, zone)| (member, media.space().start(zone))).collect();
    places.into_iter().find_map(|(member, block)| {
        let bytes = read_block(media, block).ok()?;
        let found = Superblock::decode(&bytes).ok()?;
        let layout = Layout::compute(media.space(), found.reserved).ok()?;
        (layout.chunks == found.chunks).then_some((Source::Third(member), layout))
    })
}

/// The numbers of a set with the smallest reserve, and so the most chunks: those too many have no zones. One block of
/// mapping table too many shows: it would be the bitmap of the first metadata zone, which has no valid block.
fn from_devices(media: &mut dyn Media) -> Result<Layout, SalvageError> {
    let nothing =
        |error| SalvageError::Nothing(format!("no superblock, and no set can be made of these devices: {error}"));
    let most = Layout::compute(media.space(), 1).map_err(nothing)?;
    let usual = Layout::compute(media.space(), DEFAULT_RESERVED).unwrap_or(most);
    let last = most.set_start(media.space(), 0) + u64::from(most.map_blocks);
    let is_bitmap = usual.map_blocks < most.map_blocks
        && read_block(media, last).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    Ok(if is_bitmap { usual } else { most })
}
