//! What a job is asked to do, as an option or as a line of a job file.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::words;
use shingle_host::config::{parse_duration, parse_size};
use shingle_lab::bench::{ClockMode, JobError, JobOptions, Rw, Verify, ZoneMode};

/// Options of a job; fio's names and meanings.
#[derive(Args, Clone)]
pub struct JobArgs {
    /// Device of the stack file; can be given several times. Every device gets its own jobs
    #[arg(long, alias = "filename", value_delimiter = ':')]
    pub device: Vec<String>,
    /// Name of the job
    #[arg(long)]
    pub name: Option<String>,
    /// What to do
    #[arg(long, alias = "readwrite", default_value = "read", value_parser = words::rw())]
    rw: Rw,
    /// Size of one I/O
    #[arg(long, alias = "blocksize", default_value = "4k", value_parser = parse_block)]
    bs: u32,
    /// I/Os in flight per job
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65535))]
    iodepth: u32,
    /// Jobs; with a built-in stack each has a thread and a stack of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    numjobs: u32,
    /// Stop after this time: 30, 30s, 500ms
    #[arg(long, value_parser = parse_runtime)]
    runtime: Option<Duration>,
    /// Start over until the runtime is reached
    #[arg(long = "time_based", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    time_based: Option<bool>,
    /// Length of the region to work in; to the end of the device if left out
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Bytes to transfer; the region's length if left out
    #[arg(long = "io_size", value_parser = parse_size)]
    io_size: Option<u64>,
    /// Start of the region
    #[arg(long, default_value = "0", value_parser = parse_size)]
    offset: u64,
    /// How much further each of --numjobs jobs begins than the one before it
    #[arg(long = "offset_increment", default_value = "0", value_parser = parse_size)]
    offset_increment: u64,
    /// Treatment of zones; zbd on a zoned device if left out
    #[arg(long, value_enum)]
    zonemode: Option<ZoneModeArg>,
    /// Most zones that all jobs together write at a time
    #[arg(long = "max_open_zones", value_parser = clap::value_parser!(u32).range(1..))]
    max_open_zones: Option<u32>,
    /// Write with zone appends
    #[arg(long = "write_zone_append", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    append: Option<bool>,
    /// Check what is read; after writing, read everything back. On a simulated drive in 16GiB at most
    #[arg(long, value_enum)]
    verify: Option<VerifyArg>,
    /// Bytes for --verify=pattern, in hexadecimal
    #[arg(long = "verify_pattern", value_name = "0xBYTES")]
    verify_pattern: Option<String>,
    /// Flush the device after so many writes; 0: never
    #[arg(long, default_value_t = 0)]
    fsync: u32,
    /// Pause after an I/O is back: 50us, 1ms; a plain number is in microseconds
    #[arg(long, value_parser = parse_thinktime)]
    thinktime: Option<Duration>,
    /// I/Os before each pause
    #[arg(long = "thinktime_blocks", default_value_t = 1, requires = "thinktime", value_parser = clap::value_parser!(u32).range(1..))]
    thinktime_blocks: u32,
    /// Report all jobs as one
    #[arg(long = "group_reporting", num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    pub group_reporting: Option<bool>,
    /// Percentage of reads in a mixed load
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    rwmixread: u8,
    /// Seed of the random offsets
    #[arg(long, default_value_t = JobOptions::default().seed)]
    randseed: u64,
    /// Accepted as fio has it; whether the page cache is bypassed is written in the stack file
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    direct: Option<bool>,
    /// When to read the clock: once per turn of the loop, or at every bio
    #[arg(long, value_enum, default_value = "turn")]
    clock: ClockArg,
    /// Accepted as fio has it: I/O goes to the stack, by itself
    #[arg(long, hide = true)]
    ioengine: Option<String>,
    /// Accepted as fio has it: jobs are no processes
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    thread: Option<bool>,
    /// Accepted as fio has it: random offsets are drawn anew for each I/O, and nobody remembers them
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    norandommap: Option<bool>,
    /// Accepted as fio has it: a remark
    #[arg(long, hide = true)]
    description: Option<String>,
    /// In a job file: begin when all jobs before have ended
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "1", value_parser = parse_flag)]
    pub stonewall: Option<bool>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ZoneModeArg {
    None,
    Zbd,
}

#[derive(Clone, Copy, ValueEnum)]
enum VerifyArg {
    Crc32c,
    Pattern,
}

#[derive(Clone, Copy, ValueEnum)]
enum ClockArg {
    Turn,
    Bio,
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

impl JobArgs {
    /// The same, checked.
    pub fn options(&self) -> Result<JobOptions, JobError> {
        let options = JobOptions {
            name: self.name.clone().unwrap_or_else(|| self.rw.to_string()),
            rw: self.rw,
            block_bytes: self.bs,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            runtime: self.runtime,
            time_based: self.time_based.unwrap_or(false),
            offset: self.offset,
            offset_increment: self.offset_increment,
            size: self.size,
            io_size: self.io_size,
            zonemode: self.zonemode.map(|mode| match mode {
                ZoneModeArg::None => ZoneMode::None,
                ZoneModeArg::Zbd => ZoneMode::Zbd,
            }),
            max_open_zones: self.max_open_zones,
            append: self.append.unwrap_or(false),
            verify: self.verify()?,
            rwmixread: self.rwmixread,
            seed: self.randseed,
            fsync: self.fsync,
            thinktime: self.thinktime.filter(|time| !time.is_zero()).map(|time| (time, self.thinktime_blocks)),
            clock: match self.clock {
                ClockArg::Turn => ClockMode::Turn,
                ClockArg::Bio => ClockMode::Bio,
            },
        };
        if options.time_based && options.runtime.is_none() {
            return Err(JobError("--time_based needs --runtime".into()));
        }
        Ok(options)
    }

    fn verify(&self) -> Result<Option<Verify>, JobError> {
        match (self.verify, &self.verify_pattern) {
            (Some(VerifyArg::Pattern), Some(pattern)) => Ok(Some(Verify::Pattern(parse_pattern(pattern)?))),
            (Some(VerifyArg::Pattern), None) => Err(JobError("--verify=pattern needs --verify_pattern=0x...".into())),
            (_, Some(_)) => Err(JobError("--verify_pattern needs --verify=pattern".into())),
            (Some(VerifyArg::Crc32c), None) => Ok(Some(Verify::Crc32c)),
            (None, None) => Ok(None),
        }
    }
}

fn parse_pattern(text: &str) -> Result<Vec<u8>, JobError> {
    let bad =
        || JobError(format!("--verify_pattern={text} is not an even number of hexadecimal digits, as in 0xdeadbeef"));
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(bad());
    }
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| bad());
    (0..digits.len()).step_by(2).map(byte).collect()
}
