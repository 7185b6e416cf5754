//! A way to another device that takes time: a fabric, a bus, a bridge; a path, when there are several.
//!
//! ```text
//!   bios ──> depth ──> wire there (rate) ──> latency there ──> device below
//!        <── latency back <── wire back (rate) <──────────────────┘
//! ```
//!
//! A file for each thing that can come between: what others send ([`Traffic`]), times in which nothing moves or the cable is pulled
//! ([`Windows`]), latency that changes by a schedule ([`Steps`]), segments that get lost and are sent again ([`Retransmission`]), and bios that
//! somebody gives up while their commands go on (`giving_up`). A wire that several paths share is a link below several links.
//!
//! Promised above: nothing is lost, doubled or reordered within a direction, unless that was asked for. What gets lost
//! stays lost, and keeps its place in the depth, until it is given up. What was given up reaches the device below at most once, in
//! its order, and not after `silent_after`.

mod command;
mod config;
mod foresight;
mod giving_up;
mod retransmission;
mod steps;
mod traffic;
mod windows;
mod wire;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use slab::Slab;

use super::error::DriveError;
use command::{Command, Fate, Place, answer, traveller};
use giving_up::Session;
use retransmission::{DUPLICATES, Gap, MOST_TIMEOUTS};
use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Figure, Limits, Op, Reason, Silence, Status};
use shingle_core::random::Rng;
use shingle_core::time::Instant;
use windows::Calendar;
use wire::{Message, Trip, Way, Weather, Wire, round_trip};

pub use config::{LinkConfig, Refusals};
pub use retransmission::Retransmission;
pub use steps::{Step, Steps};
pub use traffic::Traffic;
pub use windows::{Window, Windows};

/// The link, above the device it leads to.
pub struct Link {
    below: [DeviceId; 1],
    limits: Limits,
    config: LinkConfig,
    rng: Rng,
    weather: Weather,
    refusing: Calendar,
    wires: [Wire; 2],
    commands: Slab<Command>,
    numbered: u64,
    timers: u32,
    waiting: VecDeque<Box<Bio>>,
    refused: VecDeque<Box<Bio>>,
    session: Session,
    counts: Counts,
}

/// What has happened so far.
#[derive(Default)]
struct Counts {
    /// Messages of which a segment was sent again.
    repeated: u64,
    /// Bios that failed without being sent.
    refused: u64,
    /// Bios that were given up.
    given_up: u64,
    /// Of these, commands that reached the device below afterwards.
    landed: u64,
    /// Of these, commands that the device below ended when it should have been silent: it takes longer than `silent_after`.
    late: u64,
}

/// What a timer is for, in the low bits of its word.
#[derive(Clone, Copy)]
enum Timer {
    Arrival,
    Timeout,
    Refusal,
    Patience,
    Silence,
}

impl Timer {
    const ALL: [Timer; 5] = [Timer::Arrival, Timer::Timeout, Timer::Refusal, Timer::Patience, Timer::Silence];
    const BITS: u32 = 3;

    fn word(self, id: usize, number: u32) -> u64 {
        u64::from(number) << 32 | (id as u64) << Self::BITS | self as u64
    }
}

impl Link {
    /// A link to device `below`, which has `below_limits`.
    pub fn new(below: DeviceId, below_limits: &Limits, config: LinkConfig) -> Result<Self, DriveError> {
        config.validate().map_err(DriveError::of("link"))?;
        let calendar = |windows, n: u32| Calendar::new(windows, Rng::new(config.seed.rotate_left(n)));
        Ok(Self {
            below: [below],
            limits: below_limits.clone(),
            rng: Rng::new(config.seed),
            weather: Weather {
                stalls: calendar(&config.stalls, 8),
                write_stalls: calendar(&config.write_stalls, 32),
                downs: calendar(&config.downs, 16),
            },
            refusing: calendar(&config.refusals.windows, 24),
            wires: [Way::There, Way::Back].map(|way| Wire::new(way, &config)),
            commands: Slab::new(),
            numbered: 0,
            timers: 0,
            waiting: VecDeque::new(),
            refused: VecDeque::new(),
            session: Session::default(),
            counts: Counts::default(),
            config,
        })
    }

    /// Bios that got lost and that nobody has given up.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.commands.iter().filter(|(_, command)| command.place == Place::Lost).count()
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        let depth = self.config.depth.map_or(usize::MAX, |depth| depth as usize);
        while self.commands.len() - self.session.leftovers < depth
            && let Some(bio) = self.waiting.pop_front()
        {
            let fate = self.choose_fate();
            let is_write = bio.op.is_write();
            let message = Message { bytes: if is_write { bio.payload.bytes() as u64 } else { 0 }, is_write };
            let own = Some(cx.own_bio(traveller(&bio, self.config.keep_data)));
            let (place, number, sent) = (Place::On(Way::There), self.numbered, cx.now());
            self.numbered += 1;
            let (host, status) = (Ok(bio), Status::Ok);
            let id =
                self.commands.insert(Command { host, own, status, fate, place, gap: None, number, sent, timer: 0 });
            self.carry(Way::There, id, message, cx);
            self.be_patient(cx);
        }
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

