//! An array: controllers with a queue each, which share the servers behind them, not equally.
//!
//! ```text
//!   controller ──> queue ──┐ weight 27
//!   controller ──> queue ──┼──────────> servers ──> device below
//!   controller ──> queue ──┘ weight 1
//! ```
//!
//! No server idles while anything waits. As long as all queues have something, each gets a share of the services by its weight; what one does not need
//! the others get. So a slow controller is as fast as any while the array has time, and gets next to nothing when the others are
//! loaded: commands to a controller that does not own the disk are served last.
//!
//! To the array, which controller a bio came from is a matter of its sector: each has a range of its own, as long as the device below.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use slab::Slab;

use super::error::{DriveError, Fault, check};
use super::service::{ServiceTime, queue_time};
use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Op, Reason, Route};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

/// Parameters of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayConfig {
    /// Weight of each controller.
    pub weights: Vec<u32>,
    /// Bios that are served at once, of all controllers together.
    pub servers: u32,
    /// Time to serve a read, before the device below gets it.
    pub read: ServiceTime,
    /// Time to serve anything else.
    pub write: ServiceTime,
    /// Seed of the times.
    pub seed: u64,
}

impl ArrayConfig {
    /// Time to serve.
    #[must_use]
    pub fn time(&self, is_read: bool) -> &ServiceTime {
        if is_read { &self.read } else { &self.write }
    }
}

/// The array itself. Bios come to it through [`Controller`]s.
pub struct Array {
    below: [DeviceId; 1],
    limits: Limits,
    /// Sectors of the device below.
    capacity: u64,
    config: ArrayConfig,
    rng: Rng,
    queues: Vec<Queue>,
    served: Slab<Box<Bio>>,
    /// Where in its virtual time the last service began.
    virtual_time: u64,
}

/// What waits for one controller.
struct Queue {
    waiting: VecDeque<Box<Bio>>,
    /// Virtual time of a service of this controller.
    stride: u64,
    /// Virtual time at which its next service may begin.
    next: u64,
}

const MOST_CONTROLLERS: usize = 64;
const MOST_WEIGHT: u32 = 10_000;
const STRIDE: u64 = 1 << 32;

impl Array {
    /// An array before device `below`, which has `below_limits` and no zones.
    ///
    /// # Errors
    /// If the parameters do not go together.
    pub fn new(below: DeviceId, below_limits: &Limits, config: ArrayConfig) -> Result<Self, DriveError> {
        Self::build(below, below_limits, config).map_err(DriveError::of("array"))
    }

    fn build(below: DeviceId, below_limits: &Limits, config: ArrayConfig) -> Result<Self, Fault> {
        config.read.check("read time")?;
        config.write.check("write time")?;
        let (controllers, weights) = (config.weights.len(), 1..=MOST_WEIGHT);
        check([
            ((1..=MOST_CONTROLLERS).contains(&controllers), "weights", "are not 1 to 64"),
            (config.weights.iter().all(|weight| weights.contains(weight)), "weights", "are not from 1 to 10000 each"),
            (config.servers > 0, "servers", "is 0; it has to be at least 1"),
            (below_limits.zoned.is_none(), "the device below", "has zones: an array of this kind has none"),
        ])?;
        let capacity = below_limits.capacity;
        let all = capacity.checked_mul(controllers as u64);
        check([(all.is_some(), "the device below", "is too long for as many controllers")])?;
        let queue = |weight: &u32| Queue { waiting: VecDeque::new(), stride: STRIDE / u64::from(*weight), next: 0 };
        Ok(Self {
            below: [below],
            limits: Limits { capacity: all.unwrap_or(capacity), ..below_limits.clone() },
            capacity,
            rng: Rng::new(config.seed),
            queues: config.weights.iter().map(queue).collect(),
            config,
            served: Slab::new(),
            virtual_time: 0,
        })
    }

