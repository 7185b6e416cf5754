//! All families of metrics.

use super::figures::FIGURES;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the daemon starts again or what it belongs to is made anew.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of values up to bounds.
    Histogram,
}

impl Kind {
    /// Its name in OpenMetrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ["counter", "gauge", "histogram"][self as usize]
    }
}

/// Metrics of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Without `shingle_` in front, and without the `_total` that samples of a counter end in.
    pub name: &'static str,
    /// What they are.
    pub kind: Kind,
    /// What tells them apart.
    pub labels: &'static [&'static str],
    /// What they mean, in a line.
    pub help: &'static str,
}

impl Family {
    /// What its samples are called, behind `shingle_`; those of a histogram have further ends.
    #[must_use]
    pub fn sample(&self) -> String {
        let end = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{end}", self.name)
    }
}

/// A family of the table.
pub(super) const fn family(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind, labels, help }
}

use Kind::{Counter, Gauge, Histogram};

const DEVICE: &[&str] = &["device"];
const OF_OP: &[&str] = &["device", "op"];
const PATH: &[&str] = &["device", "path"];
const WINDOW: &[&str] = &["device", "path", "node", "kind"];
const EXPORT: &[&str] = &["export"];

/// Those that are not figures of targets.
#[rustfmt::skip]
const OWN: &[Family] = &[
    family("build_info", Gauge, &["version"], "1; the version of the program"),
    family("uptime_seconds", Gauge, &[], "For how long the daemon has been running"),
    family("connections", Gauge, &["shard"], "Connections that live on a shard"),
    family("stuck_bios", Gauge, &["shard"], "Bios that have waited for a second or longer"),
    family("export_info", Gauge, &["export", "device"], "1; which device an export is of"),
    family("export_health", Gauge, &["export", "health"], "1 for the health of an export and of all below: ok, loading, read-only or failed"),
    family("export_clients", Gauge, EXPORT, "Clients that use an export; a block device of this machine is one"),
    family("export_operations", Counter, &["export", "op"], "Requests that clients were answered"),
    family("export_bytes", Counter, &["export", "op"], "Bytes of them"),
    family("export_errors", Counter, &["export", "status"], "Requests that failed"),
    family("export_latency_seconds", Histogram, &["export", "work"], "From when the stack got a request of a client until it was done"),
    family("device_info", Gauge, &["device", "kind", "shard"], "1; what a device is, and whose"),
    family("device_size_bytes", Gauge, DEVICE, "Its size"),
    family("device_suspended", Gauge, DEVICE, "1 while I/O waits at its door"),
    family("device_operations", Counter, OF_OP, "Bios that came to a device"),
    family("device_bytes", Counter, OF_OP, "Bytes of them"),
    family("device_errors", Counter, &["device", "status"], "Bios that ended in it with a failure"),
    family("device_merges", Counter, DEVICE, "Bios that it did as part of another"),
    family("device_in_flight", Gauge, DEVICE, "Bios that it has now"),
    family("disk_latency_seconds", Histogram, &["device", "work"], "From when a disk got a bio, behind its plug, until it was done"),
    family("zones", Gauge, &["device", "condition"], "Zones by their condition; of a `zoned-blk` disk as it said when it was last asked"),
    family("zones_open", Gauge, DEVICE, "Zones that are open; the same"),
    family("zones_active", Gauge, DEVICE, "Zones that are open or closed; the same"),
    family("zones_age_seconds", Gauge, DEVICE, "How long ago a `zoned-blk` disk was asked that"),
    family("zones_max_open", Gauge, DEVICE, "How many may be open, if that is limited"),
    family("zones_max_active", Gauge, DEVICE, "How many may be active, if that is limited"),
    family("plug_busy_zones", Gauge, DEVICE, "Zones with a command in flight, or in line"),
    family("plug_longest_wait_seconds", Gauge, DEVICE, "The longest that a write has waited in the plug"),
    family("plug_failed", Gauge, DEVICE, "1 if the plug refuses writes"),
    family("path_usable", Gauge, PATH, "1 if a path takes I/O"),
    family("path_state", Gauge, &["device", "path", "state"], "1 for what a path is to the disk"),
    family("path_in_flight", Gauge, PATH, "Bios that are on a path"),
    family("path_operations", Counter, PATH, "Bios that were sent on a path; the shares are their rates"),
    family("path_busy_seconds", Counter, PATH, "Time that the bios took which a path has done, added up"),
    family("path_done", Counter, PATH, "Bios that a path has done"),
    family("path_failovers", Counter, PATH, "Bios that a path failed and another one got"),
    family("path_retries", Counter, PATH, "Bios that a path got again"),
    family("path_errors", Counter, PATH, "Errors of the disk that came over a path"),
    family("path_failures", Counter, PATH, "Times that a path failed"),
    family("path_window_latency_seconds", Gauge, WINDOW, "Latency of a path at the end of the last window of `latency` or `adaptive`, by NUMA node of the shard and kind of I/O"),
    family("path_window_samples", Gauge, WINDOW, "Samples of that window"),
    family("path_weight", Gauge, WINDOW, "I/Os in a row that `adaptive` gives to a path"),
    family("drive_power", Gauge, DEVICE, "1 while a simulated drive has power, 0 while it has none"),
    family("drive_power_cuts", Counter, DEVICE, "Times that it has lost it"),
    family("drive_memory_bytes", Gauge, DEVICE, "Memory that its data takes"),
    family("drive_lateness_seconds", Histogram, DEVICE, "How much later it has answered than the drive that it simulates: much of it, and the machine does not keep up"),
    family("paths_waiting", Gauge, DEVICE, "Bios that are on no path now"),
];

/// All families, in the order of the text.
pub static FAMILIES: std::sync::LazyLock<Vec<Family>> = std::sync::LazyLock::new(|| {
    let figures = FIGURES.iter().flat_map(|of_target| of_target.rows.iter().map(|row| row.family));
    OWN.iter().copied().chain(figures).collect()
});
