//! How much reclaim is needed.

use super::{Knobs, Stock, Style};
use crate::time::Duration;

named_enum! {
    /// How much reclaim is needed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Urgency {
        /// Not at all: reclaim sleeps.
        #[default]
        None => "none",
        /// Nobody uses the set: reclaim has it for itself, and frees what is worth it.
        Idle => "idle",
        /// Buffers are being used up: reclaim works beside the users.
        Normal => "normal",
        /// Few are left: reclaim does not rest and does not spare what was written a moment ago.
        Urgent => "urgent",
        /// Users are about to wait for a zone, or do: whatever frees one is done.
        Emergency => "emergency",
    }

    /// The name in figures.
    fn name(self) -> &'static str;
}

/// Percent of free zones at which the kernel reclaims (`drivers/md/dm-zoned-reclaim.c:DMZ_RECLAIM_LOW_UNMAP_ZONES`).
const KERNEL_LOW: u32 = 30;
/// Percent of free zones below which it copies without rest (`dmz_reclaim_work`).
const KERNEL_BUSY: u32 = KERNEL_LOW / 2;

/// How much reclaim is needed with this stock, `idle_for` after the last bio of a user ended, when it `was` needed so much
/// before.
///
/// Each level begins below a percentage of free buffers and ends where the one below it begins; the lowest ends at
/// `stop_percent`. Zones that wait for a commit count as free. Of few zones, the last free one is as good as a percentage.
#[must_use]
pub fn urgency(knobs: &Knobs, stock: &Stock, idle_for: Duration, was: Urgency) -> Urgency {
    let buffers = stock.buffers();
    if buffers.free >= buffers.total {
        return Urgency::None;
    }
    let is_idle = idle_for >= knobs.idle_time();
    match knobs.style {
        Style::Kernel | Style::Kernel2020 if is_idle => Urgency::Idle,
        Style::Kernel if buffers.free <= 1 => kernel_level(0),
        Style::Kernel | Style::Kernel2020 => kernel_level(buffers.free_percent()),
        Style::Shingle => match level(knobs, stock, was) {
            Urgency::None | Urgency::Normal if is_idle => Urgency::Idle,
            level => level,
        },
    }
}

/// The level that the free buffers ask for.
fn level(knobs: &Knobs, stock: &Stock, was: Urgency) -> Urgency {
    let soon_free = stock.buffers().free.saturating_add(stock.leaving);
    let percent = stock.buffers_percent();
    let is_below = |level, begins: u32, ends: u32| percent < if was >= level { ends } else { begins };
    if soon_free == 0 || is_below(Urgency::Emergency, knobs.emergency_percent, knobs.urgent_percent) {
        Urgency::Emergency
    } else if is_below(Urgency::Urgent, knobs.urgent_percent, knobs.start_percent) {
        Urgency::Urgent
    } else if soon_free == 1 || is_below(Urgency::Normal, knobs.start_percent, knobs.stop_percent) {
        Urgency::Normal
    } else {
        Urgency::None
    }
}

