//! Writes that wait for a place in the queue of the drive.

use alloc::collections::VecDeque;

use super::layout::Extent;
use super::options::Ext4Options;

/// Runs of blocks cut to bios, each with a tag, of which only so many are under way at once.
pub struct WriteQueue {
    bio_blocks: u32,
    requests: u32,
    waiting: VecDeque<(Extent, u64)>,
    in_flight: u32,
}

impl WriteQueue {
    pub fn new(options: &Ext4Options) -> Self {
        let Ext4Options { bio_blocks, requests, .. } = *options;
        Self { bio_blocks, requests, waiting: VecDeque::new(), in_flight: 0 }
    }

    /// Lines a run of blocks up; returns of how many bios.
    pub fn push(&mut self, extent: Extent, tag: u64) -> u32 {
        let (before, end) = (self.waiting.len(), extent.start + u64::from(extent.blocks));
        for start in (extent.start..end).step_by(self.bio_blocks as usize) {
            let blocks = (end - start).min(self.bio_blocks.into()) as u32;
            self.waiting.push_back((Extent { start, blocks }, tag));
        }
        (self.waiting.len() - before) as u32
    }

    /// The next write, if there is a place for it.
    pub fn next(&mut self) -> Option<(Extent, u64)> {
        let next = if self.has_place() { self.waiting.pop_front() } else { None };
        self.in_flight += u32::from(next.is_some());
        next
    }

    /// A write is done; returns whether it was the last one.
    pub fn done(&mut self) -> bool {
        self.in_flight -= 1;
        self.in_flight == 0 && self.waiting.is_empty()
    }

    /// Whether nothing waits, so that there is time for more.
    pub fn is_ready(&self) -> bool {
        self.waiting.is_empty() && self.has_place()
    }

    fn has_place(&self) -> bool {
        self.in_flight < self.requests
    }
}
