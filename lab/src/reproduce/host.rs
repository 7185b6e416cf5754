//! The machine around the drives: what a command costs its processor, by the path that the command takes.
//!
//! These are the numbers beside the drives' profiles. There is one set for a kernel and one for us, and none for a row: what
//! the publications' machine takes is seen where it is the processor that limits, on null_blk and in the small writes of the
//! old kernel, and no further.

use shingle_core::time::Duration;
use shingle_sim::workload::files::FileOptions;
use shingle_sim::workload::fio;

use super::plan::Host;

/// What one I/O costs in a kernel. Together 5.13 us: the baseline's 4 KiB writes to the ZNS SSD with 16 in flight, 798 MB/s,
/// where the processor is what limits. Half before the drive gets it, half after.
const KERNEL_SUBMIT_NS: u64 = 2_500;
const KERNEL_COMPLETE: Duration = Duration(2_630);
/// What a MiB beyond that costs, to pin the pages of its buffer: the baseline's 1 MiB and 4 KiB columns on null_blk, which moves
/// no data, are 67.2 us and 4.1 us per I/O.
const KERNEL_MIB_NS: u64 = 63_100;

/// What one I/O costs us, where the stack is in the process that submits: twice what a null device shows on the machine
/// that the README names, which has no memory to pin either.
const OUR_SUBMIT: Duration = Duration(250);
const OUR_COMPLETE: Duration = Duration(250);

/// From a completion until a thread that slept runs, on an idle core. With it, both drives' baseline columns of 4 KiB with one
/// in flight are met; they ask for less and for more.
const ROUSE: Duration = Duration(500);
/// What the work item of a zone write plug takes that sends what has waited: it has to wake, and then the job again. The old
/// kernel's way of doing that is in the time per I/O.
const HOP: Duration = Duration(3_000);
/// From the release of a zone's lock in fio until a thread that slept on it has written there.
const WAKE: Duration = Duration::from_micros(50);

/// What one I/O of `block_bytes` costs on this path.
pub fn host(path: Host, block_bytes: u32) -> fio::Host {
    let (submit, complete) = match path {
        Host::Ours => (OUR_SUBMIT, OUR_COMPLETE),
        Host::Locking | Host::Plugging => {
            let more = u64::from(block_bytes.saturating_sub(4096));
            let pages = more * KERNEL_MIB_NS / (1 << 20);
            (Duration(KERNEL_SUBMIT_NS + pages), KERNEL_COMPLETE)
        }
    };
    let hop = if path == Host::Plugging { HOP } else { Duration::ZERO };
    fio::Host { submit, complete, rouse: ROUSE, hop, wake: WAKE }
}

/// The old kernels' SCSI driver emulates appends: it sends one to a zone at a time and puts the others aside. How long until it
/// tries again is what its baseline row on the SMR disk shows, 203 MB/s.
const APPEND_RETRY: Duration = Duration::from_micros(385);

/// btrfs with appends of 128 KiB: 54 us for each, checksums included, are what its baseline row on null_blk shows; the gap, what
/// its baseline row on the ZNS SSD shows. The file system is the same above any of the paths, and far slower than they are.
pub fn files_host(path: Host, emulated: bool) -> FileOptions {
    let by_driver = emulated && path == Host::Locking;
    let host = fio::Host {
        submit: Duration(40_000),
        complete: Duration(14_000),
        rouse: ROUSE,
        hop: Duration::ZERO,
        wake: ROUSE,
    };
    let retry = by_driver.then_some(APPEND_RETRY);
    FileOptions { host, gap: Duration(1_700_000), retry, ..FileOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_costs_a_kernel_more_the_longer_it_is_and_us_the_same() {
        let submit = |path, bytes| host(path, bytes).submit.0;
        assert_eq!(submit(Host::Locking, 1 << 20) - submit(Host::Locking, 1 << 19), KERNEL_MIB_NS / 2);
        assert_eq!(submit(Host::Ours, 1 << 20), submit(Host::Ours, 4096));
    }
}