    /// Puts a command on a wire.
    fn carry(&mut self, way: Way, id: usize, message: Message, cx: &mut Cx<'_>) {
        self.weather.stalls.forget(cx.now());
        self.weather.write_stalls.forget(cx.now());
        self.weather.downs.forget(cx.now());
        self.commands[id].place = Place::On(way);
        let wire = &mut self.wires[way as usize];
        let trip = wire.send(cx.now(), message, &self.config, (&mut self.weather, &mut self.rng));
        if self.config.ordered && !matches!(trip, Trip::Lost) {
            wire.line.push_back(id);
        }
        match trip {
            Trip::Arrives(at) => {
                self.wake(Timer::Arrival, id, at, cx);
                self.follow(way, message.bytes, at, cx);
            }
            Trip::Lacks { followers, last } => self.lack(way, id, followers, last, cx),
            Trip::Lost => self.commands[id].place = Place::Lost,
        }
    }

    /// The timer of a command; a former one is void.
    fn wake(&mut self, timer: Timer, id: usize, at: Instant, cx: &mut Cx<'_>) {
        self.timers = self.timers.wrapping_add(1);
        self.commands[id].timer = self.timers;
        // What never arrives needs no timer.
        if at < Instant(u64::MAX) {
            cx.wake_at(at, timer.word(id, self.timers));
        }
    }

    /// A segment of a message got lost, and so many have followed it in the message.
    fn lack(&mut self, way: Way, id: usize, followers: u64, last: Instant, cx: &mut Cx<'_>) {
        let Some(of) = &self.config.retransmission else { return };
        let timeout = of.timeout(round_trip(cx.now(), &self.config));
        let gap = Gap { followers: Some(followers), timeouts: 0, timeout, due: cx.now() + timeout };
        self.commands[id].gap = Some(gap);
        self.wires[way as usize].gaps.push(id);
        self.wake(Timer::Timeout, id, gap.due, cx);
        self.acknowledged(way, id, last, cx);
    }

    /// A message of `bytes` arrives on a wire, behind those of which a segment is missing: on one connection that is noticed.
    fn follow(&mut self, way: Way, bytes: u64, arrives: Instant, cx: &mut Cx<'_>) {
        let Some(of) = self.config.retransmission.as_ref().filter(|_| self.config.ordered) else { return };
        let segments = of.segments(bytes);
        for id in self.wires[way as usize].gaps.clone() {
            let gap = self.commands[id].gap.as_mut();
            gap.into_iter().flat_map(|gap| &mut gap.followers).for_each(|followers| *followers += segments);
            self.acknowledged(way, id, arrives, cx);
        }
    }

    /// The sender of a message with a gap may have heard of it three times, soon after `last`: fast retransmit.
    fn acknowledged(&mut self, way: Way, id: usize, last: Instant, cx: &mut Cx<'_>) {
        let Some(gap) = self.commands[id].gap else { return };
        if gap.followers.is_none_or(|followers| followers < DUPLICATES) {
            return;
        }
        let back = if way == Way::There { &self.config.back } else { &self.config.there };
        let extra = self.config.steps.at(last)[way.other() as usize];
        let heard = self.weather.stalls.advance(last + extra, back.draw(&mut self.rng));
        // Otherwise the timeout comes first.
        if heard < gap.due {
            self.commands[id].gap = Some(gap.again(heard, false));
            self.repeat(way, id, heard, cx);
        }
    }

    /// Sends the missing segment of a message again at `at`.
    fn repeat(&mut self, way: Way, id: usize, at: Instant, cx: &mut Cx<'_>) {
        let (Some(of), Some(gap)) = (&self.config.retransmission, self.commands[id].gap) else { return };
        self.counts.repeated += 1;
        let wire = &mut self.wires[way as usize];
        match wire.repeat(at, of, &self.config, (&mut self.weather, &mut self.rng)) {
            None => self.wake(Timer::Timeout, id, gap.due, cx),
            Some(arrives) => {
                wire.gaps.retain(|other| *other != id);
                self.commands[id].gap = None;
                self.wake(Timer::Arrival, id, arrives, cx);
            }
        }
    }

    fn timed_out(&mut self, id: usize, cx: &mut Cx<'_>) {
        let command = &mut self.commands[id];
        let (Place::On(way), Some(gap)) = (command.place, command.gap) else { return };
        if gap.timeouts == MOST_TIMEOUTS {
            return self.give_up(cx);
        }
        command.gap = Some(gap.again(cx.now(), true));
        self.repeat(way, id, cx.now(), cx);
    }

