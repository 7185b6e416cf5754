//! Gets out of a set what is left of it, whatever is damaged. Nothing is written.
//!
//! The numbers come from the first superblock that has sound ones: of a set, a third one, or else from the devices
//! themselves. Of each block of metadata either copy will do, that of the set in force first.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::target::zoned::format::{
    Bitmap, Chunk, DEFAULT_RESERVED, ENTRIES, Entry, Layout, LoadError, MappingProblem, Media, MediaError, NO_ZONE,
    PIECE, Progress, Sets, Superblock, bitmap_blocks, bitmap_start, tertiaries, validate_mapping,
};
use crate::target::zoned::{BLOCK_BYTES, ZoneSpace};

/// Where the numbers of a set were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A superblock of the set.
    Set(usize),
    /// The third superblock of this device.
    Third(usize),
    /// The devices, as if they were made a set now: the number of chunks is a guess.
    Devices,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(0) => f.write_str("primary superblock"),
            Self::Set(_) => f.write_str("secondary superblock"),
            Self::Third(member) => write!(f, "tertiary superblock of device {member}"),
            Self::Devices => f.write_str("no superblock: the devices themselves"),
        }
    }
}

/// Something that was lost, or is only assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The superblocks that would be in force.
    Superblocks(LoadError),
    /// The entries of these chunks cannot be read in either set: they read as zeroes.
    Entries {
        /// The first chunk.
        first: u32,
        /// How many.
        count: u32,
        /// Why.
        error: MediaError,
    },
    /// An entry is wrong in both sets; only its right part is read.
    Entry(MappingProblem),
    /// An entry is wrong in the set in force; the one of the other set is read.
    OlderEntry(MappingProblem),
    /// The bitmap of a zone cannot be read in either set: every written block of a data zone is taken as valid, and no
    /// block of a buffer.
    Bitmap {
        /// The zone.
        zone: u32,
        /// Why.
        error: MediaError,
    },
    /// Exposed blocks cannot be read: they are zeroes.
    Blocks {
        /// The first exposed block.
        first: u64,
        /// How many.
        count: u32,
        /// Why.
        error: MediaError,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblocks(error) => error.fmt(f),
            Self::Entries { first, count, error } => {
                write!(f, "chunks {first} to {}: no mapping, so they are zeroes: {error}", first + count - 1)
            }
            Self::Entry(problem) => write!(f, "{problem}: left out"),
            Self::OlderEntry(problem) => write!(f, "{problem}: taken from the other set"),
            Self::Bitmap { zone, error } => {
                write!(f, "zone {zone}: no bitmap, so what was ever written to it may show: {error}")
            }
            Self::Blocks { first, count, error } => write!(f, "blocks {first}+{count} are zeroes: {error}"),
        }
    }
}

/// There is nothing that looks like a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingThere(pub String);

impl fmt::Display for NothingThere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for NothingThere {}

/// What is left of a set.
#[derive(Clone, Debug)]
pub struct Salvage {
    /// Where its numbers are from.
    pub source: Source,
    /// Its numbers.
    pub layout: Layout,
    /// What is lost, as far as the metadata tells.
    pub losses: Vec<Loss>,
    entries: Vec<Entry>,
    /// Starts of the sets, that in force first.
    starts: [u64; 2],
}

impl Salvage {
    /// Looks at the metadata.
    ///
    /// # Errors
    /// If nothing looks like a set.
    pub fn survey(media: &mut dyn Media, progress: Progress<'_>) -> Result<Self, NothingThere> {
        let (guesses, error) = match Sets::find(media) {
            Ok(sets) => (vec![Guess::of(&sets, media.space())], None),
            Err(LoadError::Ambiguous { zone, layout }) => {
                let guesses = Guess::either(&layout, media.space());
                (guesses, Some(Loss::Superblocks(LoadError::Ambiguous { zone, layout })))
            }
            Err(error) => (vec![Guess::without_sets(media)?], Some(Loss::Superblocks(error))),
        };
        let mut surveys: Vec<_> = guesses.into_iter().map(|guess| Self::with(media, guess, progress)).collect();
        surveys.sort_by_key(|salvage| salvage.losses.len());
        let nothing = "no superblock, and what is in place of the mapping table is none";
        let best = surveys.into_iter().find(Self::is_plausible).ok_or_else(|| NothingThere(nothing.into()));
        best.map(|mut salvage| {
            salvage.losses.splice(0..0, error);
            salvage
        })
    }

