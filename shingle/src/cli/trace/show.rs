//! `shingle trace show`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use shingle_core::block::{Action, Op};

use crate::cli::{CliError, output};
use shingle_host::config::format_bytes;
use shingle_host::latency::short;
use shingle_host::trace::{Columns, OpSummary, RecordedDevice, RecordedEntry, Recording, Summary, read, rwbs, work_of};

/// Show a recording: its events in blkparse's columns, and a summary of each device
///
/// The columns are device, shard, number of the event, time, number of the bio, action, operation, first sector + sectors,
/// and in brackets the operation in full, or for C the outcome: 0 or -errno. Pieces of a bio have its number.
///
/// Actions: Q a submitter queued it, D it reached a device, A it was passed on for good, M it was merged, X it was split,
/// C it ended or came back. Operations, in the kernel's letters (RWBS): R read, W write, D discard, F flush, ZA zone append,
/// ZO open, ZC close, ZF finish, ZR reset, ZRA reset all, N another one; F before them is PREFLUSH, F after them FUA.
/// docs/trace-format.md says what differs from blkparse.
#[derive(Args)]
pub struct ShowArgs {
    /// The recording
    file: PathBuf,
    /// Only this device
    #[arg(long)]
    device: Option<String>,
    /// Only the summary
    #[arg(long)]
    summary: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads a recording.
pub fn load(path: &Path) -> Result<Recording, CliError> {
    let failed = |error: &dyn std::fmt::Display| {
        CliError::Failed(format!("cannot read the recording {}: {error}", path.display()))
    };
    let file = File::open(path).map_err(|error| failed(&error))?;
    read(io::BufReader::new(file)).map_err(|error| failed(&error))
}

/// The place of the device called `name`.
pub fn find_device(recording: &Recording, name: &str) -> Result<u16, CliError> {
    let place = recording.devices.iter().position(|device| device.name == name && device.recorded);
    place.map(|place| place as u16).ok_or_else(|| {
        let recorded = recording.devices.iter().filter(|device| device.recorded);
        let names: Vec<&str> = recorded.map(|device| device.name.as_str()).collect();
        CliError::Usage(format!("`{name}` was not recorded; recorded are: {}", names.join(", ")))
    })
}

/// Runs the command.
pub fn run(args: &ShowArgs) -> Result<(), CliError> {
    let recording = load(&args.file)?;
    let only = args.device.as_deref().map(|name| find_device(&recording, name)).transpose()?;
    let mut stdout = BufWriter::new(io::stdout().lock());
    let printed = match args.json {
        true => print_json(&mut stdout, &recording, only, args.summary),
        false => print_text(&mut stdout, &recording, only, args.summary),
    };
    output::printed(printed.and_then(|()| stdout.flush()))
}

/// The entries to show, with their places in the recording.
fn events(recording: &Recording, only: Option<u16>) -> impl Iterator<Item = (usize, &RecordedEntry)> {
    recording.entries.iter().enumerate().filter(move |(_, entry)| match (entry, only) {
        (RecordedEntry::Hop(event), Some(only)) => event.device.0 == only,
        _ => true,
    })
}

fn summaries(recording: &Recording, only: Option<u16>) -> Vec<(&RecordedDevice, Summary)> {
    let places = (0..recording.devices.len() as u16).filter(|place| only.is_none_or(|only| only == *place));
    places
        .filter_map(|place| {
            let device = &recording.devices[usize::from(place)];
            let summary = Summary::new(device, &work_of(recording, place));
            (device.recorded && (summary.count() > 0 || only.is_some())).then_some((device, summary))
        })
        .collect()
}

fn print_text(to: &mut impl Write, recording: &Recording, only: Option<u16>, brief: bool) -> io::Result<()> {
    if !brief {
        let columns = Columns::new(recording);
        for (place, entry) in events(recording, only) {
            writeln!(to, "{}", columns.line(place, entry))?;
        }
        writeln!(to)?;
    }
    let end = &recording.end;
    let lost = if end.lost > 0 { format!(", {} LOST", end.lost) } else { String::new() };
    let (seconds, hops) =
        (end.at as f64 / 1e9, recording.entries.iter().filter(|e| matches!(e, RecordedEntry::Hop(_))).count());
    writeln!(to, "{hops} events in {seconds:.3} s{lost} ({})", end.reason.name())?;
    for (device, summary) in summaries(recording, only) {
        writeln!(to)?;
        to.write_all(device_text(device, &summary).as_bytes())?;
    }
    Ok(())
}

fn device_text(device: &RecordedDevice, summary: &Summary) -> String {
    let zones = device.zone_sectors.map_or(String::new(), |zone| {
        let [read, written, managed] = &summary.zones;
        format!(
            ", zones of {}: {} read, {} written, {} managed",
            format_bytes(u64::from(zone) * 512),
            read.len(),
            written.len(),
            managed.len()
        )
    });
    let header =
        ["operation", "bios", "size", "mean", "per s", "sequential", "p50", "p99", "max", "errors", "unfinished"];
    let seconds = summary.span as f64 / 1e9;
    let rows = summary.ops.iter().map(|(op, figures)| row(*op, figures, seconds));
    format!(
        "{}: {}{zones}; {} in flight at most, {:.1} on average\n{}",
        device.name,
        format_bytes(device.capacity.saturating_mul(512)),
        summary.most_in_flight,
        summary.mean_in_flight,
        output::table(&header, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], rows)
    )
}

