//! A sweep works in turns: a head that goes to and fro with each batch of users gets nowhere, and one that does not come back lets them wait.

use super::map::Pending;
use super::policy::{duty, in_step, rest, urgency};
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

/// How far a sweep is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// What the index had ever been told when it began, in bytes.
    pub from: usize,
    /// The share of all leaves that it is through with.
    pub done: f64,
}

/// Bytes of the index for a change that no run has yet.
const ENTRY_BYTES: usize = 3;

impl State {
    /// Whether runs should be merged: with what is left of numbers and memory others get along until that is done.
    pub fn is_merging_due(&self) -> bool {
        self.has_many_runs() || self.map.index.bytes() > self.soft_index_bytes() / 2
    }

    fn has_many_runs(&self) -> bool {
        self.map.numbers().len() >= self.options.most_runs
    }

    /// What the index may take while sweeps keep step.
    fn soft_index_bytes(&self) -> usize {
        self.options.index_bytes / 8 * 7
    }

    /// How urgent a sweep is: 1 if others wait for it.
    fn sweep_urgency(&self) -> f64 {
        let runs = urgency(self.map.numbers().len(), usize::midpoint(self.options.most_runs, RUN_NUMBERS), RUN_NUMBERS);
        let index = urgency(self.map.index.bytes(), self.soft_index_bytes(), self.options.index_bytes);
        match () {
            () if self.do_users_wait() => 1.0,
            // Cleaning cannot go on without it.
            () if self.victim.is_none() || self.is_map_large() => runs.max(index).max(self.level().share()),
            () => runs.max(index),
        }
    }

    /// The share of time of a sweep. One that is about the index alone begins when that is half full, and lasts until it is: what it leaves users is
    /// the same all the time.
    fn sweep_duty(&self, step: Option<Step>) -> f64 {
        let urgency = self.sweep_urgency();
        match step {
            Some(step) if urgency == 0.0 && !self.has_many_runs() => in_step(self.lag(step)),
            Some(step) => in_step(self.lag(step)).max(duty(urgency)),
            None => duty(urgency),
        }
    }

    /// By how much more of the index was filled since a sweep began than that is through with.
    fn lag(&self, step: Step) -> f64 {
        let changes = self.map.pending.len() + self.map.frozen.as_deref().map_or(0, Pending::len);
        let added = self.map.index.grown().saturating_sub(step.from) + changes * ENTRY_BYTES;
        added as f64 / self.soft_index_bytes().max(1) as f64 - step.done
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
    fn next_turn(&self, turn: &Turn, (end, step): (Instant, Option<Step>)) -> Instant {
        if !self.is_used(turn) || self.is_sweep_held() || step.is_none() && self.does_sweep_wait() {
            return end;
        }
        end + rest(end.since(turn.began), self.sweep_duty(step))
    }
}

impl Turn {
    pub fn begin(state: &State) -> Self {
        Self { began: state.io.now(), clock: state.clock }
    }

    /// Leaves the disks to others for a while: not as long as it seemed if the sweep becomes more urgent, and until the volume is used again
    /// if it is put away.
    pub async fn rest(self, shared: &Shared, step: Option<Step>) {
        let (io, progress) = {
            let state = shared.borrow();
            (state.io.clone(), state.signals.progress.clone())
        };
        let end = io.now();
        let next = shared.borrow().next_turn(&self, (end, step));
        if next > end {
            let is_time = || shared.borrow().next_turn(&self, (end, step)) <= io.now();
            progress.until_or(io.sleep_until(next), || is_time().then_some(())).await;
        }
        progress.until(|| (!shared.borrow().is_sweep_held()).then_some(())).await;
    }
}
