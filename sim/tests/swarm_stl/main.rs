//! Volumes that promise that a loss of power leaves a prefix of their writes: what keeps the promise passes, and what does not is
//! found out, by the name of the promise.

mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use log::{Bug, LogDevice};
use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Op, Payload, Status};
use shingle_core::dm::stl::Sabotage;
use shingle_core::sector::Sector;
use shingle_sim::model::Rule;
use shingle_sim::swarm::{BuildOver, Over, Profile, Report, SwarmOptions, describe, run};

/// A regular device over a regular disk: as durable and as ordered as that is, and all of it at a stop.
struct Plain {
    below: [DeviceId; 1],
    limits: Limits,
}

/// Marks its own flush among the bios that come back.
const OWN: u64 = u64::MAX;

impl Plain {
    fn boxed(below: DeviceId, limits: &Limits) -> Box<dyn BlockDevice> {
        let limits = Limits { max_discard: limits.max_write_zeroes, ..limits.clone() };
        Box::new(Self { below: [below], limits })
    }
}

impl BlockDevice for Plain {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        let word = bio.op as u64;
        if bio.op == Op::Discard {
            bio.op = Op::WriteZeroes;
        }
        cx.submit(self.below[0], bio, word);
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if word == OWN {
            return cx.recycle(bio);
        }
        bio.op = Op::ALL[word as usize];
        cx.complete(bio, status);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if let Event::Suspend { .. } = event {
            let flush = cx.own_bio(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None));
            cx.submit(self.below[0], flush, OWN);
        }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("a regular device")
    }
}

fn plain(write_cache: bool) -> SwarmOptions {
    let (volume, write_cache) = (Some(Plain::boxed as _), Some(write_cache));
    SwarmOptions { profile: Profile::Stl, volume, write_cache, ..SwarmOptions::default() }
}

fn over(build: BuildOver) -> SwarmOptions {
    let over = Some(Over { format: log::format, build });
    SwarmOptions { profile: Profile::Stl, over, sound: true, ..SwarmOptions::default() }
}

/// Runs seeds that have to pass.
fn pass(seeds: impl IntoIterator<Item = u64>, options: &SwarmOptions) -> Vec<Report> {
    let reports = seeds.into_iter().map(|seed| run(seed, options).unwrap_or_else(|failure| panic!("{failure}")));
    let reports: Vec<Report> = reports.collect();
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    println!(
        "{} worlds, {} cuts, {} requests, {} faults, {} swaps",
        reports.len(),
        sum(|report| report.cuts),
        sum(|report| report.ops),
        sum(|report| report.faults),
        sum(|report| report.swaps)
    );
    reports
}

/// Runs seeds, and tells how often which promise was found broken.
fn hunt(seeds: u64, options: &SwarmOptions) -> BTreeMap<Rule, u64> {
    let mut found = BTreeMap::new();
    for failure in (0..seeds).filter_map(|seed| run(seed, options).err()) {
        *found.entry(failure.violation.rule).or_default() += 1;
    }
    println!("{found:?} of {seeds} seeds");
    found
}

#[test]
fn a_disk_without_a_cache_keeps_a_prefix_also_where_it_fails() {
    let reports = pass(0..60, &plain(false));
    assert!(reports.iter().map(|report| report.faults).sum::<u64>() > 20, "nothing failed");
    assert!(reports.iter().map(|report| report.cuts).sum::<u64>() > 1_000, "few cuts");
}

#[test]
fn a_disk_with_a_cache_is_found_to_keep_no_prefix() {
    let found = hunt(40, &plain(true));
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [Rule::Prefix], "{found:?}");
    assert!(found[&Rule::Prefix] >= 30, "{found:?}");
}

#[test]
fn a_disk_with_a_cache_does_what_a_disk_with_a_cache_promises() {
    pass(0..20, &SwarmOptions { profile: Profile::DmZoned, ..plain(true) });
}

#[test]
fn a_log_that_is_written_in_order_passes_on_disks_of_all_shapes() {
    let reports = pass(0..60, &over(|ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::None))));
    assert!(reports.iter().map(|report| report.cuts).sum::<u64>() > 1_000, "few cuts");
}

#[test]
fn a_log_that_goes_on_in_the_next_zone_without_a_flush_is_found_to_lose_what_was_flushed() {
    let found = hunt(60, &over(|ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::NoFlush))));
    assert!(found.get(&Rule::Durability).is_some_and(|times| *times >= 10), "{found:?}");
}

#[test]
fn a_log_that_is_read_past_its_holes_is_found_to_keep_no_prefix() {
    let found = hunt(60, &over(|ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::OverHoles))));
    assert!(found.get(&Rule::Prefix).is_some_and(|times| *times >= 5), "{found:?}");
}

#[test]
fn a_log_that_does_not_make_fua_durable_is_found() {
    let found = hunt(60, &over(|ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::NoFua))));
    let rules = [Rule::Prefix, Rule::Durability, Rule::Data];
    assert!(found.keys().all(|rule| rules.contains(rule)), "{found:?}");
    assert!(found.values().sum::<u64>() >= 5, "{found:?}");
}

