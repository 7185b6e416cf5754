//! Bios that wait, in FIFO lists over one shared store, and the slots of the zones they wait for.
//!
//! Lists are linked through one growing array of nodes, so a list costs 12 bytes and moving bios between lists, or zones
//! in and out of activity, allocates nothing once the array has grown to the most bios that ever waited.

use crate::block::Bio;
use crate::prelude::*;
use crate::zone::ZoneNo;

const NIL: u32 = u32::MAX;

/// A FIFO of bios in [`Nodes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    pub(super) const EMPTY: List = List { head: NIL, tail: NIL, len: 0 };

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

struct Node {
    bio: Option<Box<Bio>>,
    next: u32,
}

/// The nodes behind all lists.
pub(super) struct Nodes {
    nodes: Vec<Node>,
    free: u32,
}

impl Nodes {
    pub(super) fn with_capacity(bios: usize) -> Self {
        Self { nodes: Vec::with_capacity(bios), free: NIL }
    }

    pub(super) fn push(&mut self, list: &mut List, bio: Box<Bio>) {
        let node = self.allocate(bio);
        match list.tail {
            NIL => list.head = node,
            tail => self.nodes[tail as usize].next = node,
        }
        list.tail = node;
        list.len += 1;
    }

    pub(super) fn pop(&mut self, list: &mut List) -> Option<Box<Bio>> {
        if list.head == NIL {
            return None;
        }
        let index = list.head;
        let node = &mut self.nodes[index as usize];
        list.head = node.next;
        node.next = self.free;
        self.free = index;
        list.len -= 1;
        if list.head == NIL {
            list.tail = NIL;
        }
        node.bio.take()
    }

    pub(super) fn front(&self, list: &List) -> Option<&Bio> {
        self.nodes.get(list.head as usize)?.bio.as_deref()
    }

    pub(super) fn back(&self, list: &List) -> Option<&Bio> {
        self.nodes.get(list.tail as usize)?.bio.as_deref()
    }

    pub(super) fn iter(&self, list: &List) -> impl Iterator<Item = &Bio> {
        let mut at = list.head;
        core::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.next;
            node.bio.as_deref()
        })
    }

    fn allocate(&mut self, bio: Box<Bio>) -> u32 {
        if self.free == NIL {
            self.nodes.push(Node { bio: Some(bio), next: NIL });
            return (self.nodes.len() - 1) as u32;
        }
        let index = self.free;
        let node = &mut self.nodes[index as usize];
        self.free = node.next;
        (node.bio, node.next) = (Some(bio), NIL);
        index
    }
}

/// What a zone needs only while something waits in it or rides along.
pub(super) struct Slot {
    pub(super) zone: ZoneNo,
    /// Bios that wait for the zone, in arrival order.
    pub(super) waiting: List,
    /// How long they are together.
    pub(super) sectors: u64,
    /// Bios that were merged into the write in flight.
    pub(super) riding: List,
    /// Native appends in flight: the zone takes many at once, but no write beside them.
    pub(super) appends: u32,
    /// What its waiting bios wait for.
    pub(super) waits_for: WaitsFor,
}

/// What the bios that wait in a zone wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// The zone's own command, or its native appends, to complete.
    InFlight,
    /// The zone's turn at the disk.
    Listed,
    /// More of them, or a timer.
    Held {
        /// The hold that the timer ends.
        number: u32,
        /// Waiting bios that end it.
        target: u32,
    },
}

impl Slot {
    pub(super) fn new(zone: ZoneNo) -> Self {
        Self { zone, waiting: List::EMPTY, sectors: 0, riding: List::EMPTY, appends: 0, waits_for: WaitsFor::InFlight }
    }

    pub(super) fn is_unused(&self) -> bool {
        self.waiting.is_empty() && self.riding.is_empty() && self.appends == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Op, Payload};
    use crate::sector::Sector;

    fn bio(n: u64) -> Box<Bio> {
        Box::new(Bio::new(Op::Write, Sector(n), 1, Payload::None))
    }

    #[test]
    fn lists_are_first_in_first_out_and_share_their_nodes() {
        let mut nodes = Nodes::with_capacity(4);
        let (mut a, mut b) = (List::EMPTY, List::EMPTY);
        for round in 0..3 {
            (0..4).for_each(|n| nodes.push(if n % 2 == 0 { &mut a } else { &mut b }, bio(round * 10 + n)));
            assert_eq!((a.len(), b.len()), (2, 2));
            assert_eq!(nodes.front(&a).unwrap().sector, Sector(round * 10));
            assert_eq!(nodes.iter(&b).map(|bio| bio.sector.0 % 10).collect::<Vec<_>>(), [1, 3]);
            for n in 0..4 {
                let list = if n % 2 == 0 { &mut a } else { &mut b };
                assert_eq!(nodes.pop(list).unwrap().sector, Sector(round * 10 + n));
            }
            assert!(nodes.pop(&mut a).is_none() && b.is_empty());
        }
        assert_eq!(nodes.nodes.len(), 4, "nodes are reused");
    }
}
