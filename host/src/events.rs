//! What has happened to a running stack: the newest of it, for those who look at it later.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most events that are kept.
const MOST_EVENTS: usize = 512;
/// Most of them that are about clients: no client keeps others from finding what else has happened.
const MOST_OF_CLIENTS: usize = 128;
/// Longest text of one, in bytes.
const LONGEST_TEXT: usize = 400;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// The daemon itself.
    Daemon,
    /// The power of a simulated drive was taken.
    Cut,
    /// It was given back.
    Restore,
    /// A mapped device was suspended.
    Suspend,
    /// It was resumed: with another table, if one was loaded.
    Swap,
    /// How a disk orders writes, or a device chooses a path.
    Policy,
    /// A path was changed by an operator, or has failed or come back by itself.
    Path,
    /// The stack file was read again.
    Reload,
    /// Zones were reset, opened, closed or finished by an operator.
    Zones,
    /// Something else that an operator changed.
    Change,
    /// A disk has trouble.
    Fault,
    /// A client did not keep to its protocol.
    Client,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// The daemon's first is 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// What it is about.
    pub kind: EventKind,
    /// The device, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// What happened, in words.
    pub text: String,
}

/// The newest events.
#[derive(Debug, Default)]
pub struct Events(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// Of the last one.
    number: u64,
    events: VecDeque<Event>,
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what happens now.
    pub fn note(&self, kind: EventKind, device: Option<&str>, text: &str) {
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        let mut text = text.to_owned();
        if text.len() > LONGEST_TEXT {
            text.truncate(text.floor_char_boundary(LONGEST_TEXT - 3));
            text += "...";
        }
        let mut ring = self.lock();
        ring.number += 1;
        let is_of_client = |event: &Event| event.kind == EventKind::Client;
        if kind == EventKind::Client
            && ring.events.iter().filter(|event| is_of_client(event)).count() == MOST_OF_CLIENTS
        {
            let oldest = ring.events.iter().position(is_of_client);
            oldest.into_iter().for_each(|place| _ = ring.events.remove(place));
        } else if ring.events.len() == MOST_EVENTS {
            ring.events.pop_front();
        }
        let event = Event { number: ring.number, unix_ms, kind, device: device.map(ToOwned::to_owned), text };
        ring.events.push_back(event);
    }

    /// Those behind this number, as far as they are kept.
    #[must_use]
    pub fn since(&self, number: u64) -> Vec<Event> {
        self.lock().events.iter().filter(|event| event.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_events_are_kept_and_long_ones_are_cut() {
        let events = Events::default();
        (0..2000).for_each(|n| events.note(EventKind::Change, None, &"\u{e9}".repeat(n)));
        let kept = events.since(0);
        assert_eq!((kept.len(), kept[0].number, kept[511].number), (MOST_EVENTS, 2000 - 511, 2000));
        assert!(kept.iter().all(|event| event.text.len() <= LONGEST_TEXT && event.text.ends_with("...")));
        assert_eq!(events.since(1998).len(), 2);
        assert!(events.since(u64::MAX).is_empty());
    }

    #[test]
    fn complaints_about_clients_do_not_push_out_what_else_has_happened() {
        let events = Events::default();
        events.note(EventKind::Cut, Some("d"), "no power");
        (0..2000).for_each(|_| events.note(EventKind::Client, None, "nonsense"));
        let kept = events.since(0);
        assert_eq!((kept.len(), kept[0].kind, kept[128].number), (1 + MOST_OF_CLIENTS, EventKind::Cut, 2001));
    }
}