    /// When the device below gets a bio that comes to this controller at `at`, behind what is here `now`, at mean times.
    #[must_use]
    pub fn foresee(&self, controller: usize, now: Instant, at: Instant, is_read: bool) -> Instant {
        let time = self.config.time(is_read).mean();
        let before =
            |queue: &Queue| if queue.waiting.is_empty() { queue.next.max(self.virtual_time) } else { queue.next };
        let own = &self.queues[controller];
        let turn = before(own) + own.stride * own.waiting.len() as u64;
        let served_before = |queue: &Queue| {
            let turns = turn.saturating_sub(before(queue)).div_ceil(queue.stride);
            turns.min(queue.waiting.len() as u64)
        };
        let ahead = self.queues.iter().map(served_before).sum::<u64>();
        let is_busy = self.served.len() >= self.config.servers as usize;
        let wait = if is_busy { queue_time(time, ahead + 1, self.config.servers) } else { Duration::ZERO };
        at.max(now + wait) + time
    }

    fn serve(&mut self, cx: &mut Cx<'_>) {
        while self.served.len() < self.config.servers as usize
            && let Some(bio) = self.choose_next()
        {
            let at = cx.now() + self.config.time(bio.op == Op::Read).draw(&mut self.rng);
            cx.wake_at(at, self.served.insert(bio) as u64);
        }
    }

    /// The first of the queue whose turn it is: that which is furthest behind what its weight entitles it to (stride scheduling).
    fn choose_next(&mut self) -> Option<Box<Bio>> {
        let waiting = self.queues.iter_mut().filter(|queue| !queue.waiting.is_empty());
        let queue = waiting.min_by_key(|queue| queue.next)?;
        self.virtual_time = queue.next;
        queue.next += queue.stride;
        queue.waiting.pop_front()
    }
}

impl BlockDevice for Array {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let from = (bio.sector.0 / self.capacity) as usize;
        let Some(queue) = self.queues.get_mut(from).filter(|_| bio.end().0 <= (from as u64 + 1) * self.capacity) else {
            return cx.fail(bio, Reason::PastEnd { capacity: self.capacity });
        };
        if queue.waiting.is_empty() {
            // What it did not need before does not count: it gets its share from now on.
            queue.next = queue.next.max(self.virtual_time);
        }
        queue.waiting.push_back(bio);
        self.serve(cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Event::Timer(word) = event else { return };
        let Some(mut bio) = self.served.try_remove(word as usize) else { return };
        bio.sector = Sector(bio.sector.0 % self.capacity);
        cx.remap(self.below[0], bio);
        self.serve(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let waiting = self.queues.iter().flat_map(|queue| &queue.waiting);
        self.served.iter().map(|(_, bio)| bio).chain(waiting).for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let ArrayConfig { weights, servers, read, write, .. } = &self.config;
        write!(out, "array: controllers {weights:?}, {servers} servers, read {read}, write {write}")
    }
}

/// A controller of an array: the way into one of its queues.
pub struct Controller {
    array: [DeviceId; 1],
    limits: Limits,
    route: Route,
    number: usize,
}

impl Controller {
    /// Controller `number` of the array at `array`, from 0 on.
    ///
    /// # Errors
    /// If the array has no such controller.
    pub fn new(array: DeviceId, of: &Array, number: usize) -> Result<Self, DriveError> {
        let is_there = number < of.queues.len();
        check([(is_there, "controller", "is none of this array")]).map_err(DriveError::of("array"))?;
        let limits = Limits { capacity: of.capacity, ..of.limits.clone() };
        let route = Route::Shift { to: array, by: number as u64 * of.capacity };
        Ok(Self { array: [array], limits, route, number })
    }

    /// Its number in the array.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }
}

impl BlockDevice for Controller {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.array
    }

    fn route(&self) -> Option<Route> {
        Some(self.route.clone())
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Route::Shift { to, by } = self.route else { unreachable!("a controller shifts") };
        let sector = bio.sector + by;
        cx.pass(to, bio, sector);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("controller of an array")
    }
}
