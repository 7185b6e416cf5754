//! What a header says of the blocks behind it.

use super::bytes::{Fields, Put};
use crate::dm::stl::{BatchNo, Epoch, Generation, Lba, Pba};
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

/// A life at the start of which something was lost: later batches of users than `since` that are of a life before it count for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Which.
    pub epoch: Epoch,
    /// The last batch of users that counted when it began.
    pub since: BatchNo,
}

impl Life {
    /// Bytes of a record.
    pub const BYTES: usize = 16;
    /// Most of them that are remembered: with them the header of a root is still one block.
    pub const MOST: usize = 128;

    /// Notes a life that began, with all before it in `lives`. One after which nothing more counted tells no more than the next does.
    pub fn note(self, lives: &mut Vec<Life>) {
        lives.retain(|life| life.since < self.since);
        lives.push(self);
        lives.drain(..lives.len().saturating_sub(Self::MOST));
    }

    /// Appends it.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.put_u64(self.epoch.0);
        to.put_u64(self.since.0);
    }

    /// The next one.
    pub(super) fn decode(from: &mut Fields<'_>) -> Self {
        Self { epoch: Epoch(from.u64()), since: BatchNo(from.u64()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_lives_that_are_remembered_each_tells_more_than_those_before_it() {
        let life = |epoch, since| Life { epoch: Epoch(epoch), since: BatchNo(since) };
        let mut lives = Vec::new();
        [life(1, 5), life(2, 7), life(4, 7), life(5, 9)].into_iter().for_each(|life| life.note(&mut lives));
        assert_eq!(lives, [life(1, 5), life(4, 7), life(5, 9)]);
        (10..200).for_each(|n| life(n, n).note(&mut lives));
        assert_eq!((lives.len(), lives[0]), (Life::MOST, life(72, 72)));
    }
}
