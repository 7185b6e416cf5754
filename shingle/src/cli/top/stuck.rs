//! What waits or cannot go on, and where.

use std::collections::BTreeMap;
use std::time::Duration;

use shingle_host::control::protocol::DeviceStatus;

use super::sample::Pair;
use super::text::{count, time};

/// Most that are listed of the zones of a disk in which writes wait.
const MOST_ZONES: usize = 8;
/// Most that are listed at all.
const MOST: usize = 1000;
/// Half of the answers of a drive are as late: the machine does not keep up.
const LATE: u64 = 1_000_000;
/// One in a hundred is as late.
const VERY_LATE: u64 = 20_000_000;

/// Something that waits or cannot go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// Since when, if the daemon knows; else what has been seen counts.
    pub age: Option<Duration>,
    pub device: String,
    pub what: &'static str,
    pub detail: String,
}

/// How long each has been seen, by device and what it is.
#[derive(Clone, Debug, Default)]
pub struct Seen(BTreeMap<(String, String), (Duration, bool)>);

impl Seen {
    /// Notes what is there now; what is gone is forgotten.
    pub fn note(&mut self, troubles: &[Trouble], at: Duration, is_first: bool) {
        let known = |trouble: &Trouble| {
            let key = (trouble.device.clone(), format!("{} {}", trouble.what, trouble.key()));
            let since = self.0.get(&key).copied().unwrap_or((at, is_first));
            (key, since)
        };
        self.0 = troubles.iter().map(known).collect();
    }

    /// For how long, and whether it may have been longer.
    pub fn age(&self, trouble: &Trouble, at: Duration) -> (Duration, bool) {
        let key = (trouble.device.clone(), format!("{} {}", trouble.what, trouble.key()));
        let (since, is_more) = self.0.get(&key).copied().unwrap_or((at, true));
        trouble.age.map_or((at.saturating_sub(since), is_more), |age| (age, false))
    }
}

impl Trouble {
    /// What tells it from others of its device: the path or zone that stands first.
    fn key(&self) -> &str {
        self.detail.split(':').next().unwrap_or_default()
    }
}

/// All of them: first what the daemon knows to have waited, the longest first, then what stands still, then what may.
pub fn troubles(pair: Pair<'_>) -> Vec<Trouble> {
    let mut all = stuck_bios(pair);
    let devices = &pair.now.status.devices;
    for of in [stands_still, paths_down, volumes, zones_wait, drives_late, zones_lost] {
        all.extend(devices.iter().flat_map(|device| of(pair, device)));
    }
    for export in pair.now.status.exports.iter().filter(|export| export.device.is_none()) {
        let detail = "the device behind this export was removed".into();
        all.push(Trouble { age: None, device: format!("\"{}\"", export.name), what: "no device", detail });
    }
    all.truncate(MOST);
    all
}

/// Those of a device are one: they have hardly more than one cause.
fn stuck_bios(pair: Pair<'_>) -> Vec<Trouble> {
    let mut of: BTreeMap<&str, (u64, &str, usize)> = BTreeMap::new();
    for stuck in &pair.now.status.stuck {
        let (age, bio, count) = of.entry(&stuck.device).or_default();
        if *count == 0 || stuck.age_ms > *age {
            (*age, *bio) = (stuck.age_ms, &stuck.bio);
        }
        *count += 1;
    }
    let trouble = |(device, (age_ms, bio, count)): (&str, (u64, &str, usize))| {
        let age = Some(Duration::from_millis(age_ms));
        let detail = format!("{count} waiting, the oldest: {bio}");
        Trouble { age, device: device.into(), what: "stuck I/O", detail }
    };
    let mut all: Vec<Trouble> = of.into_iter().map(trouble).collect();
    all.sort_by_key(|stuck| std::cmp::Reverse(stuck.age));
    all
}

