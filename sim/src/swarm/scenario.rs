//! What one seed draws: a disk, a stack on it, who uses it and how, and what goes wrong.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::base::{between, draw_fua, draw_trigger, leave_out, some};
use super::host::Habits;
use super::layout::{Layouts, draw_regular};
use super::paths::PathsPlan;
use super::scheduler::SchedulerPlan;
use crate::choices::{Choice, Choices, choices_by_name};
use crate::disk::{CrashConfig, Discipline, OtherDisk};
use crate::fault::{Fault, FaultPlan};
use crate::model::Trust;
use crate::profile::Profile;
use shingle_core::block::{Op, Priority, Status};
use shingle_core::dm::OpSet;
use shingle_core::plug::{Append, ElevatorOptions, PlugOptions, WritePolicy};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::{ResourceLimits, ZoneGeometry};

choices_by_name!(Kind, Append, Trust);

/// What a host can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Zeroes,
    Append,
    Read,
    Reset,
    Finish,
    Open,
    Close,
    Report,
    ResetAll,
    Flush,
    Mistake,
}

impl Kind {
    pub const ALL: [Kind; 12] = {
        use Kind::*;
        [Write, Zeroes, Append, Read, Reset, Finish, Open, Close, Report, ResetAll, Flush, Mistake]
    };
}

/// The table above the plug, if there is one. Numbers are zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    /// None: hosts use the plug itself.
    Nothing,
    /// A linear line from one zone on, so many zones.
    Linear(u32, u32),
    /// Two linear lines that meet at this zone, in order or swapped.
    Two(u32, bool),
    /// A faulty line over everything, with rules drawn from this seed.
    Faulty(u64),
    /// Mapped devices.
    Mapped,
}

/// `Linear(2,5)`, `Two(3,true)`.
impl Choice for Above {
    fn read(word: &str, _: &[Self]) -> Option<Self> {
        let (name, values) = word.strip_suffix(')').and_then(|word| word.split_once('(')).unwrap_or((word, ""));
        let (first, second) = values.split_once(',').unwrap_or((values, ""));
        Some(match name {
            "Nothing" => Self::Nothing,
            "Linear" => Self::Linear(first.parse().ok()?, second.parse().ok()?),
            "Two" => Self::Two(first.parse().ok()?, second.parse().ok()?),
            "Faulty" => Self::Faulty(first.parse().ok()?),
            "Mapped" => Self::Mapped,
            _ => return None,
        })
    }
}

impl Above {
    /// True if the table maps zones that a disk has, and a sequential one in each line.
    fn fits(self, geometry: &ZoneGeometry) -> bool {
        let zones = geometry.zones();
        let has_short_end = !geometry.capacity().is_multiple_of(geometry.zone_sectors().into());
        match self {
            Self::Linear(from, count) => {
                let end = from.saturating_add(count);
                count > 0 && end > geometry.conventional() && end <= zones
            }
            Self::Two(at, is_swapped) => (1..zones).contains(&at) && !(is_swapped && has_short_end),
            Self::Nothing | Self::Faulty(_) | Self::Mapped => true,
        }
    }
}

/// Rules of a faulty table line.
pub(super) fn draw_faulty(seed: u64) -> String {
    let rng = &mut Rng::new(seed);
    let mut line = format!("seed={seed}");
    for _ in 0..between(rng, 1, 3) {
        let op = some(rng, &["any", "data", "write", "append", "read", "flush+report", "reset+finish+reset-all"]);
        let rule = some(rng, &["error", "error,status=medium", "error-after", "delay,time=3ms", "lose,timeout=50ms"]);
        let rate = between(rng, 10, 500);
        line += &format!(" {rule},op={op},rate=1/{rate}");
    }
    line
}

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub disk: CrashConfig,
    pub plug: PlugOptions,
    /// Policies that an operator switches to, one after the other.
    pub switches: Vec<WritePolicy>,
    /// Schedulers of the disks.
    pub schedulers: SchedulerPlan,
    pub above: Above,
    /// Rules of the faulty line above the plug.
    pub faulty_rules: String,
    pub hosts: u32,
    pub habits: Habits,
    /// Requests at the end of each life but the last: the power goes then.
    pub cuts: Vec<u64>,
    pub ops: u64,
    /// What goes wrong with each disk.
    pub faults: Vec<FaultPlan>,
    /// The disks, and the mapped devices on them.
    pub layouts: Layouts,
    /// The longest time between two changes of tables.
    pub pace: Duration,
    /// The paths to the disk, if it is not there at hand.
    pub paths: Option<PathsPlan>,
}

