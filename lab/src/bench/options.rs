//! What a job is asked to do; fio's names and meanings.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, ArgAction, Args, Command, FromArgMatches, ValueEnum};
use shingle_host::config::{parse_duration, parse_size};

use super::verify::Filling;

/// `--rw`: which operations, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rw {
    /// Sequential reads.
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
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, rw)| *rw == self).map_or("", |(name, _)| name)
    }

    /// Whether each I/O goes somewhere else.
    pub fn is_random(self) -> bool {
        matches!(self, Rw::RandRead | Rw::RandWrite | Rw::RandRw | Rw::RandTrim)
    }

    /// Whether it reads.
    pub fn reads(self) -> bool {
        matches!(self, Rw::Read | Rw::RandRead | Rw::ReadWrite | Rw::RandRw)
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(self, Rw::Write | Rw::RandWrite | Rw::ReadWrite | Rw::RandRw)
    }

    /// Whether it discards.
    pub fn trims(self) -> bool {
        matches!(self, Rw::Trim | Rw::RandTrim)
    }
}

shingle_core::impl_display!(Rw, |self, f| f.write_str(self.name()));

/// Reads fio's names for what a job does, and offers them.
#[derive(Clone)]
struct RwParser;

impl TypedValueParser for RwParser {
    type Value = Rw;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Rw, clap::Error> {
        let read = |text: &str| {
            let found = Rw::NAMES.iter().find(|(name, _)| *name == text || (text == "readwrite" && *name == "rw"));
            let known = || Rw::NAMES.map(|(name, _)| name).join(", ");
            found.map(|(_, rw)| *rw).ok_or_else(|| format!("use one of: {}", known()))
        };
        read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Rw::NAMES.into_iter().map(|(name, _)| PossibleValue::new(name))))
    }
}

/// `--zonemode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ZoneMode {
    /// Zones mean nothing to the generator.
    #[value(help = NO_HELP)]
    None,
    /// Writes go to write pointers, full zones are reset, reads stay below the write pointers.
    #[value(help = NO_HELP)]
    Zbd,
}

/// `--clock`: when latencies read the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockMode {
    /// Once per turn of the loop: a latency is right to the length of one turn.
    #[value(help = NO_HELP)]
    Turn,
    /// Twice per bio.
    #[value(help = NO_HELP)]
    Bio,
}

/// `--verify`: what blocks are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    /// A header with a checksum, then random bytes.
    #[value(help = NO_HELP)]
    Crc32c,
    /// The bytes of `--verify_pattern`.
    #[value(help = NO_HELP)]
    Pattern,
}

/// Lists of words are short where their meaning is fio's.
const NO_HELP: Option<&'static str> = None;

/// Options of a group of equal jobs; fio's names and meanings.
#[derive(Args, Clone, Debug)]
pub struct JobOptions {
    /// Device of the stack file; can be given several times. Every device gets its own jobs
    #[arg(long, alias = "filename", value_delimiter = ':')]
    pub device: Vec<String>,
    /// Name of the job
    #[arg(long)]
    pub name: Option<String>,
    /// What to do
    #[arg(long, alias = "readwrite", default_value = "read", value_parser = RwParser)]
    pub rw: Rw,
    /// Size of one I/O
    #[arg(long = "bs", value_name = "BS", alias = "blocksize", default_value = "4k", value_parser = parse_block)]
    pub block_bytes: u32,
    /// I/Os in flight per job
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub iodepth: u32,
    /// Jobs; with a built-in stack each has a thread and a stack of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub numjobs: u32,
    /// Stop after this time: 30, 30s, 500ms
    #[arg(long, value_parser = parse_runtime)]
    pub runtime: Option<Duration>,
    /// Start over until the runtime is reached
    #[arg(long = "time_based", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag,
          action = ArgAction::Set, default_value = "0", hide_default_value = true)]
    pub time_based: bool,
    /// Length of the region to work in; to the end of the device if left out
    #[arg(long, value_parser = parse_size)]
    pub size: Option<u64>,
    /// Bytes to transfer; the region's length if left out
    #[arg(long = "io_size", value_parser = parse_size)]
    pub io_size: Option<u64>,
    /// Start of the region
    #[arg(long, default_value = "0", value_parser = parse_size)]
    pub offset: u64,
    /// How much further each of --numjobs jobs begins than the one before it
    #[arg(long = "offset_increment", default_value = "0", value_parser = parse_size)]
    pub offset_increment: u64,
    /// Treatment of zones; zbd on a zoned device if left out
    #[arg(long, value_enum)]
    pub zonemode: Option<ZoneMode>,
    /// Most zones that all jobs together write at a time
    #[arg(long = "max_open_zones", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_open_zones: Option<u32>,
    /// Write with zone appends
    #[arg(long = "write_zone_append", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag,
          action = ArgAction::Set, default_value = "0", hide_default_value = true)]
    pub append: bool,
    /// Check what is read; after writing, read everything back. On a simulated drive in 16GiB at most
    #[arg(long, value_enum)]
    pub verify: Option<Verify>,
    /// Bytes for --verify=pattern, in hexadecimal
    #[arg(long = "verify_pattern", value_name = "0xBYTES")]
    pub verify_pattern: Option<String>,
    /// Flush the device after so many writes; 0: never
    #[arg(long, default_value_t = 0)]
    pub fsync: u32,
    /// Pause after an I/O is back: 50us, 1ms; a plain number is in microseconds
    #[arg(long, value_parser = parse_thinktime)]
    pub thinktime: Option<Duration>,
    /// I/Os before each pause
    #[arg(long = "thinktime_blocks", default_value_t = 1, requires = "thinktime", value_parser = clap::value_parser!(u32).range(1..))]
    pub thinktime_blocks: u32,
    /// Report all jobs as one
    #[arg(long = "group_reporting", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag,
          action = ArgAction::Set, default_value = "0", hide_default_value = true)]
    pub group_reporting: bool,
    /// Percentage of reads in a mixed load
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: u8,
    /// Seed of the random offsets
    #[arg(long, default_value_t = 0x5819_61e5)]
    pub randseed: u64,
    /// Accepted as fio has it; whether the page cache is bypassed is written in the stack file
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    pub direct: Option<bool>,
    /// When to read the clock: once per turn of the loop, or at every bio
    #[arg(long, value_enum, default_value = "turn")]
    pub clock: ClockMode,
    /// Accepted as fio has it: I/O goes to the stack, by itself
    #[arg(long, hide = true)]
    pub ioengine: Option<String>,
    /// Accepted as fio has it: jobs are no processes
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    pub thread: Option<bool>,
    /// Accepted as fio has it: random offsets are drawn anew for each I/O, and nobody remembers them
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    pub norandommap: Option<bool>,
    /// Accepted as fio has it: a remark
    #[arg(long, hide = true)]
    pub description: Option<String>,
    /// In a job file: begin when all jobs before have ended
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag,
          action = ArgAction::Set, default_value = "0", hide_default_value = true)]
    pub stonewall: bool,
}

