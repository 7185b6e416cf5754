//! What lies on what in a world of mapped devices: the disks, and of each mapped device which ranges of which devices below
//! it is made of. Tables come and go; this stays.
//!
//! ```text
//!   m2   [ m0 0+64 ][ b 128+64 ]            zoned: runs of whole zones
//!   m1   [ c 40+8 ][ c 0+8 ][ c 48+8 ] ..   regular, here in stripes
//!   m0   [ a 64+128 ][ a 0+64 ]             perhaps encrypted
//!   a zoned, with a plug   b the same   c regular
//! ```

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::base::{between, some};
use super::door::Piece;
use crate::choices::{Choice, Choices};
use crate::disk::CrashConfig;
use crate::model::ZoneShape;
use shingle_core::random::Rng;
use shingle_core::zone::{ResourceLimits, ZoneGeometry, ZoneKind, ZoneNo};

/// Sectors of a device below, as one stretch of a mapped device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The device: a disk, or behind the disks a mapped device.
    pub source: usize,
    pub from: u64,
    pub len: u64,
}

/// `1:64+128`: device, first sector, sectors.
impl Choice for Run {
    fn word(&self) -> String {
        format!("{}:{}+{}", self.source, self.from, self.len)
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        let (source, sectors) = word.split_once(':')?;
        let (from, len) = sectors.split_once('+')?;
        Some(Self { source: source.parse().ok()?, from: from.parse().ok()?, len: len.parse().ok()? })
    }
}

/// How a mapped device is made of its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One behind the other.
    Row,
    /// The same; what lies below is encrypted.
    Crypt,
    /// The runs are chunks of so many stripes.
    Stripes(usize),
    /// The runs are the stripes, in chunks of so many sectors: zones of several disks are one.
    Wide(u64),
}

/// `Row`, `Stripes(3)`.
impl Choice for Form {
    fn read(word: &str, _: &[Self]) -> Option<Self> {
        let (name, value) = word.strip_suffix(')').and_then(|word| word.split_once('(')).unwrap_or((word, ""));
        Some(match name {
            "Row" => Self::Row,
            "Crypt" => Self::Crypt,
            "Stripes" => Self::Stripes(value.parse().ok()?),
            "Wide" => Self::Wide(value.parse().ok()?),
            _ => return None,
        })
    }
}

/// A mapped device.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub name: String,
    pub form: Form,
    pub runs: Vec<Run>,
    pub pieces: Vec<Piece>,
    pub zoned: bool,
    /// What its lines have to be cut at, in sectors.
    pub unit: u64,
}

impl Layout {
    pub fn sectors(&self) -> u64 {
        self.runs.iter().map(|run| run.len).sum()
    }
}

/// Everything that hosts can use.
#[derive(Clone, Debug)]
pub(super) struct Layouts {
    /// The disks: a zoned one, then perhaps another, then perhaps a regular one.
    pub disks: Vec<CrashConfig>,
    pub devices: Vec<Layout>,
    /// For each of the model's zones the disks and zones behind it.
    pub parts: Vec<Vec<(usize, ZoneNo)>>,
    /// What the model has to know of them.
    pub shapes: Vec<ZoneShape>,
    /// What lies behind each disk.
    pub disk_pieces: Vec<Vec<Piece>>,
}

