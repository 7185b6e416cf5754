//! What is wrong with a volume.

use super::media::MediaError;
use super::members::WrongMembers;
use crate::dm::stl::format::PieceKind;
use crate::dm::stl::{Lba, Pba, ZoneIndex};
use crate::prelude::*;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// There is no volume that could be checked.
    NoVolume(String),
    /// The disks are not the members of the volume.
    Members(WrongMembers),
    /// A disk has no root that is whole.
    NoRoot(usize),
    /// The newest root of a disk is older than that of another.
    OlderRoot {
        /// The disk.
        disk: usize,
        /// The number of its root.
        number: u64,
        /// The newest number.
        newest: u64,
    },
    /// A table that the root names cannot be used.
    Piece {
        /// What it is of.
        kind: PieceKind,
        /// Its number.
        number: u32,
        /// Where it is.
        place: Pba,
        /// Why not.
        why: String,
    },
    /// A page of a run cannot be used.
    Page {
        /// Where it is.
        place: Pba,
        /// Why not.
        why: String,
    },
    /// A leaf cannot be used.
    Leaf {
        /// The first of its blocks.
        lba: Lba,
        /// Where it is.
        place: Pba,
        /// Why not.
        why: String,
    },
    /// Batches behind one that is missing: they were never acknowledged.
    BehindGap(usize),
    /// A zone may have had batches behind the newest root, and cannot be read any more.
    Gone(ZoneIndex),
    /// The headers of a zone cannot be followed to where its batches end.
    Header {
        /// The zone.
        zone: ZoneIndex,
        /// The block in it where a header should be.
        block: u32,
        /// Where they should end.
        end: u32,
        /// What is there instead.
        why: String,
    },
    /// Live blocks in a zone that has none by the table of zones.
    LiveIn {
        /// The zone.
        zone: ZoneIndex,
        /// What the zone is used for.
        used_for: &'static str,
        /// How many.
        blocks: u32,
    },
    /// Live blocks behind the pointer of their zone.
    BehindPointer {
        /// The zone.
        zone: ZoneIndex,
        /// How many.
        blocks: u32,
        /// The block that the pointer is at.
        pointer: u32,
    },
    /// The map leads to a block that no disk has.
    Nowhere {
        /// The block of the exposed disk.
        lba: Lba,
        /// Where it would be.
        place: Pba,
    },
    /// The map leads to a block to which it also leads from another.
    Twice {
        /// The block of the exposed disk that comes later.
        lba: Lba,
        /// Where both are.
        place: Pba,
    },
    /// The batch to which the map leads has another block there, or another checksum.
    Elsewhere {
        /// The block of the exposed disk.
        lba: Lba,
        /// Where it should be.
        place: Pba,
        /// The block that is there by its header; none: no batch is there.
        has: Option<Lba>,
    },
    /// A block cannot be read.
    Unreadable {
        /// The block of the exposed disk.
        lba: Lba,
        /// Where it is.
        place: Pba,
        /// Why not.
        error: MediaError,
    },
    /// A block has other data than was written.
    Checksum {
        /// The block of the exposed disk.
        lba: Lba,
        /// Where it is.
        place: Pba,
    },
}

impl Finding {
    /// Whether the volume is damaged; else it is only worth to be known.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !matches!(self, Self::OlderRoot { .. } | Self::BehindGap(_))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoVolume(_) => "no-volume",
            Self::Members(_) => "members",
            Self::NoRoot(_) => "no-root",
            Self::OlderRoot { .. } => "older-root",
            Self::Piece { .. } => "table",
            Self::Page { .. } => "page",
            Self::Leaf { .. } => "leaf",
            Self::BehindGap(_) => "behind-gap",
            Self::Gone(_) => "gone",
            Self::Header { .. } => "header",
            Self::LiveIn { .. } => "live-in-zone",
            Self::BehindPointer { .. } => "behind-pointer",
            Self::Nowhere { .. } => "nowhere",
            Self::Twice { .. } => "twice",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Unreadable { .. } => "unreadable",
            Self::Checksum { .. } => "checksum",
        }
    }
}

impl_display!(Finding, |self, f| match self {
    Self::NoVolume(why) => f.write_str(why),
    Self::Members(wrong) => wrong.fmt(f),
    Self::NoRoot(disk) => write!(f, "disk {disk}: no root is whole"),
    Self::OlderRoot { disk, number, newest } => {
        write!(f, "disk {disk}: its newest root has number {number}, that of another {newest}")
    }
    Self::Piece { kind, number, place, why } => {
        write!(f, "table of {}, piece {number}, at block {place}: {why}", kind.name())
    }
    Self::Page { place, why } => write!(f, "page of a run at block {place}: {why}"),
    Self::Leaf { lba, place, why } => write!(f, "leaf of blocks {lba} and on, at block {place}: {why}"),
    Self::BehindGap(count) => write!(f, "{count} batches lie behind one that is missing, and count for nothing"),
    Self::Gone(zone) =>
        write!(f, "zone {zone} may have had batches behind the newest root, and is offline: the volume does not start"),
    Self::Header { zone, block, end, why } => {
        write!(f, "zone {zone}: its headers end at block {block}, where {why}; they should go on to block {end}")
    }
    Self::LiveIn { zone, used_for, blocks } =>
        write!(f, "zone {zone}: its use is \"{used_for}\", and {blocks} live blocks are in it"),
    Self::BehindPointer { zone, blocks, pointer } => {
        write!(f, "zone {zone}: {blocks} live blocks lie behind its write pointer, block {pointer}")
    }
    Self::Nowhere { lba, place } => write!(f, "block {lba} should be at block {place}, which no disk has"),
    Self::Twice { lba, place } => write!(f, "block {lba} is at block {place}, where another one is, too"),
    Self::Elsewhere { lba, place, has: Some(has) } if has == lba => {
        write!(f, "block {lba} at block {place}: its batch has another checksum than the map")
    }
    Self::Elsewhere { lba, place, has: Some(has) } => {
        write!(f, "block {lba} should be at block {place}, where a batch has block {has}")
    }
    Self::Elsewhere { lba, place, has: None } => write!(f, "block {lba} should be at block {place}, where no batch is"),
    Self::Unreadable { lba, place, error } => write!(f, "block {lba} at block {place} cannot be read: {error}"),
    Self::Checksum { lba, place } => write!(f, "block {lba} at block {place}: the data is not what was written"),
});

/// Findings, of which so many are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    kept: Vec<Finding>,
    /// How many more there were.
    more: u64,
    errors: u64,
}

impl Findings {
    /// Most findings that are kept.
    const MOST: usize = 10_000;

    /// Takes one in.
    pub fn add(&mut self, finding: Finding) {
        self.errors += u64::from(finding.is_error());
        if self.kept.len() < Self::MOST { self.kept.push(finding) } else { self.more += 1 }
    }

    /// Those that were kept.
    #[must_use]
    pub fn all(&self) -> &[Finding] {
        &self.kept
    }

    /// How many more there were.
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors == 0
    }
}
