//! What one seed draws: the device, who uses it and how, and when its server is killed.

use super::super::base::{between, draw_fua, leave_out, some};
use super::super::{Profile, volumes};
use crate::choices::{Choice, Choices};
use crate::disk::CrashConfig;
use shingle_core::plug::{Append, PlugOptions, WritePolicy};
use shingle_core::random::Rng;
use shingle_core::time::Duration;
use shingle_core::zone::ZoneGeometry;

/// What the server serves.
#[derive(Clone, Debug)]
pub(super) enum Backing {
    /// A zoned disk behind a plug: its requests have records.
    Zoned(CrashConfig),
    /// A regular disk that forgets what is not flushed with its host.
    Forgetful(CrashConfig),
    /// dm-zoned, of the seed of that swarm: it forgets as well.
    DmZoned(u64),
}

/// What users write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sameness {
    /// Every block differs from every other one.
    Unique,
    /// One pattern everywhere, or zeroes.
    Same(u64),
    /// Both.
    Mixed,
}

/// `Same(90)`.
impl Choice for Sameness {
    fn read(word: &str, _: &[Self]) -> Option<Self> {
        let value = word.strip_prefix("Same(").and_then(|word| word.strip_suffix(')'));
        match (word, value) {
            ("Unique", _) => Some(Self::Unique),
            ("Mixed", _) => Some(Self::Mixed),
            (_, value) => value?.parse().ok().map(Self::Same),
        }
    }
}

/// What users do, in this order: write, append, read, flush, zeroes, discard, reset, finish, reset all, report.
pub(super) const DEEDS: usize = 10;

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub backing: Backing,
    pub plug: PlugOptions,
    /// Sectors of a block.
    pub unit: u32,
    /// Longest request, in blocks.
    pub longest: u32,
    pub tags: u32,
    /// Requests of users at once.
    pub depth: u32,
    pub weights: [u64; DEEDS],
    pub sameness: Sameness,
    /// Of 100 writes so many with FUA.
    pub fua: u64,
    /// Whether zones are reset while appends to them are under way.
    pub races: bool,
    /// Of 100 kills so many leave each request its tag.
    pub same_tags: u64,
    /// Longest requests that the log of unflushed writes has room for.
    pub log: u32,
    /// Blocks that users use, of a regular device.
    pub span: u32,
    pub ops: u64,
    pub kills: u64,
    /// Most steps from one kill to the next.
    pub apart: u64,
    /// Of 100 kills so many are losses of power.
    pub cuts: u64,
    /// Whether the kernel registers the memory of requests, and the disk takes that.
    pub registers: bool,
}

impl Scenario {
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0b1c_0b1c_0b1c_0b1c).fork();
        let rng = &mut rng;
        let backing = match rng.below(8) {
            0..4 => Backing::Zoned(CrashConfig { fua: draw_fua(seed, 0), ..draw_zoned(rng) }),
            4..7 => Backing::Forgetful(draw_regular(rng)),
            _ => Backing::DmZoned(rng.below(1 << 40)),
        };
        let policies = [WritePolicy::Plug, WritePolicy::Plug, WritePolicy::Qd1, WritePolicy::Elevator];
        let append = if rng.chance(1, 2) { Append::Native } else { Append::Emulated };
        let unit = unit_of(&backing);
        let ops = some(rng, &[30, 100, 300]);
        Self {
            plug: PlugOptions { policy: some(rng, &policies), append, ..PlugOptions::default() },
            unit,
            longest: between(rng, 1, 6) as u32,
            tags: between(rng, 4, 16) as u32,
            depth: some(rng, &[2, 4, 8, 24]),
            weights: leave_out([30, 40, 15, 8, 6, 4, 6, 2, 1, 4], rng),
            sameness: match rng.below(4) {
                0 => Sameness::Unique,
                1 => Sameness::Same(0),
                2 => Sameness::Same(0x5a5a_5a5a_5a5a_5a5a),
                _ => Sameness::Mixed,
            },
            fua: some(rng, &[0, 10, 40]),
            races: rng.chance(1, 3),
            same_tags: some(rng, &[0, 50, 100]),
            log: between(rng, 2, 12) as u32,
            span: between(rng, 2, 30) as u32,
            ops,
            kills: between(rng, 1, 30),
            apart: some(rng, &[20, 60, 200, 600]),
            cuts: some(rng, &[0, 15, 30]),
            registers: !matches!(backing, Backing::DmZoned(_)) && rng.chance(1, 2),
            backing,
        }
    }
}

impl Scenario {
    /// The scenario with each value recorded, or replaced by the recorded one. Values that only lead to requests, kills and power cuts are not:
    /// those are recorded themselves.
    #[must_use]
    pub fn pinned(self, choices: &mut Choices) -> Self {
        let seed = if let Backing::DmZoned(seed) = self.backing { Some(seed) } else { None };
        let backing = match (choices.pin("dm-zoned", None, seed), self.backing) {
            (Some(seed), _) => Backing::DmZoned(seed),
            (None, Backing::Zoned(disk) | Backing::Forgetful(disk)) => {
                choices.scoped("disk", 1, |choices| pinned_disk(disk.pinned(choices)))
            }
            (None, Backing::DmZoned(_)) => Backing::Zoned(calm_disk()),
        };
        let (policy, append) = (self.plug.policy, self.plug.append);
        let policy = choices.pin("policy", WritePolicy::Plug, policy);
        let append = choices.decide("append", (Append::Native, &[Append::Native, Append::Emulated]), |_| append);
        Self {
            plug: PlugOptions { policy: if policy.orders() { policy } else { WritePolicy::Plug }, append, ..self.plug },
            unit: unit_of(&backing),
            longest: choices.pin("longest", 1, self.longest).max(1),
            tags: choices.pin("tags", 4, self.tags).max(1),
            depth: choices.pin("depth", 4, self.depth).max(1),
            races: choices.pin("races", false, self.races),
            log: choices.pin("log", 12, self.log).max(2),
            span: choices.pin("span", 8, self.span).max(1),
            ops: choices.pin("requests", u64::MAX, self.ops),
            registers: choices.pin("registers", false, self.registers) && !matches!(backing, Backing::DmZoned(_)),
            backing,
            ..self
        }
    }

