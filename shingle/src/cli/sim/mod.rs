//! `shingle sim`: random worlds by their seeds, on as many threads as asked for.

mod digest;
mod scenario;
mod soak;
mod tally;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use shingle_sim::swarm::{Failure, Profile, SwarmOptions};

use super::new_file::NewFile;
use super::{CliError, output};
use shingle_host::config::parse_duration;
use tally::Tally;

/// Failures that are shortened and printed; the others are only counted.
const SHOWN: usize = 5;
/// Failures after which no further cuts or worlds are looked for: seeds that fail may have none.
const MOST_FAILED: usize = 1000;

/// Break power, zones and commands of simulated disks, and check every promise
///
/// A seed draws a zoned disk, a stack on it, its users and what goes wrong. The same seed does the same on every machine,
/// byte for byte, so a failure is replayed by its number. See docs/testing-by-simulation.md.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct SimArgs {
    /// One seed
    #[arg(long, group = "traced", conflicts_with = "seeds", value_parser = clap::value_parser!(u64).range(..u64::MAX))]
    seed: Option<u64>,
    /// Seeds from the first to before the second; with --for or --cuts the second can be left out [default: 0..1000]
    #[arg(long, value_name = "A..B", value_parser = parse_seeds)]
    seeds: Option<Range<u64>>,
    /// Go on for so long, with the seeds of every profile, or of one if it is named
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, requires = "seeds", conflicts_with = "cuts")]
    soak: Option<Duration>,
    /// File that what fails is appended to, as it is found
    #[arg(long, value_name = "FILE", requires = "soak")]
    failures: Option<PathBuf>,
    /// Go on, from the first of the seeds, until the power went so many times
    #[arg(long, value_name = "N", conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..))]
    cuts: Option<u64>,
    /// What is looked at most: plug, append, zones, all, mapper, dmzoned, ublk, paths, stl [default: plug; with --for all of these]
    #[arg(long, value_parser = parse_profile)]
    profile: Option<Profile>,
    /// File for the trace of one seed: every hop of every bio
    #[arg(long, value_name = "FILE", requires = "traced")]
    trace: Option<PathBuf>,
    /// Threads [default: 1; with --for as many as there are cores]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Most requests of a seed: cuts its run short without changing it
    #[arg(long)]
    ops: Option<u64>,
    /// Look at one out of N power cuts of each seed, for more worlds in the same time; profiles dmzoned and stl
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    one_cut_of: Option<u64>,
    /// Run the scenario of a file instead of seeds
    #[arg(long, value_name = "FILE", group = "traced", conflicts_with_all = ["seed", "seeds", "profile", "cuts", "ops", "one_cut_of", "jobs"])]
    replay: Option<PathBuf>,
    /// Folder for the scenarios of seeds that fail: operations, faults and power cuts, as few as show the failure [default: .]
    #[arg(long, value_name = "FOLDER", conflicts_with = "replay")]
    scenarios: Option<PathBuf>,
    /// Print one hash of the traces of all seeds, for every profile or the one that is named [default seeds: 0..100]
    #[arg(long, conflicts_with_all = ["replay", "soak", "cuts", "seed", "trace"])]
    digest: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  shingle sim                                  a thousand worlds of plugs
  shingle sim --profile all --seeds 0..100000 --jobs 8
  shingle sim --profile dmzoned --cuts 100000  a night of power cuts
  shingle sim --seed 47 --trace sim.trace      one world, hop by hop
  shingle sim --for 1h --seeds 730000000..     an hour of all profiles, each from this seed on
  shingle sim --replay sim-stl-47.scenario     the scenario of a seed that failed
  shingle sim --digest --jobs 2                one hash of 100 seeds of each profile, to compare two builds

Exit code: 0 if every promise was kept, 1 if one was broken; the replay command is printed with it.";

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let last = |text: &str| if text.is_empty() { Some(u64::MAX) } else { text.parse().ok() };
    let bounds = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..last(b)?));
    bounds.filter(|range: &Range<u64>| !range.is_empty()).ok_or_else(|| "write two numbers, as in 0..1000".into())
}

