//! What of the batches that are found after a loss of power counts, as a pure function.

use alloc::collections::BTreeMap;

use super::format::{BatchKind, Header};
use super::map::{Pending, Span};
use super::numbers::{BatchNo, CopyNo, Epoch};
use crate::prelude::*;

/// What the newest root says: the map has all up to these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// The life of the volume that began with this root, or before it.
    pub epoch: Epoch,
    /// The last batch of users.
    pub cut: BatchNo,
    /// The last batch of copies.
    pub copies: CopyNo,
}

impl Since {
    /// Whether a batch is one that the map does not have.
    #[must_use]
    pub fn is_before(&self, header: &Header) -> bool {
        match header.kind {
            BatchKind::User(_) => header.batch.number > self.cut.0,
            BatchKind::Copies(_) => header.batch.number > self.copies.0,
            BatchKind::Map(_) | BatchKind::Root(_) | BatchKind::Footer | BatchKind::Filler => false,
        }
    }
}

/// Does a batch of copies again: a block of it counts if it was not written again since, or if that is what was copied. Returns how many count.
/// `unconditional` is a planted bug.
pub fn apply_copies(pending: &mut Pending, header: &Header, cut: BatchNo, unconditional: bool) -> u32 {
    let BatchKind::Copies(records) = &header.kind else { return 0 };
    let blocks = Header::blocks_of(header.kind.record_bytes(), header.checksums.len()) as u64;
    let mut counts = 0;
    for ((record, checksum), at) in records.iter().zip(&header.checksums).zip(blocks..) {
        let known = pending.find(record.lba);
        let place = known.map(|extent| extent.block((record.lba - extent.lba) as u32).map(|(place, _)| place));
        if unconditional || place.is_none_or(|place| place == Some(record.from)) && record.written <= cut {
            pending.put(Span::at(record.lba, header.batch.place + at, &[*checksum]));
            counts += 1;
        }
    }
    counts
}

/// What is to be done again, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Batches of users, without a gap from the one after the cut.
    pub users: Vec<Header>,
    /// Batches of copies: each of their blocks counts if it was where the copy says.
    pub copies: Vec<Header>,
    /// Batches of users that were found behind a gap: they were never acknowledged as durable, and what comes before them is lost.
    pub behind_gap: usize,
}

impl Replay {
    /// The last batch of users that counts.
    #[must_use]
    pub fn cut(&self, since: &Since) -> BatchNo {
        since.cut + self.users.len() as u64
    }

    /// Chooses from `found`: headers whose payload is there, in any order.
    ///
    /// A batch of another life than the root's counts for nothing: it was void when that began. Of two with one number the later attempt counts, as
    /// the earlier one was given up. `over_gaps` is a planted bug.
    #[must_use]
    pub fn choose(since: &Since, found: Vec<Header>, over_gaps: bool) -> Self {
        let (mut users, mut copies) = (BTreeMap::new(), BTreeMap::new());
        for header in found.into_iter().filter(|header| header.batch.epoch == since.epoch) {
            let number = header.batch.number;
            match header.kind {
                BatchKind::User(_) if BatchNo(number) > since.cut => keep_later(&mut users, header),
                BatchKind::Copies(_) if CopyNo(number) > since.copies => keep_later(&mut copies, header),
                _ => {}
            }
        }
        let all = users.len();
        let follows = |(next, (number, _)): &(u64, (u64, Header))| next == number;
        let dense = (since.cut.0 + 1..).zip(users).take_while(|it| over_gaps || follows(it));
        let users: Vec<Header> = dense.map(|(_, (_, header))| header).collect();
        Self { behind_gap: all - users.len(), users, copies: copies.into_values().collect() }
    }
}

fn keep_later(kept: &mut BTreeMap<u64, Header>, header: Header) {
    let attempt = header.batch.attempt;
    if kept.get(&header.batch.number).is_none_or(|other| other.batch.attempt < attempt) {
        kept.insert(header.batch.number, header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::format::Batch;
    use crate::random::Rng;

    const SINCE: Since = Since { epoch: Epoch(4), cut: BatchNo(10), copies: CopyNo(5) };

    fn header(kind: BatchKind, number: u64, attempt: u32, epoch: u64) -> Header {
        Header { batch: Batch { number, attempt, epoch: Epoch(epoch), ..Batch::default() }, kind, checksums: vec![] }
    }

    fn user(number: u64) -> Header {
        header(BatchKind::User(vec![]), number, 0, SINCE.epoch.0)
    }

    fn copy(number: u64) -> Header {
        header(BatchKind::Copies(vec![]), number, 0, SINCE.epoch.0)
    }

    fn numbers(headers: &[Header]) -> Vec<u64> {
        headers.iter().map(|header| header.batch.number).collect()
    }

    #[test]
    fn users_batches_count_up_to_the_first_that_is_missing_in_whatever_order_they_are_found() {
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let mut found: Vec<Header> = [9, 10, 11, 12, 13, 15, 16].map(user).into();
            (1..found.len()).for_each(|n| found.swap(n, rng.below(n as u64 + 1) as usize));
            let replay = Replay::choose(&SINCE, found, false);
            assert_eq!((numbers(&replay.users), replay.behind_gap), (vec![11, 12, 13], 2));
            assert_eq!(replay.cut(&SINCE), BatchNo(13));
        }
        let nothing = Replay::choose(&SINCE, vec![user(12)], false);
        assert_eq!((nothing.cut(&SINCE), nothing.behind_gap), (SINCE.cut, 1));
    }

    #[test]
    fn copies_count_whether_or_not_one_is_missing_in_their_order() {
        let replay = Replay::choose(&SINCE, [9, 5, 7, 4, 6].map(copy).into(), false);
        assert_eq!(numbers(&replay.copies), [6, 7, 9]);
    }

    #[test]
    fn a_batch_of_another_life_counts_for_nothing() {
        let other = |number, epoch| header(BatchKind::User(vec![]), number, 0, epoch);
        let replay = Replay::choose(&SINCE, vec![user(11), other(12, 3), other(12, 5), other(13, 4)], false);
        assert_eq!(numbers(&replay.users), [11]);
    }

    #[test]
    fn of_two_batches_with_one_number_the_later_attempt_counts() {
        let again = |attempt| header(BatchKind::User(vec![]), 11, attempt, SINCE.epoch.0);
        for found in [[again(0), again(2), again(1)], [again(2), again(1), again(0)]] {
            assert_eq!(Replay::choose(&SINCE, found.into(), false).users, [again(2)]);
        }
    }
}
