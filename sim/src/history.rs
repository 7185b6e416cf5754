//! The values that something may have, as far as those who changed it can know.
//!
//! Every change is a candidate from the moment it was submitted. A change that was acknowledged hides the candidates that
//! it surely overwrote; once it is durable, these are dead: they cannot come back after a loss of power either. Times are
//! the model's own count of submissions and completions, so two changes are never at the same time.

use alloc::vec;
use alloc::vec::Vec;

/// The time before everything.
pub(super) const ALWAYS: u64 = 0;
/// The time after everything.
pub(super) const NEVER: u64 = u64::MAX;

/// One value that something may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<V> {
    pub value: V,
    /// When the change was submitted.
    pub from: u64,
    /// When it was completed, however it ended; it does not happen after that.
    pub until: u64,
    /// From when on nobody who asks sees it any more.
    pub hidden: u64,
    /// Whether it is gone for good.
    pub dead: bool,
    /// Whether it happens at some time between the two, whatever the order of the others.
    pub loose: bool,
}

impl<V> Candidate<V> {
    pub fn in_flight(value: V, from: u64) -> Self {
        Self { value, from, until: NEVER, hidden: NEVER, dead: false, loose: false }
    }

    pub fn certain(value: V) -> Self {
        Self { until: ALWAYS, ..Self::in_flight(value, ALWAYS) }
    }

    /// The same change, of something else.
    pub fn with<W>(self, value: W) -> Candidate<W> {
        let Self { from, until, hidden, dead, loose, .. } = self;
        Candidate { value, from, until, hidden, dead, loose }
    }

    /// Whether the change that was submitted at `by` surely came later. Where changes happen in the order of their
    /// submission that is known at once; elsewhere this one must have been over before the other began.
    pub fn precedes(&self, by: u64, ordered: bool) -> bool {
        self.until < by || ordered && !self.loose && self.from < by
    }

    /// Whether somebody who asked at `since` may see it.
    pub fn shows(&self, since: u64) -> bool {
        self.hidden > since
    }

    /// A change that was submitted at `by` is acknowledged at `now`.
    pub fn hide(&mut self, by: u64, ordered: bool, now: u64) {
        if self.precedes(by, ordered) {
            self.hidden = self.hidden.min(now);
        }
    }

    /// What replaced it may be undone.
    pub fn revive(&mut self) {
        if !self.dead {
            self.hidden = NEVER;
        }
    }

    /// A change that was submitted at `by` is durable.
    pub fn bury(&mut self, by: u64, ordered: bool) {
        self.dead |= self.precedes(by, ordered);
    }
}

/// All candidates of one thing.
#[derive(Clone, Debug)]
pub(super) struct History<V>(Vec<Candidate<V>>);

impl<V> Default for History<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: Copy + PartialEq> History<V> {
    /// It has this value.
    pub fn certain(value: V) -> Self {
        Self(vec![Candidate::certain(value)])
    }

    /// It may change to this.
    pub fn add(&mut self, candidate: Candidate<V>) {
        self.0.push(candidate);
    }

    /// The change submitted at `from` has ended at `now`.
    pub fn end(&mut self, from: u64, now: u64) {
        self.0.iter_mut().filter(|c| c.from == from && c.until == NEVER).for_each(|c| c.until = now);
    }

    /// The change submitted at `by` is acknowledged at `now`; nobody asks any more who asked before `oldest`.
    pub fn acknowledge(&mut self, by: u64, ordered: bool, (now, oldest): (u64, u64)) {
        self.0.iter_mut().for_each(|c| c.hide(by, ordered, now));
        self.0.retain(|c| !c.dead || c.hidden > oldest);
    }

    /// The change submitted at `by` is durable.
    pub fn make_durable(&mut self, by: u64, ordered: bool) {
        self.0.iter_mut().for_each(|c| c.bury(by, ordered));
    }

