//! `shingle bench`: options in, threads, results out.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use shingle_core::block::DeviceId;
use shingle_core::plug::WritePolicy;

use super::{CliError, output};
use crate::bench::{
    Bare, BuiltinStack, ClockMode, Drive, DriveSpec, Host, JobError, JobOptions, Load, MOST_KEPT, Outcome, Progress,
    Rw, Sharded, Simulated, Verify, ZoneMode, format_rate, json_report, short, text_report,
};
use crate::config::{Plan, build_shard, format_bytes, null_from_words, parse_duration, parse_size};
use crate::profile::Model;
use crate::shard::Shard;

/// Measure a stack with an in-process load generator
///
/// Options and results have fio's names. The stack is built in this process, so nothing but the stack is measured; a disk
/// that a daemon has open cannot be measured this way.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct BenchArgs {
    /// A stack file (ends in .toml), or a built-in stack: null, null,plug, null,plug,linear, ...
    #[arg(long, default_value = "null")]
    stack: String,
    /// Device of the stack file; can be given several times. Every device gets its own jobs
    #[arg(long, alias = "filename")]
    device: Vec<String>,
    /// Parameters of the null device of a built-in stack, as in a stack file: size=8GiB,zone-size=64MiB
    #[arg(long, value_name = "KEY=VALUE,...")]
    null: Vec<String>,
    /// A simulated drive instead of a stack, in virtual time: null, the name of a profile, or the path of one
    #[arg(long, value_name = "NAME|PATH", conflicts_with_all = ["stack", "device"])]
    profile: Option<String>,
    /// How writes to the zones of the simulated drive are ordered; as Linux does it if left out
    #[arg(long, requires = "profile", value_parser = parse_policy)]
    policy: Option<WritePolicy>,
    /// Name of the job
    #[arg(long)]
    name: Option<String>,
    /// What to do
    #[arg(long, alias = "readwrite", default_value = "read", value_parser = parse_rw)]
    rw: Rw,
    /// Size of one I/O
    #[arg(long, alias = "blocksize", default_value = "4k", value_parser = parse_block)]
    bs: u32,
    /// I/Os in flight per job
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65535))]
    iodepth: u32,
    /// Jobs; with a built-in stack each has a thread and a stack of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    numjobs: u32,
    /// Stop after this time: 30, 30s, 500ms
    #[arg(long, value_parser = parse_duration)]
    runtime: Option<Duration>,
    /// Start over until the runtime is reached
    #[arg(long = "time_based", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    time_based: Option<bool>,
    /// Length of the region to work in; to the end of the device if left out
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Bytes to transfer; the region's length if left out
    #[arg(long = "io_size", value_parser = parse_size)]
    io_size: Option<u64>,
    /// Start of the region
    #[arg(long, default_value = "0", value_parser = parse_size)]
    offset: u64,
    /// How much further each of --numjobs jobs begins than the one before it
    #[arg(long = "offset_increment", default_value = "0", value_parser = parse_size)]
    offset_increment: u64,
    /// Treatment of zones; zbd on a zoned device if left out
    #[arg(long, value_enum)]
    zonemode: Option<ZoneModeArg>,
    /// Most zones that all jobs together write at a time
    #[arg(long = "max_open_zones", value_parser = clap::value_parser!(u32).range(1..))]
    max_open_zones: Option<u32>,
    /// Write with zone appends
    #[arg(long = "write_zone_append", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    append: Option<bool>,
    /// Check what is read; after writing, read everything back. On a simulated drive in 16GiB at most
    #[arg(long, value_enum)]
    verify: Option<VerifyArg>,
    /// Bytes for --verify=pattern, in hexadecimal
    #[arg(long = "verify_pattern", value_name = "0xBYTES")]
    verify_pattern: Option<String>,
    /// Flush the device after so many writes; 0: never
    #[arg(long, default_value_t = 0)]
    fsync: u32,
    /// Pause after an I/O is back: 50us, 1ms; a plain number is in microseconds
    #[arg(long, value_parser = parse_duration)]
    thinktime: Option<Duration>,
    /// I/Os before each pause
    #[arg(long = "thinktime_blocks", default_value_t = 1, requires = "thinktime", value_parser = clap::value_parser!(u32).range(1..))]
    thinktime_blocks: u32,
    /// Report all jobs as one
    #[arg(long = "group_reporting", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    group_reporting: Option<bool>,
    /// Percentage of reads in a mixed load
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    rwmixread: u8,
    /// Seed of the random offsets
    #[arg(long, default_value_t = JobOptions::default().seed)]
    randseed: u64,
    /// Accepted as fio has it; whether the page cache is bypassed is written in the stack file
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    direct: Option<bool>,
    /// When to read the clock: once per turn of the loop, or at every bio
    #[arg(long, value_enum, default_value = "turn")]
    clock: ClockArg,
    /// Form of the result
    #[arg(long = "output-format", value_enum, default_value = "normal")]
    format: FormatArg,
    /// File for the result instead of stdout
    #[arg(long)]
    output: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Latencies are measured once per turn of the loop: a latency is right to the length of one turn, which on a memory device
