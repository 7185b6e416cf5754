//! Checks a set by the rules of `dmzadm --check` and some of our own, mends it, gives it another name, and gets out of it
//! what is left if it cannot be mended.
//!
//! ```text
//!   check:            superblocks ── choose ──> mapping table ──> bitmaps ──> the other set ──> third superblocks
//!   repair, salvage:  both copies, whatever can be read ──> what they say together (`view.rs`)
//!     all rules are about what is on the disks: nothing is written here but by `repair` and `relabel`
//! ```

mod bitmaps;
mod copies;
mod finding;
mod loss;
mod repair;
mod report;
mod salvage;
mod superblocks;
mod view;

pub use bitmaps::Counts;
use copies::{Copies, exact};
pub use finding::{Finding, Whose};
pub use loss::Loss;
pub use repair::{OnLoss, Repair, RepairError, relabel, repair};
pub use report::{Next, Report, Third};
pub use salvage::{Salvage, SalvageError, Source};
use view::View;

use super::format::{
    LoadError, MapEntry, Media, NO_ZONE, Progress, Sets, Superblock, SuperblockProblem, pieces, read_run, tertiaries,
    validate_mapping,
};
pub use super::stale::OlderCopy;
use super::{BLOCK_BYTES, ChunkNo, Rows};
use crate::prelude::*;

/// Checks everything that a set has on its disks, in time that is linear in that. What cannot be read is a finding, too.
pub fn check(media: &mut dyn Media, progress: Progress<'_>) -> Report {
    let mut report = Report::new(media.space());
    match Sets::find(media) {
        Ok(sets) => check_sets(media, &sets, &mut report, progress),
        Err(LoadError::NoSet(problems)) => {
            if problems.is_empty() {
                report.findings.push(Finding::NoSet("no zone of the first device can hold metadata".into()));
            }
            let problems = problems.into_iter().enumerate();
            let finding = |(set, problem)| Finding::Superblock { whose: Whose::Set(set), problem };
            report.findings.extend(problems.map(finding));
            report.without_set = Some(next_step(media));
        }
        Err(LoadError::Members(wrong)) => {
            report.findings.push(Finding::NoSet(format!("{wrong}")));
            (report.without_set, report.wrong_members) = (Some(Next::GiveMembers), Some(wrong));
        }
        Err(error) => {
            report.findings.push(Finding::NoSet(format!("{error}")));
            report.without_set = Some(next_step(media));
        }
    }
    report
}

/// What can be done with disks of which no superblock says what they are.
fn next_step(media: &mut dyn Media) -> Next {
    if Salvage::survey(media, &mut |_, _| ()).is_ok() { Next::Salvage } else { Next::Format }
}

fn check_sets(media: &mut dyn Media, sets: &Sets, report: &mut Report, progress: Progress<'_>) {
    let blocks = u64::from(sets.layout.metadata_blocks);
    let mut done = 0;
    let mut step = |count: u64| {
        done += count;
        progress(done.min(2 * blocks), 2 * blocks);
    };
    report.sets = Some(sets.clone());
    superblocks::check(sets, media.space(), &mut report.findings);
    let copies = Copies::of(sets, media.space());
    let entries = check_mapping(media, &copies, report);
    step(1 + u64::from(sets.layout.map_blocks));
    report.zones = bitmaps::check(media, (&copies, &entries), &mut report.findings, &mut step);
    compare(media, &copies, report, &mut step);
    check_thirds(media, &sets.superblock, report);
    let slack = sets.layout.slack(media.space());
    if slack < 1 {
        report.findings.push(Finding::Overcommitted { slack });
    }
    if !report.is_clean() {
        let sets = exact(media.space(), sets.clone());
        let copies = Copies::of(&sets, media.space());
        report.lost = View::new(media, copies, &mut |_, _| ()).lost(media);
    }
}

/// Looks at the mapping table; where it cannot be read, the other set's entries stand in for it.
fn check_mapping(media: &mut dyn Media, copies: &Copies, report: &mut Report) -> Rows<ChunkNo, MapEntry> {
    let [own, other] = copies.tables(media);
    let unreadable = own.unreadable.into_values();
    report.findings.extend(unreadable.map(|error| Finding::Unreadable { what: "mapping table", error }));
    let entries = own.entries.iter().zip(other.entries.iter());
    let entries: Rows<_, _> = entries.map(|(own, other)| own.or(*other).unwrap_or(MapEntry::UNMAPPED)).collect();
    let problems = validate_mapping(&entries, media.space(), &copies.layout);
    report.findings.extend(problems.into_iter().map(Finding::Mapping));
    report.mapped = entries.iter().filter(|entry| **entry != MapEntry::UNMAPPED).count();
    report.buffered = entries.iter().filter(|entry| entry.bzone != NO_ZONE).count();
    entries
}

/// Compares both sets, block by block, if they should be equal.
fn compare(media: &mut dyn Media, copies: &Copies, report: &mut Report, step: &mut dyn FnMut(u64)) {
    if copies.twin != copies::Twin::Equal {
        return;
    }
    let count = u64::from(copies.layout.metadata_blocks) - 1;
    let (mut first, mut differ) = (None, 0);
    for (block, len) in pieces(media.space().zone_blocks(), copies.starts[0] + 1, count) {
        let block = block - copies.starts[0];
        let mut both = [vec![0; len * BLOCK_BYTES], vec![0; len * BLOCK_BYTES]];
        let mut unreadable = vec![false; len];
        // Both sets start at the start of a zone, so their pieces are the same.
        for (copy, (bytes, start)) in both.iter_mut().zip(copies.starts).enumerate() {
            read_run(media, start + block, bytes, &mut |at, error| {
                unreadable[at as usize] = true;
                // Those of the set in force are known by now.
                if copy == 1 {
                    report.findings.push(Finding::Unreadable { what: "other set", error });
                }
            });
        }
        let blocks = both[0].chunks(BLOCK_BYTES).zip(both[1].chunks(BLOCK_BYTES)).zip(unreadable);
        for (at, _) in (block..).zip(blocks).filter(|(_, ((one, two), unreadable))| !unreadable && one != two) {
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