/// What policy promises what, on a rotational disk or another one.
pub(super) fn discipline(policy: WritePolicy, rotational: bool) -> Discipline {
    match policy {
        WritePolicy::None => Discipline::None,
        WritePolicy::ZoneLock => Discipline::OneWrite,
        WritePolicy::Qd1 => Discipline::OneOfDisk,
        WritePolicy::Elevator if rotational => Discipline::OneOfDisk,
        _ => Discipline::InOrder,
    }
}

impl Scenario {
    pub fn draw(seed: u64, profile: Profile) -> Self {
        // Neighbouring seeds have nothing in common.
        let mut rng = Rng::new(seed ^ 0x5eed_5eed_5eed_5eed).fork();
        let rng = &mut rng;
        let mut disk = CrashConfig { fua: draw_fua(seed, 0), ..draw_disk(profile, rng) };
        if profile == Profile::Mapper {
            disk.geometry = without_runt(&disk.geometry);
        }
        let disk = disk;
        let geometry = disk.geometry;
        let (plug, switches) = draw_policies(profile, rng);
        let all = || switches.iter().chain([&plug.policy]);
        let ordered = all().all(|policy| policy.orders());
        let trust = match ordered {
            true => Trust::Stack,
            false if rng.chance(3, 4) => Trust::Host,
            false => Trust::Nobody,
        };
        let ops = between(rng, 100, 1200);
        let mut cuts: Vec<u64> = (0..rng.below(4)).map(|_| between(rng, 1, ops)).collect();
        cuts.sort_unstable();
        let above = draw_above(&geometry, rng);
        let mut scenario = Self {
            above,
            faulty_rules: if let Above::Faulty(seed) = above { draw_faulty(seed) } else { String::new() },
            hosts: between(rng, 1, 4) as u32,
            habits: Habits {
                depth: some(rng, &[1, 2, 4, 8, 16, 32]),
                weights: draw_weights(profile, rng),
                longest: some(rng, &[1, 4, 8, 16]),
                flags: some(rng, &[0, 0, 5, 20]),
                trust,
                class: Priority::default(),
            },
            cuts,
            ops,
            faults: Vec::from([draw_faults(&geometry, rng)]),
            layouts: Layouts::of_disk(&disk),
            pace: Duration::default(),
            paths: None,
            disk,
            plug,
            switches,
            schedulers: SchedulerPlan::default(),
        };
        if profile == Profile::Mapper {
            scenario.map(rng);
        }
        if profile == Profile::Paths {
            scenario.lay_paths(rng);
        } else {
            // Last, so that the rest of older seeds stays as it was.
            scenario.schedulers = SchedulerPlan::draw(rng);
        }
        scenario
    }

    /// The scenario with each value recorded, or replaced by the recorded one. Values that only lead to requests, faults and power cuts are
    /// not: those are recorded themselves.
    #[must_use]
    pub fn pinned(mut self, choices: &mut Choices) -> Self {
        self.layouts = self.layouts.pinned(choices);
        self.disk = self.layouts.disks[0].clone();
        self.faults.resize(self.layouts.disks.len(), FaultPlan::none());
        for (number, faults) in (1..).zip(&mut self.faults) {
            choices.scoped("disk", number, |choices| *faults = faults.clone().pinned(choices));
        }
        self.plug = pinned_plug(self.plug, choices);
        self.switches = choices.pin("switches", Vec::new(), self.switches);
        self.schedulers = self.schedulers.pinned(choices);
        self.above = choices.pin("above", Above::Nothing, self.above);
        let is_mapped = self.above == Above::Mapped;
        if is_mapped == self.layouts.devices.is_empty()
            || self.disk.regular.is_some()
            || !self.above.fits(&self.disk.geometry)
        {
            self.above = Above::Nothing;
        }
        self.faulty_rules = choices.pin("faulty-rules", String::from("seed=0"), self.faulty_rules);
        self.hosts = choices.pin("hosts", 1, self.hosts);
        self.habits.depth = choices.pin("depth", 1, self.habits.depth).max(1);
        let keeps_order = self.switches.iter().chain([&self.plug.policy]).all(|policy| policy.orders());
        let (calm, among) =
            if keeps_order { (Trust::Stack, [Trust::Stack; 2]) } else { (Trust::Host, [Trust::Host, Trust::Nobody]) };
        self.habits.trust = choices.decide("order-kept-by", (calm, &among), |_| self.habits.trust);
        self.ops = choices.pin("requests", u64::MAX, self.ops);
        self.paths = PathsPlan::pinned(self.paths, &self.disk, choices);
        self
    }

