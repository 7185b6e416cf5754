//! The link: commands and data come in and go out, one at a time.

use super::cache::CachedWrite;
use super::disk::SmrDisk;
use super::jobs::{Command, LinkJob, LinkWork};
use shingle_core::block::{Cx, Data, Flags, Op, Status};
use shingle_core::time::Duration;

impl SmrDisk {
    pub(super) fn start_link(&mut self, cx: &mut Cx<'_>) {
        if self.link.is_some() {
            return;
        }
        let Some(work) = self.answers.pop_front().map(LinkWork::Answer).or_else(|| self.next_segment()) else { return };
        let done = cx.now() + self.link_time(&work);
        cx.wake_at(done, 0);
        self.link = Some(LinkJob { done, work });
    }

    /// Each command costs the controller its time once, each byte the link its own.
    fn link_time(&self, work: &LinkWork) -> Duration {
        let (command, sectors) = match work {
            LinkWork::Write(command, sectors) => (command, *sectors),
            LinkWork::Answer(command) => (command, if command.bio.op == Op::Read { command.bio.sectors } else { 0 }),
        };
        let overhead = if command.taken == 0 { self.config.link.command } else { Duration::ZERO };
        Duration(overhead.0 + (f64::from(sectors) * 512.0 / self.config.link.rate * 1e9) as u64)
    }

    /// The next segment of a write, if the cache has room for it.
    fn next_segment(&mut self) -> Option<LinkWork> {
        let next = self.choose_write()?;
        let rest = self.writes[next].rest();
        let sectors = ((rest.end - rest.start) as u32).min(self.config.cache.segment_sectors());
        if !self.cache.reserve(sectors) {
            return None;
        }
        self.writes.remove(next).map(|command| LinkWork::Write(command, sectors))
    }

    /// The next write in turn.
    fn choose_write(&self) -> Option<usize> {
        (0..self.writes.len()).find(|index| self.may_come_in(&self.writes[*index]))
    }

    /// The zones that are being written share the cache: a long command among many comes in by turns with the others.
    fn share(&self) -> u32 {
        let arriving = self.writes.iter().map(|command| self.zones.geometry().zone_of(command.bio.sector));
        self.config.cache.share(self.cache.zones_with(arriving))
    }

    /// Not before an older write to the same zone; and one that needs a flush first has to find the cache clean, and lets
    /// nothing younger pass meanwhile.
    fn may_come_in(&self, command: &Command) -> bool {
        let zone = |command: &Command| self.zones.geometry().zone_of(command.bio.sector);
        let flushes = |command: &Command| command.taken == 0 && command.bio.flags.has(Flags::PREFLUSH);
        let mut older = self.writes.iter().filter(|other| other.number < command.number);
        if flushes(command) {
            return (self.cache.is_clean() || self.config.cache.is_durable()) && older.next().is_none();
        }
        older.all(|older| zone(older) != zone(command) && !flushes(older))
    }

    pub(super) fn end_link(&mut self, work: LinkWork, cx: &mut Cx<'_>) {
        match work {
            LinkWork::Answer(command) => {
                if matches!(command.bio.op, Op::Read | Op::Write) {
                    self.leave_queue();
                }
                cx.complete(command.bio, Status::Ok);
            }
            LinkWork::Write(command, sectors) => self.cache_segment(command, sectors, cx),
        }
    }

    /// A write of which more is to come in goes on, or back to the end of the line if its turn is over.
    fn take_turns(&mut self, mut command: Command) {
        if command.turn < self.share() {
            return self.writes.push_front(command);
        }
        command.turn = 0;
        self.writes.push_back(command);
    }

    pub(super) fn leave_queue(&mut self) {
        self.queued -= 1;
        self.admit();
    }

    /// True if a write with these flags is acknowledged when it is on the medium, and not before.
    fn waits_for_medium(&self, flags: Flags) -> bool {
        let cache = &self.config.cache;
        !cache.acknowledges() || (flags.has(Flags::FUA) && !cache.is_durable())
    }

    fn cache_segment(&mut self, mut command: Command, sectors: u32, cx: &mut Cx<'_>) {
        let start = command.rest().start;
        let zone = self.zones.geometry().zone_of(start);
        let part = |before: &Data| before.slice(command.taken as usize * 512, sectors as usize * 512);
        let before = command.before.as_ref().map(part);
        command.taken += sectors;
        command.turn += sectors;
        let (number, void) = (command.number, command.void);
        let mut waiter = None;
        if command.taken < command.bio.sectors {
            self.take_turns(command);
        } else if self.waits_for_medium(command.bio.flags) {
            waiter = Some(command.bio);
        } else {
            self.leave_queue();
            cx.complete(command.bio, Status::Ok);
        }
        self.cache.push(zone, CachedWrite { start, sectors, number, void, before, waiter });
    }
}
