//! `shingle sim --for`: worlds of all profiles that nobody has run, for as long as it is told.
//!
//! Every profile goes through the same seeds, from the first one on. The next world is of the profile that is furthest from its
//! goal, so all are looked at as far in any time; what is left when all goals are reached is dm-zoned's.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use shingle_sim::swarm::{Failure, Profile, Report, SwarmOptions};

use super::tally::Tally;
use super::{MOST_FAILED, SHOWN, SimArgs, scenario, world};
use crate::cli::{CliError, interrupt, output};

/// Of the cuts of a world of dm-zoned or stl one in so many: ten worlds with twenty cuts tell more than one with two hundred.
const ONE_CUT_OF: u64 = 8;

/// Runs the command.
pub(super) fn run(args: &SimArgs, time: Duration) -> Result<(), CliError> {
    let seeds = args.seeds.clone().unwrap_or(0..u64::MAX);
    let profiles = args.profile.map_or(Profile::ALL.to_vec(), |profile| vec![profile]);
    let mut soak = Soak {
        shares: profiles.into_iter().map(|profile| Share::new(profile, &seeds, time)).collect(),
        options: SwarmOptions {
            ops: args.ops,
            one_cut_of: args.one_cut_of.or(Some(ONE_CUT_OF)),
            ..SwarmOptions::default()
        },
        until: Instant::now() + time,
        stop: interrupt::catch()?,
        bar: output::bar(Some(time.as_secs().max(1)), "soaking {bar:40} {elapsed}/{len}s{msg}"),
        say: Box::new(output::remark),
        failures: args.failures.as_ref().map(open).transpose()?,
        scenarios: scenario::folder(args),
    };
    let (first, seconds) = (seeds.start, time.as_secs());
    output::remark(&format!("seeds from {first} on for {seconds} s: --seeds {first}.. takes them again\n"));
    let cores = || thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let outcome = soak.run(args.jobs.unwrap_or_else(cores));
    let stopped = soak.stop.load(Relaxed);
    if args.json {
        output::print_json(&soak.json(first, stopped))?
    } else {
        output::print(&Tally::texts(soak.shares.iter().map(|share| (share.profile, &share.tally))))?
    }
    outcome?;
    if soak.failed() == 0 { Ok(()) } else { Err(CliError::Silent) }
}

fn open(path: &PathBuf) -> Result<File, CliError> {
    let failed = |error| CliError::Failed(format!("cannot write failures to {}: {error}", path.display()));
    OpenOptions::new().create(true).append(true).open(path).map_err(failed)
}

/// What a profile gets of the time.
struct Share {
    profile: Profile,
    /// Seeds that it has not begun.
    left: Range<u64>,
    begun: u64,
    /// Worlds that it gets before anybody gets more.
    goal: u64,
    tally: Tally,
}

impl Share {
    fn new(profile: Profile, seeds: &Range<u64>, time: Duration) -> Self {
        // An hour of two cores is enough for these.
        let an_hour = if profile.has_branches() { 4_000 } else { 20_000 };
        let goal = (an_hour * time.as_secs() / 3_600).max(1);
        Self { profile, left: seeds.clone(), begun: 0, goal, tally: Tally::default() }
    }

    /// How far it is on the way to its goal.
    fn progress(&self) -> f64 {
        self.begun as f64 / self.goal as f64
    }
}

/// The share of which the next world is, and its seed.
fn choose(shares: &mut [Share]) -> Option<(usize, u64)> {
    let open = || (0..shares.len()).filter(|place| !shares[*place].left.is_empty());
    let behind = open()
        .filter(|place| shares[*place].begun < shares[*place].goal)
        .min_by(|a, b| shares[*a].progress().total_cmp(&shares[*b].progress()));
    let place = behind.or_else(|| open().max_by_key(|place| shares[*place].profile == Profile::DmZoned))?;
    shares[place].begun += 1;
    shares[place].left.next().map(|seed| (place, seed))
}

/// A world that has ended: whose it is, how long it took, and how it went.
type Ended = (usize, Duration, Result<Report, Box<Failure>>);

struct Soak {
    shares: Vec<Share>,
    options: SwarmOptions,
    until: Instant,
    stop: interrupt::Stop,
    bar: ProgressBar,
    /// Where a failure is told of as soon as it is there.
    say: Box<dyn FnMut(&str)>,
    failures: Option<File>,
    /// Folder for scenarios.
    scenarios: PathBuf,
}

