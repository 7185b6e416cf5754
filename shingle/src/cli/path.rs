//! `shingle path`: the paths of devices that reach their disk over several.

use clap::{Args, Subcommand};
use serde_json::json;
use shingle_core::time::Duration;
use shingle_host::control::protocol::{
    AddPath, FailPath, HeadStatus, ListPaths, OnePath, Operation, PathPolicyOptions, PathStatus, PathWindowStatus,
    RemovePath, RestorePath, SetPathPolicy, SetPathState,
};

use super::policy_options::PolicyOptionArgs;
use super::remote::AskArgs;
use super::{CliError, output, words};

/// Show and change the paths of devices that reach their disk over several
///
/// A stack file makes them: `paths = ["a", "b"]` in `[device.NAME]`.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 it failed, 2 the command line is wrong. More: `man shingle-multipath`, or docs/multipath.md."
)]
pub struct PathArgs {
    #[command(subcommand)]
    command: PathCommand,
}

#[derive(Subcommand)]
enum PathCommand {
    List(ListArgs),
    /// Take a path out until it is restored; what is under way on it goes on
    Fail(OneArgs),
    /// Put a path in again, however it failed
    Restore(OneArgs),
    State(StateArgs),
    Add(AddArgs),
    /// Remove a path while the device is in use: it is free when what is under way on it has ended
    Remove(OneArgs),
    Policy(PolicyArgs),
}

/// List paths, with what each is, has done and does
#[derive(Args)]
struct ListArgs {
    /// The device; all if left out
    device: Option<String>,
    /// Show the measurements of latency and adaptive too: latency, samples and weight of the last window, by NUMA node and kind of I/O
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
    #[command(flatten)]
    ask: AskArgs,
}

/// A path.
#[derive(Args)]
struct OneArgs {
    /// The device
    device: String,
    /// The path: the disk or device that it is
    path: String,
    #[command(flatten)]
    ask: AskArgs,
}

/// Say what a path is to the disk from now on
#[derive(Args)]
struct StateArgs {
    /// The device
    device: String,
    /// The path: the disk or device that it is
    path: String,
    /// Its state
    #[arg(value_parser = words::path_state())]
    state: String,
    #[command(flatten)]
    ask: AskArgs,
}

