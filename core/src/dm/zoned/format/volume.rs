//! A set as its disks have it: read, never written.

use super::mapping::{MappingProblem, validate_mapping};
use super::media::{PIECE, pieces};
use super::members::{WrongMembers, check_members};
use super::sets::{Choice, SuperblockProblem, choose, failed_metadata_zone, read_superblock, second_set_zones};
use super::{Bitmap, ENTRIES, Layout, MapEntry, Media, MediaError, NO_ZONE, Superblock, bitmap_blocks};
use crate::dm::zoned::{BLOCK_BYTES, Block, ChunkNo, Number, Rows, SetZone, ZoneClass, ZoneHealth, ZoneSpace};
use crate::prelude::*;

/// The superblocks of a set of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sets {
    /// What is where the first and the second set start.
    pub found: [Result<Superblock, SuperblockProblem>; 2],
    /// Which is in force.
    pub choice: Choice,
    /// The superblock in force.
    pub superblock: Superblock,
    /// Its numbers.
    pub layout: Layout,
}

/// Error of loading the metadata of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// Neither set has a superblock that is right: what is wrong with each.
    NoSet(Vec<SuperblockProblem>),
    /// Only one superblock is left, and the zone before it failed: it cannot be told which set it is.
    Ambiguous {
        /// The zone that failed.
        zone: SetZone,
        /// The numbers of the set, if the superblock is where it would be without that zone.
        layout: Layout,
        /// The superblock.
        superblock: Box<Superblock>,
    },
    /// The disks are in another order than in their set, or not of one set.
    Members(WrongMembers),
    /// A disk failed.
    Media(MediaError),
}

impl_error!(LoadError, Media(MediaError), |self, f| match self {
    Self::NoSet(problems) => {
        f.write_str("no valid superblock")?;
        let mut names = ["first", "second"].iter().zip(problems);
        names.try_for_each(|(name, problem)| write!(f, "; {name} set: {problem}"))
    }
    Self::Ambiguous { zone, .. } => write!(
        f,
        "one superblock is left, and zone {zone} before it, which may have held the other one, has failed: which \
         of the two it is cannot be told; salvage what is there"
    ),
    Self::Members(error) => error.fmt(f),
    Self::Media(error) => error.fmt(f),
});

impl Sets {
    /// Finds both superblocks, and compares those of the other disks with them. One that cannot be read is as good as none.
    ///
    /// # Errors
    /// If neither is right, if the one that is left can be either, or if a disk is of another set or at another position.
    pub fn find(media: &mut dyn Media) -> Result<Self, LoadError> {
        let sets = Self::find_on_first(media);
        let superblock = match &sets {
            Ok(sets) => Some(sets.superblock),
            Err(LoadError::Ambiguous { superblock, .. }) => Some(**superblock),
            Err(_) => None,
        };
        check_members(media, superblock.as_ref()).map_err(LoadError::Members)?;
        sets
    }

    /// Finds both superblocks on the first disk.
    fn find_on_first(media: &mut dyn Media) -> Result<Self, LoadError> {
        let space = media.space().clone();
        let Some(zone) = space.metadata_zone() else { return Err(LoadError::NoSet(Vec::new())) };
        let first = probe(media, &space, zone, 0);
        let second = match &first {
            Ok((_, layout)) => probe(media, &space, zone + layout.metadata_zones, 1),
            Err(_) => search(media, &space),
        };
        let sides = [first, second];
        let valid = |set: usize| sides[set].as_ref().ok();
        let choice = choose(valid(0).map(|side| &side.0), valid(1).map(|side| &side.0));
        let chosen = choice.and_then(|choice| Some((choice, *valid(choice.set)?)));
        let Some((choice, (superblock, layout))) = chosen else {
            return Err(LoadError::NoSet(sides.into_iter().filter_map(Result::err).collect()));
        };
        if let (true, Some(zone)) = (sides.iter().any(Result::is_err), failed_metadata_zone(&space)) {
            return Err(LoadError::Ambiguous { zone, layout, superblock: Box::new(superblock) });
        }
        let found = sides.map(|side| side.map(|(superblock, _)| superblock));
        Ok(Self { found, choice, superblock, layout })
    }

    /// First global block of the set in force.
    #[must_use]
    pub fn start(&self, space: &ZoneSpace) -> u64 {
        self.layout.set_start(space, self.choice.set)
    }
}

type Side = Result<(Superblock, Layout), SuperblockProblem>;

