//! The server of a ublk device, killed at any step and started again over zoned disks, dm-zoned and disks that forget: its users
//! see nothing but a pause. With a guard of it taken away they see more, and the swarm finds that.

use shingle_core::frontend::ublk::Sabotage;
use shingle_sim::model::Rule;
use shingle_sim::swarm::{Failure, Profile, Report, SwarmOptions, run};

/// Seeds that every test run looks at.
const SEEDS: u64 = 3000;

fn play(seed: u64, sabotage_ublk: Sabotage) -> Result<Report, Box<Failure>> {
    run(seed, &SwarmOptions { profile: Profile::Ublk, sabotage_ublk, ..SwarmOptions::default() })
}

/// `SWARM_FIRST` and `SWARM_SEEDS` choose others.
#[test]
fn users_of_a_server_that_is_killed_see_nothing_but_a_pause() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, count) = (number("SWARM_FIRST", 0), number("SWARM_SEEDS", SEEDS));
    let (mut failures, mut kills, mut cuts, mut noted) = (vec![], 0, 0, std::collections::BTreeMap::new());
    for seed in first..first + count {
        match play(seed, Sabotage::default()) {
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

/// How many seeds it takes to find that these guards are gone.
fn hunt(sabotage: Sabotage) -> Option<(u64, Rule)> {
    (0..SEEDS).find_map(|seed| Some((seed + 1, play(seed, sabotage).err()?.violation.rule)))
}

#[test]
fn a_guard_of_acknowledged_data_that_is_gone_is_missed() {
    let none = Sabotage::default();
    let bugs = [
        ("records unread", Sabotage { records_unread: true, ..none }),
        ("appends uncompared", Sabotage { appends_uncompared: true, ..none }),
        ("resets forget nothing", Sabotage { resets_forget_nothing: true, ..none }),
        ("told records stay", Sabotage { told_records_stay: true, ..none }),
        ("no replay", Sabotage { no_replay: true, ..none }),
        ("flushed when sent", Sabotage { flushed_when_sent: true, ..none }),
        ("replay unordered", Sabotage { replay_unordered: true, ..none }),
        ("durable when found", Sabotage { durable_when_found: true, ..none }),
        ("parts unfinished", Sabotage { parts_unfinished: true, ..none }),
        ("parts overtaken", Sabotage { parts_overtaken: true, ..none }),
        ("registered unasked", Sabotage { registered_unasked: true, ..none }),
        ("boots untold", Sabotage { boots_untold: true, ..none }),
    ];
    let found = bugs.map(|(name, bug)| (name, hunt(bug)));
    found.iter().for_each(|(name, found)| println!("{name}: {found:?}"));
    let missed: Vec<_> = found.iter().filter(|(_, found)| found.is_none()).map(|(name, _)| name).collect();
    assert!(missed.is_empty(), "no seed of {SEEDS} finds {missed:?}");
}
