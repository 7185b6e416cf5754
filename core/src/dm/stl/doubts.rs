//! The blocks of batches that failed and may be on a disk all the same. The volume is read-only from then on; which data these blocks hold is
//! decided by the next start, which finds such a batch or does not. Until then reads of them fail, as older data could turn into newer data.

use core::ops::Range;

use super::Lba;
use super::format::BatchKind;
use crate::prelude::*;

/// The blocks, in any order. The batches that were being written bound the number of ranges.
#[derive(Debug, Default)]
pub(super) struct Doubts(Vec<Range<Lba>>);

impl Doubts {
    /// Adds the blocks that a batch changes.
    pub fn add(&mut self, batch: &BatchKind) {
        if let BatchKind::User(records) = batch {
            self.0.extend(records.iter().map(|record| record.lba..record.lba + u64::from(record.blocks)));
        }
    }

    /// Returns whether the first of `blocks` is in doubt, and the end of the blocks from there on of which the same is true.
    pub fn first_of(&self, blocks: &Range<Lba>) -> (bool, Lba) {
        let around = self.0.iter().find(|doubt| doubt.contains(&blocks.start));
        let next = self.0.iter().map(|doubt| doubt.start).filter(|start| blocks.contains(start)).min();
        match around {
            Some(doubt) => (true, doubt.end.min(blocks.end)),
            None => (false, next.unwrap_or(blocks.end)),
        }
    }

    /// Returns the first of `blocks` that is in doubt, if there is one.
    pub fn find(&self, blocks: &Range<Lba>) -> Option<Lba> {
        match self.first_of(blocks) {
            (true, _) => Some(blocks.start),
            (false, end) => (end < blocks.end).then_some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Written;
    use super::*;

    #[test]
    fn blocks_of_failed_batches_are_in_doubt_and_no_others() {
        let mut doubts = Doubts::default();
        let record = |lba, blocks| Written { lba: Lba(lba), blocks, has_data: true };
        doubts.add(&BatchKind::User(vec![record(8, 4), record(20, 2)]));
        doubts.add(&BatchKind::Filler);
        let first_of = |from, to| doubts.first_of(&(Lba(from)..Lba(to)));
        assert_eq!(first_of(0, 30), (false, Lba(8)));
        assert_eq!(first_of(9, 30), (true, Lba(12)));
        assert_eq!(first_of(9, 10), (true, Lba(10)));
        assert_eq!(first_of(12, 30), (false, Lba(20)));
        assert_eq!(first_of(22, 30), (false, Lba(30)));
        let find = |from, to| doubts.find(&(Lba(from)..Lba(to)));
        assert_eq!(
            [find(0, 8), find(0, 9), find(10, 30), find(12, 20), find(12, 21)].map(|it| it.map(|lba| lba.0)),
            [None, Some(8), Some(10), None, Some(20)]
        );
    }
}
