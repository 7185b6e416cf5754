//! `shingle bench`: options or a job file in, threads, results out.

mod file;
pub mod works;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use shingle_core::plug::WritePolicy;

use self::works::{Round, Simulation, Work};
use super::new_file::NewFile;
use super::{CliError, output, words};
use shingle_host::config::Plan;
use shingle_host::latency::short;
use shingle_lab::bench::{JobOptions, Outcome, Progress, format_rate, json_report, text_report};

/// Measure a stack with an in-process load generator
///
/// Options and results have fio's names. The stack is built in this process, so nothing but the stack is measured; a disk
/// that a daemon has open cannot be measured this way.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct BenchArgs {
    /// A job file, with a section per job, instead of the options of one
    #[arg(value_name = "JOBFILE", conflicts_with = "JobOptions")]
    job_file: Option<PathBuf>,
    /// A stack file (ends in .toml), or a built-in stack: null, null,plug, null,plug,linear, ...
    #[arg(long, default_value = "null")]
    stack: String,
    /// Parameters of the null device of a built-in stack, as in a stack file: size=8GiB,zone-size=64MiB
    #[arg(long, value_name = "KEY=VALUE,...")]
    null: Vec<String>,
    /// A simulated drive instead of a stack, in virtual time: null, the name of a profile, or the path of one
    #[arg(long, value_name = "NAME|PATH", value_parser = words::profile(), conflicts_with_all = ["stack", "device"])]
    profile: Option<String>,
    /// How writes to the zones of the simulated drive are ordered; as Linux does it if left out
    #[arg(long, requires = "profile", value_parser = words::policy())]
    policy: Option<WritePolicy>,
    /// Form of the result
    #[arg(long = "output-format", value_enum, default_value = "normal")]
    format: FormatArg,
    /// File for the result instead of stdout
    #[arg(long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    job: JobOptions,
}

const AFTER_HELP: &str = "\
Latencies are measured once per turn of the loop: a latency is right to the length of one turn, which on a memory device
at depth 128 is a few microseconds. --clock=bio reads the clock twice per I/O instead.

With --profile the drive is simulated and time is virtual: it jumps from event to event, so that hours take seconds, and
the same command line gives the same figures. Only the drive takes time then, not the processor.

A job file is fio's: [global] for all sections that follow, a section per job, `key=value` or `key` with the options above.
Jobs run together; one with `stonewall` begins when those before it have ended. More: `man shingle-bench`, or docs/bench.md.

Examples:
  shingle bench --stack null --rw=randread --bs=4k --iodepth=128 --runtime=5s --time_based
  shingle bench --stack null,plug --rw=randwrite --zonemode=zbd --iodepth=128 --runtime=5s --time_based
  shingle bench --stack lab.toml --device seq --rw=write --bs=128k --iodepth=32 --size=1GiB --verify=crc32c
  shingle bench --profile smr-30tb --policy qd1 --rw=write --bs=4k --iodepth=128 --runtime=7200s --time_based
  shingle bench --profile zns-1tb jobs.fio --output-format=json

Exit code: 0 if all jobs ended without error, 1 if one failed.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    Normal,
    Json,
}

