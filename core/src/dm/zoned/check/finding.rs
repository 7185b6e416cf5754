//! What is wrong with a set.

use crate::dm::zoned::format::{MappingProblem, MediaError, SuperblockProblem};
use crate::dm::zoned::{Block, ChunkNo, MemberNo, SetZone};
use crate::prelude::*;

/// Whose superblock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// That of the first or second set: 0 or 1.
    Set(usize),
    /// The third one, on this device.
    Third(MemberNo),
}

impl_display!(Whose, |self, f| match self {
    Self::Set(0) => f.write_str("primary superblock"),
    Self::Set(_) => f.write_str("secondary superblock"),
    Self::Third(member) => write!(f, "tertiary superblock of device {member}"),
});

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// There is no set that could be checked.
    NoSet(String),
    /// Something cannot be read.
    Unreadable {
        /// What.
        what: &'static str,
        /// Why.
        error: MediaError,
    },
    /// A superblock cannot be used.
    Superblock {
        /// Whose.
        whose: Whose,
        /// Why.
        problem: SuperblockProblem,
    },
    /// A label or UUID of a superblock is missing, or is not that of the others.
    Name {
        /// Whose.
        whose: Whose,
        /// Label or UUID.
        what: &'static str,
        /// Whether it is missing.
        is_missing: bool,
    },
    /// A number of a superblock is not what it would be if the set were made now.
    Number {
        /// Whose.
        whose: Whose,
        /// Which number.
        what: &'static str,
        /// The number.
        found: u64,
        /// What it would be; `None`: these devices would not be made a set.
        expected: Option<u64>,
    },
    /// A third superblock counts commits, which nobody does there.
    ThirdGeneration {
        /// The device.
        member: MemberNo,
        /// The count.
        generation: u64,
    },
    /// The sets are of different generations: the last commit was interrupted.
    Generations([u64; 2]),
    /// An entry of the mapping table is wrong.
    Mapping(MappingProblem),
    /// A zone that holds no data has valid blocks.
    FreeBits {
        /// The zone.
        zone: SetZone,
        /// How many.
        count: u32,
    },
    /// A sequential zone that holds no data is not empty.
    NotReset {
        /// The zone.
        zone: SetZone,
        /// Its write pointer.
        wp: Block,
    },
    /// Blocks of a sequential zone are valid that were never written.
    PastWp {
        /// The zone.
        zone: SetZone,
        /// How many.
        count: u32,
        /// Its write pointer.
        wp: Block,
    },
    /// Blocks are valid that the zone does not have.
    PastEnd {
        /// The zone.
        zone: SetZone,
        /// How many.
        count: u32,
    },
    /// Blocks of a chunk are valid both in its data zone and in its buffer.
    Both {
        /// The chunk.
        chunk: ChunkNo,
        /// How many.
        count: u32,
    },
    /// The sets are of the same generation and not equal.
    Difference {
        /// The first block, counted from the start of a set.
        first: u64,
        /// How many blocks.
        count: u64,
    },
    /// When every chunk is written, no zone is free to move anything. So a kernel hangs when it is full.
    Overcommitted {
        /// Zones that are left then; negative: so many chunks cannot be written.
        slack: i64,
    },
}

impl Finding {
    /// Whether the set is damaged; else it is only worth to be known.
    #[must_use]
    pub fn is_error(&self) -> bool {
        match self {
            Self::Mapping(problem) => problem.fault.is_error(),
            Self::ThirdGeneration { .. } | Self::Overcommitted { .. } => false,
            _ => true,
        }
    }

    /// True if a write pointer does not fit the mapping. A power cut leaves few such zones, which stay until the set is changed.
    #[must_use]
    pub fn is_misfit(&self) -> bool {
        matches!(self, Self::NotReset { .. } | Self::PastWp { .. })
    }

    /// Whether a repair can do something about it.
    pub(super) fn can_be_mended(&self) -> bool {
        match self {
            Self::NoSet(_) | Self::Number { expected: None, .. } => false,
            Self::Mapping(problem) => problem.repaired != problem.entry,
            _ => true,
        }
    }
}

impl_display!(Finding, |self, f| match self {
    Self::NoSet(why) => f.write_str(why),
    Self::Unreadable { what, error } => write!(f, "{what} cannot be read: {error}"),
    Self::Superblock { whose, problem } => write!(f, "{whose}: {problem}"),
    Self::Name { whose, what, is_missing: true } => write!(f, "{whose}: no {what}"),
    Self::Name { whose, what, .. } => write!(f, "{whose}: another {what} than the others have"),
    Self::Number { whose, what, found, expected: Some(expected) } => {
        write!(f, "{whose}: {found} {what}, expected {expected}")
    }
    Self::Number { whose, what, found, .. } => {
        write!(f, "{whose}: {found} {what}, which these devices cannot have")
    }
    Self::ThirdGeneration { member, generation } => {
        write!(f, "{}: generation {generation}, expected 0", Whose::Third(*member))
    }
    Self::Generations([first, second]) => {
        write!(f, "generation differs: primary {first}, secondary {second}: not compared")
    }
    Self::Mapping(problem) => problem.fmt(f),
    Self::FreeBits { zone, count } => write!(f, "zone {zone}: holds no data, but has {count} valid blocks"),
    Self::NotReset { zone, wp } => {
        write!(f, "zone {zone}: holds no data, but its write pointer is at block {wp}")
    }
    Self::PastWp { zone, count, wp } => {
        write!(f, "zone {zone}: {count} valid blocks from its write pointer, block {wp}, on")
    }
    Self::PastEnd { zone, count } => write!(f, "zone {zone}: {count} valid blocks past its end"),
    Self::Both { chunk, count } => {
        write!(f, "chunk {chunk}: {count} blocks valid both in its data zone and in its buffer")
    }
    Self::Difference { first, count } => {
        write!(f, "{count} blocks differ between the sets, the first at block {first} of them")
    }
    Self::Overcommitted { slack } => write!(
        f,
        "{slack} zones are left when every chunk is written: at least 1 is needed; fill it no further than that"
    ),
});
