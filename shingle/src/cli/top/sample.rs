//! What a daemon said at a moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use shingle_host::control::protocol::{DeviceStatus, Plugs, Status};

use super::counts::{Counts, Totals};

/// What lies below each mapped device.
pub type Below = Arc<BTreeMap<String, Vec<String>>>;

/// What a daemon said at a moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When, since the start of the program.
    pub at: Duration,
    /// How long it took to ask.
    pub took: Duration,
    /// What it serves and does.
    pub status: Status,
    /// What only its metrics have.
    pub counts: Counts,
    pub below: Below,
    /// The plugs of the disks with most busy zones, while what is stuck is shown.
    pub plugs: BTreeMap<String, Plugs>,
    /// Where in the list each device is.
    places: BTreeMap<String, usize>,
}

/// Two samples of one run of a daemon.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    pub now: &'a Sample,
    /// The one before; `None` if counters have begun anew since.
    pub before: Option<&'a Sample>,
}

impl<'a> Pair<'a> {
    /// The time between the two. So short a one that rates would mean nothing is none.
    pub fn seconds(self) -> Option<f64> {
        let before = self.before?;
        let seconds = self.now.at.checked_sub(before.at)?.as_secs_f64();
        (seconds >= 0.01).then_some(seconds)
    }

    /// What a device was the last time.
    pub fn device_before(self, name: &str) -> Option<&'a DeviceStatus> {
        self.before?.device(name)
    }
}

impl Sample {
    /// What was said at `at` after so long.
    pub fn new((at, took): (Duration, Duration), status: Status, counts: Counts, below: Below) -> Self {
        let places = status.devices.iter().enumerate().map(|(place, device)| (device.name.clone(), place)).collect();
        Self { at, took, status, counts, below, plugs: BTreeMap::new(), places }
    }

    /// Whether the daemon has not started again between `before` and this.
    pub fn continues(&self, before: &Sample) -> bool {
        let (then, now) = (&before.status, &self.status);
        // In containers the process number is the same again; the time that it has been up is not.
        let up = Duration::from_secs(now.uptime_s).checked_sub(Duration::from_secs(then.uptime_s));
        let passed = self.at.saturating_sub(before.at);
        let tolerance = Duration::from_secs(2) + self.took + before.took;
        then.pid == now.pid && up.is_some_and(|up| up.abs_diff(passed) <= tolerance)
    }

    /// A device by its name.
    pub fn device(&self, name: &str) -> Option<&DeviceStatus> {
        self.places.get(name).map(|place| &self.status.devices[*place])
    }

    /// What lies below a device, by name: of a mapped device what its table has, of one with several paths these.
    pub fn children(&self, device: &DeviceStatus) -> Vec<String> {
        let paths = device.multipath.iter().flat_map(|head| head.paths.iter().map(|path| path.path.clone()));
        let mapped = self.below.get(&device.name).cloned().unwrap_or_default();
        paths.chain(mapped).collect()
    }

    /// What a device has done.
    pub fn totals(&self, device: &DeviceStatus) -> Totals {
        let of =
            |numbers: &BTreeMap<String, u64>, names: &[&str]| names.iter().filter_map(|name| numbers.get(*name)).sum();
        let writes = ["write", "zone_append", "write_zeroes"];
        let counters = &device.counters;
        let disk = self.counts.disks.get(&device.name);
        Totals {
            reads: of(&counters.ios, &["read"]),
            read_bytes: of(&counters.sectors, &["read"]).saturating_mul(512),
            writes: of(&counters.ios, &writes),
            write_bytes: of(&counters.sectors, &writes).saturating_mul(512),
            errors: counters.errors,
            latency: disk.map(|disk| disk.latency.clone()).unwrap_or_default(),
        }
    }
}
