//! `expected-delay`: the path on which an I/O will be done first, as far as the past and what is under way tell.

use super::{Access, Done, Io, IoClass, PathView, Pending, Policy};
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// Samples that a moving average remembers, and the share of a new one.
const REMEMBERED: u32 = 128;
const NEWEST: f64 = 1.0 / REMEMBERED as f64;
/// What is taken for the cost of an I/O ahead before it is known, as a share of the latency with all those ahead: half of a latency is
/// waiting. It weighs as much as samples whose numbers ahead vary by a quarter of their mean.
const WAITING: f64 = 0.5;
const WEIGHT_OF_GUESS: f64 = 0.25;
/// How much of what an I/O costs those behind it counts. All of it would be best for the sum, if the slope were known exactly.
const FOR_OTHERS: f64 = 0.25;
/// I/Os that could have ended and did not, from which on a path counts as stalled.
const MISSED: u32 = 4;
/// A path that is not taken is tried with one I/O of so many at most, and so that it costs a two-hundredth of the mean latency.
const SPACING: u64 = 200;
/// Whether one is due is looked at with one I/O of so many.
const LOOK: u64 = 16;
/// No model's latency falls below this share of its mean, however short the queue is.
const LEAST: f64 = 0.1;

/// A slope is fitted anew after so many samples.
const REFIT: u32 = 8;

/// What is known of one kind of I/O on one path. First what a choice needs: a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    samples: u32,
    /// When one ended last, and the mean latency in whole ns.
    last_end: Instant,
    mean: u64,
    /// What an I/O costs behind none, what each one ahead adds, of that what counts for the others, and the least, in ns.
    base: f64,
    slope: f64,
    for_others: f64,
    least: f64,
    /// Moving averages: the latency in ns, the I/Os of this kind ahead, the variance of these, and how both vary together.
    latency: f64,
    ahead: f64,
    variance: f64,
    covariance: f64,
}

impl Model {
    fn learn(&mut self, latency: Duration, ahead: u32) {
        self.samples = self.samples.saturating_add(1);
        let share = if self.samples > REMEMBERED { NEWEST } else { 1.0 / f64::from(self.samples) };
        let (longer, more) = (latency.0 as f64 - self.latency, f64::from(ahead) - self.ahead);
        self.latency += share * longer;
        self.ahead += share * more;
        self.variance += share * ((1.0 - share) * more * more - self.variance);
        self.covariance += share * ((1.0 - share) * longer * more - self.covariance);
        if self.samples < REMEMBERED || self.samples.is_multiple_of(REFIT) {
            self.fit();
        }
        self.mean = self.latency as u64;
        self.least = LEAST * self.latency;
        self.base = self.latency - self.slope * self.ahead;
    }

    /// Draws the line: a regression that begins with a guess and forgets it as numbers ahead vary.
    fn fit(&mut self) {
        let guess = WAITING * self.latency / (self.ahead + 1.0);
        let weight = WEIGHT_OF_GUESS * (self.ahead + 1.0);
        let slope = (self.covariance + weight * guess) / (self.variance + weight);
        self.slope = slope.clamp(0.0, self.latency);
        self.for_others = FOR_OTHERS * self.slope;
    }

    /// What an I/O costs behind these, in ns, if all goes on as usual.
    #[inline]
    fn usual(&self, pending: &Pending) -> f64 {
        let ahead = f64::from(pending.count);
        (self.base + self.slope * ahead).max(self.least) + self.for_others * ahead
    }

    /// Whether some of these should have ended: if not, nothing comes to what is usual.
    #[inline]
    fn is_overdue(&self, pending: &Pending, now: Instant) -> bool {
        let silence = now.since(self.last_end).0;
        pending.count > 0 && silence.saturating_mul(pending.count.max(MISSED).into()) > self.mean * u64::from(MISSED)
    }

    /// What it costs if it is sent at `now`.
    fn cost(&self, pending: &Pending, now: Instant) -> f64 {
        let more = if self.is_overdue(pending, now) { self.stalled(pending, now) } else { 0.0 };
        self.usual(pending) + more
    }

    /// How much longer than usual nothing has ended although it should have: by as much it may go on.
    fn stalled(&self, pending: &Pending, now: Instant) -> f64 {
        let (ahead, silence) = (f64::from(pending.count), now.since(self.last_end).0 as f64);
        let age = pending.ages(now) as f64 / ahead;
        let evidence = (silence * ahead / f64::from(MISSED)).min(2.0 * age).max(silence.min(age));
        let delay = (self.base + self.slope * ahead).max(self.latency);
        (evidence - delay).max(0.0)
    }
}

