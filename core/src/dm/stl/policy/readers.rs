//! Those who read in order, as far as is known.

use alloc::collections::VecDeque;

use crate::dm::stl::Pba;

/// Most that are followed at one time.
pub(in crate::dm::stl) const READERS: usize = 4;
/// Most blocks between two reads in order: headers are shorter.
const MOST_GAP: u64 = 8;

/// Whether what begins at `start` is read in order behind what ended at `end`, but for a header.
#[must_use]
pub fn follows(end: Pba, start: Pba) -> bool {
    end <= start && start - end <= MOST_GAP
}

/// What is known of each. The one that read last is the first, and the last is forgotten for a new one.
#[derive(Clone, Debug)]
pub struct Readers<T>(VecDeque<T>);

impl<T> Default for Readers<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Readers<T> {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Takes out the one that this says.
    pub fn take(&mut self, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        self.0.iter().position(is_it).and_then(|at| self.0.remove(at))
    }

    /// Puts in the one that reads now.
    pub fn put(&mut self, reader: T) {
        self.0.truncate(READERS - 1);
        self.0.push_front(reader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_read_longest_ago_is_forgotten_for_a_new_one_and_none_that_reads_again() {
        let mut readers = Readers::default();
        (0..READERS).for_each(|reader| readers.put(reader));
        let first = readers.take(|reader| *reader == 0).unwrap();
        readers.put(first);
        readers.put(READERS);
        assert_eq!(readers.iter().copied().collect::<std::vec::Vec<_>>(), [4, 0, 3, 2]);
    }

    #[test]
    fn what_comes_behind_a_header_follows_and_what_lies_before_or_far_behind_does_not() {
        let found = [99, 100, 101, 108, 109].map(|start| follows(Pba(100), Pba(start)));
        assert_eq!(found, [false, true, true, true, false]);
    }

    #[test]
    fn several_who_read_in_order_are_known_and_the_one_that_read_last_is_forgotten_last() {
        let mut ends = Readers::default();
        for step in 0..10 {
            for reader in 0..READERS as u64 {
                let start = Pba(reader * 1000 + step * 10);
                let known = ends.take(|end| follows(*end, start));
                assert_eq!(known.is_some(), step > 0, "reader {reader}, step {step}");
                ends.put(start + 8);
            }
        }
        (0..READERS as u64).for_each(|other| ends.put(Pba(9001 + other * 100)));
        assert_eq!((ends.take(|end| follows(*end, Pba(100))), ends.iter().count()), (None, READERS));
    }
}
