//! Where the device with a name, a UUID or a minor number is, without a look at all the others.

use alloc::collections::{BTreeMap, BTreeSet};

use super::mapped::Mapped;
use crate::prelude::*;

/// Places of devices by what they are called.
#[derive(Default)]
pub(super) struct Index {
    names: BTreeMap<String, usize>,
    uuids: BTreeMap<String, usize>,
    /// Minor numbers below `next_minor` that nobody has.
    free_minors: BTreeSet<u32>,
    next_minor: u32,
}

impl Index {
    /// The place of the device with this name, else of the one with this UUID.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.get(name).or_else(|| self.uuids.get(name)).copied()
    }

    pub fn has_uuid(&self, uuid: &str) -> bool {
        self.uuids.contains_key(uuid)
    }

    /// The lowest number that is free, for a new device.
    pub fn take_minor(&mut self) -> u32 {
        self.free_minors.pop_first().unwrap_or_else(|| {
            self.next_minor += 1;
            self.next_minor - 1
        })
    }

    pub fn add(&mut self, place: usize, device: &Mapped) {
        self.names.insert(device.name.clone(), place);
        self.add_uuid(place, &device.uuid);
    }

    pub fn add_uuid(&mut self, place: usize, uuid: &str) {
        if !uuid.is_empty() {
            self.uuids.insert(uuid.to_string(), place);
        }
    }

    pub fn rename(&mut self, old: &str, new: &str) {
        if let Some(place) = self.names.remove(old) {
            self.names.insert(new.to_string(), place);
        }
    }

    /// The device is gone from its place, and those behind it move up.
    pub fn remove(&mut self, place: usize, device: &Mapped) {
        self.names.remove(&device.name);
        self.uuids.remove(&device.uuid);
        self.free_minors.insert(device.minor);
        let places = self.names.values_mut().chain(self.uuids.values_mut());
        places.filter(|other| **other > place).for_each(|other| *other -= 1);
    }
}
