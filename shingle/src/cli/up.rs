//! `shingle up`: run a stack until somebody says stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use shingle_core::block::DeviceHealth;

use super::{CliError, output, reload};
use crate::log;
use shingle_host::config::{DiskPlan, Plan, check_disks, format_bytes, parse_duration};
use shingle_host::control::ControlClient;
use shingle_host::control::protocol::{Outcome, Reload, Reloaded};
use shingle_host::daemon::{Daemon, DaemonError};
use shingle_host::disk::raise_file_limit;
use shingle_host::pulse::Pulse;
use shingle_host::serve::{Export, Sockets};
use shingle_host::service_manager::notify;

/// Run a stack in the foreground
///
/// Waits until the volumes below the exports have loaded, and ends with an error if one of them cannot be used, unless --degraded is given.
/// Prints one line for each export and each socket, then `ready`, and tells systemd (READY=1) if NOTIFY_SOCKET is set; with WATCHDOG_USEC
/// also that all shards still go round (WATCHDOG=1).
/// SIGINT and SIGTERM end it: requests in flight are finished, mapped devices are suspended from the top down, and every disk is
/// flushed; a second one ends it at once. SIGHUP has it read the stack file again, as `shingle reload` does.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 stopped cleanly, 1 it did not start, an export cannot be used, or it lost data at the end, 2 wrong command line, \
                        130 forced by a second signal. The stack file: `man shingle-stack`, or docs/stack-file.md."
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
    /// Serve the other exports if some cannot be used, as a disk of their volume is missing; without it, `up` fails then
    #[arg(long, conflicts_with = "check")]
    degraded: bool,
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

/// Longest time for which clients are not served yet while volumes load. A disk that does not answer must not keep the others from being served.
const MAX_LOADING: Duration = Duration::from_secs(30);

/// Runs the command.
pub fn run(args: &UpArgs) -> Result<(), CliError> {
    raise_file_limit();
    let plan = Plan::load(&args.stack)?;
    if args.check {
        check_disks(&plan)?;
        return output::print(&format!(
            "{}: {}, {}, {} on {}: no mistakes found\n",
            args.stack.display(),
            output::counted(plan.disks.len(), "disk"),
            output::counted(plan.devices.len(), "device"),
            output::counted(plan.exports.len(), "export"),
            output::counted(plan.shards as usize, "shard"),
        ));
    }
    // Before descriptors of our own are opened.
    let sockets = Sockets::handed_over();
    // Before anything is started: a signal must not find the stack half built and unattended.
    let Signals { stop: signals, hangup } = Signals::watch()?;
    if let Some(most) = args.wait
        && !wait_for_disks(&plan, most, &signals)
    {
        return Ok(());
    }
    let daemon = Daemon::build(plan)?;
    let failed = match wait_for_volumes(&daemon, &signals)? {
        Loaded::Stopped => return Ok(daemon.stop()?),
        Loaded::Failed(failed) if !args.degraded && !failed.is_empty() => {
            // The reason to give up is the one to report.
            let _ = daemon.stop();
            return Err(CliError::Failed(unusable(&failed)));
        }
        Loaded::Failed(failed) => failed,
    };
    for (export, why) in &failed {
        tracing::error!(export, "export `{export}` {why}");
    }
    let failed: Vec<String> = failed.into_iter().map(|(export, _)| export).collect();
    let daemon = daemon.serve(&sockets, &failed)?;
    // A script that has read `ready` finds every earlier log line on standard error.
    log::flush();
    if let Err(error) = output::print(&ready_notice(&daemon, &failed)) {
        // The service manager is told in another way, and clients need not be.
        tracing::warn!("{error}");
    }
    notify("READY=1\nSTATUS=serving");
    let ended = wait(&daemon, &signals, &hangup);
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

/// Outcome of loading the volumes below the exports.
enum Loaded {
    /// The exports that cannot be used, each with the reason as a predicate. Volumes that are still loading after [`MAX_LOADING`] do not count.
    Failed(Vec<(String, String)>),
    /// A signal came.
    Stopped,
}

/// Waits until the volumes below all exports have loaded.
fn wait_for_volumes(daemon: &Daemon, signals: &mpsc::Receiver<i32>) -> Result<Loaded, CliError> {
    let (begin, mut pause) = (Instant::now(), Duration::from_millis(1));
    let mut is_told = false;
    loop {
        let health = daemon.state().export_health().map_err(CliError::failed)?;
        let Some((loading, _)) = health.iter().find(|(_, health)| *health == DeviceHealth::Loading) else {
            return Ok(Loaded::Failed(failed_of(health)));
        };
        let (export, waited) = (&loading.name, begin.elapsed());
        if waited >= MAX_LOADING {
            let seconds = MAX_LOADING.as_secs();
            tracing::warn!(
                export,
                "the volume of export `{export}` is still loading after {seconds} s: its clients wait"
            );
            return Ok(Loaded::Failed(failed_of(health)));
        }
        if !is_told && waited >= LOOK {
            notify(&format!("STATUS=loading the volume of export `{export}`"));
            is_told = true;
        }
        if signals.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return Ok(Loaded::Stopped);
        }
        pause = (pause * 2).min(LOOK);
    }
}

