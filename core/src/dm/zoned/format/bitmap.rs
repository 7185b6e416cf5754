//! The validity bits of a zone.

use core::iter::successors;

use super::bitmap_blocks;
use crate::dm::zoned::{BLOCK_BYTES, Block};
use crate::prelude::*;

/// The bits of a zone, one for each block, in whole blocks as they are on the disk: the lowest bit of a byte comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap(Vec<u8>);

impl Bitmap {
    /// No bit set, for zones of `zone_blocks`.
    #[must_use]
    pub fn empty(zone_blocks: u32) -> Self {
        Self(vec![0; bitmap_blocks(zone_blocks) as usize * BLOCK_BYTES])
    }

    /// The bits in these blocks.
    #[must_use]
    pub fn decode(blocks: Vec<u8>) -> Self {
        Self(blocks)
    }

    /// The blocks.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The blocks, to be read into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Whether block `block` of the zone is valid.
    #[must_use]
    pub fn has(&self, block: Block) -> bool {
        self.0.get(block.0 as usize / 8).is_some_and(|byte| byte >> (block.0 % 8) & 1 == 1)
    }

    /// Makes block `block` of the zone valid or not.
    pub fn set(&mut self, block: Block, is_valid: bool) {
        let (byte, bit) = (&mut self.0[block.0 as usize / 8], block.0 % 8);
        *byte = *byte & !(1 << bit) | u8::from(is_valid) << bit;
    }

    /// The bits, 64 at a time.
    fn words(&self) -> impl Iterator<Item = u64> {
        self.0.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
    }

    /// Number of valid blocks.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// The valid blocks from `from` on.
    pub fn blocks(&self, from: Block) -> impl Iterator<Item = Block> {
        let words = (0..).step_by(64).zip(self.words()).skip(from.0 as usize / 64).filter(|(_, word)| *word != 0);
        let bits = |(first, word): (u32, u64)| {
            let rest = successors(Some(word), |word| Some(word & word.wrapping_sub(1))).take_while(|word| *word != 0);
            rest.map(move |word| Block(first + word.trailing_zeros()))
        };
        words.flat_map(bits).filter(move |block| *block >= from)
    }

    /// Takes out the blocks of `other`.
    pub fn subtract(&mut self, other: &Bitmap) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= !other);
    }

    /// The blocks that are valid in both.
    pub fn common(&self, other: &Bitmap) -> Bitmap {
        Self(self.0.iter().zip(&other.0).map(|(own, other)| own & other).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_where_they_were_set() {
        let mut bits = Bitmap::empty(65_536);
        let blocks = [0, 1, 7, 8, 63, 32_767, 32_768, 65_535].map(Block);
        blocks.iter().for_each(|block| bits.set(*block, true));
        assert_eq!(bits.blocks(Block(0)).collect::<Vec<_>>(), blocks);
        assert_eq!(bits.blocks(Block(8)).collect::<Vec<_>>(), blocks[3..]);
        assert_eq!((bits.weight(), bits.bytes().len()), (8, 8192));
        assert_eq!((bits.bytes()[0], bits.bytes()[1], bits.bytes()[4095], bits.bytes()[8191]), (0x83, 1, 0x80, 0x80));
        bits.set(Block(8), false);
        assert!(!bits.has(Block(8)) && bits.has(Block(7)) && !bits.has(Block(1_000_000)));
    }
}
