//! What a header says of the blocks behind it.

use super::bytes::{Fields, Put};
use crate::dm::stl::{BatchNo, Generation, Lba, Pba};
use crate::prelude::*;

const LENGTH_BITS: u32 = 22;

/// A change of a user: so many blocks of the exposed disk from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The first block.
    pub lba: Lba,
    /// How many.
    pub blocks: u32,
    /// Whether they have data, which is the next of the payload; if not, they are zeroes and take no space.
    pub has_data: bool,
}

impl Written {
    /// Most blocks of a record.
    pub const MOST: u32 = (1 << LENGTH_BITS) - 1;
    /// Bytes of a record.
    pub const BYTES: usize = 8;

    /// Appends it.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.put_u64(self.lba.0 | u64::from(self.blocks) << 40 | u64::from(!self.has_data) << 62);
    }

    /// The next one; `None` if there can be no such record.
    pub(super) fn decode(from: &mut Fields<'_>) -> Option<Self> {
        let word = from.u64();
        let it = Self {
            lba: Lba(word % Lba::END.0),
            blocks: (word >> 40) as u32 & Self::MOST,
            has_data: word >> 62 & 1 == 0,
        };
        (it.blocks > 0 && it.lba.0 + u64::from(it.blocks) <= Lba::END.0 && word >> 63 == 0).then_some(it)
    }
}

/// A block that the cleaner has moved, to the next of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The block of the exposed disk.
    pub lba: Lba,
    /// Where it was: the copy counts only if that is where it is.
    pub from: Pba,
    /// The generation of the zone that it was in.
    pub generation: Generation,
    /// The batch with which a user wrote it.
    pub written: BatchNo,
}

impl Copied {
    /// Bytes of a record.
    pub const BYTES: usize = 32;

    /// Appends it.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.put_u64(self.lba.0);
        to.put_u64(self.from.0);
        to.put_u64(self.written.0);
        to.put_u32(self.generation.0);
        to.put_u32(0);
    }

    /// The next one; `None` if there can be no such record.
    pub(super) fn decode(from: &mut Fields<'_>) -> Option<Self> {
        let (lba, place, written) = (Lba(from.u64()), Pba(from.u64()), BatchNo(from.u64()));
        let (generation, padding) = (Generation(from.u32()), from.u32());
        let is_sound = lba < Lba::END && place < Pba::END && padding == 0;
        is_sound.then_some(Self { lba, from: place, generation, written })
    }
}
