//! `shingle disks test`: whether a zoned disk keeps the rules of zones, and how fast it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use shingle_core::block::Limits;

use crate::cli::new_file::NewFile;
use crate::cli::waiting::WaitingArgs;
use crate::cli::{CliError, bench, output};
use shingle_host::backend;
use shingle_host::config::{Plan, Source, format_bytes};
use shingle_host::disk::zoned_blk::find_disks;
use shingle_host::shard::Shard;
use shingle_lab::bench::{Outcome, json_report};
use shingle_lab::trial::{LOOKS, TRIES, Trial, Verdict};

/// Check whether a zoned disk keeps the rules of zones, and measure it
///
/// Without --destructive nothing on the disk changes, and only reads of what is written are measured. Nobody else may have the
/// disk meanwhile.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct TestArgs {
    /// The disk: /dev/sda, or the directory of one
    path: PathBuf,
    /// Also try and measure what writes: everything on the disk is lost
    #[arg(long)]
    destructive: bool,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// File for all that was found, to send to others. It names the model of the disk, not its serial number, and has no data
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Time for each measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    runtime: u32,
    /// Print the report
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Some rules are that the disk refuses something; the log shows such failures.

Examples:
  shingle disks test /dev/sda
  shingle disks test /dev/sda --destructive --report sda.json
  shingle profile fit --base smr-14tb sda.json -o mine.toml

Exit code: 0 if all that could be tried is in order, 3 if the disk breaks a rule, 1 if it could not be tried.";