/// Ours. What a path will take is a line: the latency that it has without a queue, and what each I/O ahead adds. Both are fitted to the I/Os
/// that have ended, for reads, writes and the rest apart, since these wait for different wires. A path that falls silent with I/Os
/// under way costs more with every moment, before any of them has ended. Paths of which nothing is known get one I/O at a time, and those
/// that are not worth taking get one now and then, the more rarely the more it costs. An I/O that failed tells nothing of its
/// path but that it has to be known anew.
///
/// What other submitters do is seen by its effect: their I/Os make the latency longer that is without a queue of ours.
#[derive(Debug, Default)]
pub struct ExpectedDelay {
    paths: Vec<[Model; IoClass::COUNT]>,
    last: usize,
    /// I/Os since a path was tried that was not the best.
    since_trial: u64,
}

impl ExpectedDelay {
    /// What is known of I/Os of a kind on a path; of no kind, if nothing has ended there.
    #[inline]
    fn model(&self, path: usize, class: IoClass) -> Option<&Model> {
        let models = &self.paths[path];
        let own = &models[class as usize];
        if own.samples > 0 { Some(own) } else { Self::other(models) }
    }

    #[cold]
    fn other(models: &[Model; IoClass::COUNT]) -> Option<&Model> {
        models.iter().max_by_key(|model| model.samples).filter(|model| model.samples > 0)
    }

    /// What an I/O costs on a path; of one of which nothing is known: nothing, once.
    #[inline]
    fn cost(&self, path: usize, view: &PathView, class: IoClass, cost: impl Fn(&Model, &Pending) -> f64) -> f64 {
        match self.model(path, class) {
            Some(model) => cost(model, &view.pending[class as usize]),
            None if view.in_flight == 0 => 0.0,
            None => f64::MAX,
        }
    }

    /// The path with the least cost among those of the best class, and that; of equal ones the next in turn.
    #[inline]
    fn cheapest(
        &self,
        views: &[PathView],
        class: IoClass,
        cost: impl Fn(&Model, &Pending) -> f64,
    ) -> Option<(usize, f64)> {
        let (mut access, mut best, mut path) = (Access::Unusable, None, self.last);
        for _ in 0..views.len() {
            path = if path + 1 >= views.len() { 0 } else { path + 1 };
            let view = &views[path];
            if view.access > access || view.access == Access::Unusable {
                continue;
            }
            let its = self.cost(path, view, class, &cost);
            if view.access < access || best.is_none_or(|(_, least)| its < least) {
                (access, best) = (view.access, Some((path, its)));
            }
        }
        best
    }

    /// The best path. Who is not overdue costs what is usual, and nobody costs less: so all are asked only if the best one is.
    #[inline]
    fn best(&self, views: &[PathView], io: &Io) -> Option<(usize, f64)> {
        let best = self.cheapest(views, io.class, Model::usual)?;
        let pending = &views[best.0].pending[io.class as usize];
        let is_overdue = self.model(best.0, io.class).is_some_and(|model| model.is_overdue(pending, io.at));
        if !is_overdue {
            return Some(best);
        }
        self.cheapest(views, io.class, |model, pending| model.cost(pending, io.at))
    }

    /// A path that is worth a trial, as the best one costs so much.
    #[cold]
    fn to_try(&self, views: &[PathView], io: &Io, (best, cost): (usize, f64)) -> Option<usize> {
        let is_due = |path: &usize| {
            let view = &views[*path];
            if *path == best || view.access != views[best].access || view.in_flight > 0 {
                return false;
            }
            let its = self.cost(*path, view, io.class, |model, pending| model.cost(pending, io.at));
            let last_end = self.paths[*path].iter().map(|model| model.last_end).max();
            let idle = io.at.since(last_end.unwrap_or_default()).0 as f64;
            self.since_trial as f64 > SPACING as f64 * (its / cost.max(1.0) - 1.0) && idle > 4.0 * its
        };
        (0..views.len()).find(is_due)
    }
}

impl Policy for ExpectedDelay {
    fn choose(&mut self, views: &[PathView], io: &Io) -> Option<usize> {
        if self.paths.len() < views.len() {
            self.paths.resize(views.len(), Default::default());
        }
        let best = self.best(views, io)?;
        self.since_trial += 1;
        self.last = best.0;
        if self.since_trial > SPACING
            && self.since_trial.is_multiple_of(LOOK)
            && let Some(path) = self.to_try(views, io, best)
        {
            (self.last, self.since_trial) = (path, 0);
        }
        Some(self.last)
    }

    fn ended(&mut self, path: usize, io: &Io, done: Done) {
        let Some(models) = self.paths.get_mut(path) else { return };
        let model = &mut models[io.class as usize];
        model.last_end = done.at;
        if done.is_ok {
            model.learn(done.at.since(io.at), io.ahead);
        }
    }

    fn failed(&mut self, path: usize) {
        self.paths.get_mut(path).into_iter().for_each(|models| *models = Default::default());
    }
}