/// What an empty command line means.
impl Default for JobOptions {
    fn default() -> Self {
        let nothing = Self::augment_args(Command::new("job")).no_binary_name(true).get_matches_from([""; 0]);
        Self::from_arg_matches(&nothing).expect("every option can be left out")
    }
}

fn parse_block(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    let fits = bytes > 0 && bytes.is_multiple_of(512) && bytes <= 1 << 30;
    if fits { Ok(bytes as u32) } else { Err("use a multiple of 512 of at most 1GiB".into()) }
}

/// A time; a number alone is in seconds, as with fio.
fn parse_runtime(text: &str) -> Result<Duration, String> {
    text.parse::<u32>().map_or_else(|_| parse_duration(text), |seconds| Ok(Duration::from_secs(seconds.into())))
}

/// A time; a number alone is in microseconds, as with fio.
fn parse_thinktime(text: &str) -> Result<Duration, String> {
    text.parse::<u32>().map_or_else(|_| parse_duration(text), |micros| Ok(Duration::from_micros(micros.into())))
}

fn parse_flag(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err("use 0 or 1".into()),
    }
}

impl JobOptions {
    /// Whether they go together.
    pub fn check(&self) -> Result<(), String> {
        if self.time_based && self.runtime.is_none() {
            return Err("--time_based needs --runtime".into());
        }
        self.filling().map(drop)
    }

    /// How blocks are filled and checked, if they are.
    pub fn filling(&self) -> Result<Option<Filling>, String> {
        match (self.verify, &self.verify_pattern) {
            (Some(Verify::Pattern), Some(pattern)) => Ok(Some(Filling::Pattern(parse_pattern(pattern)?))),
            (Some(Verify::Pattern), None) => Err("--verify=pattern needs --verify_pattern=0x...".into()),
            (_, Some(_)) => Err("--verify_pattern needs --verify=pattern".into()),
            (Some(Verify::Crc32c), None) => Ok(Some(Filling::Crc32c)),
            (None, None) => Ok(None),
        }
    }

    /// The name of the job: what it does if it has none.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.rw.name())
    }

    /// How long it pauses, if it does.
    pub fn pause(&self) -> Option<Duration> {
        self.thinktime.filter(|time| !time.is_zero())
    }

    /// Sectors of one I/O.
    pub fn block_sectors(&self) -> u32 {
        self.block_bytes / 512
    }

    /// The options of the `number`th of the jobs, from 0.
    pub fn of_job(self: &Arc<Self>, number: u32) -> Arc<Self> {
        if self.offset_increment == 0 {
            return self.clone();
        }
        let offset = self.offset.saturating_add(self.offset_increment.saturating_mul(number.into()));
        Arc::new(Self { offset, ..Self::clone(self) })
    }

    /// The options as fio's JSON lists them: name and value as typed.
    pub fn listed(&self) -> Vec<(&'static str, String)> {
        let mut list = vec![
            ("name", self.name().to_owned()),
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
        add("zonemode", self.zonemode.and_then(word));
        add("max_open_zones", self.max_open_zones.map(|n| n.to_string()));
        add("write_zone_append", self.append.then(|| "1".into()));
        add("verify", self.verify.and_then(word));
        add("rwmixread", (self.rw.reads() && self.rw.writes()).then(|| self.rwmixread.to_string()));
        add("fsync", (self.fsync > 0).then(|| self.fsync.to_string()));
        add("thinktime", self.pause().map(|time| format!("{}us", time.as_micros())));
        add("thinktime_blocks", self.pause().map(|_| self.thinktime_blocks.to_string()));
        add("randseed", Some(self.randseed.to_string()));
        list
    }
}

/// The word for a value on the command line.
fn word(value: impl ValueEnum) -> Option<String> {
    value.to_possible_value().map(|value| value.get_name().to_owned())
}

fn parse_pattern(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("--verify_pattern={text} is not an even number of hexadecimal digits, as in 0xdeadbeef");
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(bad());
    }
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| bad());
    (0..digits.len()).step_by(2).map(byte).collect()
}
