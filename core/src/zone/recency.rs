//! Zones in the order in which they were last used: a list inside of a vector that grows to the most that were ever in it.

use super::ZoneNo;
use crate::prelude::*;

const NONE: u32 = u32::MAX;

#[derive(Clone)]
struct Node {
    zone: ZoneNo,
    older: u32,
    newer: u32,
}

/// The list. A zone in it is known by its slot, which its owner remembers.
#[derive(Clone)]
pub(super) struct Recency {
    nodes: Vec<Node>,
    oldest: u32,
    newest: u32,
    /// Unused nodes, linked by `newer`.
    free: u32,
}

impl Recency {
    pub fn new() -> Self {
        Self { nodes: Vec::new(), oldest: NONE, newest: NONE, free: NONE }
    }

    /// The zone that was used the longest time ago.
    pub fn oldest(&self) -> Option<ZoneNo> {
        self.nodes.get(self.oldest as usize).map(|node| node.zone)
    }

    /// Adds `zone` as the newest; returns its slot.
    pub fn add(&mut self, zone: ZoneNo) -> u32 {
        let slot = match self.free {
            NONE => {
                self.nodes.push(Node { zone, older: NONE, newer: NONE });
                self.nodes.len() as u32 - 1
            }
            slot => {
                self.free = self.nodes[slot as usize].newer;
                self.nodes[slot as usize].zone = zone;
                slot
            }
        };
        self.link_newest(slot);
        slot
    }

    /// Makes the zone in `slot` the newest.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link_newest(slot);
        }
    }

    /// Takes the zone in `slot` out.
    pub fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        self.nodes[slot as usize].newer = self.free;
        self.free = slot;
    }

    fn link_newest(&mut self, slot: u32) {
        let older = core::mem::replace(&mut self.newest, slot);
        let node = &mut self.nodes[slot as usize];
        (node.older, node.newer) = (older, NONE);
        match older {
            NONE => self.oldest = slot,
            older => self.nodes[older as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Node { older, newer, .. } = self.nodes[slot as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_that_was_not_touched_and_slots_are_used_again() {
        let mut list = Recency::new();
        let slots: Vec<u32> = (10..14).map(|n| list.add(ZoneNo(n))).collect();
        list.touch(slots[0]);
        assert_eq!(list.oldest(), Some(ZoneNo(11)));
        list.remove(slots[1]);
        list.remove(slots[3]);
        assert_eq!(list.oldest(), Some(ZoneNo(12)));
        list.remove(slots[2]);
        assert_eq!(list.oldest(), Some(ZoneNo(10)));
        list.remove(slots[0]);
        assert_eq!(list.oldest(), None);
        (20..24).for_each(|n| assert!(list.add(ZoneNo(n)) < 4, "a free slot was not used"));
        assert_eq!(list.oldest(), Some(ZoneNo(20)));
    }
}
