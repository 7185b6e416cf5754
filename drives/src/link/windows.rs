//! Spans of time in which a link does not do what it should.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::error::{Fault, check};
use crate::service::ServiceTime;
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// When something happens to a link, from when the stack began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Windows {
    /// At these times; none of them: never.
    At(Box<[Window]>),
    /// Again and again.
    Drawn {
        /// Time from the end of one to the beginning of the next.
        every: ServiceTime,
        /// How long one lasts.
        length: ServiceTime,
    },
}

/// One such span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it begins.
    pub from: Instant,
    /// How long it lasts; `None`: for ever.
    pub length: Option<Duration>,
}

/// The shortest mean time between drawn windows: what passes many of them is bounded by it.
const CLOSEST: Duration = Duration::from_millis(1);
const NEVER: Instant = Instant(u64::MAX);

impl Window {
    fn until(&self) -> Instant {
        self.length.map_or(NEVER, |length| self.from + length)
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::At(Box::new([]))
    }
}

impl Windows {
    /// Whether there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::At(windows) if windows.is_empty())
    }

    pub(super) fn check(&self, name: &'static str) -> Result<(), Fault> {
        match self {
            Self::At(windows) => {
                let apart = windows.windows(2).all(|pair| pair[0].until() < pair[1].from);
                let none_empty = windows.iter().all(|window| window.length != Some(Duration::ZERO));
                check([
                    (apart, name, "overlap or are not in order: sort them, and join those that touch"),
                    (none_empty, name, "have one of no length: leave it out"),
                ])
            }
            Self::Drawn { every, length } => {
                every.check(name)?;
                length.check(name)?;
                check([
                    (every.mean() >= CLOSEST, name, "follow each other in less than a millisecond on average"),
                    (length.mean() > Duration::ZERO, name, "have no length"),
                ])
            }
        }
    }
}

/// The windows as time goes by. Questions may be about any time from the last `forget` on.
pub(super) struct Calendar {
    windows: Windows,
    rng: Rng,
    /// Those that were drawn and are not over, or the fixed ones that are left.
    known: VecDeque<Window>,
    drawn_until: Instant,
}

impl Calendar {
    pub fn new(windows: &Windows, rng: Rng) -> Self {
        let known = match windows {
            Windows::At(windows) => windows.iter().copied().collect(),
            Windows::Drawn { .. } => VecDeque::new(),
        };
        Self { windows: windows.clone(), rng, known, drawn_until: Instant::ZERO }
    }

    /// What is over at `now` is not asked for any more.
    pub fn forget(&mut self, now: Instant) {
        while self.known.front().is_some_and(|window| window.until() <= now) {
            self.known.pop_front();
        }
    }

    /// Whether a window is open at `at`.
    pub fn covers(&mut self, at: Instant) -> bool {
        self.touches(at, at)
    }

    /// Whether a window is open at any time from `from` to `to`.
    pub fn touches(&mut self, from: Instant, to: Instant) -> bool {
        self.ending_after(from).is_some_and(|window| window.from <= to)
    }

    /// When something is done that begins at `from`, takes `span`, and stands still in every window.
    pub fn advance(&mut self, from: Instant, mut span: Duration) -> Instant {
        let mut at = from;
        while let Some(window) = self.ending_after(at) {
            if window.from > at {
                let until_then = window.from.since(at);
                if span <= until_then {
                    return at + span;
                }
                span = Duration(span.0 - until_then.0);
            }
            at = window.until();
        }
        at + span
    }

    fn ending_after(&mut self, at: Instant) -> Option<Window> {
        // Nothing ends after that, and drawing would not either.
        if at == NEVER {
            return None;
        }
        let known = self.known.iter().find(|window| window.until() > at).copied();
        known.or_else(|| self.draw_until_after(at))
    }

    fn draw_until_after(&mut self, at: Instant) -> Option<Window> {
        let Windows::Drawn { every, length } = &self.windows else { return None };
        loop {
            let from = self.drawn_until + every.draw(&mut self.rng);
            // Not without any length: what is drawn gets on in time.
            let length = length.draw(&mut self.rng).max(Duration(1));
            let window = Window { from, length: Some(length) };
            self.drawn_until = window.until();
            self.known.push_back(window);
            if self.drawn_until > at {
                return Some(window);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(windows: &[(u64, Option<u64>)]) -> Calendar {
        let window =
            |(from, length): &(u64, Option<u64>)| Window { from: Instant(*from), length: length.map(Duration) };
        Calendar::new(&Windows::At(windows.iter().map(window).collect()), Rng::new(1))
    }

    #[test]
    fn what_stands_still_in_windows_takes_as_much_longer() {
        let mut calendar = at(&[(100, Some(50)), (200, Some(10))]);
        let mut advance = |from, span| calendar.advance(Instant(from), Duration(span)).0;
        assert_eq!(advance(0, 100), 100);
        assert_eq!(advance(0, 101), 151);
        assert_eq!(advance(120, 0), 150);
        assert_eq!(advance(0, 200), 260);
        assert_eq!(advance(149, 51), 211);
        assert_eq!(advance(300, 5), 305);
    }

    #[test]
    fn in_a_window_without_end_nothing_ever_moves() {
        let mut calendar = at(&[(100, None)]);
        assert_eq!(calendar.advance(Instant(0), Duration(100)), Instant(100));
        assert_eq!(calendar.advance(Instant(0), Duration(101)), NEVER);
        assert!(calendar.covers(Instant(u64::MAX - 1)) && !calendar.covers(Instant(99)));
    }

    #[test]
    fn drawn_windows_are_the_same_in_whatever_order_they_are_asked_for() {
        let ms = Duration::from_millis;
        let windows =
            Windows::Drawn { every: ServiceTime::Exponential(ms(10)), length: ServiceTime::Exponential(ms(2)) };
        let ask = |all_at_once: bool| {
            let mut calendar = Calendar::new(&windows, Rng::new(9));
            if all_at_once {
                assert!(calendar.ending_after(Instant(10_000_000_000)).is_some());
            }
            (0..10_000).map(|n| calendar.covers(Instant(n * 1_000_000))).collect::<alloc::vec::Vec<_>>()
        };
        let covered = ask(false);
        assert_eq!(covered, ask(true));
        // 2 of 12 ms.
        let share = covered.iter().filter(|covered| **covered).count();
        assert!((1500..1830).contains(&share), "{share}");
    }

    #[test]
    fn windows_that_are_over_are_forgotten() {
        let ms = Duration::from_millis;
        let drawn = Windows::Drawn { every: ServiceTime::Constant(ms(1)), length: ServiceTime::Constant(ms(1)) };
        let mut calendar = Calendar::new(&drawn, Rng::new(1));
        for n in 0..100_000 {
            let now = Instant(n * 500_000);
            calendar.forget(now);
            assert_eq!(calendar.covers(now), n % 4 >= 2, "at {} us", now.0 / 1000);
            assert!(calendar.known.len() <= 2);
        }
    }
}
