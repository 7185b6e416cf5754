//! What mkfs writes before the file system is mounted: superblocks with their descriptors, and zeroes over the journal.
//!
//! Inode tables stay as they are (`lazy_itable_init`), and so do the bitmaps of groups in which nothing is (`uninit_bg`).

use alloc::collections::VecDeque;

use super::layout::{Extent, Layout};

/// mkfs at work.
#[derive(Default)]
pub struct Mkfs {
    /// What it has still to write.
    left: VecDeque<Extent>,
    in_flight: u32,
}

impl Mkfs {
    /// It makes a file system of `layout`, with writes of up to `longest` blocks.
    pub fn new(layout: &Layout, longest: u32) -> Self {
        let journal = layout.journal();
        let blocks = (journal.end - journal.start) as u32;
        let backups = (0..layout.groups()).filter_map(|group| layout.backup_in(group));
        let all = [layout.super_blocks(), Extent { start: journal.start, blocks }].into_iter().chain(backups);
        let cut = |extent: Extent| {
            let end = extent.start + u64::from(extent.blocks);
            let starts = (extent.start..end).step_by(longest as usize);
            starts.map(move |start| Extent { start, blocks: (end - start).min(longest.into()) as u32 })
        };
        Self { left: all.flat_map(cut).collect(), in_flight: 0 }
    }

    /// The next write, if fewer than `most` are under way.
    pub fn next(&mut self, most: u32) -> Option<Extent> {
        if self.in_flight >= most {
            return None;
        }
        let next = self.left.pop_front()?;
        self.in_flight += 1;
        Some(next)
    }

    /// A write is done; returns whether it was the last one.
    pub fn done(&mut self) -> bool {
        self.in_flight -= 1;
        self.in_flight == 0 && self.left.is_empty()
    }
}
