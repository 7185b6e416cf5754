//! One direction of a link, and the weather that both have: when a message that leaves now arrives, if it does.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::config::LinkConfig;
use super::retransmission::Retransmission;
use super::traffic::{Others, Traffic};
use super::windows::Calendar;
use crate::service::{ServiceTime, time_of};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// There or back: an index of what both directions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    There,
    Back,
}

impl Way {
    pub fn other(self) -> Self {
        if self == Self::There { Self::Back } else { Self::There }
    }
}

/// What became of a message that was sent.
pub(super) enum Trip {
    /// It arrives then.
    Arrives(Instant),
    /// A segment of it got lost, and so many have followed in the same message, the last of them at this time on the other side.
    Lacks { followers: u64, last: Instant },
    /// It got lost for good.
    Lost,
}

/// What both directions have in common.
pub(super) struct Weather {
    pub stalls: Calendar,
    pub write_stalls: Calendar,
    pub downs: Calendar,
}

/// What is put on a wire.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub bytes: u64,
    /// Whether it is a write, which needs room on the other side.
    pub is_write: bool,
}

/// One direction.
pub(super) struct Wire {
    way: Way,
    pub free: Instant,
    others: Option<Others>,
    /// Messages under way that are delivered in this order.
    pub line: VecDeque<usize>,
    /// Messages under way of which a segment is missing, oldest first.
    pub gaps: Vec<usize>,
}

impl Wire {
    pub fn new(way: Way, config: &LinkConfig) -> Self {
        let rng = Rng::new(config.seed ^ (way as u64 + 1).rotate_left(32));
        let others = config.traffic.as_ref().map(|traffic| Others::new(traffic, rng));
        Self { way, free: Instant::ZERO, others, line: VecDeque::new(), gaps: Vec::new() }
    }

    /// Sends a message at `now`.
    pub fn send(&mut self, now: Instant, of: Message, config: &LinkConfig, air: (&mut Weather, &mut Rng)) -> Trip {
        let (weather, rng) = air;
        let room = if of.is_write { weather.write_stalls.advance(now, Duration::ZERO) } else { now };
        let latency = Duration(latency(self.way, config).draw(rng).0.saturating_add(room.since(now).0));
        let bytes = of.bytes;
        if let Some(others) = &mut self.others {
            self.free = others.occupy(self.free, now, &mut weather.stalls);
        }
        let begins = self.free.max(now);
        let transfer = config.rate.map_or(Duration::ZERO, |rate| time_of(bytes, rate));
        self.free = weather.stalls.advance(begins, transfer);
        let arrives = self.arrival(self.free, latency, config, weather);
        let Some(of) = &config.retransmission else {
            return if weather.downs.touches(begins, arrives) { Trip::Lost } else { Trip::Arrives(arrives) };
        };
        if weather.downs.touches(begins, arrives) {
            return Trip::Lacks { followers: 0, last: arrives };
        }
        let segments = of.segments(bytes);
        match of.first_lost(segments, rng) {
            Some(first) => Trip::Lacks { followers: segments - 1 - first, last: arrives },
            None => Trip::Arrives(arrives),
        }
    }

    /// When a message would arrive that is put on the wire at `at`, and how long it waits for it; at mean times, if it arrives.
    pub fn foresee(
        &mut self,
        at: Instant,
        of: Message,
        config: &LinkConfig,
        weather: &mut Weather,
    ) -> Option<(Instant, Duration)> {
        let room = if of.is_write { weather.write_stalls.advance(at, Duration::ZERO) } else { at };
        let latency = Duration(latency(self.way, config).mean().0.saturating_add(room.since(at).0));
        let others = config.traffic.as_ref().map_or(Duration::ZERO, Traffic::wait);
        let begins = self.free.max(at + others);
        let transfer = config.rate.map_or(Duration::ZERO, |rate| time_of(of.bytes, rate));
        let arrives = self.arrival(weather.stalls.advance(begins, transfer), latency, config, weather);
        (!weather.downs.touches(begins, arrives)).then_some((arrives, begins.since(at)))
    }

    /// Sends a lost segment again at `at`: when it arrives, if it does. It is short, and does not wait for the wire.
    pub fn repeat(
        &mut self,
        at: Instant,
        of: &Retransmission,
        config: &LinkConfig,
        air: (&mut Weather, &mut Rng),
    ) -> Option<Instant> {
        let (weather, rng) = air;
        let latency = latency(self.way, config).draw(rng);
        let arrives = self.arrival(at, latency, config, weather);
        let is_lost = weather.downs.touches(at, arrives) || of.first_lost(1, rng).is_some();
        (!is_lost).then_some(arrives)
    }

    fn arrival(&self, sent: Instant, latency: Duration, config: &LinkConfig, weather: &mut Weather) -> Instant {
        let extra = config.steps.at(sent)[self.way as usize];
        weather.stalls.advance(sent, Duration(latency.0.saturating_add(extra.0)))
    }
}

/// What a round trip takes on average, if it begins at `at`.
pub(super) fn round_trip(at: Instant, config: &LinkConfig) -> Duration {
    let [there, back] = config.steps.at(at);
    Duration(config.there.mean().0 + config.back.mean().0 + there.0 + back.0)
}

fn latency(way: Way, config: &LinkConfig) -> &ServiceTime {
    if way == Way::There { &config.there } else { &config.back }
}
