//! What one seed draws: the disks of a set, who uses the volume on it and how, what goes wrong, and where the power goes.

use alloc::vec::Vec;

use super::super::base::{between, draw_fua, draw_trigger, leave_out, some};
use super::super::options::SwarmOptions;
use super::kind::Kind;
use crate::choices::Choices;
use crate::disk::CrashConfig;
use crate::fault::{Fault, FaultPlan};
use crate::volume::BLOCK_SECTORS;
use shingle_core::block::{Op, Status};
use shingle_core::dm::OpSet;
use shingle_core::plug::{PlugOptions, WritePolicy};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::{ResourceLimits, ZoneGeometry, ZoneNo};

/// What a host can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// A write anywhere, or in the hot part.
    Write,
    /// The next piece of a stream.
    Stream,
    /// All of a chunk, piece by piece.
    Fill,
    Read,
    Zeroes,
    Discard,
    /// A discard of a whole chunk.
    Drop,
    Flush,
}

impl Deed {
    /// All of them, with their names.
    pub const ALL: [(Deed, &'static str); 8] = [
        (Deed::Write, "write"),
        (Deed::Stream, "stream"),
        (Deed::Fill, "fill"),
        (Deed::Read, "read"),
        (Deed::Zeroes, "zeroes"),
        (Deed::Discard, "discard"),
        (Deed::Drop, "drop"),
        (Deed::Flush, "flush"),
    ];
}

/// How hosts behave.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    pub depth: u32,
    pub weights: [u64; Deed::ALL.len()],
    /// Longest request, in blocks.
    pub longest: u32,
    /// Of 100 writes so many with FUA, PREFLUSH or both.
    pub flags: u64,
    /// Of 10 requests so many go to the first tenth of the volume.
    pub hot: u64,
    pub streams: u64,
    /// Of 100 pieces of a stream so many come before the one before them.
    pub reorder: u64,
    /// Blocks of a chunk.
    pub chunk: u32,
}

/// At which commands of the disks what a cut would leave is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branches {
    /// After each.
    Every,
    /// After one out of so many, at random.
    OneOf(u64),
}

/// A zone that was dead before the set was formatted: the disk, the zone, and whether it is offline.
pub(super) type DeadZone = (usize, ZoneNo, bool);

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    /// In the order of the table.
    pub disks: Vec<CrashConfig>,
    pub dead: Vec<DeadZone>,
    /// Blocks of a zone.
    pub zone_blocks: u32,
    pub plug: PlugOptions,
    pub hosts: u32,
    pub habits: Habits,
    /// Whether all of the volume is written first.
    pub prefill: bool,
    /// Whether hosts sometimes all pause long enough for idle work.
    pub pauses: bool,
    /// What goes wrong with each disk.
    pub faults: Vec<FaultPlan>,
    pub ops: u64,
    /// Commands of the disks at the end of each life but the last: the power goes then.
    pub cuts: Vec<u64>,
    pub branches: Branches,
    /// The longest time between two things that are done with the volume's table, where it has one.
    pub swaps: Option<Duration>,
    /// Number of times that the leaves of the map of an `stl` volume are halved.
    pub leaf_halvings: u32,
    /// True if a disk damages data and metadata, and the volume has no checksum that tells.
    pub is_damaged: bool,
    /// True if the hosts of disks refuse writes.
    pub has_refusals: bool,
    /// The disk that is taken out of the volume, if that can be.
    pub leaving: Option<usize>,
}

