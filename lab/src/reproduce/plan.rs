//! What has to run so that a cell of ours can stand beside each published one.
//!
//! A cell is one load on one device under one system. The system of a published row is a kernel with a scheduler; here it is
//! a write policy, and what such a kernel costs the host per command. No cell has parameters of its own: [`Experiment`] is all
//! that a runner is told, and equal experiments run once.

use serde::{Deserialize, Serialize};
use shingle_core::plug::{PlugOptions, WritePolicy};
use shingle_core::scheduler::{SchedulerKind, SchedulerOptions};

use super::Publication;
use super::published::{Figure, SCHEMAS, Schema, Unit};

/// The device of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The null device, on this machine and by its clock.
    Null,
    /// The ZNS SSD of 1 TB.
    Zns,
    /// The SMR disk of 26 TB.
    Smr26,
    /// The SMR disk of 30 TB; at AHCI, or at an adapter that takes commands of 1 MiB at most.
    Smr30 {
        /// Whether commands end at 1 MiB.
        one_mib: bool,
    },
    /// The SMR disk of 30 TB at AHCI with its write cache disabled.
    Smr30WriteThrough {
        /// True if the disk has its non-volatile cache.
        non_volatile_cache: bool,
    },
    /// The SMR disk of 30 TB behind a network with a round trip of 10 ms.
    Smr30Remote,
}

impl Device {
    /// Commands that the device takes at a time: null_blk's `hw_queue_depth`, a queue of an NVMe controller in Linux, NCQ.
    const fn queue_depth(self) -> u32 {
        match self {
            Device::Null => 64,
            Device::Zns => 1023,
            Device::Smr26 | Device::Smr30 { .. } | Device::Smr30WriteThrough { .. } | Device::Smr30Remote => 32,
        }
    }
}

/// How writes are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Zone write locking, as Linux had it until 6.9.
    ZoneLock,
    /// The same in the development kernel that had lost the merging of queued writes.
    ZoneLockUnmerged,
    /// Zone write plugging without a scheduler below it.
    Plug,
    /// Zone write plugging above the scheduler `mq-deadline`.
    PlugMqDeadline,
    /// One write at a time for the whole disk.
    Qd1,
    /// Our own.
    Elevator,
}

impl Policy {
    /// The name under which it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::ZoneLock => "zone-lock",
            Policy::ZoneLockUnmerged => "zone-lock without merging",
            Policy::Plug => "plug",
            Policy::PlugMqDeadline => "plug, mq-deadline",
            Policy::Qd1 => "qd1",
            Policy::Elevator => "elevator",
        }
    }

    /// How a plug is told.
    pub fn options(self) -> PlugOptions {
        let options = PlugOptions::default();
        let policy = match self {
            Policy::ZoneLock => WritePolicy::ZoneLock,
            Policy::ZoneLockUnmerged => {
                return PlugOptions { policy: WritePolicy::ZoneLock, max_segments: 1, ..options };
            }
            Policy::Plug | Policy::PlugMqDeadline => WritePolicy::Plug,
            Policy::Qd1 => WritePolicy::Qd1,
            Policy::Elevator => WritePolicy::Elevator,
        };
        PlugOptions { policy, ..options }
    }

    /// Scheduler below the plug, with the queue depth of `device`. Zone write locking is part of a scheduler itself.
    pub fn scheduler(self, device: Device) -> SchedulerOptions {
        let kind = if self == Policy::PlugMqDeadline { SchedulerKind::MqDeadline } else { SchedulerKind::None };
        SchedulerOptions { kind, queue_depth: device.queue_depth(), ..SchedulerOptions::default() }
    }
}

/// Whose path a command takes from the submitter to the device: each costs the host another time per command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A kernel with zone write locking in its scheduler.
    Locking,
    /// A kernel with zone write plugging. Whether a scheduler is below makes no difference that a row of the old kernel tells.
    Plugging,
    /// Ours: the stack is in the process that submits.
    Ours,
}

