//! Live drives in the random worlds of `shingle sim`, in the place of its disk: the same hosts, plugs and promises, with losses of
//! power at random moments. What a drive has answered, and what it has left, is compared with the model of every promise.
//!
//! Models that break a promise are put in the drive's place, and the same seeds have to notice.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Cx, Event, Flags, Limits, Op, Status};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{ZoneNo, ZonedDisk};
use shingle_drives::live::{LiveDrive, Model};
use shingle_drives::medium::Medium;
use shingle_drives::smr::{Cache, Link, Media, Seek, ZoneTimes};
use shingle_drives::{SmrConfig, SmrDisk, ZnsConfig, ZnsSsd};
use shingle_sim::Choices;
use shingle_sim::disk::{CrashConfig, OtherDisk, Powered};
use shingle_sim::fault::FaultPlan;
use shingle_sim::swarm::{Profile, SwarmOptions, run};

const PROFILES: [Profile; 4] = [Profile::All, Profile::Zones, Profile::Plug, Profile::Append];

/// A live drive as a swarm has it. It outlives the host's stack.
struct Swarmed {
    drive: Rc<RefCell<LiveDrive>>,
    limits: Limits,
}

impl Powered for Swarmed {
    fn set_plan(&mut self, _: FaultPlan) {}

    fn complaint(&self) -> Option<(Instant, String)> {
        None
    }

    fn faults(&self) -> u64 {
        0
    }

    fn faults_in(&self, _: ZoneNo) -> u64 {
        0
    }

    fn has_failed(&self, _: ZoneNo) -> bool {
        false
    }

    fn cut_power(&self, _: &mut Choices) -> Box<dyn Any> {
        unreachable!("it goes dark")
    }

    fn go_dark(&mut self, _: &mut Choices, cx: &mut Cx<'_>) -> Box<dyn Any> {
        assert!(self.drive.borrow_mut().cut_power(cx));
        Box::new(self.drive.clone())
    }
}

impl BlockDevice for Swarmed {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.drive.borrow_mut().restore_power(cx);
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.drive.borrow_mut().submit(bio, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.drive.borrow_mut().on_event(event, cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.drive.borrow().held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.drive.borrow().describe(out)
    }
}

/// The drive that was left, or a new one of the model of a seed.
fn make(
    mut choices: Choices,
    left: Option<Box<dyn Any>>,
    model: impl FnOnce(u64) -> Box<dyn Model>,
) -> Result<Box<dyn Powered>, String> {
    let seed = choices.rng().draw();
    let left = left.and_then(|left| left.downcast::<Rc<RefCell<LiveDrive>>>().ok());
    let drive = match left {
        Some(left) => *left,
        None => Rc::new(RefCell::new(LiveDrive::new(model(seed), None, seed).map_err(|error| error.to_string())?)),
    };
    let limits = drive.borrow().limits().clone();
    Ok(Box::new(Swarmed { drive, limits }))
}

/// An SMR disk of that shape. Without a volatile cache it has a non-volatile one every other time, of a size that fills up.
fn smr(config: &CrashConfig, seed: u64) -> SmrDisk {
    let buffered = !config.write_cache && seed.is_multiple_of(2);
    let cache = Cache {
        write_back: config.write_cache,
        non_volatile_bytes: buffered.then_some(32 << 10),
        ..smr_config(config).cache
    };
    SmrDisk::new(&SmrConfig { cache, ..smr_config(config) }).expect("a drawn shape makes a disk")
}

fn smr_config(config: &CrashConfig) -> SmrConfig {
    let us = Duration::from_micros;
    let shape = &config.geometry;
    let cache = SmrConfig::new(100).cache;
    SmrConfig {
        capacity: shape.capacity(),
        zone_sectors: shape.zone_sectors().into(),
        conventional: shape.conventional(),
        max_open: config.resources.max_open(),
        logical_block_bytes: config.block_bytes,
        physical_block_bytes: config.block_bytes,
        max_sectors: config.max_sectors.unwrap_or(8192),
        media: Media { turn: us(80), outer_rate: 250e6, inner_ratio: 0.5, conventional_ratio: 1.0 },
        seek: Seek { track: us(3), average: us(80), full: us(160) },
        link: Link { rate: 560e6, command: us(2), depth: 8 },
        cache: Cache { bytes: 64 << 10, segment_bytes: 8 << 10, entries: 16, ..cache },
        manage: ZoneTimes { reset: us(100), finish: us(100), open_close: us(1) },
        ..SmrConfig::new(100)
    }
}

fn zns(config: &CrashConfig) -> ZnsSsd {
    let us = Duration::from_micros;
    let shape = &config.geometry;
    let config = ZnsConfig {
        capacity: shape.capacity(),
        zone_sectors: shape.zone_sectors().into(),
        zone_capacity: shape.zone_capacity().into(),
        max_open: config.resources.max_open(),
        max_active: config.resources.max_active(),
        block_bytes: config.block_bytes,
        max_sectors: config.max_sectors,
        max_append: None,
        write_cache: config.write_cache,
        memory_backed: true,
        write_command: us(5),
        completion: us(2),
        program: us(100),
        read: us(20),
        erase: us(200),
        channels: 2,
        dies_per_zone: 2,
        program_unit_bytes: config.block_bytes * 4,
        ..ZnsConfig::new(1)
    };
    ZnsSsd::new(config).expect("a drawn shape makes a drive")
}

/// A zoned SSD where a shape has no conventional zones, every other time; else an SMR disk.
fn either(config: &CrashConfig, seed: u64) -> Box<dyn Model> {
    let is_flash = config.geometry.conventional() == 0 && seed.is_multiple_of(2);
    if is_flash { Box::new(zns(config)) } else { Box::new(smr(config, seed / 2)) }
}

/// What a planted bug does to a bio on its way into the model; true: it is answered at once.
type Tamper = fn(&mut Bio) -> bool;

/// A model with a bug.
struct Tampered {
    model: Box<dyn Model>,
    tamper: Tamper,
}

impl BlockDevice for Tampered {
    fn limits(&self) -> &Limits {
        self.model.limits()
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if (self.tamper)(&mut bio) { cx.complete(bio, Status::Ok) } else { self.model.submit(bio, cx) }
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.model.on_event(event, cx);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.model.describe(out)
    }
}

impl Model for Tampered {
    fn medium(&self) -> Option<&Medium> {
        self.model.medium()
    }

