//! `expected-delay`: the path on which an I/O will be done first, as far as the past and what is under way tell.

use super::{Access, Done, Io, IoClass, PathView, Pending, Policy};
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// Samples that a moving average remembers, and the share of a new one.
const REMEMBERED: u32 = 128;
const NEWEST: f64 = 1.0 / REMEMBERED as f64;
/// What an I/O costs a path beside its data, in bytes of data: the weight of an I/O is both.
const BESIDE_DATA: u64 = 16 << 10;
/// What is taken for waiting of a latency before it is known, as a share. It weighs as much as samples that vary in what is ahead of them by
/// a tenth of its mean: a guess that is too high spreads I/Os over worse paths, and then they never vary enough to show it.
const WAITING: f64 = 0.2;
const WEIGHT_OF_GUESS: f64 = 0.1;
/// I/Os that could have ended and did not, from which on a path counts as stalled.
const MISSED: u32 = 4;
/// Latencies without an end on a path, after which what hung in that is one sample.
const HUNG: f64 = 4.0;
/// A path that is not taken is tried with one I/O of so many at most, and so that it costs a two-thousandth of the mean latency.
const RAREST: u64 = 100;
const SPACING: f64 = 2000.0;
/// Whether one is due is looked at with one I/O of so many.
const LOOK: u64 = 16;
/// What is known of a path when it is tried counts as so many samples, since it is old.
const KEPT: u32 = 4;
/// No model's latency falls below this share of its mean, however short the queue is.
const LEAST: f64 = 0.1;

/// A slope is fitted anew after so many samples.
const REFIT: u32 = 8;

fn weight(count: u32, bytes: u64) -> f64 {
    (u64::from(count) * BESIDE_DATA + bytes) as f64
}

/// Moving averages of what a latency depends on: its mean, its variance, and how both vary together.
#[derive(Clone, Copy, Debug, Default)]
struct Cause {
    mean: f64,
    variance: f64,
    covariance: f64,
}

impl Cause {
    fn learn(&mut self, share: f64, value: f64, longer: f64) {
        let more = value - self.mean;
        self.mean += share * more;
        self.variance += share * ((1.0 - share) * more * more - self.variance);
        self.covariance += share * ((1.0 - share) * longer * more - self.covariance);
    }
}

/// What is known of one kind of I/O on one path. First what a choice needs: a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    samples: u32,
    /// When one ended last.
    last_end: Instant,
    /// The mean in ns.
    latency: f64,
    /// What an I/O without weight costs behind none, in ns, what weight ahead of it adds, and what its own does.
    base: f64,
    slope: f64,
    own_slope: f64,
    ahead: Cause,
    own: Cause,
    /// When the last stall ended.
    stalled_until: Instant,
}

impl Model {
    /// Notes that one has ended. All that hung in a stall are one sample: each would say the same, and the path be left for too long.
    fn end(&mut self, io: &Io, done: Done) {
        let silence = done.at.since(self.last_end.max(io.at));
        self.last_end = done.at;
        if !done.is_ok {
            return;
        }
        let (latency, hung) = (done.at.since(io.at), Duration((HUNG * self.latency) as u64));
        if silence > hung {
            self.stalled_until = done.at;
        } else if io.at < self.stalled_until && latency > hung {
            return;
        }
        self.learn(latency, io);
    }

    fn learn(&mut self, latency: Duration, io: &Io) {
        self.samples = self.samples.saturating_add(1);
        let share = if self.samples > REMEMBERED { NEWEST } else { 1.0 / f64::from(self.samples) };
        let longer = latency.0 as f64 - self.latency;
        self.latency += share * longer;
        self.ahead.learn(share, weight(io.ahead, io.bytes_ahead), longer);
        self.own.learn(share, weight(1, io.bytes.into()), longer);
        if self.samples < REMEMBERED || self.samples.is_multiple_of(REFIT) {
            self.fit();
        }
        self.base = self.latency - self.slope * self.ahead.mean - self.own_slope * self.own.mean;
    }