/// What is asked of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Load {
    /// One job writes zone after zone.
    Sequential {
        /// Bytes of one write.
        block_bytes: u32,
        /// Writes in flight.
        depth: u32,
    },
    /// Each block goes to the write pointer of a zone drawn at random.
    RandomZones {
        /// Bytes of one write.
        block_bytes: u32,
        /// Writes in flight of each job.
        depth: u32,
    },
    /// 16 jobs with 32 writes of 1 MiB in flight each, to this many randomly chosen zones together.
    SharedZones {
        /// Zones that are written at a time.
        zones: u32,
    },
    /// btrfs writes files of 128 MB with zone appends of 128 KiB, 16 in flight.
    AppendFiles {
        /// Whether the plug does the appends, as writes; else the device.
        emulated: bool,
    },
    /// XFS writes back files of eight jobs, of sizes drawn between these.
    BufferedFiles {
        /// Least size in MiB.
        least_mib: u32,
        /// Greatest size in MiB.
        most_mib: u32,
    },
}

/// What a runner is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Experiment {
    /// On which device.
    pub device: Device,
    /// Under which policy.
    pub policy: Policy,
    /// At whose cost per command.
    pub host: Host,
    /// Doing what.
    pub load: Load,
}

shingle_core::named_enum! {
    /// What a figure of ours is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Class {
        /// A model's, for a row on which its parameters were calibrated.
        Calibrated => "calibrated",
        /// A model's, for a row that it has not seen.
        Predicted => "predicted",
        /// Taken on this machine.
        Measured => "measured",
        /// Of a policy that nobody published figures of.
        Own => "own",
    }

    /// The name on pages and in tables.
    fn name(self) -> &'static str;
}

impl Class {
    /// How far from the published figure is near enough, as a share of it. Other machines than ours have other figures.
    pub const fn tolerance(self) -> Option<f64> {
        match self {
            Class::Calibrated => Some(0.05),
            Class::Predicted => Some(0.10),
            Class::Measured | Class::Own => None,
        }
    }
}

shingle_core::impl_display!(Class, |self, f| f.pad(self.name()));

/// A published figure, or the place beside published ones where ours goes; `O` says how ours is found, and then what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell<O = Experiment> {
    /// The row of the published table; empty beside it.
    pub row: String,
    /// The column of the published table; empty beside it.
    pub column: String,
    /// The device, where a table has several.
    pub group: String,
    /// The load, as readers say it.
    pub load: String,
    /// Kernel and scheduler, or our policy.
    pub system: String,
    /// The policy that runs; of reads, what lies between job and disk.
    pub policy: String,
    /// What the figures count.
    pub unit: Unit,
    /// What ours is.
    pub class: Class,
    /// Whether the other systems under this load are compared with this one.
    pub is_baseline: bool,
    /// The load under which the baseline ran that this is compared with.
    pub against: String,
    /// Whether a model runs, and not this machine.
    pub simulated: bool,
    /// The published figure.
    pub published: Option<f64>,
    /// Ours.
    pub ours: O,
    /// Of our own policy: what the faster of `plug` and `qd1` reaches in its place, at the same cost per command.
    pub rival: Option<f64>,
}

impl<O> Cell<O> {
    /// The cell with what came out for it and for the faster of its rivals.
    pub fn with<P>(&self, ours: P, rival: Option<f64>) -> Cell<P>
    where
        O: Clone,
    {
        let Self { row, column, group, load, system, policy, unit, class, is_baseline, against, .. } = self.clone();
        let Self { simulated, published, .. } = *self;
        Cell {
            row,
            column,
            group,
            load,
            system,
            policy,
            unit,
            class,
            is_baseline,
            against,
            simulated,
            published,
            ours,
            rival,
        }
    }

    /// Its name, as it is shown and filtered.
    pub fn name(&self, table: &str) -> String {
        let parts = [table, &self.group, &self.load, &self.system];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" / ")
    }
}

/// A table with the cells that belong to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table<O = Experiment> {
    /// The name of the published table.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// What the numbers along its x-axis are, if its loads differ in a number.
    pub axis: Option<String>,
    /// Where it was published, and what was measured.
    pub source: String,
    /// The cells, load by load.
    pub cells: Vec<Cell<O>>,
}

