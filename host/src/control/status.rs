//! What a daemon serves and does.

use std::collections::BTreeMap;

use shingle_core::block::{DeviceId, Op, Stack};
use shingle_core::plug::{WritePolicy, ZonePlug};
use shingle_core::scheduler::scheduler_of;
use shingle_core::time::Duration;

use super::mapped::figures_of;
use super::plugs::common_policy;
use super::protocol::{Counters, DeviceStatus, ExportStatus, Status, Stuck, Zoned};
use super::{ControlError, paths, power};
use crate::daemon_state::DaemonState;
use crate::devices::Named;
use crate::serve::nbd::most_connections;
use crate::shard::{Shard, StuckBio};

/// Most stuck bios of a shard that are listed.
const MOST_STUCK: usize = 64;
/// Age from which a bio counts as stuck.
const STUCK: Duration = Duration::from_millis(1000);

/// Asks every shard.
pub(crate) fn status(daemon: &DaemonState) -> Result<Status, ControlError> {
    let (mut devices, mut stuck, mut connections, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut stuck_bios = 0;
    let plan = daemon.plan();
    let (disks, tables) = (plan.disks.iter().map(|d| &*d.name), plan.devices.iter().map(|d| &*d.name));
    let order: Vec<&str> = disks.chain(tables).collect();
    for (number, shard) in daemon.shards.iter().enumerate() {
        connections.push(daemon.services.iter().map(|service| service.connections(number)).sum());
        let (named, described, (late, all_late)) = shard.mailbox.ask(move |shard| {
            let named = shard.devices.list();
            // As it was when the disk was opened: its file system may no longer answer.
            let path = |named: &Named| Some(shard.devices.place(named.leaf)?.path.as_ref()?.display().to_string());
            let describe = |named| DeviceStatus { path: path(named), ..describe(shard, number, named) };
            let described: Vec<DeviceStatus> = named.iter().map(describe).collect();
            (named, described, stuck_in(shard, number))
        })?;
        devices.extend(described);
        stuck_bios += all_late;
        stuck.extend(late);
        names.push(named);
    }
    // What was made at run time comes behind what the stack file has.
    devices.sort_by_key(|device| order.iter().position(|name| device.name == *name).unwrap_or(order.len()));
    let users: BTreeMap<String, usize> =
        daemon.exports.used().into_iter().map(|(export, users)| (export.name, users)).collect();
    let exports = daemon.export_health()?.into_iter().map(|(export, health)| {
        let of_it = |named: &&Named| named.device == export.device;
        let device = names[export.shard].iter().find(of_it).map(|named| named.name.clone());
        let path = daemon.place_of(&export.name).map(|path| path.display().to_string());
        let (bytes, read_only) = (export.bytes(), export.is_read_only());
        ExportStatus {
            connections: users.get(&export.name).copied().unwrap_or(0),
            max_connections: most_connections(&export),
            name: export.name,
            device,
            bytes,
            read_only,
            path,
            health: health.name().into(),
            fault: health.fault(),
        }
    });
    let (addresses, places) = (daemon.addresses(), daemon.places());
    Ok(Status {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        uptime_s: daemon.started.elapsed().as_secs(),
        shards: daemon.shards.len(),
        listen: addresses.iter().map(|place| place.address.to_string()).collect(),
        protection: addresses.iter().map(|place| place.protection.clone()).collect(),
        metrics: places.metrics.iter().map(ToString::to_string).collect(),
        web: places.web,
        devices,
        exports: exports.collect(),
        connections,
        stuck,
        stuck_bios,
    })
}

fn describe(shard: &Shard, number: usize, named: &Named) -> DeviceStatus {
    let (stack, mapper) = (&shard.stack, &shard.devices.mapper);
    let limits = stack.limits(named.device);
    let append = ZoneAppend::of(stack, named.device);
    let zoned = limits.zoned.as_ref().map(|zoned| Zoned {
        zones: limits.zones(),
        zone_sectors: zoned.zone_sectors,
        max_open: zoned.max_open,
        max_active: zoned.max_active,
        zone_append: if append.is_emulated { "emulated" } else { "native" }.into(),
        max_append_sectors: zoned.max_append,
        max_hw_append_sectors: append.max_hw_sectors,
    });
    let figures = mapper.figures(&named.name, false, stack).unwrap_or_default();
    let plugs: Vec<&ZonePlug> =
        shard.devices.plugs_of(named, stack).into_iter().filter_map(|(_, plug)| stack.device(plug)).collect();
    let policies: Vec<WritePolicy> = plugs.iter().map(|plug| plug.policy()).collect();
    let health = mapper.health(&named.name, stack);
    DeviceStatus {
        name: named.name.clone(),
        kind: named.kind.into(),
        description: description(shard, named),
        bytes: limits.capacity * 512,
        block_bytes: limits.logical_block_bytes,
        read_only: limits.read_only,
        write_cache: limits.write_cache,
        zoned,
        suspended: stack.is_suspended(named.device),
        health: health.name().into(),
        fault: health.fault(),
        counters: counters(shard, named),
        figures: figures.into_iter().filter(|(_, figures)| !figures.is_empty()).map(|(_, it)| figures_of(it)).collect(),
        policy: (!plugs.is_empty()).then(|| common_policy(&policies)),
        scheduler: named.is_disk().then(|| scheduler_of(stack, named.leaf).name().into()),
        queue_depth: stack.scheduler_depth(named.leaf),
        active_plugs: (!plugs.is_empty()).then(|| plugs.iter().map(|plug| plug.active()).sum()),
        plug_failure: plugs.iter().find_map(|plug| plug.failure()).map(ToString::to_string),
        multipath: paths::status_of(shard, named),
        drive: power::status_of(shard, named),
        shard: number,
        path: None,
    }
}

/// How a zoned device appends.
struct ZoneAppend {
    /// True if a plug, of this device or of one below, makes writes of appends.
    is_emulated: bool,
    /// Longest append of the hardware; `None` if a disk has none.
    max_hw_sectors: Option<u32>,
}

impl ZoneAppend {
    fn of(stack: &Stack, id: DeviceId) -> Self {
        let max_hw_sectors = stack.limits(id).zoned.as_ref().and_then(|zoned| zoned.max_append);
        let own = Self { is_emulated: max_hw_sectors.is_none(), max_hw_sectors };
        let below = stack.below(id).iter().filter(|below| stack.limits(**below).zoned.is_some());
        let below = below.map(|below| Self::of(stack, *below)).reduce(|a, b| Self {
            is_emulated: a.is_emulated || b.is_emulated,
            max_hw_sectors: a.max_hw_sectors.zip(b.max_hw_sectors).map(|(a, b)| a.min(b)),
        });
        let Some(below) = below else { return own };
        let emulates = stack.device::<ZonePlug>(id).is_some_and(ZonePlug::emulates_append);
        Self { is_emulated: emulates || below.is_emulated, ..below }
    }
}

/// The table of a mapped device, in one line; what others say of themselves.
fn description(shard: &Shard, named: &Named) -> String {
    if let Ok(table) = shard.devices.mapper.table(&named.name, false, false, &shard.stack) {
        return table.trim_end().replace('\n', "; ");
    }
    let mut description = String::new();
    // Writing to a string does not fail.
    let _ = shard.stack.describe(named.leaf, &mut description);
    description
}

fn counters(shard: &Shard, named: &Named) -> Counters {
    let counters = shard.stack.counters(named.device);
    let by_op = |numbers: &[u64; Op::COUNT]| -> BTreeMap<String, u64> {
        let used = Op::ALL.into_iter().filter(|op| numbers[*op as usize] > 0);
        used.map(|op| (op.name().to_ascii_lowercase(), numbers[op as usize])).collect()
    };
    Counters {
        ios: by_op(&counters.ios),
        sectors: by_op(&counters.sectors),
        errors: counters.errors.iter().sum(),
        merges: counters.merges,
        in_flight: counters.in_flight,
    }
}

/// Those that are stuck for longest, and how many are in all.
fn stuck_in(shard: &Shard, number: usize) -> (Vec<Stuck>, usize) {
    let bios = shard.stuck(STUCK);
    let show = |stuck: &StuckBio| Stuck {
        device: shard.devices.label(stuck.device),
        age_ms: stuck.age.as_nanos() / 1_000_000,
        bio: stuck.bio.clone(),
        shard: number,
    };
    (bios.iter().take(MOST_STUCK).map(show).collect(), bios.len())
}
