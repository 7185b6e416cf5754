//! Stand-ins for a volume that promises that a power loss leaves a prefix of its writes: what keeps the promise passes, and what does not is
//! found, by the name of the rule.

use std::collections::BTreeSet;
use std::fmt;

use crate::harness::{Mutation, Rules, first};
use crate::log::{self, Bug, LogDevice};
use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Op, Payload, Status};
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

/// Asserts that a log with this bug is found.
fn is_found(name: &str, build: BuildOver, rules: Rules<'_>, at_least: u64) {
    let sound = over(|ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::None)));
    Mutation { name, planted: over(build), sound, rules, seeds: &first::<60>(), at_least }.is_found();
}

#[test]
fn a_disk_without_a_cache_keeps_a_prefix_also_where_it_fails() {
    let reports = pass(0..60, &plain(false));
    assert!(reports.iter().map(|report| report.faults).sum::<u64>() > 20, "nothing failed");
    assert!(reports.iter().map(|report| report.cuts).sum::<u64>() > 1_000, "few cuts");
}

#[test]
fn a_disk_with_a_cache_is_found_to_keep_no_prefix() {
    let (name, rules) = ("in-order-volatile-cache", Rules::Only(&[Rule::Prefix]));
    Mutation { name, planted: plain(true), sound: plain(false), rules, seeds: &first::<40>(), at_least: 30 }.is_found();
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
    let build: BuildOver = |ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::NoFlush));
    is_found("in-order-no-flush", build, Rules::One(&[Rule::Durability]), 10);
}

#[test]
fn a_log_that_is_read_past_its_holes_is_found_to_keep_no_prefix() {
    let build: BuildOver = |ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::OverHoles));
    is_found("in-order-over-holes", build, Rules::One(&[Rule::Prefix]), 5);
}

#[test]
fn a_log_that_does_not_make_fua_durable_is_found() {
    let build: BuildOver = |ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::NoFua));
    is_found("in-order-no-fua", build, Rules::Only(&[Rule::Prefix, Rule::Durability, Rule::Data]), 5);
}

#[test]
fn a_log_without_its_discards_is_found() {
    let build: BuildOver = |ids, limits, blocks| Ok(LogDevice::boxed(ids, limits, blocks, Bug::NoDiscards));
    is_found("in-order-no-discards", build, Rules::One(&[Rule::Prefix]), 5);
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