    /// Longest request, in bytes; a report of all zones is no longer.
    pub fn io_bytes(&self) -> u32 {
        self.longest * self.unit * 512
    }
}

/// Sectors of a block.
fn unit_of(backing: &Backing) -> u32 {
    match backing {
        Backing::Zoned(disk) | Backing::Forgetful(disk) => disk.block_bytes / 512,
        Backing::DmZoned(_) => 8,
    }
}

/// What a recorded disk is used for. One whose zones are not all alike, or more than a report has room for, is replaced.
fn pinned_disk(disk: CrashConfig) -> Backing {
    if disk.regular.is_some() {
        return Backing::Forgetful(disk);
    }
    let (geometry, unit) = (&disk.geometry, disk.block_bytes / 512);
    let (zone, capacity) = (geometry.zone_sectors(), geometry.zone_capacity());
    let is_whole = geometry.capacity().is_multiple_of(zone.into()) && zone % unit == 0 && capacity % unit == 0;
    Backing::Zoned(if is_whole && geometry.zones() <= MAX_ZONES { disk } else { calm_disk() })
}

/// Most zones of a recorded disk.
const MAX_ZONES: u32 = 8;

fn calm_disk() -> CrashConfig {
    CrashConfig::new(ZoneGeometry::new(4 * 16, 16, 16, 0).expect("it is a shape"))
}

fn timed(disk: CrashConfig, rng: &mut Rng) -> CrashConfig {
    let slowest = Duration::from_micros(some(rng, &[50, 200, 2_000]));
    CrashConfig { fastest: Duration::from_micros(between(rng, 1, 50)), slowest, ..disk }
}

fn draw_zoned(rng: &mut Rng) -> CrashConfig {
    let block_bytes = some(rng, &[512, 4096]);
    let unit = u64::from(block_bytes / 512);
    let zone = some(rng, &[8, 16, 32]);
    let capacity = if rng.chance(1, 3) { zone - between(rng, 1, 3) } else { zone };
    let (zones, conventional) = (between(rng, 2, 6), some(rng, &[0, 0, 1, 2]));
    let zones = zones.max(conventional + 1);
    let geometry = ZoneGeometry::new(zones * zone * unit, zone * unit, capacity * unit, conventional);
    let disk = CrashConfig::new(geometry.expect("a drawn shape is a shape"));
    let max_sectors = rng.chance(1, 2).then(|| between(rng, 1, 4) as u32 * unit as u32);
    let max_append = rng.chance(2, 3).then(|| between(rng, 2, 8).min(zone) as u32 * unit as u32);
    let max_append = max_append.map(|append| append.min(max_sectors.unwrap_or(u32::MAX)));
    let write_cache = rng.chance(3, 4);
    timed(CrashConfig { block_bytes, max_sectors, max_append, write_cache, ..disk }, rng)
}

fn draw_regular(rng: &mut Rng) -> CrashConfig {
    let disk = CrashConfig::regular(64 * 8).expect("a drawn size is a size");
    let block_bytes = some(rng, &[512, 4096]);
    let max_sectors = rng.chance(1, 2).then(|| between(rng, 1, 4) as u32 * 8);
    timed(CrashConfig { block_bytes, max_sectors, ..disk }, rng)
}

shingle_core::impl_display!(Scenario, |self, f| {
    match &self.backing {
        Backing::Zoned(disk) => {
            let geometry = &disk.geometry;
            write!(
                f,
                "{} zones ({} conv) of {} sectors, ",
                geometry.zones(),
                geometry.conventional(),
                geometry.zone_sectors()
            )?;
            write!(f, "most {:?}, append {:?} {:?}, ", disk.max_sectors, disk.max_append, self.plug.append)?;
            write!(f, "cache {}, FUA {}, policy {}; ", disk.write_cache, disk.fua, self.plug.policy)?;
        }
        Backing::Forgetful(disk) => write!(f, "a disk that forgets, most {:?}; ", disk.max_sectors)?,
        Backing::DmZoned(seed) => write!(f, "dm-zoned of {}; ", volumes::describe(*seed, Profile::DmZoned))?,
    }
    write!(
        f,
        "blocks of {}, requests of up to {}, {} tags, depth {}, ",
        self.unit, self.longest, self.tags, self.depth
    )?;
    write!(f, "weights {:?}, data {:?}, {} % FUA, races {}, ", self.weights, self.sameness, self.fua, self.races)?;
    write!(f, "same tags {} %, log {}, span {}, {} requests, ", self.same_tags, self.log, self.span, self.ops)?;
    write!(f, "{} kills up to {} steps apart, {} % of them losses of power", self.kills, self.apart, self.cuts)?;
    write!(f, "{}", if self.registers { ", memory registered" } else { "" })
});