    fn with(media: &mut dyn Media, guess: Guess, progress: &mut dyn FnMut(u64, u64)) -> Self {
        let Guess { source, layout, starts } = guess;
        let mut salvage = Self { source, layout, losses: Vec::new(), entries: Vec::new(), starts };
        salvage.read_entries(media, progress);
        salvage
    }

    /// Chunks that have a zone.
    #[must_use]
    pub fn mapped(&self) -> usize {
        self.entries.iter().filter(|entry| **entry != Entry::UNMAPPED).count()
    }

    /// Reads chunk `chunk` into `to`, which has its length; what is lost is zeroes and told to `lost`. False if no block of
    /// it was ever written.
    pub fn read(&self, media: &mut dyn Media, chunk: u32, to: &mut [u8], lost: &mut dyn FnMut(Loss)) -> bool {
        to.fill(0);
        let entry = self.entries.get(chunk as usize).copied().unwrap_or(Entry::UNMAPPED);
        if entry == Entry::UNMAPPED {
            return false;
        }
        let bits = [(entry.dzone, true), (entry.bzone, false)];
        let [data, buffer] = bits.map(|(zone, is_data)| self.bitmap(media, zone, is_data, lost));
        let own = Chunk::new(entry, data, buffer);
        let (mut at, mut is_written) = (0, false);
        for (first, len) in own.runs(media.space(), 0, (to.len() / BLOCK_BYTES) as u32) {
            let to = &mut to[at as usize * BLOCK_BYTES..][..len as usize * BLOCK_BYTES];
            if let Some(first) = first {
                is_written = true;
                let exposed = u64::from(chunk) * u64::from(media.space().zone_blocks()) + u64::from(at);
                read_run(media, first, to, &mut |block, error| {
                    lost(Loss::Blocks { first: exposed + u64::from(block), count: 1, error });
                });
            }
            at += len;
        }
        is_written
    }

    /// Reads the mapping table, each piece of it from the set in force if that works, and entries that are wrong there from
    /// the other one if they are right there.
    fn read_entries(&mut self, media: &mut dyn Media, progress: &mut dyn FnMut(u64, u64)) {
        let map_blocks = u64::from(self.layout.map_blocks);
        let mut others = Vec::new();
        for block in 0..map_blocks {
            let [own, other] = self.starts.map(|start| read_block(media, start + 1 + block));
            let (first, none) = (block as u32 * ENTRIES as u32, || vec![0xff; BLOCK_BYTES]);
            let own = own.or_else(|error| other.clone().map_err(|_| error)).unwrap_or_else(|error| {
                let count = (self.layout.chunks - first).min(ENTRIES as u32);
                self.losses.push(Loss::Entries { first, count, error });
                none()
            });
            let decode =
                |bytes: &[u8]| bytes.as_chunks().0.iter().map(|bytes| Entry::decode(*bytes)).collect::<Vec<_>>();
            self.entries.extend(decode(&own));
            others.extend(decode(&other.unwrap_or(own)));
            progress(block + 1, map_blocks);
        }
        self.entries.truncate(self.layout.chunks as usize);
        others.truncate(self.layout.chunks as usize);
        self.mend_entries(media.space(), &others);
    }

    fn mend_entries(&mut self, space: &ZoneSpace, others: &[Entry]) {
        for problem in validate_mapping(&self.entries, space, &self.layout) {
            let chunk = problem.chunk as usize;
            let entry = if problem.fault.is_error() { others[chunk] } else { problem.entry };
            if entry != problem.entry && entry != Entry::UNMAPPED {
                self.losses.push(Loss::OlderEntry(problem));
                self.entries[chunk] = entry;
            }
        }
        for problem in validate_mapping(&self.entries, space, &self.layout) {
            self.entries[problem.chunk as usize] = problem.repaired;
            if problem.fault.is_error() {
                self.losses.push(Loss::Entry(problem));
            }
        }
    }

