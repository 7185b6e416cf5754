//! Requests in the order of their sectors, and of their arrival where that is the same.

use crate::prelude::*;
use crate::sector::Sector;

/// A sorted list of requests. It allocates only to hold more than ever before; inserting and removing move what lies behind, some
/// bytes for each waiting request.
pub(super) struct Sorted {
    entries: Vec<(Sector, u32)>,
}

impl Sorted {
    pub fn new() -> Self {
        Self { entries: Vec::with_capacity(256) }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn insert(&mut self, key: Sector, id: u32) {
        let place = self.entries.partition_point(|(other, _)| *other <= key);
        self.entries.insert(place, (key, id));
    }

    /// The first request at or behind `key`.
    pub fn next_from(&self, key: Sector) -> Option<u32> {
        let place = self.place(key);
        self.entries.get(place).map(|(_, id)| *id)
    }

    /// True if a request has exactly this key.
    pub fn has(&self, key: Sector) -> bool {
        self.entries.get(self.place(key)).is_some_and(|(found, _)| *found == key)
    }

    pub fn remove(&mut self, key: Sector, id: u32) {
        let from = self.place(key);
        let place = self.entries[from..].iter().position(|(_, other)| *other == id);
        self.entries.remove(from + place.expect("a waiting request is sorted in"));
    }

    fn place(&self, key: Sector) -> usize {
        self.entries.partition_point(|(other, _)| *other < key)
    }
}
