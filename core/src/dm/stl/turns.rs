//! Users who flush each write. On a rotating disk each costs a turn in a zone, as the next block has just passed the head when the flush is
//! back: so there are open zones at several angles, and the one that comes next is taken.

use super::append::Room;
use super::lanes::{Lane, LaneNo, Lanes, Use};
use super::log::Pool;
use super::policy::Spindle;
use super::state::State;
use crate::time::{Duration, Instant};

/// After this time an angle counts as forgotten.
const FORGOTTEN: Duration = Duration(2_000_000_000);
/// A flush that is back sooner has not waited for the medium.
const AT_ONCE: Duration = Duration(100_000);

/// What is known of such users, and of the disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    spindle: Spindle,
    /// Flushes so far before each of which there was one batch.
    in_a_row: u32,
    /// Batches since the last flush, and the lane of the last one.
    batches: u32,
    lane: Option<LaneNo>,
    /// When its block was to pass.
    expected: Option<Instant>,
    /// A root was asked for that names zones at other angles.
    has_asked: bool,
}

/// What a flush is about to make durable.
pub(super) struct Flushing {
    began: Instant,
    /// The lane of the only batch.
    lane: Option<LaneNo>,
    expected: Option<Instant>,
}

impl Turns {
    /// Whether users have waited for each of the last `most` writes to be durable.
    pub fn are_flushed_one_by_one(&self, most: u32) -> bool {
        self.in_a_row >= most
    }

    /// Whether it is time to go where the angle is not known. Before the disk has shown how fast it turns that would teach nothing.
    fn is_time_to_try(&self, most: u32) -> bool {
        let does_turn = self.spindle.turn().is_some() || self.in_a_row >= 2 * most;
        does_turn && self.in_a_row.is_multiple_of((most / 2).max(1))
    }

    /// A batch of users was sent.
    pub fn sent(&mut self, lane: LaneNo) {
        self.batches += 1;
        self.lane = Some(lane);
        if self.batches > 1 {
            (self.in_a_row, self.has_asked) = (0, false);
        }
    }

    /// A flush begins.
    pub fn flush(&mut self, now: Instant) -> Flushing {
        let lane = self.lane.take().filter(|_| self.batches == 1);
        self.batches = 0;
        Flushing { began: now, lane, expected: self.expected.take() }
    }

    /// It is done.
    pub fn flushed(&mut self, flushing: &Flushing, now: Instant, lanes: &mut Lanes) {
        let Some(lane) = flushing.lane else { return };
        self.in_a_row = (self.in_a_row + 1).min(1 << 20);
        if now.since(flushing.began) < AT_ONCE {
            return;
        }
        let before = lanes[lane].passed.replace(now);
        if let Some(before) = before.filter(|before| now.since(*before) < FORGOTTEN) {
            self.spindle.learn(now.since(before));
        }
        flushing.expected.into_iter().for_each(|expected| self.spindle.came(expected, now));
    }
}

impl State {
    /// The lane of a small change of users that is flushed by itself, where a disk turns: the one that comes next.
    pub fn lane_by_angle(&mut self, now: Instant) -> Option<LaneNo> {
        let in_a_row = self.options.flushes_in_a_row;
        if !self.turns.are_flushed_one_by_one(in_a_row) {
            return None;
        }
        let next = |lane: &Lane| {
            let passed = lane.passed.filter(|passed| now.since(*passed) < FORGOTTEN)?;
            self.turns.spindle.next(passed, now)
        };
        let is_at_angle = |(_, lane): &(LaneNo, &Lane)| matches!(lane.used_for, Use::Base | Use::Angle);
        let at_angles = || self.lanes.of_users().filter(is_at_angle);
        let known = at_angles().filter(|(_, lane)| lane.has_room());
        let known = known.filter_map(|(lane, it)| Some((next(it)?, lane))).min();
        let unknown = at_angles().filter(|(_, lane)| next(lane).is_none()).map(|(lane, _)| lane).next();
        if let Some(lane) = unknown.filter(|_| self.turns.is_time_to_try(in_a_row))
            && matches!(self.room(lane, Pool::Users), Room::Blocks(_))
        {
            return Some(lane);
        }
        if unknown.is_some() && !core::mem::replace(&mut self.turns.has_asked, true) {
            self.is_checkpoint_wanted = true;
            self.notify(|signals| &signals.progress);
        }
        let (at, lane) = known?;
        self.turns.expected = Some(at);
        Some(lane)
    }
}
