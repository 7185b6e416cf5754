//! `shingle dm suspend`, `resume`, `clear`, `remove`, `wipe_table` and `rename`: verbs without an answer, for one device or more.

use std::thread;
use std::time::Duration;

use super::CliError;
use crate::cli::remote::RemoteArgs;
use clap::Args;
use shingle_host::config::parse_duration;
use shingle_host::control::protocol::{
    Clear, Done, Drain, List, Operation, Remove, Rename, Resume, Suspend, WipeTable,
};
use shingle_host::control::{ControlError, ErrorKind};

/// How often `remove --retry` tries, and how long it waits in between.
const TRIES: usize = 25;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// Devices, and the daemon that has them.
#[derive(Args)]
pub struct DevicesArgs {
    /// The devices
    #[arg(required = true)]
    devices: Vec<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// How to wait for I/O in flight.
#[derive(Args)]
struct DrainArgs {
    /// Have targets push back what they hold instead of finishing it first
    #[arg(long)]
    noflush: bool,
    /// As with dmsetup; there is no file system here that could be frozen
    #[arg(long)]
    nolockfs: bool,
    /// How long to wait for I/O in flight, at most 20s; then the device goes on as before
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    timeout: Duration,
}

/// Devices, and how to wait for their I/O.
#[derive(Args)]
pub struct DrainedArgs {
    #[command(flatten)]
    devices: DevicesArgs,
    #[command(flatten)]
    drain: DrainArgs,
}

/// Replace the table with one on which everything fails
#[derive(Args)]
#[command(name = "wipe_table")]
pub struct WipeTableArgs {
    #[command(flatten)]
    devices: DevicesArgs,
    #[command(flatten)]
    drain: DrainArgs,
    /// As with dmsetup; it changes nothing here
    #[arg(short, long)]
    force: bool,
}

/// Remove devices that nobody uses
#[derive(Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    devices: DevicesArgs,
    /// Replace the table with one on which everything fails first
    #[arg(short, long)]
    force: bool,
    /// If it is in use: remove it when that ends
    #[arg(long)]
    deferred: bool,
    /// If it is in use: try again for some seconds
    #[arg(long)]
    retry: bool,
}

/// Remove all devices, from the top down
#[derive(Args)]
#[command(name = "remove_all")]
pub struct RemoveAllArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Replace tables with those on which everything fails first
    #[arg(short, long)]
    force: bool,
    /// Those that are in use: remove them when that ends
    #[arg(long)]
    deferred: bool,
}

/// Give a device another name, or a UUID if it has none
#[derive(Args)]
pub struct RenameArgs {
    /// The device
    device: String,
    /// The new name, or with --setuuid the UUID
    new: String,
    /// Give it a UUID
    #[arg(long)]
    setuuid: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `shingle dm suspend`.
pub fn suspend(args: &DrainedArgs) -> Result<(), CliError> {
    args.devices.each(1, |device| Suspend(args.drain.of(device)))
}

/// Runs `shingle dm resume`.
pub fn resume(args: &DrainedArgs) -> Result<(), CliError> {
    args.devices.each(1, |device| Resume(args.drain.of(device)))
}

/// Runs `shingle dm clear`.
pub fn clear(args: &DevicesArgs) -> Result<(), CliError> {
    args.each(1, |device| Clear { device })
}

/// Runs `shingle dm wipe_table`.
pub fn wipe_table(args: &WipeTableArgs) -> Result<(), CliError> {
    args.devices.each(1, |device| WipeTable(args.drain.of(device)))
}

/// Runs `shingle dm remove`.
pub fn remove(args: &RemoveArgs) -> Result<(), CliError> {
    let (deferred, force) = (args.deferred, args.force);
    let tries = if args.retry { TRIES } else { 1 };
    args.devices.each(tries, |device| Remove { device, deferred, force, timeout_ms: None })
}

/// Runs `shingle dm remove_all`.
pub fn remove_all(args: &RemoveAllArgs) -> Result<(), CliError> {
    let mut client = args.remote.connect()?;
    let devices = client.call(&List::default())?.devices;
    let mut left: Vec<String> = devices.into_iter().map(|device| device.name).collect();
    // With each round those go on which nothing lies any more.
    loop {
        let (before, mut failed) = (left.len(), None);
        left.retain(|name| {
            let (device, deferred, force) = (name.clone(), args.deferred, args.force);
            let removed = client.call(&Remove { device, deferred, force, timeout_ms: None });
            removed.map_err(|error| failed.get_or_insert(error)).is_err()
        });
        match failed {
            None => return Ok(()),
            Some(error) if left.len() == before => return Err(error.into()),
            Some(_) => {}
        }
    }
}

/// Runs `shingle dm rename`.
pub fn rename(args: &RenameArgs) -> Result<(), CliError> {
    let new = |is_it: bool| is_it.then(|| args.new.clone());
    let (name, uuid) = (new(!args.setuuid), new(args.setuuid));
    args.remote.connect()?.call(&Rename { device: args.device.clone(), name, uuid })?;
    Ok(())
}

impl DrainArgs {
    fn of(&self, device: String) -> Drain {
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        Drain { device, noflush: self.noflush, timeout_ms: Some(timeout_ms) }
    }
}

impl DevicesArgs {
    /// Does it to one device after the other; the first failure ends it.
    fn each<O: Operation<Answer = Done>>(&self, tries: usize, request: impl Fn(String) -> O) -> Result<(), CliError> {
        let mut client = self.remote.connect()?;
        for device in &self.devices {
            let request = request(device.clone());
            insist(tries, || client.call(&request))?;
        }
        Ok(())
    }
}

/// Tries until it works, fails for another reason than being in use, or was tried often enough.
fn insist(tries: usize, mut call: impl FnMut() -> Result<Done, ControlError>) -> Result<Done, ControlError> {
    for _ in 1..tries {
        match call() {
            Err(error) if error.kind == ErrorKind::Busy => thread::sleep(BETWEEN_TRIES),
            result => return result,
        }
    }
    call()
}