#[test]
fn a_log_without_its_discards_is_found() {
    let found = hunt(60, &over(|ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::NoDiscards))));
    assert!(found.get(&Rule::Prefix).is_some_and(|times| *times >= 5), "{found:?}");
}

#[test]
fn worlds_are_diverse_and_the_same_for_the_same_seed() {
    let worlds: BTreeSet<String> = (0..50).map(|seed| describe(seed, Profile::Stl)).collect();
    assert_eq!(worlds.len(), 50);
    for part in ["a regular disk", "(2 conv)", "dead [(", "bad blocks: true"] {
        assert!(worlds.iter().any(|world| world.contains(part)), "no world has {part}");
    }
    let options = over(|ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::None)));
    assert_eq!(run(7, &options).unwrap(), run(7, &options).unwrap());
}

fn target(sound: bool) -> SwarmOptions {
    SwarmOptions { profile: Profile::Stl, sound, ..SwarmOptions::default() }
}

#[test]
fn the_target_keeps_its_promise_on_sound_disks_of_all_shapes() {
    let reports = pass(0..60, &target(true));
    assert!(reports.iter().map(|report| report.cuts).sum::<u64>() > 2_000, "few cuts");
    assert!(reports.iter().map(|report| report.kills).sum::<u64>() > 400, "few kills");
}

/// One out of so many power cuts is looked at where disks fail: that takes more worlds.
const ONE_CUT_OF: u64 = 4;

#[test]
fn the_target_keeps_its_promise_and_goes_on_or_says_why_not_where_disks_fail() {
    let reports = pass(0..100, &SwarmOptions { one_cut_of: Some(ONE_CUT_OF), ..target(false) });
    assert!(reports.iter().map(|report| report.faults).sum::<u64>() > 300, "hardly anything failed");
    assert!(reports.iter().map(|report| report.cuts).sum::<u64>() > 2_000, "few cuts");
}

/// Whether one of the first worlds shows that a guard of the target is gone.
fn is_found(gone: Sabotage, sound: bool) -> bool {
    let options = SwarmOptions { stl_sabotage: gone, ..target(sound) };
    (0..60).any(|seed| run(seed, &options).is_err())
}

#[test]
fn batches_that_failed_and_count_are_found_where_disks_fail() {
    assert!(is_found(Sabotage { failed_batches_count: true, ..Sabotage::default() }, false), "no world shows it");
}

/// Found where disks fail, so that cleaning takes long, and a sweep meanwhile gave the victim back: copies in its next life were lost.
#[test]
fn a_victim_that_is_known_by_its_place_alone_is_found() {
    // One world in many thousands shows it.
    let gone = Sabotage { victims_by_place: true, ..Sabotage::default() };
    let options = SwarmOptions { stl_sabotage: gone, one_cut_of: Some(64), ..target(false) };
    assert!(run(22_189, &options).is_err(), "the world does not show it any more");
    pass([22_189], &SwarmOptions { one_cut_of: Some(64), ..target(false) });
}

/// The headers alone led to batches of a life that had lost them, when all that the next one had written was written over.
#[test]
fn the_headers_alone_lead_to_nothing_that_a_life_has_lost() {
    for (seed, ops) in [(1_904_931_113, 165), (141_089_200, 10)] {
        pass([seed], &SwarmOptions { ops: Some(ops), ..target(false) });
    }
}

/// What stays was moved from zone to zone for ever, to make room for a disk that is to leave, where no room came of it.
#[test]
fn making_room_for_a_disk_that_leaves_ends_where_moving_more_gives_none() {
    pass([9_102_254], &SwarmOptions { ops: Some(26), one_cut_of: Some(8), ..target(false) });
}

/// Tables of the volume are swapped in one world of three: another instance of the target finds what the one before has left.
#[test]
fn swaps_of_its_table_under_load_lose_nothing_and_fail_nothing_with_power_cuts_anywhere() {
    let swapped = |seed: &u64| describe(*seed, Profile::Stl).contains("tables swapped");
    for (sound, seeds) in [(true, 100..145), (false, 200..260)] {
        let options = SwarmOptions { one_cut_of: Some(2 * ONE_CUT_OF), ..target(sound) };
        let reports = pass(seeds.filter(swapped), &options);
        assert!(reports.iter().map(|report| report.swaps).sum::<u64>() > 80, "few swaps");
    }
}

/// Seeds in whose worlds a disk is taken out of the volume while hosts use it.
fn with_removals(seeds: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    seeds.filter(|seed| describe(*seed, Profile::Stl).contains(" leaves"))
}

#[test]
fn a_disk_that_leaves_under_load_takes_nothing_with_it_with_power_cuts_anywhere() {
    let options = SwarmOptions { one_cut_of: Some(2 * ONE_CUT_OF), ..target(true) };
    let reports = pass(with_removals(100..180), &options);
    let noted = |what: &str| reports.iter().filter_map(|report| report.noted.get(what)).sum::<u64>();
    let (removed, added) = (noted("removed"), noted("added"));
    assert!(removed >= 8 && added >= 8, "{removed} disks were removed, {added} added again");
}

