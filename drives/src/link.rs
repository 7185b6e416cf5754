//! A way to another device that takes time: a fabric, a bus, a bridge.
//!
//! ```text
//!   bios ──> depth ──> wire there (rate) ──> latency there ──> device below
//!        <── latency back <── wire back (rate) <──────────────────┘
//! ```
//!
//! Promised above: nothing is lost, doubled or reordered within a direction, unless that was asked for. What gets lost
//! stays lost, and keeps its place in the depth, until [`Link::give_up`] ends it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::fmt;

use slab::Slab;

use super::error::{DriveError, Fault, check};
use super::service::{ServiceTime, time_of};
use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Op, Reason, Status};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// Parameters of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Time from the end of the transfer until the device below gets a bio.
    pub there: ServiceTime,
    /// Time from the end of the transfer until the bio is back.
    pub back: ServiceTime,
    /// Rate of each direction, in bytes per second; `None`: transfers take no time.
    pub rate: Option<u64>,
    /// Most bios on the way or below; `None`: any number. The others wait in order of arrival.
    pub depth: Option<u32>,
    /// Whether each direction delivers in order, so that one late bio delays those behind it.
    pub ordered: bool,
    /// Of a million bios, how many get lost: half of them on the way there, half on the way back.
    pub lost_ppm: u32,
    /// Of a million bios, how many fail as a transport error: half of them before the device saw them, half after.
    pub failed_ppm: u32,
    /// Seed of latencies and faults.
    pub seed: u64,
}

impl Default for LinkConfig {
    /// A link that is not noticed.
    fn default() -> Self {
        let (there, back) = (ServiceTime::NONE, ServiceTime::NONE);
        Self { there, back, rate: None, depth: None, ordered: true, lost_ppm: 0, failed_ppm: 0, seed: 1 }
    }
}

/// What will happen to a bio on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    LostThere,
    LostBack,
    FailsThere,
    FailsBack,
}

/// A bio on one of the two ways.
struct Crossing {
    /// Absent while the bio is below.
    bio: Option<Box<Bio>>,
    status: Status,
    fate: Fate,
    lost: bool,
}

/// One direction.
#[derive(Default)]
struct Wire {
    free: Instant,
    last_delivery: Instant,
}

impl Wire {
    /// When `bytes` that want to go now arrive, `latency` after they have left.
    fn carry(&mut self, now: Instant, bytes: u64, config: &LinkConfig, latency: Duration) -> Instant {
        self.free = self.free.max(now) + config.rate.map_or(Duration::ZERO, |rate| time_of(bytes, rate));
        let at = self.free + latency;
        if !config.ordered {
            return at;
        }
        self.last_delivery = self.last_delivery.max(at);
        self.last_delivery
    }
}

/// The link, above the device it leads to.
pub struct Link {
    below: [DeviceId; 1],
    limits: Limits,
    config: LinkConfig,
    rng: Rng,
    wires: [Wire; 2],
    crossings: Slab<Crossing>,
    waiting: VecDeque<Box<Bio>>,
}

impl Crossing {
    fn fail(&mut self) {
        let bio = self.bio.as_mut().expect("a bio that is not below is here");
        self.status = bio.blame(Reason::Interrupted);
    }
}

const THERE: usize = 0;
const BACK: usize = 1;

impl Link {
    /// A link to device `below`, which has `below_limits`.
    pub fn new(below: DeviceId, below_limits: &Limits, config: LinkConfig) -> Result<Self, DriveError> {
        config.validate().map_err(DriveError::of("link"))?;
        Ok(Self {
            below: [below],
            limits: below_limits.clone(),
            rng: Rng::new(config.seed),
            config,
            wires: [Wire::default(), Wire::default()],
            crossings: Slab::new(),
            waiting: VecDeque::new(),
        })
    }

