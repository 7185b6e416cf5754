//! What waits for the kernel beside the devices, and whose turn it is.
//!
//! ```text
//!  a completion of the ring ─┐
//!  a finished bio of a port ─┼──> due, each once ──> pump ──> Idle: until one of these comes
//!  a time that it asked for ─┤     ^                  ├─────> Done: dropped
//!  a notice of another one ──┘     └── Again ─────────┘
//! ```
//!
//! A source with nothing to do costs a round nothing.

use std::collections::BTreeSet;
use std::mem;

use shingle_core::block::{DeviceId, PortId, Stack};
use shingle_core::time::Instant;
use shingle_sys::{Completion, Request, RingHandle, Token};
use slab::Slab;

use crate::devices::Devices;

/// Something on a shard's thread that waits for the kernel and talks to the stack.
pub trait Source {
    /// A request that it submitted is done.
    fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>);

    /// Its turn, when something has happened for it: takes finished bios from its port, submits what it can. Bounded: a source
    /// that has more to do at once returns [`Pump::Again`].
    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump;

    /// Take no new work and finish what there is; then `pump` returns [`Pump::Done`].
    fn stop(&mut self, cx: &mut SourceCx<'_>);
}

/// What a source says after its turn to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pump {
    /// It waits for a completion of the ring or of a bio, for the time that it asked for, or for a notice.
    Idle,
    /// It has more to do: do not sleep.
    Again,
    /// It is finished: drop it. Completions of requests it still has are dropped too.
    Done,
}

/// A source of a shard. Numbers are not reused, so that a late completion finds nobody instead of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId {
    index: usize,
    generation: u32,
}

/// Tokens of devices have their place as owner, tokens of sources this bit, their generation and their index. It tells apart
/// whose request of the ring is done, and never meets the words of frames, which `WordOwner` allots: those stay in the stack.
const SOURCE: u64 = 1 << 63;

/// The token for I/O that the device in place `me` starts outside of the stack: it comes back as `Event::Done`.
#[must_use]
pub fn device_token(me: DeviceId, word: u64) -> Token {
    Token { owner: me.0.into(), word }
}

impl SourceId {
    fn token(self, word: u64) -> Token {
        Token { owner: SOURCE | u64::from(self.generation & 0x7fff_ffff) << 32 | self.index as u64, word }
    }
}

pub(super) struct Slot {
    id: SourceId,
    /// Taken out while it is called.
    source: Option<Box<dyn Source>>,
    ports: Vec<PortId>,
    /// Whether its turn is coming.
    is_due: bool,
    /// When it wants its turn in any case.
    alarm: Option<Instant>,
    /// Its entry among the alarms, which is not later. Alarms that move on, as patience does with every request, leave it there.
    armed: Option<Instant>,
}

/// What a source may do.
pub struct SourceCx<'a> {
    /// The devices.
    pub stack: &'a mut Stack,
    /// Their names.
    pub devices: &'a Devices,
    ring: &'a RingHandle,
    ports: &'a mut Ports,
    mine: &'a mut Vec<PortId>,
    asked: &'a mut Asked,
    alarm: &'a mut Option<Instant>,
    id: SourceId,
    now: Instant,
}

/// What a source asked of others, for when it returns.
#[derive(Default)]
struct Asked {
    born: Vec<Box<dyn Source>>,
    notices: Vec<SourceId>,
    /// Whether all others have a turn.
    notices_all: bool,
}

