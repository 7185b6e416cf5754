//! Blocks of metadata that differ from those on the disk.

use alloc::vec;
use alloc::vec::Vec;

/// A set of metadata blocks, by their place in a set of metadata (block 0 is the superblock).
#[derive(Debug, Default)]
pub(super) struct DirtyBlocks {
    bits: Vec<u64>,
    list: Vec<u32>,
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
    pub fn mark(&mut self, block: u32) {
        let word = &mut self.bits[block as usize / 64];
        if *word >> (block % 64) & 1 == 0 {
            *word |= 1 << (block % 64);
            self.list.push(block);
        }
    }

    /// Whether `block` is on the disk as it is in memory.
    #[inline]
    pub fn is_clean(&self, block: u32) -> bool {
        let word = block as usize / 64;
        (self.bits[word] | self.committing[word]) >> (block % 64) & 1 == 0
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes all of them, in rising order, for a commit; [`DirtyBlocks::settle`] ends that.
    pub fn take(&mut self) -> Vec<u32> {
        let mut blocks = core::mem::take(&mut self.list);
        blocks.sort_unstable();
        for block in &blocks {
            self.bits[*block as usize / 64] &= !(1 << (block % 64));
            self.committing[*block as usize / 64] |= 1 << (block % 64);
        }
        blocks
    }

    /// The commit of `blocks` is over: if it failed, they are as dirty as before.
    pub fn settle(&mut self, blocks: &[u32], is_durable: bool) {
        for block in blocks {
            self.committing[*block as usize / 64] &= !(1 << (block % 64));
            if !is_durable {
                self.mark(*block);
            }
        }
    }
}