/// All tables of a publication about writes to zones; the others have plans of their own.
pub fn plan(publication: Publication) -> Result<Vec<Table>, String> {
    let writes_to_zones = matches!(publication, Publication::Zwp | Publication::Qd1);
    let wanted = |schema: &&Schema| writes_to_zones && Publication::of_table(schema.name) == publication;
    let published = SCHEMAS.iter().filter(wanted).map(plan_table);
    let own = (publication == Publication::Qd1).then(|| Ok(write_cache_table()));
    published.chain(own).collect()
}

/// What was published about it. There are no figures.
const WRITE_CACHE_SOURCE: &str = "The same mail says, without figures, that nothing is lost when the write cache of the disk is \
                                  disabled, thanks to the way modern SMR disks handle writes.\n\
                                  The model takes that for a non-volatile cache.";

/// The disk of the second publication with its write cache enabled, disabled with and without a non-volatile cache, and remote.
fn write_cache_table() -> Table {
    let devices = [
        ("write cache enabled", Device::Smr30 { one_mib: false }),
        ("disabled, non-volatile cache", Device::Smr30WriteThrough { non_volatile_cache: true }),
        ("disabled, no non-volatile cache", Device::Smr30WriteThrough { non_volatile_cache: false }),
        ("enabled, 10 ms away", Device::Smr30Remote),
    ];
    let sequential = |depth| Load::Sequential { block_bytes: 1 << 20, depth };
    let loads = [
        ("sequential, 1 in flight", sequential(1)),
        ("sequential, 32 in flight", sequential(32)),
        ("16 random zones", Load::SharedZones { zones: 16 }),
        ("128 random zones", Load::SharedZones { zones: 128 }),
    ];
    let cell = |group: &str, load: (&str, Load), system: &str, experiment: Experiment| Cell {
        row: String::new(),
        column: String::new(),
        group: group.to_owned(),
        load: load.0.to_owned(),
        system: system.to_owned(),
        policy: experiment.policy.name().to_owned(),
        unit: Unit::MegabytesPerSecond,
        class: Class::Own,
        is_baseline: system == "baseline",
        against: load.0.to_owned(),
        simulated: true,
        published: None,
        ours: experiment,
        rival: None,
    };
    let mut cells = Vec::new();
    for (group, device) in devices {
        for load in loads {
            for (system, policy) in [("baseline", Policy::Plug), ("patched", Policy::Qd1)] {
                cells.push(cell(group, load, system, Experiment::new(device, policy, Host::Plugging, load.1)));
            }
        }
    }
    Table {
        name: "qd1-write-cache".to_owned(),
        title: "Write cache disabled, on disks with and without a non-volatile cache; a remote disk".to_owned(),
        axis: None,
        source: WRITE_CACHE_SOURCE.to_owned(),
        cells: by_load(cells),
    }
}

fn plan_table(schema: &'static Schema) -> Result<Table, String> {
    let (about, cell): (_, fn(&Figure) -> Option<Cell>) = match schema.name {
        "zwp-devices" => (("Kernels, schedulers and devices", None), devices_cell),
        "zwp-append-btrfs" => (("btrfs with zone append", None), append_cell),
        "qd1-sequential" => (("Sequential writing by queue depth", Some("queue depth")), depth_cell),
        "qd1-random-zones" => (("Randomly chosen zones", Some("zones written at a time")), zones_cell),
        _ => (("XFS, buffered files", None), files_cell),
    };
    let table = published_table(schema, about, cell)?;
    Ok(Table { cells: by_load(table.cells), ..table })
}

/// The table of `schema`, titled and with an axis as `about` says, with a cell for each published figure.
pub(super) fn published_table<O>(
    schema: &'static Schema,
    (title, axis): (&'static str, Option<&'static str>),
    cell: impl Fn(&Figure) -> Option<Cell<O>>,
) -> Result<Table<O>, String> {
    let published = schema.read()?;
    let of_figure = |figure: &Figure| {
        let (row, column) = (figure.keys.join(","), figure.column);
        let unknown = || format!("{}.csv: nothing is known about row `{row}`, column `{column}`", schema.name);
        cell(figure).ok_or_else(unknown)
    };
    let cells = published.figures.iter().map(of_figure).collect::<Result<_, _>>()?;
    let (title, axis) = (title.to_owned(), axis.map(str::to_owned));
    Ok(Table { name: schema.name.to_owned(), title, axis, source: published.source, cells })
}