    /// Without a superblock, what is in place of the mapping table has to look like one: more of it right than wrong.
    fn is_plausible(&self) -> bool {
        let wrong = self.losses.iter().filter(|loss| matches!(loss, Loss::Entry(_))).count();
        self.source != Source::Devices || (self.mapped() > 0 && self.mapped() > wrong)
    }

    /// The bitmap of a zone, from either set.
    fn bitmap(&self, media: &mut dyn Media, zone: u32, is_data: bool, lost: &mut dyn FnMut(Loss)) -> Bitmap {
        let zone_blocks = media.space().zone_blocks();
        let mut bits = Bitmap::empty(zone_blocks);
        if zone == NO_ZONE {
            return bits;
        }
        for block in 0..u64::from(bitmap_blocks(zone_blocks)) {
            let starts = self.starts.map(|start| bitmap_start(media.space(), start, &self.layout, zone) + block);
            let bytes = read_block(media, starts[0]).or_else(|error| read_block(media, starts[1]).map_err(|_| error));
            let own = &mut bits.bytes_mut()[block as usize * BLOCK_BYTES..][..BLOCK_BYTES];
            match bytes {
                Ok(bytes) => own.copy_from_slice(&bytes),
                Err(error) => {
                    own.fill(if is_data { 0xff } else { 0 });
                    lost(Loss::Bitmap { zone, error });
                }
            }
        }
        bits
    }
}

fn read_block(media: &mut dyn Media, block: u64) -> Result<Vec<u8>, MediaError> {
    let mut bytes = vec![0; BLOCK_BYTES];
    media.read(block, &mut bytes).map(|()| bytes)
}

/// Reads a run of blocks, at once if that works and else one by one; those that cannot be read are zeroes and told.
fn read_run(media: &mut dyn Media, first: u64, to: &mut [u8], lost: &mut dyn FnMut(u32, MediaError)) {
    for (piece, to) in (0..).step_by(PIECE as usize).zip(to.chunks_mut(PIECE as usize * BLOCK_BYTES)) {
        if media.read(first + piece, to).is_ok() {
            continue;
        }
        for (block, to) in (piece..).zip(to.chunks_mut(BLOCK_BYTES)) {
            if let Err(error) = media.read(first + block, to) {
                to.fill(0);
                lost(block as u32, error);
            }
        }
    }
}

/// What the numbers of a set may be.
struct Guess {
    source: Source,
    layout: Layout,
    starts: [u64; 2],
}

impl Guess {
    fn of(sets: &Sets, space: &ZoneSpace) -> Self {
        let starts = [sets.choice.set, 1 - sets.choice.set].map(|set| sets.layout.set_start(space, set));
        Self { source: Source::Set(sets.choice.set), layout: sets.layout, starts }
    }

    /// The one superblock that is left may be that of the second set, whose first one was in zones that failed.
    fn either(layout: &Layout, space: &ZoneSpace) -> Vec<Self> {
        let [first, second] = [0, 1].map(|set| layout.set_start(space, set));
        let as_first = Self { source: Source::Set(0), layout: *layout, starts: [first, second] };
        let before = layout.first_zone.checked_sub(layout.metadata_zones);
        let as_second = before.map(|first_zone| Self {
            source: Source::Set(1),
            layout: Layout { first_zone, ..*layout },
            starts: [first, space.start(first_zone)],
        });
        [Some(as_first), as_second].into_iter().flatten().collect()
    }

    /// The numbers of a set whose superblocks are both lost.
    fn without_sets(media: &mut dyn Media) -> Result<Self, NothingThere> {
        let (source, layout) = match from_third(media) {
            Some(found) => found,
            None => (Source::Devices, from_devices(media)?),
        };
        let starts = [0, 1].map(|set| layout.set_start(media.space(), set));
        Ok(Self { source, layout, starts })
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
fn from_devices(media: &mut dyn Media) -> Result<Layout, NothingThere> {
    let nothing = |error| NothingThere(format!("no superblock, and no set can be made of these devices: {error}"));
    let most = Layout::compute(media.space(), 1).map_err(nothing)?;
    let usual = Layout::compute(media.space(), DEFAULT_RESERVED).unwrap_or(most);
    let last = most.set_start(media.space(), 0) + u64::from(most.map_blocks);
    let is_bitmap = usual.map_blocks < most.map_blocks
        && read_block(media, last).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    Ok(if is_bitmap { usual } else { most })
}
