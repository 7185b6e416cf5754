//! `shingle up`: run a stack until somebody says stop.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{CliError, output};
use crate::log;
use shingle_host::config::{DiskPlan, Plan, check_disks, format_bytes, parse_duration};
use shingle_host::daemon::{Daemon, DaemonError};
use shingle_host::pulse::Pulse;
use shingle_host::serve::Sockets;
use shingle_host::service_manager::notify;

/// Run a stack in the foreground
///
/// Prints one line for each export and each socket, then `ready`, and tells systemd (READY=1) if NOTIFY_SOCKET is set; with WATCHDOG_USEC
/// also that all shards still go round (WATCHDOG=1).
/// SIGINT and SIGTERM end it: requests in flight are finished, mapped devices are suspended from the top down, and every disk is
/// flushed; a second one ends it at once.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 stopped cleanly, 1 it did not start or lost data at the end, 2 wrong command line, \
                        130 forced by a second signal. The stack file is described in docs/stack-file.md."
)]
pub struct UpArgs {
    /// The stack file
    stack: PathBuf,
    /// Check the stack file and end
    #[arg(long)]
    check: bool,
    /// Wait so long for disks of which there is no file or device yet, as in 90s: a machine that starts may find its disks late
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "check")]
    wait: Option<Duration>,
    /// How events are logged, on standard error but for the journal
    #[arg(long, value_name = "FORM", value_enum, default_value = "auto")]
    pub log: log::Form,
}

impl From<DaemonError> for CliError {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Config(error) => CliError::Config(error),
            other => CliError::Failed(other.to_string()),
        }
    }
}

/// How often it is looked whether all is well.
const LOOK: Duration = Duration::from_millis(250);

/// Runs the command.
pub fn run(args: &UpArgs) -> Result<(), CliError> {
    let plan = Plan::load(&args.stack)?;
    if args.check {
        check_disks(&plan)?;
        return output::print(&format!(
            "{}: {} disks, {} devices, {} exports on {} shards: no mistakes found\n",
            args.stack.display(),
            plan.disks.len(),
            plan.devices.len(),
            plan.exports.len(),
            plan.shards
        ));
    }
    // Before descriptors of our own are opened.
    let sockets = Sockets::handed_over();
    // Before anything is started: a signal must not find the stack half built and unattended.
    let signals = watch_signals()?;
    if let Some(most) = args.wait
        && !wait_for_disks(&plan, most, &signals)
    {
        return Ok(());
    }
    let daemon = Daemon::start_on(plan, &sockets)?;
    if let Err(error) = output::print(&ready_notice(&daemon)) {
        // The service manager is told in another way, and clients need not be.
        tracing::warn!("{error}");
    }
    notify("READY=1\nSTATUS=serving");
    let ended = wait(&daemon, &signals);
    notify("STOPPING=1\nSTATUS=waiting for who uses its block devices");
    daemon.stop()?;
    ended
}

/// Waits until all disks are there, for `most` at most: who opens them says what is wrong then. False: a signal came.
fn wait_for_disks(plan: &Plan, most: Duration, signals: &mpsc::Receiver<i32>) -> bool {
    let end = Instant::now() + most;
    let is_missing = |disk: &&DiskPlan| disk.back_end.path().is_some_and(|path| !path.exists());
    let mut missing = plan.disks.iter().find(is_missing);
    if let Some(disk) = missing {
        tracing::info!("waiting for disk `{}`", disk.name);
        notify(&format!("STATUS=waiting for disk `{}`", disk.name));
    }
    while missing.is_some() && Instant::now() < end {
        if signals.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            return false;
        }
        missing = plan.disks.iter().find(is_missing);
    }
    true
}

/// A channel that says which signal came. The second signal ends the process.
fn watch_signals() -> Result<mpsc::Receiver<i32>, CliError> {
    let failed = |error: std::io::Error| CliError::Failed(format!("cannot watch for signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let (sender, receiver) = mpsc::channel();
    let body = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                tracing::error!("stopped at once; writes that were not answered may be lost");
                log::flush();
                std::process::exit(130);
            }
            let _ = sender.send(signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(body).map_err(failed)?;
    Ok(receiver)
}

fn wait(daemon: &Daemon, signals: &mpsc::Receiver<i32>) -> Result<(), CliError> {
    let mut watchdog = Watchdog::of(daemon);
    let pause = watchdog.as_ref().map_or(LOOK, |watchdog| watchdog.every.min(LOOK));
    loop {
        watchdog.as_mut().into_iter().for_each(Watchdog::tell);
        match signals.recv_timeout(pause) {
            Ok(signal) => {
                let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
                tracing::info!("{name}: finishing requests and flushing disks; once more to stop at once");
                return Ok(());
            }
            Err(RecvTimeoutError::Timeout) if daemon.is_broken() => {
                return Err(CliError::Failed("a shard has ended by itself: stopping the others".into()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// What a service manager waits for that ends who hangs (`sd_watchdog_enabled(3)`).
struct Watchdog {
    every: Duration,
    told: Option<Instant>,
    pulse: Pulse,
}

impl Watchdog {
    /// `None`: nobody waits for it.
    fn of(daemon: &Daemon) -> Option<Self> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let within = number("WATCHDOG_USEC").filter(|within| is_ours && *within > 0)?;
        Some(Self { every: Duration::from_micros(within / 4), told: None, pulse: Pulse::of(&daemon.state().shards) })
    }

    /// Says that all shards go round, if it is time and they do.
    fn tell(&mut self) {
        if self.told.is_none_or(|told| told.elapsed() >= self.every) && self.pulse.beat() {
            self.told = Some(Instant::now());
            notify("WATCHDOG=1");
        }
    }
}

fn ready_notice(daemon: &Daemon) -> String {
    let state = daemon.state();
    let mut notice = String::new();
    for export in state.exports.exports() {
        let access = if export.is_read_only() { ", read-only" } else { "" };
        let place = state.place_of(&export.name).map_or(String::new(), |path| format!(", {}", path.display()));
        notice += &format!("export {}: {}{access}{place}\n", export.name, format_bytes(export.bytes()));
    }
    let places = state.places();
    for address in &places.metrics {
        notice += &format!("metrics at {address}, as /metrics over HTTP\n");
    }
    // Others than who may open the page read a journal.
    let is_in_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    for url in &places.web {
        let shown = if is_in_journal { url.split('#').next().unwrap_or_default() } else { url };
        notice += &format!("web page at {shown}\n");
    }
    for address in state.addresses() {
        notice += &format!("listening on {address}\n");
    }
    if let Some(path) = &state.plan().control {
        notice += &format!("control socket {}\n", path.display());
    }
    notice + "ready\n"
}
