//! A whole shard that is stopped, again and again: towers of mapped devices over disks that can lose their power, users, an operator. After a
//! clean stop the power goes, and the same stack starts from what is left.
//!
//! Bugs are planted, and the same seeds have to notice.
//! `SWARM_FIRST=100000 SWARM_SEEDS=5000 cargo test -p shingle-host --test swarm stop_swarm` runs other seeds.

use crate::stops::{Bug, Illness, Tally, run, run_with};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_clean_stop_ends_soon_and_leaves_all_that_was_acknowledged_on_the_disks() {
    let (first, seeds) = (number("SWARM_FIRST").unwrap_or(0), number("SWARM_SEEDS").unwrap_or(200));
    let mut all = Tally::default();
    for seed in first..first + seeds {
        all.add(&run(seed, Bug::None).unwrap());
    }
    println!("{all:?}");
    assert!(all.stops > seeds && all.cuts > seeds / 2 && all.cuts_of_stops > 0);
    assert!(all.requests > 20 * seeds && all.abandoned > 0 && all.suspended > 0);
}

/// Somebody looks less than the time later that a round takes, and nothing else will happen.
#[test]
fn a_look_between_two_rounds_is_waited_for() {
    run(7_704_682, Bug::None).unwrap();
}

/// A target took itself for at rest while nothing but a write was under way, and what that changed was not committed: the next table did not
/// find it.
#[test]
fn a_write_under_way_when_a_dm_zoned_table_is_swapped_is_there_afterwards() {
    run(7_818_526, Bug::None).unwrap();
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..5 {
        assert_eq!(run(seed, Bug::None).unwrap(), run(seed, Bug::None).unwrap());
    }
}

/// A stop without an error leaves all that was acknowledged, one with an error what was acknowledged as durable.
fn stops_with(illness: Illness) -> Tally {
    let (first, seeds) = (number("SWARM_FIRST").unwrap_or(0), number("SWARM_SEEDS").unwrap_or(200));
    let mut all = Tally::default();
    (first..first + seeds).for_each(|seed| all.add(&run_with(seed, Bug::None, illness).unwrap()));
    println!("{all:?}");
    assert!(all.stops > seeds / 4 && all.failed > seeds / 20);
    all
}

#[test]
fn a_stop_with_a_failing_disk_ends_and_says_what_it_lost() {
    stops_with(Illness::Failing);
}

/// A disk failed for a while and then answered, so the last flush succeeded; what the volume had not recorded was gone without an error.
#[test]
fn a_stop_says_what_a_volume_could_not_record() {
    run_with(5_239, Bug::None, Illness::Failing).unwrap();
}

#[test]
fn a_stop_with_a_disk_that_never_answers_ends_in_time() {
    assert!(stops_with(Illness::Silent).longest.0 >= 10_000_000_000);
}

/// A bug that some seed has to notice, with these words.
macro_rules! planted {
    ($name:ident, $bug:ident, $words:literal) => {
        #[test]
        fn $name() {
            let found = (0..60).find_map(|seed| run(seed, Bug::$bug).err());
            println!("{found:?}");
            assert!(found.is_some_and(|found| found.contains($words)));
        }
    };
}

planted!(a_last_flush_through_doors_that_are_shut_is_found, FlushThroughDoors, "the stop failed");
planted!(a_stop_that_does_not_flush_is_found, NoFlush, "reads as");
planted!(a_stop_that_waits_for_no_user_is_found, NoDrain, "without an answer");

/// A bug that some seed with an ill disk has to notice.
macro_rules! planted_ill {
    ($name:ident, $illness:ident, $words:literal) => {
        #[test]
        fn $name() {
            let found = (0..60).find_map(|seed| run_with(seed, Bug::Unsaid, Illness::$illness).err());
            println!("{found:?}");
            assert!(found.is_some_and(|found| found.contains($words)));
        }
    };
}

planted_ill!(a_stop_that_hides_failures_of_a_disk_is_found, Failing, "reads as");
planted_ill!(a_stop_that_hides_what_is_stuck_is_found, Silent, "without an answer");