/// The tool wrote a second root where a zone takes one, and refused a volume of which one disk had an older root.
#[test]
fn a_disk_is_added_whatever_its_zones_take_and_whatever_was_cut_off_before() {
    pass([3_300_000_009, 3_300_000_020], &SwarmOptions { one_cut_of: Some(8), ..target(false) });
}

/// The first waited for a zone that only users could have brought, or had none left for a root, as users wrote aside to where room was made. The
/// second cleaned zones for ever that were as full as those with their copies. The third kept zones back as if all were as short as those of the disk that
/// had left.
#[test]
fn a_disk_that_leaves_where_room_is_short_leaves_or_is_said_to_be_stuck() {
    pass([2_352_720_287, 2_352_721_220, 3_600_000_182], &SwarmOptions { one_cut_of: Some(8), ..target(false) });
}

/// Each attempt at a batch took one more zone, down to the last. A start after the loss of power found no zone for its root, nor did any after it, and
/// what the batch had held back was found by the headers alone.
#[test]
fn a_batch_that_fails_again_and_again_leaves_the_next_start_a_zone() {
    pass([3_400_000_165], &SwarmOptions { one_cut_of: Some(8), ..target(false) });
}

/// A zone of the map was full of a batch of a sweep that took long, and had nothing else: a checkpoint gave it back.
#[test]
fn a_zone_is_kept_while_a_part_of_the_map_is_on_its_way_there() {
    pass([2_081_513_836], &SwarmOptions { one_cut_of: Some(8), ..target(false) });
}

/// A batch that had made a block zeroes and written it was written again elsewhere, and torn there: by the headers alone the block was zeroes.
#[test]
fn of_a_batch_that_was_written_again_and_torn_the_attempt_before_it_is_salvaged() {
    pass([3_700_011_641], &SwarmOptions { one_cut_of: Some(8), ..target(false) });
}

/// Each start took a zone for its root, and gave none back before the power went: the fourth found none.
#[test]
fn starts_that_are_cut_off_do_not_use_up_the_zones() {
    pass([3_700_010_090], &SwarmOptions { one_cut_of: Some(8), ..target(false) });
}

#[test]
fn zones_that_are_open_for_copies_are_cleaned_when_users_have_none() {
    // A device of 17 zones is left of two. Three of them were open for copies, and no other had anything to give.
    pass([5_201_470], &SwarmOptions { one_cut_of: Some(8), ..target(false) });
}

fn is_found_where_a_disk_leaves(gone: Sabotage) -> bool {
    let options = SwarmOptions { stl_sabotage: gone, ..target(true) };
    with_removals(100..250).any(|seed| run(seed, &options).is_err())
}

/// The start behind the tool's root emptied the zone with the tables that this root names, and the volume was lost.
#[test]
fn a_zone_that_the_root_of_a_tool_names_and_a_start_takes_for_free_is_found() {
    assert!(is_found_where_a_disk_leaves(Sabotage { named_is_free: true, ..Sabotage::default() }), "no world shows it");
}

#[test]
fn a_disk_that_is_let_go_before_it_is_empty_is_found() {
    assert!(is_found_where_a_disk_leaves(Sabotage { emptied_early: true, ..Sabotage::default() }), "no world shows it");
}

macro_rules! guards {
    ($($claim:ident: $guard:ident)*) => {$(
        #[test]
        fn $claim() {
            assert!(is_found(Sabotage { $guard: true, ..Sabotage::default() }, true), "no world shows it");
        }
    )*};
}

guards! {
    replay_that_goes_on_behind_a_gap_is_found: replay_over_gaps
    a_flush_of_one_device_of_several_is_found: flush_one_device
    a_start_that_begins_no_new_life_is_found: keep_epoch
    a_table_whose_volume_is_found_before_the_old_one_rests_is_found: found_early
    a_reset_before_what_replaced_its_blocks_is_durable_is_found: reset_unjudged
    a_reset_before_a_root_knows_the_batches_is_found: reset_uncovered
    a_reset_before_a_root_knows_the_copies_is_found: reset_before_copies
    a_root_before_what_it_names_is_found: root_before_flush
    discards_that_are_not_logged_are_found: discards_unlogged
    copies_over_what_a_user_wrote_meanwhile_are_found: copies_unconditional
    the_same_in_recovery_is_found: replay_copies_unconditional
    headers_that_count_wherever_they_lie_are_found: headers_unchecked
    torn_batches_that_count_are_found: torn_batches_count
    zones_that_are_opened_before_a_root_grants_them_are_found: open_ungranted
    parts_of_the_map_that_are_given_up_too_early_are_found: free_map_at_once
    leaves_that_a_root_takes_for_merged_too_early_are_found: merged_early
    runs_that_become_one_as_the_oldest_has_it_are_found: older_runs_win
    fua_that_is_not_durable_is_found: fua_is_nothing
}
