//! What a recording says was asked of one device, and how it went.

use std::collections::{BTreeMap, VecDeque};

use shingle_core::block::{Action, Flags, Op, Status, TraceEvent};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

use super::entry::RecordedEntry;
use super::file::Recording;

/// A bio that came into the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When.
    pub at: Instant,
    /// For what.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// First sector.
    pub sector: Sector,
    /// Length in sectors.
    pub sectors: u32,
    /// Bios in the device once it was in, as far as the recording says.
    pub in_flight: u32,
    /// When it left the device, and how; `None` if the recording does not say.
    pub done: Option<(Instant, Status)>,
}

/// What was asked of the device in place `device` of the recording, in order.
///
/// From a submitter a bio counts as it was handed over, before the device's limits split it; from a layer above as it
/// arrived.
#[must_use]
pub fn work_of(recording: &Recording, device: u16) -> Vec<Asked> {
    let shard_of = |event: &TraceEvent| recording.devices.get(usize::from(event.device.0)).map(|device| device.shard);
    let shard = recording.devices.get(usize::from(device)).map(|device| device.shard);
    let mut work = Work::default();
    for entry in &recording.entries {
        match entry {
            RecordedEntry::Lost { shard: lost, .. } if Some(*lost) == shard => work.forget(),
            RecordedEntry::Hop(event) if event.action == Action::Complete && shard_of(event) == shard => {
                work.complete(event)
            }
            RecordedEntry::Hop(event) if event.device.0 == device => work.enter(event),
            _ => {}
        }
    }
    work.asked
}

#[derive(Default)]
struct Work {
    asked: Vec<Asked>,
    in_flight: u32,
    /// By its number, where in the list a submitter's bio is.
    queued: BTreeMap<u32, usize>,
    /// By number and frames, where in the list a layer's bio is; pieces of one bio share their number.
    dispatched: BTreeMap<(u32, u8), VecDeque<usize>>,
}

impl Work {
    fn enter(&mut self, event: &TraceEvent) {
        let place = self.asked.len();
        match event.action {
            Action::Queue => {
                self.queued.insert(event.number, place);
            }
            Action::Dispatch if !self.queued.contains_key(&event.number) => {
                self.dispatched.entry((event.number, event.depth)).or_default().push_back(place);
            }
            _ => return,
        }
        let TraceEvent { at, op, flags, sector, sectors, .. } = *event;
        self.in_flight += 1;
        self.asked.push(Asked { at, op, flags, sector, sectors, in_flight: self.in_flight, done: None });
    }

    fn complete(&mut self, event: &TraceEvent) {
        let queued = if event.returned { self.queued.remove(&event.number) } else { None };
        let place = queued.or_else(|| {
            let key = (event.number, event.depth);
            let waiting = self.dispatched.get_mut(&key)?;
            let place = waiting.pop_front();
            if waiting.is_empty() {
                self.dispatched.remove(&key);
            }
            place
        });
        if let Some(asked) = place.and_then(|place| self.asked.get_mut(place)) {
            asked.done = Some((event.at, event.status));
            self.in_flight -= 1;
        }
    }

    /// Completions may be among what was lost: nobody waits for them.
    fn forget(&mut self) {
        self.queued.clear();
        self.dispatched.clear();
        self.in_flight = 0;
    }
}
