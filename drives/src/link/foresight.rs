//! What will become of a bio: for those who measure how far a choice between paths is from the best one.

use shingle_core::block::{Bio, Op};
use shingle_core::time::{Duration, Instant};

use super::Link;
use super::command::{Command, Place};
use super::wire::{Message, Way, round_trip};
use crate::service::time_of;

impl Link {
    /// When a message that is put on this link at `now` reaches the device below, if it does, and how long it waits for the wire: all
    /// windows are known, what is drawn for each message is taken at its mean. `below`: what the device below takes, for bios that
    /// wait for a place.
    pub fn foresee_there(
        &mut self,
        now: Instant,
        bytes: u64,
        is_write: bool,
        below: Duration,
    ) -> Option<(Instant, Duration)> {
        if self.would_refuse(now) {
            return None;
        }
        let depth = self.config.depth.map_or(u64::MAX, u64::from);
        let under_way = (self.commands.len() - self.session.leftovers) as u64;
        let ahead = if under_way < depth { 0 } else { self.waiting.len() as u64 + 1 };
        let held = Duration(round_trip(now, &self.config).0 + below.0);
        let begins = now + Duration((u128::from(held.0) * u128::from(ahead) / u128::from(depth)) as u64);
        let written = self.transfer(self.waiting.iter().map(|bio| data_of(bio, false)).sum());
        let begins = begins.max(self.wires[Way::There as usize].free.max(now) + written);
        let message = Message { bytes: if is_write { bytes } else { 0 }, is_write };
        let wire = &mut self.wires[Way::There as usize];
        let (arrives, wait) = wire.foresee(begins, message, &self.config, &mut self.weather)?;
        Some((arrives, Duration(begins.since(now).0 + wait.0)))
    }

    /// When the answer is back that is put on this link at `at`, with data or without, behind those of all that is under way; and how
    /// long it waits for the wire.
    pub fn foresee_back(&mut self, now: Instant, at: Instant, bytes: u64) -> Option<(Instant, Duration)> {
        let to_come = self.transfer(self.coming_back());
        let before = self.wires[Way::Back as usize].free.max(now) + to_come;
        let queued = Duration(before.since(at).0.max(chance_wait(to_come, at.since(now), self.transfer(bytes)).0));
        let begins = at + queued;
        let message = Message { bytes, is_write: false };
        let (back, wait) = self.wires[Way::Back as usize].foresee(begins, message, &self.config, &mut self.weather)?;
        Some((back, Duration(queued.0 + wait.0)))
    }

    /// Bytes of reads that are not on the wire back yet.
    fn coming_back(&self) -> u64 {
        let is_to_come = |command: &&Command| command.place != Place::On(Way::Back);
        let commands = self.commands.iter().map(|(_, command)| command).filter(is_to_come);
        let bios = commands.filter_map(|command| command.host.as_ref().ok()).chain(&self.waiting);
        bios.map(|bio| data_of(bio, true)).sum()
    }

    fn transfer(&self, bytes: u64) -> Duration {
        self.config.rate.map_or(Duration::ZERO, |rate| time_of(bytes, rate))
    }

    fn would_refuse(&mut self, now: Instant) -> bool {
        self.is_broken(now) || self.config.refusals.ppm >= 1_000_000 && self.refusing.covers(now)
    }
}

/// Bytes of a bio that go this way: of a read back, of a write there.
fn data_of(bio: &Bio, back: bool) -> u64 {
    if (bio.op == Op::Read) == back { bio.payload.bytes() as u64 } else { 0 }
}

/// How long a message of length `own` waits by chance for a wire that has `work` to do within `span`, in any order.
fn chance_wait(work: Duration, span: Duration, own: Duration) -> Duration {
    let share = (work.0 as f64 / span.0.max(1) as f64).min(0.95);
    Duration((own.0 as f64 * share / (1.0 - share)) as u64)
}
