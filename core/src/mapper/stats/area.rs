//! What is counted of an area, and the time in which it is counted.

use crate::time::Instant;

/// How fine a region's clock is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// As a kernel that ticks 1000 times a second has it: every instant is cut to a whole millisecond before anything is
    /// computed from it.
    Millis,
    /// `precise_timestamps`.
    Nanos,
}

impl Clock {
    /// An instant in ticks of this clock.
    #[inline]
    pub fn ticks(self, at: Instant) -> u64 {
        match self {
            Clock::Millis => at.0 / 1_000_000,
            Clock::Nanos => at.0,
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
    /// The tick up to which busy times are counted.
    stamp: u64,
}

impl Area {
    /// I/Os in flight, both directions.
    pub fn all_in_flight(&self) -> u64 {
        u64::from(self.in_flight[0]) + u64::from(self.in_flight[1])
    }

    /// Counts the time since the last I/O came or went for those in flight (`drivers/md/dm-stats.c:dm_stat_round`).
    #[inline]
    pub fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.stamp);
        if passed == 0 {
            return;
        }
        self.stamp = now;
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

    /// An I/O comes in.
    #[inline]
    pub fn enter(&mut self, write: bool, now: u64) {
        self.advance(now);
        self.in_flight[usize::from(write)] += 1;
    }

    /// An I/O is done: `sectors` of it lie here, and all of it took `ticks`.
    #[inline]
    pub fn leave(&mut self, write: bool, sectors: u64, ticks: u64, now: u64) {
        self.advance(now);
        let in_flight = &mut self.in_flight[usize::from(write)];
        debug_assert!(*in_flight > 0, "an I/O left that never came in");
        *in_flight = in_flight.saturating_sub(1);
        let done = &mut self.done[usize::from(write)];
        done.ios += 1;
        done.sectors += sectors;
        done.ticks = done.ticks.wrapping_add(ticks);
    }

    /// Forgets all but what is in flight, which counts from `now` on.
    pub fn clear(&mut self, now: u64) {
        *self = Area { in_flight: self.in_flight, stamp: now, ..Area::default() };
    }
}
