//! Rounds of short runs in which everything takes its turn: on one core, and on all at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use shingle_core::random::Rng;

use super::Reads;
use super::psync::{JOBS, Shard, Tally};
use crate::reproduce::outcome::Ours;
use crate::reproduce::published::Unit;
use crate::reproduce::rounds::{Sample, summarize as summarized};
use crate::reproduce::work::cores;

/// Samples by what was run: I/Os a second.
pub type Found = BTreeMap<Reads, Vec<Sample>>;

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds: at least so many, then until every ratio is known well enough, and at most so many.
    least: usize,
    most: usize,
    /// Length of one run.
    run: Duration,
    /// Size of the RAM disk, which all threads share out.
    disk_mib: u64,
}

/// A ratio to the disk itself is known well enough when it is to this share of it.
const SPREAD: f64 = 0.005;

impl Effort {
    /// Figures to show.
    pub const FULL: Effort = Effort { least: 100, most: 500, run: Duration::from_millis(1), disk_mib: 1024 };
    /// Figures that show that it runs.
    pub const QUICK: Effort = Effort { least: 2, most: 2, run: Duration::from_micros(200), disk_mib: 24 };

    /// Runs that [`measure`] makes at most.
    pub fn runs(self, what: usize) -> u64 {
        (2 * what * self.most) as u64
    }
}

/// A run that a thread is told to make.
struct Order {
    place: usize,
    jobs: usize,
    time: Duration,
    /// To begin when all others do.
    together: bool,
}

/// A thread, as the one that measures sees it.
struct Hand {
    orders: Sender<Order>,
    tallies: Receiver<Result<Tally, String>>,
}

/// Runs everything of `what`, the disk itself first, in turns; `None` if `stop` was set. `tick` is called once for each of
/// [`Effort::runs`].
pub fn measure(
    what: &[Reads],
    effort: Effort,
    (stop, tick): (&Arc<AtomicBool>, &mut dyn FnMut()),
) -> Result<Option<Found>, String> {
    let threads = cores().min(JOBS);
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let hand = |_| {
            let ((orders, told), (told_back, tallies)) = (channel(), channel());
            let (start, sectors) = (&start, effort.disk_mib / threads as u64 * 2048);
            scope.spawn(move || serve(what, sectors, start, (&told, &told_back)));
            Hand { orders, tallies }
        };
        let hands: Vec<Hand> = (0..threads).map(hand).collect();
        hands.iter().try_for_each(|hand| hand.tally().map(drop))?;
        rounds(&hands, what, effort, (stop, tick))
    })
}

/// A thread: its disk and its layers, and then a run for each order.
fn serve(
    what: &[Reads],
    sectors: u64,
    start: &Barrier,
    (orders, tallies): (&Receiver<Order>, &Sender<Result<Tally, String>>),
) {
    let (mut shard, ready) = match Shard::new(what, sectors) {
        Ok(shard) => (shard, Tally::default()),
        // If nobody listens, another thread has failed before.
        Err(error) => return tallies.send(Err(error)).unwrap_or_default(),
    };
    let mut listens = tallies.send(Ok(ready)).is_ok();
    while let (true, Ok(order)) = (listens, orders.recv()) {
        if order.together {
            start.wait();
        }
        listens = tallies.send(shard.run(order.place, order.jobs, order.time)).is_ok();
    }
}

impl Hand {
    fn send(&self, order: Order) -> Result<(), String> {
        self.orders.send(order).map_err(|_| "a thread has ended".to_owned())
    }

    fn tally(&self) -> Result<Tally, String> {
        self.tallies.recv().map_err(|_| "a thread has ended".to_owned())?
    }
}

