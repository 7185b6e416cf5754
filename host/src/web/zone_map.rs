//! The zones of devices for those who look at them all the time: who has some of them gets what has changed since.
//!
//! An answer is eight numbers of 32 bits, little-endian: the letters `SHZ1`, its version, the zones of the device, those in this answer, 1 if
//! it says all (and 0 if what it does not say is as it was), sectors of a zone, its age in milliseconds, and 0. Then come columns with a value for each zone
//! in the answer: its number, sectors written, sectors that can be written (32 bits each), type and condition (as the kernel counts, 16 times the
//! one plus the other), and what it is used for (8 bits each). The rest is the names of uses, divided by newlines.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use shingle_core::zone::Zone;

use super::watched::{Watched, ZoneList};

/// Most zones of a device that are shown.
const MOST_ZONES: usize = 1 << 20;
/// Most devices of which they are kept.
const MOST_DEVICES: usize = 8;
/// How old zones may be.
const GOOD: Duration = Duration::from_millis(800);
/// Reading zones takes no more of the time than one part in so many.
const SHARE: u32 = 20;

const MAGIC: u32 = u32::from_le_bytes(*b"SHZ1");

/// What is known of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    written: u32,
    capacity: u32,
    state: u8,
    used_for: u8,
}

impl Cell {
    fn of(zone: &Zone, used_for: u8) -> Self {
        let number = |sectors: u64| u32::try_from(sectors).unwrap_or(u32::MAX);
        let written = zone.written_up_to() - zone.start;
        let state = (zone.kind as u8) << 4 | zone.cond as u8;
        Self { written: number(written), capacity: number(zone.capacity), state, used_for }
    }
}

/// The zones of a device.
struct Map {
    read: Instant,
    took: Duration,
    /// How old the zones were when they were read.
    age: Duration,
    asked: Instant,
    version: u32,
    zone_sectors: u32,
    /// With the version in which each changed last.
    cells: Vec<(Cell, u32)>,
    names: Vec<&'static str>,
    /// The version since which it has the zones and names that it has.
    whole: u32,
}

impl Map {
    fn new() -> Self {
        let now = Instant::now();
        // Versions of a map that is made anew, here or in a later daemon, are greater than those that somebody may have: they rise more slowly than this.
        let version = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as u32);
        let (cells, names) = (Vec::new(), Vec::new());
        let (took, age, zone_sectors) = (Duration::ZERO, Duration::ZERO, 0);
        Self { read: now, took, age, asked: now, version, zone_sectors, cells, names, whole: version }
    }

    fn is_good(&self) -> bool {
        !self.cells.is_empty() && self.read.elapsed() < GOOD.max(self.took * SHARE)
    }

    fn learn(&mut self, ZoneList { zones, uses, names, age }: ZoneList) {
        self.age = age.unwrap_or_default();
        self.version = self.version.wrapping_add(1);
        if zones.len() != self.cells.len() || names != self.names {
            self.whole = self.version;
            self.cells = vec![(Cell::default(), self.version); zones.len()];
            self.names = names;
            self.zone_sectors = zones.first().map_or(0, |zone| u32::try_from(zone.len).unwrap_or(u32::MAX));
        }
        let uses = uses.into_iter().chain(std::iter::repeat(0));
        for ((zone, used_for), (cell, changed)) in zones.iter().zip(uses).zip(&mut self.cells) {
            let now = Cell::of(zone, used_for);
            if now != *cell {
                (*cell, *changed) = (now, self.version);
            }
        }
    }

    /// What has changed since this version; all of it for who has another map.
    fn since(&self, version: u32) -> Bytes {
        let is_whole = version < self.whole || version > self.version;
        let is_new = |(_, changed): &&(Cell, u32)| is_whole || *changed > version;
        let count = self.cells.iter().filter(is_new).count();
        let names = self.names.join("\n");
        let age = u32::try_from((self.age + self.read.elapsed()).as_millis()).unwrap_or(u32::MAX);
        let (cells, count_sent) = (self.cells.len() as u32, count as u32);
        let head = [MAGIC, self.version, cells, count_sent, is_whole.into(), self.zone_sectors, age, 0];
        let mut bytes = Vec::with_capacity(32 + 14 * count + names.len());
        head.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        let numbered = || self.cells.iter().zip(0_u32..).filter(|(cell, _)| is_new(cell));
        numbered().for_each(|(_, number)| bytes.extend(number.to_le_bytes()));
        numbered().for_each(|((cell, _), _)| bytes.extend(cell.written.to_le_bytes()));
        numbered().for_each(|((cell, _), _)| bytes.extend(cell.capacity.to_le_bytes()));
        bytes.extend(numbered().map(|((cell, _), _)| cell.state));
        bytes.extend(numbered().map(|((cell, _), _)| cell.used_for));
        bytes.extend(names.as_bytes());
        bytes.into()
    }
}

