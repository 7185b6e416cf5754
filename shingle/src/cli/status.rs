//! `shingle status`, `shingle plugs` and `shingle policy`: what a daemon does, and how it orders zone writes.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use shingle_core::plug::{DumpFormat, PlugDump};
use shingle_core::zone::ZoneNo;

use super::remote::RemoteArgs;
use super::{CliError, output};
use crate::config::format_bytes;

/// Most stuck bios that the table shows.
const MOST_STUCK: usize = 8;

/// Show what a running daemon serves and does
#[derive(Args)]
pub struct StatusArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show the zone write plugs of a disk, as debugfs zone_wplugs does
#[derive(Args)]
pub struct PlugsArgs {
    /// The disk
    device: String,
    /// Form of the lines
    #[arg(long, value_enum, default_value = "debugfs")]
    format: PlugFormat,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlugFormat {
    /// As Linux 6.19 and later print it
    Debugfs,
    /// As Linux 6.10 to 6.18 print it
    #[value(name = "debugfs-6.12")]
    Debugfs612,
}

/// Show or change how zone writes to a disk are ordered, while it is in use
#[derive(Args)]
pub struct PolicyArgs {
    /// The disk
    device: String,
    /// The new policy: plug, qd1, elevator, zone-lock or none
    policy: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `shingle status`.
pub fn status(args: &StatusArgs) -> Result<(), CliError> {
    let status = args.remote.connect()?.call("status", Value::Null)?;
    if args.json { output::print_json(&status) } else { output::print(&status_text(&status)) }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn bytes(value: &Value) -> String {
    value.as_u64().map_or("-".into(), format_bytes)
}

fn status_text(status: &Value) -> String {
    let listen: Vec<String> = list(status, "listen").iter().map(text).collect();
    let listen = if listen.is_empty() { "nowhere".to_owned() } else { listen.join(", ") };
    let connections: u64 = list(status, "connections").iter().filter_map(Value::as_u64).sum();
    let mut shown = format!(
        "shingle {}, pid {}, up {} s, {} shards\nlistening on {listen}, {connections} connections\n\n",
        text(&status["version"]),
        status["pid"],
        status["uptime_s"],
        status["shards"],
    );
    let devices = list(status, "devices");
    let header = ["device", "kind", "size", "zones", "open/active limit", "policy", "shard"];
    shown += &output::table(&header, &[2, 3, 6], devices.iter().map(device_row));
    shown += "\n";
    let header = ["device", "in flight", "plugged", "reads", "writes", "errors"];
    shown += &output::table(&header, &[1, 2, 3, 4, 5], devices.iter().map(traffic_row));
    shown += &volumes_text(devices);
    if !list(status, "exports").is_empty() {
        let rows = list(status, "exports").iter().map(|export| {
            let access = if export["read_only"] == json!(true) { "read-only" } else { "read-write" };
            vec![text(&export["name"]), text(&export["device"]), bytes(&export["bytes"]), access.to_owned()]
        });
        shown += "\n";
        shown += &output::table(&["export", "device", "size", "access"], &[2], rows);
    }
    for device in list(status, "devices") {
        if device["suspended"] == json!(true) {
            shown += &format!("\n{} is suspended: I/O waits at its door\n", text(&device["name"]));
        }
        if let Some(failure) = device["plug_failure"].as_str() {
            shown += &format!("\n{}: the plug refuses writes: {failure}\n", text(&device["name"]));
        }
    }
    shown + &stuck_text(status)
}

/// What volumes of dm-zoned do by themselves.
fn volumes_text(devices: &[Value]) -> String {
    let volumes =
        devices.iter().flat_map(|device| list(device, "figures").iter().map(move |figures| (device, figures)));
    let volumes: Vec<_> = volumes.filter(|(_, figures)| figures.get("reclaim").is_some()).collect();
    if volumes.is_empty() {
        return String::new();
    }
    let header = ["volume", "reclaim", "zones won", "amplification", "waiting writes", "commits"];
    let row = |(device, figures): &(&Value, &Value)| {
        let times = figures["amplification"].as_f64().map_or("-".into(), |times| format!("{times:.2}"));
        let [reclaim, won, waiting, commits] =
            ["reclaim", "reclaimed_zones", "waiting_writes", "commits"].map(|name| text(&figures[name]));
        vec![text(&device["name"]), reclaim, won, times, waiting, commits]
    };
    format!("\n{}", output::table(&header, &[2, 3, 4, 5], volumes.iter().map(row)))
}

/// The bios that are stuck for longest.
fn stuck_text(status: &Value) -> String {
    let stuck = list(status, "stuck");
    if stuck.is_empty() {
        return String::new();
    }
    let shown = &stuck[..stuck.len().min(MOST_STUCK)];
    let row = |bio: &Value| vec![text(&bio["bio"]), text(&bio["device"]), format!("{} ms", bio["age_ms"])];
    let table = output::table(&["bio", "waits in", "for"], &[2], shown.iter().map(row));
    let all = status["stuck_bios"].as_u64().map_or(stuck.len(), |all| all as usize);
    let more = if all > shown.len() { format!("and {} more\n", all - shown.len()) } else { String::new() };
    format!("\nstuck I/O:\n{table}{more}")
}

fn device_row(device: &Value) -> Vec<String> {
    let zoned = &device["zoned"];
    let limits = match zoned {
        Value::Null => "-".to_owned(),
        zoned => format!("{}/{}", text(&zoned["max_open"]), text(&zoned["max_active"])),
    };
    vec![
        text(&device["name"]),
        text(&device["kind"]),
        bytes(&device["bytes"]),
        text(&zoned["zones"]),
        limits,
        device.get("policy").map_or("-".into(), text),
        text(&device["shard"]),
    ]
}

fn traffic_row(device: &Value) -> Vec<String> {
    let counters = &device["counters"];
    let ios = |names: &[&str]| -> String {
        names.iter().filter_map(|name| counters["ios"][*name].as_u64()).sum::<u64>().to_string()
    };
    vec![
        text(&device["name"]),
        text(&counters["in_flight"]),
        device.get("active_plugs").map_or("-".into(), text),
        ios(&["read"]),
        ios(&["write", "zone_append", "write_zeroes"]),
        text(&counters["errors"]),
    ]
}

/// Runs `shingle plugs`.
pub fn plugs(args: &PlugsArgs) -> Result<(), CliError> {
    let answer = args.remote.connect()?.call("plugs", json!({"device": args.device}))?;
    if args.json {
        return output::print_json(&answer);
    }
    let format = if args.format == PlugFormat::Debugfs { DumpFormat::Named } else { DumpFormat::Bare };
    let mut lines = String::new();
    for plug in list(&answer, "plugs") {
        // Writing to a string does not fail.
        let _ = plug_from_json(plug).write(format, &mut lines);
        lines.push('\n');
    }
    output::print(&lines)?;
    // Apart from the lines, so that these are exactly what debugfs would show.
    let longest_wait_us = answer["longest_wait_ns"].as_u64().unwrap_or(0) / 1_000;
    output::remark(&format!(
        "policy {}, {} zones with a command in flight or in line, longest wait of a write {}.{:03} ms\n",
        text(&answer["policy"]),
        answer["active"],
        longest_wait_us / 1_000,
        longest_wait_us % 1_000,
    ));
    Ok(())
}

fn plug_from_json(plug: &Value) -> PlugDump {
    let number = |key: &str| plug[key].as_u64().unwrap_or(0) as u32;
    let known = ["EMPTY", "ACTIVE", "FULL", "READONLY", "OFFLINE"];
    let condition = known.into_iter().find(|name| plug["condition"] == json!(name)).unwrap_or("UNKNOWN");
    PlugDump {
        zone: ZoneNo(number("zone")),
        plugged: number("flags") & 1 != 0,
        needs_wp_update: number("flags") & 2 != 0,
        refs: number("refs"),
        condition,
        wp_offset: number("wp_offset"),
        pending: number("pending"),
    }
}

/// Runs `shingle policy`.
pub fn policy(args: &PolicyArgs) -> Result<(), CliError> {
    let mut request = json!({"device": args.device});
    if let Some(policy) = &args.policy {
        request["policy"] = json!(policy);
    }
    let answer = args.remote.connect()?.call("policy", request)?;
    if args.json {
        return output::print_json(&answer);
    }
    match &args.policy {
        None => output::print(&format!("{}\n", text(&answer["policy"]))),
        Some(_) => {
            output::print(&format!("{}: {} -> {}\n", args.device, text(&answer["before"]), text(&answer["policy"])))
        }
    }
}