impl SourceCx<'_> {
    /// What this source is called.
    #[must_use]
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// The time of this round.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Starts a request; it comes back to `on_completion` with `word` in its token. It comes straight back if the ring
    /// has too many.
    pub fn submit(&mut self, word: u64, request: Request) -> Result<(), Request> {
        self.ring.submit(self.id.token(word), request)
    }

    /// Gives up this source's requests under `word`; each still comes back.
    pub fn cancel(&mut self, word: u64) {
        self.ring.cancel(self.id.token(word));
    }

    /// Has this source pumped at `at`, if nothing happens before. It holds until the next pump.
    pub fn wake_at(&mut self, at: Instant) {
        *self.alarm = Some(self.alarm.map_or(at, |other| other.min(at)));
    }

    /// Has another source pumped, if it is still there.
    pub fn notify(&mut self, other: SourceId) {
        self.asked.notices.push(other);
    }

    /// Has all sources pumped. Each pays for it: only where all of them have to know.
    pub fn notify_all(&mut self) {
        self.asked.notices_all = true;
    }

    /// A port of the stack for this source alone. The shard takes it back when the source is done.
    pub fn open_port(&mut self) -> PortId {
        let port = self.ports.open(self.id, self.stack);
        self.mine.push(port);
        port
    }

    /// Puts another source on this shard. It is pumped in this round or the next.
    pub fn spawn(&mut self, source: Box<dyn Source>) {
        self.asked.born.push(source);
    }
}

/// Ports of a stack cannot be closed, so they are used again once nothing is under way on them.
#[derive(Default)]
pub(super) struct Ports {
    /// Whom each port of the stack belongs to.
    owners: Vec<Option<SourceId>>,
    pub free: Vec<PortId>,
    pub draining: Vec<PortId>,
}

impl Ports {
    fn open(&mut self, owner: SourceId, stack: &mut Stack) -> PortId {
        let port = self.free.pop().unwrap_or_else(|| stack.open_port());
        let place = usize::from(port.0);
        self.owners.resize(self.owners.len().max(place + 1), None);
        self.owners[place] = Some(owner);
        port
    }

    fn close(&mut self, port: PortId) {
        self.owners[usize::from(port.0)] = None;
        self.draining.push(port);
    }

    fn drain(&mut self, stack: &mut Stack) {
        self.draining.retain(|port| {
            while stack.poll_completion(*port).is_some() {}
            let busy = stack.outstanding(*port) > 0;
            if !busy {
                self.free.push(*port);
            }
            busy
        });
    }
}

/// What sources are called with.
pub(super) struct Around<'a> {
    pub stack: &'a mut Stack,
    pub devices: &'a Devices,
    pub ring: &'a RingHandle,
    pub now: Instant,
}

/// The sources of a shard.
#[derive(Default)]
pub(super) struct Sources {
    pub slots: Slab<Slot>,
    generations: u32,
    pub ports: Ports,
    /// Those whose turn is coming, each once.
    due: Vec<SourceId>,
    /// Those whose turn it is: memory that is used again.
    turns: Vec<SourceId>,
    /// When to look at which source, once for each at most.
    pub alarms: BTreeSet<(Instant, SourceId)>,
    is_stopping: bool,
}

impl Sources {
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether one has something to do at once.
    pub fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// When one next wants its turn.
    pub fn next_alarm(&self) -> Option<Instant> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Whether a token is of a source.
    pub fn owns(token: Token) -> bool {
        token.owner & SOURCE != 0
    }

    pub fn spawn(&mut self, source: Box<dyn Source>, around: &mut Around<'_>) -> SourceId {
        self.generations = self.generations.wrapping_add(1);
        let entry = self.slots.vacant_entry();
        let id = SourceId { index: entry.key(), generation: self.generations };
        entry.insert(Slot { id, source: Some(source), ports: Vec::new(), is_due: false, alarm: None, armed: None });
        self.notify(id);
        if self.is_stopping {
            self.call(id, around, |source, cx| source.stop(cx));
        }
        id
    }

    /// Has a source pumped, if it is still there.
    pub fn notify(&mut self, id: SourceId) {
        let slot = self.slots.get_mut(id.index).filter(|slot| slot.id == id);
        if let Some(slot) = slot.filter(|slot| !slot.is_due) {
            slot.is_due = true;
            self.due.push(id);
        }
    }

    pub fn notify_all(&mut self) {
        let all: Vec<SourceId> = self.slots.iter().map(|(_, slot)| slot.id).collect();
        all.into_iter().for_each(|id| self.notify(id));
    }

