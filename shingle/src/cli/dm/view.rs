//! Devices that a command names, asked for and shown.

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::remote::AskArgs;
use crate::cli::{CliError, output};
use shingle_host::control::ControlClient;
use shingle_host::control::protocol::{Devices, Operation};

/// How devices are shown.
#[derive(Args)]
pub(super) struct ViewArgs {
    /// The devices; all of them if left out
    pub devices: Vec<String>,
    #[command(flatten)]
    pub ask: AskArgs,
}

impl ViewArgs {
    /// Asks for the devices that were named, or all.
    pub fn ask<O, T>(&self, request: impl Fn(Option<String>) -> O) -> Result<Vec<T>, CliError>
    where
        O: Operation<Answer = Devices<T>>,
    {
        ask(&mut self.ask.remote.connect()?, &self.devices, request)
    }

    /// Prints devices: as JSON, or each as `show` does. As with dmsetup, `show` is told whether there can be several.
    pub fn print<T: Serialize>(&self, devices: &[T], show: impl Fn(&T, bool) -> String) -> Result<(), CliError> {
        if self.ask.json {
            return output::print_json(&json!({"devices": devices}));
        }
        if devices.is_empty() {
            return output::print(NO_DEVICES);
        }
        let several = self.devices.len() != 1;
        output::print(&devices.iter().map(|device| show(device, several)).collect::<String>())
    }
}

pub(super) const NO_DEVICES: &str = "No devices found\n";

/// Asks for devices by their names, one by one; for all if none is named.
pub(super) fn ask<O, T>(
    client: &mut ControlClient,
    names: &[String],
    request: impl Fn(Option<String>) -> O,
) -> Result<Vec<T>, CliError>
where
    O: Operation<Answer = Devices<T>>,
{
    if names.is_empty() {
        return Ok(client.call(&request(None))?.devices);
    }
    let mut devices = Vec::new();
    for name in names {
        devices.extend(client.call(&request(Some(name.clone())))?.devices);
    }
    Ok(devices)
}

/// A mapped device for tests.
#[cfg(test)]
pub(super) fn example(name: &str, minor: usize) -> shingle_host::control::protocol::MappedDevice {
    shingle_host::control::protocol::MappedDevice {
        name: name.into(),
        uuid: "u".into(),
        major: shingle_host::control::MAPPED_MAJOR,
        minor,
        state: shingle_host::control::protocol::State::Active,
        read_only: false,
        live: true,
        inactive: false,
        deferred_remove: false,
        open: 1,
        targets: 1,
        events: 0,
        sectors: 8,
        shard: 0,
        longest_swap_ns: 0,
        lines: None,
    }
}
