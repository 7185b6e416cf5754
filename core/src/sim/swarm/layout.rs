//! What lies on what in a world of mapped devices: the disks, and of each mapped device which ranges of which devices below
//! it is made of. Tables come and go; this stays.
//!
//! ```text
//!   m2   [ m0 0+64 ][ b 128+64 ]            zoned: runs of whole zones
//!   m1   [ r 40+120 ][ r 0+40 ]             regular
//!   m0   [ a 64+128 ][ a 0+64 ]
//!   a zoned, with a plug   b the same   r regular
//! ```

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::door::{Piece, ZoneSet, one};
use super::scenario::{between, some};
use crate::random::Rng;
use crate::sim::disk::CrashConfig;
use crate::sim::model::ZoneShape;
use crate::zone::{ResourceLimits, ZoneGeometry, ZoneKind, ZoneNo};

/// Sectors of a device below, as one stretch of a mapped device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The device: a disk, or behind the disks a mapped device.
    pub source: usize,
    pub from: u64,
    pub len: u64,
}

/// A mapped device.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub name: String,
    pub runs: Vec<Run>,
    pub pieces: Vec<Piece>,
    pub zoned: bool,
    /// What its lines have to be cut at, in sectors.
    pub unit: u64,
}

/// Everything that hosts can use.
#[derive(Clone, Debug)]
pub(super) struct Layouts {
    /// The disks: a zoned one, then perhaps another, then perhaps a regular one.
    pub disks: Vec<CrashConfig>,
    pub devices: Vec<Layout>,
    /// For each of the model's zones the disks and zones behind it.
    pub parts: Vec<Vec<(usize, ZoneNo)>>,
}

/// Most devices that lie on each other.
const DEEPEST: u32 = 3;
/// What regular devices are cut at: the largest block, in sectors.
const BLOCK: u64 = 8;

/// What is known of a device while others are drawn above it.
struct Source {
    zoned: bool,
    unit: u64,
    pieces: Vec<Piece>,
    /// What nobody above has taken yet.
    free: Vec<Range<u64>>,
    depth: u32,
}

impl Layouts {
    /// A disk alone.
    pub fn of_disk(disk: &CrashConfig) -> Self {
        Self::of_disks(Vec::from([disk.clone()]))
    }

    fn of_disks(disks: Vec<CrashConfig>) -> Self {
        let zones = |(place, disk): (usize, &CrashConfig)| {
            let zones = if disk.regular.is_some() { 1 } else { disk.geometry.zones() };
            (0..zones).map(move |zone| Vec::from([(place, ZoneNo(zone))])).collect::<Vec<_>>()
        };
        let parts = disks.iter().enumerate().flat_map(zones).collect();
        Self { disks, devices: Vec::new(), parts }
    }

    /// Disks and mapped devices on them; `first` is the first disk.
    pub fn draw(first: &CrashConfig, rng: &mut Rng) -> Self {
        let mut disks = Vec::from([first.clone()]);
        if rng.chance(1, 2) {
            disks.push(draw_second(first, rng));
        }
        if rng.chance(1, 2) {
            disks.push(draw_regular(first, rng));
        }
        let mut all = Self::of_disks(disks);
        let mut sources: Vec<Source> = (0..all.disks.len()).map(|disk| all.disk_source(disk)).collect();
        for number in 0..between(rng, 1, 4) {
            let Some((runs, zoned_below)) = draw_runs(&mut sources, rng) else { break };
            let pieces = all.resolve(&runs, &sources);
            let zoned = zoned_below && pieces.iter().any(|piece| all.shape(piece.zone).sequential);
            let unit = runs.iter().map(|run| sources[run.source].unit).max().unwrap_or(1);
            let depth = 1 + runs.iter().map(|run| sources[run.source].depth).max().unwrap_or(0);
            let free = core::iter::once(0..runs.iter().map(|run| run.len).sum()).collect();
            let unit_above = if zoned { unit } else { BLOCK };
            sources.push(Source { zoned, unit: unit_above, pieces: pieces.clone(), free, depth });
            all.devices.push(Layout { name: format!("m{number}"), runs, pieces, zoned, unit });
        }
        all
    }

    /// The name of a device in tables.
    pub fn name(&self, source: usize) -> &str {
        match source.checked_sub(self.disks.len()) {
            Some(device) => &self.devices[device].name,
            None => ["a", "b", "c"][source],
        }
    }

    /// Whether a disk or a mapped device is zoned.
    pub fn is_zoned(&self, source: usize) -> bool {
        match source.checked_sub(self.disks.len()) {
            Some(device) => self.devices[device].zoned,
            None => self.disks[source].regular.is_none(),
        }
    }

    /// The mapped devices that lie on this one.
    pub fn has_users(&self, device: usize) -> bool {
        let source = self.disks.len() + device;
        self.devices.iter().any(|above| above.runs.iter().any(|run| run.source == source))
    }

    /// What the model has to know of its zones.
    pub fn shapes(&self) -> Vec<ZoneShape> {
        (0..self.parts.len() as u32).map(|zone| self.shape(ZoneNo(zone))).collect()
    }

    fn shape(&self, zone: ZoneNo) -> ZoneShape {
        let (place, zone) = self.parts[zone.index()][0];
        let disk = &self.disks[place];
        let whole = (disk.geometry.len(zone), disk.geometry.capacity_of(zone));
        let (len, capacity) = disk.regular.map_or(whole, |sectors| (sectors as u32, sectors as u32));
        let sequential = disk.geometry.kind(zone) == ZoneKind::Sequential;
        ZoneShape { sequential, len, capacity, write_cache: disk.write_cache, disks: 1 << place }
    }

