//! What is counted of an area, and the time in which it is counted.

use crate::time::Instant;

/// How fine a region's clock is: ns of a tick.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Clock {
    /// `precise_timestamps`.
    Nanos = 1,
    /// As a kernel that ticks 1000 times a second has it: every instant is cut to a whole millisecond before anything is
    /// computed from it.
    Millis = 1_000_000,
}

impl Clock {
    /// An instant in ticks of this clock.
    #[inline]
    fn ticks(self, at: Instant) -> u64 {
        match self {
            Clock::Nanos => at.0,
            // The divisor is known here: this is a multiplication.
            Clock::Millis => at.0 / Clock::Millis as u64,
        }
    }
}

/// One direction of an area's I/O.
#[derive(Clone, Copy, Default)]
pub(super) struct Direction {
    /// I/Os that are done.
    pub ios: u64,
    /// Sectors of them that lie in the area.
    pub sectors: u64,
    /// The sum of their durations, in ticks.
    pub ticks: u64,
    /// Ticks during which at least one was in flight.
    pub busy: u64,
}

/// The counters of an area: reads first, then writes.
#[derive(Clone, Copy, Default)]
pub(super) struct Area {
    pub done: [Direction; 2],
    pub in_flight: [u32; 2],
    /// Ticks during which any I/O was in flight.
    pub busy: u64,
    /// The same, times the I/Os in flight.
    pub weighted: u64,
    /// When the tick began up to which busy times are counted.
    stamp: Instant,
}

impl Area {
    /// I/Os in flight, both directions.
    pub fn all_in_flight(&self) -> u64 {
        u64::from(self.in_flight[0]) + u64::from(self.in_flight[1])
    }

    /// Whether busy times are counted up to the tick of `now`.
    #[inline]
    pub fn is_at(&self, now: Instant, clock: Clock) -> bool {
        now.0.wrapping_sub(self.stamp.0) < clock as u64
    }

    /// Counts the time since the last I/O came or went for those in flight (`drivers/md/dm-stats.c:dm_stat_round`). To be
    /// called before anything else is done at `now`.
    pub fn advance(&mut self, now: Instant, clock: Clock) {
        let ticks = clock.ticks(now);
        let passed = ticks.saturating_sub(clock.ticks(self.stamp));
        self.stamp = self.stamp.max(Instant(ticks * clock as u64));
        let in_flight = self.all_in_flight();
        if in_flight == 0 {
            return;
        }
        for (done, in_flight) in self.done.iter_mut().zip(self.in_flight) {
            done.busy += if in_flight > 0 { passed } else { 0 };
        }
        self.busy += passed;
        // With a million I/Os in flight and a clock of ns it comes round after five hours, as in the kernel.
        self.weighted = self.weighted.wrapping_add(in_flight.wrapping_mul(passed));
    }

    /// Ticks from `entered` to the last [`Area::advance`].
    #[inline]
    pub fn ticks_since(&self, entered: Instant, clock: Clock) -> u64 {
        if entered >= self.stamp {
            return 0;
        }
        clock.ticks(self.stamp) - clock.ticks(entered)
    }

    /// An I/O comes in.
    #[inline]
    pub fn enter(&mut self, write: bool) {
        self.in_flight[usize::from(write)] += 1;
    }

    /// An I/O is done: `sectors` of it lie here, and all of it took `ticks`.
    #[inline]
    pub fn leave(&mut self, write: bool, sectors: u64, ticks: u64) {
        self.in_flight[usize::from(write)] -= 1;
        let done = &mut self.done[usize::from(write)];
        done.ios += 1;
        done.sectors += sectors;
        done.ticks = done.ticks.wrapping_add(ticks);
    }

    /// Forgets all but what is in flight, which counts from the last [`Area::advance`] on.
    pub fn clear(&mut self) {
        *self = Area { in_flight: self.in_flight, stamp: self.stamp, ..Area::default() };
    }
}
