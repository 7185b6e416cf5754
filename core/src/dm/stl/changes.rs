//! Changes of users that are in no batch yet. What is written in order is kept apart, where that goes to zones of its own: it dies together, and
//! cleaning finds zones of it empty.

use alloc::collections::VecDeque;

use super::policy::Writers;
use super::{BLOCK_SECTORS, Lba};
use crate::block::Payload;
use crate::prelude::*;

/// A change of a user that is not in a batch yet, or not all of it.
#[derive(Debug)]
pub(super) struct Change {
    /// Whose it is.
    pub key: usize,
    pub lba: Lba,
    pub blocks: u32,
    /// The data of these blocks; none of zeroes.
    pub payload: Payload,
    /// How many came before it.
    number: u64,
}

impl Change {
    pub fn new(key: usize, lba: Lba, blocks: u32, payload: Payload) -> Self {
        Self { key, lba, blocks, payload, number: 0 }
    }

    pub fn has_data(&self) -> bool {
        !matches!(self.payload, Payload::None)
    }

    /// Its first blocks; it keeps the others.
    fn split_off_first(&mut self, blocks: u32) -> Self {
        let (rest, payload) = (self.blocks - blocks, self.payload.slice(0, blocks * BLOCK_SECTORS));
        let first = Self { blocks, payload, ..*self };
        self.payload = self.payload.slice(blocks * BLOCK_SECTORS, rest * BLOCK_SECTORS);
        (self.lba, self.blocks) = (self.lba + u64::from(blocks), rest);
        first
    }

    fn data_blocks(&self) -> u64 {
        if self.has_data() { self.blocks.into() } else { 0 }
    }
}

/// Which changes share batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All, or all but those in order.
    Any,
    /// What is written in order.
    InOrder,
}

/// Changes of a kind, in the order in which they came.
#[derive(Debug, Default)]
struct Queue {
    changes: VecDeque<Change>,
    /// Blocks of data in them.
    blocks: u64,
}

/// Those that wait. None of them was acknowledged: they may become batches in any order.
#[derive(Debug, Default)]
pub(super) struct Changes {
    queues: [Queue; 2],
    /// How many have come.
    count: u64,
    /// Who writes in order, and from how many blocks in a row on, if that is told apart.
    writers: Option<(Writers, u32)>,
}

impl Changes {
    /// From how many blocks in a row on what is written in order is told apart from now on.
    pub fn tell_apart(&mut self, least: Option<u32>) {
        self.writers = least.map(|least| (Writers::default(), least));
    }

    pub fn put(&mut self, change: Change) {
        let queue = &mut self.queues[self.kind_of(&change) as usize];
        queue.blocks += change.data_blocks();
        queue.changes.push_back(Change { number: self.count, ..change });
        self.count += 1;
    }

    fn kind_of(&mut self, change: &Change) -> Kind {
        let in_a_row = |(writers, least): &mut (Writers, u32)| {
            writers.write(change.lba, change.blocks.into()) >= u64::from(*least)
        };
        if change.has_data() && self.writers.as_mut().is_some_and(in_a_row) { Kind::InOrder } else { Kind::Any }
    }

    /// The number of the change that came last.
    pub fn newest(&self) -> u64 {
        self.count
    }

    /// Takes all changes up to the one with the number `newest`.
    pub fn take_up_to(&mut self, newest: u64) -> Vec<Change> {
        let mut taken = Vec::new();
        for kind in [Kind::Any, Kind::InOrder] {
            while self.front(kind).is_some_and(|change| change.number < newest) {
                taken.extend(self.take(kind, u32::MAX));
            }
        }
        taken
    }

