//! What a seed draws: disks, what is made of them, and mapped devices below and above that.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use shingle_core::block::{BlockDevice as _, DeviceId};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::time::Duration;
use shingle_core::zone::ZoneGeometry;
use shingle_host::devices::Named;
use shingle_host::shard::Shard;
use shingle_sim::Choices;
use shingle_sim::disk::{CrashConfig, Medium};
use shingle_sim::volume::{BLOCK_BYTES, BLOCK_SECTORS, Volume};

use super::disk::{Disk, Health};
use super::{BESIDE, media};

/// What is made of the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Stl,
    DmZoned,
}

/// Disks and tables, in the order in which they are made.
pub struct Scene {
    kind: Kind,
    disks: Vec<(String, CrashConfig)>,
    /// So many of the disks are what the volume is made of.
    members: usize,
    /// Of the volume.
    blocks: u32,
    tables: Vec<(String, String)>,
    top: String,
}

/// Blocks of a zone.
pub const ZONE_BLOCKS: u32 = 32;
/// Blocks of a disk of a plain volume, and of one that takes a log.
const BLOCKS: u32 = 64;
const LOG_BLOCKS: u32 = 4096;

impl Scene {
    /// Draws all of it and makes the volume. Returns what the disks hold then.
    pub fn draw(rng: &mut Rng) -> Result<(Self, Vec<Medium>), String> {
        let kind = [Kind::Plain, Kind::Plain, Kind::Stl, Kind::DmZoned][rng.below(4) as usize];
        let configs = draw_disks(kind, rng);
        let (members, top) = (configs.len(), String::new());
        let mut scene = Self { kind, disks: Vec::new(), members, blocks: BLOCKS, tables: Vec::new(), top };
        configs.into_iter().for_each(|config| scene.add_disk("disk", config));
        let mut left = Vec::new();
        if kind != Kind::Plain {
            (scene.blocks, left) = media::format(kind, &scene.members(), rng)?;
        }
        scene.raise(rng);
        for (_, config) in &scene.disks[left.len()..] {
            let disk = media::power_on(config, None, rng)?;
            left.push(Choices::of(rng, |choices| disk.cut_power(choices)));
        }
        Ok((scene, left))
    }

    /// The model of its volume.
    pub fn volume(&self) -> Volume {
        if self.kind == Kind::Stl { Volume::in_order(self.blocks) } else { Volume::new(self.blocks) }
    }

    /// Whether what is discarded reads as zeroes. Others may leave it as it is.
    pub fn forgets(&self) -> bool {
        self.kind != Kind::Plain
    }

    /// What users use.
    pub fn top(&self) -> &str {
        &self.top
    }

    /// Names of mapped devices, and their lines.
    pub fn tables(&self) -> &[(String, String)] {
        &self.tables
    }

    /// Looks at what a stop has left.
    pub fn check(&self, left: (&[Medium], Option<u64>), rng: &mut Rng) -> Result<(), String> {
        media::look(self.kind, &self.members(), left, rng)
    }

    /// Version of the metadata on these disks.
    pub fn version(&self, left: &[Medium], rng: &mut Rng) -> Option<u64> {
        media::version(self.kind, &self.members(), left, rng)
    }

    /// Puts the disks on a shard, with plugs where they have zones.
    pub fn add_disks(
        &self,
        shard: &mut Shard,
        (left, health): (Vec<Medium>, &[Rc<Cell<Health>>]),
        rng: &mut Rng,
    ) -> Result<Vec<DeviceId>, String> {
        let mut leaves = Vec::new();
        for (((name, config), left), health) in self.disks.iter().zip(left).zip(health) {
            let disk = media::power_on(config, Some(left), rng)?;
            let is_zoned = disk.limits().zoned.is_some();
            let disk = shard.stack.add(Box::new(Disk::new(disk, health.clone())));
            let leaf = disk.map_err(|error| error.to_string())?;
            let (mut device, mut plug) = (leaf, None);
            if is_zoned {
                let new = ZonePlug::new(leaf, shard.stack.limits(leaf), PlugOptions::default());
                let new = shard.stack.add(Box::new(new.map_err(|error| error.to_string())?));
                device = new.map_err(|error| error.to_string())?;
                plug = Some(device);
            }
            shard.devices.add_disk(Named { name: name.clone(), kind: "file", device, leaf, plug }, None);
            leaves.push(leaf);
        }
        Ok(leaves)
    }

    /// Number of disks.
    pub fn disks(&self) -> usize {
        self.disks.len()
    }

    fn members(&self) -> Vec<CrashConfig> {
        self.disks[..self.members].iter().map(|(_, config)| config.clone()).collect()
    }

