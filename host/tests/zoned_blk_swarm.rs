//! A zoned block device of a simulated kernel in random worlds: the same hosts, plugs and promises as `shingle sim`, with losses
//! of power, a drive that fails in all its ways, a kernel that believes in the wrong pointers, and late, short and reordered answers.
//!
//! The guards of the disk are taken away one at a time, and the same seeds have to notice.
//! `SWARM_FIRST=100000 SWARM_SEEDS=5000 cargo test -p shingle-host --test zoned_blk_swarm` runs other seeds.

mod simulated;

use shingle_sim::disk::{MakeDisk, OtherDisk};
use shingle_sim::swarm::{Profile, Report, SwarmOptions, run};
use simulated::block::{Bug, make};

const PROFILES: [Profile; 4] = [Profile::All, Profile::Zones, Profile::Plug, Profile::Append];

/// Seeds that once found something. What a seed draws changes when the drawing changes; each has a test of its own as well
/// (zoned_blk/main.rs).
const FOUND: [(Profile, u64); 2] = [(Profile::Zones, 8), (Profile::All, 1259)];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn options(profile: Profile, disk: MakeDisk) -> SwarmOptions {
    SwarmOptions { profile, disk: Some(OtherDisk::Plain(disk)), ..SwarmOptions::default() }
}

fn passes(profile: Profile, seed: u64) -> Report {
    let report = run(seed, &options(profile, |config, seed, left| make(config, seed, left, Bug::None)));
    report.unwrap_or_else(|failure| panic!("{profile:?}: {failure}"))
}

#[test]
fn a_zoned_block_device_keeps_all_promises_on_a_drive_that_fails_and_loses_its_power() {
    let (first, seeds) = (number("SWARM_FIRST").unwrap_or(0), number("SWARM_SEEDS").unwrap_or(60));
    let (mut cuts, mut faults) = (0, 0);
    for seed in first..first + seeds {
        for profile in PROFILES {
            let report = passes(profile, seed);
            (cuts, faults) = (cuts + report.cuts, faults + report.faults);
        }
    }
    println!("{cuts} losses of power, {faults} faults");
    assert!(cuts > seeds && faults > seeds);
}

#[test]
fn seeds_that_once_found_something_find_nothing_any_more() {
    for (profile, seed) in FOUND {
        passes(profile, seed);
    }
}

/// Whether some seed notices the bug.
fn is_found(disk: MakeDisk) -> bool {
    let found = (0..60).find_map(|seed| PROFILES.iter().find_map(|profile| run(seed, &options(*profile, disk)).err()));
    found.iter().for_each(|failure| println!("{failure}"));
    found.is_some()
}

/// A bug that some seed has to notice.
macro_rules! planted {
    ($name:ident, $bug:ident) => {
        #[test]
        fn $name() {
            assert!(is_found(|config, seed, left| make(config, seed, left, Bug::$bug)));
        }
    };
}

planted!(a_flush_that_is_answered_and_not_sent_is_found, UnsentFlush);
planted!(a_failed_flush_that_is_not_heard_of_is_found, DeafToFlush);
planted!(fua_that_is_ignored_is_found, NoFua);
planted!(fua_without_a_flush_on_a_disk_that_has_none_is_found, NoFlushForFua);
planted!(a_preflush_that_is_ignored_is_found, NoPreflush);
planted!(a_short_write_taken_for_a_whole_one_is_found, NoContinuation);
planted!(a_short_read_taken_for_a_whole_one_is_found, NoReadContinuation);
planted!(an_interrupted_request_taken_for_a_done_one_is_found, NoRetry);
planted!(a_failed_write_that_is_not_heard_of_is_found, DeafToWrite);
planted!(a_failed_command_to_a_zone_that_is_not_heard_of_is_found, DeafToZones);
planted!(a_pointer_that_is_believed_after_a_failed_write_is_found, BelievedPointer);
planted!(a_report_from_before_is_found, OldReport);
planted!(a_reset_that_is_answered_before_it_is_done_is_found, EarlyReset);
planted!(an_answer_that_gets_lost_is_found, LostAnswer);
