//! `shingle dm stats report`.

use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::columns::LayoutArgs;
use super::counters::{Area, Counters, NAMES, Reading, check_kept};
use super::region::Region;
use super::{CliError, ProgramArgs, find};
use crate::cli::output;
use crate::cli::remote::RemoteArgs;
use shingle_host::config::parse_duration;

/// Show rates: reads the counters twice, and prints what happened between
#[derive(Args)]
pub struct ReportArgs {
    /// The devices; all of them if left out
    devices: Vec<String>,
    /// Only the region with this number
    #[arg(long, value_name = "ID")]
    regionid: Option<u32>,
    #[command(flatten)]
    programs: ProgramArgs,
    /// Time between two readings: 1, 500ms; without --count it goes on until it is interrupted. 1 s if left out
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    interval: Option<Duration>,
    /// So many reports; 0: until it is interrupted
    #[arg(long)]
    count: Option<u64>,
    /// The counters as they are now, at once, instead of rates
    #[arg(long, conflicts_with_all = ["interval", "count", "histogram"])]
    raw: bool,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Print JSON, an object per report; starts and lengths are in sectors of 512 bytes
    #[arg(long)]
    json: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    // dmstats takes plain seconds.
    let time = match text.parse::<u32>() {
        Ok(seconds) => Duration::from_secs(seconds.into()),
        Err(_) => parse_duration(text)?,
    };
    if time.is_zero() { Err("write a time greater than 0".into()) } else { Ok(time) }
}

/// Runs the command.
pub fn run(args: &ReportArgs) -> Result<(), CliError> {
    let layout = args.layout.of_areas(args.raw)?;
    let mut client = args.remote.connect()?;
    let mut regions = find(&mut client, &args.devices, &args.programs)?;
    regions.retain(|region| args.regionid.is_none_or(|id| id == region.id));
    check_kept(&regions)?;
    let show = |rows: Vec<Value>| match args.json {
        true => output::print_json(&json!({"objects": rows})),
        false if rows.is_empty() => Ok(()),
        false => output::print(&layout.show(&rows)),
    };
    let mut read = || {
        regions.iter().map(|region| Reading::take(&mut client, region, "@stats_print")).collect::<Result<Vec<_>, _>>()
    };
    let mut before = read()?;
    if args.raw || regions.is_empty() {
        let rows = regions.iter().zip(before).flat_map(|(region, now)| rows(region, (Duration::ZERO, now.areas)));
        return show(ordered(rows.collect()));
    }
    let reports = args.count.unwrap_or(u64::from(args.interval.is_none()));
    for report in 1.. {
        thread::sleep(args.interval.unwrap_or(Duration::from_secs(1)));
        let now = read()?;
        let changes = now.iter().zip(&before).map(|(now, before)| now.since(before));
        show(ordered(regions.iter().zip(changes).flat_map(|(region, change)| rows(region, change)).collect()))?;
        if report == reports {
            return Ok(());
        }
        if !args.json {
            output::print("\n")?;
        }
        before = now;
    }
    Ok(())
}

/// As dmstats orders them: of a device first all areas, then the regions that have several.
fn ordered(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(|row| (row["device"].to_string(), row["object"] == "region"));
    rows
}

/// The rows of a region: its areas, and itself if they are several.
fn rows(region: &Region, (time, areas): (Duration, Vec<Area>)) -> Vec<Value> {
    let row = |object: &str, (place, start): (usize, u64), counters: &Counters| {
        let mut row = region.to_json();
        row["object"] = json!(object);
        (row["area"], row["area_start"]) = (json!(place), json!(start));
        row["counters"] = counters.to_json();
        if !time.is_zero() {
            row["rates"] = rates(counters, time.as_secs_f64());
        }
        row
    };
    let mut rows: Vec<Value> =
        areas.iter().enumerate().map(|(place, area)| row("area", (place, area.start), &area.counters)).collect();
    if areas.len() > 1 {
        let sum = areas.iter().fold(Counters::default(), |sum, area| sum.plus(&area.counters));
        rows.push(row("region", (0, region.start), &sum));
    }
    rows
}

/// dmstats' figures from what was counted in `seconds`.
fn rates(counters: &Counters, seconds: f64) -> Value {
    let of = |name: &str| NAMES.iter().position(|n| *n == name).map_or(0.0, |place| counters.values[place] as f64);
    let mean = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
    let (reads, writes, ms) = (of("reads"), of("writes"), 1e6);
    let (read_time, write_time) = (of("read_time_ns") / ms, of("write_time_ns") / ms);
    json!({
        "interval_s": seconds,
        "reads_merged_per_second": of("reads_merged") / seconds,
        "writes_merged_per_second": of("writes_merged") / seconds,
        "reads_per_second": reads / seconds,
        "writes_per_second": writes / seconds,
        "read_bytes_per_second": of("read_sectors") * 512.0 / seconds,
        "written_bytes_per_second": of("written_sectors") * 512.0 / seconds,
        "mean_bytes": mean((of("read_sectors") + of("written_sectors")) * 512.0, reads + writes),
        "queue": of("queue_ticks_ns") / 1e9 / seconds,
        "busy_percent": (of("io_ticks_ns") / 1e7 / seconds).min(100.0),
        "mean_ms": mean(read_time + write_time, reads + writes),
        "mean_read_ms": mean(read_time, reads),
        "mean_write_ms": mean(write_time, writes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the dmstats of Debian 13 made of these counters, taken from a kernel 7.2, in a report of one second.
    #[test]
    fn rates_are_those_of_dmstats() {
        let values =
            [20, 19, 2560, 2_281_337, 40, 39, 5120, 22_355_302, 0, 23_834_891, 23_834_891, 2_232_616, 21_602_275];
        let rates = rates(&Counters { values, histogram: Vec::new() }, 1.0);
        let figure = |name: &str| format!("{:.2}", rates[name].as_f64().unwrap());
        let shown = [
            "reads_per_second",
            "writes_per_second",
            "queue",
            "busy_percent",
            "mean_ms",
            "mean_read_ms",
            "mean_write_ms",
        ];
        assert_eq!(shown.map(figure), ["20.00", "40.00", "0.02", "2.38", "0.41", "0.11", "0.56"]);
        let size = |name: &str| super::super::units::size(rates[name].as_f64().unwrap());
        let sizes = ["read_bytes_per_second", "written_bytes_per_second", "mean_bytes"].map(size);
        assert_eq!(sizes, ["1.25m", "2.50m", "64.00k"]);
    }
}
