//! A submitter: sends what the load says, and notes how long each I/O took.

use std::collections::BTreeMap;

use shingle_core::block::{Bio, Completion, Data, DeviceId, Op, Payload, Stack};
use shingle_core::multipath::Head;
use shingle_core::random::Rng;
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::{Duration, Instant};
use shingle_host::latency::Histogram;
use shingle_sim::{Actor, Io};

use super::load::{Arrival, Load};
use super::oracle::{Question, Ways};

/// Who chooses a path.
pub(super) enum Chooser {
    /// A head with a policy.
    Head(DeviceId),
    /// The oracle.
    Oracle(Ways),
}

/// An I/O under way.
#[derive(Clone, Copy)]
struct Asked {
    /// When it was asked for.
    at: Instant,
    is_read: bool,
    bytes: u32,
    sector: Sector,
    /// Of the oracle: the path, and how often it was sent.
    path: usize,
    attempts: u8,
}

/// What one submitter has seen.
pub(super) struct Submitter {
    load: Load,
    chooser: Chooser,
    rng: Rng,
    capacity: u64,
    under_way: BTreeMap<u64, Asked>,
    /// What the oracle has not sent yet: one at a time, so that it sees what it has sent.
    to_send: Vec<Asked>,
    tags: u64,
    next: Option<Instant>,
    pub latency: Histogram,
    pub failed: u64,
    pub lost: u64,
}

/// Most I/Os under way of an open load: the others are given up at once.
const MOST_UNDER_WAY: usize = 1 << 15;
/// Most paths that the oracle tries for an I/O.
const MOST_ATTEMPTS: u8 = 16;
/// How long after the end I/Os may take.
pub const AFTERWARDS: Duration = Duration::from_millis(10_000);

impl Submitter {
    pub fn new(load: &Load, chooser: Chooser, capacity: u64, seed: u64) -> Self {
        Self {
            load: load.clone(),
            chooser,
            rng: Rng::new(seed),
            capacity,
            under_way: BTreeMap::new(),
            to_send: Vec::new(),
            tags: 0,
            next: Some(Instant::ZERO),
            latency: Histogram::new(),
            failed: 0,
            lost: 0,
        }
    }

    /// I/Os that are not done.
    pub fn left(&self) -> u64 {
        self.under_way.values().filter(|asked| self.counts(asked.at)).count() as u64
    }

    /// What each path has got so far, and has under way: of the head or of the oracle.
    pub fn paths(&self, stack: &Stack) -> Vec<(u64, u32)> {
        match &self.chooser {
            Chooser::Oracle(ways) => ways.sent.iter().copied().zip(ways.in_flight.iter().copied()).collect(),
            Chooser::Head(head) => stack
                .device::<Head>(*head)
                .map(|head| head.paths().map(|path| (path.counters.sent, path.in_flight)).collect())
                .unwrap_or_default(),
        }
    }

    /// Probes that its head has sent.
    pub fn probes(&self, stack: &Stack) -> u64 {
        let Chooser::Head(head) = self.chooser else { return 0 };
        stack.device::<Head>(head).map_or(0, |head| head.paths().map(|path| path.counters.probes).sum())
    }

    fn end(&self) -> Instant {
        Instant::ZERO + self.load.ramp + self.load.length
    }

    fn counts(&self, at: Instant) -> bool {
        at >= Instant::ZERO + self.load.ramp && at < self.end()
    }

    fn ask(&mut self, io: &mut Io<'_>) {
        let (is_read, bytes) = self.load.draw(&mut self.rng);
        let sectors = u64::from(bytes / SECTOR_BYTES);
        // Drawn here, whoever chooses and however often it is sent: all have the same to do at the same times.
        let sector = Sector(self.rng.below(self.capacity / sectors) * sectors);
        let asked = Asked { at: io.now(), is_read, bytes, sector, path: 0, attempts: 0 };
        if self.under_way.len() + self.to_send.len() >= MOST_UNDER_WAY {
            self.lost += u64::from(self.counts(asked.at));
            return;
        }
        self.send(asked, io);
    }

    fn send(&mut self, asked: Asked, io: &mut Io<'_>) {
        match self.chooser {
            Chooser::Oracle(_) => self.to_send.push(asked),
            Chooser::Head(head) => self.submit(asked, head, io),
        }
    }

    fn submit(&mut self, asked: Asked, to: DeviceId, io: &mut Io<'_>) {
        let sectors = asked.bytes / SECTOR_BYTES;
        let op = if asked.is_read { Op::Read } else { Op::Write };
        let data = Payload::Data(Data::zeroed(asked.bytes as usize));
        self.tags += 1;
        self.under_way.insert(self.tags, asked);
        io.submit(self.tags, to, Box::new(Bio::new(op, asked.sector, sectors, data)));
    }

    fn done(&mut self, done: &Completion, io: &mut Io<'_>) {
        let Some(mut asked) = self.under_way.remove(&done.tag) else { return };
        if let Chooser::Oracle(ways) = &mut self.chooser {
            ways.in_flight[asked.path] -= 1;
            asked.attempts += 1;
            if done.status.is_path_error() && asked.attempts < MOST_ATTEMPTS {
                return self.to_send.push(asked);
            }
        }
        if self.counts(asked.at) {
            match done.status.is_ok() {
                true => self.latency.record(io.now().since(asked.at).0),
                false => self.failed += 1,
            }
        }
        if matches!(self.load.arrival, Arrival::Closed(_)) && io.now() < self.end() {
            self.ask(io);
        }
    }
}

impl Actor for Submitter {
    fn act(&mut self, io: &mut Io<'_>) {
        while let Some(done) = io.completion() {
            self.done(&done, io);
        }
        while let Some(at) = self.next.filter(|at| *at <= io.now()) {
            match self.load.arrival {
                Arrival::Closed(jobs) => {
                    (0..jobs).for_each(|_| self.ask(io));
                    self.next = None;
                }
                Arrival::Open(per_second) => {
                    self.ask(io);
                    let next = at + Load::pause(per_second, &mut self.rng);
                    self.next = (next < self.end()).then_some(next);
                }
            }
        }
        self.next.into_iter().for_each(|at| io.wake_at(at));
    }

    fn after_turn(&mut self, io: &mut Io<'_>) -> bool {
        let Chooser::Oracle(ways) = &mut self.chooser else { return false };
        let Some(mut asked) = self.to_send.pop() else { return false };
        let of = Question { now: io.now(), is_read: asked.is_read, bytes: asked.bytes.into() };
        asked.path = ways.choose(io.stack, of);
        let to = ways.paths[asked.path].0;
        self.submit(asked, to, io);
        true
    }

    fn is_done(&self) -> bool {
        self.next.is_none() && self.under_way.is_empty() && self.to_send.is_empty()
    }
}