at depth 128 is a few microseconds. --clock=bio reads the clock twice per I/O instead.

With --profile the drive is simulated and time is virtual: it jumps from event to event, so that hours take seconds, and
the same command line gives the same figures. Only the drive takes time then, not the processor.

Examples:
  shingle bench --stack null --rw=randread --bs=4k --iodepth=128 --runtime=5s --time_based
  shingle bench --stack null,plug --rw=randwrite --zonemode=zbd --iodepth=128 --runtime=5s --time_based
  shingle bench --stack lab.toml --device seq --rw=write --bs=128k --iodepth=32 --size=1GiB --verify=crc32c
  shingle bench --profile smr-30tb --policy qd1 --rw=write --bs=4k --iodepth=128 --runtime=7200s --time_based

Exit code: 0 if all jobs ended without error, 1 if one failed.";

#[derive(Clone, Copy, ValueEnum)]
enum ZoneModeArg {
    None,
    Zbd,
}

#[derive(Clone, Copy, ValueEnum)]
enum VerifyArg {
    Crc32c,
    Pattern,
}

#[derive(Clone, Copy, ValueEnum)]
enum ClockArg {
    Turn,
    Bio,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    Normal,
    Json,
}

fn parse_rw(text: &str) -> Result<Rw, String> {
    let found = Rw::NAMES.iter().find(|(name, _)| *name == text || (text == "readwrite" && *name == "rw"));
    let known = || Rw::NAMES.map(|(name, _)| name).join(", ");
    found.map(|(_, rw)| *rw).ok_or_else(|| format!("use one of: {}", known()))
}

fn parse_block(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    let fits = bytes > 0 && bytes.is_multiple_of(512) && bytes <= 1 << 30;
    if fits { Ok(bytes as u32) } else { Err("use a multiple of 512 of at most 1GiB".into()) }
}

/// A write policy by its name.
pub fn parse_policy(text: &str) -> Result<WritePolicy, String> {
    text.parse().map_err(|error: shingle_core::plug::UnknownPolicy| error.to_string())
}

fn parse_flag(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err("use 0 or 1".into()),
    }
}

impl BenchArgs {
    fn options(&self) -> Result<JobOptions, JobError> {
        let options = JobOptions {
            name: self.name.clone().unwrap_or_else(|| self.rw.to_string()),
            rw: self.rw,
            block_bytes: self.bs,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            runtime: self.runtime,
            time_based: self.time_based.unwrap_or(false),
            offset: self.offset,
            offset_increment: self.offset_increment,
            size: self.size,
            io_size: self.io_size,
            zonemode: self.zonemode.map(|mode| match mode {
                ZoneModeArg::None => ZoneMode::None,
                ZoneModeArg::Zbd => ZoneMode::Zbd,
            }),
            max_open_zones: self.max_open_zones,
            append: self.append.unwrap_or(false),
            verify: self.verify()?,
            rwmixread: self.rwmixread,
            seed: self.randseed,
            fsync: self.fsync,
            thinktime: self.thinktime.filter(|time| !time.is_zero()).map(|time| (time, self.thinktime_blocks)),
            clock: match self.clock {
                ClockArg::Turn => ClockMode::Turn,
                ClockArg::Bio => ClockMode::Bio,
            },
        };
        if options.time_based && options.runtime.is_none() {
            return Err(JobError("--time_based needs --runtime".into()));
        }
        Ok(options)
    }

    fn verify(&self) -> Result<Option<Verify>, JobError> {
        match (self.verify, &self.verify_pattern) {
            (Some(VerifyArg::Pattern), Some(pattern)) => Ok(Some(Verify::Pattern(parse_pattern(pattern)?))),
            (Some(VerifyArg::Pattern), None) => Err(JobError("--verify=pattern needs --verify_pattern=0x...".into())),
            (_, Some(_)) => Err(JobError("--verify_pattern needs --verify=pattern".into())),
            (Some(VerifyArg::Crc32c), None) => Ok(Some(Verify::Crc32c)),
            (None, None) => Ok(None),
        }
    }
}