/// The maps of the devices that somebody looks at.
#[derive(Default)]
pub(super) struct Maps(Mutex<BTreeMap<String, Map>>);

impl Maps {
    /// What has changed of a device since a version.
    pub fn since(&self, watched: &dyn Watched, device: &str, version: u32) -> Result<Bytes, String> {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if maps.get(device).is_none_or(|map| !map.is_good()) {
            let began = Instant::now();
            let zones = watched.zones(device, MOST_ZONES)?;
            let took = began.elapsed();
            let map = maps.entry(device.to_owned()).or_insert_with(Map::new);
            map.learn(zones);
            (map.read, map.took) = (Instant::now(), took);
        }
        let Some(map) = maps.get_mut(device) else { return Err(format!("`{device}` is gone")) };
        map.asked = Instant::now();
        let answer = map.since(version);
        if maps.len() > MOST_DEVICES {
            let idle = maps.iter().min_by_key(|(_, map)| map.asked).map(|(name, _)| name.clone());
            idle.into_iter().for_each(|name| _ = maps.remove(&name));
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use shingle_core::sector::Sector;
    use shingle_core::zone::{Condition, ZoneKind};

    use super::*;

    fn zones(count: u64) -> Vec<Zone> {
        let zone = |n: u64| Zone {
            start: Sector(n * 64),
            len: 64,
            capacity: 60,
            wp: Sector(n * 64),
            kind: ZoneKind::Sequential,
            cond: Condition::Empty,
        };
        (0..count).map(zone).collect()
    }

    fn numbers(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|number| u32::from_le_bytes(number.try_into().unwrap())).collect()
    }

    fn list(zones: &[Zone]) -> ZoneList {
        ZoneList { zones: zones.to_vec(), ..ZoneList::default() }
    }

    #[test]
    fn who_has_the_zones_gets_those_that_changed_and_others_get_all() {
        let (mut map, mut zones) = (Map::new(), zones(1000));
        map.learn(list(&zones));
        let all = map.since(0);
        assert_eq!(all.len(), 32 + 1000 * 14);
        let head = numbers(&all[..32]);
        assert_eq!(head[..6], [MAGIC, map.version, 1000, 1000, 1, 64]);
        let version = map.version;
        (zones[7].wp, zones[7].cond) = (Sector(7 * 64 + 9), Condition::ImplicitOpen);
        map.learn(list(&zones));
        let some = map.since(version);
        assert_eq!(some.len(), 32 + 14);
        assert_eq!(numbers(&some[8..20]), [1000, 1, 0]);
        assert_eq!(numbers(&some[32..44]), [7, 9, 60]);
        assert_eq!(some[44..], [0x22, 0]);
        assert_eq!(map.since(map.version).len(), 32, "nothing has changed");
        // Another daemon gave that version: it means nothing here.
        assert_eq!(map.since(version + 5000).len(), all.len());
    }

    #[test]
    fn an_answer_says_how_old_the_zones_are() {
        let mut map = Map::new();
        map.learn(ZoneList { age: Some(Duration::from_secs(75)), ..list(&zones(10)) });
        let age_ms = numbers(&map.since(0)[24..28])[0];
        assert!(age_ms >= 75_000, "{age_ms}");
    }

    #[test]
    fn a_device_that_gets_other_zones_or_another_user_is_told_as_a_whole() {
        let mut map = Map::new();
        map.learn(list(&zones(10)));
        let version = map.version;
        map.learn(list(&zones(12)));
        assert_eq!(numbers(&map.since(version)[8..20]), [12, 12, 1]);
        let version = map.version;
        map.learn(ZoneList { names: vec!["", "data"], uses: vec![1; 12], zones: zones(12), age: None });
        let whole = map.since(version);
        assert!(whole.ends_with(b"\ndata"));
        assert_eq!(numbers(&whole[8..20]), [12, 12, 1]);
    }
}
