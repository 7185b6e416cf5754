//! Checks what a volume has on its disks, in time that is linear in that; nothing is written.
//!
//! ```text
//!   roots ──> tables ──> batches behind the root ──> map, leaf by leaf ──> marks ── zone by zone ── headers (── data)
//!                                                     └── once more for the blocks of zones whose marks and headers differ
//! ```

use alloc::collections::{BTreeMap, BTreeSet};

use super::chain::{Chain, Entry, Expected, chain};
use super::finding::{Finding, Findings};
use super::marks::{Marks, Odd};
use super::media::{Media, PIECE, Progress};
use super::volume::{FindError, Volume};
use super::walk::Walk;
use crate::dm::stl::format::{Checksum, ZoneUse};
use crate::dm::stl::log::Stream;
use crate::dm::stl::map::LeafNo;
use crate::dm::stl::{BLOCK_BYTES, Lba, Pba, ZoneIndex};
use crate::prelude::*;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The volume, if there is one at all.
    pub volume: Option<Volume>,
    /// What is not as it should be.
    pub findings: Findings,
    /// Live blocks of each zone, counted anew.
    pub live: Vec<u32>,
    /// Blocks whose data was read and checked.
    pub read_blocks: u64,
}

impl Report {
    /// Live blocks of the volume.
    #[must_use]
    pub fn live_blocks(&self) -> u64 {
        self.live.iter().map(|live| u64::from(*live)).sum()
    }

    /// Zones that are used so.
    #[must_use]
    pub fn zones(&self, used_for: ZoneUse) -> usize {
        let rows = self.volume.iter().flat_map(|volume| &volume.zones);
        rows.filter(|row| row.is_some_and(|row| row.used_for == used_for)).count()
    }
}

/// What a check looks at.
pub struct Depth<'a> {
    /// Told how many blocks of data are read next: it may wait. `None`: data is not read.
    pub pace: Option<&'a mut dyn FnMut(u32)>,
}

/// Zones whose blocks are compared one by one in one walk over the map.
const ZONES_AT_ONCE: usize = 64;

/// Checks the volume on these disks. What cannot be read is a finding, too.
pub fn check(media: &mut dyn Media, mut depth: Depth<'_>, progress: Progress<'_>) -> Report {
    let mut report = Report::default();
    let volume = match Volume::find(media, &mut report.findings) {
        Ok(volume) => volume,
        Err(FindError::None(why)) => {
            report.findings.add(Finding::NoVolume(why));
            return report;
        }
        Err(FindError::Members(wrong)) => {
            report.findings = Findings::default();
            report.findings.add(Finding::Members(wrong));
            return report;
        }
    };
    let (leaves, zones) = (volume.leaves.len() as u64, volume.zones.len() as u64);
    let marks = mark(media, &volume, &mut report.findings, &mut |done| progress(done, leaves + zones));
    report.live = volume.space.zones().map(|zone| marks.live(zone)).collect();
    let mut differ = Vec::new();
    for zone in volume.space.zones() {
        let entries = check_zone(media, &volume, (zone, &marks), &mut report.findings);
        if !marks.are(zone, &entries) {
            differ.push(zone);
        }
        if let Some(pace) = &mut depth.pace {
            report.read_blocks += read_data(media, &volume, (&entries, &mut **pace), &mut report.findings);
        }
        progress(leaves + u64::from(zone.0) + 1, leaves + zones);
    }
    for zones in differ.chunks(ZONES_AT_ONCE) {
        compare(media, &volume, zones, &mut report.findings);
    }
    report.volume = Some(volume);
    report
}

/// Goes over the map.
fn mark(media: &mut dyn Media, volume: &Volume, findings: &mut Findings, step: &mut dyn FnMut(u64)) -> Marks {
    let (mut marks, mut walk) = (Marks::new(&volume.space), Walk::new(volume));
    for leaf in (0..volume.leaves.len() as u32).map(LeafNo) {
        let (extents, _) = walk.leaf(media, leaf, findings);
        for extent in extents.iter() {
            marks.add(&volume.space, extent, &mut |odd, lba, place| {
                findings.add(match odd {
                    Odd::Nowhere => Finding::Nowhere { lba, place },
                    Odd::Twice => Finding::Twice { lba, place },
                });
            });
        }
        step(u64::from(leaf.0) + 1);
    }
    marks
}