/// The superblock of set `set`, if it is the one at the start of `zone`.
fn probe(media: &mut dyn Media, space: &ZoneSpace, zone: SetZone, set: usize) -> Side {
    let (block, mut bytes) = (space.start(zone), vec![0; BLOCK_BYTES]);
    media.read(block, &mut bytes).map_err(SuperblockProblem::Unreadable)?;
    match read_superblock(&bytes, space, block)? {
        (superblock, layout, found) if found == set => Ok((superblock, layout)),
        _ => Err(SuperblockProblem::Place { zone }),
    }
}

/// The second set, if the first does not say where it is.
fn search(media: &mut dyn Media, space: &ZoneSpace) -> Side {
    let mut problem = None;
    for zone in second_set_zones(space) {
        match probe(media, space, zone, 1) {
            Ok(side) => return Ok(side),
            Err(own) => problem = problem.or(Some(own)),
        }
    }
    Err(problem.unwrap_or(SuperblockProblem::Place { zone: SetZone(0) }))
}

/// A set that can be read.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The superblocks.
    pub sets: Sets,
    /// The mapping table, as it is on the disks.
    pub entries: Rows<ChunkNo, MapEntry>,
    /// What is wrong with it.
    pub problems: Vec<MappingProblem>,
    /// The right part of each entry.
    right: Rows<ChunkNo, MapEntry>,
}

/// Where the blocks of a chunk are.
#[derive(Clone, Debug)]
pub struct Chunk {
    entry: MapEntry,
    data: Bitmap,
    buffer: Bitmap,
}

impl Volume {
    /// Reads superblocks and mapping table.
    ///
    /// # Errors
    /// If there is no set, or if its mapping table cannot be read.
    pub fn load(media: &mut dyn Media) -> Result<Self, LoadError> {
        let sets = Sets::find(media)?;
        Ok(Self::of(media, sets)?)
    }

    /// Reads the mapping table of the set in force.
    ///
    /// # Errors
    /// If a disk does not read.
    pub fn of(media: &mut dyn Media, sets: Sets) -> Result<Self, MediaError> {
        let start = sets.start(media.space());
        let entries = read_entries(media, start, &sets.layout)?;
        let problems = validate_mapping(&entries, media.space(), &sets.layout);
        let mut right = entries.clone();
        problems.iter().for_each(|problem| right[problem.chunk] = problem.repaired);
        Ok(Self { sets, entries, problems, right })
    }

    /// The right part of each entry of the mapping table.
    #[must_use]
    pub fn right_entries(&self) -> &Rows<ChunkNo, MapEntry> {
        &self.right
    }

    /// Blocks that the set exposes.
    #[must_use]
    pub fn blocks(&self, space: &ZoneSpace) -> u64 {
        u64::from(self.sets.layout.chunks) * u64::from(space.zone_blocks())
    }

    /// Where the blocks of chunk `chunk` are.
    ///
    /// # Errors
    /// If its bitmaps cannot be read.
    pub fn chunk(&self, media: &mut dyn Media, chunk: ChunkNo) -> Result<Chunk, MediaError> {
        let entry = self.right[chunk];
        let start = self.sets.start(media.space());
        let mut bits = |zone: SetZone| match zone {
            NO_ZONE => Ok(Bitmap::empty(media.space().zone_blocks())),
            zone => read_bitmap(media, start, &self.sets.layout, zone),
        };
        Ok(Chunk { entry, data: bits(entry.dzone)?, buffer: bits(entry.bzone)? })
    }

    /// Reads exposed blocks from `block` on; what was never written is zeroes.
    ///
    /// # Errors
    /// If a disk does not read, or the range is not in the set.
    pub fn read(&self, media: &mut dyn Media, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        let (zone_blocks, end) = (media.space().zone_blocks(), self.blocks(media.space()));
        let mut rest = to;
        for (first, len) in pieces(zone_blocks, block, (rest.len() / BLOCK_BYTES) as u64) {
            if first + len as u64 > end {
                return Err(MediaError("past the end of the set".into()));
            }
            let (own, next) = rest.split_at_mut(len * BLOCK_BYTES);
            let chunk = ChunkNo((first / u64::from(zone_blocks)) as u32);
            self.chunk(media, chunk)?.read(media, Block((first % u64::from(zone_blocks)) as u32), own)?;
            rest = next;
        }
        Ok(())
    }
}

impl Chunk {
    /// A chunk with these zones and these valid blocks in them.
    pub(crate) fn new(entry: MapEntry, data: Bitmap, buffer: Bitmap) -> Self {
        Self { entry, data, buffer }
    }

    /// The global block that holds block `block` of the chunk; `None`: it is all zeroes.
    #[must_use]
    pub fn locate(&self, space: &ZoneSpace, block: Block) -> Option<u64> {
        let valid = ValidIn { data: self.data.has(block), buffer: self.buffer.has(block) };
        locate(space, self.entry, valid, block)
    }