/// Has the threads run everything, in rounds.
fn rounds(
    hands: &[Hand],
    what: &[Reads],
    effort: Effort,
    (stop, tick): (&AtomicBool, &mut dyn FnMut()),
) -> Result<Option<Found>, String> {
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); what.len()];
    let mut order: Vec<usize> = (0..what.len()).collect();
    let mut rng = Rng::new(1);
    for round in 0..effort.most {
        let is_known = round >= effort.least && round % 50 == 0 && are_known(&samples);
        shuffle(&mut order, &mut rng);
        for place in &order {
            if stop.load(Relaxed) {
                return Ok(None);
            }
            if !is_known {
                samples[*place].push(sample(hands, *place, effort.run)?);
            }
            (0..2).for_each(|_| tick());
        }
        if is_known {
            break;
        }
    }
    Ok(Some(what.iter().copied().zip(samples).collect()))
}

/// All jobs on one core, and then on all cores.
fn sample(hands: &[Hand], place: usize, time: Duration) -> Result<Sample, String> {
    hands[0].send(Order { place, jobs: JOBS, time, together: false })?;
    let one = hands[0].tally()?;
    for (number, hand) in hands.iter().enumerate() {
        let jobs = (number..JOBS).step_by(hands.len()).count();
        hand.send(Order { place, jobs, time, together: true })?;
    }
    let mut all_cores = 0.0;
    for hand in hands {
        all_cores += hand.tally()?.ios_per_s();
    }
    Ok(Sample { rate: one.ios_per_s(), all_cores, longest_ns: one.longest_ns })
}

fn shuffle(order: &mut [usize], rng: &mut Rng) {
    for place in (1..order.len()).rev() {
        order.swap(place, rng.below(place as u64 + 1) as usize);
    }
}

/// Whether every ratio to the first is known well enough, on one core and on all.
fn are_known(samples: &[Vec<Sample>]) -> bool {
    samples.iter().all(|of| {
        let ours = summarized(of, &samples[0]);
        [ours.spread, ours.all_cores_spread].into_iter().flatten().all(|spread| spread <= SPREAD)
    })
}

/// What samples of I/Os a second amount to, in `unit`. A time is that of one job's read: a core has one in flight.
pub fn summarize(samples: &[Sample], raw: &[Sample], unit: Unit) -> Ours {
    let per_core = if unit == Unit::Nanoseconds { cores().min(JOBS) as f64 } else { 1.0 };
    let in_unit = |sample: &Sample| Sample {
        rate: unit.of(sample.rate, 512),
        all_cores: unit.of(sample.all_cores / per_core, 512),
        ..*sample
    };
    let [samples, raw] = [samples, raw].map(|samples| samples.iter().map(in_unit).collect::<Vec<_>>());
    summarized(&samples, &raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::noclone::Pattern;

    #[test]
    fn a_round_takes_everything_once_in_an_order_of_its_own() {
        let mut rng = Rng::new(1);
        let mut order: Vec<usize> = (0..20).collect();
        let mut seen = Vec::new();
        for _ in 0..10 {
            shuffle(&mut order, &mut rng);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..20).collect::<Vec<_>>());
            assert!(!seen.contains(&order));
            seen.push(order.clone());
        }
    }

    #[test]
    fn rates_and_times_say_the_same() {
        let sample = |rate| vec![Sample { rate, all_cores: rate * cores().min(JOBS) as f64, longest_ns: 1 }];
        let (raw, ours) = (sample(4e6), sample(2e6));
        let rates = summarize(&ours, &raw, Unit::MebibytesPerSecond);
        let times = summarize(&ours, &raw, Unit::Nanoseconds);
        assert_eq!((rates.value, rates.to_baseline), (976.6, Some(0.5)));
        assert_eq!((times.value, times.to_baseline), (500.0, Some(2.0)));
        assert_eq!((times.all_cores, times.all_cores_to_baseline), (Some(500.0), Some(2.0)));
    }

    #[test]
    fn a_disk_that_is_too_small_for_its_threads_is_an_error_of_all() {
        let effort = Effort { disk_mib: 0, ..Effort::QUICK };
        let stop = Arc::new(AtomicBool::new(false));
        let what = [Reads::raw(Pattern::Random)];
        assert!(measure(&what, effort, (&stop, &mut || ())).is_err());
    }
}