    /// Puts another disk, which is alone, in the place of the simulated one.
    pub fn with_disk(&mut self, other: OtherDisk) {
        other.suit(&mut self.disk);
        self.layouts = Layouts::of_disk(&self.disk);
    }

    /// Puts several paths over the disk, which may have no zones.
    fn lay_paths(&mut self, rng: &mut Rng) {
        if rng.chance(1, 5) {
            self.disk = draw_regular(&self.disk, rng);
            (self.above, self.switches) = (Above::Nothing, Vec::new());
            self.layouts = Layouts::of_disk(&self.disk);
            self.faults = Vec::from([draw_faults(&self.disk.geometry, rng)]);
        }
        if rng.chance(1, 3) {
            self.faults = Vec::from([FaultPlan::none()]);
        }
        self.paths = Some(PathsPlan::draw(&self.disk, self.faults[0].is_empty(), rng));
    }

    /// Puts mapped devices on the disk, and other disks beside it.
    fn map(&mut self, rng: &mut Rng) {
        self.above = Above::Mapped;
        self.layouts = Layouts::draw(&self.disk, rng);
        for disk in &self.layouts.disks[1..] {
            self.faults.push(draw_faults(&disk.geometry, rng));
        }
        self.pace = Duration::from_micros(some(rng, &[100, 1_000, 10_000]));
    }
}

/// The same zones without a shorter one at the end.
fn without_runt(shape: &ZoneGeometry) -> ZoneGeometry {
    let (zone, zones) = (u64::from(shape.zone_sectors()), u64::from(shape.zones()));
    let (capacity, conventional) = (shape.zone_capacity().into(), shape.conventional().into());
    ZoneGeometry::new(zones * zone, zone, capacity, conventional).expect("a drawn shape is a shape")
}

fn draw_disk(profile: Profile, rng: &mut Rng) -> CrashConfig {
    let block = some(rng, &[1_u64, 1, 8]);
    let zone = some(rng, &[16_u64, 32, 64, 128, 256]).max(block * 4);
    let zones = between(rng, 3, 24);
    let capacity = if rng.chance(1, 3) { between(rng, 1, zone / block) * block } else { zone };
    let runt = if capacity == zone && rng.chance(1, 4) { between(rng, 1, zone / block) * block % zone } else { 0 };
    let conventional = if rng.chance(1, 2) { rng.below(zones / 2 + 1) } else { 0 };
    let size = zones * zone - if runt == 0 { 0 } else { zone - runt };
    let geometry = ZoneGeometry::new(size, zone, capacity, conventional).expect("a drawn shape is a shape");
    let limited = rng.chance(if profile == Profile::Zones { 3 } else { 1 }, 4);
    let resources = if limited {
        let active = between(rng, 2, u64::from(geometry.sequential()).max(2)) as u32;
        let open = between(rng, 1, active.into()) as u32;
        ResourceLimits::new(rng.chance(2, 3).then_some(open), Some(active))
            .expect("a drawn limit is one")
            .enforceable(geometry.sequential())
    } else {
        ResourceLimits::NONE
    };
    let longest = |rng: &mut Rng| rng.chance(1, 2).then(|| (between(rng, 1, 16) * block) as u32);
    CrashConfig {
        resources,
        block_bytes: block as u32 * 512,
        max_sectors: longest(rng),
        max_segments: some(rng, &[None, Some(1), Some(2), Some(5), Some(32)]),
        max_append: rng.chance(1, 2).then_some((zone.min(8 * block)) as u32),
        max_write_zeroes: rng.chance(1, 2).then_some(zone as u32),
        write_cache: rng.chance(2, 3),
        rotational: rng.chance(1, 3),
        fastest: Duration::from_micros(between(rng, 1, 50)),
        slowest: Duration::from_micros(some(rng, &[50, 200, 2_000, 20_000])),
        timeout: Duration::from_millis(some(rng, &[50, 1_000])),
        ..CrashConfig::new(geometry)
    }
}