    /// A command has reached the other end of a wire: in order, it waits there for those before it.
    fn arrived(&mut self, id: usize, cx: &mut Cx<'_>) {
        let Place::On(way) = self.commands[id].place else { return };
        if !self.config.ordered {
            return self.delivered(id, way, cx);
        }
        self.commands[id].place = Place::Arrived(way);
        let leftover = self.commands[id].is_given_up();
        while let Some(id) = self.next_arrived(way, leftover) {
            self.delivered(id, way, cx);
        }
    }

    fn next_arrived(&mut self, way: Way, leftover: bool) -> Option<usize> {
        let line = if leftover { &mut self.session.line } else { &mut self.wires[way as usize].line };
        let is_next = |id: &usize| self.commands[*id].place == Place::Arrived(way);
        line.pop_front_if(|id| is_next(id))
    }

    fn delivered(&mut self, id: usize, way: Way, cx: &mut Cx<'_>) {
        let command = &mut self.commands[id];
        match (way, command.fate) {
            (Way::There, Fate::LostThere) | (Way::Back, Fate::LostBack) => {
                command.place = Place::Lost;
                return;
            }
            (Way::There, Fate::FailsThere) => {
                command.fail();
                return self.carry(Way::Back, id, Message { bytes: 0, is_write: false }, cx);
            }
            (Way::There, _) => {
                command.place = Place::Below;
                let own = command.own.take().expect("a bio on its way there is here");
                return cx.submit(self.below[0], own, id as u64);
            }
            (Way::Back, Fate::FailsBack) => command.fail(),
            (Way::Back, _) => {}
        }
        self.finish(id, cx);
        self.start(cx);
    }

    /// Gives a bio its answer.
    fn finish(&mut self, id: usize, cx: &mut Cx<'_>) {
        let Command { host, own, status, .. } = self.commands.remove(id);
        let (Ok(mut host), Some(mut own)) = (host, own) else {
            unreachable!("who waits for an answer is here, and so is that")
        };
        answer(&mut host, &mut own, status, self.config.keep_data);
        cx.recycle(own);
        cx.complete(host, status);
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
        if self.refuses(cx.now()) {
            self.counts.refused += 1;
            self.refused.push_back(bio);
            return cx.wake_at(cx.now() + self.config.refusals.after, Timer::Refusal.word(0, 0));
        }
        self.waiting.push_back(bio);
        self.start(cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let id = word as usize;
        if self.commands[id].is_given_up() {
            return self.landed(id, bio, cx);
        }
        let bytes = if bio.op == Op::Read { bio.payload.bytes() as u64 } else { 0 };
        let command = &mut self.commands[id];
        (command.own, command.status) = (Some(bio), status);
        self.carry(Way::Back, id, Message { bytes, is_write: false }, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let word = match event {
            Event::Timer(word) => word,
            Event::Path(event) => return self.told(event, cx),
            _ => return,
        };
        let (number, id) = ((word >> 32) as u32, word as u32 as usize >> Timer::BITS);
        let counts = self.commands.get(id).is_some_and(|command| command.timer == number);
        match Timer::ALL[word as usize & ((1 << Timer::BITS) - 1)] {
            Timer::Arrival if counts => self.arrived(id, cx),
            Timer::Timeout if counts => self.timed_out(id, cx),
            Timer::Arrival | Timer::Timeout => {}
            Timer::Refusal => self.refused.pop_front().into_iter().for_each(|bio| cx.fail(bio, Reason::Interrupted)),
            Timer::Patience => self.lose_patience(cx),
            Timer::Silence => self.fall_silent(cx),
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let hosts: Vec<&Bio> = self.commands.iter().filter_map(|(_, command)| command.host.as_deref().ok()).collect();
        hosts.into_iter().for_each(&mut *visit);
        self.waiting.iter().chain(&self.refused).for_each(|bio| visit(bio));
    }

    fn silence(&self) -> Option<Silence> {
        Some(self.config.silent_after.map_or(Silence::Told, Silence::After))
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let LinkConfig { there, back, rate, depth, .. } = &self.config;
        write!(out, "link: there {there}, back {back}")?;
        rate.iter().try_for_each(|rate| write!(out, ", {rate} bytes/s"))?;
        depth.iter().try_for_each(|depth| write!(out, ", depth {depth}"))
    }

    fn figures(&self, visit: &mut dyn FnMut(&'static str, Figure)) {
        let Counts { repeated, refused, given_up, landed, late } = self.counts;
        visit("repeated", Figure::Count(repeated));
        visit("refused", Figure::Count(refused));
        visit("given up", Figure::Count(given_up));
        visit("landed", Figure::Count(landed));
        visit("landed late", Figure::Count(late));
    }
}
