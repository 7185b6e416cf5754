//! What lies near each other on a disk is read at once: to read the gap takes less time than to skip it.

use super::Pba;
use crate::prelude::*;

/// Blocks in a row that are read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub start: Pba,
    pub end: Pba,
}

/// How far gaps are read.
pub(super) struct Gaps<F> {
    /// Most blocks of one, by where it begins.
    pub most: F,
    /// Most blocks of all.
    pub all: u64,
    /// Most blocks of a group of several.
    pub group: u64,
}

impl Group {
    pub fn blocks(&self) -> u64 {
        self.end - self.start
    }
}

impl<F: Fn(Pba) -> u64> Gaps<F> {
    /// Groups of parts, each given by where it begins and how many blocks it has. None goes from one zone to another.
    pub fn groups(mut self, mut parts: Vec<(Pba, u64)>, zone_blocks: u32) -> Vec<Group> {
        let zone = |place: Pba| place.0 / u64::from(zone_blocks);
        parts.sort_unstable();
        let mut groups: Vec<Group> = Vec::new();
        for (start, blocks) in parts {
            let end = start + blocks;
            let joins = |group: &Group| {
                let is_near = start - group.end <= (self.most)(group.end).min(self.all);
                is_near && zone(group.start) == zone(start) && end - group.start <= self.group
            };
            match groups.last_mut() {
                Some(group) if joins(group) => {
                    self.all -= start - group.end;
                    group.end = end;
                }
                _ => groups.push(Group { start, end }),
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(parts: &[(u64, u64)], all: u64, group: u64) -> Vec<(u64, u64)> {
        let gaps = Gaps { most: |place: Pba| if place < Pba(4000) { 60 } else { 5 }, all, group };
        let parts = parts.iter().map(|(start, blocks)| (Pba(*start), *blocks)).collect();
        gaps.groups(parts, 1000).iter().map(|group| (group.start.0, group.end.0)).collect()
    }

    #[test]
    fn parts_that_lie_near_each_other_in_one_zone_are_one_group() {
        let parts = [(500, 49), (100, 2), (102, 3), (160, 1), (990, 1), (1000, 1), (4500, 1), (4510, 1), (4514, 2)];
        let groups = [(100, 161), (500, 549), (990, 991), (1000, 1001), (4500, 4501), (4510, 4516)];
        assert_eq!(found(&parts, 1000, 1000), groups);
    }

    #[test]
    fn no_more_is_read_of_gaps_and_at_once_than_may_be() {
        let parts: Vec<(u64, u64)> = (0..16).map(|n| (n * 60, 2)).collect();
        let blocks = |groups: &[(u64, u64)]| groups.iter().map(|(start, end)| end - start).sum::<u64>();
        assert_eq!(blocks(&found(&parts, 200, 1000)), 16 * 2 + 3 * 58);
        let groups = found(&parts, 1000, 200);
        assert_eq!((groups.len(), blocks(&groups)), (4, 4 * 182));
        assert_eq!(found(&[(0, 300), (300, 1)], 1000, 200), [(0, 300), (300, 301)]);
    }
}