    /// What lies behind a disk.
    pub fn disk_pieces(&self, disk: usize) -> Vec<Piece> {
        let own = self.parts.iter().enumerate().filter(|(_, parts)| parts[0].0 == disk);
        let mut start = 0;
        let piece = |(zone, _)| {
            let zone = ZoneNo(zone as u32);
            let len = u64::from(self.shape(zone).len);
            start += len;
            Piece { start: start - len, len, zone, offset: 0, clear: true }
        };
        own.map(piece).collect()
    }

    fn disk_source(&self, disk: usize) -> Source {
        let pieces = self.disk_pieces(disk);
        let zoned = self.disks[disk].regular.is_none();
        let unit = if zoned { u64::from(self.disks[disk].geometry.zone_sectors()) } else { BLOCK };
        let end = pieces.last().map_or(0, |piece| piece.start + piece.len);
        Source { zoned, unit, free: core::iter::once(0..end).collect(), pieces, depth: 0 }
    }

    /// Where the sectors of runs lie in the model's zones.
    fn resolve(&self, runs: &[Run], sources: &[Source]) -> Vec<Piece> {
        let (mut pieces, mut start) = (Vec::new(), 0);
        for Run { source, from, len } in runs {
            for below in &sources[*source].pieces {
                let (first, end) = (below.start.max(*from), (below.start + below.len).min(from + len));
                if first < end {
                    let offset = below.offset + (first - below.start) as u32;
                    pieces.push(Piece { start: start + first - from, len: end - first, offset, ..*below });
                }
            }
            start += len;
        }
        pieces
    }
}

/// The zones in which pieces lie.
pub(super) fn zones_of(pieces: &[Piece]) -> ZoneSet {
    pieces.iter().fold(0, |zones, piece| zones | one(piece.zone))
}

/// One to three runs, of zoned devices or of regular ones; `None` if nothing is left to take.
fn draw_runs(sources: &mut [Source], rng: &mut Rng) -> Option<(Vec<Run>, bool)> {
    let open = |source: &Source| source.depth < DEEPEST && !source.free.is_empty();
    let kinds: Vec<bool> = sources.iter().filter(|source| open(source)).map(|source| source.zoned).collect();
    let zoned = some(rng, if kinds.is_empty() { return None } else { &kinds });
    let mut runs = Vec::new();
    for _ in 0..between(rng, 1, 3) {
        let fits = |source: &&usize| open(&sources[**source]) && sources[**source].zoned == zoned;
        let numbers: Vec<usize> = (0..sources.len()).collect();
        let usable: Vec<usize> = numbers.iter().filter(fits).copied().collect();
        let Some(newest) = usable.last().copied() else { break };
        // Mostly on what was drawn last: stacks are to be high.
        let source = if rng.chance(2, 3) { newest } else { some(rng, &usable) };
        let (from, len) = take(&mut sources[source], rng);
        runs.push(Run { source, from, len });
    }
    Some((runs, zoned))
}

/// Takes some of what is free.
fn take(source: &mut Source, rng: &mut Rng) -> (u64, u64) {
    let free = source.free.swap_remove(rng.below(source.free.len() as u64) as usize);
    let units = (free.end - free.start) / source.unit;
    let first = if rng.chance(2, 3) { 0 } else { rng.below(units) };
    let count = if rng.chance(1, 2) { units - first } else { between(rng, 1, units - first) };
    let (start, end) = (free.start + first * source.unit, free.start + (first + count) * source.unit);
    source.free.extend([free.start..start, end..free.end].into_iter().filter(|range| !range.is_empty()));
    (start, end - start)
}

/// Another disk with zones of the same size.
fn draw_second(first: &CrashConfig, rng: &mut Rng) -> CrashConfig {
    let zone = u64::from(first.geometry.zone_sectors());
    let zones = between(rng, 2, 10);
    let block = u64::from(first.block_bytes) / 512;
    let capacity = if rng.chance(1, 3) { between(rng, 1, zone / block) * block } else { zone };
    let geometry = ZoneGeometry::new(zones * zone, zone, capacity, rng.below(zones / 2 + 1));
    CrashConfig {
        geometry: geometry.expect("a drawn shape is a shape"),
        resources: ResourceLimits::NONE,
        write_cache: rng.chance(2, 3),
        max_append: first.max_append.and(some(rng, &[first.max_append, Some(block as u32)])),
        ..first.clone()
    }
}

/// A disk without zones.
fn draw_regular(first: &CrashConfig, rng: &mut Rng) -> CrashConfig {
    let regular = CrashConfig::regular(between(rng, 2, 60) * BLOCK).expect("a drawn size is one");
    CrashConfig {
        block_bytes: some(rng, &[512, 4096]),
        max_sectors: some(rng, &[None, Some(8), Some(64)]),
        max_segments: first.max_segments,
        max_write_zeroes: rng.chance(1, 2).then_some(64),
        write_cache: rng.chance(2, 3),
        fastest: first.fastest,
        slowest: first.slowest,
        timeout: first.timeout,
        ..regular
    }
}

impl fmt::Display for Layouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for disk in &self.disks[1..] {
            let kind = if disk.regular.is_some() { "a regular disk" } else { "a second zoned disk" };
            write!(f, ", {kind}")?;
        }
        for Layout { name, runs, .. } in &self.devices {
            write!(f, ", {name}:")?;
            for Run { source, from, len } in runs {
                write!(f, " {} {from}+{len}", self.name(*source))?;
            }
        }
        Ok(())
    }
}
