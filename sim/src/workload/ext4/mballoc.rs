//! Blocks: which of them a file gets when it is written back.
//!
//! Allocation is delayed until then, so the length is known and a file lies in one piece as long as any group has one that
//! is long enough. The search begins at the goal's group and goes up (`fs/ext4/mballoc.c:ext4_mb_regular_allocator`, second
//! criterion: a group whose free space is in pieces of at least the wanted length). Nothing is ever freed here, so what is
//! free in a group is one piece: its end.
//!
//! The goal is the directory's group for a file that nobody writes to any more (`ext4_mb_group_or_file`: it needs no
//! preallocation). A file that is still open goes on where the last such file ended, a *stream*; or, if it is small, into a
//! preallocated piece that small files share, a *locality group*.

use alloc::vec::Vec;

use super::layout::{Extent, GROUP_BLOCKS, Layout};

/// Up to so many blocks an open file is small (`MB_DEFAULT_STREAM_THRESHOLD`).
const SMALL: u32 = 16;
/// Blocks that a locality group takes at a time (`MB_DEFAULT_GROUP_PREALLOC`).
const LOCALITY: u32 = 512;

/// The blocks of each group.
pub struct Allocator {
    /// First free block of each group and its end.
    rooms: Vec<(u64, u64)>,
    flex: u32,
    /// Free blocks.
    pub free: u64,
    /// The group in which the last stream ended.
    stream: Option<u32>,
    /// What is left of the piece that small files share.
    locality: Extent,
}

impl Allocator {
    /// All blocks behind the metadata of `layout` are free.
    pub fn new(layout: &Layout) -> Self {
        let room = |group| layout.room_of(group);
        let rooms: Vec<_> = (0..layout.groups).map(|group| (room(group).start, room(group).end)).collect();
        let free = rooms.iter().map(|(start, end)| end - start).sum();
        let flex = layout.groups_of(0).len() as u32;
        Self { rooms, flex, free, stream: None, locality: Extent { start: 0, blocks: 0 } }
    }

    /// Free blocks of a flex group.
    pub fn free_in(&self, flex: u32) -> u64 {
        let first = (flex * self.flex) as usize;
        let last = (first + self.flex as usize).min(self.rooms.len());
        self.rooms[first..last].iter().map(|(start, end)| end - start).sum()
    }

    /// `blocks` for a file that was closed, from the group `goal` on, in as few pieces as there can be; `None` if there are
    /// not so many.
    pub fn take(&mut self, goal: u32, blocks: u32) -> Option<Vec<Extent>> {
        if self.free < u64::from(blocks) {
            return None;
        }
        let count = self.rooms.len();
        let groups = (goal as usize..count).chain(0..goal as usize);
        let whole = groups.clone().find(|group| self.room(*group) >= u64::from(blocks));
        if let Some(group) = whole {
            return Some([self.cut(group, blocks)].into());
        }
        let (mut pieces, mut left) = (Vec::new(), blocks);
        for group in groups {
            let part = u64::from(left).min(self.room(group)) as u32;
            if part > 0 {
                pieces.push(self.cut(group, part));
                left -= part;
            }
        }
        Some(pieces)
    }

    /// `blocks` for a file that is still open, whose directory is in `goal`.
    pub fn take_open(&mut self, goal: u32, blocks: u32) -> Option<Vec<Extent>> {
        if blocks > SMALL {
            let pieces = self.take(self.stream.unwrap_or(goal), blocks)?;
            self.stream = pieces.last().map(|piece| (piece.start / GROUP_BLOCKS) as u32);
            return Some(pieces);
        }
        if self.locality.blocks < blocks {
            // The rest of the old piece is small change, which no file gets any more.
            let room = u64::from(LOCALITY).min(self.free) as u32;
            self.locality = *self.take(goal, room)?.first()?;
        }
        let Extent { start, blocks: left } = self.locality;
        let taken = blocks.min(left);
        self.locality = Extent { start: start + u64::from(taken), blocks: left - taken };
        (taken == blocks).then(|| [Extent { start, blocks }].into())
    }

    fn room(&self, group: usize) -> u64 {
        self.rooms[group].1 - self.rooms[group].0
    }

    fn cut(&mut self, group: usize, blocks: u32) -> Extent {
        let start = self.rooms[group].0;
        self.rooms[group].0 += u64::from(blocks);
        self.free -= u64::from(blocks);
        Extent { start, blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ext4::Ext4Options;

    fn allocator() -> Allocator {
        Allocator::new(&Layout::new(1 << 22, &Ext4Options::default().format).unwrap())
    }

    #[test]
    fn a_file_is_written_in_one_piece_behind_the_file_before() {
        let mut allocator = allocator();
        let first = allocator.take(20, 1000).unwrap();
        let second = allocator.take(20, 300).unwrap();
        assert_eq!(first, [Extent { start: 20 * GROUP_BLOCKS, blocks: 1000 }]);
        assert_eq!(second, [Extent { start: 20 * GROUP_BLOCKS + 1000, blocks: 300 }]);
    }

    #[test]
    fn a_file_that_does_not_fit_goes_to_the_next_group_in_one_piece() {
        let mut allocator = allocator();
        allocator.take(20, GROUP_BLOCKS as u32 - 10).unwrap();
        assert_eq!(allocator.take(20, 11).unwrap(), [Extent { start: 21 * GROUP_BLOCKS, blocks: 11 }]);
        assert_eq!(allocator.take(20, 10).unwrap(), [Extent { start: 21 * GROUP_BLOCKS - 10, blocks: 10 }]);
    }

    #[test]
    fn the_last_blocks_are_given_in_pieces_and_then_none() {
        let mut allocator = allocator();
        let groups = allocator.rooms.len() as u32;
        (0..groups).for_each(|group| {
            let room = allocator.room(group as usize);
            allocator.take(group, room.saturating_sub(3) as u32).unwrap();
        });
        let free = allocator.free;
        let pieces = allocator.take(5, free as u32).unwrap();
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.blocks <= 3), "{pieces:?}");
        assert_eq!(pieces.iter().map(|piece| u64::from(piece.blocks)).sum::<u64>(), free);
        assert_eq!(allocator.take(5, 1), None);
    }

    #[test]
    fn open_files_follow_each_other_wherever_their_directories_are() {
        let mut allocator = allocator();
        let first = allocator.take_open(20, 1000).unwrap()[0];
        assert_eq!(allocator.take_open(90, 1000).unwrap()[0].start, first.start + 1000);
    }

    #[test]
    fn small_open_files_share_a_piece() {
        let mut allocator = allocator();
        let starts: Vec<u64> = (0..33).map(|n| allocator.take_open(20 + n, 16).unwrap()[0].start).collect();
        assert!(starts[..32].windows(2).all(|pair| pair[1] == pair[0] + 16), "{starts:?}");
        assert_eq!(starts[32], 52 * GROUP_BLOCKS, "512 blocks hold 32 files of 16");
    }
}
