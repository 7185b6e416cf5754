//! `expected-delay`: the path on which an I/O will be done first, as far as the past and what is under way tell.

use super::{Access, Done, Io, IoClass, PathView, Pending, Policy};
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// Share of a new sample in a moving average: 128 samples are remembered.
const NEWEST: f64 = 1.0 / 128.0;
/// What is taken for the cost of an I/O ahead before it is known, as a share of the latency with all those ahead: half of a latency is
/// waiting. It weighs as much as samples whose numbers ahead vary by a quarter of their mean.
const WAITING: f64 = 0.5;
const WEIGHT_OF_GUESS: f64 = 0.25;
/// How much of what an I/O costs those behind it counts. All of it would be best for the sum, if the slope were known exactly.
const FOR_OTHERS: f64 = 0.25;
/// I/Os that could have ended and did not, from which on a path counts as stalled.
const MISSED: f64 = 4.0;
/// A path that is not taken is tried with one I/O of so many at most, and so that it costs a two-hundredth of the mean latency.
const SPACING: f64 = 200.0;
/// No model's latency falls below this share of its mean, however short the queue is.
const LEAST: f64 = 0.1;

/// What is known of one kind of I/O on one path.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    samples: u32,
    /// Moving averages: the latency in ns, the I/Os of this kind ahead, the variance of these, and how both vary together.
    latency: f64,
    ahead: f64,
    variance: f64,
    covariance: f64,
    /// What one I/O ahead costs, in ns.
    slope: f64,
    last_end: Instant,
}

impl Model {
    fn learn(&mut self, latency: Duration, ahead: u32) {
        self.samples = self.samples.saturating_add(1);
        let share = NEWEST.max(1.0 / f64::from(self.samples));
        let (longer, more) = (latency.0 as f64 - self.latency, f64::from(ahead) - self.ahead);
        self.latency += share * longer;
        self.ahead += share * more;
        self.variance += share * ((1.0 - share) * more * more - self.variance);
        self.covariance += share * ((1.0 - share) * longer * more - self.covariance);
        // A regression that begins with a guess and forgets it as numbers ahead vary.
        let guess = WAITING * self.latency / (self.ahead + 1.0);
        let weight = WEIGHT_OF_GUESS * (self.ahead + 1.0);
        let slope = (self.covariance + weight * guess) / (self.variance + weight);
        self.slope = slope.clamp(0.0, self.latency);
    }

    /// What an I/O costs that is sent at `now` behind these, in ns.
    fn cost(&self, pending: &Pending, now: Instant) -> f64 {
        let ahead = f64::from(pending.count);
        let delay = (self.latency + self.slope * (ahead - self.ahead)).max(LEAST * self.latency);
        delay + FOR_OTHERS * self.slope * ahead + self.stalled(pending, delay.max(self.latency), now)
    }

    /// How much longer than usual nothing has ended although it should have: by as much it may go on.
    fn stalled(&self, pending: &Pending, usual: f64, now: Instant) -> f64 {
        let (ahead, silence) = (f64::from(pending.count), now.since(self.last_end).0 as f64);
        if silence * (ahead / MISSED).max(1.0) <= usual || pending.count == 0 {
            return 0.0;
        }
        let age = pending.ages(now) as f64 / ahead;
        let evidence = (silence * ahead / MISSED).min(2.0 * age).max(silence.min(age));
        (evidence - usual).max(0.0)
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
    /// What an I/O costs on a path; `None` if nothing is known of it.
    fn cost(&self, path: usize, view: &PathView, io: &Io) -> Option<f64> {
        let models = &self.paths[path];
        let own = &models[io.class as usize];
        let model = if own.samples > 0 { own } else { models.iter().max_by_key(|model| model.samples)? };
        (model.samples > 0).then(|| model.cost(&view.pending[io.class as usize], io.at))
    }

    /// A path that is worth a trial, as the best one costs so much.
    fn to_try(&self, views: &[PathView], io: &Io, (best, cost): (usize, f64)) -> Option<usize> {
        let since = self.since_trial as f64;
        if since <= SPACING {
            return None;
        }
        let is_due = |path: &usize| {
            let view = &views[*path];
            if *path == best || view.access != views[best].access || view.in_flight > 0 {
                return false;
            }
            let Some(its) = self.cost(*path, view, io) else { return false };
            let last_end = self.paths[*path].iter().map(|model| model.last_end).max();
            let idle = io.at.since(last_end.unwrap_or_default()).0 as f64;
            since > SPACING * (its / cost.max(1.0) - 1.0) && idle > 4.0 * its
        };
        (0..views.len()).find(is_due)
    }
}

impl Policy for ExpectedDelay {
    fn choose(&mut self, views: &[PathView], io: &Io) -> Option<usize> {
        if self.paths.len() < views.len() {
            self.paths.resize(views.len(), Default::default());
        }
        let class = views.iter().map(|view| view.access).min().filter(|access| *access != Access::Unusable)?;
        let mut best: Option<(usize, f64)> = None;
        for path in (self.last + 1..views.len()).chain(0..(self.last + 1).min(views.len())) {
            let view = &views[path];
            if view.access != class {
                continue;
            }
            let cost = match self.cost(path, view, io) {
                Some(cost) => cost,
                None if view.in_flight == 0 => 0.0,
                None => f64::MAX,
            };
            if best.is_none_or(|(_, least)| cost < least) {
                best = Some((path, cost));
            }
        }
        let best = best?;
        self.since_trial += 1;
        let tried = self.to_try(views, io, best);
        if tried.is_some() {
            self.since_trial = 0;
        }
        self.last = tried.unwrap_or(best.0);
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