/// Runs the command.
pub fn run(args: BenchArgs) -> Result<(), CliError> {
    let jobs = match &args.job_file {
        Some(path) => file::read(path)?,
        None => vec![args.job.clone()],
    };
    let rounds = works::rounds(&jobs).map_err(CliError::Usage)?;
    let file = args.output.as_deref().map(NewFile::open).transpose()?;
    let label = label(&rounds);
    if args.profile.is_none() {
        output::remark_build_profile();
    }
    let started = Instant::now();
    let (mut outcomes, simulation) = match &args.profile {
        Some(profile) => {
            let (work, about) = works::of_profile(profile, &args, rounds)?;
            (run_all(vec![work], &label, true)?, Some(about))
        }
        None if is_file(&args.stack) => (run_all(works::of_file(&args, rounds)?, &label, false)?, None),
        None => {
            let all = rounds.iter().enumerate();
            let works =
                all.map(|(number, round)| works::of_builtin(&args, round, number)).collect::<Result<Vec<_>, _>>()?;
            let outcomes =
                works.into_iter().map(|works| run_all(works, &label, false)).collect::<Result<Vec<_>, _>>()?;
            (outcomes.into_iter().flatten().collect(), None)
        }
    };
    if jobs.iter().any(|job| job.group_reporting) {
        outcomes = grouped(outcomes);
    }
    let text = result(&args, &outcomes, simulation.map(|about| (about, started.elapsed())));
    match file {
        None => output::print(&text)?,
        Some(file) => file.fill(text.as_bytes())?,
    }
    let complaints: Vec<String> = outcomes.iter().filter_map(Outcome::complaint).collect();
    complaints.iter().for_each(|complaint| output::remark(&format!("error: {complaint}\n")));
    if complaints.is_empty() { Ok(()) } else { Err(CliError::Silent) }
}

/// Runs the jobs of a job file's text on a stack, with a progress line on a terminal.
pub fn measure(plan: &Arc<Plan>, jobs: &str) -> Result<Vec<Outcome>, CliError> {
    let rounds = works::rounds(&file::jobs(jobs)?).map_err(CliError::Usage)?;
    let label = label(&rounds);
    run_all(works::of_plan(plan, rounds)?, &label, false)
}

fn is_file(stack: &str) -> bool {
    stack.ends_with(".toml") || stack.contains('/')
}

/// fio's word for what runs.
fn label(rounds: &[Round]) -> String {
    let jobs = rounds.iter().flatten().map(|job| format!("{}({})", job.rw, job.numjobs));
    format!("Jobs: [{}]", jobs.collect::<Vec<_>>().join(","))
}

/// The jobs of each round as one, as far as their blocks are equal: what is counted are blocks.
fn grouped(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let mut all: Vec<Outcome> = Vec::new();
    for next in outcomes {
        let same = |one: &&mut Outcome| (one.group, one.options.block_bytes) == (next.group, next.options.block_bytes);
        match all.iter_mut().find(same) {
            Some(one) => one.merge(next),
            None => all.push(next),
        }
    }
    all
}

fn result(args: &BenchArgs, outcomes: &[Outcome], simulation: Option<(Simulation, Duration)>) -> String {
    let mut report = json_report(outcomes, simulation.as_ref().map_or(&args.stack, |(about, _)| &about.profile));
    let Some((Simulation { profile, policy }, took)) = simulation else {
        return match args.format {
            FormatArg::Json => format!("{report:#}\n"),
            FormatArg::Normal => text_report(outcomes),
        };
    };
    let ran = outcomes.iter().flat_map(|outcome| &outcome.stats.flows).map(|flow| flow.busy_ns).max().unwrap_or(0);
    if args.format == FormatArg::Normal {
        let policy = policy.map_or(String::new(), |policy| format!(", policy {policy}"));
        let (ran, took) = (ran as f64 / 1e9, took.as_secs_f64());
        return format!(
            "simulated drive {profile}{policy}: all times are virtual; {ran:.1} s of them took {took:.1} s\n{}",
            text_report(outcomes)
        );
    }
    let options = &mut report["global options"];
    options["clock"] = "virtual".into();
    options["profile"] = profile.into();
    options["policy"] = policy.map(WritePolicy::name).into();
    format!("{report:#}\n")
}

