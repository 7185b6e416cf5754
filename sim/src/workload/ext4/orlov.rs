//! Where a new directory goes: Orlov's rule for directories of the top level, which spreads them over the device.
//!
//! The search begins at a flex group drawn at random and takes, of those with at least the average of free inodes and blocks,
//! the first one with the fewest directories (`fs/ext4/ialloc.c:find_group_orlov`).

use alloc::vec;
use alloc::vec::Vec;

use super::layout::Layout;
use shingle_core::random::Rng;

/// The inodes of each flex group.
pub struct Inodes {
    flexes: Vec<Flex>,
    free: u64,
}

#[derive(Clone, Copy)]
struct Flex {
    directories: u32,
    used: u32,
    inodes: u32,
}

/// An inode, as far as the journal and the allocator have to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its group.
    pub group: u32,
    /// The block of the inode table that it is in.
    pub block: u64,
}

impl Inodes {
    /// All inodes of `layout` are free.
    pub fn new(layout: &Layout) -> Self {
        let mut flexes = vec![Flex { directories: 0, used: 0, inodes: 0 }; layout.flexes() as usize];
        for (flex, number) in flexes.iter_mut().zip(0..) {
            flex.inodes = layout.inodes_of(number);
        }
        let free = flexes.iter().map(|flex| u64::from(flex.inodes)).sum();
        Self { flexes, free }
    }

    /// The flex group of a new directory; `free_blocks` tells what a flex group has, `all_free` what all have together. `None`
    /// if no inode is free.
    pub fn choose_flex(&self, rng: &mut Rng, (free_blocks, all_free): (impl Fn(u32) -> u64, u64)) -> Option<u32> {
        let count = self.flexes.len();
        let from = rng.below(count as u64) as usize;
        let (inodes, blocks) = (self.free / count as u64, all_free / count as u64);
        let mut best: Option<(u32, u32)> = None;
        for number in (from..count).chain(0..from) {
            let flex = self.flexes[number];
            let is_better = best.is_none_or(|(_, directories)| flex.directories < directories);
            if is_better && flex.free() > 0 && u64::from(flex.free()) >= inodes && free_blocks(number as u32) >= blocks
            {
                best = Some((number as u32, flex.directories));
                if flex.directories == 0 {
                    break;
                }
            }
        }
        let any = || (0..count).find(|number| self.flexes[*number].free() > 0).map(|number| number as u32);
        best.map(|(number, _)| number).or_else(any)
    }

    /// Takes the first free inode of `flex` or, if it has none, of the next that has.
    pub fn take(&mut self, flex: u32, is_directory: bool, layout: &Layout) -> Option<Inode> {
        let count = self.flexes.len();
        let mut from = (flex as usize..count).chain(0..flex as usize);
        let number = from.find(|number| self.flexes[*number].free() > 0)?;
        let flex = &mut self.flexes[number];
        let (group, block) = layout.inode(number as u32, flex.used);
        flex.used += 1;
        flex.directories += u32::from(is_directory);
        self.free -= 1;
        Some(Inode { group, block })
    }
}

impl Flex {
    fn free(&self) -> u32 {
        self.inodes - self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ext4::Ext4Options;
    use alloc::collections::BTreeSet;

    #[test]
    fn new_directories_go_to_flex_groups_without_one_until_all_have_one() {
        let layout = Layout::new(1 << 24, &Ext4Options::default().format).unwrap();
        let (mut inodes, mut rng) = (Inodes::new(&layout), Rng::new(5));
        let mut taken = BTreeSet::new();
        for _ in 0..layout.flexes() {
            let flex = inodes.choose_flex(&mut rng, (|_| 10, 10)).unwrap();
            assert!(taken.insert(flex), "flex group {flex} got a second directory");
            assert!(layout.groups_of(flex).contains(&inodes.take(flex, true, &layout).unwrap().group));
        }
        assert!(inodes.choose_flex(&mut rng, (|_| 10, 10)).is_some());
    }

    #[test]
    fn a_flex_group_with_less_than_the_average_of_free_blocks_gets_no_directory() {
        let layout = Layout::new(1 << 24, &Ext4Options::default().format).unwrap();
        let (inodes, mut rng) = (Inodes::new(&layout), Rng::new(5));
        let free = |flex: u32| if flex == 3 { 100 } else { 1 };
        let all = 100 * u64::from(layout.flexes());
        assert_eq!(inodes.choose_flex(&mut rng, (free, all)), Some(3));
    }
}