fn parse_profile(text: &str) -> Result<Profile, String> {
    let known = || Profile::ALL.map(Profile::name).join(", ");
    Profile::ALL.into_iter().find(|profile| profile.name() == text).ok_or_else(|| format!("use one of: {}", known()))
}

/// Runs the command.
pub fn run(args: &SimArgs) -> Result<(), CliError> {
    if let Some(file) = &args.replay {
        return scenario::run(args, file);
    }
    if args.digest {
        return digest::run(args);
    }
    if let Some(time) = args.soak {
        return soak::run(args, time);
    }
    let mut seeds = args.seed.map(|seed| seed..seed + 1).or(args.seeds.clone()).unwrap_or(0..1000);
    if args.cuts.is_some() {
        seeds.end = u64::MAX;
    } else if seeds.end == u64::MAX {
        return Err(CliError::Usage("--seeds without an end goes on for ever: add --for TIME or --cuts N".into()));
    }
    let profile = args.profile.unwrap_or_default();
    if args.one_cut_of.is_some() && !profile.has_branches() {
        return Err(CliError::Usage("--one-cut-of is for dmzoned and stl: in other worlds few cuts are drawn".into()));
    }
    let options = SwarmOptions {
        profile,
        ops: args.ops,
        one_cut_of: args.one_cut_of,
        trace: args.trace.is_some(),
        ..SwarmOptions::default()
    };
    let trace = args.trace.as_deref().map(NewFile::open).transpose()?;
    let began = Instant::now();
    let mut tally = sweep(&seeds, args.cuts, &options, args.jobs.unwrap_or(1));
    tally.real = began.elapsed();
    // What was found is said even if there is no room for its trace.
    let traced = trace.map_or(Ok(()), |file| file.fill(tally.trace.take().unwrap_or_default().as_bytes()));
    if args.json {
        output::print_json(&tally.json(profile))?
    } else {
        output::print(&tally.text())?
    }
    let failures = told(&tally, |failure| scenario::keep(failure, &options, &scenario::folder(args)));
    output::remark(&failures);
    traced?;
    if failures.is_empty() { Ok(()) } else { Err(CliError::Silent) }
}

