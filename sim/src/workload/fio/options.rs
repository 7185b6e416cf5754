//! What is asked of a run, in fio's words where it has some.

use shingle_core::time::Duration;

/// Where writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Zone after zone (`rw=write`). Several jobs share the region in equal parts.
    Sequential,
    /// A random zone for each I/O (`rw=randwrite`).
    RandomZones,
}

/// The time that a job's thread and the kernel on its behalf take: it belongs to the machine, not to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// To prepare and submit one I/O, before the disk gets it.
    pub submit: Duration,
    /// To take one finished I/O back.
    pub complete: Duration,
    /// In addition, if the thread slept until an I/O was done.
    pub rouse: Duration,
    /// In addition, for each command after which more I/Os of the job are waiting: another thread, which sends the next one,
    /// takes the processor away for so long (the work item of Linux's zone write plugs).
    pub hop: Duration,
    /// From the release of a lock until a thread that slept on it runs.
    pub wake: Duration,
}

/// A run. Several jobs are alike.
#[derive(Clone, Debug)]
pub struct FioOptions {
    /// Where writes go.
    pub pattern: Pattern,
    /// Length of an I/O in sectors (`bs`).
    pub block_sectors: u32,
    /// I/Os that a job keeps in flight (`iodepth`).
    pub iodepth: u32,
    /// Jobs (`numjobs`).
    pub jobs: u32,
    /// The first zone of the region among the sequential zones of the device; conventional zones are not counted.
    pub first_zone: u32,
    /// Zones in the region; `None`: to the end of the device.
    pub zones: Option<u32>,
    /// Most zones that are written at once (`max_open_zones`); `None`: no limit.
    pub max_open_zones: Option<u32>,
    /// Of 100 I/Os, how many read something that was written (`rwmixread`).
    pub read_percent: u32,
    /// Whether writes are zone appends.
    pub append: bool,
    /// Time before anything is counted (`ramp_time`).
    pub ramp: Duration,
    /// Time that is counted (`runtime`).
    pub runtime: Duration,
    /// The machine.
    pub host: Host,
    /// Seed of all choices.
    pub seed: u64,
}

impl Default for FioOptions {
    fn default() -> Self {
        Self {
            pattern: Pattern::Sequential,
            block_sectors: 2048,
            iodepth: 1,
            jobs: 1,
            first_zone: 0,
            zones: None,
            max_open_zones: None,
            read_percent: 0,
            append: false,
            ramp: Duration::ZERO,
            runtime: Duration::from_millis(60_000),
            host: Host::default(),
            seed: 1,
        }
    }
}
