//! A zoned block device of a simulated kernel in random worlds: the same hosts, plugs and promises as `shingle sim`, with losses
//! of power, a drive that fails in all its ways, a kernel that believes in the wrong pointers, and late, short and reordered answers.
//!
//! The guards of the disk are taken away one at a time, and the same seeds have to notice.
//! `SWARM_FIRST=100000 SWARM_SEEDS=5000 cargo test -p shingle-host --test swarm zoned_blk_swarm` runs other seeds.

use shingle_sim::disk::OtherDisk;
use shingle_sim::swarm::Profile;

use crate::simulated::block::{Bug, make};
use crate::simulated::worlds::{Worlds, planted};

/// Seeds that once found something. What a seed draws changes when the drawing changes; each has a test of its own as well
/// (zoned_blk/mod.rs).
const FOUND: [(Profile, u64); 2] = [(Profile::Zones, 8), (Profile::All, 1259)];

/// Worlds on a disk with a bug.
macro_rules! worlds {
    ($bug:ident) => {
        Worlds { disk: OtherDisk::Plain, make: |config, choices, left| make(config, choices, left, Bug::$bug) }
    };
}

#[test]
fn a_zoned_block_device_keeps_all_promises_on_a_drive_that_fails_and_loses_its_power() {
    worlds!(None).all_pass(60);
}

#[test]
fn seeds_that_once_found_something_find_nothing_any_more() {
    for (profile, seed) in FOUND {
        worlds!(None).pass(profile, seed);
    }
}

planted!(worlds, a_flush_that_is_answered_and_not_sent_is_found, UnsentFlush, 1);
planted!(worlds, a_failed_flush_that_is_not_heard_of_is_found, DeafToFlush, 13);
planted!(worlds, fua_that_is_ignored_is_found, NoFua, 12);
planted!(worlds, fua_without_a_flush_on_a_disk_that_has_none_is_found, NoFlushForFua, 21);
planted!(worlds, a_preflush_that_is_ignored_is_found, NoPreflush, 12);
planted!(worlds, a_short_write_taken_for_a_whole_one_is_found, NoContinuation, 0);
planted!(worlds, a_short_read_taken_for_a_whole_one_is_found, NoReadContinuation, 1);
planted!(worlds, an_interrupted_request_taken_for_a_done_one_is_found, NoRetry, 0);
planted!(worlds, a_failed_write_that_is_not_heard_of_is_found, DeafToWrite, 1);
planted!(worlds, a_failed_command_to_a_zone_that_is_not_heard_of_is_found, DeafToZones, 1);
planted!(worlds, a_pointer_that_is_believed_after_a_failed_write_is_found, BelievedPointer, 34);
planted!(worlds, a_report_from_before_is_found, OldReport, 0);
planted!(worlds, a_reset_that_is_answered_before_it_is_done_is_found, EarlyReset, 0);
planted!(worlds, an_answer_that_gets_lost_is_found, LostAnswer, 0);
