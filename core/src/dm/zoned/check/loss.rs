//! What is not there any more, in neither copy.

use crate::dm::zoned::format::{LoadError, MappingProblem, MediaError};
use crate::dm::zoned::stale::OlderCopy;
use crate::dm::zoned::{ChunkNo, SetZone};

/// Something that was lost, or is only assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A disk is an older copy of itself: what was written since is on the right disk, and elsewhere in zones without an
    /// owner.
    OlderCopy(OlderCopy),
    /// The superblocks that would be in force.
    Superblocks(LoadError),
    /// The entries of these chunks cannot be read in either set: they read as zeroes.
    Entries {
        /// The first chunk.
        first: ChunkNo,
        /// How many.
        count: u32,
        /// Why.
        error: MediaError,
    },
    /// An entry is wrong in both sets; only its right part is read.
    Entry(MappingProblem),
    /// What the set in force says of this chunk is wrong or leads nowhere; the entry of the other set is read.
    OlderEntry(ChunkNo),
    /// The bitmap of a zone cannot be read in either set, or not in the one in force while that of the other set is not about
    /// its chunk: every written block of a data zone is taken as valid, and no block of a buffer.
    Bitmap {
        /// The zone.
        zone: SetZone,
        /// Why.
        error: MediaError,
    },
    /// The bitmap of a zone cannot be read in the set in force; that of the other set is read, which may be of another time.
    OtherBitmap {
        /// The zone.
        zone: SetZone,
        /// Why.
        error: MediaError,
    },
    /// Blocks of a zone are valid that no chunk has: the mapping of a chunk is lost.
    Orphan {
        /// The zone.
        zone: SetZone,
        /// How many.
        count: u32,
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

impl_display!(Loss, |self, f| match self {
    Self::OlderCopy(copy) => copy.fmt(f),
    Self::Superblocks(error) => error.fmt(f),
    Self::Entries { first, count, error } => {
        write!(f, "chunks {first} to {}: no mapping, so they are zeroes: {error}", *first + (count - 1))
    }
    Self::Entry(problem) => write!(f, "{problem}: left out"),
    Self::OlderEntry(chunk) => write!(f, "chunk {chunk}: its zones are taken from the other set"),
    Self::Bitmap { zone, error } => {
        write!(f, "zone {zone}: no bitmap, so what was ever written to it may show: {error}")
    }
    Self::OtherBitmap { zone, error } => {
        write!(f, "zone {zone}: its bitmap is taken from the other set, so its last writes may not show: {error}")
    }
    Self::Orphan { zone, count } => {
        write!(f, "zone {zone}: {count} valid blocks of no chunk: its mapping is lost")
    }
    Self::Blocks { first, count, error } => write!(f, "blocks {first}+{count} are zeroes: {error}"),
});

impl Loss {
    /// The one of `losses` that names a disk as an older copy of itself, if there is one.
    pub(super) fn older_copy(losses: &[Self]) -> Option<&Self> {
        losses.iter().find(|loss| matches!(loss, Self::OlderCopy(_)))
    }

    /// True if something of the metadata is in neither set, so the data that it led to cannot be read. An older copy
    /// is such a loss: the newer metadata or the data that it leads to is on a disk that is not there.
    #[must_use]
    pub fn is_of_both(&self) -> bool {
        match self {
            Self::OlderCopy(_) | Self::Entries { .. } | Self::Bitmap { .. } | Self::Orphan { .. } => true,
            Self::Entry(problem) => problem.repaired != problem.entry,
            Self::Superblocks(_) | Self::OlderEntry(_) | Self::OtherBitmap { .. } | Self::Blocks { .. } => false,
        }
    }

    /// The first chunk that it is about, if it is about chunks.
    pub(super) fn chunk(&self) -> Option<ChunkNo> {
        match self {
            Self::Entries { first, .. } => Some(*first),
            Self::Entry(problem) => Some(problem.chunk),
            Self::OlderEntry(chunk) => Some(*chunk),
            Self::OlderCopy(_)
            | Self::Superblocks(_)
            | Self::Bitmap { .. }
            | Self::OtherBitmap { .. }
            | Self::Orphan { .. }
            | Self::Blocks { .. } => None,
        }
    }
}
