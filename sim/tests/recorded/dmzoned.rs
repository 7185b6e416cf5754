//! Four ways in which the kernel's dm-zoned loses or mixes up data after a loss of power (docs/dm-zoned-format.md). Each has a
//! guard in the target. Without the guard the crash swarm finds the loss, and with it the same worlds pass.

use crate::harness::{Mutation, Rules, first};
use shingle_core::dm::zoned::Sabotage;
use shingle_sim::model::Rule;
use shingle_sim::swarm::{Profile, SwarmOptions};

fn options(sabotage: Sabotage) -> SwarmOptions {
    SwarmOptions { profile: Profile::DmZoned, sabotage, ..SwarmOptions::default() }
}

/// Asserts that the missing guard loses or mixes up data. Other consequences, such as metadata that an independent check finds wrong, come first
/// in some scenarios: those prove nothing.
fn guards_against(name: &str, sabotage: Sabotage) {
    let (planted, sound) = (options(sabotage), options(Sabotage::default()));
    Mutation {
        name: &format!("dmzoned-{name}"),
        planted,
        sound,
        rules: Rules::One(&LOSS),
        seeds: &first::<120>(),
        at_least: 1,
    }
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