    /// Draws the line: a regression for what is ahead, which begins with a guess and forgets it as that varies, and one for the own weight,
    /// which does not depend on what is ahead.
    fn fit(&mut self) {
        let (all, own) = (self.ahead.mean + self.own.mean, self.own.mean);
        let guess = WAITING * self.latency / all;
        let weight = WEIGHT_OF_GUESS * all * own;
        let slope = (self.ahead.covariance + weight * guess) / (self.ahead.variance + weight);
        self.slope = slope.clamp(0.0, self.latency / own);
        // Less than a byte is what rounding has left.
        let varies = self.own.variance > 1.0;
        self.own_slope = if varies { self.own.covariance / self.own.variance } else { 0.0 };
    }

    /// The latency behind these, in ns.
    #[inline]
    fn line(&self, pending: &Pending, io: &Io) -> f64 {
        let (ahead, own) = (weight(pending.count, pending.bytes), weight(1, io.bytes.into()));
        self.base + self.slope * ahead + self.own_slope * own
    }

    /// What an I/O costs behind these, in ns, if all goes on as usual: its own latency, and what it adds to that of as many behind it.
    #[inline]
    fn usual(&self, pending: &Pending, io: &Io) -> f64 {
        let for_others = self.slope * weight(pending.count, pending.bytes);
        self.line(pending, io).max(LEAST * self.latency) + for_others
    }

    /// Whether some of these should have ended: if not, nothing comes to what is usual.
    #[inline]
    fn is_overdue(&self, pending: &Pending, now: Instant) -> bool {
        let (silence, missed) = (now.since(self.last_end).0 as f64, f64::from(MISSED));
        pending.count > 0 && silence * f64::from(pending.count).max(missed) > self.latency * missed
    }

    /// What it costs if it is sent now.
    fn cost(&self, pending: &Pending, io: &Io) -> f64 {
        let more = if self.is_overdue(pending, io.at) { self.stalled(pending, io) } else { 0.0 };
        self.usual(pending, io) + more
    }

    /// How much longer than usual nothing has ended although it should have: by as much it may go on.
    fn stalled(&self, pending: &Pending, io: &Io) -> f64 {
        let (count, silence) = (f64::from(pending.count), io.at.since(self.last_end).0 as f64);
        let age = pending.ages(io.at) as f64 / count;
        let evidence = (silence * count / f64::from(MISSED)).min(2.0 * age).max(silence.min(age));
        (evidence - self.line(pending, io).max(self.latency)).max(0.0)
    }
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    models: [Model; IoClass::COUNT],
    /// The number of the last I/O that it got.
    taken: u64,
}

/// Ours. What a path will take is a line: the latency that it has without a queue, what the I/Os ahead add by their number and bytes, and
/// what its own bytes add. It is fitted to the I/Os that have ended, for reads, writes and the rest apart, since these wait for different
/// wires. A path that falls silent with I/Os under way costs more with every moment, before any of them has ended. Paths of which nothing
/// is known get one I/O at a time, and those that are not worth taking get one now and then, the more rarely the more it costs. An I/O
/// that failed tells nothing of its path but that it has to be known anew.
///
/// What other submitters do is seen by its effect: their I/Os make the latency longer that is without a queue of ours.
#[derive(Debug, Default)]
pub struct ExpectedDelay {
    paths: Vec<Known>,
    last: usize,
    /// I/Os that were sent.
    chosen: u64,
}

impl ExpectedDelay {
    /// What is known of I/Os of a kind on a path; of no kind, if nothing has ended there.
    #[inline]
    fn model(&self, path: usize, class: IoClass) -> Option<&Model> {
        let models = &self.paths[path].models;
        let own = &models[class as usize];
        if own.samples > 0 { Some(own) } else { Self::other(models) }
    }

