//! Failures that reached a submitter, for a log: the first of each device and kind, then how many more there were.

use super::bio::Bio;
use super::op::{Flags, Op};
use super::reason::Why;
use super::status::Status;
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// How long only numbers are told of a kind of failure after one was told.
const QUIET: Duration = Duration::from_millis(10_000);
/// Most kinds that are told apart. The one that was told longest ago makes room for another.
const MOST_KINDS: usize = 64;

/// Something for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The first of its kind.
    First(Why),
    /// So many more of one kind; this was the first.
    More(Why, u64),
}

/// What is to be told.
#[derive(Default)]
pub(super) struct Failures {
    kinds: Vec<Kind>,
    /// Kinds of which there is something to tell, now or later.
    untold: usize,
}

/// Failures of one device for one kind of reason.
struct Kind {
    first: Why,
    is_told: bool,
    more: u64,
    quiet_until: Instant,
}

impl Kind {
    fn is_untold(&self) -> bool {
        !self.is_told || self.more > 0
    }
}

impl Failures {
    /// Takes note of `bio`, which failed with `status`. An answer that its submitter has asked for is no failure.
    #[cold]
    #[inline(never)]
    pub fn note(&mut self, now: Instant, bio: &Bio, status: Status) {
        let is_answer = status == Status::Again
            || status == Status::NotSupported && bio.op == Op::WriteZeroes && bio.flags.has(Flags::FAST);
        let Some(why) = bio.why().filter(|_| !is_answer) else { return };
        let is_like = |kind: &&mut Kind| kind.first.device == why.device && kind.first.reason.is_like(&why.reason);
        let Some(kind) = self.kinds.iter_mut().find(is_like) else { return self.add(now, why.clone()) };
        self.untold += usize::from(!kind.is_untold());
        if kind.is_untold() || now < kind.quiet_until {
            kind.more += 1;
        } else {
            (kind.first, kind.is_told, kind.quiet_until) = (why.clone(), false, now + QUIET);
        }
    }

    fn add(&mut self, now: Instant, first: Why) {
        if self.kinds.len() == MOST_KINDS {
            let oldest = (0..MOST_KINDS).min_by_key(|place| self.kinds[*place].quiet_until).unwrap_or(0);
            self.untold -= usize::from(self.kinds.swap_remove(oldest).is_untold());
        }
        self.untold += 1;
        self.kinds.push(Kind { first, is_told: false, more: 0, quiet_until: now + QUIET });
    }

    /// The next thing to tell.
    pub fn poll(&mut self, now: Instant) -> Option<Failure> {
        if self.untold == 0 {
            return None;
        }
        let is_due = |kind: &&mut Kind| !kind.is_told || kind.more > 0 && now >= kind.quiet_until;
        let kind = self.kinds.iter_mut().find(is_due)?;
        let failure = if core::mem::replace(&mut kind.is_told, true) {
            kind.quiet_until = now + QUIET;
            Failure::More(kind.first.clone(), core::mem::take(&mut kind.more))
        } else {
            Failure::First(kind.first.clone())
        };
        self.untold -= usize::from(!kind.is_untold());
        Some(failure)
    }

    /// When there is next something to tell.
    pub fn due(&self) -> Option<Instant> {
        if self.untold == 0 {
            return None;
        }
        let untold = self.kinds.iter().filter(|kind| kind.is_untold());
        untold.map(|kind| if kind.is_told { kind.quiet_until } else { Instant::ZERO }).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::payload::Payload;
    use super::super::reason::Reason;
    use super::*;
    use crate::block::DeviceId;
    use crate::sector::Sector;

    fn fail(failures: &mut Failures, now: u64, sector: u64, reason: Reason) {
        let mut bio = Bio::new(Op::Read, Sector(sector), 8, Payload::None);
        let status = bio.blame(reason);
        bio.explain(DeviceId(1), status);
        failures.note(Instant(now), &bio, status);
    }

    fn told(failures: &mut Failures, now: u64) -> Vec<(u64, u64)> {
        let next = || failures.poll(Instant(now));
        let numbers = |failure| match failure {
            Failure::First(why) => (why.sector.0, 0),
            Failure::More(why, more) => (why.sector.0, more),
        };
        core::iter::from_fn(next).map(numbers).collect()
    }

    #[test]
    fn the_first_of_a_kind_is_told_at_once_and_the_others_are_counted() {
        let mut failures = Failures::default();
        (0..5).for_each(|n| fail(&mut failures, 0, n, Reason::Medium));
        fail(&mut failures, 0, 9, Reason::Removed);
        assert_eq!(failures.due(), Some(Instant::ZERO));
        assert_eq!(told(&mut failures, 1), [(0, 0), (9, 0)]);
        assert_eq!((failures.due(), told(&mut failures, QUIET.0 - 1)), (Some(Instant(QUIET.0)), Vec::new()));
        assert_eq!(told(&mut failures, QUIET.0), [(0, 4)]);
        assert_eq!(failures.due(), None);
        fail(&mut failures, 3 * QUIET.0, 7, Reason::Medium);
        assert_eq!(told(&mut failures, 3 * QUIET.0), [(7, 0)]);
    }

    #[test]
    fn a_flood_is_a_line_every_so_often_and_nothing_is_lost_from_its_number() {
        let mut failures = Failures::default();
        let (mut first, mut more) = (0, 0);
        for ms in 0..60_000u64 {
            fail(&mut failures, ms * 1_000_000, ms, Reason::Medium);
            for (_, count) in told(&mut failures, ms * 1_000_000) {
                (first, more) = if count == 0 { (first + 1, more) } else { (first, more + count) };
            }
        }
        more += told(&mut failures, 1 << 50).iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!((first, more), (1, 59_999));
    }

    #[test]
    fn no_more_kinds_are_kept_than_there_is_room_for() {
        let mut failures = Failures::default();
        for n in 0..200u16 {
            let mut bio = Bio::new(Op::Read, Sector(0), 8, Payload::None);
            let status = bio.blame(Reason::Medium);
            bio.explain(DeviceId(n), status);
            failures.note(Instant(n.into()), &bio, status);
        }
        assert_eq!((failures.kinds.len(), failures.untold), (MOST_KINDS, MOST_KINDS));
        assert_eq!(told(&mut failures, 300).len(), MOST_KINDS);
    }

    #[test]
    fn an_answer_that_was_asked_for_is_not_told() {
        let mut failures = Failures::default();
        fail(&mut failures, 0, 0, Reason::WouldWait("it is late"));
        let mut probe = Bio::new(Op::WriteZeroes, Sector(0), 8, Payload::None).with_flags(Flags::FAST);
        let status = probe.blame(Reason::NotSupported);
        failures.note(Instant(0), &probe, status);
        assert_eq!(told(&mut failures, 1), []);
    }
}
