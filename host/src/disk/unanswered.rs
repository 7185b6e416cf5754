//! Which changes of a disk are not answered yet, and so which flushes have to wait.
//!
//! A flush promises nothing about a change that was not answered. But its success says that the disk is well, and a disk
//! below that has swallowed a command is not: so a flush waits for every change that came before it, however long that is.
//!
//! ```text
//!   write  write  FLUSH  write  FLUSH
//!   |-- epoch 0 --|-- epoch 1 --|-- epoch 2
//! ```

use std::collections::VecDeque;

use shingle_core::block::{Bio, Flags, Op};

/// The changes since the oldest that is not answered, counted between one flush and the next.
pub(super) struct Unanswered {
    /// Changes that are not answered, by epoch; the last one is still growing.
    epochs: VecDeque<u32>,
    /// The number of the first epoch.
    first: u64,
}

/// When something came, counted in flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epoch(u64);

/// Whether `bio` asks for what earlier changes have to be durable for.
pub(super) fn flushes(bio: &Bio) -> bool {
    bio.op == Op::Flush || bio.flags.has(Flags::PREFLUSH) && bio.op.writes_data()
}

/// Whether a bio of `op` changes the disk. A reset of all zones changes it through the resets that it consists of.
fn changes(op: Op) -> bool {
    !matches!(op, Op::Read | Op::Flush | Op::ReportZones | Op::ZoneResetAll)
}

impl Unanswered {
    pub fn new() -> Self {
        let mut epochs = VecDeque::with_capacity(256);
        epochs.push_back(0);
        Self { epochs, first: 0 }
    }

    fn last(&self) -> Epoch {
        Epoch(self.first + self.epochs.len() as u64 - 1)
    }

    /// A bio comes. If it flushes, it may go on once [`Unanswered::is_settled`] says so.
    pub fn comes(&mut self, bio: &Bio) -> Epoch {
        if flushes(bio) {
            self.flush();
        }
        if changes(bio.op) { self.change() } else { self.last() }
    }

    /// A bio that came in `epoch` is done. Whether that may let a flush go on.
    pub fn goes(&mut self, bio: &Bio, epoch: Epoch) -> bool {
        changes(bio.op) && self.answered(epoch)
    }

    /// A change comes.
    pub fn change(&mut self) -> Epoch {
        *self.epochs.back_mut().expect("one epoch is always growing") += 1;
        self.last()
    }

    /// A flush comes. A change that comes with it has its epoch.
    fn flush(&mut self) -> Epoch {
        if self.epochs.back() != Some(&0) {
            self.epochs.push_back(0);
        }
        self.last()
    }

    /// A change that came in `epoch` is answered. Whether that may let a flush go on.
    pub fn answered(&mut self, epoch: Epoch) -> bool {
        self.epochs[(epoch.0 - self.first) as usize] -= 1;
        let before = self.first;
        while self.epochs.len() > 1 && self.epochs[0] == 0 {
            self.epochs.pop_front();
            self.first += 1;
        }
        self.first > before
    }

    /// Whether every change before a flush of `epoch` is answered.
    pub fn is_settled(&self, epoch: Epoch) -> bool {
        self.first >= epoch.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_the_changes_before_it_and_for_no_other() {
        let mut disk = Unanswered::new();
        assert!(disk.is_settled(disk.last()), "nothing came before");
        let (one, two) = (disk.change(), disk.change());
        let flush = disk.flush();
        let later = disk.change();
        let last = disk.flush();
        assert!(!disk.is_settled(flush) && !disk.answered(later) && !disk.answered(two));
        assert!(!disk.is_settled(flush), "the first is still out");
        assert!(disk.answered(one) && disk.is_settled(flush) && disk.is_settled(last));
    }

    #[test]
    fn flushes_without_changes_between_them_cost_nothing() {
        let mut disk = Unanswered::new();
        let stuck = disk.change();
        let flushes: Vec<Epoch> = (0..1000).map(|_| disk.flush()).collect();
        assert_eq!(disk.epochs.len(), 2);
        assert!(disk.answered(stuck) && flushes.iter().all(|flush| disk.is_settled(*flush)));
    }

    #[test]
    fn a_change_that_comes_with_a_flush_does_not_wait_for_itself() {
        let mut disk = Unanswered::new();
        let earlier = disk.change();
        let (flush, itself) = (disk.flush(), disk.change());
        assert_eq!(flush, itself);
        assert!(disk.answered(earlier) && disk.is_settled(itself));
        let next = disk.flush();
        assert!(!disk.is_settled(next) && disk.answered(itself) && disk.is_settled(next));
    }
}