impl Scenario {
    /// What `seed` draws for a volume of this kind.
    pub fn draw(seed: u64, kind: &dyn Kind) -> Self {
        let mut rng = Rng::new(seed ^ 0xd312_0ed0_d312_0ed0).fork();
        let rng = &mut rng;
        let drawn_blocks = some(rng, kind.zone_blocks());
        let drawn = kind.is_removable().then(|| draw_leaves(seed, drawn_blocks));
        let (zone_blocks, leaf_halvings) = drawn.unwrap_or((drawn_blocks, 0));
        let layout = kind.draw(zone_blocks, rng);
        let mut timing = Timing::draw(rng);
        if layout.is_wiped {
            timing.unwritten = 0;
        }
        if zone_blocks == LONG_ZONE {
            // A sweep reads thousands of small leaves: at 20 ms each, a write waits longer than the swarm does.
            timing.slowest = timing.slowest.min(Duration::from_millis(2));
        }
        let mut disks: Vec<CrashConfig> = layout.disks.into_iter().map(|disk| timing.of(disk)).collect();
        (0..).zip(&mut disks).for_each(|(number, disk)| disk.fua = draw_fua(seed, number));
        if kind.is_removable() {
            draw_short_zones(seed, &mut disks);
            draw_few_zones(seed, &mut disks);
        }
        let damaged = kind.tables().and_then(|_| draw_damage(seed, &disks));
        let exhaustive = rng.chance(1, 4);
        let ops = if exhaustive { between(rng, 5, 40) } else { between(rng, 40, 600) };
        let cuts = if rng.chance(1, 2) { 0 } else { between(rng, 1, 3) };
        let sound = rng.chance(2, 3);
        let mut scenario = Self {
            dead: layout.dead.into_iter().filter(|(disk, zone, _)| zone.0 < disks[*disk].geometry.zones()).collect(),
            zone_blocks,
            plug: draw_plug(rng),
            hosts: between(rng, 1, 3) as u32,
            habits: draw_habits(zone_blocks, rng),
            prefill: !exhaustive && rng.chance(1, 4),
            pauses: rng.chance(1, 3),
            faults: disks.iter().map(|disk| if sound { FaultPlan::none() } else { draw_faults(disk, rng) }).collect(),
            cuts: (0..cuts).map(|_| between(rng, 1, ops * 4)).collect(),
            swaps: kind.tables().and_then(|_| draw_swaps(seed, &disks)),
            leaf_halvings,
            is_damaged: false,
            has_refusals: false,
            leaving: kind.is_removable().then(|| draw_leaving(seed, &disks)).flatten(),
            branches: match (zone_blocks, exhaustive) {
                // Each copies all disks.
                (LONG_ZONE, _) => Branches::OneOf(16 + ops),
                (_, true) => Branches::Every,
                _ => Branches::OneOf(1 + ops / 20),
            },
            ops,
            disks,
        };
        if let Some((disk, plan)) = damaged.filter(|_| sound && scenario.dead.is_empty() && scenario.swaps.is_none()) {
            scenario.faults[disk] = plan;
            scenario.is_damaged = !kind.has_checksums();
        }
        if kind.is_removable() && !sound {
            draw_failing_flushes(seed, &mut scenario.faults);
            draw_refusals(seed, &mut scenario.faults);
            let mut rules = scenario.faults.iter().flat_map(|plan| &plan.rules);
            scenario.has_refusals = rules.any(|rule| matches!(rule.fault, Fault::Refuse(_)));
        }
        scenario
    }

    /// The scenario with each value recorded, or replaced by the recorded one. What leads to requests, faults and power cuts alone is not: those
    /// are recorded themselves.
    #[must_use]
    pub fn pinned(mut self, choices: &mut Choices) -> Self {
        let disks = choices.pin("disks", 1, self.disks.len()).clamp(1, MAX_DISKS);
        let spare = self.disks[0].clone();
        self.disks.resize(disks, spare);
        self.faults.resize(disks, FaultPlan::none());
        for (number, (disk, faults)) in (1..).zip(self.disks.iter_mut().zip(&mut self.faults)) {
            choices.scoped("disk", number, |choices| {
                *disk = disk.clone().pinned(choices);
                *faults = faults.clone().pinned(choices);
            });
        }
        let dead =
            self.dead.iter().flat_map(|(disk, zone, is_offline)| [*disk as u64, zone.0.into(), (*is_offline).into()]);
        let dead = choices.pin("dead-zones", Vec::new(), dead.collect());
        let zones = dead.chunks_exact(3).map(|zone| (zone[0] as usize, ZoneNo(zone[1] as u32), zone[2] == 1));
        let is_sequential = |(disk, zone, _): &DeadZone| {
            self.disks
                .get(*disk)
                .is_some_and(|disk| (disk.geometry.conventional()..disk.geometry.zones()).contains(&zone.0))
        };
        self.dead = zones.filter(is_sequential).collect();
        self.zone_blocks = choices.pin("zone-blocks", 16, self.zone_blocks);
        self.plug.policy = choices.pin("policy", WritePolicy::Plug, self.plug.policy);
        self.plug.queue_depth = choices.pin("queue-depth", 1, self.plug.queue_depth);
        self.hosts = choices.pin("hosts", 1, self.hosts);
        self.habits.depth = choices.pin("depth", 1, self.habits.depth);
        self.ops = choices.pin("requests", 0, self.ops);
        self.cuts = choices.pin("cuts-after", Vec::new(), self.cuts);
        self.swaps = choices.pin("swaps-within-ns", None, self.swaps);
        self.leaf_halvings = choices.pin("leaf-halvings", 0, self.leaf_halvings);
        self.is_damaged = choices.pin("damaged", false, self.is_damaged);
        self.has_refusals = choices.pin("refusals", false, self.has_refusals);
        self.leaving = choices.pin("leaving", None, self.leaving).filter(|disk| *disk < disks);
        self
    }