    /// A flush that was submitted at `by` is done: what was hidden then is gone for good. Nobody asks any more who asked
    /// before `oldest`. Returns whether one candidate is left.
    pub fn bury_hidden(&mut self, by: u64, oldest: u64) -> bool {
        self.0.iter_mut().for_each(|c| c.dead |= c.hidden < by);
        self.0.retain(|c| !c.dead || c.hidden > oldest);
        self.0.len() == 1
    }

    /// Whether no change has been under way at any time since `since`.
    pub fn is_quiet_since(&self, since: u64) -> bool {
        self.0.iter().all(|c| c.until < since)
    }

    /// At `now` it was seen to have a value that `is` is true of, so nobody sees another one unless it changes again.
    pub fn hide_all_but(&mut self, is: impl Fn(V) -> bool, now: u64) {
        self.0.iter_mut().filter(|c| !is(c.value)).for_each(|c| c.hidden = c.hidden.min(now));
    }

    /// What one may see who asked at `since`.
    pub fn possible(&self, since: u64) -> impl Iterator<Item = V> + '_ {
        self.0.iter().filter(move |c| c.shows(since)).map(|c| c.value)
    }

    /// The power is gone, at `now`: everything that is not dead may be there, and nothing changes any more.
    pub fn crash(&mut self, now: u64) {
        self.0.retain(|c| !c.dead);
        for c in &mut self.0 {
            (c.until, c.hidden) = (c.until.min(now), NEVER);
        }
    }

    /// Who made the changes is gone, at `now`: none of them goes on, and nothing is undone.
    pub fn stop(&mut self, now: u64) {
        self.0.iter_mut().for_each(|c| c.until = c.until.min(now));
    }

    /// Changes that nothing made durable may be undone: what is not dead may be there again.
    pub fn revive(&mut self) {
        self.0.iter_mut().for_each(Candidate::revive);
    }

    /// When the newest change to `value` was submitted that one may see who asked at `since`.
    pub fn origin(&self, value: V, since: u64) -> Option<u64> {
        self.0.iter().filter(|c| c.value == value && c.shows(since)).map(|c| c.from).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(history: &History<u8>, since: u64) -> Vec<u8> {
        history.possible(since).collect()
    }

    #[test]
    fn a_write_in_flight_may_or_may_not_be_seen_and_an_acknowledged_one_must() {
        let mut cell = History::certain(0);
        cell.add(Candidate::in_flight(1, 5));
        assert_eq!(seen(&cell, 6), [0, 1]);
        cell.end(5, 7);
        cell.acknowledge(5, false, (7, NEVER));
        assert_eq!(seen(&cell, 8), [1]);
        assert_eq!(seen(&cell, 6), [0, 1], "a read that began before may see the old value");
    }

    #[test]
    fn of_two_writes_at_the_same_time_either_may_win_unless_they_are_ordered() {
        for ordered in [false, true] {
            let mut cell = History::certain(0);
            cell.add(Candidate::in_flight(1, 1));
            cell.add(Candidate::in_flight(2, 2));
            for (from, now) in [(1, 3), (2, 4)] {
                cell.end(from, now);
                cell.acknowledge(from, ordered, (now, NEVER));
            }
            assert_eq!(seen(&cell, 5), if ordered { vec![2] } else { vec![1, 2] });
        }
    }

    #[test]
    fn a_crash_brings_back_what_no_durable_write_has_replaced() {
        let mut cell = History::certain(0);
        for (from, now) in [(1, 2), (3, 4), (5, 6)] {
            cell.add(Candidate::in_flight(from as u8, from));
            cell.end(from, now);
            cell.acknowledge(from, false, (now, NEVER));
        }
        cell.make_durable(3, false);
        cell.crash(7);
        assert_eq!(seen(&cell, 8), [3, 5]);
    }

    #[test]
    fn a_failed_write_may_have_happened_but_replaces_nothing() {
        let mut cell = History::certain(0);
        cell.add(Candidate::in_flight(1, 1));
        cell.end(1, 2);
        assert_eq!(seen(&cell, 3), [0, 1]);
    }
}
