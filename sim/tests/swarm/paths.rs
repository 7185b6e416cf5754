//! Heads over faulty paths to one disk: nothing that was acknowledged is lost, doubled unnoticed or reordered, and everything ends. With a
//! guard of the head taken away something of that is broken, and the swarm finds it.

use std::collections::BTreeMap;

use shingle_sim::swarm::{Failure, Profile, Report, SwarmOptions, describe, run};

/// Seeds that every test run looks at.
const SEEDS: u64 = 300;

fn play(seed: u64) -> Result<Report, Box<Failure>> {
    run(seed, &SwarmOptions { profile: Profile::Paths, ..SwarmOptions::default() })
}

/// `SWARM_FIRST` and `SWARM_SEEDS` choose others.
#[test]
fn a_disk_over_paths_that_fail_keeps_every_promise() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, count) = (number("SWARM_FIRST", 0), number("SWARM_SEEDS", SEEDS));
    let (mut failures, mut cuts, mut ops, mut noted) = (vec![], 0, 0, BTreeMap::new());
    for seed in first..first + count {
        match play(seed) {
            Ok(report) => {
                (cuts, ops) = (cuts + report.cuts, ops + report.ops);
                report.noted.iter().for_each(|(what, times)| *noted.entry(*what).or_insert(0) += times);
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{} of {count} seeds fail\n{}", failures.len(), failures.join("\n"));
    println!("{ops} requests and {cuts} losses of power in {count} seeds: {noted:?}");
    assert!(cuts > count / 2 && noted["path error"] > 10 * count, "too little happens: {cuts} cuts, {noted:?}");
    let seen = ["policy", "fail_path", "reinstate_path", "inaccessible", "change", "no path", "uncertain append"];
    let rare =
        ["doubled append", "remove_path", "add_path", "unsettled change", "outage", "lost cache", "accept_losses"];
    seen.iter().chain(&rare).for_each(|what| assert!(noted[what] > count / 30, "{what}: {noted:?}"));
}

#[test]
fn the_seeds_draw_worlds_of_every_kind() {
    let worlds: Vec<String> = (0..200).map(|seed| describe(seed, Profile::Paths)).collect();
    let kinds = [
        "; 2 paths by numa",
        "by queue-depth",
        "by latency",
        "by historical-service-time",
        "rules Nvme",
        "rules Dm",
        "steady true",
        "steady false",
        "may double true",
        "without one None",
        "removal after Duration(0)",
        "mute true",
        "Outages",
        "AtOnce",
        "Told",
        "After(",
        " 0 fault rules",
        "Native append",
        "Emulated append",
        "above: Two",
        "2 zones of ",
    ];
    for kind in kinds {
        let found = worlds.iter().filter(|world| world.contains(kind)).count();
        assert!(found >= 3, "{found} worlds of 200 have `{kind}`");
    }
}
