//! Which superblocks are right, where they are looked for, and which set is the newest: pure functions.

use super::layout::random_zones;
use super::{ENTRIES, Layout, MediaError, Superblock, SuperblockError, bitmap_blocks, metadata_zones};
use crate::dm::zoned::{MemberNo, Number, SetZone, ZoneClass, ZoneSpace};

/// Mismatch between a superblock and the set of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperblockProblem {
    /// It cannot be read.
    Unreadable(MediaError),
    /// It is none.
    NotOne(SuperblockError),
    /// It says that it is at another block.
    Position {
        /// The block that it names.
        found: u64,
        /// The block at which it is.
        expected: u64,
    },
    /// A first set starts in the first zone for metadata, and a second one right behind it. This one does neither.
    Place {
        /// The zone in which it starts.
        zone: SetZone,
    },
    /// Version 1 with a regular device.
    Version,
    /// A count that does not follow from the devices or from the other counts.
    Count {
        /// What is counted.
        what: &'static str,
        /// The count.
        found: u32,
        /// What it has to be, or the most it can be.
        expected: u64,
    },
    /// Metadata would lie in a zone that takes no random writes.
    MetadataZone {
        /// The zone.
        zone: SetZone,
    },
}

impl_error!(SuperblockProblem, |self, f| match self {
    Self::Unreadable(error) => error.fmt(f),
    Self::NotOne(error) => error.fmt(f),
    Self::Position { found, expected } => {
        write!(f, "it says that it is at block {found}, but is at {expected}")
    }
    Self::Place { zone } => write!(f, "zone {zone} is not where a set of this size starts"),
    Self::Version => f.write_str("version 1 with a regular device"),
    Self::Count { what, found, expected } => write!(f, "{found} {what}, expected {expected}"),
    Self::MetadataZone { zone } => write!(f, "metadata zone {zone} takes no random writes"),
});

/// Whether `superblock`, found at global block `block`, is that of a set of these devices; its numbers if it is, and which
/// set it starts.
///
/// All that the kernel accepts and writes is right, also a set that has lost zones since it was made. What the numbers make
/// a reader allocate is bounded by the size of the devices.
///
/// # Errors
/// The first thing that is wrong.
pub fn validate_superblock(
    superblock: &Superblock,
    space: &ZoneSpace,
    block: u64,
) -> Result<(Layout, usize), SuperblockProblem> {
    let Superblock { metadata_blocks, reserved, chunks, map_blocks, .. } = *superblock;
    if superblock.block != block {
        return Err(SuperblockProblem::Position { found: superblock.block, expected: block });
    }
    if superblock.version < 2 && space.has_cache() {
        return Err(SuperblockProblem::Version);
    }
    let zones = space.zones().len() as u64;
    let bitmaps = zones * u64::from(bitmap_blocks(space.zone_blocks()));
    let map = u64::from(chunks).div_ceil(ENTRIES as u64);
    let equal = [
        ("bitmap blocks", superblock.bitmap_blocks, bitmaps),
        ("blocks of mapping table", map_blocks, map),
        ("blocks of metadata", metadata_blocks, 1 + map + bitmaps),
    ];
    if let Some((what, found, expected)) = equal.into_iter().find(|(_, found, expected)| u64::from(*found) != *expected)
    {
        return Err(SuperblockProblem::Count { what, found, expected });
    }
    if chunks == 0 || u64::from(chunks) >= zones {
        return Err(SuperblockProblem::Count { what: "chunks", found: chunks, expected: zones - 1 });
    }
    if reserved == 0 || u64::from(reserved) >= zones {
        return Err(SuperblockProblem::Count { what: "reserved zones", found: reserved, expected: zones - 1 });
    }
    let (zone, metadata_zones) = (space.zone_of(block), metadata_zones(metadata_blocks, space.zone_blocks()));
    let first_zone = space.metadata_zone().ok_or(SuperblockProblem::Place { zone })?;
    let set = match zone.0.checked_sub(first_zone.0) {
        Some(0) => 0,
        Some(zones) if zones == metadata_zones => 1,
        _ => return Err(SuperblockProblem::Place { zone }),
    };
    let bitmap_blocks = superblock.bitmap_blocks;
    let layout = Layout { first_zone, metadata_blocks, metadata_zones, map_blocks, bitmap_blocks, reserved, chunks };
    match layout.unfit_metadata_zone(space) {
        Some(zone) => Err(SuperblockProblem::MetadataZone { zone }),
        None => Ok((layout, set)),
    }
}

