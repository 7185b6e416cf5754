//! What a job is asked to do; fio's names and meanings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::verify::Verify;

/// `--rw`: which operations, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rw {
    /// Sequential reads.
    #[default]
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Sequential reads and writes, mixed.
    ReadWrite,
    /// Random reads and writes, mixed.
    RandRw,
    /// Sequential discards.
    Trim,
    /// Random discards.
    RandTrim,
}

impl Rw {
    /// All of them with fio's name.
    pub const NAMES: [(&'static str, Rw); 8] = [
        ("read", Rw::Read),
        ("write", Rw::Write),
        ("randread", Rw::RandRead),
        ("randwrite", Rw::RandWrite),
        ("rw", Rw::ReadWrite),
        ("randrw", Rw::RandRw),
        ("trim", Rw::Trim),
        ("randtrim", Rw::RandTrim),
    ];

    /// fio's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, rw)| *rw == self).map_or("", |(name, _)| name)
    }

    /// Whether each I/O goes somewhere else.
    #[must_use]
    pub fn is_random(self) -> bool {
        matches!(self, Rw::RandRead | Rw::RandWrite | Rw::RandRw | Rw::RandTrim)
    }

    /// Whether it reads.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Rw::Read | Rw::RandRead | Rw::ReadWrite | Rw::RandRw)
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Rw::Write | Rw::RandWrite | Rw::ReadWrite | Rw::RandRw)
    }

    /// Whether it discards.
    #[must_use]
    pub fn trims(self) -> bool {
        matches!(self, Rw::Trim | Rw::RandTrim)
    }
}

impl fmt::Display for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `--zonemode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneMode {
    /// Zones mean nothing to the generator.
    None,
    /// Writes go to write pointers, full zones are reset, reads stay below the write pointers.
    Zbd,
}

/// `--clock`: when latencies read the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockMode {
    /// Once per turn of the loop: a latency is right to the length of one turn.
    Turn,
    /// Twice per bio.
    Bio,
}

/// One group of equal jobs.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// `--name`.
    pub name: String,
    /// `--rw`.
    pub rw: Rw,
    /// `--bs`, a multiple of 512.
    pub block_bytes: u32,
    /// `--iodepth`.
    pub iodepth: u32,
    /// `--numjobs`.
    pub numjobs: u32,
    /// `--runtime`.
    pub runtime: Option<Duration>,
    /// `--time_based`.
    pub time_based: bool,
    /// `--offset`.
    pub offset: u64,
    /// `--offset_increment`: how much further each of the jobs begins than the one before it.
    pub offset_increment: u64,
    /// `--size`: length of the region; to the end of the device if left out.
    pub size: Option<u64>,
    /// `--io_size`: bytes to transfer; the region's length if left out.
    pub io_size: Option<u64>,
    /// `--zonemode`; by the device if left out.
    pub zonemode: Option<ZoneMode>,
    /// `--max_open_zones`.
    pub max_open_zones: Option<u32>,
    /// `--write_zone_append`.
    pub append: bool,
    /// `--verify`.
    pub verify: Option<Verify>,
    /// `--rwmixread`, percent.
    pub rwmixread: u8,
    /// `--randseed`.
    pub seed: u64,
    /// `--clock`.
    pub clock: ClockMode,
    /// `--fsync`: a flush after so many writes; 0 for none.
    pub fsync: u32,
    /// `--thinktime`: a pause after so many I/Os, once they are back.
    pub thinktime: Option<(Duration, u32)>,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            name: "bench".into(),
            rw: Rw::Read,
            block_bytes: 4096,
            iodepth: 1,
            numjobs: 1,
            runtime: None,
            time_based: false,
            offset: 0,
            offset_increment: 0,
            size: None,
            io_size: None,
            zonemode: None,
            max_open_zones: None,
            append: false,
            verify: None,
            rwmixread: 50,
            seed: 0x5819_61e5,
            clock: ClockMode::Turn,
            fsync: 0,
            thinktime: None,
        }
    }
}

impl JobOptions {
    /// Sectors of one I/O.
    #[must_use]
    pub fn block_sectors(&self) -> u32 {
        self.block_bytes / 512
    }

    /// The options of the `number`th of the jobs, from 0.
    #[must_use]
    pub fn of_job(self: &Arc<Self>, number: u32) -> Arc<Self> {
        if self.offset_increment == 0 {
            return self.clone();
        }
        let offset = self.offset.saturating_add(self.offset_increment.saturating_mul(number.into()));
        Arc::new(Self { offset, ..Self::clone(self) })
    }

    /// The options as fio's JSON lists them: name and value as typed.
    #[must_use]
    pub fn listed(&self) -> Vec<(&'static str, String)> {
        let mut list = vec![
            ("name", self.name.clone()),
            ("rw", self.rw.to_string()),
            ("bs", self.block_bytes.to_string()),
            ("iodepth", self.iodepth.to_string()),
            ("numjobs", self.numjobs.to_string()),
        ];
        let mut add = |name, value: Option<String>| list.extend(value.map(|value| (name, value)));
        add("runtime", self.runtime.map(|t| format!("{}ms", t.as_millis())));
        add("time_based", self.time_based.then(|| "1".into()));
        add("offset", (self.offset > 0).then(|| self.offset.to_string()));
        add("offset_increment", (self.offset_increment > 0).then(|| self.offset_increment.to_string()));
        add("size", self.size.map(|n| n.to_string()));
        add("io_size", self.io_size.map(|n| n.to_string()));
        add("zonemode", self.zonemode.map(|mode| if mode == ZoneMode::Zbd { "zbd" } else { "none" }.into()));
        add("max_open_zones", self.max_open_zones.map(|n| n.to_string()));
        add("write_zone_append", self.append.then(|| "1".into()));
        add("verify", self.verify.as_ref().map(|v| if *v == Verify::Crc32c { "crc32c" } else { "pattern" }.into()));
        add("rwmixread", (self.rw.reads() && self.rw.writes()).then(|| self.rwmixread.to_string()));
        add("fsync", (self.fsync > 0).then(|| self.fsync.to_string()));
        add("thinktime", self.thinktime.map(|(time, _)| format!("{}us", time.as_micros())));
        add("thinktime_blocks", self.thinktime.map(|(_, blocks)| blocks.to_string()));
        add("randseed", Some(self.seed.to_string()));
        list
    }
}

/// Mismatch between a job and its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError(pub String);

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JobError {}