    #[cold]
    fn other(models: &[Model; IoClass::COUNT]) -> Option<&Model> {
        models.iter().max_by_key(|model| model.samples).filter(|model| model.samples > 0)
    }

    /// What an I/O costs on a path; of one of which nothing is known: nothing, once.
    #[inline]
    fn cost(&self, path: usize, view: &PathView, io: &Io, cost: impl Fn(&Model, &Pending, &Io) -> f64) -> f64 {
        match self.model(path, io.class) {
            Some(model) => cost(model, &view.pending[io.class as usize], io),
            None if view.in_flight == 0 => 0.0,
            None => f64::MAX,
        }
    }

    /// The path with the least cost among those of the best class, and that; of equal ones the next in turn.
    #[inline]
    fn cheapest(
        &self,
        views: &[PathView],
        io: &Io,
        cost: impl Fn(&Model, &Pending, &Io) -> f64,
    ) -> Option<(usize, f64)> {
        let (mut access, mut best, mut path) = (Access::Unusable, None, self.last);
        for _ in 0..views.len() {
            path = if path + 1 >= views.len() { 0 } else { path + 1 };
            let view = &views[path];
            if view.access > access || view.access == Access::Unusable {
                continue;
            }
            let its = self.cost(path, view, io, &cost);
            if view.access < access || best.is_none_or(|(_, least)| its < least) {
                (access, best) = (view.access, Some((path, its)));
            }
        }
        best
    }

    /// The best path. Who is not overdue costs what is usual, and nobody costs less: so all are asked only if the best one is.
    #[inline]
    fn best(&self, views: &[PathView], io: &Io) -> Option<(usize, f64)> {
        let best = self.cheapest(views, io, Model::usual)?;
        let pending = &views[best.0].pending[io.class as usize];
        let is_overdue = self.model(best.0, io.class).is_some_and(|model| model.is_overdue(pending, io.at));
        if !is_overdue {
            return Some(best);
        }
        self.cheapest(views, io, Model::cost)
    }

    /// A path that is worth a trial, as the best one costs so much.
    #[cold]
    fn to_try(&self, views: &[PathView], io: &Io, (best, cost): (usize, f64)) -> Option<usize> {
        let is_due = |path: &usize| {
            let view = &views[*path];
            if *path == best || view.access != views[best].access || view.in_flight > 0 {
                return false;
            }
            let its = self.cost(*path, view, io, Model::cost);
            let known = &self.paths[*path];
            let last_end = known.models.iter().map(|model| model.last_end).max();
            let idle = io.at.since(last_end.unwrap_or_default()).0 as f64;
            let passed = self.chosen - known.taken;
            passed > RAREST && passed as f64 > SPACING * (its / cost.max(1.0) - 1.0) && idle > 4.0 * its
        };
        (0..views.len()).find(is_due)
    }

    /// Tries a path: what comes of it weighs much, so that one that is well again is known to be so at once.
    #[cold]
    fn try_out(&mut self, path: usize) {
        self.last = path;
        self.paths[path].models.iter_mut().for_each(|model| model.samples = model.samples.min(KEPT));
    }
}

impl Policy for ExpectedDelay {
    fn choose(&mut self, views: &[PathView], io: &Io) -> Option<usize> {
        if self.paths.len() < views.len() {
            self.paths.resize(views.len(), Default::default());
        }
        let best = self.best(views, io)?;
        self.chosen += 1;
        self.last = best.0;
        if self.chosen.is_multiple_of(LOOK)
            && let Some(path) = self.to_try(views, io, best)
        {
            self.try_out(path);
        }
        self.paths[self.last].taken = self.chosen;
        Some(self.last)
    }

    fn ended(&mut self, path: usize, io: &Io, done: Done) {
        if let Some(known) = self.paths.get_mut(path) {
            known.models[io.class as usize].end(io, done);
        }
    }

    fn failed(&mut self, path: usize) {
        self.paths.get_mut(path).into_iter().for_each(|known| known.models = Default::default());
    }
}