    /// The same, but for what is not left to the seed.
    #[must_use]
    pub fn with(mut self, options: &SwarmOptions) -> Self {
        if options.sound {
            self.dead.clear();
            self.faults.fill(FaultPlan::none());
            (self.is_damaged, self.has_refusals) = (false, false);
        }
        self.disks.iter_mut().for_each(|disk| disk.write_cache = options.write_cache.unwrap_or(disk.write_cache));
        self
    }
}

/// Most disks of a recorded scenario.
const MAX_DISKS: usize = 8;

/// The disks of a set.
pub(super) struct Layout {
    pub disks: Vec<CrashConfig>,
    pub dead: Vec<DeadZone>,
    /// Whether what was never written reads as zeroes, since the device does not know what was.
    pub is_wiped: bool,
}

/// A disk of so many blocks without zones.
pub(super) fn regular(blocks: u64) -> CrashConfig {
    CrashConfig::regular(blocks * u64::from(BLOCK_SECTORS)).expect("a drawn size is a size")
}

/// Zones that are read-only or offline from the beginning: never the first of a disk, few, and mostly none.
pub(super) fn draw_dead(disks: &[CrashConfig], rng: &mut Rng) -> Vec<DeadZone> {
    let mut dead = Vec::new();
    for (number, disk) in disks.iter().enumerate().filter(|(_, disk)| disk.regular.is_none()) {
        let first = disk.geometry.conventional().max(1);
        if rng.chance(1, 5) {
            let zone = between(rng, first.into(), u64::from(disk.geometry.zones()) - 1);
            dead.push((number, ZoneNo(zone as u32), rng.chance(1, 2)));
        }
    }
    dead
}

/// How fast the disks are, and what was on them before.
struct Timing {
    fastest: Duration,
    slowest: Duration,
    timeout: Duration,
    unwritten: u64,
}

impl Timing {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            fastest: Duration::from_micros(between(rng, 1, 50)),
            slowest: Duration::from_micros(some(rng, &[50, 200, 2_000, 20_000])),
            timeout: Duration::from_millis(some(rng, &[50, 1_000])),
            unwritten: some(rng, &[0, 0xdead_beef_dead_beef]),
        }
    }

    fn of(&self, disk: CrashConfig) -> CrashConfig {
        let Self { fastest, slowest, timeout, unwritten } = *self;
        CrashConfig { block_bytes: 4096, max_append: None, fastest, slowest, timeout, unwritten, ..disk }
    }
}

/// Whether tables are swapped, and how often: drawn from numbers of its own, so that other worlds are what they are.
fn draw_swaps(seed: u64, disks: &[CrashConfig]) -> Option<Duration> {
    let mut rng = Rng::new(seed ^ 0x5a9_57ab_1e50).fork();
    let slowest = disks[0].slowest.0;
    rng.chance(1, 3).then(|| Duration(slowest * some(&mut rng, &[50, 150, 400])))
}

/// Blocks of a long zone: a volume with such zones and leaves of 8 blocks has several tables of leaves.
pub(super) const LONG_ZONE: u32 = 512;

/// Draws the blocks of a zone and how often leaves are halved: half of all volumes have small leaves, and a few of them long zones. A separate
/// generator draws them, so that other scenarios stay the same.
fn draw_leaves(seed: u64, zone_blocks: u32) -> (u32, u32) {
    let mut rng = Rng::new(seed ^ 0x01ea_f512).fork();
    match rng.below(24) {
        0 => (LONG_ZONE, 10),
        1..12 => (zone_blocks, between(&mut rng, 4, 10) as u32),
        _ => (zone_blocks, 0),
    }
}

/// Adds a last zone that is shorter than the others to some zoned disks. A generator of its own draws them, so that other scenarios stay the same.
fn draw_short_zones(seed: u64, disks: &mut [CrashConfig]) {
    let mut rng = Rng::new(seed ^ 0x5407_720e).fork();
    for disk in disks.iter_mut().filter(|disk| disk.regular.is_none()) {
        let (geometry, block) = (disk.geometry, u64::from(BLOCK_SECTORS));
        let zone = u64::from(geometry.zone_sectors());
        if rng.chance(1, 4) {
            let longer = geometry.capacity() + between(&mut rng, 1, zone / block - 1) * block;
            let conventional = geometry.conventional().into();
            // Disks whose zones can hold less than their length have no short one.
            let longer = ZoneGeometry::new(longer, zone, geometry.zone_capacity().into(), conventional);
            disk.geometry = longer.unwrap_or(geometry);
        }
    }
}

