//! The bios that a disk works on, step by step, and the flushes among them that wait for earlier changes ([`Unanswered`]).

use std::ops::{Index, IndexMut};

use shingle_core::block::{Bio, Cx, Op, Reason, Status};
use shingle_core::time::Instant;
use slab::Slab;

use super::unanswered::{Epoch, Unanswered, flushes};
use crate::tally::Tally;

/// A bio that a disk works on.
pub(super) struct Job<S> {
    pub bio: Box<Bio>,
    /// What it waits for.
    pub step: S,
    /// Bytes that are done.
    pub skip: usize,
    /// When it came.
    since: Instant,
    epoch: Epoch,
}

/// All of them, by number.
pub(super) struct Jobs<S> {
    jobs: Slab<Job<S>>,
    unanswered: Unanswered,
    /// Jobs whose first step waits for earlier changes.
    parked: Vec<usize>,
    /// What was done.
    tally: Tally,
}

/// A disk that does bios step by step.
pub(super) trait InSteps {
    /// What a job waits for.
    type Step: Copy;

    /// Its jobs.
    fn jobs(&mut self) -> &mut Jobs<Self::Step>;

    /// Asks for the next step of a job.
    fn go(&mut self, job: usize, step: Self::Step, cx: &mut Cx<'_>);

    /// Begins a bio with `step`. One that flushes waits for the changes before it.
    fn start(&mut self, bio: Box<Bio>, step: Self::Step, cx: &mut Cx<'_>) {
        if let Some(job) = self.jobs().comes(bio, step, cx.now()) {
            self.go(job, step, cx);
        }
    }

    /// Ends a job, and begins the flushes that no earlier change keeps any more.
    fn finish(&mut self, job: usize, status: Status, cx: &mut Cx<'_>) {
        let (bio, settles) = self.jobs().goes(job, status, cx.now());
        cx.complete(bio, status);
        while settles && let Some((job, step)) = self.jobs().settled() {
            self.go(job, step, cx);
        }
    }

    /// Ends a job that has failed.
    fn fail(&mut self, job: usize, reason: Reason, cx: &mut Cx<'_>) {
        let status = self.jobs()[job].bio.blame(reason);
        self.finish(job, status, cx);
    }
}

impl<S: Copy> Jobs<S> {
    pub fn new() -> Self {
        let (jobs, parked) = (Slab::with_capacity(256), Vec::with_capacity(16));
        Self { jobs, unanswered: Unanswered::new(), parked, tally: Tally::default() }
    }

    /// What was done so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Their bios, each with the time at which it came.
    pub fn bios(&self) -> impl Iterator<Item = (Instant, &Bio)> {
        self.jobs.iter().map(|(_, job)| (job.since, &*job.bio))
    }

    /// A bio comes. `None`: it has to wait until [`Jobs::settled`] returns it.
    fn comes(&mut self, bio: Box<Bio>, step: S, since: Instant) -> Option<usize> {
        // A reset of all zones has no parts here that would count.
        let epoch = match bio.op {
            Op::ZoneResetAll => self.unanswered.change(),
            _ => self.unanswered.comes(&bio),
        };
        let waits = flushes(&bio) && !self.unanswered.is_settled(epoch);
        let job = self.jobs.insert(Job { bio, step, skip: 0, since, epoch });
        if waits {
            self.parked.push(job);
        }
        (!waits).then_some(job)
    }

    /// A bio is done. Whether that may let others go on.
    fn goes(&mut self, job: usize, status: Status, now: Instant) -> (Box<Bio>, bool) {
        let Job { bio, epoch, since, .. } = self.jobs.remove(job);
        self.tally.record(&bio, status, now.since(since));
        let settles = match bio.op {
            Op::ZoneResetAll => self.unanswered.answered(epoch),
            _ => self.unanswered.goes(&bio, epoch),
        };
        (bio, settles)
    }

    /// Takes the first of those that wait whose earlier changes are all answered, and its step.
    fn settled(&mut self) -> Option<(usize, S)> {
        let Self { jobs, unanswered, parked, .. } = self;
        let position = parked.iter().position(|job| unanswered.is_settled(jobs[*job].epoch))?;
        let job = parked.remove(position);
        Some((job, jobs[job].step))
    }
}

impl<S> Index<usize> for Jobs<S> {
    type Output = Job<S>;

    fn index(&self, job: usize) -> &Job<S> {
        &self.jobs[job]
    }
}

impl<S> IndexMut<usize> for Jobs<S> {
    fn index_mut(&mut self, job: usize) -> &mut Job<S> {
        &mut self.jobs[job]
    }
}
