//! Heads over faulty paths to one disk: nothing that was acknowledged is lost, doubled unnoticed or reordered, and everything ends. With a
//! guard of the head taken away something of that is broken, and the swarm finds it.

use std::collections::BTreeMap;
use std::fmt;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Status};
use shingle_core::multipath::Sabotage;
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_sim::model::Rule;
use shingle_sim::swarm::{Failure, MakePlug, Profile, Report, SwarmOptions, describe, run};

/// Seeds that every test run looks at.
const SEEDS: u64 = 300;

fn play(seed: u64, sabotage_paths: Sabotage) -> Result<Report, Box<Failure>> {
    run(seed, &SwarmOptions { profile: Profile::Paths, sabotage_paths, ..SwarmOptions::default() })
}

/// `SWARM_FIRST` and `SWARM_SEEDS` choose others.
#[test]
fn a_disk_over_paths_that_fail_keeps_every_promise() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, count) = (number("SWARM_FIRST", 0), number("SWARM_SEEDS", SEEDS));
    let (mut failures, mut cuts, mut ops, mut noted) = (vec![], 0, 0, BTreeMap::new());
    for seed in first..first + count {
        match play(seed, Sabotage::default()) {
            Ok(report) => {
                (cuts, ops) = (cuts + report.cuts, ops + report.ops);
                report.noted.iter().for_each(|(what, times)| *noted.entry(*what).or_insert(0) += times);
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{} of {count} seeds fail\n{}", failures.len(), failures.join("\n"));
    println!("{ops} requests and {cuts} losses of power in {count} seeds: {noted:?}");
    assert!(cuts > count / 2 && noted["path error"] > 10 * count, "too little happens: {cuts} cuts, {noted:?}");
    let seen = ["policy", "fail_path", "reinstate_path", "inaccessible", "change", "no path", "uncertain append"];
    let rare =
        ["doubled append", "remove_path", "add_path", "unsettled change", "outage", "lost cache", "accept_losses"];
    seen.iter().chain(&rare).for_each(|what| assert!(noted[what] > count / 30, "{what}: {noted:?}"));
}

#[test]
fn the_seeds_draw_worlds_of_every_kind() {
    let worlds: Vec<String> = (0..200).map(|seed| describe(seed, Profile::Paths)).collect();
    let kinds = [
        "; 2 paths by numa",
        "by queue-depth",
        "by latency",
        "by historical-service-time",
        "rules Nvme",
        "rules Dm",
        "steady true",
        "steady false",
        "may double true",
        "without one None",
        "removal after Duration(0)",
        "mute true",
        "Outages",
        "AtOnce",
        "Told",
        "After(",
        " 0 fault rules",
        "Native append",
        "Emulated append",
        "above: Two",
        "2 zones of ",
    ];
    for kind in kinds {
        let found = worlds.iter().filter(|world| world.contains(kind)).count();
        assert!(found >= 3, "{found} worlds of 200 have `{kind}`");
    }
}

/// How many seeds it takes to find that these guards are gone, and what is found.
fn hunt(sabotage: Sabotage) -> Option<(u64, Rule)> {
    (0..10 * SEEDS).find_map(|seed| Some((seed + 1, play(seed, sabotage).err()?.violation.rule)))
}

#[test]
fn a_guard_of_the_head_that_is_gone_is_missed() {
    let none = Sabotage::default();
    let bugs = [
        ("stale reset", Sabotage { resets_unawaited: true, ..none }),
        ("stale conventional write", Sabotage { overwrites_unawaited: true, ..none }),
        ("stale zone write", Sabotage { zone_writes_unawaited: true, ..none }),
        ("stale append", Sabotage { appends_unawaited: true, ..none }),
        ("same path again", Sabotage { same_path_again: true, ..none }),
        ("kicked early", Sabotage { kicked_early: true, ..none }),
        ("states ignored", Sabotage { states_ignored: true, ..none }),
        ("pointers unasked", Sabotage { pointers_unasked: true, ..none }),
        ("silence unbounded", Sabotage { silence_unbounded: true, ..none }),
        ("removal ignored", Sabotage { removal_ignored: true, ..none }),
        ("removed unawaited", Sabotage { removed_unawaited: true, ..none }),
        ("classes mixed", Sabotage { classes_mixed: true, ..none }),
        ("loss unheard", Sabotage { losses_unheard: true, ..none }),
        ("flush after a loss", Sabotage { losses_unflushed: true, ..none }),
        ("change from before a loss", Sabotage { losses_undone: true, ..none }),
    ];
    let found = bugs.map(|(name, bug)| (name, hunt(bug)));
    found.iter().for_each(|(name, found)| println!("{name}: {found:?}"));
    let missed: Vec<_> = found.iter().filter(|(_, found)| found.is_none()).map(|(name, _)| name).collect();
    assert!(missed.is_empty(), "no seed of {} finds {missed:?}", 10 * SEEDS);
}

/// A plug that hears when the disk has lost its power, or does not.
struct Listener<const HEARS: bool>(ZonePlug);

impl<const HEARS: bool> BlockDevice for Listener<HEARS> {
    fn hears_losses(&self) -> bool {
        HEARS
    }

    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    fn below(&self) -> &[DeviceId] {
        self.0.below()
    }

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.0.attached(cx);
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.0.submit(bio, cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        self.0.end_io(bio, status, word, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.0.on_event(event, cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.0.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.describe(out)
    }
}

fn listener<const HEARS: bool>(below: DeviceId, limits: &Limits, options: PlugOptions) -> Box<dyn BlockDevice> {
    Box::new(Listener::<HEARS>(ZonePlug::new(below, limits, options).unwrap()))
}

#[test]
fn a_plug_that_trusts_its_pointers_after_a_loss_of_power_is_missed() {
    // Writes that came to the disk before anything told where the pointer is. A plug of another kind is not mended by its operator when it
    // cannot learn its zones, so other rules say nothing here.
    let find = |plug: MakePlug| {
        let options = SwarmOptions { profile: Profile::Paths, plug: Some(plug), ..SwarmOptions::default() };
        let rules = (0..SEEDS).filter_map(|seed| Some(run(seed, &options).err()?.violation.rule));
        rules.filter(|rule| *rule == Rule::Order).count()
    };
    let [hears, is_deaf] = [find(listener::<true>), find(listener::<false>)];
    assert!(hears == 0 && is_deaf > 3, "{hears} and {is_deaf} worlds");
}