/// Leaves one zoned disk with two to four zones in some scenarios, if the other zoned disks have room for the volume: the first two zones hold
/// roots. A separate generator draws it, so that other scenarios stay the same.
fn draw_few_zones(seed: u64, disks: &mut [CrashConfig]) {
    let mut rng = Rng::new(seed ^ 0xfe3_209e5).fork();
    let disk = rng.below(disks.len() as u64) as usize;
    let of_others = disks.iter().enumerate().filter(|(other, config)| *other != disk && config.regular.is_none());
    let zones_of_others: u32 = of_others.map(|(_, config)| config.geometry.zones()).sum();
    if !rng.chance(1, 6) || disks[disk].regular.is_some() || zones_of_others < 20 {
        return;
    }
    let (zones, geometry) = (between(&mut rng, 2, 4), disks[disk].geometry);
    let zone = u64::from(geometry.zone_sectors());
    let conventional = u64::from(geometry.conventional()).min(zones - 1);
    let few = ZoneGeometry::new(zones * zone, zone, geometry.zone_capacity().into(), conventional);
    disks[disk].geometry = few.expect("a part of a shape is a shape");
    disks[disk].resources = ResourceLimits::NONE;
}

/// Makes flushes of all disks fail often, in some scenarios. A separate generator draws it, so that other scenarios stay the same.
fn draw_failing_flushes(seed: u64, plans: &mut [FaultPlan]) {
    let mut rng = Rng::new(seed ^ 0xf1_054e5).fork();
    if rng.chance(1, 3) {
        for plan in plans {
            let flushes = draw_trigger(&mut rng, OpSet::of(&[Op::Flush]), 2, 2);
            *plan = core::mem::take(plan).with(flushes, Fault::Fail(Status::Io));
        }
    }
}

/// Makes the hosts of some disks refuse writes, in some scenarios. A separate generator draws it, so that other scenarios stay the same.
fn draw_refusals(seed: u64, plans: &mut [FaultPlan]) {
    let mut rng = Rng::new(seed ^ 0x0e05_bc0f).fork();
    if !rng.chance(1, 3) {
        return;
    }
    for plan in plans {
        if rng.chance(2, 3) {
            let writes = draw_trigger(&mut rng, OpSet::of(&[Op::Write, Op::WriteZeroes]), 4, 2);
            let status = some(&mut rng, &[Status::NoSpace, Status::ReadOnly, Status::Transport]);
            *plan = core::mem::take(plan).with(writes, Fault::Refuse(status));
        }
    }
}

/// Draws a disk that returns other data than was written, and how. A separate generator draws it, so that other scenarios stay the same.
fn draw_damage(seed: u64, disks: &[CrashConfig]) -> Option<(usize, FaultPlan)> {
    let mut rng = Rng::new(seed ^ 0x0b17_2077).fork();
    let disk = rng.below(disks.len() as u64) as usize;
    let mut rule = |op, fault| (draw_trigger(&mut rng, OpSet::of(&[op]), 4, 2), fault);
    let rules = [(Op::Read, Fault::Rot), (Op::Write, Fault::Vanish), (Op::Write, Fault::Stray)]
        .map(|(op, fault)| rule(op, fault));
    let mut plan = FaultPlan::none();
    for (trigger, fault) in rules {
        if rng.chance(1, 2) {
            plan = plan.with(trigger, fault);
        }
    }
    (rng.chance(1, 4) && !plan.is_empty()).then_some((disk, plan))
}

/// Which disk leaves the volume, if one does: so that one with zones is left.
fn draw_leaving(seed: u64, disks: &[CrashConfig]) -> Option<usize> {
    let mut rng = Rng::new(seed ^ 0x1ea_7e50_d15c).fork();
    let disk = rng.below(disks.len() as u64) as usize;
    let is_last = !disks.iter().enumerate().any(|(other, config)| other != disk && config.regular.is_none());
    (rng.chance(1, 3) && !is_last).then_some(disk)
}

fn draw_plug(rng: &mut Rng) -> PlugOptions {
    let ordering: Vec<WritePolicy> = WritePolicy::ALL.into_iter().filter(|policy| policy.orders()).collect();
    PlugOptions { policy: some(rng, &ordering), queue_depth: some(rng, &[1, 4, 64]), ..PlugOptions::default() }
}