    pub fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.changes.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.changes.is_empty())
    }

    /// Whether there are so many blocks of data of one kind.
    pub fn has(&self, blocks: u32) -> bool {
        [Kind::Any, Kind::InOrder].into_iter().any(|kind| self.has_of(kind, blocks))
    }

    pub fn has_of(&self, kind: Kind, blocks: u32) -> bool {
        self.queues[kind as usize].blocks >= blocks.into()
    }

    /// Kinds of which some wait, and first that of which one has waited longest.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + use<> {
        let first = |kind: Kind| self.front(kind).map(|change| (change.number, kind));
        let mut waiting = [Kind::Any, Kind::InOrder].map(first);
        waiting.sort_unstable_by_key(|first| first.map(|(number, _)| number));
        waiting.into_iter().flatten().map(|(_, kind)| kind)
    }

    /// The first of a kind.
    pub fn front(&self, kind: Kind) -> Option<&Change> {
        self.queues[kind as usize].changes.front()
    }

    /// Takes so many blocks of the first of a kind, or all of it.
    pub fn take(&mut self, kind: Kind, blocks: u32) -> Option<Change> {
        let Queue { changes, blocks: data_blocks } = &mut self.queues[kind as usize];
        let first = changes.front_mut()?;
        let taken = if blocks < first.blocks { first.split_off_first(blocks) } else { changes.pop_front()? };
        *data_blocks -= taken.data_blocks();
        Some(taken)
    }
}

/// All of them.
impl IntoIterator for Changes {
    type Item = Change;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<VecDeque<Change>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        self.queues.map(|queue| queue.changes).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Data;
    use std::vec::Vec;

    fn change(key: usize, lba: u64, blocks: u32) -> Change {
        Change::new(key, Lba(lba), blocks, Payload::Data(Data::zeroed(blocks as usize * 4096)))
    }

    fn taken(changes: &mut Changes, kind: Kind) -> Vec<usize> {
        core::iter::from_fn(|| changes.take(kind, u32::MAX)).map(|change| change.key).collect()
    }

    #[test]
    fn what_is_written_in_order_is_kept_apart_when_it_is_long_and_only_where_that_is_told() {
        for is_told in [false, true] {
            let mut changes = Changes::default();
            changes.tell_apart(is_told.then_some(256));
            for key in 0..10 {
                changes.put(change(key, key as u64 * 64, 64));
                changes.put(change(100 + key, 1 << (20 + key), 1));
            }
            changes.put(Change::new(200, Lba(640), 64, Payload::None));
            let in_order = if is_told { vec![3, 4, 5, 6, 7, 8, 9] } else { vec![] };
            assert_eq!(taken(&mut changes, Kind::InOrder), in_order);
            assert_eq!((taken(&mut changes, Kind::Any).len(), changes.len()), (21 - in_order.len(), 0));
        }
    }

    #[test]
    fn the_kind_of_which_one_has_waited_longest_comes_first() {
        let mut changes = Changes::default();
        changes.tell_apart(Some(256));
        assert!(changes.is_empty() && changes.kinds().next().is_none());
        changes.put(change(0, 0, 300));
        assert!(changes.kinds().eq([Kind::InOrder]));
        changes.put(change(1, 5000, 1));
        assert!(changes.kinds().eq([Kind::InOrder, Kind::Any]));
        assert_eq!(changes.take(Kind::InOrder, 256).map(|change| change.blocks), Some(256));
        assert!(changes.kinds().eq([Kind::InOrder, Kind::Any]), "its rest has waited as long");
        changes.take(Kind::InOrder, 256);
        changes.put(change(2, 300, 300));
        assert!(changes.kinds().eq([Kind::Any, Kind::InOrder]));
        assert_eq!([1, 2, 300].map(|blocks| changes.has(blocks)), [true; 3]);
        assert_eq!(
            [changes.has_of(Kind::Any, 1), changes.has_of(Kind::Any, 2), changes.has(301)],
            [true, false, false]
        );
    }

    #[test]
    fn a_change_is_taken_in_parts_that_lie_where_it_did() {
        let mut changes = Changes::default();
        changes.put(change(7, 10, 5));
        let parts = [2, 2, 2].map(|blocks| changes.take(Kind::Any, blocks).unwrap());
        let parts = parts.map(|part| (part.key, part.lba.0, part.blocks, part.payload.bytes()));
        assert_eq!(parts, [(7, 10, 2, 8192), (7, 12, 2, 8192), (7, 14, 1, 4096)]);
        assert!(changes.take(Kind::Any, 1).is_none() && !changes.has(1));
    }
}