/// Checks a zone; its live blocks as its headers have them.
fn check_zone(
    media: &mut dyn Media,
    volume: &Volume,
    (zone, marks): (ZoneIndex, &Marks),
    findings: &mut Findings,
) -> Vec<Entry> {
    let live = marks.live(zone);
    let used_for = volume.zones[zone.0 as usize].map(|row| row.used_for);
    let is_beyond = volume.beyond.iter().any(|(beyond, _)| *beyond == zone);
    if let Some(used_for @ (ZoneUse::Free | ZoneUse::Roots)) = used_for
        && !is_beyond
    {
        if live > 0 {
            findings.add(Finding::LiveIn { zone, used_for: used_for.name(), blocks: live });
        }
        return Vec::new();
    }
    let pointer = volume.space.pointer(zone);
    let behind = marks.live_from(zone, pointer);
    if behind > 0 {
        findings.add(Finding::BehindPointer { zone, blocks: behind, pointer });
    }
    let (chain, end) = follow(media, volume, zone);
    if chain.end < end {
        let why = chain.why.clone().unwrap_or_default();
        findings.add(Finding::Header { zone, block: chain.end, end, why });
    }
    let start = volume.space.set.start(zone);
    let is_live = |entry: &Entry| marks.is_live(zone, (entry.place - start) as u32);
    chain.found.iter().flat_map(|found| found.entries().filter(is_live).collect::<Vec<_>>()).collect()
}

/// The batches of a zone, and the block at which they should end.
pub fn follow(media: &mut dyn Media, volume: &Volume, zone: ZoneIndex) -> (Chain, u32) {
    let pointer = volume.space.pointer(zone);
    let row = volume.zones[zone.0 as usize];
    let beyond = volume.beyond.iter().find(|(beyond, _)| *beyond == zone).map(|(_, end)| *end);
    let generation = row.filter(|row| row.used_for != ZoneUse::Free).map(|row| row.generation);
    let is_named = volume.newest.root.open.iter().any(|open| volume.space.set.zone_of(open.start).0 == zone);
    let end = match row.map(|row| (row.used_for, row.written)) {
        // It may have lost all that the root does not cover.
        _ if is_named => 0,
        _ if beyond.is_some() => beyond.unwrap_or_default(),
        // Parts of the map that no root names may have been under way when a root said that it is full. Those that count are read one by one.
        _ if row.is_some_and(|row| row.stream == Stream::Map as u8) => 0,
        Some((ZoneUse::Full | ZoneUse::Dead, written)) => written.min(pointer),
        // Nobody has said yet where it ends.
        _ => 0,
    };
    let up_to = if end > 0 { end } else { pointer };
    let expected = Expected { set: Some(volume.id()), generation, ..Expected::default() };
    (chain(media, &volume.space, (zone, up_to), expected), end)
}

/// Reads live blocks of a zone, in their order there; how many.
fn read_data(
    media: &mut dyn Media,
    volume: &Volume,
    (entries, pace): (&[Entry], &mut dyn FnMut(u32)),
    findings: &mut Findings,
) -> u64 {
    for run in entries.chunk_by(|one, next| one.place + 1 == next.place) {
        for part in run.chunks(PIECE as usize) {
            pace(part.len() as u32);
            match volume.space.read(media, part[0].place, part.len() as u32) {
                Ok(bytes) => {
                    part.iter().zip(bytes.chunks(BLOCK_BYTES)).for_each(|(entry, data)| judge(entry, data, findings))
                }
                // One by one: which of them is it?
                Err(_) => part.iter().for_each(|entry| match volume.space.read(media, entry.place, 1) {
                    Ok(data) => judge(entry, &data, findings),
                    Err(error) => findings.add(Finding::Unreadable { lba: entry.lba, place: entry.place, error }),
                }),
            }
        }
    }
    entries.len() as u64
}

fn judge(entry: &Entry, data: &[u8], findings: &mut Findings) {
    if Checksum::of_block(entry.lba, data) != entry.checksum {
        findings.add(Finding::Checksum { lba: entry.lba, place: entry.place });
    }
}

/// Compares the map with the headers of these zones, block by block.
fn compare(media: &mut dyn Media, volume: &Volume, zones: &[ZoneIndex], findings: &mut Findings) {
    let mut headers: BTreeMap<Pba, (Lba, Checksum)> = BTreeMap::new();
    for zone in zones {
        let (chain, _) = follow(media, volume, *zone);
        let entries = chain.found.iter().flat_map(|found| found.entries().collect::<Vec<_>>());
        headers.extend(entries.map(|entry| (entry.place, (entry.lba, entry.checksum))));
    }
    let (wanted, mut walk): (BTreeSet<ZoneIndex>, _) = (zones.iter().copied().collect(), Walk::new(volume));
    for leaf in (0..volume.leaves.len() as u32).map(LeafNo) {
        // What cannot be read was told.
        let (extents, _) = walk.leaf(media, leaf, &mut Findings::default());
        for extent in extents.iter() {
            for (lba, place, checksum) in extent.data() {
                let is_wanted = wanted.contains(&volume.space.set.zone_of(place).0);
                if is_wanted && headers.get(&place) != Some(&(lba, checksum)) {
                    let has = headers.get(&place).map(|(lba, _)| *lba);
                    findings.add(Finding::Elsewhere { lba, place, has });
                }
            }
        }
    }
}