/// Most disks.
const MAX_DISKS: usize = 3;
/// Most mapped devices of a recorded scenario.
const MAX_DEVICES: usize = 8;
/// Most devices that lie on each other.
const DEEPEST: u32 = 3;
/// What regular devices are cut at: the largest block, in sectors.
const BLOCK: u64 = 8;
/// Most chunks of a device in stripes.
const MOST_CHUNKS: u64 = 64;

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
        let (parts, shapes, disk_pieces) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = Self { disks, devices: Vec::new(), parts, shapes, disk_pieces };
        for place in 0..all.disks.len() {
            let (disk, mut pieces, mut start) = (&all.disks[place], Vec::new(), 0);
            let zones = if disk.regular.is_some() { 1 } else { disk.geometry.zones() };
            for zone in (0..zones).map(ZoneNo) {
                let shape = shape(disk, place, zone);
                let (number, len) = (ZoneNo(all.parts.len() as u32), u64::from(shape.len));
                pieces.push(Piece { start, len, zone: number, offset: 0, clear: true, crypt: false, known: true });
                all.parts.push(Vec::from([(place, zone)]));
                all.shapes.push(shape);
                start += len;
            }
            all.disk_pieces.push(pieces);
        }
        all
    }

    /// Disks and mapped devices on them; `first` is the first disk.
    pub fn draw(first: &CrashConfig, rng: &mut Rng) -> Self {
        let mut disks = Vec::from([first.clone()]);
        let second = rng.chance(1, 2);
        if second {
            disks.push(draw_second(first, rng));
        }
        if rng.chance(1, 2) {
            disks.push(draw_regular(first, rng));
        }
        let mut all = Self::of_disks(disks);
        let mut sources: Vec<Source> = (0..all.disks.len()).map(|disk| all.disk_source(disk)).collect();
        if second && rng.chance(1, 2) {
            let (form, runs) = all.draw_wide(rng);
            if all.fits(form, &runs, &sources) {
                all.add(form, runs, &mut sources);
            }
        }
        let mut may_crypt = rng.chance(1, 2);
        for _ in 0..between(rng, 1, 4) {
            let Some((mut runs, zoned_below)) = draw_runs(&mut sources, rng) else { break };
            let mut form = Form::Row;
            if !zoned_below && rng.chance(1, 3) {
                (runs, form) = stripe(&runs, rng);
            } else if may_crypt && rng.chance(1, 2) {
                (may_crypt, form) = (false, Form::Crypt);
            }
            all.add(form, runs, &mut sources);
        }
        all.hide();
        all
    }

    /// The layout with all disks and mapped devices recorded, or replaced by the recorded ones. A recorded device that does not fit on
    /// those below is left out.
    #[must_use]
    pub fn pinned(&self, choices: &mut Choices) -> Self {
        let disks = choices.pin("disks", 1, self.disks.len()).clamp(1, MAX_DISKS);
        let disk = |number: usize| {
            let drawn = self.disks.get(number).unwrap_or(&self.disks[0]).clone();
            choices.scoped("disk", number as u64 + 1, |choices| drawn.pinned(choices))
        };
        let mut all = Self::of_disks((0..disks).map(disk).collect());
        let mut sources: Vec<Source> = (0..disks).map(|disk| all.disk_source(disk)).collect();
        for number in 0..choices.pin("devices", 0, self.devices.len()).min(MAX_DEVICES) {
            let drawn = self.devices.get(number);
            let (form, runs) = choices.scoped("device", number as u64 + 1, |choices| {
                let form = choices.pin("form", Form::Row, drawn.map_or(Form::Row, |device| device.form));
                (form, choices.pin("runs", Vec::new(), drawn.map_or(Vec::new(), |device| device.runs.clone())))
            });
            if all.fits(form, &runs, &sources) {
                all.add(form, runs, &mut sources);
            }
        }
        all.hide();
        all
    }

    /// True if a mapped device can be made of these runs.
    fn fits(&self, form: Form, runs: &[Run], sources: &[Source]) -> bool {
        let Some(first) = runs.first().and_then(|run| sources.get(run.source)) else { return false };
        let is_inside = |run: &Run| {
            sources.get(run.source).is_some_and(|source| {
                let end = source.pieces.last().map_or(0, |piece| piece.start + piece.len);
                let is_cut_at_units = run.from.is_multiple_of(source.unit) && run.len.is_multiple_of(source.unit);
                let is_alike = (source.zoned, source.unit) == (first.zoned, first.unit);
                is_cut_at_units && is_alike && run.len > 0 && run.from.saturating_add(run.len) <= end
            })
        };
        runs.iter().all(is_inside)
            && match form {
                Form::Row | Form::Crypt => true,
                Form::Stripes(stripes) => {
                    stripes > 0
                        && runs.len().is_multiple_of(stripes)
                        && !first.zoned
                        && runs.iter().all(|run| run.len == runs[0].len)
                }
                Form::Wide(chunk) => self.fits_wide(chunk, runs),
            }
    }

    /// True if these runs are the last sequential zones of the first two disks, and hold a chunk.
    fn fits_wide(&self, chunk: u64, runs: &[Run]) -> bool {
        let [Run { source: 0, len: a, .. }, Run { source: 1, len: b, .. }] = runs else { return false };
        let is_last_of = |run: &Run| {
            let geometry = &self.disks[run.source].geometry;
            let zone = u64::from(geometry.zone_sectors());
            run.from >= u64::from(geometry.conventional()) * zone && run.from + run.len == geometry.capacity()
        };
        a == b && runs.iter().all(is_last_of) && self.wide_capacity(chunk) > 0
    }

    /// Sectors that can be written of a zone that is made of one of each of the first two disks.
    fn wide_capacity(&self, chunk: u64) -> u64 {
        let [a, b] = [0, 1].map(|disk: usize| u64::from(self.disks[disk].geometry.zone_capacity()));
        2 * (a.min(b).checked_div(chunk).unwrap_or(0) * chunk)
    }

    /// Adds a mapped device on top, which is named by its number.
    fn add(&mut self, form: Form, runs: Vec<Run>, sources: &mut Vec<Source>) {
        let name = format!("m{}", self.devices.len());
        let below = || runs.iter().map(|run| &sources[run.source]);
        let layout = if let Form::Wide(chunk) = form {
            let pieces = self.widen(chunk, &runs);
            let unit = 2 * u64::from(self.disks[0].geometry.zone_sectors());
            Layout { name, form, pieces, zoned: true, unit, runs: runs.clone() }
        } else {
            let mut pieces = resolve(&runs, sources);
            pieces.iter_mut().for_each(|piece| piece.crypt |= form == Form::Crypt);
            let is_sequential = |piece: &Piece| self.shapes[piece.zone.index()].sequential;
            let zoned = below().any(|source| source.zoned) && pieces.iter().any(is_sequential);
            let unit = below().map(|source| source.unit).max().unwrap_or(1);
            Layout { name, form, pieces, zoned, unit, runs: runs.clone() }
        };
        let depth = 1 + below().map(|source| source.depth).max().unwrap_or(0);
        let free = core::iter::once(0..layout.sectors()).collect();
        let (zoned, unit) = (layout.zoned, if layout.zoned { layout.unit } else { BLOCK });
        if let Form::Wide(_) = form {
            let rest = |run: &Run| core::iter::once(0..run.from).filter(|range| !range.is_empty()).collect();
            runs.iter().for_each(|run| sources[run.source].free = rest(run));
        }
        sources.push(Source { zoned, unit, pieces: layout.pieces.clone(), free, depth });
        self.devices.push(layout);
    }

    /// Wide zones at the ends of the first two disks, if there is room for a chunk in them.
    fn draw_wide(&self, rng: &mut Rng) -> (Form, Vec<Run>) {
        let [a, b] = [&self.disks[0].geometry, &self.disks[1].geometry];
        let count = between(rng, 1, 3).min(a.sequential().into()).min(b.sequential().into());
        let zone = u64::from(a.zone_sectors());
        let block = u64::from(self.disks[0].block_bytes / 512);
        let chunk = some(rng, &[block, zone / 2, zone]).max(block);
        let run =
            |source: usize, zones: u32| Run { source, from: (u64::from(zones) - count) * zone, len: count * zone };
        (Form::Wide(chunk), Vec::from([run(0, a.zones()), run(1, b.zones())]))
    }

    /// The pieces of a device of wide zones, which are zones of their own to the model, and hide those that they are made of.
    fn widen(&mut self, chunk: u64, runs: &[Run]) -> Vec<Piece> {
        let zone = u64::from(self.disks[0].geometry.zone_sectors());
        let firsts: Vec<u32> = runs.iter().map(|run| (run.from / zone) as u32).collect();
        for (pieces, first) in self.disk_pieces.iter_mut().zip(&firsts) {
            pieces[*first as usize..].iter_mut().for_each(|piece| (piece.clear, piece.known) = (false, false));
        }
        let write_cache = self.disks[..2].iter().any(|disk| disk.write_cache);
        let (len, capacity) = (2 * zone, self.wide_capacity(chunk) as u32);
        let widened = (0..runs[0].len / zone).map(|number| {
            let wide = ZoneNo(self.parts.len() as u32);
            self.parts.push((0..2).map(|disk| (disk, ZoneNo(firsts[disk] + number as u32))).collect());
            self.shapes.push(ZoneShape { sequential: true, len: len as u32, capacity, write_cache, disks: 0b11 });
            Piece { start: number * len, len, zone: wide, offset: 0, clear: true, crypt: false, known: true }
        });
        widened.collect()
    }

    /// Below an encryption nothing reads as it was written.
    fn hide(&mut self) {
        let all = || self.devices.iter().flat_map(|device| &device.pieces);
        let hidden: Vec<Piece> = all().filter(|piece| piece.crypt).copied().collect();
        let overlaps = |a: &Piece, b: &Piece| {
            let end = |piece: &Piece| u64::from(piece.offset) + piece.len;
            a.zone == b.zone && u64::from(a.offset) < end(b) && u64::from(b.offset) < end(a)
        };
        let devices = self.devices.iter_mut().map(|device| &mut device.pieces);
        for piece in self.disk_pieces.iter_mut().chain(devices).flatten().filter(|piece| !piece.crypt) {
            piece.clear &= !hidden.iter().any(|other| overlaps(other, piece));
        }
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

    /// Whether mapped devices lie on this one.
    pub fn has_users(&self, device: usize) -> bool {
        !self.users(device).is_empty()
    }

    /// The mapped devices that lie on this one, or on one that does; none before those that it lies on.
    pub fn users(&self, device: usize) -> Vec<usize> {
        let mut found = Vec::from([device]);
        for above in device + 1..self.devices.len() {
            let lies_on =
                |run: &Run| run.source.checked_sub(self.disks.len()).is_some_and(|below| found.contains(&below));
            if self.devices[above].runs.iter().any(lies_on) {
                found.push(above);
            }
        }
        found.split_off(1)
    }

    fn disk_source(&self, disk: usize) -> Source {
        let pieces = self.disk_pieces[disk].clone();
        let zoned = self.is_zoned(disk);
        let unit = if zoned { u64::from(self.disks[disk].geometry.zone_sectors()) } else { BLOCK };
        let end = pieces.last().map_or(0, |piece| piece.start + piece.len);
        Source { zoned, unit, free: core::iter::once(0..end).collect(), pieces, depth: 0 }
    }
}