type Findings = Vec<(&'static str, Verdict)>;

/// Runs the command.
pub fn run(args: &TestArgs) -> Result<(), CliError> {
    if args.destructive {
        args.waiting.check([args.path.as_path()])?;
    }
    let file = args.report.as_deref().map(NewFile::open).transpose()?;
    let (limits, findings) = try_rules(args)?;
    let has_data = args.destructive || findings.iter().all(|(_, verdict)| !matches!(verdict, Verdict::NotTried(_)));
    let outcomes = if has_data { measure(args, &limits)? } else { Vec::new() };
    let report = report(args, &findings, &outcomes);
    if let Some(file) = file {
        file.fill(format!("{report:#}\n").as_bytes())?;
    }
    if args.json {
        output::print_json(&report)?
    } else {
        output::print(&to_text(&findings, &report))?
    }
    let is_broken = |(_, verdict): &(_, Verdict)| matches!(verdict, Verdict::Broken(_));
    if findings.iter().any(is_broken) { Err(CliError::Disorder) } else { Ok(()) }
}

fn failed(path: &Path, why: impl std::fmt::Display) -> CliError {
    CliError::Failed(format!("{}: {why}", path.display()))
}

/// What is found on the disk itself. It is closed again at the end.
fn try_rules(args: &TestArgs) -> Result<(Limits, Findings), CliError> {
    let path = &args.path;
    let mut shard = Shard::new().map_err(CliError::failed)?;
    let (_, found) = backend::at(path, !args.destructive).ok_or_else(|| failed(path, "it is no disk"))?;
    if !found.is_zoned() {
        return Err(failed(path, "it has no zones: `shingle disks` lists the disks that have"));
    }
    // Its message begins with the path.
    let device = found.open(&mut shard).map_err(|error| CliError::Failed(error.message))?;
    let disk = shard.stack.add(device).map_err(|error| failed(path, error))?;
    let limits = shard.stack.limits(disk).clone();
    let mut trial = Trial::new(&mut shard, disk).map_err(|error| failed(path, error))?;
    let findings = output::with_percent("checking", |progress| {
        let mut findings = trial.run(&LOOKS, progress);
        if args.destructive {
            findings.extend(trial.run(&TRIES, progress));
            trial.clean_up();
        }
        findings
    });
    Ok((limits, findings))
}

/// The loads: each with one command in flight for its time, and with many for its rate.
fn loads(args: &TestArgs, limits: &Limits) -> String {
    let zoned = limits.zoned.as_ref();
    let open = zoned.and_then(|zoned| zoned.max_open.or(zoned.max_active)).unwrap_or(8).min(8);
    let mut text = format!("[global]\nruntime={}s\ntime_based\nzonemode=zbd\nstonewall\n", args.runtime);
    let mut load = |name: &str, rw: &str, bs: &str, depth: u32| {
        text += &format!("[{name}]\nrw={rw}\nbs={bs}\niodepth={depth}\n");
        if rw == "write" {
            text += &format!("max_open_zones={}\n", if depth == 1 { 1 } else { open });
        }
    };
    if args.destructive {
        load("write-64k-1", "write", "64k", 1);
        load("write-1m-32", "write", "1m", 32);
    }
    load("read-64k-1", "read", "64k", 1);
    load("read-1m-32", "read", "1m", 32);
    load("randread-4k-1", "randread", "4k", 1);
    load("randread-4k-32", "randread", "4k", 32);
    text
}

fn measure(args: &TestArgs, limits: &Limits) -> Result<Vec<Outcome>, CliError> {
    let path = args.path.canonicalize().map_err(|error| failed(&args.path, error))?;
    let kind = backend::at(&path, true).map_or("zoned-blk", |(kind, _)| kind.name);
    let stack = format!(
        "[disk.disk]\ntype = {kind:?}\npath = {:?}\nread-only = {}\n",
        path.display().to_string(),
        !args.destructive
    );
    let plan = Plan::parse(Source { path: "shingle disks test".into(), text: stack })?;
    bench::measure(&Arc::new(plan), &loads(args, limits))
}

/// In the form of fio's results, which `shingle profile fit` reads, with what else was found.
fn report(args: &TestArgs, findings: &Findings, outcomes: &[Outcome]) -> Value {
    let mut report = json_report(outcomes, "zoned disk");
    let rules = findings.iter().map(|(claim, verdict)| match verdict {
        Verdict::Kept => json!({"rule": claim, "result": "kept"}),
        Verdict::Broken(how) => json!({"rule": claim, "result": "broken", "how": how}),
        Verdict::NotTried(why) => json!({"rule": claim, "result": "not tried", "why": why}),
    });
    report["rules"] = rules.collect();
    let found = args.path.canonicalize().ok();
    let disks = find_disks().unwrap_or_default();
    if let Some(disk) = disks.iter().find(|disk| Some(&disk.path) == found.as_ref()) {
        report["disk"] = super::to_json(disk, super::kernel_version());
        // What is the owner's alone.
        for key in ["serial", "user", "path", "name"] {
            report["disk"].as_object_mut().map(|disk| disk.shift_remove(key));
        }
    }
    report["kernel"] = json!(std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim_end());
    report
}

fn to_text(findings: &Findings, report: &Value) -> String {
    let rows = findings.iter().map(|(claim, verdict)| {
        let (result, why) = match verdict {
            Verdict::Kept => ("kept", ""),
            Verdict::Broken(how) => ("BROKEN", &**how),
            Verdict::NotTried(why) => ("not tried", &**why),
        };
        vec![(*claim).to_owned(), result.to_owned(), why.to_owned()]
    });
    let mut text = output::table(&["rule", "result", ""], &[], rows);
    let jobs = report["jobs"].as_array().map_or(&[][..], Vec::as_slice);
    if jobs.is_empty() {
        return text + "\nnothing is written on it that could be read: only --destructive measures it\n";
    }
    let rows = jobs.iter().map(|job| {
        let flow = if job["write"]["total_ios"].as_u64() > Some(0) { &job["write"] } else { &job["read"] };
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let rate = format!("{}/s", format_bytes(flow["bw_bytes"].as_u64().unwrap_or(0)));
        let mean = Duration::from_nanos(number(&flow["clat_ns"]["mean"]) as u64);
        let name = job["jobname"].as_str().unwrap_or_default().to_owned();
        vec![name, format!("{:.0}", number(&flow["iops"])), rate, format!("{mean:.1?}")]
    });
    text += "\n";
    text + &output::table(&["load", "IOPS", "rate", "mean latency"], &[1, 2, 3], rows)
}
