//! When a fault happens: to which operations, where, how often, and in which stretches of time.

use core::ops::Range;

use crate::block::{Bio, Op};
use crate::random::Rng;
use crate::time::{Duration, Instant};

/// A set of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpSet(u16);

impl OpSet {
    /// Every operation.
    pub const ALL: OpSet = OpSet((1 << Op::COUNT) - 1);

    /// These operations.
    #[must_use]
    pub fn of(ops: &[Op]) -> Self {
        OpSet(ops.iter().fold(0, |set, op| set | 1 << *op as u16))
    }

    /// These and `others`.
    #[must_use]
    pub const fn with(self, others: OpSet) -> Self {
        OpSet(self.0 | others.0)
    }

    /// Whether `op` is among them.
    #[must_use]
    pub const fn has(self, op: Op) -> bool {
        self.0 & 1 << op as u16 != 0
    }
}

/// A stretch of time that comes back: the last `active` of every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From one beginning to the next.
    pub period: Duration,
    /// How much of it counts.
    pub active: Duration,
}

impl Window {
    fn holds(self, now: Instant) -> bool {
        now.0 % self.period.0.max(1) >= self.period.0.saturating_sub(self.active.0)
    }
}

/// Picks the bios to which a fault happens. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What the bio asks for.
    pub ops: OpSet,
    /// Sectors that it has to touch. One that has no place, such as a flush, is everywhere.
    pub sectors: Range<u64>,
    /// Of the bios that are left, so many (first) out of so many (second), at random.
    pub rate: (u64, u64),
    /// Bios that are let off before the first one is picked.
    pub skip: u64,
    /// Most bios that are picked; `None`: no end.
    pub count: Option<u64>,
    /// Only at these times; `None`: always.
    pub window: Option<Window>,
}

impl Default for Trigger {
    /// Every bio.
    fn default() -> Self {
        Self { ops: OpSet::ALL, sectors: 0..u64::MAX, rate: (1, 1), skip: 0, count: None, window: None }
    }
}

impl Trigger {
    /// Whether it picks `bio` now; counts it if so.
    pub fn picks(&mut self, bio: &Bio, now: Instant, rng: &mut Rng) -> bool {
        let concerned = self.ops.has(bio.op) && self.touches(bio) && self.window.is_none_or(|window| window.holds(now));
        if !concerned || self.count == Some(0) || !rng.chance(self.rate.0, self.rate.1) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some(left) = &mut self.count {
            *left -= 1;
        }
        true
    }

    fn touches(&self, bio: &Bio) -> bool {
        match bio.op {
            Op::Flush | Op::ZoneResetAll => true,
            op if op.has_range() => bio.sector.0 < self.sectors.end && bio.end().0 > self.sectors.start,
            _ => self.sectors.contains(&bio.sector.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Payload;
    use crate::sector::Sector;

    fn picked(trigger: &mut Trigger, op: Op, sector: u64) -> bool {
        let bio = Bio::new(op, Sector(sector), if op.has_range() { 8 } else { 0 }, Payload::None);
        trigger.picks(&bio, Instant(0), &mut Rng::new(1))
    }

    #[test]
    fn a_trigger_asks_for_operation_and_place() {
        let mut trigger = Trigger { ops: OpSet::of(&[Op::Write, Op::Flush]), sectors: 100..200, ..Trigger::default() };
        assert!(picked(&mut trigger, Op::Write, 93) && picked(&mut trigger, Op::Write, 199));
        assert!(!picked(&mut trigger, Op::Write, 92) && !picked(&mut trigger, Op::Write, 200));
        assert!(!picked(&mut trigger, Op::Read, 100));
        assert!(picked(&mut trigger, Op::Flush, 0), "a flush has no place, so it is everywhere");
    }

    #[test]
    fn it_lets_some_off_and_then_picks_so_many() {
        let mut trigger = Trigger { skip: 2, count: Some(3), ..Trigger::default() };
        let picks: std::vec::Vec<bool> = (0..7).map(|_| picked(&mut trigger, Op::Read, 0)).collect();
        assert_eq!(picks, [false, false, true, true, true, false, false]);
    }

    #[test]
    fn a_rate_is_kept_on_the_average() {
        let (mut trigger, mut rng) = (Trigger { rate: (1, 10), ..Trigger::default() }, Rng::new(3));
        let bio = Bio::new(Op::Read, Sector(0), 8, Payload::None);
        let picks = (0..10_000).filter(|_| trigger.picks(&bio, Instant(0), &mut rng)).count();
        assert!((900..1100).contains(&picks), "{picks}");
    }

    #[test]
    fn a_window_is_the_end_of_its_period() {
        let window = Window { period: Duration(100), active: Duration(20) };
        let held: std::vec::Vec<u64> = (0..200).filter(|at| window.holds(Instant(*at))).collect();
        assert_eq!((held.len(), held[0], held[20]), (40, 80, 180));
    }
}
