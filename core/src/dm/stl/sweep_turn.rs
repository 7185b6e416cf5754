//! A sweep works in turns: a head that goes to and fro with each batch of users gets nowhere, and one that does not come back lets them wait.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use super::policy::{duty, rest, urgency};
use super::state::{Shared, State};
use crate::time::Instant;

/// Numbers that runs can have.
const RUN_NUMBERS: usize = 256;

/// A turn of a sweep.
pub(super) struct Turn {
    began: Instant,
    /// What users had written.
    clock: u64,
}

impl State {
    /// Whether runs should be merged: with what is left of numbers and memory others get along until that is done.
    pub fn is_merging_due(&self) -> bool {
        self.map.numbers().len() >= self.options.most_runs || self.map.index.bytes() > self.soft_index_bytes()
    }

    /// The index of runs at which they begin to be merged.
    fn soft_index_bytes(&self) -> usize {
        self.options.index_bytes / 8 * 7
    }

    /// How urgent a sweep is: 1 if others wait for it.
    fn sweep_urgency(&self) -> f64 {
        let runs = urgency(self.map.numbers().len(), self.options.most_runs, RUN_NUMBERS);
        let index = urgency(self.map.index.bytes(), self.soft_index_bytes(), self.options.index_bytes);
        match () {
            () if self.do_users_wait() => 1.0,
            // Cleaning cannot go on without it.
            () if self.victim.is_none() || self.is_map_large() => runs.max(index).max(self.level().share()),
            () => runs.max(index),
        }
    }

    /// Whether a sweep stands still: a volume that is put away does not wait for it, but it may wait for what the volume waits for.
    pub fn is_sweep_held(&self) -> bool {
        self.is_suspended && self.writes.is_empty() && self.map.free_run().is_some()
    }

    /// Whether users have something to do.
    fn is_used(&self, since: &Turn) -> bool {
        self.is_read_or_written() || self.clock != since.clock
    }

    /// When the turn comes that follows one that was over at `end`.
    fn next_turn(&self, turn: &Turn, end: Instant) -> Instant {
        if !self.is_used(turn) || self.is_sweep_held() {
            return end;
        }
        end + rest(end.since(turn.began), duty(self.sweep_urgency()))
    }
}

impl Turn {
    pub fn begin(state: &State) -> Self {
        Self { began: state.io.now(), clock: state.clock }
    }

    /// Leaves the disks to others for a while: not as long as it seemed if the sweep becomes more urgent, and until the volume is used again
    /// if it is put away.
    pub async fn rest(self, shared: &Shared) {
        let (io, progress) = {
            let state = shared.borrow();
            (state.io.clone(), state.signals.progress.clone())
        };
        let end = io.now();
        let next = shared.borrow().next_turn(&self, end);
        if next > end {
            let mut sleep = pin!(io.sleep_until(next));
            let is_time = || shared.borrow().next_turn(&self, end) <= io.now();
            let mut hurry = pin!(progress.until(|| is_time().then_some(())));
            poll_fn(|cx| match sleep.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => hurry.as_mut().poll(cx),
            })
            .await;
        }
        progress.until(|| (!shared.borrow().is_sweep_held()).then_some(())).await;
    }
}
