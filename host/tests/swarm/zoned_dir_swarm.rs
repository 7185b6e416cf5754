//! The real zoned disk on a simulated kernel, in random worlds: the same hosts, plugs and promises as `shingle sim`, with
//! losses of power that take what a file system may lose, short and failing calls, late and reordered completions.
//!
//! The guards of the disk are taken away one at a time, and the same seeds have to notice.
//! `SWARM_FIRST=100000 SWARM_SEEDS=5000 cargo test -p shingle-host --test swarm zoned_dir_swarm` runs other seeds.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use shingle_core::random::Rng;
use shingle_core::time::Duration;
use shingle_core::zone::ZoneGeometry;
use shingle_host::disk::zoned_dir::{self, ErrorKind, Options, Shape};
use shingle_sim::disk::OtherDisk;
use shingle_sim::swarm::Profile;
use shingle_sys::RingHandle;

use crate::simulated::kernel::{Bug, Kernel, Shared};
use crate::simulated::tree::Tree;
use crate::simulated::worlds::{Worlds, planted};
use crate::simulated::{PATH, make};

/// Seeds that once found something. What a seed draws changes when the drawing changes; each has a test of its own as well.
const FOUND: [(Profile, u64); 1] = [
    // A mistake of the model: a zone was reset, and failed before the reset of all zones was answered (sim/tests/workload/sim_model.rs).
    (Profile::Append, 70203),
];

/// Worlds on a disk with a bug.
macro_rules! worlds {
    ($bug:ident) => {
        Worlds { disk: OtherDisk::Files, make: |config, choices, left| make(config, choices, left, Bug::$bug) }
    };
}

#[test]
fn the_zoned_disk_keeps_all_promises_on_a_kernel_that_fails_and_loses_its_power() {
    worlds!(None).all_pass(40);
}

#[test]
fn seeds_that_once_found_something_find_nothing_any_more() {
    for (profile, seed) in FOUND {
        worlds!(None).pass(profile, seed);
    }
}

planted!(worlds, a_reset_that_is_not_synced_is_found, UnsyncedReset, 1);
planted!(worlds, a_closed_file_that_is_not_synced_is_found, UnsyncedEviction, 1);
planted!(worlds, a_short_write_taken_for_a_whole_one_is_found, NoContinuation, 0);
planted!(worlds, a_short_read_taken_for_a_whole_one_is_found, NoReadContinuation, 0);
planted!(worlds, fua_that_is_ignored_is_found, NoFua, 12);
planted!(worlds, a_failed_sync_that_is_not_heard_of_is_found, DeafToSync, 22);
planted!(worlds, a_failed_write_after_which_the_size_is_not_learned_is_found, NoLearning, 0);
planted!(worlds, a_forgotten_limit_of_open_zones_is_found, NoOpenLimit, 4);
planted!(worlds, an_interrupted_request_taken_for_a_done_one_is_found, NoRetry, 0);

/// Cuts the power after so many calls of a creation, of which one may fail; whether it was done, and whether what is left is a disk or
/// none, as it must be.
fn create_until(calls: u64, fails_in: Option<u64>, seed: u64, bug: Bug) -> (bool, Result<(), String>) {
    let zones = ZoneGeometry::new(4 * 64, 64, 64, 1).unwrap();
    let shape = Shape::new(zones);
    let start = |tree| Kernel::new(tree, Rng::new(seed), (Duration(1), Duration(2)));
    let mut kernel = start(Tree::new(512));
    (kernel.bug, kernel.calls_left, kernel.fails_in) = (bug, Some(calls), fails_in);
    let kernel = Shared(Rc::new(RefCell::new(kernel)));
    let made = zoned_dir::create_on(Rc::new(kernel.clone()), Path::new(PATH), &shape, &mut |_| ()).is_ok();
    let left = kernel.0.borrow().cut_power(&mut Rng::new(seed));
    let kernel = Shared(Rc::new(RefCell::new(start(left))));
    let ring = RingHandle::over(kernel.clone());
    let opened = zoned_dir::open_on(Rc::new(kernel), Path::new(PATH), &Options::default(), ring);
    let outcome = match opened {
        Ok(_) => Ok(()),
        Err(error) if !made && matches!(error.kind, ErrorKind::Absent | ErrorKind::NoGeometry) => Ok(()),
        Err(error) => Err(format!("after {calls} calls, failed {fails_in:?}, seed {seed}: {error}")),
    };
    (made, outcome)
}

/// The first broken promise of a creation that loses its power after any call.
fn create_and_cut(bug: Bug) -> Result<(), String> {
    for calls in 0.. {
        let mut made = false;
        for seed in 0..50 {
            let (done, outcome) = create_until(calls, None, seed, bug);
            outcome?;
            made = done;
        }
        if made {
            break;
        }
    }
    Ok(())
}

#[test]
fn a_creation_that_loses_its_power_after_any_call_leaves_a_disk_or_none() {
    create_and_cut(Bug::None).unwrap();
    for bug in [Bug::NoNameSync, Bug::NoGeometrySync] {
        let found = create_and_cut(bug);
        println!("{found:?}");
        assert!(found.is_err(), "{bug:?} was not noticed");
    }
}

/// It removes what it has made, and the power goes meanwhile.
#[test]
fn a_creation_that_fails_at_any_call_and_then_loses_its_power_leaves_a_disk_or_none() {
    for fails_in in 0.. {
        for (calls, seed) in (0..40).flat_map(|calls| (0..20).map(move |seed| (calls, seed))) {
            let (made, outcome) = create_until(calls, Some(fails_in), seed, Bug::None);
            outcome.unwrap();
            if made {
                return assert!(fails_in > 10, "a creation has more calls, and each can fail");
            }
        }
    }
}

/// Opens a disk in which a host that is gone has written a block, and cuts the power; whether the block is there then.
fn is_kept_after_a_kill(bug: Bug, seed: u64) -> bool {
    let zones = ZoneGeometry::new(4 * 64, 64, 64, 1).unwrap();
    let kernel = Shared(Rc::new(RefCell::new(Kernel::new(Tree::new(512), Rng::new(seed), (Duration(1), Duration(2))))));
    let files = || Rc::new(kernel.clone());
    zoned_dir::create_on(files(), Path::new(PATH), &Shape::new(zones), &mut |_| ()).unwrap();
    let find = |tree: &Tree| {
        let directory = tree.find(0, PATH.trim_start_matches('/')).unwrap();
        tree.find(directory, "seq-000001").unwrap()
    };
    let zone = find(&kernel.0.borrow().tree);
    kernel.0.borrow_mut().tree.write(zone, 0, &[7; 4096]);
    kernel.0.borrow_mut().bug = bug;
    let ring = RingHandle::over(kernel.clone());
    zoned_dir::open_on(files(), Path::new(PATH), &Options::default(), ring).unwrap();
    let left = kernel.0.borrow().cut_power(&mut Rng::new(seed));
    left.file(find(&left)).unwrap().now == [7; 4096]
}

#[test]
fn what_a_killed_host_has_written_is_durable_before_the_next_one_is_let_in() {
    assert!((0..50).all(|seed| is_kept_after_a_kill(Bug::None, seed)));
    assert!(!(0..50).all(|seed| is_kept_after_a_kill(Bug::NoNameSync, seed)), "a missing sync was not noticed");
}
