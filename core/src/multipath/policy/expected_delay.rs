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

    /// What an I/O costs that is sent at `now` behind these, in ns.
    #[inline]
    fn cost(&self, pending: &Pending, now: Instant) -> f64 {
        let ahead = f64::from(pending.count);
        let delay = (self.base + self.slope * ahead).max(self.least);
        let cost = delay + self.for_others * ahead;
        let silence = now.since(self.last_end).0;
        let could_be = silence.saturating_mul(pending.count.max(MISSED).into()) > self.mean * u64::from(MISSED);
        if could_be && pending.count > 0 { cost + self.stalled(pending, delay, (silence, now)) } else { cost }
    }

    /// How much longer than usual nothing has ended although it should have: by as much it may go on.
    #[cold]
    fn stalled(&self, pending: &Pending, delay: f64, (silence, now): (u64, Instant)) -> f64 {
        let (ahead, silence) = (f64::from(pending.count), silence as f64);
        let age = pending.ages(now) as f64 / ahead;
        let evidence = (silence * ahead / f64::from(MISSED)).min(2.0 * age).max(silence.min(age));
        (evidence - delay.max(self.latency)).max(0.0)
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
    /// What an I/O costs on a path; of one of which nothing is known: nothing, once.
    #[inline]
    fn cost(&self, path: usize, view: &PathView, io: &Io) -> f64 {
        let (models, class) = (&self.paths[path], io.class as usize);
        let own = &models[class];
        if own.samples > 0 {
            return own.cost(&view.pending[class], io.at);
        }
        match models.iter().max_by_key(|model| model.samples) {
            Some(model) if model.samples > 0 => model.cost(&view.pending[class], io.at),
            _ if view.in_flight == 0 => 0.0,
            _ => f64::MAX,
        }
    }

    /// The path with the least cost among those of the best class, and that; of equal ones the next in turn.
    #[inline]
    fn cheapest(&self, views: &[PathView], io: &Io) -> Option<(usize, f64)> {
        let (mut class, mut best, mut path) = (Access::Unusable, None, self.last);
        for _ in 0..views.len() {
            path = if path + 1 >= views.len() { 0 } else { path + 1 };
            let view = &views[path];
            if view.access > class || view.access == Access::Unusable {
                continue;
            }
            let cost = self.cost(path, view, io);
            if view.access < class || best.is_none_or(|(_, least)| cost < least) {
                (class, best) = (view.access, Some((path, cost)));
            }
        }
        best
    }

    /// A path that is worth a trial, as the best one costs so much.
    #[cold]
    fn to_try(&self, views: &[PathView], io: &Io, (best, cost): (usize, f64)) -> Option<usize> {
        let is_due = |path: &usize| {
            let view = &views[*path];
            if *path == best || view.access != views[best].access || view.in_flight > 0 {
                return false;
            }
            let its = self.cost(*path, view, io);
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
        let best = self.cheapest(views, io)?;
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