fn draw_habits(zone_blocks: u32, rng: &mut Rng) -> Habits {
    let weights = leave_out([40, 30, 3, 20, 4, 5, 2, 6], rng);
    // In a volume with long zones each block costs a write of a small leaf: behind 90 requests of 768 blocks a write waits
    // longer than the swarm does.
    let many = if zone_blocks == LONG_ZONE { LONG_ZONE / 4 } else { zone_blocks };
    Habits {
        depth: some(rng, &[1, 2, 4, 8, 16, 32]),
        weights,
        longest: some(rng, &[1, 2, 4, 8, many, many * 3 / 2]),
        flags: some(rng, &[0, 0, 5, 20, 50]),
        hot: some(rng, &[0, 5, 9]),
        streams: some(rng, &[1, 2, 4]),
        reorder: some(rng, &[0, 0, 10]),
        chunk: zone_blocks,
    }
}

fn draw_faults(disk: &CrashConfig, rng: &mut Rng) -> FaultPlan {
    if rng.chance(1, 3) {
        return FaultPlan::none();
    }
    let mut plan = FaultPlan::none();
    for _ in 0..between(rng, 1, 3) {
        let writes = [Op::Write, Op::WriteZeroes];
        let others = [Op::Read, Op::Flush, Op::ZoneReset, Op::ReportZones];
        let ops = if rng.chance(1, 2) { OpSet::of(&writes) } else { OpSet::of(&[some(rng, &others)]) };
        let error = some(rng, &[Status::Io, Status::Medium, Status::Target, Status::Transport]);
        let (fault, rare) = match rng.below(8) {
            0 | 1 => (Fault::Fail(error), 10),
            2 => (Fault::Partial(error), 10),
            3 => (Fault::Landed(error), 10),
            4 => (Fault::Lose, 40),
            5 | 6 => (Fault::Slow(between(rng, 2, 100) as u32), 5),
            _ if disk.regular.is_none() => (some(rng, &[Fault::ZoneReadOnly, Fault::ZoneOffline]), 100),
            _ => (Fault::Fail(error), 20),
        };
        plan = plan.with(draw_trigger(rng, ops, rare, 2), fault);
    }
    if rng.chance(1, 4) && disk.regular.is_none() {
        // Not where the metadata is, without which there is no volume.
        let first = u64::from(disk.geometry.conventional().max(1)) * u64::from(disk.geometry.zone_sectors());
        let at = between(rng, first, disk.geometry.capacity() - 1);
        plan.bad.add(Sector(at)..Sector(at + between(rng, 1, 16)));
    }
    plan
}

shingle_core::impl_display!(Scenario, |self, f| {
    for disk in &self.disks {
        let geometry = &disk.geometry;
        match disk.regular {
            Some(sectors) => write!(f, "a regular disk of {} blocks, ", sectors / u64::from(BLOCK_SECTORS))?,
            None => write!(f, "a zoned disk of {} zones ({} conv), ", geometry.zones(), geometry.conventional())?,
        }
    }
    let Habits { depth, weights, longest, flags, hot, streams, .. } = &self.habits;
    let first = &self.disks[0];
    write!(f, "zones of {} blocks, dead {:?}, policy {}, ", self.zone_blocks, self.dead, self.plug.policy)?;
    write!(f, "{}-{} us, unwritten {:x}; ", first.fastest.0 / 1_000, first.slowest.0 / 1_000, first.unwritten)?;
    write!(f, "{} hosts at depth {depth}, at most {longest} blocks, {flags} % flags, ", self.hosts)?;
    write!(f, "hot {hot}, {streams} streams, weights {weights:?}, ")?;
    write!(f, "{}", if self.prefill { "full first, " } else { "" })?;
    write!(f, "{}", if self.pauses { "pauses, " } else { "" })?;
    if let Some(pace) = self.swaps {
        write!(f, "tables swapped within {} us, ", pace.0 / 1_000)?;
    }
    if let Some(disk) = self.leaving {
        write!(f, "disk {disk} leaves, ")?;
    }
    if self.leaf_halvings > 0 {
        write!(f, "leaves of {} blocks, ", 8192 >> self.leaf_halvings)?;
    }
    write!(f, "{} requests, power cuts after commands {:?}, looks {:?}, ", self.ops, self.cuts, self.branches)?;
    let is_damaged = |plan: &FaultPlan| plan.rules.iter().any(|rule| rule.fault.is_damage());
    if let Some(disk) = self.faults.iter().position(is_damaged) {
        write!(f, "disk {disk} returns other data, ")?;
    }
    let rules: usize = self.faults.iter().map(|plan| plan.rules.len()).sum();
    let bad = self.faults.iter().any(|plan| !plan.bad.is_empty());
    write!(f, "{rules} fault rules, bad blocks: {bad}")
});