fn parse_pattern(text: &str) -> Result<Vec<u8>, JobError> {
    let bad =
        || JobError(format!("--verify_pattern={text} is not an even number of hexadecimal digits, as in 0xdeadbeef"));
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(bad());
    }
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| bad());
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// One thread of the run.
type Work = Box<dyn FnOnce(&Progress) -> Result<Vec<Outcome>, CliError> + Send>;

/// Runs the command.
pub fn run(args: BenchArgs) -> Result<(), CliError> {
    let options = args.options()?;
    let (works, simulation) = match &args.profile {
        Some(profile) => profile_works(profile, &args, &options).map(|(work, about)| (vec![work], Some(about)))?,
        None if is_file(&args.stack) => (file_works(&args, &options)?, None),
        None => (builtin_works(&args, &options)?, None),
    };
    let started = Instant::now();
    let mut outcomes = run_all(works, &options, simulation.is_some())?;
    if args.group_reporting.unwrap_or(false) {
        outcomes = grouped(outcomes);
    }
    let text = result(&args, &outcomes, simulation.map(|about| (about, started.elapsed())));
    match &args.output {
        None => output::print(&text)?,
        Some(path) => std::fs::write(path, text)
            .map_err(|error| CliError::Failed(format!("cannot write the result to {}: {error}", path.display())))?,
    }
    let complaints: Vec<String> = outcomes.iter().filter_map(Outcome::complaint).collect();
    complaints.iter().for_each(|complaint| output::remark(&format!("error: {complaint}\n")));
    if complaints.is_empty() { Ok(()) } else { Err(CliError::Silent) }
}

/// All jobs as one.
fn grouped(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let all = outcomes.into_iter().reduce(|mut all, next| {
        all.merge(next);
        all
    });
    all.into_iter().collect()
}