    fn medium_mut(&mut self) -> Option<&mut Medium> {
        self.model.medium_mut()
    }

    fn zones(&self) -> Option<&ZonedDisk> {
        self.model.zones()
    }

    fn lose_power(&mut self, rng: &mut Rng, cx: &mut Cx<'_>) {
        self.model.lose_power(rng, cx);
    }
}

fn tampered(config: &CrashConfig, seed: u64, tamper: Tamper) -> Box<dyn Model> {
    Box::new(Tampered { model: either(config, seed), tamper })
}

fn options(disk: OtherDisk, profile: Profile) -> SwarmOptions {
    SwarmOptions { profile, disk: Some(disk), ..SwarmOptions::default() }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn live_drives_keep_all_promises_through_losses_of_power() {
    let disk = OtherDisk::Drive(|config, choices, left| make(choices, left, |seed| either(config, seed)));
    let (first, seeds) = (number("SWARM_FIRST").unwrap_or(0), number("SWARM_SEEDS").unwrap_or(100));
    let mut cuts = 0;
    for seed in first..first + seeds {
        for profile in PROFILES {
            let report = run(seed, &options(disk, profile)).unwrap_or_else(|failure| panic!("{profile:?}: {failure}"));
            cuts += report.cuts;
        }
    }
    println!("{cuts} losses of power");
    assert!(cuts > seeds);
}

/// An SMR disk that says it has no volatile cache, acknowledges from its cache, and loses that with the power.
struct Forgetful {
    disk: SmrDisk,
    limits: Limits,
}

impl BlockDevice for Forgetful {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.disk.submit(bio, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.disk.on_event(event, cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.disk.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.disk.describe(out)
    }
}

impl Model for Forgetful {
    fn medium(&self) -> Option<&Medium> {
        self.disk.medium()
    }

    fn medium_mut(&mut self) -> Option<&mut Medium> {
        self.disk.medium_mut()
    }

    fn zones(&self) -> Option<&ZonedDisk> {
        Some(self.disk.zones())
    }

    fn lose_power(&mut self, rng: &mut Rng, cx: &mut Cx<'_>) {
        self.disk.lose_power(rng, cx);
    }
}

fn forgetful(config: &CrashConfig) -> Box<dyn Model> {
    let disk = SmrDisk::new(&smr_config(config)).expect("a drawn shape makes a disk");
    let limits = Limits { write_cache: config.write_cache, ..disk.limits().clone() };
    Box::new(Forgetful { disk, limits })
}

/// Whether one of the first seeds finds something.
fn is_found(disk: OtherDisk) -> bool {
    let world = |seed| PROFILES.iter().find_map(|profile| run(seed, &options(disk, *profile)).err());
    let found = (0..100).find_map(world);
    found.iter().for_each(|failure| println!("{failure}"));
    found.is_some()
}

#[test]
fn a_non_volatile_cache_that_a_power_loss_empties_is_found() {
    assert!(is_found(OtherDisk::Drive(|config, choices, left| make(choices, left, |_| forgetful(config)))));
}

#[test]
fn a_flush_that_makes_nothing_durable_is_found() {
    fn unsent(bio: &mut Bio) -> bool {
        bio.flags = Flags::NONE;
        bio.op == Op::Flush
    }
    assert!(is_found(OtherDisk::Drive(|config, choices, left| make(choices, left, |seed| tampered(
        config, seed, unsent
    )))));
}

#[test]
fn a_reset_that_is_answered_and_not_done_is_found() {
    fn undone(bio: &mut Bio) -> bool {
        bio.op == Op::ZoneReset
    }
    assert!(is_found(OtherDisk::Drive(|config, choices, left| make(choices, left, |seed| tampered(
        config, seed, undone
    )))));
}
