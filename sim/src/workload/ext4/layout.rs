//! Where everything lies on the device.
//!
//! ```text
//!  | super | descriptors | block bitmaps | inode bitmaps | inode tables | journal | data ........................ |
//!  one of each for every group, all at the beginning: packed_meta_blocks
//! ```
//!
//! In this order `misc/mke2fs.c:packed_allocate_tables` lays them out. Groups whose blocks all of this takes have none free.

use core::ops::Range;

use super::options::{BLOCK_BYTES, Format};

/// Blocks of a group: what one bitmap block of 4 KiB describes.
pub const GROUP_BLOCKS: u64 = 8 * BLOCK_BYTES;
/// Bytes of a group descriptor with the 64-bit feature.
const DESCRIPTOR_BYTES: u64 = 64;

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first one.
    pub start: u64,
    /// How many.
    pub blocks: u32,
}

/// A file system on a device.
#[derive(Clone, Debug)]
pub struct Layout {
    blocks: u64,
    /// Block groups.
    pub groups: u32,
    flex: u32,
    inodes_per_group: u32,
    inode_bytes: u64,
    bitmaps: u64,
    tables: u64,
    /// The journal; its first block is its superblock.
    pub journal: Range<u64>,
}

impl Layout {
    /// The layout on a device of `blocks`; `None` if no data would fit behind the metadata.
    pub fn new(blocks: u64, format: &Format) -> Option<Self> {
        let groups = u32::try_from(blocks.div_ceil(GROUP_BLOCKS)).ok()?;
        let per_block = BLOCK_BYTES / format.inode_bytes;
        let inodes = (GROUP_BLOCKS * BLOCK_BYTES / format.inode_ratio).next_multiple_of(per_block);
        let bitmaps = 1 + (u64::from(groups) * DESCRIPTOR_BYTES).div_ceil(BLOCK_BYTES);
        let tables = bitmaps + 2 * u64::from(groups);
        let journal = tables + u64::from(groups) * inodes / per_block;
        let layout = Self {
            blocks,
            groups,
            flex: format.flex_groups.max(1),
            inodes_per_group: inodes as u32,
            inode_bytes: format.inode_bytes,
            bitmaps,
            tables,
            journal: journal..journal + format.journal_blocks,
        };
        (layout.journal.end + GROUP_BLOCKS <= blocks).then_some(layout)
    }

    /// Flex groups.
    pub fn flexes(&self) -> u32 {
        self.groups.div_ceil(self.flex)
    }

    /// The groups of a flex group.
    pub fn groups_of(&self, flex: u32) -> Range<u32> {
        flex * self.flex..((flex + 1) * self.flex).min(self.groups)
    }

    /// Inodes of a flex group.
    pub fn inodes_of(&self, flex: u32) -> u32 {
        self.groups_of(flex).len() as u32 * self.inodes_per_group
    }

    /// The first block of `group`.
    pub fn start_of(&self, group: u32) -> u64 {
        u64::from(group) * GROUP_BLOCKS
    }

    /// The blocks of `group` that are not metadata's.
    pub fn room_of(&self, group: u32) -> Range<u64> {
        let start = self.start_of(group);
        let end = (start + GROUP_BLOCKS).min(self.blocks);
        let first = self.backup_in(group).map_or(start, |backup| backup.start + u64::from(backup.blocks));
        self.journal.end.max(first).clamp(start, end)..end
    }

    /// The superblock and the descriptors.
    pub fn super_blocks(&self) -> Extent {
        Extent { start: 0, blocks: self.bitmaps as u32 }
    }

    /// The backup of these in `group`: the powers of 3, 5 and 7 have one (`ext4_bg_has_super`, `sparse_super`). Those that would
    /// lie among the packed metadata are left out.
    pub fn backup_in(&self, group: u32) -> Option<Extent> {
        let is_power_of = |base: u32| {
            let mut power = base;
            while power < group {
                power = power.saturating_mul(base);
            }
            power == group
        };
        let has_backup = [3, 5, 7].into_iter().any(is_power_of);
        let (start, blocks) = (self.start_of(group), self.super_blocks().blocks);
        let fits = start >= self.journal.end && start + u64::from(blocks) < self.blocks;
        (has_backup && fits && u64::from(blocks) < GROUP_BLOCKS).then_some(Extent { start, blocks })
    }

    /// What mkfs writes before the file system is mounted: superblocks with their descriptors, and zeroes over the journal.
    ///
    /// Inode tables stay as they are (`lazy_itable_init`), and so do the bitmaps of groups in which nothing is (`uninit_bg`).
    pub fn of_mkfs(&self) -> impl Iterator<Item = Extent> {
        let Range { start, end } = self.journal;
        let backups = (0..self.groups).filter_map(|group| self.backup_in(group));
        [self.super_blocks(), Extent { start, blocks: (end - start) as u32 }].into_iter().chain(backups)
    }

