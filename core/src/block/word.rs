//! Whose the word of a frame or a timer is.
//!
//! A device may have several helpers, each with bios and timers under the device's name. Each marks its words with a bit of
//! its own, allotted here, so that a device can have any of them at once.

/// A helper of devices that marks its words; its value is the bit that it marks them with. Two of one bit do not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WordOwner {
    /// Background tasks.
    Task = 63,
    /// A fan, which sends one bio to several devices.
    Fan = 62,
    /// A reset of all zones.
    ResetAll = 61,
}

impl WordOwner {
    /// The bits that no owner marks a word with: for its number or key, and for words of the device itself.
    pub const REST: u64 = (1 << 61) - 1;

    /// A word of this owner that says `rest`.
    #[inline]
    #[must_use]
    pub const fn mark(self, rest: u64) -> u64 {
        debug_assert!(rest & !Self::REST == 0, "a word says more than there is room for beside the marks");
        1 << self as u8 | rest
    }

    /// Whether `word` is one of this owner.
    #[inline]
    #[must_use]
    pub const fn owns(self, word: u64) -> bool {
        word >> self as u8 & 1 == 1
    }

    /// What a word says beside whose it is.
    #[inline]
    #[must_use]
    pub const fn rest(word: u64) -> u64 {
        word & Self::REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [WordOwner; 3] = [WordOwner::Task, WordOwner::Fan, WordOwner::ResetAll];

    #[test]
    fn a_word_belongs_to_the_one_who_marked_it_and_to_nobody_else() {
        for rest in [0, 1, WordOwner::REST] {
            assert!(ALL.iter().all(|owner| !owner.owns(rest)), "a device's own word");
            for owner in ALL {
                let word = owner.mark(rest);
                assert_eq!(ALL.map(|other| other.owns(word)), ALL.map(|other| other == owner));
                assert_eq!(WordOwner::rest(word), rest);
            }
        }
    }
}
