//! Guards of dm-zoned that are gone. Four of them are against ways in which the kernel's dm-zoned loses or mixes up data after a power loss
//! (docs/dm-zoned-format.md), others against losses at a table swap. Without the guard the swarm finds the loss, and with it the same scenarios pass.

use crate::harness::{Mutation, Rules, first};
use shingle_core::dm::zoned::Sabotage;
use shingle_sim::model::Rule;
use shingle_sim::swarm::{Profile, SwarmOptions, describe};

fn options(sabotage: Sabotage) -> SwarmOptions {
    SwarmOptions { profile: Profile::DmZoned, sabotage, ..SwarmOptions::default() }
}

/// Asserts that the missing guard loses or mixes up data. Other consequences, such as metadata that an independent check finds wrong, come first
/// in some scenarios: those prove nothing.
fn guards_against(name: &str, sabotage: Sabotage) {
    is_found(name, sabotage, &first::<120>());
}

/// Asserts that scenarios with table swaps lose or mix up data without the guard.
fn guards_at_swaps(name: &str, sabotage: Sabotage) {
    let seeds: Vec<u64> =
        (0..400).filter(|seed| describe(*seed, Profile::DmZoned).contains("tables swapped")).collect();
    is_found(name, sabotage, &seeds);
}

fn is_found(name: &str, sabotage: Sabotage, seeds: &[u64]) {
    let (planted, sound) = (options(sabotage), options(Sabotage::default()));
    Mutation { name: &format!("dmzoned-{name}"), planted, sound, rules: Rules::One(&LOSS), seeds, at_least: 1 }
        .is_found();
}

const LOSS: [Rule; 3] = [Rule::Durability, Rule::Data, Rule::Foreign];

#[test]
fn h1_a_set_that_lags_behind_is_made_equal_before_anything_is_written() {
    guards_against("no-resync", Sabotage { no_resync: true, ..Sabotage::default() });
}

#[test]
fn h2_a_zone_that_was_given_up_is_not_used_before_the_commit_that_let_it_go() {
    guards_against("reuse-at-once", Sabotage { reuse_at_once: true, ..Sabotage::default() });
}

#[test]
fn h3_a_commit_does_not_tell_of_blocks_whose_write_is_under_way() {
    guards_against("valid-when-sent", Sabotage { valid_when_sent: true, ..Sabotage::default() });
}

#[test]
fn h4_a_flush_reaches_every_device_that_has_data() {
    guards_against("flush-metadata-only", Sabotage { flush_metadata_only: true, ..Sabotage::default() });
}

/// Ours alone: a kernel does not outlive its own writes.
#[test]
fn what_a_killed_process_has_left_in_caches_is_covered_by_the_first_flush() {
    guards_against("trust-caches-at-load", Sabotage { trust_caches_at_load: true, ..Sabotage::default() });
}

#[test]
fn a_table_that_reads_metadata_before_the_old_one_rests_is_found() {
    guards_at_swaps("found-early", Sabotage { found_early: true, ..Sabotage::default() });
}

#[test]
fn a_suspend_that_does_not_wait_for_writes_in_flight_is_found() {
    guards_at_swaps("rest-while-written", Sabotage { rest_while_written: true, ..Sabotage::default() });
}

#[test]
fn a_suspend_that_does_not_wait_for_held_writes_is_found() {
    guards_at_swaps("rest-while-held", Sabotage { rest_while_held: true, ..Sabotage::default() });
}

#[test]
fn a_swap_that_drops_writes_kept_in_memory_only_is_found() {
    guards_at_swaps("replaceable-after-loss", Sabotage { replaceable_after_loss: true, ..Sabotage::default() });
}
