//! Lives of a shard: it starts from what its disks hold, is used, and is stopped or loses its power.
//!
//! ```text
//!   seed ──> disks, format ──> life: build, look, use, operator ──┬─ clean stop ── check by the format ── power cut ──> next life
//!                                                                 └─ power cut, perhaps in the middle of a stop ──────> next life
//! ```
//!
//! - [`scene`]: what is drawn: disks, the volume of them, and a tower of mapped devices.
//! - [`disk`]: a disk, and [`media`]: how a volume is made of such, and looked at without its target.
//! - [`user`]: the source that uses the top of the tower and compares.
//! - [`ring`]: where time passes, and nothing else.

mod disk;
mod media;
mod ring;
mod scene;
mod user;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_core::block::{Bio, DeviceId, Op, Payload};
use shingle_core::mapper::StateName;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_host::devices::MappedName;
use shingle_host::shard::Shard;
use shingle_sim::disk::Medium;
use shingle_sim::volume::VolumeRequest;
use shingle_sys::RingHandle;

use disk::{Disk, Health};
use ring::Still;
use scene::Scene;
use user::{Ledger, User};

/// Bugs of a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bug {
    #[default]
    None,
    /// The last flush goes to every device without a shut door, also to those that lie on one, and to targets that are at rest.
    FlushThroughDoors,
    /// The last flush reaches no disk.
    NoFlush,
    /// Users are done before their requests are.
    NoDrain,
    /// The stop ends without an error, whatever went wrong.
    Unsaid,
}

/// Illness of a disk in some lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Illness {
    None,
    /// All commands fail, for a while or for ever.
    Failing,
    /// No command is answered any more.
    Silent,
}

/// What a run without a broken promise did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clean stops.
    pub stops: u64,
    /// Losses of power, and those of them in the middle of a stop.
    pub cuts: u64,
    pub cuts_of_stops: u64,
    pub requests: u64,
    /// Stops with a device that was suspended, and with one that was removed and is not at its end.
    pub suspended: u64,
    pub abandoned: u64,
    /// Stops that ended with an error, as a disk was ill.
    pub failed: u64,
    /// The longest stop.
    pub longest: Duration,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.stops += other.stops;
        (self.cuts, self.cuts_of_stops) = (self.cuts + other.cuts, self.cuts_of_stops + other.cuts_of_stops);
        self.requests += other.requests;
        (self.suspended, self.abandoned) = (self.suspended + other.suspended, self.abandoned + other.abandoned);
        self.failed += other.failed;
        self.longest = self.longest.max(other.longest);
    }
}

/// Disks that answer need far less than the patience of a stop, which is 10 s for each of its stages.
const MOST_STOP: Duration = Duration::from_millis(5_000);
/// With a disk that does not answer: all three stages, and what lies between them.
const MOST_STOP_ILL: Duration = Duration::from_millis(31_000);
/// A name of a device that nobody uses.
const BESIDE: &str = "beside";

/// Runs one seed.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64, bug: Bug) -> Result<Tally, String> {
    run_with(seed, bug, Illness::None)
}

/// Runs one seed, in which a disk gets ill now and then.
///
/// # Errors
/// The first broken promise.
pub fn run_with(seed: u64, bug: Bug, illness: Illness) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let (scene, mut media) = Scene::draw(&mut rng).map_err(|what| format!("seed {seed}: {what}"))?;
    let ledger = Rc::new(RefCell::new(Ledger::new(scene.volume(), scene.forgets())));
    let mut tally = Tally::default();
    for number in 0..2 + rng.below(4) {
        // A separate generator draws illnesses, so that seeds without one stay the same.
        let ills = Rng::new(seed.rotate_left(17) ^ number ^ 0x1_11).fork();
        ledger.borrow_mut().health = draw_health(illness, scene.disks(), ills);
        let mut life = Life { scene: &scene, ledger: &ledger, rng: &mut rng, bug, tally: &mut tally };
        let lived = life.live(media, number > 0);
        media = lived
            .map_err(|what| format!("seed {seed}, life {number}: {what}, {:?} [{scene}]", ledger.borrow().health))?;
    }
    tally.requests = ledger.borrow().requests;
    Ok(tally)
}