/// What was simulated.
struct Simulation {
    profile: String,
    policy: Option<WritePolicy>,
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

/// All jobs on one simulated drive, on one thread: its time is theirs.
fn profile_works(profile: &str, args: &BenchArgs, options: &JobOptions) -> Result<(Work, Simulation), CliError> {
    let null = if args.null.is_empty() { None } else { Some(null_from_words(&args.null).map_err(CliError::Usage)?) };
    if null.is_some() && profile != "null" {
        return Err(CliError::Usage("--null is for --profile null: copy the profile's file and edit it".into()));
    }
    let spec = DriveSpec::find(profile, null)?;
    if let DriveSpec::Profile(drive) = &spec
        && let Model::Null(config) = &drive.model
        && config.completion == shingle_core::time::Duration::ZERO
    {
        return Err(CliError::Usage(format!(
            "the null device of profile {profile} takes no time, and virtual time would stand still: give it a \
             `completion`, as in \"10us\""
        )));
    }
    // Built twice: here for its mistakes, and on the thread of the jobs, which it does not leave.
    let keep_data = options.verify.is_some();
    let (policy, name) = (args.policy, profile.to_owned());
    let drive = spec.build(policy, keep_data)?;
    if keep_data {
        check_kept(drive.stack.limits(drive.top).capacity * 512, options)?;
    }
    let simulation = Simulation { profile: name.clone(), policy: drive.policy };
    let options = Arc::new(options.clone());
    let work: Work = Box::new(move |progress| {
        let Drive { stack, top, .. } = spec.build(policy, keep_data)?;
        Ok(measure(&mut Simulated::new(stack), &[(name, top)], &options, 0, progress)?)
    });
    Ok((work, simulation))
}

/// A simulated drive keeps what is verified in memory, all of the region in the end.
fn check_kept(capacity: u64, options: &JobOptions) -> Result<(), CliError> {
    let region = options.size.unwrap_or(capacity.saturating_sub(options.offset));
    if region <= MOST_KEPT {
        return Ok(());
    }
    let (region, most) = (format_bytes(region), format_bytes(MOST_KEPT));
    Err(CliError::Usage(format!(
        "--verify keeps in memory what is written to a simulated drive, up to {region} here: work in {most} at most, with \
         --size and --offset"
    )))
}

fn is_file(stack: &str) -> bool {
    stack.ends_with(".toml") || stack.contains('/')
}

fn builtin_works(args: &BenchArgs, options: &JobOptions) -> Result<Vec<Work>, CliError> {
    if !args.device.is_empty() {
        return Err(CliError::Usage("--device is for stack files: a built-in stack has one device".into()));
    }
    let null = if args.null.is_empty() { None } else { Some(null_from_words(&args.null).map_err(CliError::Usage)?) };
    let zoned = options.zonemode == Some(ZoneMode::Zbd) || options.append;
    let stack = BuiltinStack::parse(&args.stack, null, zoned)?;
    let work = |number: u32| -> Work {
        let (stack, name) = (stack.clone(), args.stack.clone());
        let options = Arc::new(JobOptions { numjobs: 1, ..options.clone() });
        Box::new(move |progress| {
            let (stack, device) = stack.build()?;
            let devices = [(name, device)];
            Ok(measure(&mut Bare::new(stack), &devices, &options, number, progress)?)
        })
    };
    Ok((0..options.numjobs).map(work).collect())
}

fn file_works(args: &BenchArgs, options: &JobOptions) -> Result<Vec<Work>, CliError> {
    if !args.null.is_empty() {
        return Err(CliError::Usage("--null is for built-in stacks: write the disk into the stack file".into()));
    }
    let plan = Arc::new(Plan::load(Path::new(&args.stack))?);
    let names: Vec<&str> = plan.devices.iter().map(|d| &*d.name).chain(plan.disks.iter().map(|d| &*d.name)).collect();
    let wanted: Vec<String> = match (args.device.as_slice(), plan.disks.len() + plan.devices.len()) {
        ([], 1) => vec![plan.disks[0].name.clone()],
        ([], _) => return Err(CliError::Usage(format!("say which --device: {}", names.join(", ")))),
        (wanted, _) => wanted.to_vec(),
    };
    if let Some(name) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(CliError::Usage(format!("{} has no device `{name}`: it has {}", args.stack, names.join(", "))));
    }
    let shard_of = |name: &str| plan.shard_of(name);
    let work = |shard: u32| -> Option<Work> {
        let mine: Vec<String> = wanted.iter().filter(|name| shard_of(name) == Some(shard)).cloned().collect();
        let (plan, options) = (plan.clone(), Arc::new(options.clone()));
        let work: Work = Box::new(move |progress| measure_shard(&plan, shard, &mine, &options, progress));
        wanted.iter().any(|name| shard_of(name) == Some(shard)).then_some(work)
    };
    Ok((0..plan.shards).filter_map(work).collect())
}

fn measure_shard(
    plan: &Plan,
    number: u32,
    names: &[String],
    options: &Arc<JobOptions>,
    progress: &Progress,
) -> Result<Vec<Outcome>, CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(error.to_string());
    let mut shard = Shard::new().map_err(|error| failed(&error))?;
    build_shard(plan, number, &mut shard)?;
    let devices: Vec<(String, DeviceId)> =
        names.iter().filter_map(|name| Some((name.clone(), shard.devices.find(name)?.device))).collect();
    let mut host = Sharded::new(shard);
    let outcomes = measure(&mut host, &devices, options, number * 1000, progress)?;
    host.shard.stop();
    host.shard.run().map_err(|error| failed(&error))?;
    Ok(outcomes)
}

fn measure(
    host: &mut impl Host,
    devices: &[(String, DeviceId)],
    options: &Arc<JobOptions>,
    first_job: u32,
    progress: &Progress,
) -> Result<Vec<Outcome>, JobError> {
    let ids: Vec<DeviceId> = devices.iter().map(|(_, id)| *id).collect();
    let load = Load::new(host, &ids, options, first_job)?;
    let jobs = load.run(host, progress)?;
    let device = |place: usize| devices[place / options.numjobs as usize].0.clone();
    Ok(jobs
        .into_iter()
        .enumerate()
        .map(|(place, job)| Outcome::new(job, options.name.clone(), device(place)))
        .collect())
}

/// Runs every thread to its end, with a progress line on a terminal; Ctrl-C ends the load early, a second one the program.
fn run_all(works: Vec<Work>, options: &JobOptions, simulated: bool) -> Result<Vec<Outcome>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    super::interrupt::catch(&stop)?;
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
    let mut line = ProgressLine::new(options, threads, simulated);
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
    fn new(options: &JobOptions, threads: usize, simulated: bool) -> Self {
        let label = format!("Jobs: {threads}: [{}({})]", options.rw, options.numjobs);
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