/// Runs every thread to its end, with a progress line on a terminal; Ctrl-C ends the load early, a second one the program.
fn run_all(works: Vec<Work>, label: &str, simulated: bool) -> Result<Vec<Outcome>, CliError> {
    let stop = super::interrupt::catch()?;
    let (done, results) = mpsc::channel();
    let mut all = Vec::new();
    let progress: Vec<Arc<Progress>> =
        works.iter().map(|_| Arc::new(Progress { stop: stop.clone(), ..Progress::default() })).collect();
    let threads = works.len();
    for (place, work) in works.into_iter().enumerate() {
        let (progress, done) = (progress[place].clone(), done.clone());
        let thread = thread::Builder::new().name(format!("job{place}"));
        let run = move || {
            let _ = done.send((place, work(&progress)));
        };
        thread.spawn(run).map_err(|error| CliError::Failed(format!("cannot start a thread: {error}")))?;
    }
    drop(done);
    let mut line = ProgressLine::new(label, simulated);
    while all.len() < threads {
        match results.recv_timeout(Duration::from_millis(500)) {
            Ok(result) => all.push(result),
            Err(mpsc::RecvTimeoutError::Timeout) => line.show(&progress),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(CliError::Failed("a thread of the generator panicked: report the message above".into()));
            }
        }
    }
    line.clear();
    all.sort_by_key(|(place, _)| *place);
    let outcomes: Result<Vec<Vec<Outcome>>, CliError> = all.into_iter().map(|(_, outcome)| outcome).collect();
    let mut outcomes: Vec<Outcome> = outcomes?.into_iter().flatten().collect();
    if outcomes.iter().any(|outcome| outcome.device != outcomes[0].device) {
        outcomes.iter_mut().for_each(|outcome| outcome.name = format!("{}:{}", outcome.name, outcome.device));
    }
    Ok(outcomes)
}

/// fio's line about what is going on; only on a terminal.
struct ProgressLine {
    shown: bool,
    terminal: bool,
    label: String,
    /// Whether time is virtual: then rates are, too.
    simulated: bool,
    /// I/Os, bytes and time of the run at the last look, and when that was.
    last: ([u64; 3], [u64; 3], u64, Instant),
}

impl ProgressLine {
    fn new(label: &str, simulated: bool) -> Self {
        let label = label.to_owned();
        let last = ([0; 3], [0; 3], 0, Instant::now());
        Self { shown: false, terminal: std::io::stderr().is_terminal(), label, simulated, last }
    }

    fn show(&mut self, progress: &[Arc<Progress>]) {
        if !self.terminal {
            return;
        }
        let sum = |pick: fn(&Progress) -> &[std::sync::atomic::AtomicU64; 3]| -> [u64; 3] {
            std::array::from_fn(|n| progress.iter().map(|p| pick(p)[n].load(Relaxed)).sum())
        };
        let (ios, bytes) = (sum(|p| &p.ios), sum(|p| &p.bytes));
        let done = progress.iter().map(|p| p.done_ppm.load(Relaxed)).min().unwrap_or(0) as f64 / 1e4;
        let ran = progress.iter().map(|p| p.ran.load(Relaxed)).max().unwrap_or(0);
        let span = match self.simulated {
            true => (ran.saturating_sub(self.last.2)).max(1) as f64 / 1e9,
            false => self.last.3.elapsed().as_secs_f64(),
        };
        let clock = if self.simulated { format!("[{:.1} s virtual]", ran as f64 / 1e9) } else { String::new() };
        let rate = |now: [u64; 3], then: [u64; 3], n: usize| now[n].saturating_sub(then[n]) as f64 / span;
        let flows = [(0, "r"), (1, "w"), (2, "t")].iter().filter(|(n, _)| ios[*n] > 0).map(|(n, letter)| {
            let (bw, iops) = (rate(bytes, self.last.1, *n), rate(ios, self.last.0, *n));
            format!("[{letter}={}/s][{letter}={} IOPS]", format_rate(bw), short(iops))
        });
        let flows: String = flows.collect();
        output::remark(&format!("\r\x1b[K{}[{done:.1}%]{clock}{flows}", self.label));
        (self.shown, self.last) = (true, (ios, bytes, ran, Instant::now()));
    }

    fn clear(&self) {
        if self.shown {
            output::remark("\r\x1b[K");
        }
    }
}
