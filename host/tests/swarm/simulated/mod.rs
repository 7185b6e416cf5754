//! The disks of this crate on a simulated kernel, in the place of the simulated disk of a swarm.
//!
//! ```text
//!   swarm: hosts, plug ──> ZonedDir ── Request ──> kernel: ring, files ── power cut ──> tree: what survives
//!                              └── open, stat, ... ──┘   (late, reordered, short, failing)
//! ```
//!
//! - [`block`]: a zoned block device as a disk, with its own kernel; [`zone_plugs`] is what that believes of zones.
//! - [`file`]: a file as a disk on it, which has its own swarm.
//! - [`serving`]: a shard with NBD connections over such a file; [`net`] is its ring, [`client`] who connects, every other seed with [`tls`],
//!   and [`operator`] who changes how they come meanwhile.
//! - [`tree`]: files and directories, and what of them survives.
//! - [`worlds`]: random worlds on the disks with zones.
//! - [`kernel`]: the ring and the calls, in virtual time, with faults; bugs are planted there.

pub mod block;
pub mod client;
pub mod file;
pub mod kernel;
pub mod net;
pub mod operator;
pub mod serving;
pub mod tls;
pub mod tree;
pub mod worlds;
pub mod zone_plugs;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use kernel::{Bug, KERNEL, Kernel, Shared};
use shingle_core::block::{Bio, BlockDevice, Cx, Event, Flags, Limits, Op};
use shingle_core::time::Instant;
use shingle_core::zone::{Condition, ResourceLimits, ZoneNo};
use shingle_host::disk::zoned_dir::{self, Options, Shape, ZonedDir};
use shingle_sim::Choices;
use shingle_sim::disk::{CrashConfig, Powered};
use shingle_sim::fault::FaultPlan;
use shingle_sys::RingHandle;
use tree::Tree;

pub const PATH: &str = "/disk";

/// The shape that a swarm has drawn.
pub fn shape(config: &CrashConfig) -> Shape {
    Shape {
        zones: config.geometry,
        block_bytes: config.block_bytes,
        limits: config.resources,
        append: config.max_append.is_some(),
    }
}

/// A zoned disk in a simulated directory.
pub struct SimulatedDir {
    disk: ZonedDir,
    kernel: Shared,
    resources: ResourceLimits,
    complaint: Option<(Instant, String)>,
}

/// Makes a disk as a swarm wants it, on a kernel with a bug.
pub fn make(
    config: &CrashConfig,
    mut choices: Choices,
    left: Option<Box<dyn Any>>,
    bug: Bug,
) -> Result<Box<dyn Powered>, String> {
    let is_new = left.is_none();
    let tree = match left {
        Some(left) => *left.downcast::<Tree>().map_err(|_| "what is left is no tree")?,
        None => Tree::new(config.block_bytes as usize),
    };
    let mut kernel = Kernel::new(tree, choices.rng().clone(), (config.fastest, config.slowest));
    let most_files = 1 + kernel.rng.below(4) as usize;
    kernel.bug = bug;
    let kernel = Shared(Rc::new(RefCell::new(kernel)));
    let limits = if bug == Bug::NoOpenLimit { ResourceLimits::NONE } else { config.resources };
    if is_new {
        let shape = Shape { limits, ..shape(config) };
        let made = zoned_dir::create_on(Rc::new(kernel.clone()), Path::new(PATH), &shape, &mut |_| ());
        made.map_err(|error| error.to_string())?;
    }
    let options = Options { most_files, ..Options::default() };
    let ring = RingHandle::over(kernel.clone());
    let disk = zoned_dir::open_on(Rc::new(kernel.clone()), Path::new(PATH), &options, ring);
    let disk = disk.map_err(|error| format!("the disk cannot be opened: {error}"))?;
    Ok(Box::new(SimulatedDir { disk, kernel, resources: config.resources, complaint: None }))
}

impl SimulatedDir {
    /// What is done goes to the disk, which may ask for more.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        self.kernel.drive(&mut self.disk, cx);
        self.count_open(cx.now());
    }

    fn count_open(&mut self, now: Instant) {
        let Some(most) = self.resources.max_open() else { return };
        let zones = self.disk.zones();
        let is_open =
            |zone: &ZoneNo| matches!(zones.state(*zone).cond, Condition::ImplicitOpen | Condition::ExplicitOpen);
        let open = (0..zones.geometry().zones()).map(ZoneNo).filter(is_open).count();
        if open > most as usize {
            self.complaint.get_or_insert((now, format!("{open} zones are open, and {most} may be")));
        }
    }
}

impl BlockDevice for SimulatedDir {
    fn limits(&self) -> &Limits {
        self.disk.limits()
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        {
            let kernel = &mut *self.kernel.0.borrow_mut();
            kernel.now = cx.now();
            // After a sync that failed every flush fails.
            let flushes = bio.op == Op::Flush || bio.flags.has(Flags::PREFLUSH);
            if flushes && !kernel.unsynced.is_empty() {
                kernel.fault_in(self.disk.zones().zone_at(bio.sector).ok().filter(|_| bio.op != Op::Flush));
            }
        }
        self.disk.submit(bio, cx);
        self.go_on(cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if !matches!(event, Event::Timer(KERNEL)) {
            self.kernel.0.borrow_mut().now = cx.now();
            self.disk.on_event(event, cx);
        }
        self.go_on(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.disk.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.disk.describe(out)
    }
}

impl Powered for SimulatedDir {
    fn set_plan(&mut self, plan: FaultPlan) {
        self.kernel.0.borrow_mut().troubled = !plan.is_empty();
    }

    fn complaint(&self) -> Option<(Instant, String)> {
        self.complaint.clone()
    }

    fn faults(&self) -> u64 {
        self.kernel.0.borrow().all_faults
    }

    fn faults_in(&self, zone: ZoneNo) -> u64 {
        self.kernel.0.borrow().faults.get(&zone.index()).copied().unwrap_or(0)
    }

    fn has_failed(&self, zone: ZoneNo) -> bool {
        let cond = self.disk.zones().state(zone).cond;
        let given_up = matches!(cond, Condition::ReadOnly | Condition::Offline);
        let has_lost = self.disk.has_failed(zone) || self.kernel.0.borrow().unsynced.contains(&zone.index());
        self.faults_in(zone) > 0 && (given_up || has_lost)
    }

    fn cut_power(&self, choices: &mut Choices) -> Box<dyn Any> {
        Box::new(self.kernel.0.borrow().cut_power(choices.rng()))
    }
}
