//! Checks a set by the rules of `dmzadm --check` and some of our own, mends it, gives it another name, and gets out of it
//! what is left if it cannot be mended.
//!
//! ```text
//!   superblocks ── choose ──> mapping table ──> bitmaps ──> the other set ──> third superblocks
//!     all rules are about what is on the disks: nothing is written here but by `repair` and `relabel`
//! ```

mod bitmaps;
mod finding;
mod repair;
mod report;
mod salvage;
mod superblocks;

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub use bitmaps::Counts;
pub use finding::{Finding, Whose};
pub use repair::{Repair, RepairError, relabel, repair};
pub use report::{Report, Third};
pub use salvage::{Loss, NothingThere, Salvage, Source};

use super::BLOCK_BYTES;
use super::format::{
    Entry, LoadError, Media, NO_ZONE, Other, Progress, Sets, Superblock, SuperblockProblem, Volume, pieces, tertiaries,
};

/// Checks everything that a set has on its disks, in time that is linear in that. What cannot be read is a finding, too.
pub fn check(media: &mut dyn Media, progress: Progress<'_>) -> Report {
    let mut report = Report::new(media.space());
    match Volume::load(media) {
        Ok(volume) => check_volume(media, &volume, &mut report, progress),
        Err(LoadError::NoSet(problems)) => {
            if problems.is_empty() {
                report.findings.push(Finding::NoSet("no zone of the first device can hold metadata".into()));
            }
            let problems = problems.into_iter().enumerate();
            let finding = |(set, problem)| Finding::Superblock { whose: Whose::Set(set), problem };
            report.findings.extend(problems.map(finding));
        }
        Err(error @ LoadError::Ambiguous { .. }) => report.findings.push(Finding::NoSet(format!("{error}"))),
        Err(LoadError::Media(error)) => report.findings.push(Finding::Unreadable { what: "mapping table", error }),
    }
    report
}

fn check_volume(media: &mut dyn Media, volume: &Volume, report: &mut Report, progress: Progress<'_>) {
    let sets = &volume.sets;
    let blocks = u64::from(sets.layout.metadata_blocks);
    let mut done = 0;
    let mut step = |count: u64| {
        done += count;
        progress(done.min(2 * blocks), 2 * blocks);
    };
    report.sets = Some(sets.clone());
    superblocks::check(sets, media.space(), &mut report.findings);
    report.findings.extend(volume.problems.iter().copied().map(Finding::Mapping));
    report.mapped = volume.entries.iter().filter(|entry| **entry != Entry::UNMAPPED).count();
    report.buffered = volume.entries.iter().filter(|entry| entry.bzone != NO_ZONE).count();
    step(1 + u64::from(sets.layout.map_blocks));
    report.zones = bitmaps::check(media, volume, &mut report.findings, &mut step);
    compare(media, sets, report, &mut step);
    check_thirds(media, &sets.superblock, report);
    let slack = sets.layout.slack(media.space());
    if slack < 1 {
        report.findings.push(Finding::Overcommitted { slack });
    }
}

/// Compares both sets, block by block, if they should be equal.
fn compare(media: &mut dyn Media, sets: &Sets, report: &mut Report, step: &mut dyn FnMut(u64)) {
    if sets.choice.other != Other::InStep {
        return;
    }
    let starts = [0, 1].map(|set| sets.layout.set_start(media.space(), set));
    let count = u64::from(sets.layout.metadata_blocks) - 1;
    let (mut first, mut differ) = (None, 0);
    let zone_blocks = media.space().zone_blocks();
    for (block, len) in pieces(zone_blocks, starts[0] + 1, count) {
        let mut both = [vec![0; len * BLOCK_BYTES], vec![0; len * BLOCK_BYTES]];
        // Both sets start at the start of a zone, so their pieces are the same.
        for (bytes, start) in both.iter_mut().zip(starts) {
            if let Err(error) = media.read(block - starts[0] + start, bytes) {
                report.findings.push(Finding::Unreadable { what: "metadata", error });
            }
        }
        let blocks = both[0].chunks(BLOCK_BYTES).zip(both[1].chunks(BLOCK_BYTES));
        for (at, _) in (block - starts[0]..).zip(blocks).filter(|(_, (one, two))| one != two) {
            first = first.or(Some(at));
            differ += 1;
        }
        step(len as u64);
    }
    report.compared = Some(count + 1);
    if let Some(first) = first {
        report.findings.push(Finding::Difference { first, count: differ });
    }
}

/// The superblocks at the start of the zoned devices of a set with a regular one.
fn check_thirds(media: &mut dyn Media, reference: &Superblock, report: &mut Report) {
    let places: Vec<_> = tertiaries(media.space()).collect();
    for (member, zone) in places {
        let block = media.space().start(zone);
        let mut bytes = vec![0; BLOCK_BYTES];
        let found = media.read(block, &mut bytes).map_err(SuperblockProblem::Unreadable);
        let found = found.and_then(|()| Superblock::decode(&bytes).map_err(SuperblockProblem::NotOne));
        superblocks::check_third(&found, (member, block), reference, &mut report.findings);
        report.thirds.push(Third { member, zone, block, superblock: found.ok() });
    }
}
