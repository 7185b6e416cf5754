//! Blocks of metadata that differ from those on the disk.

use super::{MetaBlock, Number};
use crate::prelude::*;

/// A set of metadata blocks, by their place in a set of metadata (block 0 is the superblock).
#[derive(Debug, Default)]
pub(super) struct DirtyBlocks {
    bits: Vec<u64>,
    list: Vec<MetaBlock>,
    /// Blocks that a commit is writing.
    committing: Vec<u64>,
}

impl DirtyBlocks {
    pub fn new(blocks: u32) -> Self {
        let words = blocks.div_ceil(64) as usize;
        Self { bits: vec![0; words], list: Vec::new(), committing: vec![0; words] }
    }

    /// Notes that `block` has changed.
    #[inline]
    pub fn mark(&mut self, block: MetaBlock) {
        let (place, bit) = place(block);
        let word = &mut self.bits[place];
        if *word & bit == 0 {
            *word |= bit;
            self.list.push(block);
        }
    }

    /// Whether `block` is on the disk as it is in memory.
    #[inline]
    pub fn is_clean(&self, block: MetaBlock) -> bool {
        let (place, bit) = place(block);
        (self.bits[place] | self.committing[place]) & bit == 0
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes all of them, in rising order, for a commit; [`DirtyBlocks::settle`] ends that.
    pub fn take(&mut self) -> Vec<MetaBlock> {
        let mut blocks = core::mem::take(&mut self.list);
        blocks.sort_unstable();
        for block in &blocks {
            let (place, bit) = place(*block);
            self.bits[place] &= !bit;
            self.committing[place] |= bit;
        }
        blocks
    }

    /// The commit of `blocks` is over: if it failed, they are as dirty as before.
    pub fn settle(&mut self, blocks: &[MetaBlock], is_durable: bool) {
        for block in blocks {
            let (place, bit) = place(*block);
            self.committing[place] &= !bit;
            if !is_durable {
                self.mark(*block);
            }
        }
    }
}

/// The word that has the bit of `block`, and the bit.
#[inline]
fn place(block: MetaBlock) -> (usize, u64) {
    (block.index() / 64, 1 << (block.0 % 64))
}