/// Runs the seeds, or as many of them as it takes for so many cuts. What was found is the same for every number of threads.
fn sweep(seeds: &Range<u64>, cuts: Option<u64>, options: &SwarmOptions, jobs: u32) -> Tally {
    let (whole, unit) = cuts.map_or((seeds.end - seeds.start, "seeds"), |cuts| (cuts, "power cuts"));
    let template = format!("simulating {{bar:40}} {{pos}}/{{len}} {unit} ({{per_sec}}, {{eta}} left){{msg}}");
    let bar = output::bar(Some(whole), &template);
    let next = AtomicU64::new(seeds.start);
    let (done, results) = mpsc::channel();
    let mut tally = Tally::default();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (next, done) = (&next, done.clone());
            scope.spawn(move || {
                while let Ok(seed) = next.fetch_update(Relaxed, Relaxed, |seed| (seed < seeds.end).then(|| seed + 1)) {
                    if done.send((seed, world::run(seed, options))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        // In the order of the seeds, so that it does not depend on the threads where it ends.
        let (mut early, mut due) = (BTreeMap::new(), seeds.start);
        for (seed, result) in results {
            early.insert(seed, result);
            while let Some(result) = early.remove(&due).filter(|_| cuts.is_none_or(|cuts| tally.cuts < cuts)) {
                due += 1;
                tally.add(result);
                bar.set_position(if cuts.is_some() { tally.cuts } else { tally.seeds });
            }
            if !tally.failed.is_empty() {
                bar.set_message(format!(", {} failed", tally.failed.len()));
            }
            if cuts.is_some_and(|cuts| tally.cuts >= cuts || tally.failed.len() >= MOST_FAILED) {
                next.store(u64::MAX, Relaxed);
                return;
            }
        }
    });
    bar.finish_and_clear();
    tally.failed.sort_by_key(|failure| failure.seed);
    for failure in tally.failed.iter_mut().take(SHOWN) {
        *failure = *world::shorten(Box::new(failure.clone()), options);
    }
    if let Some(trace) = tally.failed.first_mut().and_then(|failure| failure.trace.take()) {
        tally.trace = Some(trace);
    }
    tally
}

/// Text about the seeds that failed, empty if none did. `keep` writes the scenario of a failure, and returns a text about it.
fn told(tally: &Tally, mut keep: impl FnMut(&Failure) -> String) -> String {
    let mut text = String::new();
    for failure in tally.failed.iter().take(SHOWN) {
        let _ = write!(text, "error: {failure}\n{}", keep(failure));
    }
    let more = tally.failed.len().saturating_sub(SHOWN);
    if more > 0 {
        let _ = writeln!(text, "error: {more} more seeds fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use shingle_sim::model::{Rule, Violation};

    fn failure(seed: u64) -> Box<Failure> {
        let at = shingle_core::time::Instant(1_500);
        Box::new(Failure {
            seed,
            profile: Profile::Zones,
            violation: Violation { rule: Rule::Data, at, what: "zone 3 sector 1 reads as Garbage".into() },
            life: 2,
            ops: 77,
            scenario: "a small world".into(),
            trace: None,
        })
    }

    #[test]
    fn a_failure_is_printed_with_its_replay_command_and_the_rest_is_counted() {
        let mut tally = Tally::default();
        (0..7).for_each(|seed| tally.add(Err(failure(seed))));
        let text = told(&tally, |failure| format!("  scenario: {}\n", failure.seed));
        assert!(text.contains("shingle sim --seed 4 --profile zones --ops 77"), "{text}");
        assert!(text.contains("zone 3 sector 1 reads as Garbage") && text.contains("2 more seeds fail"), "{text}");
        assert_eq!(tally.json(Profile::Zones)["failures"][6]["seed"], 6);
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SimArgs,
    }

    #[test]
    fn a_seed_that_would_run_no_world_and_threads_beyond_reason_are_refused() {
        let accepted = |option: &str, value: &str| Line::try_parse_from(["sim", option, value]).is_ok();
        assert!(accepted("--seed", "18446744073709551614") && !accepted("--seed", "18446744073709551615"));
        assert!(accepted("--jobs", "1024") && !accepted("--jobs", "0") && !accepted("--jobs", "99999999"));
    }

    #[test]
    fn fewer_cuts_are_looked_at_where_there_are_many() {
        let run_it = |profile| {
            let line =
                Line::try_parse_from(["sim", "--seed", "1", "--ops", "3", "--one-cut-of", "9", "--profile", profile]);
            run(&line.unwrap_or_else(|error| panic!("{error}")).args)
        };
        assert!(run_it("dmzoned").is_ok() && run_it("stl").is_ok());
        assert!(
            matches!(run_it("plug"), Err(CliError::Usage(text)) if text.contains("--one-cut-of is for dmzoned and stl"))
        );
    }

    #[test]
    fn a_trace_that_cannot_be_written_is_an_error_after_the_result() {
        let line = Line::try_parse_from(["sim", "--seed", "1", "--ops", "3", "--trace", "/nonexistent/sim.trace"]);
        let error = run(&line.unwrap_or_else(|error| panic!("{error}")).args).expect_err("there is no such directory");
        assert!(matches!(error, CliError::Failed(text) if text.contains("/nonexistent/sim.trace")));
    }

    #[test]
    fn a_number_of_cuts_is_reached_by_the_same_seeds_whatever_the_threads() {
        let options = SwarmOptions { profile: Profile::Plug, ops: Some(60), ..SwarmOptions::default() };
        let count = |jobs| {
            let tally = sweep(&(0..u64::MAX), Some(12), &options, jobs);
            (tally.seeds, tally.cuts, tally.sum)
        };
        let (seeds, cuts, sum) = count(1);
        assert!(cuts >= 12 && seeds > 1, "{cuts} cuts in {seeds} seeds");
        assert_eq!(count(3), (seeds, cuts, sum));
    }

    #[test]
    fn seeds_are_two_numbers() {
        assert_eq!(parse_seeds("3..7"), Ok(3..7));
        assert_eq!(parse_seeds("3.."), Ok(3..u64::MAX));
        for wrong in ["", "3", "..", "7..3", "3..3", "-1..4"] {
            assert!(parse_seeds(wrong).is_err(), "{wrong}");
        }
    }
}
