//! The machine of the publications: what a command costs its processor, by the path that the command takes.
//!
//! These are the numbers beside the drives' profiles, and they are few: one per path, none per row.

use shingle_core::sim::workload::fio;
use shingle_core::time::Duration;

use super::plan::Host;

/// From the release of a lock until a thread that slept on it runs. Calibrated on qd1-random-zones, column baseline, two
/// zones: with less, jobs that wait for a zone get into it before the disk has left it.
const WAKE: Duration = Duration::from_micros(50);

/// What one I/O of `block_bytes` costs on this path.
///
/// The time per I/O was calibrated on the baseline's 4 KiB column of the ZNS SSD with 16 in flight, where the processor is what
/// limits; the time per byte, to pin the pages of a buffer, is the difference between the baseline's 4 KiB and 1 MiB columns
/// on null_blk, which moves no data: 67.2 us - 4.1 us per MiB.
pub fn host(path: Host, block_bytes: u32) -> fio::Host {
    let per_io = match path {
        Host::LockingScheduler | Host::Scheduler => 5_130,
        Host::NoScheduler => 5_130,
    };
    let pages = u64::from(block_bytes) * 63_100 / (1 << 20);
    fio::Host {
        submit: Duration(2_500 + pages),
        complete: Duration(per_io - 2_500),
        rouse: Duration(1_500),
        wake: WAKE,
    }
}