    /// The blocks that are valid both in the data zone and in the buffer, which none should be.
    #[must_use]
    pub fn twice(&self) -> Bitmap {
        self.data.common(&self.buffer)
    }

    /// The runs that make up `count` blocks from `block` on: the global block where each begins, or that it is zeroes, and
    /// its length.
    #[must_use]
    pub fn runs(&self, space: &ZoneSpace, block: Block, count: u32) -> Vec<(Option<u64>, u32)> {
        let mut runs: Vec<(Option<u64>, u32)> = Vec::new();
        for place in block.onwards().take(count as usize).map(|block| self.locate(space, block)) {
            match runs.last_mut() {
                Some((first, len)) if first.map(|first| first + u64::from(*len)) == place => *len += 1,
                _ => runs.push((place, 1)),
            }
        }
        runs
    }

    /// Reads from block `block` of the chunk on.
    ///
    /// # Errors
    /// If a disk does not read.
    pub fn read(&self, media: &mut dyn Media, block: Block, to: &mut [u8]) -> Result<(), MediaError> {
        let mut rest = to;
        for (first, len) in self.runs(media.space(), block, (rest.len() / BLOCK_BYTES) as u32) {
            let (own, next) = rest.split_at_mut(len as usize * BLOCK_BYTES);
            match first {
                None => own.fill(0),
                Some(first) => media.read(first, own)?,
            }
            rest = next;
        }
        Ok(())
    }
}

/// In which zones of a chunk one of its blocks is valid.
#[derive(Clone, Copy, Debug)]
pub struct ValidIn {
    /// In the data zone.
    pub data: bool,
    /// In the buffer.
    pub buffer: bool,
}

/// Where block `block` of a chunk with `entry` is if it is valid there: as
/// `drivers/md/dm-zoned-target.c:dmz_handle_read` looks for it. `None`: it reads as zeroes.
#[must_use]
pub fn locate(space: &ZoneSpace, entry: MapEntry, valid: ValidIn, block: Block) -> Option<u64> {
    let is_written = |zone: SetZone| {
        let info = space.zones()[zone];
        // What was in an offline zone is not zeroes: it is an error to read it.
        info.class != ZoneClass::Sequential || block < info.wp || info.health == ZoneHealth::Offline
    };
    let zone = match entry {
        MapEntry { dzone, .. } if dzone != NO_ZONE && valid.data && is_written(dzone) => dzone,
        MapEntry { bzone, .. } if bzone != NO_ZONE && valid.buffer => bzone,
        _ => return None,
    };
    Some(space.start(zone) + u64::from(block))
}

/// The mapping table of the set that starts at global block `start`.
///
/// # Errors
/// If a disk does not read.
pub fn read_entries(media: &mut dyn Media, start: u64, layout: &Layout) -> Result<Rows<ChunkNo, MapEntry>, MediaError> {
    let mut entries = Vec::with_capacity(layout.map_blocks as usize * ENTRIES);
    let mut buffer = vec![0; PIECE as usize * BLOCK_BYTES];
    for (block, len) in pieces(media.space().zone_blocks(), start + 1, u64::from(layout.map_blocks)) {
        let bytes = &mut buffer[..len * BLOCK_BYTES];
        media.read(block, bytes)?;
        entries.extend(bytes.as_chunks().0.iter().map(|bytes| MapEntry::decode(*bytes)));
    }
    entries.truncate(layout.chunks as usize);
    Ok(entries.into())
}

/// First block of the bitmap of `zone`, in the set that starts at global block `start`.
#[must_use]
pub fn bitmap_start(space: &ZoneSpace, start: u64, layout: &Layout, zone: SetZone) -> u64 {
    start + 1 + u64::from(layout.map_blocks) + u64::from(zone) * u64::from(bitmap_blocks(space.zone_blocks()))
}

/// The bitmap of `zone` in the set that starts at global block `start`.
///
/// # Errors
/// If a disk does not read.
pub fn read_bitmap(media: &mut dyn Media, start: u64, layout: &Layout, zone: SetZone) -> Result<Bitmap, MediaError> {
    let zone_blocks = media.space().zone_blocks();
    let mut bitmap = Bitmap::empty(zone_blocks);
    let first = bitmap_start(media.space(), start, layout, zone);
    let mut rest = bitmap.bytes_mut();
    for (block, len) in pieces(zone_blocks, first, u64::from(bitmap_blocks(zone_blocks))) {
        let (own, next) = rest.split_at_mut(len * BLOCK_BYTES);
        media.read(block, own)?;
        rest = next;
    }
    Ok(bitmap)
}