fn failed_of(health: Vec<(Export, DeviceHealth)>) -> Vec<(String, String)> {
    let failed = health.into_iter().filter(|(_, health)| matches!(health, DeviceHealth::Failed(_)));
    failed.filter_map(|(export, health)| Some((export.name, health.fault()?))).collect()
}

/// Error of a stack of which exports cannot be used.
fn unusable(failed: &[(String, String)]) -> String {
    let lines: Vec<String> = failed.iter().map(|(export, why)| format!("export `{export}` {why}")).collect();
    format!("{}\nnot ready: repair that, or serve the other exports with `shingle up --degraded`", lines.join("\n"))
}

/// Signals that came.
struct Signals {
    /// SIGINT or SIGTERM. The second one ends the process.
    stop: mpsc::Receiver<i32>,
    /// True if SIGHUP came since this was last taken.
    hangup: Arc<AtomicBool>,
}

impl Signals {
    fn watch() -> Result<Self, CliError> {
        let failed = |error: std::io::Error| CliError::Failed(format!("cannot watch for signals: {error}"));
        let hangup = Arc::<AtomicBool>::default();
        signal_hook::flag::register(SIGHUP, hangup.clone()).map_err(failed)?;
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let (sender, stop) = mpsc::channel();
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
        Ok(Self { stop, hangup })
    }
}

/// Has the daemon read its stack file again, and logs what came of that. Requests through the control socket wait for each other.
fn reload_at(control: &Path) {
    let reloaded = ControlClient::connect(control).and_then(|mut client| client.call(&Reload { dry_run: false }));
    match reloaded {
        Ok(Reloaded { stack, changes }) if changes.is_empty() => tracing::info!("SIGHUP: {stack} has not changed"),
        Ok(Reloaded { changes, .. }) => {
            for change in &changes {
                let line = reload::line(change);
                match change.outcome {
                    Outcome::Done => tracing::info!("SIGHUP: {}", line.trim_end()),
                    _ => tracing::warn!("SIGHUP: {}", line.trim_end()),
                }
            }
        }
        Err(error) => tracing::error!("SIGHUP: the stack file is not in force: {error}"),
    }
}

fn wait(daemon: &Daemon, signals: &mpsc::Receiver<i32>, hangup: &AtomicBool) -> Result<(), CliError> {
    let mut watchdog = Watchdog::of(daemon);
    let pause = watchdog.as_ref().map_or(LOOK, |watchdog| watchdog.every.min(LOOK));
    let mut reloading: Option<thread::JoinHandle<()>> = None;
    loop {
        watchdog.as_mut().into_iter().for_each(Watchdog::tell);
        let is_idle = reloading.as_ref().is_none_or(thread::JoinHandle::is_finished);
        if is_idle && hangup.swap(false, Relaxed) {
            let Some(control) = daemon.state().plan().control.clone() else {
                tracing::info!("SIGHUP: without a control socket nothing can be reloaded: stopping as for SIGTERM");
                return Ok(());
            };
            // The watchdog is told meanwhile.
            let begun = thread::Builder::new().name("reload".into()).spawn(move || reload_at(&control));
            reloading = begun.map_err(|error| tracing::error!("SIGHUP: cannot start a thread: {error}")).ok();
        }
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

fn ready_notice(daemon: &Daemon, failed: &[String]) -> String {
    let state = daemon.state();
    let mut notice = String::new();
    for export in state.exports.exports() {
        let access = match () {
            () if failed.contains(&export.name) => ", cannot be used",
            () if export.is_read_only() => ", read-only",
            () => "",
        };
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
