//! What the disk has to do: bios that have taken effect, and what its two arms are busy with.

use alloc::boxed::Box;
use core::ops::Range;

use shingle_core::block::{Bio, Data};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::ZoneNo;

/// What came of a bio that took effect.
#[derive(Default)]
pub(super) struct Effect {
    /// Of a read: the sectors that only the medium has. Of zone management: 1 if the medium has to change.
    pub missing: u32,
    /// Of a write to a conventional zone: what was there.
    pub before: Option<Data>,
}

/// A bio that has taken effect.
pub(super) struct Command {
    pub bio: Box<Bio>,
    pub number: u64,
    /// Of a write: its zone was reset meanwhile.
    pub void: bool,
    /// Of a write to a conventional zone: what was there.
    pub before: Option<Data>,
    /// Of a read: the sectors that only the medium has.
    pub missing: u32,
    /// Of a write: the sectors that are in the cache, or beyond.
    pub taken: u32,
    /// Of those, the sectors that came in since its turn began.
    pub turn: u32,
}

impl Command {
    /// The sectors of a write that have not come in.
    pub fn rest(&self) -> Range<Sector> {
        self.bio.sector + u64::from(self.taken)..self.bio.end()
    }
}

/// What the link is busy with.
pub(super) enum LinkWork {
    /// The next so many sectors of a write come in.
    Write(Command, u32),
    /// An answer goes out.
    Answer(Command),
}

pub(super) struct LinkJob {
    pub done: Instant,
    pub work: LinkWork,
}

/// What the head is busy with.
pub(super) enum MediaWork {
    Read(Command),
    /// The first entry of a zone.
    Destage(ZoneNo),
    Chore(Command),
}

pub(super) struct MediaJob {
    pub done: Instant,
    pub work: MediaWork,
}

/// What the head did last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Other,
    /// It read, and goes on reading ahead.
    Read,
    /// It wrote in this zone, so many bytes in a row.
    Run(ZoneNo, u64),
}
