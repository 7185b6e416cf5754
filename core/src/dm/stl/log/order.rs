//! Batches that are done in any order, and count in that of their numbers.

use alloc::collections::VecDeque;

use crate::dm::stl::BatchNo;
use crate::prelude::*;

/// Batches from the first that does not count yet. What is kept of one is `T`.
///
/// Nothing counts, and nothing is acknowledged, before all that comes before it is done: so what was acknowledged is always a prefix,
/// and so is what the map says.
#[derive(Clone, Debug)]
pub struct Order<T> {
    first: BatchNo,
    waiting: VecDeque<Option<T>>,
    sealed: BatchNo,
}

impl<T> Order<T> {
    /// An order in which all batches up to `cut` count.
    #[must_use]
    pub fn after(cut: BatchNo) -> Self {
        Self { first: cut + 1, waiting: VecDeque::new(), sealed: cut }
    }

    /// The last batch that counts.
    #[must_use]
    pub fn counted(&self) -> BatchNo {
        BatchNo(self.first.0 - 1)
    }

    /// The last batch that has a number.
    #[must_use]
    pub fn sealed(&self) -> BatchNo {
        self.sealed
    }

    /// The number of a batch that is sealed now.
    pub fn seal(&mut self) -> BatchNo {
        self.sealed = self.sealed + 1;
        self.waiting.push_back(None);
        self.sealed
    }

    /// Batch `number`, which was sealed, is done.
    pub fn done(&mut self, number: BatchNo, batch: T) {
        let place = (number - self.first) as usize;
        debug_assert!(self.waiting[place].is_none(), "batch {number} is done twice");
        self.waiting[place] = Some(batch);
    }

    /// Batches behind `number` that are done: that one will never be, and so none of them counts.
    pub fn give_up_behind(&mut self, number: BatchNo) -> impl Iterator<Item = T> {
        let place = (number - self.first) as usize;
        self.waiting.iter_mut().skip(place + 1).filter_map(Option::take).collect::<Vec<T>>().into_iter()
    }

    /// The next batch that counts from now on.
    pub fn pop(&mut self) -> Option<(BatchNo, T)> {
        let batch = self.waiting.front_mut()?.take()?;
        self.waiting.pop_front();
        self.first = self.first + 1;
        Some((self.counted(), batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_counts_when_all_before_it_are_done() {
        let mut order = Order::after(BatchNo(7));
        let numbers = [(); 4].map(|()| order.seal());
        assert_eq!((numbers, order.sealed()), ([8, 9, 10, 11].map(BatchNo), BatchNo(11)));
        let next = |order: &mut Order<char>| core::iter::from_fn(|| order.pop()).map(|(_, it)| it).collect();
        let mut seen: [std::string::String; 4] = Default::default();
        for (place, (number, name)) in [(10, 'c'), (8, 'a'), (11, 'd'), (9, 'b')].into_iter().enumerate() {
            order.done(BatchNo(number), name);
            seen[place] = next(&mut order);
        }
        assert_eq!(seen, ["", "a", "", "bcd"]);
        assert_eq!(order.counted(), BatchNo(11));
    }

    #[test]
    fn what_is_done_behind_a_batch_that_is_given_up_does_not_count_and_what_is_before_it_does() {
        let mut order = Order::after(BatchNo(0));
        let [first, second, third, _] = [(); 4].map(|()| order.seal());
        order.done(third, 'c');
        assert_eq!(order.give_up_behind(second).collect::<Vec<_>>(), ['c']);
        order.done(first, 'a');
        assert_eq!((order.pop(), order.pop()), (Some((first, 'a')), None));
    }
}
