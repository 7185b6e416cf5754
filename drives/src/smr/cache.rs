//! Data that has come in and the medium does not have yet.
//!
//! Entries of a zone leave in the order in which they came, whatever the order among zones is: so a sequential zone loses
//! no more than its end when power fails, and of two writes to one place the later one wins.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::config::Cache;
use super::jobs::Command;
use shingle_core::block::{Bio, Data};
use shingle_core::sector::Sector;
use shingle_core::zone::ZoneNo;

/// A write in the cache.
pub(super) struct CachedWrite {
    pub start: Sector,
    pub sectors: u32,
    /// Its number among all commands.
    pub number: u64,
    /// Its zone was reset: where it goes no longer matters.
    pub void: bool,
    /// What was in its place, in a conventional zone.
    pub before: Option<Data>,
    /// The write itself, if it waits for the medium.
    pub waiter: Option<Box<Bio>>,
}

impl CachedWrite {
    /// What has not come in of a write.
    pub(super) fn rest_of(command: &Command) -> Self {
        let (rest, taken) = (command.rest(), command.taken as usize * 512);
        let before = command.before.as_ref().map(|before| before.slice(taken, before.len() - taken));
        let (sectors, number, void) = ((rest.end - rest.start) as u32, command.number, command.void);
        Self { start: rest.start, sectors, number, void, before, waiter: None }
    }

    pub(super) fn end(&self) -> Sector {
        self.start + u64::from(self.sectors)
    }
}

/// Entries by zone.
pub(super) struct DirtyCache {
    limits: Cache,
    zones: BTreeMap<ZoneNo, VecDeque<CachedWrite>>,
    /// Entries and bytes, those on their way in included.
    entries: u32,
    bytes: u64,
    /// Queues that were emptied, kept for their capacity.
    spare: Vec<VecDeque<CachedWrite>>,
}

impl DirtyCache {
    pub(super) fn new(limits: Cache) -> Self {
        Self { limits, zones: BTreeMap::new(), entries: 0, bytes: 0, spare: Vec::new() }
    }

    /// Takes room for `sectors`, if there is some.
    pub(super) fn reserve(&mut self, sectors: u32) -> bool {
        let bytes = u64::from(sectors) * 512;
        let fits = self.entries < self.limits.entries && self.bytes + bytes <= self.limits.bytes;
        if fits {
            self.entries += 1;
            self.bytes += bytes;
        }
        fits
    }

    /// Gives back room.
    pub(super) fn release(&mut self, sectors: u32) {
        self.entries -= 1;
        self.bytes -= u64::from(sectors) * 512;
    }

    /// Puts in a write for which there is room.
    pub(super) fn push(&mut self, zone: ZoneNo, entry: CachedWrite) {
        let spare = &mut self.spare;
        self.zones.entry(zone).or_insert_with(|| spare.pop().unwrap_or_default()).push_back(entry);
    }

    /// Takes out the first entry of `zone`, which is on the medium now; its room is free.
    pub(super) fn pop(&mut self, zone: ZoneNo) -> Option<CachedWrite> {
        let queue = self.zones.get_mut(&zone)?;
        let entry = queue.pop_front()?;
        if queue.is_empty() {
            self.spare.extend(self.zones.remove(&zone));
        }
        self.release(entry.sectors);
        Some(entry)
    }

    /// Number of zones with entries, and of those among `others` that have none: each command there is for another zone.
    pub(super) fn zones_with(&self, others: impl Iterator<Item = ZoneNo>) -> usize {
        self.zones.len() + others.filter(|zone| !self.zones.contains_key(zone)).count()
    }

    /// The next entry of `zone`.
    pub(super) fn front(&self, zone: ZoneNo) -> Option<&CachedWrite> {
        self.zones.get(&zone)?.front()
    }

    /// The entries of `zone`, in the order in which they leave.
    pub(super) fn of(&self, zone: ZoneNo) -> impl Iterator<Item = &CachedWrite> {
        self.zones.get(&zone).into_iter().flatten()
    }

    /// `zone` was reset: its entries are dropped, but for those that somebody waits for and the one that the head is at.
    pub(super) fn void(&mut self, zone: ZoneNo, at_head: bool) {
        let Some(queue) = self.zones.get_mut(&zone) else { return };
        let mut first = at_head;
        queue.retain_mut(|entry| {
            entry.void = true;
            let stays = core::mem::take(&mut first) || entry.waiter.is_some();
            if !stays {
                self.entries -= 1;
                self.bytes -= u64::from(entry.sectors) * 512;
            }
            stays
        });
        if queue.is_empty() {
            self.spare.extend(self.zones.remove(&zone));
        }
    }

    /// The zones with entries, and their next ones.
    pub(super) fn fronts(&self) -> impl Iterator<Item = (ZoneNo, &CachedWrite)> {
        self.zones.iter().filter_map(|(zone, queue)| Some((*zone, queue.front()?)))
    }

    /// All entries, by zone.
    pub(super) fn all(&self) -> impl Iterator<Item = &CachedWrite> {
        self.zones.values().flatten()
    }

    /// Whether nothing waits for the medium.
    pub(super) fn is_clean(&self) -> bool {
        self.zones.is_empty()
    }

    /// Bytes that wait for the medium, those on their way in included.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes everything out.
    pub(super) fn drain(&mut self) -> BTreeMap<ZoneNo, VecDeque<CachedWrite>> {
        (self.entries, self.bytes) = (0, 0);
        core::mem::take(&mut self.zones)
    }
}