/// As `drivers/md/dm-zoned-reclaim.c:dmz_should_reclaim` decides for this percentage of free buffers, whose thresholds do not depend
/// on what was before. That one free zone counts as none came after 2020.
fn kernel_level(percent: u32) -> Urgency {
    match percent {
        0..KERNEL_BUSY => Urgency::Urgent,
        KERNEL_BUSY..=KERNEL_LOW => Urgency::Normal,
        _ => Urgency::None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pool;
    use super::*;

    const BUSY: Duration = Duration::ZERO;

    fn of(free: u32, total: u32) -> Stock {
        Stock { random: Pool { free, total }, zone_blocks: 65_536, ..Stock::default() }
    }

    fn busy(stock: Stock, was: Urgency) -> Urgency {
        urgency(&Knobs::default(), &stock, BUSY, was)
    }

    #[test]
    fn reclaim_starts_below_40_percent_and_goes_on_to_60() {
        assert_eq!(busy(of(40, 100), Urgency::None), Urgency::None);
        assert_eq!(busy(of(39, 100), Urgency::None), Urgency::Normal);
        assert_eq!(busy(of(59, 100), Urgency::Normal), Urgency::Normal);
        assert_eq!(busy(of(60, 100), Urgency::Normal), Urgency::None);
    }

    #[test]
    fn every_level_ends_where_the_one_below_begins() {
        assert_eq!(busy(of(19, 100), Urgency::Normal), Urgency::Urgent);
        assert_eq!(busy(of(39, 100), Urgency::Urgent), Urgency::Urgent);
        assert_eq!(busy(of(40, 100), Urgency::Urgent), Urgency::Normal);
        assert_eq!(busy(of(9, 100), Urgency::Urgent), Urgency::Emergency);
        assert_eq!(busy(of(19, 100), Urgency::Emergency), Urgency::Emergency);
        assert_eq!(busy(of(20, 100), Urgency::Emergency), Urgency::Urgent);
    }

    #[test]
    fn as_free_space_falls_and_rises_each_level_is_entered_once() {
        let mut was = Urgency::None;
        let mut changes = 0;
        for free in (0..=100).rev().chain(0..=100) {
            let now = busy(of(free, 100), was);
            assert!(free < 100 || now == Urgency::None);
            (changes, was) = (changes + u32::from(now != was), now);
        }
        assert_eq!(changes, 6, "three levels up and three down");
    }

    #[test]
    fn the_last_free_zone_of_a_few_is_reason_enough() {
        assert_eq!(busy(of(1, 2), Urgency::None), Urgency::Normal);
        assert_eq!(busy(of(0, 2), Urgency::None), Urgency::Emergency);
        assert_eq!(busy(of(0, 1), Urgency::None), Urgency::Emergency);
        assert_eq!(busy(of(1, 1), Urgency::Emergency), Urgency::None);
    }

    #[test]
    fn what_the_next_commit_brings_is_not_won_back_twice() {
        assert_eq!(busy(of(0, 10), Urgency::None), Urgency::Emergency);
        assert_eq!(busy(Stock { leaving: 6, ..of(0, 10) }, Urgency::Normal), Urgency::None);
    }

    #[test]
    fn an_idle_set_is_reclaimed_to_the_end_and_then_left_alone() {
        let idle = Duration::from_millis(2_000);
        let knobs = Knobs::default();
        assert_eq!(urgency(&knobs, &of(99, 100), Duration(idle.0 - 1), Urgency::None), Urgency::None);
        assert_eq!(urgency(&knobs, &of(99, 100), idle, Urgency::None), Urgency::Idle);
        assert_eq!(urgency(&knobs, &of(30, 100), idle, Urgency::Normal), Urgency::Idle);
        assert_eq!(urgency(&knobs, &of(10, 100), idle, Urgency::Idle), Urgency::Urgent);
        assert_eq!(urgency(&knobs, &of(100, 100), idle, Urgency::Idle), Urgency::None);
    }

    #[test]
    fn the_kernel_starts_at_30_percent_and_counts_one_zone_as_none() {
        let knobs = Knobs { style: Style::Kernel, ..Knobs::default() };
        let busy = |free, total| urgency(&knobs, &of(free, total), BUSY, Urgency::Normal);
        assert_eq!(busy(31, 100), Urgency::None);
        assert_eq!(busy(30, 100), Urgency::Normal);
        assert_eq!(busy(14, 100), Urgency::Urgent);
        assert_eq!(busy(1, 2), Urgency::Urgent);
        let idle = Duration::from_millis(10_000);
        assert_eq!(urgency(&knobs, &of(99, 100), idle, Urgency::None), Urgency::Idle);
        assert_eq!(urgency(&knobs, &of(99, 100), Duration(idle.0 - 1), Urgency::None), Urgency::None);
    }

    #[test]
    fn the_kernel_of_2020_counts_conventional_zones_beside_a_cache_and_the_last_zone_as_one() {
        let knobs = Knobs { style: Style::Kernel2020, ..Knobs::default() };
        let pool = |free, total| Pool { free, total };
        let set = |cache, random| Stock { cache, random, random_buffers: true, ..of(0, 0) };
        let busy = |stock: &Stock| urgency(&knobs, stock, BUSY, Urgency::Normal);
        assert_eq!(busy(&set(pool(0, 69), pool(31, 31))), Urgency::None, "the cache is used up, a third is free");
        assert_eq!(busy(&set(pool(0, 70), pool(30, 30))), Urgency::Normal);
        assert_eq!(busy(&set(pool(14, 70), pool(0, 30))), Urgency::Urgent);
        assert_eq!(busy(&set(pool(1, 1), pool(0, 1))), Urgency::None, "one of two is half");
        let idle = Duration::from_millis(10_000);
        assert_eq!(urgency(&knobs, &set(pool(70, 70), pool(29, 30)), idle, Urgency::None), Urgency::Idle);
    }
}
