//! Random worlds, with faults and losses of power: nothing that a disk, a plug or a table promises is ever broken.

use shingle_core::sim::swarm::{Profile, SwarmOptions, run};

/// Seeds of each profile that every test run looks at.
const SEEDS: u64 = 50;

fn sweep(profile: Profile) {
    let first = std::env::var("SWARM_FIRST").map_or(0, |text| text.parse().expect("SWARM_FIRST is a number"));
    let count = std::env::var("SWARM_SEEDS").map_or(SEEDS, |text| text.parse().expect("SWARM_SEEDS is a number"));
    let options = SwarmOptions { profile, ..SwarmOptions::default() };
    let failures: Vec<String> = (first..first + count)
        .filter_map(|seed| run(seed, &options).err())
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