    fn add_disk(&mut self, what: &str, config: CrashConfig) {
        self.disks.push((format!("{what}{}", self.disks.len()), config));
    }

    /// Adds a table of one line and so many blocks. Returns the name of its device.
    fn add_table(&mut self, sectors: u64, line: &str) -> String {
        let name = format!("map{}", self.tables.len());
        self.tables.push((name.clone(), format!("0 {sectors} {line}")));
        name
    }

    /// Maps what is called `name` once or twice, or not at all.
    fn behind_doors(&mut self, name: String, sectors: u64, rng: &mut Rng) -> String {
        (0..rng.below(3)).fold(name, |below, _| self.add_table(sectors, &format!("linear {below} 0")))
    }

    fn raise(&mut self, rng: &mut Rng) {
        let mut below = Vec::new();
        for number in 0..self.members {
            let (name, config) = self.disks[number].clone();
            let sectors = config.regular.unwrap_or(config.geometry.capacity());
            below.push(self.behind_doors(name, sectors, rng));
        }
        let sectors = u64::from(self.blocks) * u64::from(BLOCK_SECTORS);
        let line = match self.kind {
            Kind::Stl => format!("stl {} batch:8 memory:4 runs:4", below.join(" ")),
            Kind::DmZoned => format!("zoned {}", below.join(" ")),
            Kind::Plain if rng.chance(1, 3) => format!("striped 2 16 {} 0 {} 0", below[0], below[1]),
            Kind::Plain => format!("linear {} 0", below[0]),
        };
        let mut top = self.add_table(sectors, &line);
        for _ in 0..rng.below(4) {
            let line = match rng.below(3) {
                0 => format!("linear {top} 0"),
                1 => format!("delay {top} 0 {}", rng.below(15)),
                _ => format!("log-writes {top} {}", self.add_log(rng)),
            };
            top = self.add_table(sectors, &line);
        }
        self.top = top;
        if rng.chance(1, 2) {
            let (data, log) = (self.add_log(rng), self.add_log(rng));
            self.tables.push((BESIDE.into(), format!("0 1024 log-writes {data} {log}")));
        }
    }

    /// Another disk, for a log, perhaps behind doors.
    fn add_log(&mut self, rng: &mut Rng) -> String {
        let config = regular(LOG_BLOCKS, rng);
        let sectors = config.regular.expect("it is regular");
        self.add_disk("log", config);
        let name = self.disks[self.disks.len() - 1].0.clone();
        self.behind_doors(name, sectors, rng)
    }
}

fn draw_disks(kind: Kind, rng: &mut Rng) -> Vec<CrashConfig> {
    let is_cached = rng.chance(1, 2);
    match kind {
        Kind::Plain => (0..2).map(|_| regular(BLOCKS, rng)).collect(),
        Kind::Stl => (0..1 + rng.below(2)).map(|_| zoned(0, rng)).collect(),
        Kind::DmZoned if is_cached => vec![regular(14 * ZONE_BLOCKS, rng), zoned(0, rng)],
        Kind::DmZoned => vec![zoned(14, rng)],
    }
}

fn regular(blocks: u32, rng: &mut Rng) -> CrashConfig {
    let config = CrashConfig::regular(u64::from(blocks) * u64::from(BLOCK_SECTORS)).expect("a drawn size is a size");
    timed(config, rng)
}

fn zoned(conventional: u64, rng: &mut Rng) -> CrashConfig {
    let zone = u64::from(ZONE_BLOCKS * BLOCK_SECTORS);
    let zones = 20 + conventional + rng.below(8);
    let geometry = ZoneGeometry::new(zones * zone, zone, zone, conventional).expect("a drawn shape is a shape");
    timed(CrashConfig::new(geometry), rng)
}

/// Some disks are slow, and a few have no cache.
fn timed(config: CrashConfig, rng: &mut Rng) -> CrashConfig {
    let slowest = [200, 2_000, 20_000][rng.below(3) as usize];
    let (write_cache, slowest) = (rng.chance(5, 6), Duration::from_micros(slowest));
    let fua_alone = true;
    CrashConfig { block_bytes: BLOCK_BYTES as u32, max_append: None, write_cache, slowest, fua_alone, ..config }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} blocks", self.kind, self.blocks)?;
        for (name, config) in &self.disks {
            let (zones, slowest) = (config.geometry.zones(), config.slowest.0 / 1_000);
            write!(f, ", {name} ({zones} zones, cache {}, {slowest} us)", config.write_cache)?;
        }
        self.tables.iter().try_for_each(|(name, line)| write!(f, "; {name}: {line}"))
    }
}
