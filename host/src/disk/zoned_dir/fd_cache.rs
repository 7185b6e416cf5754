//! Open zone files, the most recently used ones.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use shingle_core::zone::ZoneNo;
use shingle_sys::Fd;
use slab::Slab;

use crate::disk::file_budget::FileBudget;

/// A list in order of use, linked by places in a slab.
pub(super) struct FdCache {
    files: Slab<Open>,
    places: HashMap<ZoneNo, usize>,
    ends: Ends,
    most: usize,
    budget: &'static FileBudget,
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
    /// Keeps at most `most` files open, and fewer while those of all disks use up `budget`, but at least one; files with I/O in flight are kept in any
    /// case.
    pub fn new(most: usize, budget: &'static FileBudget) -> Self {
        let most = most.max(1);
        let (files, places) = (Slab::with_capacity(most), HashMap::with_capacity(most));
        Self { files, places, ends: Ends::default(), most, budget }
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
        self.budget.add();
    }

    /// Takes out the file that was not used for the longest time, if there are as many as there may be.
    pub fn evict(&mut self) -> Option<(ZoneNo, Fd)> {
        if self.files.len() < self.most && !self.budget.is_used_up() { None } else { self.evict_oldest() }
    }

    /// Takes out the file that was not used for the longest time, unless all are in use.
    pub fn evict_oldest(&mut self) -> Option<(ZoneNo, Fd)> {
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
        self.budget.subtract(1);
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

impl Drop for FdCache {
    fn drop(&mut self) {
        self.budget.subtract(self.files.len());
        let files: Vec<OwnedFd> = self.files.drain().filter_map(|open| open.file.into_owned().ok()).collect();
        if files.is_empty() {
            return;
        }
        // FUSE and NFS ask their server when a file is closed, and it may never answer.
        let (is_closed, closed) = mpsc::channel();
        let close = move || {
            drop(files);
            drop(is_closed);
        };
        if thread::Builder::new().name("shingle-close".into()).spawn(close).is_ok() {
            let _: Result<(), _> = closed.recv_timeout(PATIENCE);
        }
    }
}

/// How long the end of a disk waits until its files are closed.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Fd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    fn budget(most: usize) -> &'static FileBudget {
        Box::leak(Box::new(FileBudget::new(most)))
    }

    #[test]
    fn disks_share_one_budget_and_each_keeps_a_file() {
        let budget = budget(3);
        let [mut one, mut other] = [(); 2].map(|()| FdCache::new(100, budget));
        for zone in 0..3 {
            assert_eq!(evicted(&mut one), None);
            one.insert(ZoneNo(zone), file());
        }
        // The other disk has nothing to close: it opens one file, and then closes its own.
        assert_eq!(evicted(&mut other), None);
        other.insert(ZoneNo(0), file());
        assert_eq!(evicted(&mut other), Some(0));
        other.insert(ZoneNo(1), file());
        assert_eq!((evicted(&mut one), evicted(&mut one)), (Some(0), Some(1)));
        assert_eq!(evicted(&mut one), None, "there is room again");
        drop(one);
        assert_eq!(evicted(&mut other), None);
    }

    fn evicted(cache: &mut FdCache) -> Option<u32> {
        cache.evict().map(|(zone, _)| zone.0)
    }

    #[test]
    fn the_file_that_was_not_used_for_the_longest_time_goes_first() {
        let mut cache = FdCache::new(3, budget(100));
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
        let mut cache = FdCache::new(2, budget(100));
        cache.insert(ZoneNo(0), file());
        cache.insert(ZoneNo(1), file());
        let (busy, _other) = (cache.find(ZoneNo(0)), cache.find(ZoneNo(1)));
        assert_eq!(evicted(&mut cache), None, "both are in use");
        drop(_other);
        assert_eq!(evicted(&mut cache), Some(1));
        drop(busy);
    }
}