impl Soak {
    fn run(&mut self, jobs: u32) -> Result<(), CliError> {
        let began = Instant::now();
        let (until, stop, options) = (self.until, self.stop.clone(), self.options.clone());
        let shares = Mutex::new(core::mem::take(&mut self.shares));
        let (done, results) = mpsc::channel::<Ended>();
        let outcome = thread::scope(|scope| {
            for _ in 0..jobs {
                let (done, shares, stop, options) = (done.clone(), &shares, &stop, &options);
                scope.spawn(move || {
                    while !stop.load(Relaxed) && Instant::now() < until {
                        let chosen = {
                            let shares = &mut *shares.lock().unwrap_or_else(PoisonError::into_inner);
                            choose(shares).map(|(place, seed)| (place, seed, shares[place].profile))
                        };
                        let Some((place, seed, profile)) = chosen else { return };
                        let (began, options) = (Instant::now(), SwarmOptions { profile, ..options.clone() });
                        let result = world::run(seed, &options);
                        if done.send((place, began.elapsed(), result)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(done);
            let mut outcome = Ok(());
            for ended in results {
                let said = self.take(ended, &shares);
                outcome = outcome.and(said);
                self.bar.set_position(began.elapsed().as_secs());
            }
            outcome
        });
        self.bar.finish_and_clear();
        self.shares = shares.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome
    }

    /// Counts a world, and tells of it at once if it failed.
    fn take(&mut self, (place, took, result): Ended, shares: &Mutex<Vec<Share>>) -> Result<(), CliError> {
        let failure = result.as_ref().err().cloned();
        let (worlds, failed, shown) = {
            let shares = &mut *shares.lock().unwrap_or_else(PoisonError::into_inner);
            let tally = &mut shares[place].tally;
            tally.add(result);
            tally.real += took;
            let shown = tally.failed.len();
            let sum = |count: fn(&Tally) -> u64| shares.iter().map(|share| count(&share.tally)).sum::<u64>();
            (sum(|tally| tally.seeds), sum(|tally| tally.failed.len() as u64), shown)
        };
        self.bar.set_message(format!(", {worlds} worlds, {failed} failed"));
        if failed as usize >= MOST_FAILED {
            self.stop.store(true, Relaxed);
        }
        failure.map_or(Ok(()), |failure| self.tell(failure, shown <= SHOWN))
    }

    /// Reports a failure at once, and then with fewer requests and with a scenario: to shrink it may take longer than the run.
    fn tell(&mut self, failure: Box<Failure>, shorten: bool) -> Result<(), CliError> {
        let options = SwarmOptions { profile: failure.profile, ..self.options.clone() };
        self.report(&format!("{failure}\n"))?;
        if !shorten {
            return Ok(());
        }
        let failure = world::shorten(failure, &options);
        let kept = scenario::keep(&failure, &options, &self.scenarios);
        self.report(&format!("the same with fewer requests: {failure}\n{kept}"))
    }

    /// Prints what is said of a failure, and writes it to the file of failures.
    fn report(&mut self, text: &str) -> Result<(), CliError> {
        let Self { bar, say, .. } = self;
        bar.suspend(|| say(&format!("error: {text}")));
        let Some(file) = &mut self.failures else { return Ok(()) };
        write!(file, "{text}").map_err(|error| CliError::Failed(format!("cannot keep a failure: {error}")))
    }

    fn failed(&self) -> usize {
        self.shares.iter().map(|share| share.tally.failed.len()).sum()
    }

    fn json(&self, first: u64, stopped: bool) -> Value {
        let tallies: Vec<Value> = self.shares.iter().map(|share| share.tally.json(share.profile)).collect();
        json!({ "first": first, "stopped": stopped, "profiles": tallies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    use shingle_core::block::{BlockDevice, DeviceId, Limits};
    use shingle_core::plug::PlugOptions;
    use shingle_sim::model::Rule;

    fn shares(seeds: &Range<u64>, time: Duration) -> Vec<Share> {
        Profile::ALL.map(|profile| Share::new(profile, seeds, time)).into()
    }

    fn begun(shares: &[Share]) -> Vec<u64> {
        shares.iter().map(|share| share.begun).collect()
    }

    #[test]
    fn all_profiles_come_equally_far_and_what_is_left_is_for_dm_zoned() {
        let mut hour = shares(&(5..u64::MAX), Duration::from_secs(3_600));
        (0..14_800).for_each(|_| _ = choose(&mut hour));
        assert_eq!(begun(&hour), [2_000, 2_000, 2_000, 2_000, 2_000, 400, 2_000, 2_000, 400]);
        (0..134_200).for_each(|_| _ = choose(&mut hour));
        assert_eq!(begun(&hour), [20_000, 20_000, 20_000, 20_000, 20_000, 5_000, 20_000, 20_000, 4_000]);
    }

    #[test]
    fn every_seed_is_run_once_in_each_profile_and_then_it_is_over() {
        let mut few = shares(&(5..8), Duration::ZERO);
        let all: std::collections::BTreeSet<_> = std::iter::from_fn(|| choose(&mut few)).collect();
        assert!(all.len() == 27 && begun(&few) == [3; 9] && all.iter().all(|(_, seed)| (5..8).contains(seed)));
    }

    fn no_plug(_: DeviceId, _: &Limits, _: PlugOptions) -> Box<dyn BlockDevice> {
        panic!("planted")
    }

    #[test]
    fn a_world_that_panics_is_a_failure_with_its_replay_line_and_the_soak_goes_on() {
        let told = Rc::new(RefCell::new(String::new()));
        let mut soak = Soak {
            shares: vec![Share::new(Profile::Zones, &(5..8), Duration::ZERO)],
            options: SwarmOptions { plug: Some(no_plug), ..SwarmOptions::default() },
            until: Instant::now() + Duration::from_secs(3_600),
            stop: interrupt::Stop::default(),
            bar: ProgressBar::hidden(),
            say: Box::new({
                let told = told.clone();
                move |text| told.borrow_mut().push_str(text)
            }),
            failures: None,
            scenarios: std::env::temp_dir(),
        };
        soak.run(2).unwrap_or_else(|error| panic!("{error}"));
        let failed = &soak.shares[0].tally.failed;
        assert_eq!(failed.len(), 3);
        let told = told.borrow();
        let times = |text| told.matches(text).count();
        assert_eq!([times("error: seed"), times("error: the same with fewer requests: seed")], [3, 3], "{told}");
        for failure in failed {
            let text = failure.to_string();
            assert!(failure.violation.rule == Rule::Panic && text.contains("planted"), "{text}");
            let replay = format!("replay: shingle sim --seed {} --profile zones --trace", failure.seed);
            assert!(text.contains(&replay) && text.contains("world: "), "{text}");
        }
    }
}