/// Health of each disk of a life: one of them is ill from some moment on.
fn draw_health(illness: Illness, disks: usize, mut rng: Rng) -> Vec<Rc<Cell<Health>>> {
    let (which, from) = (rng.below(disks as u64) as usize, Instant(rng.below(150_000_000)));
    let until = rng.chance(1, 2).then(|| from + Duration::from_micros(rng.below(30_000)));
    let ill = match illness {
        Illness::None => Health::Good,
        Illness::Failing => Health::Failing(from, until),
        Illness::Silent => Health::Silent(from),
    };
    (0..disks).map(|disk| Rc::new(Cell::new(if disk == which { ill } else { Health::Good }))).collect()
}

struct Life<'a> {
    scene: &'a Scene,
    ledger: &'a Rc<RefCell<Ledger>>,
    rng: &'a mut Rng,
    bug: Bug,
    tally: &'a mut Tally,
}

/// A shard with what surrounds it.
struct Stage {
    shard: Shard,
    disks: Vec<DeviceId>,
    /// Until when somebody lets time pass.
    until: Rc<Cell<Instant>>,
    /// Version of the metadata at the start, where what a power cut has left may stay until that changes.
    version: Option<u64>,
}

impl Life<'_> {
    /// Lives on what is left. Returns what is left then.
    fn live(&mut self, media: Vec<Medium>, looks: bool) -> Result<Vec<Medium>, String> {
        let mut stage = self.build(media)?;
        let top = stage.shard.devices.find(self.scene.top()).ok_or("the top is gone")?.device;
        let user = User::new(self.ledger.clone(), top, looks, self.rng.fork());
        stage.shard.spawn(Box::new(if self.bug == Bug::NoDrain { user.hasty() } else { user }));
        let end = Instant::ZERO + Duration::from_micros(self.rng.below(60_000) * self.rng.below(4));
        if self.rng.chance(1, 3) {
            let at = Instant(self.rng.below(end.0 + 1));
            self.pass(&mut stage, at)?;
            self.operate(&mut stage.shard);
        }
        self.pass(&mut stage, end)?;
        if self.rng.chance(1, 3) {
            return Ok(self.lose_power(&stage));
        }
        self.note(&stage.shard);
        stage.shard.stop();
        if self.rng.chance(1, 6) {
            let at = stage.shard.now() + Duration::from_micros(self.rng.below(20_000));
            self.pass(&mut stage, at)?;
            self.tally.cuts_of_stops += 1;
            return Ok(self.lose_power(&stage));
        }
        self.stop(&mut stage)
    }

    /// The disks, and the tower above them.
    fn build(&mut self, media: Vec<Medium>) -> Result<Stage, String> {
        let (clock, until) = (Rc::<Cell<Instant>>::default(), Rc::<Cell<Instant>>::default());
        let health = self.ledger.borrow().health.clone();
        let ring = RingHandle::over(Still { clock: clock.clone(), until: until.clone() });
        let mut shard = Shard::simulated(ring, clock).map_err(|error| error.to_string())?;
        let version = self.scene.version(&media, &mut self.rng.clone());
        let disks = self.scene.add_disks(&mut shard, (media, &health), self.rng)?;
        for (name, line) in self.scene.tables() {
            let lines = shingle_core::dm::parse_table(line).map_err(|error| error.to_string())?;
            let parts = (&mut shard.stack, Instant::ZERO);
            let made = shard.devices.make(MappedName { name, uuid: "" }, lines, false, parts);
            made.map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(Stage { shard, disks, until, version })
    }

    /// Lets time pass.
    fn pass(&self, stage: &mut Stage, until: Instant) -> Result<(), String> {
        stage.until.set(until);
        let over = |shard: &mut Shard| shard.now() >= until || self.ledger.borrow().broken.is_some();
        stage.shard.run_until(over).map_err(|error| error.to_string())?;
        self.ledger.borrow_mut().broken.take().map_or(Ok(()), Err)
    }

    /// Somebody suspends a device, with or without flush, loads its table again, perhaps to swap it in, or removes the one that nobody
    /// uses, and goes away.
    fn operate(&mut self, shard: &mut Shard) {
        let tables = self.scene.tables();
        let (name, line) = &tables[self.rng.below(tables.len() as u64) as usize];
        let noflush = self.rng.chance(1, 2);
        if name == BESIDE {
            shard.devices.mapper.remove(name, false, &mut shard.stack).expect("nobody uses it");
        } else if self.rng.chance(1, 2) {
            let _ = shard.devices.mapper.suspend(name, noflush, &mut shard.stack);
        } else {
            let lines = shingle_core::dm::parse_table(line).expect("it was made of this line");
            let loaded = shard.devices.load(name, lines, false, &mut shard.stack);
            if loaded.is_ok() && self.rng.chance(1, 2) {
                let _ = shard.devices.mapper.resume(name, noflush, &mut shard.stack);
            }
        }
        shard.hurry();
    }

    fn note(&mut self, shard: &Shard) {
        let is_open = shard.devices.mapper.states().all(|(_, state)| state == StateName::Active);
        self.tally.suspended += u64::from(!is_open);
        self.tally.abandoned += u64::from(shard.stack.has_abandoned());
    }

    fn lose_power(&mut self, stage: &Stage) -> Vec<Medium> {
        self.tally.cuts += 1;
        self.ledger.borrow_mut().volume.power_cut();
        cut(stage, self.rng)
    }

    /// Waits for the end of a stop, and looks at what it has left.
    fn stop(&mut self, stage: &mut Stage) -> Result<Vec<Medium>, String> {
        let began = stage.shard.now();
        if matches!(self.bug, Bug::FlushThroughDoors | Bug::NoFlush) {
            self.plant(stage)?;
        }
        let stopped = stage.shard.run();
        let took = stage.shard.now().since(began);
        let shard = &stage.shard;
        let is_ill = self.ledger.borrow().excuses(shard.now());
        if let (Err(error), false) = (&stopped, is_ill) {
            return Err(format!("the stop failed after {took:?}: {error}"));
        }
        if took > if is_ill { MOST_STOP_ILL } else { MOST_STOP } {
            return Err(format!("the stop took {took:?}"));
        }
        if stopped.is_err() && self.bug != Bug::Unsaid {
            return self.stop_badly(stage, took);
        }
        let mut left = Vec::new();
        // A plug may still ask where pointers are: it has just been made.
        let mut take = |device, bio: &Bio| left.push(format!("{}: {bio:?}", shard.devices.label(device)));
        shard.stack.held(&mut |device, bio| _ = (bio.op != Op::ReportZones).then(|| take(device, bio)));
        let ledger = &mut *self.ledger.borrow_mut();
        if !left.is_empty() || ledger.volume.outstanding() > 0 || shard.stack.has_abandoned() {
            return Err(format!("left after the stop: {left:?}; without an answer: {:?}", ledger.volume.oldest()));
        }
        if let Some(what) = ledger.broken.take() {
            return Err(what);
        }
        // All that was acknowledged is durable, and the power may go.
        let flush = ledger.volume.submit(VolumeRequest::FLUSH, shard.now());
        let told = ledger.volume.succeed(flush, std::iter::empty());
        told.map_err(|(rule, what)| format!("{rule:?}: {what}"))?;
        ledger.volume.power_cut();
        (self.tally.stops, self.tally.longest) = (self.tally.stops + 1, self.tally.longest.max(took));
        let media = cut(stage, self.rng);
        if !is_ill {
            self.scene.check((&media, stage.version), self.rng)?;
        }
        Ok(media)
    }

    /// A stop has said that something may be lost: what was acknowledged as durable is not, and the next life finds it.
    fn stop_badly(&mut self, stage: &Stage, took: Duration) -> Result<Vec<Medium>, String> {
        let ledger = &mut *self.ledger.borrow_mut();
        ledger.volume.power_cut();
        (self.tally.failed, self.tally.longest) = (self.tally.failed + 1, self.tally.longest.max(took));
        ledger.broken.take().map_or(Ok(()), Err)?;
        Ok(cut(stage, self.rng))
    }

    /// Does what a stop with the bug would do, in the moment in which mapped devices are at rest.
    fn plant(&self, stage: &mut Stage) -> Result<(), String> {
        let at_rest = |shard: &mut Shard| shard.devices.mapper.states().all(|(_, state)| state == StateName::Suspended);
        stage.shard.run_until(at_rest).map_err(|error| error.to_string())?;
        match self.bug {
            Bug::NoFlush => self.ledger.borrow().health.iter().for_each(|health| health.set(Health::Deaf)),
            Bug::FlushThroughDoors => {
                let all = (0..stage.shard.stack.devices()).map(|index| DeviceId(index as u16));
                let open: Vec<DeviceId> = all.filter(|device| !stage.shard.stack.is_suspended(*device)).collect();
                for device in open {
                    let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
                    stage.shard.submit(device, flush, |_, _, _| ());
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Contents of the disks after a power cut.
fn cut(Stage { shard, disks, .. }: &Stage, rng: &mut Rng) -> Vec<Medium> {
    let disks = disks.iter().filter_map(|id| shard.stack.device::<Disk>(*id));
    disks.map(|disk| disk.cut_power(rng)).collect()
}
