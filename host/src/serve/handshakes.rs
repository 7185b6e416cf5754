//! Slots of clients that have not authenticated and chosen an export yet. Clients can fill these without taking slots of connections, and the oldest client
//! loses its slot to the next one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_core::time::{Duration, Instant};

use crate::shard::SourceId;

/// Most clients of a listener that are in their handshake.
pub const MAX_HANDSHAKES: usize = 256;
/// Time that a client has at least, however many come after it. A handshake over TLS takes a few round trips.
const MIN_TIME: Duration = Duration::from_millis(500);

/// The clients of a listener that are in their handshake, in the order in which they came.
#[derive(Default)]
pub(super) struct Handshakes {
    all: RefCell<BTreeMap<u64, Entry>>,
}

struct Entry {
    since: Instant,
    /// The connection, once it has run.
    connection: Option<SourceId>,
}

/// Answer to a listener that wants to accept another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is a slot.
    Free,
    /// There is a slot, as the client of this connection lost its own.
    Evicted(Option<SourceId>),
    /// All slots are taken until this time, unless a client is done earlier.
    At(Instant),
}

impl Handshakes {
    /// Makes room for another client.
    pub fn make_room(&self, now: Instant) -> Room {
        let mut all = self.all.borrow_mut();
        if all.len() < MAX_HANDSHAKES {
            return Room::Free;
        }
        let Some(oldest) = all.first_entry() else { return Room::Free };
        let end = oldest.get().since + MIN_TIME;
        if now >= end { Room::Evicted(oldest.remove().connection) } else { Room::At(end) }
    }

    /// A slot for a client that was just accepted.
    pub fn begin(self: &Rc<Self>, number: u64, now: Instant) -> Handshake {
        self.all.borrow_mut().insert(number, Entry { since: now, connection: None });
        Handshake { slots: self.clone(), number }
    }
}

/// The slot of a client in its handshake, free when this is dropped.
pub struct Handshake {
    slots: Rc<Handshakes>,
    number: u64,
}

impl Handshake {
    /// Notes which connection is told when it loses its slot.
    pub fn register(&self, connection: SourceId) {
        if let Some(entry) = self.slots.all.borrow_mut().get_mut(&self.number) {
            entry.connection = Some(connection);
        }
    }

    /// True if the slot was given to another client.
    pub fn is_evicted(&self) -> bool {
        !self.slots.all.borrow().contains_key(&self.number)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.slots.all.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_handshake_makes_room_after_a_while() {
        let (slots, begin) = (Rc::<Handshakes>::default(), Instant::ZERO);
        let mut all: Vec<Handshake> = (0..MAX_HANDSHAKES as u64).map(|number| slots.begin(number, begin)).collect();
        assert_eq!(slots.make_room(begin), Room::At(begin + MIN_TIME));
        assert_eq!(slots.make_room(begin + MIN_TIME), Room::Evicted(None));
        assert!(all[0].is_evicted() && !all[1].is_evicted());
        let next = slots.begin(MAX_HANDSHAKES as u64, begin + MIN_TIME);
        // One that is done makes room at once, and one that was evicted frees no slot of another when it goes.
        drop((all.remove(0), all.remove(0)));
        assert_eq!(slots.make_room(begin + MIN_TIME), Room::Free);
        assert!(!next.is_evicted());
    }
}