/// What the model has to know of a zone of a disk.
fn shape(disk: &CrashConfig, place: usize, zone: ZoneNo) -> ZoneShape {
    let whole = (disk.geometry.len(zone), disk.geometry.capacity_of(zone));
    let (len, capacity) = disk.regular.map_or(whole, |sectors| (sectors as u32, sectors as u32));
    let sequential = disk.geometry.kind(zone) == ZoneKind::Sequential;
    ZoneShape { sequential, len, capacity, write_cache: disk.write_cache, disks: 1 << place }
}

/// Where the sectors of runs lie in the model's zones.
fn resolve(runs: &[Run], sources: &[Source]) -> Vec<Piece> {
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

/// Chunks of the runs in turn, as far as the shortest goes.
fn stripe(runs: &[Run], rng: &mut Rng) -> (Vec<Run>, Form) {
    let chunk = some(rng, &[BLOCK, 2 * BLOCK, 3 * BLOCK]);
    let shortest = runs.iter().map(|run| run.len / chunk).min().unwrap_or(0).min(MOST_CHUNKS / runs.len() as u64);
    if shortest == 0 {
        return (runs.to_vec(), Form::Row);
    }
    let row = |row: u64| runs.iter().map(move |run| Run { from: run.from + row * chunk, len: chunk, ..*run });
    ((0..shortest).flat_map(row).collect(), Form::Stripes(runs.len()))
}

/// One to three runs, of zoned devices or of regular ones; `None` if nothing is left to take.
fn draw_runs(sources: &mut [Source], rng: &mut Rng) -> Option<(Vec<Run>, bool)> {
    let open = |source: &Source| source.depth < DEEPEST && !source.free.is_empty();
    let kinds: Vec<(bool, u64)> = sources.iter().filter(|s| open(s)).map(|s| (s.zoned, s.unit)).collect();
    let kind = some(rng, if kinds.is_empty() { return None } else { &kinds });
    let mut runs = Vec::new();
    for _ in 0..between(rng, 1, 3) {
        let fits = |source: &usize| open(&sources[*source]) && (sources[*source].zoned, sources[*source].unit) == kind;
        let usable: Vec<usize> = (0..sources.len()).filter(fits).collect();
        let Some(newest) = usable.last().copied() else { break };
        // Mostly on what was drawn last: stacks are to be high.
        let source = if rng.chance(2, 3) { newest } else { some(rng, &usable) };
        let (from, len) = take(&mut sources[source], rng);
        runs.push(Run { source, from, len });
    }
    Some((runs, kind.0))
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
    // A plug, such as `crypt` brings along over both, takes zones of one capacity.
    let capacity = first.geometry.zone_capacity().into();
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
pub(super) fn draw_regular(first: &CrashConfig, rng: &mut Rng) -> CrashConfig {
    let regular = CrashConfig::regular(between(rng, 2, 60) * BLOCK).expect("a drawn size is one");
    let block = some(rng, &[512, 4096]);
    // A table over both disks would take blocks of which the first cannot take one, and be refused.
    let takes_block = first.max_sectors.is_none_or(|most| most >= block / 512);
    CrashConfig {
        block_bytes: if takes_block { block } else { first.block_bytes },
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

shingle_core::impl_display!(Layouts, |self, f| {
    for disk in &self.disks[1..] {
        let kind = if disk.regular.is_some() { "a regular disk" } else { "a second zoned disk" };
        write!(f, ", {kind}")?;
    }
    for Layout { name, runs, form, .. } in &self.devices {
        write!(f, ", {name} {form:?}:")?;
        for Run { source, from, len } in runs {
            write!(f, " {} {from}+{len}", self.name(*source))?;
        }
    }
    Ok(())
});

#[cfg(test)]
mod tests {
    use super::super::scenario::Scenario;
    use super::*;
    use crate::disk::CrashDisk;
    use crate::fault::FaultPlan;
    use crate::profile::Profile;
    use shingle_core::block::{BlockDevice, Limits};

    #[test]
    fn one_table_can_lie_on_all_disks_of_a_world() {
        for seed in 0..2000 {
            let world = Scenario::draw(seed, Profile::Mapper);
            let limits = |config: &CrashConfig| {
                let disk = CrashDisk::new(config.clone(), FaultPlan::none(), seed).unwrap();
                // Their conventional zones, and those of a regular disk.
                Limits { zoned: None, ..disk.limits().clone() }
            };
            let all = world.layouts.disks.iter().map(limits).reduce(|all, disk| all.stack(&disk).unwrap());
            assert_eq!(all.unwrap().validate(), Ok(()), "seed {seed}: {world}");
        }
    }
}
