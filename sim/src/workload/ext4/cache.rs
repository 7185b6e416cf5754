//! The page cache: files with dirty pages, in the order in which they became dirty.

use alloc::collections::BTreeMap;

use super::orlov::Inode;
use shingle_core::time::Instant;

/// A file with dirty pages, all of which lack blocks: allocation is delayed.
#[derive(Clone, Copy, Debug)]
pub struct DirtyFile {
    /// Its inode.
    pub inode: Inode,
    /// Dirty blocks.
    pub blocks: u32,
    /// Whether a program still writes to it.
    pub open: bool,
    /// Since when it is dirty.
    pub since: Instant,
}

/// The dirty files, and how much is dirty or on its way.
#[derive(Default)]
pub struct Cache {
    files: BTreeMap<u64, DirtyFile>,
    next: u64,
    /// Blocks that are dirty and not on their way.
    pub dirty: u64,
    /// Blocks that are being written back.
    pub writing: u64,
}

impl Cache {
    /// A file becomes dirty; returns its number in the order.
    pub fn add(&mut self, file: DirtyFile) -> u64 {
        self.dirty += u64::from(file.blocks);
        self.files.insert(self.next, file);
        self.next += 1;
        self.next - 1
    }

    /// `blocks` more of file `number` are dirty; false if it has none any more: it was written back.
    pub fn grow(&mut self, number: u64, blocks: u32) -> bool {
        let Some(file) = self.files.get_mut(&number) else { return false };
        file.blocks += blocks;
        self.dirty += u64::from(blocks);
        true
    }

    /// The program is done with file `number`.
    pub fn close(&mut self, number: u64) {
        self.files.get_mut(&number).into_iter().for_each(|file| file.open = false);
    }

    /// The file that has been dirty for the longest time.
    pub fn oldest(&self) -> Option<&DirtyFile> {
        self.files.first_key_value().map(|(_, file)| file)
    }

    /// Takes it out, to be written back.
    pub fn take(&mut self) -> Option<DirtyFile> {
        let (_, file) = self.files.pop_first()?;
        self.dirty -= u64::from(file.blocks);
        self.writing += u64::from(file.blocks);
        Some(file)
    }

    /// Blocks that count against the limit.
    pub fn held(&self) -> u64 {
        self.dirty + self.writing
    }
}
