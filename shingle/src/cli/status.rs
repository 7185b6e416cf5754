//! `shingle status`, `shingle plugs`, `shingle policy` and `shingle scheduler`: what a daemon does, and how it orders I/O.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use shingle_core::plug::{DumpFormat, PlugDump};

use super::remote::AskArgs;
use super::{CliError, output, path, power, words};
use shingle_host::config::format_bytes;
use shingle_host::control::protocol::{
    DeviceStatus, DriveStatus, Figures, GetPlugs, GetStatus, HeadStatus, LinePolicy, SetPolicy, SetScheduler, Status,
    Stuck,
};

/// Most stuck bios that the table shows.
const MOST_STUCK: usize = 8;

/// Show the zone write plugs of a disk or of table lines, as debugfs zone_wplugs does
#[derive(Args)]
pub struct PlugsArgs {
    /// The disk, the mapped device, or NAME/LINE for one line of its table (counted from 1)
    device: String,
    /// Form of the lines
    #[arg(long, value_enum, default_value = "debugfs")]
    format: PlugFormat,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlugFormat {
    /// As Linux 6.19 and later print it
    Debugfs,
    /// As Linux 6.10 to 6.18 print it
    #[value(name = "debugfs-6.12")]
    Debugfs612,
}

/// Show or change how zone writes to a disk or to table lines are ordered, while the device is in use
#[derive(Args)]
pub struct PolicyArgs {
    /// The disk, the mapped device, or NAME/LINE for one line of its table (counted from 1)
    device: String,
    /// The new policy
    #[arg(value_parser = words::policy_name())]
    policy: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Show or change the I/O scheduler of a disk, while it is in use
#[derive(Args)]
pub struct SchedulerArgs {
    /// Name of the disk
    device: String,
    /// The new scheduler
    #[arg(value_parser = words::scheduler_name())]
    scheduler: Option<String>,
    /// Commands in flight at the disk under mq-deadline, 1 to 10240 [default: the present one, else that of the stack file, else 64]
    #[arg(long, value_name = "N")]
    queue_depth: Option<u32>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs `shingle status`.
pub fn status(args: &AskArgs) -> Result<(), CliError> {
    let status = args.remote.connect()?.call(&GetStatus {})?;
    if args.json { output::print_json(&json!(status)) } else { output::print(&status_text(&status)) }
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn status_text(status: &Status) -> String {
    let Status { version, pid, uptime_s, shards, devices, .. } = status;
    let protection =
        status.protection.iter().map(|words| format!(" ({words})")).chain(std::iter::repeat(String::new()));
    let listen: Vec<String> = status.listen.iter().zip(protection).map(|(at, words)| format!("{at}{words}")).collect();
    let listen = if listen.is_empty() { "nowhere".to_owned() } else { listen.join(", ") };
    let connections: usize = status.connections.iter().sum();
    let mut shown = format!(
        "shingle {version}, pid {pid}, up {uptime_s} s, {}\nlistening on {listen}, {}\n\n",
        output::counted(*shards, "shard"),
        output::counted(connections, "connection"),
    );
    if !status.metrics.is_empty() {
        shown.insert_str(shown.len() - 1, &format!("metrics at {}\n", status.metrics.join(", ")));
    }
    for url in &status.web {
        shown.insert_str(shown.len() - 1, &format!("web page at {url}\n"));
    }
    let header = ["device", "kind", "size", "zones", "open/active limit", "policy", "scheduler", "shard"];
    shown += &output::table(&header, &[2, 3, 7], devices.iter().map(device_row));
    let appends: Vec<_> = devices.iter().filter_map(append_row).collect();
    if !appends.is_empty() {
        shown += "\n";
        shown += &output::table(&["device", "zone append", "limit", "hardware limit"], &[2, 3], appends);
    }
    shown += "\n";
    let header = ["device", "in flight", "plugged", "reads", "writes", "errors"];
    shown += &output::table(&header, &[1, 2, 3, 4, 5], devices.iter().map(traffic_row));
    shown += &volumes_text(devices);
    shown += &logs_text(devices);
    shown += &paths_text(devices);
    shown += &drives_text(devices);
    if !status.exports.is_empty() {
        let rows = status.exports.iter().map(|export| {
            let access = match export.health.as_str() {
                "ok" if export.read_only => "read-only",
                "ok" => "read-write",
                other => other,
            };
            let [device, path] = [&export.device, &export.path].map(|name| or_dash(name.as_ref()));
            let most = export.max_connections.map_or(String::new(), |most| format!(" of {most}"));
            let clients = format!("{}{most}", export.connections);
            vec![export.name.clone(), device, format_bytes(export.bytes), access.to_owned(), clients, path]
        });
        shown += "\n";
        shown += &output::table(&["export", "device", "size", "access", "clients", "block device"], &[2], rows);
    }
    for device in devices {
        if let Some(fault) = &device.fault {
            shown += &format!("\n{} {fault}\n", device.name);
        }
        if device.suspended {
            shown += &format!("\n{} is suspended: I/O waits at its door\n", device.name);
        }
        if let Some(failure) = &device.plug_failure {
            shown += &format!("\n{}: the plug refuses writes: {failure}\n", device.name);
        }
    }
    shown + &stuck_text(status)
}

/// What volumes of dm-zoned do by themselves.
fn volumes_text(devices: &[DeviceStatus]) -> String {
    let volumes = devices.iter().flat_map(|device| device.figures.iter().map(move |figures| (device, figures)));
    let volumes: Vec<_> = volumes.filter(|(_, figures)| figures.contains_key("reclaim")).collect();
    if volumes.is_empty() {
        return String::new();
    }
    let header = ["volume", "reclaim", "zones reclaimed", "amplification", "waiting writes", "commits"];
    let row = |(device, figures): &(&DeviceStatus, &Figures)| {
        let number = |name: &str| or_dash(figures.get(name));
        let times = figures.get("amplification").and_then(Value::as_f64).map(|times| format!("{times:.2}"));
        let reclaim = or_dash(figures.get("reclaim").and_then(Value::as_str));
        let [won, waiting, commits] = ["reclaimed_zones", "waiting_writes", "commits"].map(number);
        vec![device.name.clone(), reclaim, won, or_dash(times), waiting, commits]
    };
    format!("\n{}", output::table(&header, &[2, 3, 4, 5], volumes.iter().map(row)))
}

/// What `stl` volumes have and do.
fn logs_text(devices: &[DeviceStatus]) -> String {
    let volumes = devices.iter().flat_map(|device| device.figures.iter().map(move |figures| (device, figures)));
    let volumes: Vec<_> = volumes.filter(|(_, figures)| figures.contains_key("cleaning")).collect();
    if volumes.is_empty() {
        return String::new();
    }
    let row = |(device, figures): &(&DeviceStatus, &Figures)| {
        let count = |name: &str| figures.get(name).and_then(Value::as_u64).unwrap_or_default();
        let word = |name: &str| or_dash(figures.get(name).and_then(Value::as_str));
        let times = figures.get("amplification").and_then(Value::as_f64).map(|times| format!("{times:.2}"));
        let live = format_bytes(count("live_blocks") * 4096);
        let zones = ["free_zones", "given_back_zones", "zones"].map(count);
        let streams = ["data_zones", "copies_zones", "map_zones"].map(count);
        let map = [count("pending_extents").to_string(), count("runs").to_string(), format_bytes(count("index_bytes"))];
        vec![
            device.name.clone(),
            word("volume"),
            live,
            format!("{}+{}/{}", zones[0], zones[1], zones[2]),
            format!("{}/{}/{}", streams[0], streams[1], streams[2]),
            word("cleaning"),
            or_dash(times),
            map.join("/"),
            count("waiting_writes").to_string(),
        ]
    };
    let header = [
        "volume",
        "state",
        "live at most",
        "free zones",
        "data/copies/map zones",
        "cleaning",
        "amplification",
        "pending/runs/index",
        "waiting writes",
    ];
    format!("\n{}", output::table(&header, &[2, 3, 4, 6, 7, 8], volumes.iter().map(row)))
}

/// What becomes of I/O to disks that are reached over several paths.
fn paths_text(devices: &[DeviceStatus]) -> String {
    let heads: Vec<&HeadStatus> = devices.iter().filter_map(|device| device.multipath.as_ref()).collect();
    if heads.is_empty() {
        return String::new();
    }
    let waits = |head: &&HeadStatus| head.waiting > 0;
    let line = |head: &HeadStatus| format!("\n{}: {} I/Os wait for a path\n", head.device, head.waiting);
    let waiting: String = heads.iter().copied().filter(waits).map(line).collect();
    format!("\n{}{waiting}", path::table(heads))
}

/// Simulated drives, and how late they are.
fn drives_text(devices: &[DeviceStatus]) -> String {
    let drives: Vec<&DriveStatus> = devices.iter().filter_map(|device| device.drive.as_ref()).collect();
    if drives.is_empty() { String::new() } else { format!("\n{}", power::table(drives)) }
}

/// The bios that are stuck for longest.
fn stuck_text(status: &Status) -> String {
    if status.stuck.is_empty() {
        return String::new();
    }
    let shown = &status.stuck[..status.stuck.len().min(MOST_STUCK)];
    let row = |bio: &Stuck| vec![bio.bio.clone(), bio.device.clone(), format!("{} ms", bio.age_ms)];
    let table = output::table(&["bio", "waits in", "for"], &[2], shown.iter().map(row));
    let rest = status.stuck_bios.saturating_sub(shown.len());
    let more = if rest > 0 { format!("and {rest} more\n") } else { String::new() };
    format!("\nstuck I/O:\n{table}{more}")
}

fn device_row(device: &DeviceStatus) -> Vec<String> {
    let zoned = device.zoned.as_ref();
    let limits = zoned.map(|zoned| format!("{}/{}", or_dash(zoned.max_open), or_dash(zoned.max_active)));
    vec![
        device.name.clone(),
        device.kind.clone(),
        format_bytes(device.bytes),
        or_dash(zoned.map(|zoned| zoned.zones)),
        or_dash(limits),
        or_dash(device.policy.as_ref()),
        or_dash(device.scheduler.as_ref()),
        device.shard.to_string(),
    ]
}

/// How a zoned device executes zone appends, the longest that it takes, and the longest that the hardware executes.
fn append_row(device: &DeviceStatus) -> Option<Vec<String>> {
    let zoned = device.zoned.as_ref().filter(|zoned| !zoned.zone_append.is_empty())?;
    let size = |sectors: Option<u32>| or_dash(sectors.map(|sectors| format_bytes(u64::from(sectors) * 512)));
    let limits = [zoned.max_append_sectors, zoned.max_hw_append_sectors].map(size);
    Some([device.name.clone(), zoned.zone_append.clone()].into_iter().chain(limits).collect())
}

fn traffic_row(device: &DeviceStatus) -> Vec<String> {
    let counters = &device.counters;
    let ios =
        |names: &[&str]| -> String { names.iter().filter_map(|name| counters.ios.get(*name)).sum::<u64>().to_string() };
    vec![
        device.name.clone(),
        counters.in_flight.to_string(),
        or_dash(device.active_plugs),
        ios(&["read"]),
        ios(&["write", "zone_append", "write_zeroes"]),
        counters.errors.to_string(),
    ]
}

/// Runs `shingle plugs`.
pub fn plugs(args: &PlugsArgs) -> Result<(), CliError> {
    let answer = args.ask.remote.connect()?.call(&GetPlugs { device: args.device.clone() })?;
    if args.ask.json {
        return output::print_json(&json!(answer));
    }
    let format = if args.format == PlugFormat::Debugfs { DumpFormat::Named } else { DumpFormat::Bare };
    let mut lines = String::new();
    for plug in &answer.plugs {
        if let (Some(line), true) = (plug.line, answer.lines.len() > 1) {
            lines += &format!("{}/{line} ", plain_name(&args.device));
        }
        // Writing to a string does not fail.
        let _ = PlugDump::from(plug).write(format, &mut lines);
        lines.push('\n');
    }
    output::print(&lines)?;
    // Apart from the lines, so that these are exactly what debugfs would show.
    if answer.lines.is_empty() {
        output::remark(&plug_remark("", &answer.policy, answer.active, answer.longest_wait_ns));
    }
    for line in &answer.lines {
        let of = format!("{}/{} ({}): ", plain_name(&args.device), line.line, line.target);
        output::remark(&plug_remark(&of, &line.policy, line.active, line.longest_wait_ns));
    }
    Ok(())
}

/// Runs `shingle scheduler`.
pub fn scheduler(args: &SchedulerArgs) -> Result<(), CliError> {
    let SchedulerArgs { device, scheduler, queue_depth, ask } = args;
    let request = SetScheduler { device: device.clone(), scheduler: scheduler.clone(), queue_depth: *queue_depth };
    let answer = ask.remote.connect()?.call(&request)?;
    if ask.json {
        return output::print_json(&json!(answer));
    }
    let now = answer
        .queue_depth
        .map_or(answer.scheduler.clone(), |depth| format!("{}, queue depth {depth}", answer.scheduler));
    match (scheduler, queue_depth) {
        (None, None) => output::print(&format!("{now}\n")),
        _ => output::print(&format!("{device}: {} -> {now}\n", answer.before)),
    }
}

/// The name of a mapped device without the line that stands behind it.
fn plain_name(device: &str) -> &str {
    let line = device.rsplit_once('/').filter(|(_, line)| line.parse::<u32>().is_ok());
    line.map_or(device, |(name, _)| name)
}

fn plug_remark(of: &str, policy: &str, active: u32, longest_wait_ns: u64) -> String {
    let (ms, us) = (longest_wait_ns / 1_000_000, longest_wait_ns / 1_000 % 1_000);
    format!(
        "{of}policy {policy}, {active} zones with a command in flight or in line, longest wait of a write {ms}.{us:03} ms\n"
    )
}

/// Runs `shingle policy`.
pub fn policy(args: &PolicyArgs) -> Result<(), CliError> {
    let request = SetPolicy { device: args.device.clone(), policy: args.policy.clone() };
    let answer = args.ask.remote.connect()?.call(&request)?;
    if args.ask.json {
        return output::print_json(&json!(answer));
    }
    match &args.policy {
        None if answer.lines.len() > 1 => {
            let name = plain_name(&args.device);
            let line = |line: &LinePolicy| format!("{name}/{} ({}): {}\n", line.line, line.target, line.policy);
            output::print(&answer.lines.iter().map(line).collect::<String>())
        }
        None => output::print(&format!("{}\n", answer.policy)),
        Some(_) => output::print(&format!("{}: {} -> {}\n", args.device, answer.before, answer.policy)),
    }
}
