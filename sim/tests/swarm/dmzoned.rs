//! dm-zoned over random sets of disks, and losses of power after any of their commands: no acknowledged and flushed block is
//! lost, none is foreign, nothing hangs, and what is left after a clean stop is what the checker wants to see.

use shingle_core::dm::zoned::Sabotage;
use shingle_sim::swarm::{Failure, Profile, Report, SwarmOptions, describe, run};

/// Cuts that every test run looks at.
const CUTS: u64 = 2_000;

fn play(seed: u64) -> Result<Report, Box<Failure>> {
    run(seed, &SwarmOptions { profile: Profile::DmZoned, ..SwarmOptions::default() })
}

/// `SWARM_FIRST` and `SWARM_CUTS` choose others.
#[test]
fn two_thousand_cuts_lose_and_mix_up_nothing() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (mut seed, wanted) = (number("SWARM_FIRST", 0), number("SWARM_CUTS", CUTS));
    let (mut cuts, mut holes, mut failures) = (0, 0, vec![]);
    while cuts < wanted && failures.len() < 30 {
        match play(seed) {
            Ok(report) => (cuts, holes) = (cuts + report.cuts, holes + report.noted.get("hole").copied().unwrap_or(0)),
            Err(failure) => failures.push(failure.to_string()),
        }
        seed += 1;
    }
    assert!(failures.is_empty(), "{} of {seed} seeds fail\n{}", failures.len(), failures.join("\n"));
    println!("{cuts} cuts in {seed} seeds, {holes} holes");
    assert!(10 * holes > cuts, "{holes} holes are no look at them");
}

#[test]
fn fewer_looks_leave_the_worlds_as_they_are() {
    let full = SwarmOptions { profile: Profile::DmZoned, ops: Some(40), ..SwarmOptions::default() };
    let sparse = SwarmOptions { one_cut_of: Some(10), ..full.clone() };
    let (mut all, mut few) = (0, 0);
    for seed in 0..3 {
        let (full, sparse) = (run(seed, &full).unwrap(), run(seed, &sparse).unwrap());
        assert_eq!((full.ops, full.noted), (sparse.ops, sparse.noted), "seed {seed}");
        (all, few) = (all + full.cuts, few + sparse.cuts);
    }
    assert!(few > 0 && few < all / 3, "{few} of {all} cuts");
}

/// Another instance of the target finds all that the one before it has acknowledged, also what no flush has covered.
#[test]
fn swaps_of_its_table_under_load_lose_nothing_that_was_acknowledged() {
    let swapped = |seed: &u64| describe(*seed, Profile::DmZoned).contains("tables swapped");
    let options = SwarmOptions { profile: Profile::DmZoned, one_cut_of: Some(8), ..SwarmOptions::default() };
    let reports =
        (0..120).filter(swapped).map(|seed| run(seed, &options).unwrap_or_else(|failure| panic!("{failure}")));
    let (swaps, cuts) = reports.fold((0, 0), |(swaps, cuts), report| (swaps + report.swaps, cuts + report.cuts));
    println!("{swaps} swaps, {cuts} cuts");
    assert!(swaps > 150 && cuts > 500, "{swaps} swaps, {cuts} cuts");
}

/// Damaged data blocks are the only ones that read as something else; damage of one set of metadata costs nothing.
#[test]
fn only_damaged_blocks_read_as_other_data() {
    let damaged = |seed: &u64| describe(*seed, Profile::DmZoned).contains("returns other data");
    let options = SwarmOptions { profile: Profile::DmZoned, one_cut_of: Some(16), ..SwarmOptions::default() };
    let reports =
        (0..1_000).filter(damaged).map(|seed| run(seed, &options).unwrap_or_else(|failure| panic!("{failure}")));
    let faults: u64 = reports.map(|report| report.faults).sum();
    println!("{faults} damages");
    assert!(faults > 500, "{faults} damages");
}

/// By seeds: no recording of it was made.
#[test]
fn a_superblock_that_counts_with_a_wrong_checksum_is_found() {
    let damaged = |seed: &u64| describe(*seed, Profile::DmZoned).contains("returns other data");
    let sabotage = Sabotage { superblock_unchecked: true, ..Sabotage::default() };
    let options = SwarmOptions { profile: Profile::DmZoned, one_cut_of: Some(64), sabotage, ..SwarmOptions::default() };
    assert!((0..500).filter(damaged).any(|seed| run(seed, &options).is_err()));
}