/// Puts cells of one load beside each other, ours last, loads in the order of their first cell.
fn by_load(mut cells: Vec<Cell>) -> Vec<Cell> {
    let mut places: Vec<(String, String)> = Vec::new();
    for cell in &cells {
        let place = (cell.group.clone(), cell.load.clone());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    // Devices in their order first, and within one the loads.
    let groups: Vec<&String> = places.iter().map(|(group, _)| group).collect();
    let rank = |cell: &Cell| {
        let group = groups.iter().position(|group| **group == cell.group);
        (group, places.iter().position(|(group, load)| *group == cell.group && *load == cell.load))
    };
    let mut beside: Vec<Cell> = Vec::new();
    for (group, load) in &places {
        let published = cells.iter().find(|cell| cell.group == *group && cell.load == *load);
        beside.extend(published.into_iter().flat_map(cells_beside));
    }
    cells.extend(beside);
    cells.sort_by_key(rank);
    cells
}

/// The cells of policies that nobody published figures of: our own, and on the null device, where no model has to be
/// believed, the remaining one too.
fn cells_beside(published: &Cell) -> Vec<Cell> {
    let policies: &[Policy] = match published.ours.device {
        Device::Null => &[Policy::Qd1, Policy::Elevator],
        _ => &[Policy::Elevator],
    };
    let cell = |policy: &Policy| Cell {
        row: String::new(),
        column: String::new(),
        system: policy.name().to_owned(),
        policy: policy.name().to_owned(),
        published: None,
        class: Class::Own,
        is_baseline: false,
        ours: Experiment { policy: *policy, host: Host::Ours, ..published.ours },
        ..published.clone()
    };
    policies.iter().map(cell).collect()
}

/// The systems of the first publication, in its words.
fn zwp_system(kernel: &str, scheduler: &str) -> Option<(Policy, Host)> {
    match (kernel, scheduler) {
        ("baseline", "mq-deadline") => Some((Policy::ZoneLock, Host::Locking)),
        ("baseline-next", "mq-deadline") => Some((Policy::ZoneLockUnmerged, Host::Locking)),
        ("zwp", "mq-deadline") => Some((Policy::PlugMqDeadline, Host::Plugging)),
        ("zwp", "none") => Some((Policy::Plug, Host::Plugging)),
        _ => None,
    }
}

/// The systems of the second one.
fn qd1_system(kernel: &str) -> Option<(Policy, Host)> {
    match kernel {
        "baseline" => Some((Policy::Plug, Host::Plugging)),
        "patched" => Some((Policy::Qd1, Host::Plugging)),
        _ => None,
    }
}

fn devices_cell(figure: &Figure) -> Option<Cell> {
    let [device, kernel, scheduler] = &figure.keys[..] else { return None };
    let (device, group) = match device.as_str() {
        "nullblk" => (Device::Null, "nullblk"),
        "zns" => (Device::Zns, "zns"),
        "smr" => (Device::Smr26, "smr"),
        _ => return None,
    };
    const KIB: u32 = 1024;
    let load = match figure.column {
        "seqw4K1" => Load::Sequential { block_bytes: 4 * KIB, depth: 1 },
        "seqw4K16" => Load::Sequential { block_bytes: 4 * KIB, depth: 16 },
        "seqw1M16" => Load::Sequential { block_bytes: KIB * KIB, depth: 16 },
        "rndw4K16" => Load::RandomZones { block_bytes: 4 * KIB, depth: 16 },
        "rndw128K16" => Load::RandomZones { block_bytes: 128 * KIB, depth: 16 },
        _ => return None,
    };
    let (policy, host) = zwp_system(kernel, scheduler)?;
    let system = format!("{kernel} {scheduler}");
    Some(figure.cell(group, figure.column, &system, Experiment::new(device, policy, host, load)))
}

fn append_cell(figure: &Figure) -> Option<Cell> {
    let [kernel, scheduler] = &figure.keys[..] else { return None };
    let (device, group, emulated, load) = match figure.column {
        "nullblk_native_za" => (Device::Null, "nullblk", false, "native append"),
        "nullblk_emulated_za" => (Device::Null, "nullblk", true, "emulated append"),
        "zns_native_za" => (Device::Zns, "zns", false, "native append"),
        "smr_emulated_za" => (Device::Smr26, "smr", true, "emulated append"),
        _ => return None,
    };
    let (policy, host) = zwp_system(kernel, scheduler)?;
    let experiment = Experiment::new(device, policy, host, Load::AppendFiles { emulated });
    let cell = figure.cell(group, load, &format!("{kernel} {scheduler}"), experiment);
    // The old kernels had no emulation on null_blk: what it costs is seen beside the device's own appends.
    let against = if device == Device::Null { "native append" } else { load };
    Some(Cell { against: against.to_owned(), ..cell })
}

fn depth_cell(figure: &Figure) -> Option<Cell> {
    numbered_cell(figure, |depth| Load::Sequential { block_bytes: 1 << 20, depth })
}

fn zones_cell(figure: &Figure) -> Option<Cell> {
    numbered_cell(figure, |zones| Load::SharedZones { zones })
}

/// A cell of a row that is named by a number.
fn numbered_cell(figure: &Figure, load: fn(u32) -> Load) -> Option<Cell> {
    let [number] = &figure.keys[..] else { return None };
    let (policy, host) = qd1_system(figure.column)?;
    let load = load(number.parse().ok()?);
    let experiment = Experiment::new(Device::Smr30 { one_mib: false }, policy, host, load);
    Some(figure.cell("", number, figure.column, experiment))
}

fn files_cell(figure: &Figure) -> Option<Cell> {
    let [files] = &figure.keys[..] else { return None };
    let (least_mib, most_mib) = match files.as_str() {
        "256 MiB files" => (256, 256),
        "4 MiB .. 128 MiB random size" => (4, 128),
        "2 MiB .. 8 MiB random size" => (2, 8),
        _ => return None,
    };
    let (at, kernel) = figure.column.split_once('_')?;
    let (one_mib, group) = match at {
        "ahci" => (false, "ahci"),
        "hba1m" => (true, "hba1m"),
        _ => return None,
    };
    let (policy, host) = qd1_system(kernel)?;
    let load = Load::BufferedFiles { least_mib, most_mib };
    Some(figure.cell(group, files, kernel, Experiment::new(Device::Smr30 { one_mib }, policy, host, load)))
}

impl Experiment {
    /// What our own policy has to keep up with: the kernel's newer ones on the same drive under the same load, at the same cost
    /// per command.
    pub fn rivals(&self) -> impl Iterator<Item = Experiment> + use<> {
        let is_ours = self.policy == Policy::Elevator && self.device != Device::Null;
        let rivals: &[Policy] = if is_ours { &[Policy::Plug, Policy::Qd1] } else { &[] };
        let this = *self;
        rivals.iter().map(move |policy| Experiment { policy: *policy, ..this })
    }

    /// `load` on the null device.
    pub fn on_null(policy: Policy, load: Load) -> Self {
        Self::new(Device::Null, policy, Host::Ours, load)
    }

    /// On the null device there is no kernel, and so no cost of one.
    fn new(device: Device, policy: Policy, host: Host, load: Load) -> Self {
        let host = if device == Device::Null { Host::Ours } else { host };
        Self { device, policy, host, load }
    }
}

impl Figure {
    fn cell(&self, group: &str, load: &str, system: &str, experiment: Experiment) -> Cell {
        // The old kernel of each publication; the one with zone write locking calls itself `baseline mq-deadline`.
        let is_baseline = system.split(' ').next() == Some("baseline");
        let class = match experiment.device {
            Device::Null => Class::Measured,
            _ if is_baseline => Class::Calibrated,
            _ => Class::Predicted,
        };
        Cell {
            row: self.keys.join(","),
            column: self.column.to_owned(),
            group: group.to_owned(),
            load: load.to_owned(),
            system: system.to_owned(),
            policy: experiment.policy.name().to_owned(),
            unit: self.unit,
            class,
            is_baseline,
            against: load.to_owned(),
            simulated: experiment.device != Device::Null,
            published: Some(self.value),
            ours: experiment,
            rival: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> Vec<(String, Cell)> {
        let tables = [Publication::Zwp, Publication::Qd1].into_iter().flat_map(|p| plan(p).unwrap());
        tables.flat_map(|table| table.cells.into_iter().map(move |cell| (table.name.clone(), cell))).collect()
    }

    #[test]
    fn every_published_figure_has_exactly_one_cell_with_its_value_and_unit() {
        let cells = cells();
        let mut figures = 0;
        for schema in &SCHEMAS {
            if Publication::of_table(schema.name) == Publication::Noclone {
                continue;
            }
            for figure in schema.read().unwrap().figures {
                let here = cells.iter().filter(|(table, cell)| {
                    let place = (cell.row == figure.keys.join(","), cell.column == figure.column);
                    *table == schema.name && place == (true, true) && cell.published.is_some()
                });
                let found: Vec<(Option<f64>, Unit)> = here.map(|(_, c)| (c.published, c.unit)).collect();
                assert_eq!(found, [(Some(figure.value), figure.unit)], "{} {figure:?}", schema.name);
                figures += 1;
            }
        }
        assert_eq!(figures, 60 + 14 + 16 + 16 + 12);
        assert_eq!(cells.iter().filter(|(_, cell)| cell.published.is_some()).count(), figures);
    }

    #[test]
    fn beside_every_load_stands_one_baseline_and_our_own_policy() {
        let cells = cells();
        for (table, cell) in &cells {
            let beside = |pick: &dyn Fn(&Cell) -> bool| {
                let same = |c: &Cell| c.group == cell.group && c.load == cell.load;
                cells.iter().filter(|(t, c)| t == table && same(c) && pick(c)).count()
            };
            let same_group = cells.iter().filter(|(t, c)| t == table && c.group == cell.group);
            let baselines = same_group.filter(|(_, c)| c.is_baseline && c.load == cell.against).count();
            assert_eq!(baselines, 1, "{table} {cell:?}");
            let ours = beside(&|c| c.class == Class::Own && c.ours.policy == Policy::Elevator);
            assert_eq!(ours, 1, "{table} {cell:?}");
        }
    }

    #[test]
    fn each_row_of_zwp_runs_with_the_scheduler_that_it_names() {
        let of_row = |cell: &Cell| Some((cell.row.rsplit_once(',')?.1.to_owned(), cell.ours));
        let zwp = cells().into_iter().filter(|(table, cell)| table.starts_with("zwp-") && cell.row.contains("zwp,"));
        let named: Vec<(String, Experiment)> = zwp.filter_map(|(_, cell)| of_row(&cell)).collect();
        assert_eq!(named.len(), 2 * 15 + 2 * 4);
        for (scheduler, experiment) in named {
            assert_eq!(experiment.policy.scheduler(experiment.device).kind.name(), scheduler, "{experiment:?}");
        }
    }

    #[test]
    fn only_rows_of_the_old_kernels_are_calibrated_on() {
        for (table, cell) in cells() {
            let old = match cell.ours.policy {
                Policy::ZoneLock => true,
                Policy::Plug => table.starts_with("qd1-") && cell.published.is_some(),
                _ => false,
            };
            assert_eq!(cell.class == Class::Calibrated, old && cell.ours.device != Device::Null, "{cell:?}");
        }
    }

    #[test]
    fn a_row_that_nothing_is_known_about_is_no_cell() {
        let keys: Vec<String> = ["zns", "zwp", "kyber"].map(String::from).to_vec();
        let figure = Figure { keys, column: "seqw4K1", unit: Unit::Iops, value: 1.0 };
        assert_eq!(devices_cell(&figure), None);
    }
}
