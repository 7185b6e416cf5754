//! A file as a disk on a simulated kernel, in random lives: short, interrupted and failing calls, late and reordered
//! completions, syncs that lose data, losses of power. What was read, and what is there afterwards, is compared.
//!
//! The guards of the disk are taken away one at a time, and the same seeds have to notice.
//! `SWARM_FIRST=100000 SWARM_SEEDS=5000 cargo test -p shingle-host --test swarm file_disk_swarm` runs other seeds.

use crate::simulated::file::run;
use crate::simulated::kernel::Bug;
use crate::simulated::worlds::number;

#[test]
fn a_file_keeps_all_promises_on_a_kernel_that_fails_and_loses_its_power() {
    let (first, seeds) = (number("SWARM_FIRST").unwrap_or(0), number("SWARM_SEEDS").unwrap_or(200));
    let (mut cuts, mut faults, mut errors, mut overdue) = (0, 0, 0, 0);
    for seed in first..first + seeds {
        let tally = run(seed, Bug::None).unwrap();
        (cuts, faults) = (cuts + tally.cuts, faults + tally.faults);
        (errors, overdue) = (errors + tally.errors, overdue + tally.overdue);
    }
    println!("{cuts} losses of power, {faults} faults, {errors} errors, {overdue} times overdue");
    assert!(cuts > seeds && faults > seeds && errors > seeds && overdue > seeds);
}

/// A bug that some seed has to notice.
macro_rules! planted {
    ($name:ident, $bug:ident) => {
        #[test]
        fn $name() {
            let found = (0..100).find_map(|seed| run(seed, Bug::$bug).err());
            println!("{found:?}");
            assert!(found.is_some());
        }
    };
}

planted!(fua_that_is_ignored_is_found, NoFua);
planted!(a_preflush_that_is_ignored_is_found, NoPreflush);
planted!(a_short_write_taken_for_a_whole_one_is_found, NoContinuation);
planted!(a_short_read_taken_for_a_whole_one_is_found, NoReadContinuation);
planted!(what_a_short_read_brought_and_the_next_one_forgot_is_found, NoMemory);
planted!(a_failed_sync_that_is_not_heard_of_is_found, DeafToSync);
planted!(a_failed_sync_that_is_told_once_and_then_forgotten_is_found, ForgottenSync);
planted!(a_flush_that_does_not_wait_for_changes_without_an_answer_is_found, HastyFlush);
planted!(an_answer_that_gets_lost_is_found, LostAnswer);
planted!(zeroes_that_are_not_synced_are_found, UnsyncedZeroes);
planted!(an_interrupted_request_taken_for_a_done_one_is_found, NoRetry);
