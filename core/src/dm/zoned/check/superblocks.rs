//! The rules for superblocks.

use super::{Finding, Whose};
use crate::dm::zoned::format::{Layout, Other, Sets, Superblock, SuperblockProblem};
use crate::dm::zoned::{MemberNo, ZoneSpace};
use crate::prelude::*;

/// The first two superblocks.
pub(super) fn check(sets: &Sets, space: &ZoneSpace, findings: &mut Vec<Finding>) {
    for (set, found) in sets.found.iter().enumerate() {
        match found {
            Ok(superblock) => {
                check_names(superblock, Whose::Set(set), &sets.superblock, findings);
                check_numbers(superblock, Whose::Set(set), space, findings);
            }
            Err(problem) => findings.push(Finding::Superblock { whose: Whose::Set(set), problem: problem.clone() }),
        }
    }
    if let (Other::Behind, [Ok(first), Ok(second)]) = (sets.choice.other, &sets.found) {
        findings.push(Finding::Generations([first.generation, second.generation]));
    }
}

/// A third superblock: `place` is its device and its global block.
pub(super) fn check_third(
    found: &Result<Superblock, SuperblockProblem>,
    place: (MemberNo, u64),
    reference: &Superblock,
    findings: &mut Vec<Finding>,
) {
    let (whose, expected) = (Whose::Third(place.0), place.1);
    let mut problem = |problem| findings.push(Finding::Superblock { whose, problem });
    let superblock = match found {
        Err(error) => return problem(error.clone()),
        Ok(superblock) if superblock.version < 2 => return problem(SuperblockProblem::Version),
        Ok(superblock) => superblock,
    };
    if superblock.block != expected {
        problem(SuperblockProblem::Position { found: superblock.block, expected });
    }
    check_names(superblock, whose, reference, findings);
    for ((what, found), (_, expected)) in numbers(superblock).into_iter().zip(numbers(reference)) {
        if found != expected {
            let (found, expected) = (found.into(), Some(expected.into()));
            findings.push(Finding::Number { whose, what, found, expected });
        }
    }
    if superblock.generation != 0 {
        findings.push(Finding::ThirdGeneration { member: place.0, generation: superblock.generation });
    }
}

/// Version 2 has a label and a UUID of the set, the same everywhere, and a UUID of the device.
fn check_names(superblock: &Superblock, whose: Whose, reference: &Superblock, findings: &mut Vec<Finding>) {
    if superblock.version < 2 {
        return;
    }
    let none = [0; 16];
    let names = [
        ("set UUID", superblock.set_uuid == none, superblock.set_uuid != reference.set_uuid),
        ("label", superblock.label.is_empty(), superblock.label != reference.label),
        ("device UUID", superblock.device_uuid == none, false),
    ];
    let wrong = names.into_iter().filter(|(_, is_missing, is_other)| *is_missing || *is_other);
    findings.extend(wrong.map(|(what, is_missing, _)| Finding::Name { whose, what, is_missing }));
}

/// The numbers have to be exactly those of a set that is made of these devices now, with the same reserve.
fn check_numbers(superblock: &Superblock, whose: Whose, space: &ZoneSpace, findings: &mut Vec<Finding>) {
    let expected = Layout::compute(space, superblock.reserved).ok();
    let expected = expected.map(|layout| {
        [layout.metadata_blocks, layout.reserved, layout.chunks, layout.map_blocks, layout.bitmap_blocks]
    });
    for (n, (what, found)) in numbers(superblock).into_iter().enumerate() {
        let expected = expected.map(|expected| u64::from(expected[n]));
        if expected != Some(found.into()) {
            findings.push(Finding::Number { whose, what, found: found.into(), expected });
        }
    }
}

fn numbers(superblock: &Superblock) -> [(&'static str, u32); 5] {
    [
        ("blocks of metadata", superblock.metadata_blocks),
        ("reserved zones", superblock.reserved),
        ("chunks", superblock.chunks),
        ("blocks of mapping table", superblock.map_blocks),
        ("bitmap blocks", superblock.bitmap_blocks),
    ]
}
