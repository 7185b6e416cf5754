//! Recorded scenarios of bugs that were fixed. Each broke a rule when it was recorded, with its fix reverted; the title of its file says what went
//! wrong.

use std::collections::BTreeSet;

use crate::harness::{folder, read, write};
use shingle_sim::Recording;
use shingle_sim::swarm::{Profile, Recorder, SwarmOptions, replay, run, shrink};

/// Asserts that the scenario breaks no rule any more.
fn stays_fixed(name: &str) {
    let recording = read(&format!("regressions/{name}"));
    assert!(!recording.rule.is_empty() && !recording.is_empty(), "{name}: a scenario without a rule shows nothing");
    if let Err(failure) = replay(&recording, &SwarmOptions::default()).outcome {
        panic!("{name}: {failure}");
    }
}

macro_rules! regressions {
    ($($claim:ident)*) => {
        $(
            #[test]
            fn $claim() {
                stays_fixed(stringify!($claim));
            }
        )*

        #[test]
        fn every_scenario_of_the_folder_is_run() {
            let files = std::fs::read_dir(folder().join("regressions")).unwrap();
            let names = files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned());
            let listed: &[&str] = &[$(stringify!($claim)),*];
            let run = listed.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
            assert_eq!(names.collect::<BTreeSet<_>>(), run);
        }
    };
}

regressions! {
    add_writes_one_root_where_a_zone_takes_one
    add_accepts_a_disk_with_an_older_root
    stl_keeps_a_zone_while_map_writes_to_it_are_in_flight
    stl_does_not_count_a_filler_that_failed_as_written
    stl_waits_for_a_lent_zone_that_is_busy
    stl_keeps_a_batch_that_may_be_on_a_disk_in_doubt
    stl_keeps_no_zones_for_those_that_cannot_be_written
    stl_names_zones_of_a_disk_that_refuses_writes
    dmzoned_keeps_the_order_of_the_parts_of_a_cut_write
    dmzoned_fails_flushes_after_changes_were_lost
    dmzoned_fails_waiting_writes_once_it_is_read_only
    dmzoned_does_not_rewrite_a_log_that_may_count
    dmzoned_frees_a_zone_discarded_during_an_overwrite
    dmzoned_bounds_zones_that_overwrites_leave_empty
    dmzoned_counts_zones_until_resets_are_durable
    resume_sends_bios_of_the_lower_device_first
    striped_resets_and_finishes_zone_parts_in_order
    multipath_asks_for_the_pointer_before_a_blind_retry
    multipath_does_not_repeat_an_append_that_may_be_done
    zone_lock_ignores_a_report_older_than_a_change
    plug_learns_only_what_the_device_below_reported
    plug_switches_no_policy_while_unordered_writes_run
    plug_asks_again_when_a_report_is_from_before_a_swap
    plug_doubts_a_zone_whose_reset_failed
    plug_learns_from_a_report_newer_than_the_failure
}

/// Records a scenario of a bug whose fix is reverted in this tree: `docs/testing-by-simulation.md` says how.
/// `SHINGLE_BUG`: the name of the scenario. `SHINGLE_PROFILE`, `SHINGLE_SEEDS`: what is searched, as in `stl` and `2081513836,0..2000`.
#[test]
#[ignore = "it needs a tree in which a fix is reverted"]
fn record() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (name, profile, seeds) = (variable("SHINGLE_BUG"), variable("SHINGLE_PROFILE"), variable("SHINGLE_SEEDS"));
    let profile = Profile::ALL.into_iter().find(|known| known.name() == profile).expect("a profile");
    let one_cut_of = profile.has_branches().then_some(8);
    let options = SwarmOptions { profile, one_cut_of, ..SwarmOptions::default() };
    let fails = |seed: &u64| run(*seed, &options).is_err();
    let seed = seeds.split(',').flat_map(parse).find(fails).unwrap_or_else(|| panic!("none of {seeds} fails"));
    let recorder = Recorder::default();
    let failure = recorder.run(seed, &options).expect_err("it failed a moment ago");
    let whole = recorder.take(failure.violation.rule);
    let before = whole.len();
    let mut small: Recording = shrink(whole, &mut |smaller| replay(smaller, &options).breaks(&smaller.rule));
    println!("{name}: {failure}\n{name}: {before} choices, {} after shrinking", small.len());
    small.title = vec![failure.violation.to_string()];
    write(&format!("regressions/{name}"), &small);
}

/// A seed, or a range of them.
fn parse(text: &str) -> std::ops::Range<u64> {
    let number = |text: &str| text.parse::<u64>().expect("a seed");
    text.split_once("..").map_or_else(|| number(text)..number(text) + 1, |(first, end)| number(first)..number(end))
}
