//! Guards of `stl` that are gone.

use crate::harness::{Mutation, Rules};
use shingle_core::dm::stl::Sabotage;
use shingle_sim::swarm::{Profile, SwarmOptions, describe};

/// Asserts that the guard is missed. `name` is that of its field.
fn is_found(name: &str, gone: Sabotage, runs: &SwarmOptions, seeds: impl Iterator<Item = u64>) {
    let name = &format!("stl-{}", name.replace('_', "-"));
    let planted = SwarmOptions { stl_sabotage: gone, ..runs.clone() };
    let seeds: Vec<u64> = seeds.collect();
    Mutation { name, planted, sound: runs.clone(), rules: Rules::Any, seeds: &seeds, at_least: 1 }.is_found();
}

fn target(sound: bool) -> SwarmOptions {
    SwarmOptions { profile: Profile::Stl, sound, ..SwarmOptions::default() }
}

/// Seeds in whose scenarios a disk is taken out of the volume while hosts use it.
fn with_removals(seeds: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    seeds.filter(|seed| describe(*seed, Profile::Stl).contains(" leaves"))
}

macro_rules! guards {
    ($($claim:ident: $guard:ident, $options:expr, $seeds:expr;)*) => {$(
        #[test]
        fn $claim() {
            is_found(stringify!($guard), Sabotage { $guard: true, ..Sabotage::default() }, &$options, $seeds);
        }
    )*};
}

guards! {
    replay_that_goes_on_behind_a_gap_is_found: replay_over_gaps, target(true), 0..60;
    a_flush_of_one_device_of_several_is_found: flush_one_device, target(true), 0..60;
    a_start_that_begins_no_new_life_is_found: keep_epoch, target(true), 0..60;
    a_table_whose_volume_is_found_before_the_old_one_rests_is_found: found_early, target(true), 0..60;
    a_reset_before_what_replaced_its_blocks_is_durable_is_found: reset_unjudged, target(true), 0..60;
    a_reset_before_a_root_knows_the_batches_is_found: reset_uncovered, target(true), 0..60;
    a_reset_before_a_root_knows_the_copies_is_found: reset_before_copies, target(true), 0..60;
    a_root_before_what_it_names_is_found: root_before_flush, target(true), 0..60;
    discards_that_are_not_logged_are_found: discards_unlogged, target(true), 0..60;
    copies_over_what_a_user_wrote_meanwhile_are_found: copies_unconditional, target(true), 0..60;
    the_same_in_recovery_is_found: replay_copies_unconditional, target(true), 0..60;
    headers_that_count_wherever_they_lie_are_found: headers_unchecked, target(true), 0..60;
    torn_batches_that_count_are_found: torn_batches_count, target(true), 0..60;
    zones_that_are_opened_before_a_root_grants_them_are_found: open_ungranted, target(true), 0..60;
    parts_of_the_map_that_are_given_up_too_early_are_found: free_map_at_once, target(true), 0..60;
    leaves_that_a_root_takes_for_merged_too_early_are_found: merged_early, target(true), 0..60;
    runs_that_become_one_as_the_oldest_has_it_are_found: older_runs_win, target(true), 0..60;
    fua_that_is_not_durable_is_found: fua_is_nothing, target(true), 0..60;
    batches_that_failed_and_count_are_found_where_disks_fail: failed_batches_count, target(false), 0..60;
    a_zone_that_the_root_of_a_tool_names_and_a_start_takes_for_free_is_found: named_is_free, target(true), with_removals(100..250);
    a_disk_that_is_let_go_before_it_is_empty_is_found: emptied_early, target(true), with_removals(100..250);
    a_flush_after_a_failed_one_that_flushes_nothing_is_found: failed_flush_counts, target(false), 0..60;
    reads_that_compare_no_checksum_are_found: reads_unchecked, target(false), 0..120;
    // Found where disks fail, so that garbage collection takes long, and a sweep meanwhile gave the victim back: copies of its next use were lost.
    // One scenario in many thousands shows it.
    a_victim_that_is_known_by_its_place_alone_is_found: victims_by_place, SwarmOptions { one_cut_of: Some(64), ..target(false) }, 22_189..22_190;
}