    pub fn deliver(&mut self, done: Completion, around: &mut Around<'_>) {
        let index = (done.token.owner & 0xffff_ffff) as usize;
        let id = self.slots.get(index).map(|slot| slot.id).filter(|id| id.token(done.token.word) == done.token);
        if let Some(id) = id {
            self.notify(id);
            self.call(id, around, |source, cx| source.on_completion(done, cx));
        }
    }

    /// Asks all to finish.
    pub fn stop(&mut self, around: &mut Around<'_>) {
        self.is_stopping = true;
        self.notify_all();
        for id in self.due.clone() {
            self.call(id, around, |source, cx| source.stop(cx));
        }
    }

    /// Drops all; their bios come back to nobody.
    pub fn give_up(&mut self) {
        let all: Vec<SourceId> = self.slots.iter().map(|(_, slot)| slot.id).collect();
        all.into_iter().for_each(|id| self.remove(id));
    }

    /// Gives each of those that are due its turn.
    pub fn pump(&mut self, around: &mut Around<'_>) {
        while let Some(port) = around.stack.poll_ready() {
            let owner = self.ports.owners.get(usize::from(port.0)).copied().flatten();
            owner.into_iter().for_each(|owner| self.notify(owner));
        }
        self.ring_alarms(around.now);
        let mut turns = mem::replace(&mut self.due, mem::take(&mut self.turns));
        for id in turns.drain(..) {
            let Some(slot) = self.slots.get_mut(id.index).filter(|slot| slot.id == id) else { continue };
            (slot.is_due, slot.alarm) = (false, None);
            match self.call(id, around, |source, cx| source.pump(cx)) {
                Some(Pump::Again) => self.notify(id),
                Some(Pump::Done) => self.remove(id),
                Some(Pump::Idle) | None => {}
            }
        }
        self.turns = turns;
        self.ports.drain(around.stack);
    }

    fn remove(&mut self, id: SourceId) {
        let slot = self.slots.remove(id.index);
        if let Some(at) = slot.armed {
            self.alarms.remove(&(at, id));
        }
        slot.ports.into_iter().for_each(|port| self.ports.close(port));
    }

    fn ring_alarms(&mut self, now: Instant) {
        while let Some((_, id)) = self.alarms.first().copied().filter(|(at, _)| *at <= now) {
            self.alarms.pop_first();
            let slot = &mut self.slots[id.index];
            slot.armed = None;
            match slot.alarm {
                Some(alarm) if alarm <= now => self.notify(id),
                _ => self.arm(id),
            }
        }
    }

    fn arm(&mut self, id: SourceId) {
        let slot = &mut self.slots[id.index];
        let Some(at) = slot.alarm.filter(|at| slot.armed.is_none_or(|armed| *at < armed)) else { return };
        if let Some(armed) = slot.armed.replace(at) {
            self.alarms.remove(&(armed, id));
        }
        self.alarms.insert((at, id));
    }

    /// Calls a source, if it is there, and does what it asked for.
    fn call<R>(
        &mut self,
        id: SourceId,
        around: &mut Around<'_>,
        call: impl FnOnce(&mut dyn Source, &mut SourceCx<'_>) -> R,
    ) -> Option<R> {
        let slot = self.slots.get_mut(id.index)?;
        let mut source = slot.source.take()?;
        let mut asked = Asked::default();
        let mut cx = SourceCx {
            stack: around.stack,
            devices: around.devices,
            ring: around.ring,
            ports: &mut self.ports,
            mine: &mut slot.ports,
            asked: &mut asked,
            alarm: &mut slot.alarm,
            id,
            now: around.now,
        };
        let result = call(source.as_mut(), &mut cx);
        slot.source = Some(source);
        self.arm(id);
        asked.notices.into_iter().for_each(|other| self.notify(other));
        if asked.notices_all {
            self.notify_all();
        }
        for source in asked.born {
            self.spawn(source, around);
        }
        Some(result)
    }
}
