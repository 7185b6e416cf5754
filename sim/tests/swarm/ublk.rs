//! The server of a ublk device, killed at any step and started again over zoned disks, dm-zoned and disks that forget: its users
//! see nothing but a pause. With a guard of it taken away they see more, and the swarm finds that.

use shingle_sim::swarm::{Failure, Profile, Report, SwarmOptions, run};

/// Seeds that every test run looks at.
const SEEDS: u64 = 3000;

fn play(seed: u64) -> Result<Report, Box<Failure>> {
    run(seed, &SwarmOptions { profile: Profile::Ublk, ..SwarmOptions::default() })
}

/// `SWARM_FIRST` and `SWARM_SEEDS` choose others.
#[test]
fn users_of_a_server_that_is_killed_see_nothing_but_a_pause() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, count) = (number("SWARM_FIRST", 0), number("SWARM_SEEDS", SEEDS));
    let (mut failures, mut kills, mut cuts, mut noted) = (vec![], 0, 0, std::collections::BTreeMap::new());
    for seed in first..first + count {
        match play(seed) {
            Ok(report) => {
                cuts += report.cuts;
                kills += report.kills;
                report.noted.iter().for_each(|(what, times)| *noted.entry(*what).or_insert(0) += times);
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{} of {count} seeds fail\n{}", failures.len(), failures.join("\n"));
    println!("{kills} kills and {cuts} losses of power in {count} seeds: {noted:?}");
    assert!(kills > 2 * count && cuts > count / 4, "{kills} kills and {cuts} losses of power are no look at them");
    let seen =
        ["WRITE", "ZONE_APPEND", "READ", "FLUSH", "WRITE_ZEROES", "DISCARD", "ZONE_RESET", "ZONE_FINISH", "race"];
    seen.iter().for_each(|what| assert!(noted.contains_key(what), "no {what} at all"));
}