    /// The block of the descriptor of `group`.
    pub fn descriptor(&self, group: u32) -> u64 {
        1 + u64::from(group) * DESCRIPTOR_BYTES / BLOCK_BYTES
    }

    /// The block bitmap of `group`.
    pub fn block_bitmap(&self, group: u32) -> u64 {
        self.bitmaps + u64::from(group)
    }

    /// The inode bitmap of `group`.
    pub fn inode_bitmap(&self, group: u32) -> u64 {
        self.bitmaps + u64::from(self.groups) + u64::from(group)
    }

    /// The group and the block of inode `number` of those of a flex group.
    pub fn inode(&self, flex: u32, number: u32) -> (u32, u64) {
        let group = flex * self.flex + number / self.inodes_per_group;
        let per_block = (BLOCK_BYTES / self.inode_bytes) as u32;
        let table = self.tables + u64::from(group) * u64::from(self.inodes_per_group / per_block);
        (group, table + u64::from(number % self.inodes_per_group / per_block))
    }

    /// Where the data of a regular file whose inode is in `group` is wanted: the first group of a flex group is for
    /// directories (`fs/ext4/balloc.c:ext4_inode_to_goal_block`).
    pub fn goal_of_file(&self, group: u32) -> u32 {
        let first = group / self.flex * self.flex;
        if self.flex < 4 || first + 1 >= self.groups { group } else { first + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ext4::Ext4Options;
    use alloc::vec::Vec;

    /// 15 TB, as its drive has it.
    const BLOCKS: u64 = 55_880 * 65_536;

    /// Powers of 3, 5 and 7 behind the metadata, which takes the first 900 groups.
    const BACKUPS: [u64; 9] = [2187, 2401, 3125, 6561, 15_625, 16_807, 19_683, 59_049, 78_125];

    fn layout() -> Layout {
        Layout::new(BLOCKS, &Ext4Options::default().format).unwrap()
    }

    #[test]
    fn all_static_metadata_lies_at_the_beginning_and_nothing_twice() {
        let layout = layout();
        let last = layout.groups - 1;
        let of = |group: u32| {
            let flex = group / 16;
            let inode = group % 16 * layout.inodes_per_group;
            [
                layout.descriptor(group),
                layout.block_bitmap(group),
                layout.inode_bitmap(group),
                layout.inode(flex, inode).1,
            ]
        };
        let ([d0, b0, i0, t0], [d1, b1, i1, t1]) = (of(0), of(last));
        assert!(0 < d0 && d1 < b0 && b1 < i0 && i1 < t0 && t1 < layout.journal.start, "{layout:?}");
        let room: u64 = (0..layout.groups).map(|g| layout.room_of(g)).map(|room| room.end - room.start).sum();
        let backups: Vec<Extent> = (0..layout.groups).filter_map(|group| layout.backup_in(group)).collect();
        assert_eq!(backups.iter().map(|backup| backup.start / GROUP_BLOCKS).collect::<Vec<_>>(), BACKUPS);
        let backups: u64 = backups.iter().map(|backup| u64::from(backup.blocks)).sum();
        assert_eq!(room + backups, BLOCKS - layout.journal.end);
    }

    #[test]
    fn inode_tables_of_a_large_disk_take_as_much_as_mke2fs_gives_them() {
        let layout = layout();
        assert_eq!(layout.inodes_per_group, 4096, "128 MiB for each group, one inode for 32 KiB");
        let (_, first) = layout.inode(0, 0);
        assert_eq!(layout.inode(0, 15), (0, first), "16 inodes of 256 bytes a block");
        assert_eq!(layout.inode(0, 16), (0, first + 1));
        assert_eq!(layout.inode(0, 4096), (1, first + 256));
        assert_eq!(layout.inode(1, 0), (16, first + 16 * 256));
    }

    #[test]
    fn data_of_files_is_wanted_behind_the_group_of_directories() {
        let goals: Vec<u32> = [0, 15, 16, 31].map(|group| layout().goal_of_file(group)).into();
        assert_eq!(goals, [1, 1, 17, 17]);
    }

    #[test]
    fn a_device_that_metadata_would_fill_has_no_layout() {
        let format = Ext4Options::default().format;
        assert!(Layout::new(format.journal_blocks, &format).is_none());
        assert!(Layout::new(format.journal_blocks + 2 * GROUP_BLOCKS, &format).is_some());
    }
}
