//! The counters of areas: read, printed, and what has changed between two readings.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::region::Region;
use super::{CliError, PrintArgs, tell};
use crate::cli::output;
use shingle_host::control::ControlClient;

/// Numbers that are asked for at a time: an answer has a bound.
const NUMBERS: u64 = 1 << 16;
/// Most numbers that are kept at a time: a region may have millions of areas.
const MOST_KEPT: u64 = 1 << 18;
/// Counters of an area, without its histogram.
pub const COUNTERS: usize = 13;

/// What is counted of an area, in the order of the message's columns.
pub const NAMES: [&str; COUNTERS] = [
    "reads",
    "reads_merged",
    "read_sectors",
    "read_time_ns",
    "writes",
    "writes_merged",
    "written_sectors",
    "write_time_ns",
    "in_flight",
    "io_ticks_ns",
    "queue_ticks_ns",
    "read_ticks_ns",
    "write_ticks_ns",
];

/// The counter at this place is a time.
fn is_time(place: usize) -> bool {
    NAMES[place].ends_with("_ns")
}

/// The counters of an area or of several; times in ns.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    pub values: [u64; COUNTERS],
    pub histogram: Vec<u64>,
}

impl Counters {
    /// What came to them since `before`. What is in flight stays what it is.
    pub fn since(&self, before: &Counters) -> Counters {
        let mut change = self.clone();
        let times = change.histogram.iter_mut().zip(&before.histogram);
        times.for_each(|(now, then)| *now = now.saturating_sub(*then));
        for (place, then) in before.values.iter().enumerate().filter(|(place, _)| NAMES[*place] != "in_flight") {
            change.values[place] = change.values[place].saturating_sub(*then);
        }
        change
    }

    /// Both together.
    pub fn plus(mut self, other: &Counters) -> Counters {
        self.values.iter_mut().zip(other.values).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.histogram.resize(self.histogram.len().max(other.histogram.len()), 0);
        self.histogram.iter_mut().zip(&other.histogram).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        self
    }

    pub fn to_json(&self) -> Value {
        let values: serde_json::Map<String, Value> =
            NAMES.iter().zip(self.values).map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let mut value = Value::Object(values);
        if !self.histogram.is_empty() {
            value["histogram"] = json!(self.histogram);
        }
        value
    }
}

/// An area: where it begins, in sectors, and its counters.
pub struct Area {
    pub start: u64,
    pub counters: Counters,
}

/// All areas of a region at one time, or one after the other if they are many.
pub struct Reading {
    pub at: Instant,
    pub areas: Vec<Area>,
}

impl Reading {
    /// Reads them with this message.
    pub fn take(client: &mut ControlClient, region: &Region, message: &str) -> Result<Reading, CliError> {
        let at = Instant::now();
        let mut areas = Vec::new();
        pages(client, region, message, |text| {
            for line in text.lines() {
                let area = parse(line, region.tick());
                areas.push(area.ok_or_else(|| {
                    CliError::Failed(format!(
                        "the daemon printed an area of `{}` as `{line}`, which this program does not know: use the program \
                         of the daemon's version",
                        region.device
                    ))
                })?);
            }
            Ok(())
        })?;
        Ok(Reading { at, areas })
    }

    /// What has changed since `before`, and in how long.
    pub fn since(&self, before: &Reading) -> (Duration, Vec<Area>) {
        let areas = self.areas.iter().zip(&before.areas);
        let change =
            |(now, then): (&Area, &Area)| Area { start: now.start, counters: now.counters.since(&then.counters) };
        (self.at - before.at, areas.map(change).collect())
    }
}

/// Refuses regions whose counters are too many to be kept.
pub fn check_kept(regions: &[Region]) -> Result<(), CliError> {
    let numbers = |region: &Region| region.areas().saturating_mul((COUNTERS + region.bounds.len() + 1) as u64);
    let all = regions.iter().fold(0_u64, |sum, region| sum.saturating_add(numbers(region)));
    if all <= MOST_KEPT {
        return Ok(());
    }
    Err(CliError::Failed(format!(
        "these regions have {all} counters, and {MOST_KEPT} can be looked at together: name one with --regionid, or use \
         `shingle dm stats print` without --json"
    )))
}

/// Sends `message` for all lines of the region, in as many parts as it takes.
fn pages(
    client: &mut ControlClient,
    region: &Region,
    message: &str,
    mut take: impl FnMut(&str) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let lines = (NUMBERS / (COUNTERS + region.bounds.len() + 1) as u64).max(1);
    for first in (0..region.areas()).step_by(lines as usize) {
        take(&tell(client, &region.device, &format!("{message} {} {first} {lines}", region.id))?)?;
    }
    Ok(())
}

/// Reads `0+4096 1 0 8 2 ... 5:3:0`.
fn parse(line: &str, tick: u64) -> Option<Area> {
    let mut words = line.split(' ');
    let start = words.next()?.split_once('+')?.0.parse().ok()?;
    let mut values = [0; COUNTERS];
    for (place, value) in values.iter_mut().enumerate() {
        let number: u64 = words.next()?.parse().ok()?;
        *value = if is_time(place) { number.saturating_mul(tick) } else { number };
    }
    let histogram = words.next().unwrap_or_default();
    let histogram: Option<Vec<u64>> = histogram.split_terminator(':').map(|count| count.parse().ok()).collect();
    Some(Area { start, counters: Counters { values, histogram: histogram? } })
}

/// `shingle dm stats print`.
pub fn print(args: &PrintArgs) -> Result<(), CliError> {
    let (mut client, regions) = args.regions.find()?;
    if args.json {
        check_kept(&regions)?;
    }
    let message = if args.clear { "@stats_print_clear" } else { "@stats_print" };
    let mut shown = Vec::new();
    for region in &regions {
        if !args.json {
            pages(&mut client, region, message, output::print)?;
            continue;
        }
        let areas = Reading::take(&mut client, region, message)?.areas;
        let area =
            |area: &Area| json!({"start": area.start, "length": region.step, "counters": area.counters.to_json()});
        let mut value = region.to_json();
        value["counted"] = areas.iter().map(area).collect();
        shown.push(value);
    }
    if args.json { output::print_json(&json!({"regions": shown})) } else { Ok(()) }
}