/// Decodes and checks the superblock in `bytes`, which were read at global block `block`.
///
/// # Errors
/// What is wrong.
pub fn read_superblock(
    bytes: &[u8],
    space: &ZoneSpace,
    block: u64,
) -> Result<(Superblock, Layout, usize), SuperblockProblem> {
    let superblock = Superblock::decode(bytes).map_err(SuperblockProblem::NotOne)?;
    let (layout, set) = validate_superblock(&superblock, space, block)?;
    Ok((superblock, layout, set))
}

/// The zones in which the second set can start, in the order in which they are tried if the first one does not say.
pub fn second_set_zones(space: &ZoneSpace) -> impl Iterator<Item = SetZone> {
    let (first, zones) = (space.metadata_zone().unwrap_or_default(), space.members()[MemberNo(0)].zones);
    let most = random_zones(space).min(u64::from(zones)) as u32;
    let end = (first + most / 2 + 1).min(SetZone(zones));
    (first + 1)
        .onwards()
        .take_while(move |zone| *zone < end)
        .filter(|zone| space.zones()[*zone].class != ZoneClass::Sequential)
}

/// A conventional zone before the first one for metadata, which can have held metadata when the set was made and no longer
/// can. If there is one, a superblock that is left alone does not tell which of the two it is: taken for that of the
/// first set, zones with data would be taken for those of the second.
#[must_use]
pub fn failed_metadata_zone(space: &ZoneSpace) -> Option<SetZone> {
    let first = space.metadata_zone()?;
    space.zones().numbers().take(first.index()).rev().find(|zone| space.zones()[*zone].class != ZoneClass::Sequential)
}

/// Which set is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// 0 or 1.
    pub set: usize,
    /// What the other one is.
    pub other: Other,
}

/// What the set is that is not in force. Unless it is in step it has to be written whole, superblock last, before anything
/// else is: the kernel brings only those blocks up to date that change later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// Of the same generation, and so of the same content if nothing went wrong.
    InStep,
    /// Of an older generation: a commit was interrupted.
    Behind,
    /// Of another set of devices: this was formatted over it.
    Foreign,
    /// No set.
    Invalid,
}

/// Which of two valid sets is in force: the one of the later generation, and of two equal ones the first, as in
/// `drivers/md/dm-zoned-metadata.c:dmz_load_sb`. A second set with another UUID does not count.
#[must_use]
pub fn choose(first: Option<&Superblock>, second: Option<&Superblock>) -> Option<Choice> {
    let choice = |set, other| Some(Choice { set, other });
    match (first, second) {
        (None, None) => None,
        (Some(_), None) => choice(0, Other::Invalid),
        (None, Some(_)) => choice(1, Other::Invalid),
        (Some(first), Some(second)) if are_strangers(first, second) => choice(0, Other::Foreign),
        (Some(first), Some(second)) => match first.generation.cmp(&second.generation) {
            core::cmp::Ordering::Equal => choice(0, Other::InStep),
            core::cmp::Ordering::Greater => choice(0, Other::Behind),
            core::cmp::Ordering::Less => choice(1, Other::Behind),
        },
    }
}

/// Whether both have a UUID, and not the same. `dmzadm --repair` leaves superblocks without one on sets of version 1.
pub(super) fn are_strangers(first: &Superblock, second: &Superblock) -> bool {
    let none = [0; 16];
    first.set_uuid != none && second.set_uuid != none && first.set_uuid != second.set_uuid
}