/// Those that hold, as troubles of a device.
fn those<const N: usize>(device: &DeviceStatus, all: [(bool, &'static str, String); N]) -> Vec<Trouble> {
    let some = all.into_iter().filter(|(holds, ..)| *holds);
    some.map(|(_, what, detail)| Trouble { age: None, device: device.name.clone(), what, detail }).collect()
}

fn stands_still(_: Pair<'_>, device: &DeviceStatus) -> Vec<Trouble> {
    let is_off = device.drive.as_ref().is_some_and(|drive| drive.power == "off");
    let failure = device.plug_failure.clone().unwrap_or_default();
    those(
        device,
        [
            (is_off, "no power", "it fails all I/O until `shingle power on`".into()),
            (device.suspended, "suspended", "I/O waits at its door for `shingle dm resume`".into()),
            (device.plug_failure.is_some(), "plug failed", format!("it refuses writes: {failure}")),
            (device.health == "loading", "volume", "is loading".into()),
            (device.fault.is_some(), "volume", device.fault.clone().unwrap_or_default()),
        ],
    )
}

fn paths_down(_: Pair<'_>, device: &DeviceStatus) -> Vec<Trouble> {
    let Some(head) = &device.multipath else { return Vec::new() };
    let down = head.paths.iter().filter(|path| !path.usable);
    let mut all: Vec<Trouble> = down
        .map(|path| {
            let detail = format!("{}: {}, {}; failed {} times", path.path, path.health, path.state, path.failures);
            Trouble { age: None, device: device.name.clone(), what: "path down", detail }
        })
        .collect();
    all.extend(those(device, [(head.waiting > 0, "no path", format!("{} I/Os are on no path", head.waiting))]));
    all
}

/// Volumes whose writes wait for space.
fn volumes(_: Pair<'_>, device: &DeviceStatus) -> Vec<Trouble> {
    let of = |figures: &shingle_host::control::protocol::Figures| {
        let word = |name: &str| figures.get(name).and_then(|word| word.as_str()).unwrap_or_default().to_owned();
        let waiting = figures.get("waiting_writes").and_then(serde_json::Value::as_u64).unwrap_or_default();
        let cleaning = word("cleaning") + &word("reclaim");
        let is_short = waiting > 0 && ["urgent", "emergency"].contains(&cleaning.as_str());
        those(device, [(is_short, "no free zone", format!("{waiting} writes wait for cleaning, which is {cleaning}"))])
    };
    device.figures.iter().flat_map(of).collect()
}

fn zones_wait(pair: Pair<'_>, device: &DeviceStatus) -> Vec<Trouble> {
    let Some(plugs) = pair.now.plugs.get(&device.name) else { return Vec::new() };
    let mut waiting: Vec<_> = plugs.plugs.iter().filter(|plug| plug.pending > 0).collect();
    waiting.sort_by_key(|plug| std::cmp::Reverse(plug.pending));
    let more = waiting.len().saturating_sub(MOST_ZONES);
    let longest = time(plugs.longest_wait_ns);
    let mut all: Vec<Trouble> = waiting
        .iter()
        .take(MOST_ZONES)
        .map(|plug| {
            let detail = format!("zone {}: {} writes in line; longest so far {longest}", plug.zone, plug.pending);
            Trouble { age: None, device: device.name.clone(), what: "plugged", detail }
        })
        .collect();
    all.extend(those(device, [(more > 0, "plugged", format!("{more} more zones in which writes are in line"))]));
    all
}

fn drives_late(pair: Pair<'_>, device: &DeviceStatus) -> Vec<Trouble> {
    let lateness =
        |sample: &super::sample::Sample| sample.counts.disks.get(&device.name).map(|disk| disk.lateness.clone());
    let Some((now, before)) = lateness(pair.now).zip(pair.before.and_then(lateness)) else { return Vec::new() };
    let since = now.since(&before);
    let Some((p50, p99)) = since.percentile(0.5).zip(since.percentile(0.99)) else { return Vec::new() };
    let detail = format!("p50 {}, p99 {}: this machine is too slow", time(p50), time(p99));
    those(device, [(p50 >= LATE || p99 >= VERY_LATE, "late drive", detail)])
}

fn zones_lost(pair: Pair<'_>, device: &DeviceStatus) -> Vec<Trouble> {
    let Some(disk) = pair.now.counts.disks.get(&device.name) else { return Vec::new() };
    let (read_only, offline) = (disk.read_only_zones, disk.offline_zones);
    those(
        device,
        [
            (offline > 0, "offline zones", format!("{} that can be neither read nor written", count(offline as f64))),
            (read_only > 0, "read-only zones", format!("{} that can only be read", count(read_only as f64))),
        ],
    )
}
