//! A region as `@stats_list` tells of it.

use serde_json::{Value, json};

use super::units::NS_PER_MS;
use super::{CliError, tell};
use shingle_host::control::ControlClient;

/// Whose regions are made and looked for unless told otherwise: dmstats'.
pub const PROGRAM: &str = "dmstats";

/// A region; places and lengths in sectors.
pub struct Region {
    /// The name of the device.
    pub device: String,
    /// Its number on the device.
    pub id: u32,
    pub start: u64,
    pub length: u64,
    /// The length of an area; the last one may be shorter.
    pub step: u64,
    pub program: String,
    pub aux: String,
    /// Whether it counts in ns; in ms if not.
    pub precise: bool,
    /// The boundaries of its histogram in ns; none if it has no histogram.
    pub bounds: Vec<u64>,
}

impl Region {
    /// How many areas it has.
    pub fn areas(&self) -> u64 {
        self.length.div_ceil(self.step)
    }

    /// Nanoseconds of what it counts times in.
    pub fn tick(&self) -> u64 {
        if self.precise { 1 } else { NS_PER_MS }
    }

    /// The region as JSON, which rows of tables are made of.
    pub fn to_json(&self) -> Value {
        json!({
            "device": self.device,
            "region": self.id,
            "start": self.start,
            "length": self.length,
            "areas": self.areas(),
            "area_length": self.step,
            "program": self.program,
            "aux": self.aux,
            "precise": self.precise,
            "histogram_ns": self.bounds,
        })
    }
}

/// The regions of a device, of all programs.
pub fn all_of(client: &mut ControlClient, device: &str) -> Result<Vec<Region>, CliError> {
    let listed = tell(client, device, "@stats_list")?;
    let unknown = |line: &str| {
        CliError::Failed(format!(
            "the daemon listed a region of `{device}` as `{line}`, which this program does not know: use the program of \
             the daemon's version, which `shingle dm version` prints"
        ))
    };
    listed.lines().map(|line| parse(device, line).ok_or_else(|| unknown(line))).collect()
}

/// Reads `0: 0+2000 1000 me - precise_timestamps histogram:100000,1000000`.
fn parse(device: &str, line: &str) -> Option<Region> {
    let (id, rest) = line.split_once(": ")?;
    let mut words = rest.split(' ');
    let (start, length) = words.next()?.split_once('+')?;
    let step: u64 = words.next()?.parse().ok().filter(|step| *step > 0)?;
    let (program, aux) = (words.next()?.to_owned(), words.next()?.to_owned());
    let options: Vec<&str> = words.collect();
    let precise = options.contains(&"precise_timestamps");
    let histogram = options.iter().find_map(|option| option.strip_prefix("histogram:")).unwrap_or_default();
    let tick = if precise { 1 } else { NS_PER_MS };
    let bound = |text: &str| text.parse::<u64>().ok()?.checked_mul(tick);
    let bounds = histogram.split_terminator(',').map(bound).collect::<Option<Vec<u64>>>()?;
    let (id, start, length) = (id.parse().ok()?, start.parse().ok()?, length.parse().ok()?);
    Some(Region { device: device.into(), id, start, length, step, program, aux, precise, bounds })
}