fn draw_policies(profile: Profile, rng: &mut Rng) -> (PlugOptions, Vec<WritePolicy>) {
    let ordering: Vec<WritePolicy> = WritePolicy::ALL.into_iter().filter(|policy| policy.orders()).collect();
    // A head asks where a zone is written, and so needs somebody who writes in order.
    let weak = rng.chance(1, 4) && profile != Profile::Paths;
    let known: &[WritePolicy] = if weak { &WritePolicy::ALL } else { &ordering };
    let switching = rng.chance(if profile == Profile::Plug { 1 } else { 2 }, 4);
    let switches = (0..if switching { between(rng, 1, 4) } else { 0 }).map(|_| some(rng, known)).collect();
    let options = PlugOptions {
        policy: some(rng, known),
        append: some(rng, &[Append::Native, Append::Emulated]),
        max_segments: some(rng, &[1, 2, 4, 128]),
        queue_depth: some(rng, &[1, 4, 64]),
        elevator: draw_elevator(rng),
    };
    (options, switches)
}

/// The options of a plug with each value recorded, or replaced by the recorded one.
fn pinned_plug(plug: PlugOptions, choices: &mut Choices) -> PlugOptions {
    let (calm, elevator) = (ElevatorOptions::default(), plug.elevator);
    PlugOptions {
        policy: choices.pin("policy", WritePolicy::Plug, plug.policy),
        append: choices.decide("append", (Append::Native, &[Append::Native, Append::Emulated]), |_| plug.append),
        max_segments: choices.pin("plug-segments", 1, plug.max_segments),
        queue_depth: choices.pin("queue-depth", 1, plug.queue_depth),
        elevator: ElevatorOptions {
            max_wait: choices.pin("max-wait-ns", calm.max_wait, elevator.max_wait),
            batch_sectors: choices.pin("batch-sectors", calm.batch_sectors, elevator.batch_sectors),
            batch_time: choices.pin("batch-time-ns", calm.batch_time, elevator.batch_time),
            hold_back: choices.pin("hold-back-ns", calm.hold_back, elevator.hold_back),
            linger: choices.pin("linger-ns", calm.linger, elevator.linger),
            merge_sectors: choices.pin("merge-sectors", calm.merge_sectors, elevator.merge_sectors),
        },
    }
}

fn draw_elevator(rng: &mut Rng) -> ElevatorOptions {
    let micros = |rng: &mut Rng, from: &[u64]| Duration::from_micros(some(rng, from));
    ElevatorOptions {
        max_wait: micros(rng, &[0, 100, 5_000, 5_000_000]),
        batch_sectors: some(rng, &[1, 8, 64, 64 << 11]),
        batch_time: micros(rng, &[1, 1_000, 500_000]),
        hold_back: micros(rng, &[0, 20, 500]),
        linger: micros(rng, &[0, 500, 5_000]),
        // From a copy, so that the worlds of older seeds stay as they were.
        merge_sectors: some(&mut rng.clone(), &[1, 16, 1 << 11]),
    }
}

fn draw_above(geometry: &ZoneGeometry, rng: &mut Rng) -> Above {
    let zones = u64::from(geometry.zones());
    let short_end = !geometry.capacity().is_multiple_of(geometry.zone_sectors().into());
    match rng.below(7) {
        0 | 1 => Above::Nothing,
        2 => Above::Faulty(rng.below(1 << 32)),
        3 | 4 => {
            let from = if rng.chance(1, 2) { 0 } else { rng.below(zones - 1) };
            let count = if rng.chance(1, 2) { zones - from } else { between(rng, 1, zones - from) };
            // At least one sequential zone, as a part without is not zoned.
            let count = count.max((u64::from(geometry.conventional()) + 1).saturating_sub(from));
            Above::Linear(from as u32, count as u32)
        }
        _ => Above::Two(between(rng, 1, zones - 1) as u32, !short_end && rng.chance(1, 2)),
    }
}

