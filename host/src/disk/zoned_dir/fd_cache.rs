//! Open zone files, the most recently used ones.

use std::collections::HashMap;

use shingle_core::zone::ZoneNo;
use shingle_sys::Fd;
use slab::Slab;

/// A list in order of use, linked by places in a slab.
pub(super) struct FdCache {
    files: Slab<Open>,
    places: HashMap<ZoneNo, usize>,
    ends: Ends,
    most: usize,
}

struct Open {
    zone: ZoneNo,
    file: Fd,
    newer: Option<usize>,
    older: Option<usize>,
}

#[derive(Default)]
struct Ends {
    newest: Option<usize>,
    oldest: Option<usize>,
}

impl FdCache {
    /// Keeps at most `most` files open, and at least one; files with I/O in flight are kept in any case.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        let (files, places) = (Slab::with_capacity(most), HashMap::with_capacity(most));
        Self { files, places, ends: Ends::default(), most }
    }

    /// The open file of `zone`.
    pub fn find(&mut self, zone: ZoneNo) -> Option<Fd> {
        let place = *self.places.get(&zone)?;
        self.unlink(place);
        self.link(place);
        Some(self.files[place].file.clone())
    }

    /// Adds the file of a zone that has none.
    pub fn insert(&mut self, zone: ZoneNo, file: Fd) {
        let place = self.files.insert(Open { zone, file, newer: None, older: None });
        let before = self.places.insert(zone, place);
        assert!(before.is_none(), "zone {zone} was opened twice");
        self.link(place);
    }

    /// Takes out the file that was not used for the longest time, if there are as many as there may be.
    pub fn evict(&mut self) -> Option<(ZoneNo, Fd)> {
        if self.files.len() < self.most {
            return None;
        }
        let mut candidate = self.ends.oldest;
        while let Some(place) = candidate
            && self.files[place].file.is_shared()
        {
            candidate = self.files[place].newer;
        }
        let place = candidate?;
        self.unlink(place);
        let Open { zone, file, .. } = self.files.remove(place);
        self.places.remove(&zone);
        Some((zone, file))
    }

    /// Files that are open.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    fn link(&mut self, place: usize) {
        let older = self.ends.newest.replace(place);
        match older {
            Some(older) => self.files[older].newer = Some(place),
            None => self.ends.oldest = Some(place),
        }
        (self.files[place].older, self.files[place].newer) = (older, None);
    }

    fn unlink(&mut self, place: usize) {
        let Open { newer, older, .. } = self.files[place];
        match newer {
            Some(newer) => self.files[newer].older = older,
            None => self.ends.newest = older,
        }
        match older {
            Some(older) => self.files[older].newer = newer,
            None => self.ends.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Fd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    fn evicted(cache: &mut FdCache) -> Option<u32> {
        cache.evict().map(|(zone, _)| zone.0)
    }

    #[test]
    fn the_file_that_was_not_used_for_the_longest_time_goes_first() {
        let mut cache = FdCache::new(3);
        for zone in 0..3 {
            assert_eq!(evicted(&mut cache), None);
            cache.insert(ZoneNo(zone), file());
        }
        assert!(cache.find(ZoneNo(0)).is_some());
        assert_eq!(evicted(&mut cache), Some(1));
        assert!(cache.find(ZoneNo(1)).is_none());
        cache.insert(ZoneNo(3), file());
        assert!(cache.find(ZoneNo(2)).is_some());
        assert_eq!(evicted(&mut cache), Some(0));
        cache.insert(ZoneNo(4), file());
        assert_eq!(evicted(&mut cache), Some(3));
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn a_file_in_use_stays_and_its_neighbour_goes() {
        let mut cache = FdCache::new(2);
        cache.insert(ZoneNo(0), file());
        cache.insert(ZoneNo(1), file());
        let (busy, _other) = (cache.find(ZoneNo(0)), cache.find(ZoneNo(1)));
        assert_eq!(evicted(&mut cache), None, "both are in use");
        drop(_other);
        assert_eq!(evicted(&mut cache), Some(1));
        drop(busy);
    }
}
