//! `shingle stl check` and `shingle stl scrub`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use shingle_core::dm::stl::BLOCK_BYTES;
use shingle_core::dm::stl::format::ZoneUse;
use shingle_core::dm::stl::tools::{Depth, Finding, Report, check};
use shingle_host::config::{format_bytes, parse_size};
use shingle_host::dmz::Access;
use shingle_host::stl::{Disks, other_content};

use super::set::{SetArgs, geometry, geometry_json, size_of, table_line, volume_json, volume_text};
use super::{CliError, output};
use crate::cli::output::with_percent;

/// Check a volume: its roots, its map, the headers of its zones, and that the map leads to what these have
///
/// Nothing is changed, and several checks may run at once. The last line is "No error detected" or "Errors detected: " and what to
/// do, with exit code 0 or 3. It takes 32 MB of memory for each TB of disk.
#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    set: SetArgs,
    /// Read every live block as well, and compare it with its checksum
    #[arg(long)]
    data: bool,
}

/// Read every live block and compare it with its checksum, no faster than is said
///
/// It is a check with --data: what that finds is told, and nothing is changed.
#[derive(Args)]
pub struct ScrubArgs {
    #[command(flatten)]
    set: SetArgs,
    /// Bytes in a second, such as 100MiB; as fast as it goes if left out
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
}

/// Findings that are printed.
const MOST_PRINTED: usize = 40;

fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("a rate of nothing would take for ever".into()),
        rate => Ok(rate),
    }
}

/// Runs `shingle stl check`.
pub fn run(args: &CheckArgs) -> Result<(), CliError> {
    let mut disks = args.set.open(Access::Read)?;
    let mut unpaced = |_| ();
    let pace: Option<&mut dyn FnMut(u32)> = if args.data { Some(&mut unpaced) } else { None };
    let report = with_percent("checking", |progress| check(&mut disks, Depth { pace }, progress));
    tell(&args.set, &mut disks, &report)
}

/// Runs `shingle stl scrub`.
pub fn run_scrub(args: &ScrubArgs) -> Result<(), CliError> {
    let mut disks = args.set.open(Access::Read)?;
    let (mut begun, mut bytes) = (None, 0);
    let mut pace = |blocks: u32| {
        let Some(rate) = args.rate else { return };
        // The first blocks are due at once.
        let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let begun: &Instant = begun.get_or_insert_with(Instant::now);
        sleep(due.saturating_sub(begun.elapsed()));
        bytes += u64::from(blocks) * BLOCK_BYTES as u64;
    };
    let report = with_percent("scrubbing", |progress| check(&mut disks, Depth { pace: Some(&mut pace) }, progress));
    tell(&args.set, &mut disks, &report)
}

fn tell(set: &SetArgs, disks: &mut Disks, report: &Report) -> Result<(), CliError> {
    if report.volume.is_none()
        && let Some(other) = other_content(disks)
    {
        return Err(CliError::Failed(other));
    }
    if set.json {
        let mut value = geometry_json(disks);
        value["check"] = report_json(report);
        value["table"] = json!(report.volume.as_ref().map(|volume| table_line(disks, volume)));
        output::print_json(&value)?;
    } else {
        output::print(&format!("{}{}", geometry(disks), report_text(disks, report)))?;
    }
    if report.findings.is_clean() { Ok(()) } else { Err(CliError::Disorder) }
}

fn report_text(disks: &Disks, report: &Report) -> String {
    let mut text = String::new();
    if let Some(volume) = &report.volume {
        let zones = |used_for| report.zones(used_for);
        text += &volume_text(disks, volume);
        text += &format!(
            "zones: {} free, {} open, {} full, {} of roots, {} dead\nlive: {} blocks ({})\n",
            zones(ZoneUse::Free),
            zones(ZoneUse::Open),
            zones(ZoneUse::Full),
            zones(ZoneUse::Roots),
            zones(ZoneUse::Dead),
            report.live_blocks(),
            size_of(report.live_blocks()),
        );
        if report.read_blocks > 0 {
            text += &format!("read and compared: {}\n", format_bytes(report.read_blocks * BLOCK_BYTES as u64));
        }
    }
    let all = report.findings.all();
    text.extend(all.iter().take(MOST_PRINTED).map(|finding| format!("  {finding}\n")));
    let more = all.len().saturating_sub(MOST_PRINTED) as u64 + report.findings.more();
    if more > 0 {
        text += &format!("  and {more} more: --json tells up to 10000\n");
    }
    text + &verdict(report)
}

fn verdict(report: &Report) -> String {
    let is_volume = report.volume.is_some();
    match () {
        () if report.findings.is_clean() => "No error detected\n".into(),
        () if report.findings.all().iter().any(|finding| matches!(finding, Finding::Members(_))) => {
            "Errors detected: nothing was checked; give the disks of the volume\n".into()
        }
        () if is_volume => {
            "Errors detected: copy what can be read, then format anew; blocks that are not told of are in order\n"
                .into()
        }
        () => "Errors detected: `shingle stl salvage` tells whether anything is left\n".into(),
    }
}

fn report_json(report: &Report) -> Value {
    let finding = |finding: &Finding| json!({"error": finding.is_error(), "kind": finding.name(), "message": finding.to_string()});
    json!({
        "clean": report.findings.is_clean(),
        "volume": report.volume.as_ref().map(volume_json),
        "free_zones": report.zones(ZoneUse::Free),
        "open_zones": report.zones(ZoneUse::Open),
        "full_zones": report.zones(ZoneUse::Full),
        "dead_zones": report.zones(ZoneUse::Dead),
        "live_blocks": report.live_blocks(),
        "read_blocks": report.read_blocks,
        "findings": report.findings.all().iter().map(finding).collect::<Vec<Value>>(),
        "more_findings": report.findings.more(),
    })
}