    /// Bios that got lost and that nobody has given up.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.crossings.iter().filter(|(_, crossing)| crossing.lost).count()
    }

    /// Ends all bios that got lost with [`Reason::NoAnswer`]: what a host does that has waited long enough.
    pub fn give_up(&mut self, cx: &mut Cx<'_>) {
        let is_lost = |(id, crossing): (usize, &Crossing)| crossing.lost.then_some(id);
        while let Some(id) = self.crossings.iter().find_map(is_lost) {
            let lost = self.crossings.remove(id).bio;
            lost.into_iter().for_each(|bio| {
                let waited = cx.now().since(bio.since);
                cx.fail(bio, Reason::NoAnswer(waited));
            });
        }
        self.start(cx);
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        let depth = self.config.depth.map_or(usize::MAX, |depth| depth as usize);
        while self.crossings.len() < depth
            && let Some(bio) = self.waiting.pop_front()
        {
            let fate = self.choose_fate();
            let bytes = if bio.op.is_write() { bio.payload.bytes() } else { 0 };
            let id = self.crossings.insert(Crossing { bio: Some(bio), status: Status::Ok, fate, lost: false });
            self.carry(THERE, id, bytes as u64, cx);
        }
    }

    fn carry(&mut self, way: usize, id: usize, bytes: u64, cx: &mut Cx<'_>) {
        let latency = if way == THERE { &self.config.there } else { &self.config.back };
        let latency = latency.draw(&mut self.rng);
        let at = self.wires[way].carry(cx.now(), bytes, &self.config, latency);
        cx.wake_at(at, (id << 1 | way) as u64);
    }

    fn choose_fate(&mut self) -> Fate {
        let LinkConfig { lost_ppm, failed_ppm, .. } = self.config;
        if lost_ppm == 0 && failed_ppm == 0 {
            return Fate::Arrives;
        }
        let (lot, before) = (self.rng.below(1_000_000) as u32, self.rng.chance(1, 2));
        let [lost, fails] =
            if before { [Fate::LostThere, Fate::FailsThere] } else { [Fate::LostBack, Fate::FailsBack] };
        match lot {
            lot if lot < lost_ppm => lost,
            lot if lot - lost_ppm < failed_ppm => fails,
            _ => Fate::Arrives,
        }
    }

    /// A bio has reached the other end.
    fn delivered(&mut self, id: usize, way: usize, cx: &mut Cx<'_>) {
        let crossing = &mut self.crossings[id];
        match (way, crossing.fate) {
            (THERE, Fate::LostThere) | (BACK, Fate::LostBack) => {
                crossing.lost = true;
                return;
            }
            (THERE, Fate::FailsThere) => {
                crossing.fail();
                return self.carry(BACK, id, 0, cx);
            }
            (THERE, _) => {
                let bio = crossing.bio.take().expect("a bio on its way there is here");
                return cx.submit(self.below[0], bio, id as u64);
            }
            (_, Fate::FailsBack) => crossing.fail(),
            _ => {}
        }
        let Crossing { bio, status, .. } = self.crossings.remove(id);
        bio.into_iter().for_each(|bio| cx.complete(bio, status));
        self.start(cx);
    }
}

impl BlockDevice for Link {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.waiting.push_back(bio);
        self.start(cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let bytes = if bio.op == Op::Read { bio.payload.bytes() as u64 } else { 0 };
        let crossing = &mut self.crossings[word as usize];
        (crossing.bio, crossing.status) = (Some(bio), status);
        self.carry(BACK, word as usize, bytes, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if let Event::Timer(word) = event {
            self.delivered((word >> 1) as usize, (word & 1) as usize, cx);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.crossings.iter().filter_map(|(_, crossing)| crossing.bio.as_ref()).for_each(|bio| visit(bio));
        self.waiting.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let LinkConfig { there, back, rate, depth, .. } = &self.config;
        write!(out, "link: there {there}, back {back}")?;
        rate.iter().try_for_each(|rate| write!(out, ", {rate} bytes/s"))?;
        depth.iter().try_for_each(|depth| write!(out, ", depth {depth}"))
    }
}

impl LinkConfig {
    fn validate(&self) -> Result<(), Fault> {
        self.there.check("there")?;
        self.back.check("back")?;
        let faults = u64::from(self.lost_ppm) + u64::from(self.failed_ppm);
        check([
            (self.rate != Some(0), "rate", "is 0 bytes per second: leave it out for no bound"),
            (self.depth != Some(0), "depth", "is 0 bios: leave it out for no bound"),
            (faults <= 1_000_000, "lost_ppm and failed_ppm", "are more than a million in a million"),
        ])
    }
}