/// Add a path while the device is in use
#[derive(Args)]
struct AddArgs {
    /// The device
    device: String,
    /// The disk or device that is to be a path
    path: String,
    /// What it is to the disk
    #[arg(long, default_value = "optimized", value_parser = words::path_state())]
    state: String,
    /// NUMA node that the path is near to, 0 to 255 [default: that of its disk]
    #[arg(long, value_name = "N")]
    node: Option<u32>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Have paths chosen by another policy, while the device is in use
#[derive(Args)]
struct PolicyArgs {
    /// The device
    device: String,
    /// The new policy
    #[arg(value_parser = words::path_policy())]
    policy: String,
    #[command(flatten)]
    options: PolicyOptionArgs,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs the command.
pub fn run(args: &PathArgs) -> Result<(), CliError> {
    match &args.command {
        PathCommand::List(args) => list(args),
        PathCommand::Fail(args) => change(&args.ask, &FailPath(args.path())),
        PathCommand::Restore(args) => change(&args.ask, &RestorePath(args.path())),
        PathCommand::State(StateArgs { device, path, state, ask }) => {
            let (device, path, state) = (device.clone(), path.clone(), state.clone());
            change(ask, &SetPathState { device, path, state })
        }
        PathCommand::Add(AddArgs { device, path, state, node, ask }) => {
            let (device, path, state) = (device.clone(), path.clone(), Some(state.clone()));
            change(ask, &AddPath { device, path, state, node: *node })
        }
        PathCommand::Remove(args) => change(&args.ask, &RemovePath(args.path())),
        PathCommand::Policy(PolicyArgs { device, policy, options, ask }) => {
            let (device, policy, window) = (device.clone(), policy.clone(), options.window);
            let window_ns = window.map(|window| Duration::from(window).as_nanos());
            let (decay_percent, low_water) = (options.decay, options.low_water);
            change(ask, &SetPathPolicy { device, policy, decay_percent, window_ns, low_water })
        }
    }
}

impl OneArgs {
    fn path(&self) -> OnePath {
        OnePath { device: self.device.clone(), path: self.path.clone() }
    }
}

fn list(ListArgs { device, verbose, ask }: &ListArgs) -> Result<(), CliError> {
    let heads = ask.remote.connect()?.call(&ListPaths { device: device.clone() })?;
    if ask.json {
        return output::print_json(&json!(heads));
    }
    if heads.devices.is_empty() {
        return output::print("no device has several paths\n");
    }
    output::print(&table(&heads.devices))?;
    if *verbose { output::print(&measurements(&heads.devices)) } else { Ok(()) }
}

/// Measurements of policies over their last windows, behind an empty line; the options of each policy stand beside its name.
fn measurements(heads: &[HeadStatus]) -> String {
    let measured = heads.iter().filter_map(|head| Some((head, head.options.as_ref()?)));
    let tables = measured.map(|(head, PathPolicyOptions { decay_percent, window_ns, low_water })| {
        let window = span(*window_ns);
        let title = format!(
            "{} ({}: decay {decay_percent} %, window {window}, low-water {low_water})",
            head.device, head.policy
        );
        let rows: Vec<_> =
            head.paths.iter().flat_map(|path| path.windows.iter().map(|it| window_row(head, path, it))).collect();
        if rows.is_empty() {
            return format!("\n{title}\nno window has ended\n");
        }
        format!(
            "\n{title}\n{}",
            output::table(&["path", "node", "I/O", "latency", "samples", "weight"], &[1, 3, 4, 5], rows)
        )
    });
    tables.collect()
}

fn window_row(head: &HeadStatus, path: &PathStatus, window: &PathWindowStatus) -> Vec<String> {
    vec![
        path.path.clone(),
        window.node.to_string(),
        window.kind.clone(),
        latency(window.latency_ns, head.latency_resolution_ns),
        window.samples.to_string(),
        window.weight.map_or_else(|| "-".to_owned(), |weight| weight.to_string()),
    ]
}

/// A latency. Of one that the clock does not resolve only the bound is known.
fn latency(ns: u64, resolution_ns: Option<u64>) -> String {
    match resolution_ns.filter(|resolution| ns < *resolution) {
        Some(bound) => format!("< {:.1} us", bound as f64 / 1e3),
        None => format!("{:.1} us", ns as f64 / 1e3),
    }
}

/// A time in the largest unit in which it is a whole number.
fn span(ns: u64) -> String {
    match ns {
        ns if ns.is_multiple_of(1_000_000_000) => format!("{} s", ns / 1_000_000_000),
        ns if ns.is_multiple_of(1_000_000) => format!("{} ms", ns / 1_000_000),
        ns => format!("{} us", ns as f64 / 1e3),
    }
}

/// Asks for a change, and shows what it has led to.
fn change<O: Operation<Answer = HeadStatus>>(ask: &AskArgs, request: &O) -> Result<(), CliError> {
    let head = ask.remote.connect()?.call(request)?;
    if ask.json { output::print_json(&json!(head)) } else { output::print(&summary(&head)) }
}

/// What takes I/O now, in a line.
fn summary(head: &HeadStatus) -> String {
    let HeadStatus { device, policy, paths, .. } = head;
    let usable = paths.iter().filter(|path| path.usable).count();
    let shown = |path: &PathStatus| format!("{} {} {}", path.path, path.state, path.health);
    let shown: Vec<String> = paths.iter().map(shown).collect();
    let shown = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
    format!("{device}: {policy}, {usable} of {} paths take I/O: {shown}\n", paths.len())
}

/// The paths of devices.
pub(super) fn table<'a>(heads: impl IntoIterator<Item = &'a HeadStatus>) -> String {
    let header = [
        "device",
        "path",
        "state",
        "health",
        "in flight",
        "share",
        "latency",
        "sent",
        "failovers",
        "retries",
        "errors",
        "probes",
    ];
    let rows = heads.into_iter().flat_map(|head| head.paths.iter().map(|path| row(head, path)));
    output::table(&header, &[4, 5, 6, 7, 8, 9, 10, 11], rows)
}

fn row(head: &HeadStatus, path: &PathStatus) -> Vec<String> {
    let latency = path.mean_latency_ns.map(|ns| latency(ns, head.latency_resolution_ns));
    vec![
        format!("{} ({})", head.device, head.policy),
        path.path.clone(),
        path.state.clone(),
        path.health.clone(),
        path.in_flight.to_string(),
        format!("{:.1} %", path.share_percent),
        latency.unwrap_or_else(|| "-".to_owned()),
        path.sent.to_string(),
        path.failovers.to_string(),
        path.retries.to_string(),
        path.errors.to_string(),
        path.probes.to_string(),
    ]
}