fn draw_faults(geometry: &ZoneGeometry, rng: &mut Rng) -> FaultPlan {
    if rng.chance(2, 5) {
        return FaultPlan::none();
    }
    let writes = [Op::Write, Op::WriteZeroes, Op::ZoneAppend];
    let management = [Op::ZoneReset, Op::ZoneFinish, Op::ZoneOpen, Op::ZoneClose, Op::ZoneResetAll];
    let others = [Op::Read, Op::Flush, Op::ReportZones];
    let mut plan = FaultPlan::none();
    for _ in 0..between(rng, 1, 4) {
        let ops = match rng.below(4) {
            0 | 1 => OpSet::of(&writes),
            2 => OpSet::of(&management),
            _ => OpSet::of(&others),
        };
        let error = some(rng, &[Status::Io, Status::Medium, Status::Target, Status::Transport]);
        let refusal = some(rng, &[Status::Io, Status::NotSupported, Status::DeviceResource, Status::ReadOnly]);
        let (fault, rare) = match rng.below(8) {
            0 | 1 => (Fault::Fail(refusal), 6),
            2 | 3 => (Fault::Partial(error), 6),
            4 => (Fault::Landed(error), 6),
            5 => (Fault::Lose, 20),
            6 => (Fault::Slow(between(rng, 2, 100) as u32), 5),
            _ => (some(rng, &[Fault::ZoneReadOnly, Fault::ZoneOffline]), 60),
        };
        plan = plan.with(draw_trigger(rng, ops, rare, 4), fault);
    }
    if rng.chance(1, 4) {
        for _ in 0..between(rng, 1, 3) {
            let at = rng.below(geometry.capacity());
            plan.bad.add(Sector(at)..Sector(at + between(rng, 1, 4)));
        }
    }
    plan
}

fn words_of_cache(disk: &CrashConfig) -> &'static str {
    match (disk.write_cache, disk.fua) {
        (true, true) => "cache",
        (true, false) => "cache without FUA",
        (false, _) => "no cache",
    }
}

shingle_core::impl_display!(Scenario, |self, f| {
    let Self { disk, plug, above, hosts, .. } = self;
    let (zones, sectors) = (disk.geometry.zones(), disk.geometry.zone_sectors());
    let (capacity, all) = (disk.geometry.zone_capacity(), disk.geometry.capacity());
    let CrashConfig { block_bytes, max_sectors, max_segments, max_append, resources, .. } = disk;
    let (cache, open, active) = (words_of_cache(disk), resources.max_open(), resources.max_active());
    let switches: String = self.switches.iter().map(|policy| format!("->{policy}")).collect();
    write!(f, "{zones} zones of {capacity}/{sectors} sectors ({} conventional, ", disk.geometry.conventional())?;
    write!(f, "{all} in all), {block_bytes}-byte blocks, {cache}, open {open:?} active {active:?}, ")?;
    write!(f, "longest {max_sectors:?} in {max_segments:?}, append {max_append:?}; ")?;
    write!(f, "policy {}{switches}, {:?} append; above: {above:?}; ", plug.policy, plug.append)?;
    write!(f, "{hosts} hosts at depth {}; ", self.habits.depth)?;
    write!(f, "{} requests, power cuts after {:?}, ", self.ops, self.cuts)?;
    write!(f, "order kept by {:?}, ", self.habits.trust)?;
    let rules: usize = self.faults.iter().map(|plan| plan.rules.len()).sum();
    let bad = self.faults.iter().any(|plan| !plan.bad.is_empty());
    write!(f, "{rules} fault rules, bad blocks: {bad}{}; {}", self.layouts, self.schedulers)?;
    self.paths.iter().try_for_each(|paths| write!(f, "; {paths}"))
});

/// How often a host of a profile does what, in the order of [`Kind::ALL`].
fn draw_weights(profile: Profile, rng: &mut Rng) -> [u64; Kind::ALL.len()] {
    let weights = match profile {
        Profile::Plug => [50, 2, 5, 15, 4, 2, 1, 1, 3, 0, 4, 4],
        Profile::Append => [10, 1, 50, 15, 5, 3, 1, 1, 3, 1, 4, 3],
        Profile::Zones => [25, 2, 8, 8, 10, 8, 8, 8, 8, 1, 4, 8],
        Profile::All | Profile::DmZoned | Profile::Ublk | Profile::Stl => [30, 3, 15, 15, 5, 4, 3, 3, 4, 1, 5, 5],
        Profile::Paths => [30, 3, 20, 10, 6, 4, 3, 3, 4, 2, 5, 4],
        Profile::Mapper => [40, 3, 15, 15, 4, 3, 2, 2, 4, 2, 6, 3],
    };
    leave_out(weights, rng)
}