fn row(op: Op, figures: &OpSummary, seconds: f64) -> Vec<String> {
    let OpSummary { count, bytes, sequential, errors, unfinished, .. } = figures;
    let latency = figures.latency();
    let percentile = |at: usize| latency.percentiles.get(at).map_or("-".into(), |(_, ns)| nanos(*ns));
    let size = |bytes: u64| if op.has_range() { format_bytes(bytes) } else { "-".into() };
    vec![
        op.name().into(),
        count.to_string(),
        size(*bytes),
        size(bytes / count.max(&1)),
        if seconds > 0.0 { short(*count as f64 / seconds) } else { "-".into() },
        if op.has_data() { format!("{:.0} %", *sequential as f64 * 100.0 / *count as f64) } else { "-".into() },
        percentile(0),
        percentile(2),
        nanos(latency.max),
        errors.to_string(),
        unfinished.to_string(),
    ]
}

/// A time with three digits or so.
pub fn nanos(ns: u64) -> String {
    let (value, unit) = match ns as f64 {
        n if n < 1e3 => return format!("{ns} ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// One object; the events one per line, as there may be many.
fn print_json(to: &mut impl Write, recording: &Recording, only: Option<u16>, brief: bool) -> io::Result<()> {
    let end = &recording.end;
    let summary: Vec<Value> = summaries(recording, only)
        .into_iter()
        .map(|(device, summary)| {
            let mut value = summary.to_json();
            value["device"] = json!(device.name);
            value
        })
        .collect();
    let zones: Vec<Value> = recording.zones.iter().map(|zone| zone_json(recording, zone)).collect();
    writeln!(to, "{{\"started_unix_ns\": {},", recording.started_unix_ns)?;
    writeln!(to, "\"duration_ns\": {}, \"lost\": {}, \"end\": {},", end.at, end.lost, json!(end.reason.name()))?;
    writeln!(to, "\"devices\": {},\n\"summary\": {},", json!(recording.devices), json!(summary))?;
    write!(to, "\"zones_at_start\": {}", json!(zones))?;
    if !brief {
        write!(to, ",\n\"events\": [")?;
        for (nth, (_, entry)) in events(recording, only).enumerate() {
            write!(to, "{}\n{}", if nth > 0 { "," } else { "" }, event_json(recording, entry))?;
        }
        write!(to, "\n]")?;
    }
    writeln!(to, "}}")
}

fn zone_json(recording: &Recording, zone: &shingle_host::trace::ZoneStart) -> Value {
    let device = recording.devices.get(usize::from(zone.device)).map(|device| device.name.as_str());
    json!({
        "device": device,
        "zone": zone.zone,
        "type_code": zone.kind as u8,
        "cond_code": zone.cond as u8,
        "wp_offset": zone.wp,
        "capacity": zone.capacity,
    })
}

fn event_json(recording: &Recording, entry: &RecordedEntry) -> Value {
    let event = match entry {
        RecordedEntry::Lost { at, shard, count } => return json!({"at_ns": at.0, "lost": count, "shard": shard}),
        RecordedEntry::Hop(event) => event,
    };
    let device = recording.devices.get(usize::from(event.device.0)).map(|device| device.name.as_str());
    let mut value = json!({
        "at_ns": event.at.0,
        "device": device,
        "bio": event.number,
        "action": event.action.letter().to_string(),
        "op": event.op.name().to_ascii_lowercase(),
        "flags": event.flags.bits(),
        "rwbs": rwbs(event.op, event.flags),
        "sector": event.sector.0,
        "sectors": event.sectors,
    });
    if event.action == Action::Complete {
        value["status"] = json!(event.status.name());
        value["returned"] = json!(event.returned);
    }
    value
}
