//! What waits for something to happen to devices.
//!
//! Nothing here keeps the shard from sleeping: what is waited for are bios, and their completions wake it.

use std::mem;

use shingle_core::block::{DeviceId, Stack};
use shingle_core::mapper::{MapperError, MapperErrorKind, Ticket};
use shingle_core::time::{Duration, Instant};

use super::Shard;

/// Somebody who waits.
pub(super) struct Wait {
    pub give_up: Instant,
    look: Look,
}

/// Looks, told whether it is late, and says whether that was the last time.
type Look = Box<dyn FnMut(&mut Shard, bool) -> bool>;

/// Most bios that an error names.
const MOST_NAMED: usize = 4;

impl Shard {
    /// Calls `look` in every round, until it has found what it looks for, and then `then` with that. From the end of `patience` on
    /// `look` is told so, and has to come to an end.
    pub fn wait_for<R>(
        &mut self,
        patience: Duration,
        mut look: impl FnMut(&mut Shard, bool) -> Option<R> + 'static,
        then: impl FnOnce(&mut Shard, R) + 'static,
    ) {
        let mut then = Some(then);
        let look = move |shard: &mut Shard, is_late| {
            let Some(found) = look(shard, is_late) else { return false };
            if let Some(then) = then.take() {
                then(shard, found);
            }
            true
        };
        self.waits.push(Wait { give_up: self.now + patience, look: Box::new(look) });
    }

    /// Calls `then` when the change of `device` under way as `ticket` is made, or after `patience` is given up.
    pub fn when_changed(
        &mut self,
        (device, ticket): (&str, Ticket),
        patience: Duration,
        then: impl FnOnce(&mut Shard, Result<(), MapperError>) + 'static,
    ) {
        let device = device.to_owned();
        let look = move |shard: &mut Shard, is_late: bool| match shard.devices.mapper.outcome(ticket) {
            None if is_late => {
                let stalled = shard.stalled(&device, patience);
                shard.devices.mapper.cancel(ticket, &mut shard.stack);
                Some(Err(stalled))
            }
            outcome => outcome,
        };
        self.wait_for(patience, look, then);
    }

    /// Calls `then` with the number of events of `device` when there are more than `seen`, after `patience` in any case.
    pub fn when_event(
        &mut self,
        (device, seen): (&str, u64),
        patience: Duration,
        then: impl FnOnce(Result<u64, MapperError>) + 'static,
    ) {
        let device = device.to_owned();
        let look = move |shard: &mut Shard, is_late: bool| match shard.devices.mapper.events(&device, &shard.stack) {
            Ok(events) if events <= seen && !is_late => None,
            known => Some(known),
        };
        self.wait_for(patience, look, |_, known| then(known));
    }

    /// Once a round, after the stack's turn.
    pub(super) fn look_at_waits(&mut self) {
        for mut wait in mem::take(&mut self.waits) {
            let is_late = self.now >= wait.give_up;
            if !(wait.look)(self, is_late) && !is_late {
                self.waits.push(wait);
            }
        }
    }

    /// What a change of `device` waits for, in words.
    fn stalled(&self, name: &str, patience: Duration) -> MapperError {
        let door = self.devices.mapper.device(name).ok();
        let below = door.map_or_else(Vec::new, |door| below(&self.stack, door));
        // What waits at the door itself waits for the change, not the change for it.
        let inside: Vec<_> =
            self.stuck(Duration::default()).into_iter().filter(|bio| below.contains(&bio.device)).collect();
        let named = inside.iter().take(MOST_NAMED).map(|bio| {
            format!("{} in {} for {} ms", bio.bio, self.devices.label(bio.device), bio.age.as_nanos() / 1_000_000)
        });
        let named: Vec<String> = named.collect();
        let what = match (named.is_empty(), inside.len().saturating_sub(MOST_NAMED)) {
            (true, _) => "a disk below does not answer".to_owned(),
            (false, 0) => named.join("; "),
            (false, more) => format!("{}; and {more} more", named.join("; ")),
        };
        let ms = patience.as_nanos() / 1_000_000;
        let in_flight = door.map_or(0, |door| self.stack.counters(door).in_flight);
        let message = format!(
            "`{name}` still had {in_flight} bios in flight after {ms} ms ({what}): it goes on as before; wait for them, or \
             give it a longer --timeout"
        );
        MapperError::new(MapperErrorKind::Busy, message)
    }
}

/// All devices that bios of `device` may come to.
fn below(stack: &Stack, device: DeviceId) -> Vec<DeviceId> {
    let mut found: Vec<DeviceId> = stack.below(device).to_vec();
    let mut next = 0;
    while let Some(id) = found.get(next) {
        let new: Vec<DeviceId> = stack.below(*id).iter().filter(|id| !found.contains(id)).copied().collect();
        found.extend(new);
        next += 1;
    }
    found
}
