//! Random worlds, with faults and losses of power: nothing that a disk, a plug or a table promises is ever broken.

use shingle_core::dm::TARGETS;
use shingle_sim::swarm::{Failure, Profile, Report, SwarmOptions, describe, run};

/// Seeds of each profile that every test run looks at.
const SEEDS: u64 = 50;

fn play(profile: Profile, seed: u64) -> Result<Report, Box<Failure>> {
    run(seed, &SwarmOptions { profile, ..SwarmOptions::default() })
}

/// Runs the seeds of one profile; `SWARM_FIRST` and `SWARM_SEEDS` choose others.
fn sweep(profile: Profile) {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, count) = (number("SWARM_FIRST", 0), number("SWARM_SEEDS", SEEDS));
    let failures: Vec<String> = (first..first + count)
        .filter_map(|seed| play(profile, seed).err())
        .map(|failure| failure.to_string())
        .collect();
    assert!(failures.is_empty(), "{} of {count} seeds fail\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn writes_through_a_plug_keep_every_promise() {
    sweep(Profile::Plug);
}

#[test]
fn appends_keep_every_promise() {
    sweep(Profile::Append);
}

#[test]
fn zone_management_keeps_every_promise() {
    sweep(Profile::Zones);
}

#[test]
fn everything_at_once_keeps_every_promise() {
    sweep(Profile::All);
}

#[test]
fn seeds_that_once_found_something_find_nothing_any_more() {
    let lines = include_str!("seeds.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        let (profile, seed) = line.split_once(' ').expect("a profile and a seed");
        let profile = Profile::ALL.into_iter().find(|known| known.name() == profile).expect("a profile");
        if let Err(failure) = play(profile, seed.parse().expect("a seed")) {
            panic!("{line}: {failure}");
        }
        count += 1;
    }
    assert!(count >= 20, "{count} seeds");
}

/// A swarm that never draws something does not look at it.
#[test]
fn the_seeds_draw_worlds_of_every_kind() {
    let worlds: Vec<String> = (0..200).map(|seed| describe(seed, Profile::All)).collect();
    let kinds = [
        "policy plug",
        "policy zone-lock",
        "policy none",
        "->",
        "Native append",
        "Emulated append",
        " cache,",
        "no cache",
        "4096-byte",
        "above: Nothing",
        "above: Linear",
        "above: Two",
        "above: Faulty",
        "by Stack",
        "by Host",
        "by Nobody",
        "power cuts after []",
        " 0 fault rules",
        "bad blocks: true",
        "active Some",
        "open Some",
        "append None",
    ];
    for kind in kinds {
        let found = worlds.iter().filter(|world| world.contains(kind)).count();
        assert!(found >= 3, "{found} worlds of 200 have `{kind}`");
    }
    let reports: Vec<Report> = (0..50).map(|seed| play(Profile::All, seed).unwrap()).collect();
    let sum = |what: fn(&Report) -> u64| reports.iter().map(what).sum::<u64>();
    assert!(sum(|r| r.cuts) > 25 && sum(|r| r.faults) > 100 && sum(|r| r.ops) > 10_000);
}

#[test]
fn every_target_keeps_its_promises_under_faults_and_power_cuts() {
    sweep(Profile::Mapper);
}

#[test]
fn a_thousand_swaps_under_a_verified_random_workload_lose_and_reorder_nothing() {
    let options = SwarmOptions { profile: Profile::Mapper, swaps: Some(1000), ..SwarmOptions::default() };
    for seed in 0..3 {
        let report = run(seed, &options).unwrap_or_else(|failure| panic!("{failure}"));
        let (ms, us) = (report.longest_swap.0 / 1_000_000, report.longest_swap.0 / 1000 % 1000);
        println!("seed {seed}: {} swaps, {} requests, longest suspension {ms}.{us:03} ms", report.swaps, report.ops);
        assert!(report.swaps >= 1000 && report.ops > 500 && report.longest_swap.0 > 0);
    }
}

/// What an operator of tables can do, what it can put in, and what must be refused.
#[test]
fn the_seeds_draw_every_target_and_every_deed_of_the_operator() {
    let deeds =
        ["swap", "wipe", "suspend", "cancel", "load", "clear", "wrong table", "message", "query", "spare", "observe"];
    let wrong = ["gap", "overlap", "length 0", "unknown target", "unknown device", "itself", "past the end", "words"];
    // dm-zoned and `stl` have swarms of their own, and the head of `multipath`, whose paths nobody else may write to, is in that of paths.
    let others = ["zoned", "stl", "multipath"];
    let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).filter(|name| !others.contains(name)).collect();
    let reports: Vec<Report> = (0..SEEDS).map(|seed| play(Profile::Mapper, seed).unwrap()).collect();
    for name in deeds.iter().chain(&wrong).chain(&["cuts a zone", "gone"]).chain(&targets) {
        let times: u64 = reports.iter().filter_map(|report| report.noted.get(name)).sum();
        assert!(times >= 3, "`{name}` came {times} times in {SEEDS} worlds");
    }
    let worlds: Vec<String> = (0..200).map(|seed| describe(seed, Profile::Mapper)).collect();
    for kind in ["a second zoned disk", "a regular disk", "Row:", "Crypt:", "Stripes(2):", "Stripes(3):", "Wide(", "m3"]
    {
        let found = worlds.iter().filter(|world| world.contains(kind)).count();
        assert!(found >= 3, "{found} worlds of 200 have `{kind}`");
    }
    let sum = |what: fn(&Report) -> u64| reports.iter().map(what).sum::<u64>();
    assert!(sum(|r| r.cuts) > 25 && sum(|r| r.faults) > 100 && sum(|r| r.ops) > 10_000 && sum(|r| r.swaps) > 500);
}
