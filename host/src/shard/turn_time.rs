//! Time between two readings of the clock, as far as a bio can be sent and done between them.
//!
//! A shard reads its clock once per round, and all of a turn happens at that time. A bio that is done in the turn in which it was sent has
//! taken 0 ns by that clock, whatever it took: all that is known is that it took less than the turn.

use shingle_core::time::Duration;

/// One turn of so many in which bios arrived is measured: a reading of the clock takes tens of ns, which most turns need not pay.
const SAMPLED: u32 = 64;
/// Bios after which older turns count half.
const REMEMBERED: u64 = 1 << 16;

/// Mean time of turns, each weighted with the bios that arrived before it.
#[derive(Debug, Default)]
pub(super) struct TurnTime {
    turns: u32,
    bios: u64,
    /// Times of turns, multiplied by their bios, in ns.
    sum: u64,
}

impl TurnTime {
    /// Counts a turn with so many arrivals; true if it is to be measured, as the first one is.
    #[inline]
    pub fn is_due(&mut self, arrivals: usize) -> bool {
        if arrivals == 0 {
            return false;
        }
        self.turns = self.turns.wrapping_add(1);
        self.turns % SAMPLED == 1
    }

    /// Notes how long such a turn took.
    pub fn note(&mut self, arrivals: usize, took: Duration) {
        if self.bios >= REMEMBERED {
            (self.bios, self.sum) = (self.bios / 2, self.sum / 2);
        }
        self.bios += arrivals as u64;
        self.sum = self.sum.saturating_add(took.as_nanos().saturating_mul(arrivals as u64));
    }

    /// The mean; `None` before the first bio.
    pub fn mean(&self) -> Option<Duration> {
        self.sum.checked_div(self.bios).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_64_turns_with_arrivals_is_measured_and_the_first_is() {
        let mut time = TurnTime::default();
        let due: Vec<usize> = (0..130).filter(|_| time.is_due(3)).collect();
        assert_eq!(due, [0, 64, 128]);
        assert!((0..100).all(|_| !time.is_due(0)));
    }

    #[test]
    fn turns_count_as_much_as_they_have_bios_and_old_ones_less() {
        let mut time = TurnTime::default();
        assert_eq!(time.mean(), None);
        time.note(1, Duration(1_000));
        time.note(3, Duration(5_000));
        assert_eq!(time.mean(), Some(Duration(4_000)));
        (0..20).for_each(|_| time.note(REMEMBERED as usize, Duration(100)));
        assert_eq!(time.mean(), Some(Duration(100)));
    }
}
