//! Every zone of the set, from one opening to the next.
//!
//! ```text
//!   free ── open ──> open ── full ──> full ── nothing in it is live ──> done with ── root covers it, no reader ──> reset ── next root ──> free
//! ```
//!
//! A start finds out where something was written since the root: by its pointer in most zones. Into those without a pointer it has to look, so
//! a root names a few of them that may be opened, and leaves the others alone. It also names some with a pointer, so that a start knows what it misses if a
//! zone is gone: the one that the lane of users gets next, and a few for users beside that lane, who may write to several zones at once.

use alloc::collections::BTreeSet;

use core::ops::Range;

use super::stream::{Stream, pool_of};
use crate::dm::stl::format::{ZoneRow, ZoneUse};
use crate::dm::stl::replay::Since;
use crate::dm::stl::{BatchNo, CopyNo, Generation, ZoneIndex};
use crate::prelude::*;

named_enum! {
    /// Who opens a zone. The earlier ones may take what the later ones may not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Pool {
        /// Recovery, and roots.
        Recovery = 0 => "recovery",
        /// The map and its tables.
        Map = 1 => "map",
        /// Survivors of cleaning.
        Cleaning = 2 => "cleaning",
        /// Users.
        Users = 3 => "users",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

/// What only a running volume knows of a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// The newest batches in it.
    user: BatchNo,
    copy: CopyNo,
    /// Reads that are under way.
    readers: u32,
    /// Blocks of it that a root, or the next one, says are parts of the map.
    map_blocks: u32,
    /// The block behind the last batch of it that is known to be written.
    arrived: u32,
    /// Times that it could not be reset.
    failed_resets: u32,
    /// It was tried too often, and is not any more.
    is_given_up: bool,
    /// Nothing in it is live, for good.
    is_done_with: bool,
    /// Something in it cannot be read: it is not cleaned.
    is_spoilt: bool,
}

/// What is in a zone of a device that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// What can be moved: blocks of data, as far as is known.
    Data(u32),
    /// So many blocks of the map.
    Map(u32),
    /// What cannot be read.
    Spoilt,
    /// Nothing that is live: it waits to be reset.
    Reset,
    /// The same, and somebody reads it.
    Read,
}

impl Life {
    /// What is in a zone; none of one that stays as it is.
    fn rest(&self, row: &ZoneRow) -> Option<Rest> {
        let is_dead = row.used_for == ZoneUse::Dead;
        match () {
            () if self.is_given_up => None,
            () if self.is_done_with && self.readers > 0 => Some(Rest::Read),
            () if self.is_done_with => Some(Rest::Reset),
            () if self.is_spoilt => Some(Rest::Spoilt),
            () if row.stream != Stream::Map as u8 => Some(Rest::Data(row.live)),
            () if self.map_blocks > 0 => Some(Rest::Map(self.map_blocks)),
            () if is_dead => None,
            () => Some(Rest::Reset),
        }
    }
}

/// Zones that are kept for those with more right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// For a start after a crash.
    pub recovery: usize,
    /// For the map, with those that it has.
    pub map: usize,
    /// Those of them that the map may fill before it gets others back.
    pub cycle: usize,
    /// For survivors of cleaning.
    pub cleaning: usize,
}

/// A wish for a zone.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// With whose right.
    pub pool: Pool,
    /// Out of whose share of the zones that may be opened now.
    pub share: Pool,
    /// What is to be written to it.
    pub stream: Stream,
    /// The zone behind which it would be best, which is a short way for a head; the last one of its pool if there is none.
    pub behind: Option<ZoneIndex>,
    /// Where.
    pub place: Place<'a>,
}

/// Where a zone is opened.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// Anywhere, and here if that can be.
    Preferred(&'a [Range<ZoneIndex>]),
    /// The one that the root names as the next of users, while it is free, and then as that.
    Next(&'a [Range<ZoneIndex>]),
    /// Among these, with a pointer or without, and only if a durable root names it.
    Named(&'a Range<ZoneIndex>, bool),
}

/// All zones of a set.
#[derive(Clone, Debug)]
pub struct Zones {
    rows: Vec<ZoneRow>,
    /// Those of zones that are not free or unused.
    lives: Vec<Option<Life>>,
    /// How many are done with, and will be free.
    done_with: usize,
    /// Those that tell how far they are written.
    has_pointer: Vec<bool>,
    /// Those that are never opened again: their device leaves.
    barred: Vec<bool>,
    /// Those that are opened before all others, if there are any: their device is to leave, and others make room for what is on it.
    lent: Vec<bool>,
    /// May be opened: the newest durable root says so.
    free: BTreeSet<ZoneIndex>,
    /// May be opened, but for their disk, which refuses writes for now.
    aside: BTreeSet<ZoneIndex>,
    /// Were reset since: the next root says that they may be opened.
    next: BTreeSet<ZoneIndex>,
    /// Free ones without a pointer that no root names: a later one says that they may be opened.
    unnamed: BTreeSet<ZoneIndex>,
    /// Free ones with a pointer that the newest durable root names.
    promised: BTreeSet<ZoneIndex>,
    /// The free one that the lane of users gets next, as the newest root says, or the one that is being made.
    next_of_users: Option<ZoneIndex>,
    /// Those on a device that is faster than the others; how many of them may be opened now, and after a root that names them.
    is_front: Vec<bool>,
    front_free: usize,
    front_unnamed: usize,
    keep: Keep,
    /// Zones that are open or full and not done with, by who opened them.
    held: [usize; Pool::ALL.len()],
    /// The zone that each opened last.
    last_opened: [ZoneIndex; Pool::ALL.len()],
    /// What was counted since a recount began.
    recount: Option<Vec<i64>>,
}

impl Zones {
    /// The zones of these rows.
    #[must_use]
    pub fn new(rows: Vec<ZoneRow>, keep: Keep) -> Self {
        let all = || (0..).map(ZoneIndex).zip(&rows);
        let of = |used_for| all().filter(move |(_, row)| row.used_for == used_for).map(|(zone, _)| zone);
        let (mut lives, mut held) = (vec![None; rows.len()], [0; Pool::ALL.len()]);
        for zone in of(ZoneUse::Open).chain(of(ZoneUse::Full)) {
            lives[zone.0 as usize] = Some(Life::default());
            hold(&mut held, &rows[zone.0 as usize], 1);
        }
        let free = of(ZoneUse::Free).collect();
        let [next, unnamed] = [BTreeSet::new(), BTreeSet::new()];
        let (has_pointer, barred, lent) = (vec![true; rows.len()], vec![false; rows.len()], Vec::new());
        let (done_with, last_opened) = (0, [ZoneIndex(0); Pool::ALL.len()]);
        let (promised, is_front) = (BTreeSet::new(), vec![false; rows.len()]);
        Self {
            has_pointer,
            barred,
            lent,
            free,
            aside: BTreeSet::new(),
            next,
            unnamed,
            promised,
            next_of_users: None,
            is_front,
            front_free: 0,
            front_unnamed: 0,
            lives,
            done_with,
            keep,
            held,
            rows,
            last_opened,
            recount: None,
        }
    }

    /// The same, where those of these devices are faster than the others.
    #[must_use]
    pub fn with_fronts(mut self, fronts: &[Range<ZoneIndex>]) -> Self {
        for zone in fronts.iter().flat_map(|zones| zones.start.0..zones.end.0) {
            self.is_front[zone as usize] = true;
        }
        (self.front_free, self.front_unnamed) = (self.count_fronts(&self.free), self.count_fronts(&self.unnamed));
        self
    }

    /// Number of these zones that are on a device faster than the others.
    fn count_fronts(&self, zones: &BTreeSet<ZoneIndex>) -> usize {
        zones.iter().filter(|zone| self.is_front[zone.0 as usize]).count()
    }

    /// Zones of devices that are faster than the others which may be opened, now or after a root that names them, without those that the map
    /// may still need.
    #[must_use]
    pub fn front_left(&self) -> usize {
        let of_map = self.keep.map.saturating_sub(self.held(Pool::Map));
        (self.front_free + self.front_unnamed).saturating_sub(of_map)
    }

    /// The same, where some have no pointer and a root names these.
    #[must_use]
    pub fn with_pointers(mut self, has_pointer: Vec<bool>, named: &BTreeSet<ZoneIndex>) -> Self {
        self.has_pointer = has_pointer;
        let may_be_opened = |zone: &ZoneIndex| self.has_pointer[zone.0 as usize] || named.contains(zone);
        (self.free, self.unnamed) = self.free.iter().copied().partition(may_be_opened);
        self
    }

    /// A zone is never opened again. Whether something may be in it that nobody has looked at: it is one that cannot be written.
    pub fn bar(&mut self, zone: ZoneIndex) -> bool {
        let place = zone.0 as usize;
        if self.rows[place].used_for == ZoneUse::Full {
            self.hold(zone, -1);
        }
        self.barred[place] = true;
        self.withdraw(zone);
        let ZoneRow { used_for, stream, .. } = self.rows[place];
        let is_stranded = used_for == ZoneUse::Dead && pool_of(stream).is_some();
        if is_stranded {
            self.lives[place] = Some(Life::default());
        }
        is_stranded
    }

    /// These zones are opened before all others.
    pub fn lend(&mut self, zones: impl Iterator<Item = ZoneIndex>) {
        self.lent = vec![false; self.rows.len()];
        zones.for_each(|zone| self.lent[zone.0 as usize] = true);
    }

    /// Whether a zone is opened before all others.
    #[must_use]
    pub fn is_lent(&self, zone: ZoneIndex) -> bool {
        self.lent.get(zone.0 as usize).is_some_and(|is_lent| *is_lent)
    }

    /// Of zones that are not opened before all others how many are free, and what is in full ones.
    pub fn not_lent(&self) -> (usize, impl Iterator<Item = Rest>) {
        let free = self.free.iter().chain(&self.next).chain(&self.unnamed).filter(|zone| !self.is_lent(**zone));
        let full = self.in_use().filter(|(zone, row, _)| !self.is_lent(*zone) && row.used_for == ZoneUse::Full);
        (free.count(), full.filter_map(|(_, row, life)| life.rest(row)))
    }

    /// Zones that are never opened again and are not empty, and what is in them.
    pub fn barred_in_use(&self) -> impl Iterator<Item = Rest> {
        let barred = self.in_use().filter(|(zone, ..)| self.barred[zone.0 as usize]);
        barred.filter_map(|(_, row, life)| life.rest(row))
    }

    /// Zones of data that are never opened again and cannot be written, with something in them.
    pub fn stranded(&self) -> impl Iterator<Item = (ZoneIndex, &ZoneRow)> {
        let is_stranded =
            |zone: ZoneIndex, row: &ZoneRow| self.barred[zone.0 as usize] && row.used_for == ZoneUse::Dead;
        let zones = self.in_use().filter(move |(zone, row, life)| {
            is_stranded(*zone, row) && row.stream != Stream::Map as u8 && !life.is_done_with
        });
        zones.map(|(zone, row, _)| (zone, row))
    }

    /// What a root says of them: those that were reset may be opened once it is durable.
    #[must_use]
    pub fn rows(&self) -> &[ZoneRow] {
        &self.rows
    }

    /// How many may be opened by these, now or after a root that names them.
    #[must_use]
    pub fn free(&self, pool: Pool) -> usize {
        let Keep { recovery, map, cycle, cleaning } = self.keep;
        let of_map = recovery + map.saturating_sub(self.held(Pool::Map)).max(cycle);
        let left = match pool {
            Pool::Recovery => 0,
            Pool::Map => recovery,
            Pool::Cleaning => of_map,
            Pool::Users => of_map + cleaning,
        };
        (self.free.len() + self.unnamed.len()).saturating_sub(left)
    }

    /// Zones that may be opened now and are none of the share of these: a start, a checkpoint, cleaning.
    fn not_for(&self, share: Pool) -> usize {
        let Keep { recovery, cleaning, .. } = self.keep;
        match share {
            // Whatever is free may be opened.
            _ if self.unnamed.is_empty() => 0,
            Pool::Recovery => 0,
            Pool::Map => recovery,
            Pool::Cleaning => 2 * recovery,
            Pool::Users => 2 * recovery + cleaning,
        }
    }

    /// Zones that are open or full and not done with, by who opened them.
    #[must_use]
    pub fn held(&self, pool: Pool) -> usize {
        self.held[pool as usize]
    }

    /// What is kept for whom.
    #[must_use]
    pub fn kept(&self) -> Keep {
        self.keep
    }

    /// Opens a zone.
    pub fn open(&mut self, wish: &Opening<'_>) -> Option<(ZoneIndex, Generation)> {
        if self.free(wish.pool) == 0 || self.free.len() <= self.not_for(wish.share) {
            return None;
        }
        let zone = self.find(wish)?;
        self.take_free(zone);
        let generation = self.rows[zone.0 as usize].generation + 1;
        self.rows[zone.0 as usize] =
            ZoneRow { generation, used_for: ZoneUse::Open, stream: wish.stream as u8, ..ZoneRow::default() };
        self.hold(zone, 1);
        self.lives[zone.0 as usize] = Some(Life::default());
        self.last_opened[wish.stream.pool() as usize] = zone;
        Some((zone, generation))
    }

    /// A free zone that fits: the next one behind the last one. Data is written faster in order, and the map is small: it gets zones without a
    /// pointer while there are some. Those that a root names for others are taken last.
    fn find(&self, wish: &Opening<'_>) -> Option<ZoneIndex> {
        let has_pointer = |zone: &ZoneIndex| self.has_pointer[zone.0 as usize];
        let behind = wish.behind.unwrap_or(self.last_opened[wish.stream.pool() as usize]);
        let is_let = |zone: &ZoneIndex| self.lent.is_empty() || self.is_lent(*zone);
        match wish.place {
            Place::Named(zones, has_to_point) => self.behind(behind, zones).find(|zone| {
                let is_named = if has_to_point { self.promised.contains(zone) } else { !has_pointer(zone) };
                is_named && is_let(zone)
            }),
            Place::Next(_) if self.has_next() => self.next_of_users,
            Place::Preferred(zones) | Place::Next(zones) => {
                let is_data = wish.stream != Stream::Map;
                let fits = |zone: &ZoneIndex| has_pointer(zone) == is_data;
                let all = ZoneIndex(0)..ZoneIndex(self.rows.len() as u32);
                let best =
                    |zones| self.behind(behind, zones).find(|zone| fits(zone) && !self.is_named_for_users(*zone));
                let good = |zones| self.behind(behind, zones).find(fits);
                let any = |zones: &Range<ZoneIndex>| {
                    let mut free = self.free.range(zones.clone()).copied();
                    free.clone().find(|zone| !self.is_named_for_users(*zone)).or_else(|| free.next())
                };
                let of = |zones| best(zones).or_else(|| good(zones)).or_else(|| any(zones));
                let lent = if self.lent.is_empty() { None } else { self.free.iter().find(|zone| self.is_lent(**zone)) };
                lent.copied().or_else(|| zones.iter().find_map(of)).or_else(|| of(&all))
            }
        }
    }

    /// Whether the zone that users get next is still free.
    fn has_next(&self) -> bool {
        self.next_of_users.is_some_and(|zone| self.free.contains(&zone))
    }

    fn is_named_for_users(&self, zone: ZoneIndex) -> bool {
        self.promised.contains(&zone) || self.next_of_users == Some(zone)
    }

    /// Free zones of these from one on, and then from the first.
    fn behind(&self, last: ZoneIndex, zones: &Range<ZoneIndex>) -> impl Iterator<Item = ZoneIndex> {
        let last = last.clamp(zones.start, zones.end);
        self.free.range(last..zones.end).chain(self.free.range(zones.start..last)).copied()
    }

    /// A zone is free no more.
    fn take_free(&mut self, zone: ZoneIndex) {
        if self.free.remove(&zone) {
            self.promised.remove(&zone);
            self.front_free -= usize::from(self.is_front[zone.0 as usize]);
        }
    }

    /// A zone will not be opened any more.
    fn withdraw(&mut self, zone: ZoneIndex) {
        self.take_free(zone);
        self.aside.remove(&zone);
        self.next.remove(&zone);
        if self.unnamed.remove(&zone) {
            self.front_unnamed -= usize::from(self.is_front[zone.0 as usize]);
        }
    }

    /// Free zones of a disk that refuses writes are not opened for now.
    pub fn set_aside(&mut self, zones: Range<ZoneIndex>) {
        let aside: BTreeSet<ZoneIndex> = self.free.range(zones).copied().collect();
        self.front_free -= self.count_fronts(&aside);
        self.free.retain(|zone| !aside.contains(zone));
        self.aside.extend(aside);
    }

    /// All that were set aside may be opened again.
    pub fn take_back(&mut self) {
        let aside = core::mem::take(&mut self.aside);
        self.front_free += self.count_fronts(&aside);
        self.free.extend(aside);
    }

    /// True if some are set aside.
    #[must_use]
    pub fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// The block behind the last batch of a zone that is known to be written.
    #[must_use]
    pub fn landed(&self, zone: ZoneIndex) -> u32 {
        self.lives[zone.0 as usize].as_ref().map_or(0, |life| life.arrived)
    }

    /// Notes that a zone has batches up to these, or lost its last live block when these were the newest.
    pub fn note(&mut self, zone: ZoneIndex, user: BatchNo, copy: CopyNo) {
        if let Some(life) = self.lives[zone.0 as usize].as_mut() {
            (life.user, life.copy) = (life.user.max(user), life.copy.max(copy));
        }
    }

    /// What was found of batches behind these counts for nothing.
    pub fn forget_behind(&mut self, user: BatchNo, copy: CopyNo) {
        for life in self.lives.iter_mut().flatten() {
            (life.user, life.copy) = (life.user.min(user), life.copy.min(copy));
        }
    }

    /// An open zone takes no more. `written`: its batches end there. `closed_at`: blocks that the volume has written.
    pub fn fill(&mut self, zone: ZoneIndex, written: u32, closed_at: u64) {
        let row = &mut self.rows[zone.0 as usize];
        (row.used_for, row.written, row.closed_at) = (ZoneUse::Full, written, closed_at);
    }

    /// The batches of a zone end there, or before, but behind those that have arrived: a disk may say of one that it failed, and
    /// take the next.
    pub fn end_at(&mut self, zone: ZoneIndex, written: u32) {
        let arrived = self.lives[zone.0 as usize].as_ref().map_or(0, |life| life.arrived);
        let row = &mut self.rows[zone.0 as usize];
        row.written = row.written.min(written).max(arrived);
    }

    /// A batch of a zone is written, which ends there.
    pub fn arrived(&mut self, zone: ZoneIndex, end: u32) {
        let row = &mut self.rows[zone.0 as usize];
        if let Some(life) = self.lives[zone.0 as usize].as_mut() {
            life.arrived = life.arrived.max(end);
            let is_open = row.used_for == ZoneUse::Open;
            row.written = if is_open { row.written } else { row.written.max(end) };
        }
    }

    /// The batches of a zone end there.
    pub fn set_written(&mut self, zone: ZoneIndex, written: u32) {
        self.rows[zone.0 as usize].written = written;
    }

    /// A zone can never be written again. What is live in it stays there.
    pub fn die(&mut self, zone: ZoneIndex) {
        let place = zone.0 as usize;
        match &self.lives[place] {
            Some(life) if life.is_done_with => {
                let is_counted = !life.is_given_up;
                self.lives[place] = None;
                self.count_done_with(zone, -isize::from(is_counted));
            }
            Some(_) if self.rows[place].used_for != ZoneUse::Dead => self.hold(zone, -1),
            _ => {}
        }
        self.rows[place].used_for = ZoneUse::Dead;
        self.withdraw(zone);
    }

    /// A zone that no root knows turns out to be in use.
    pub fn adopt(&mut self, zone: ZoneIndex, generation: Generation, stream: Stream, written: u32) {
        self.take_free(zone);
        let row = ZoneRow { generation, used_for: ZoneUse::Full, stream: stream as u8, written, ..ZoneRow::default() };
        self.rows[zone.0 as usize] = row;
        hold(&mut self.held, &row, 1);
        self.lives[zone.0 as usize] = Some(Life::default());
    }

    /// What is in a free zone has this generation: the next has a higher one.
    pub fn outgrow(&mut self, zone: ZoneIndex, generation: Generation) {
        let row = &mut self.rows[zone.0 as usize];
        if row.used_for == ZoneUse::Free {
            row.generation = row.generation.max(generation);
        }
    }

    /// Counts blocks of a zone that are parts of the map, or are not any more.
    pub fn count_map(&mut self, zone: ZoneIndex, more: i64) {
        if let Some(life) = self.lives[zone.0 as usize].as_mut() {
            life.map_blocks = (i64::from(life.map_blocks) + more).max(0) as u32;
        }
    }

    /// Full zones of the map that have nothing of it any more are done with.
    pub fn settle_map(&mut self) {
        let settled: Vec<ZoneIndex> = self.settled_map().collect();
        settled.into_iter().for_each(|zone| self.be_done_with(zone));
    }

    /// Those of them that can be opened once they were reset, and then have nothing in them: they have a pointer, and their device stays.
    pub fn without_map(&self) -> Vec<ZoneIndex> {
        let is_usable = |zone: &ZoneIndex| self.has_pointer[zone.0 as usize] && !self.barred[zone.0 as usize];
        self.settled_map().filter(is_usable).collect()
    }

    fn settled_map(&self) -> impl Iterator<Item = ZoneIndex> {
        let is_settled = |(_, row, life): &(ZoneIndex, &ZoneRow, &Life)| {
            let is_of_map = row.used_for == ZoneUse::Full && row.stream == Stream::Map as u8;
            is_of_map && life.map_blocks == 0 && !life.is_done_with
        };
        self.in_use().filter(is_settled).map(|(zone, ..)| zone)
    }

    /// Counts a zone, or does not any more. Those of devices that leave are nobody's.
    fn hold(&mut self, zone: ZoneIndex, more: isize) {
        if !self.barred[zone.0 as usize] {
            hold(&mut self.held, &self.rows[zone.0 as usize], more);
        }
    }

    fn count_done_with(&mut self, zone: ZoneIndex, more: isize) {
        if !self.barred[zone.0 as usize] {
            self.done_with = self.done_with.saturating_add_signed(more);
        }
    }

    fn in_use(&self) -> impl Iterator<Item = (ZoneIndex, &ZoneRow, &Life)> {
        let all = (0..).map(ZoneIndex).zip(&self.rows).zip(&self.lives);
        all.filter_map(|((zone, row), life)| Some((zone, row, life.as_ref()?)))
    }

    /// Full zones of these streams that still have something in them.
    pub fn full(&self, pools: &[Pool]) -> impl Iterator<Item = (ZoneIndex, &ZoneRow)> {
        let of = move |row: &ZoneRow| {
            row.used_for == ZoneUse::Full && pool_of(row.stream).is_some_and(|pool| pools.contains(&pool))
        };
        self.in_use().filter(move |(_, row, life)| !life.is_done_with && of(row)).map(|(zone, row, _)| (zone, row))
    }

    /// Whether something live in a zone cannot be read.
    #[must_use]
    pub fn is_spoilt(&self, zone: ZoneIndex) -> bool {
        self.lives[zone.0 as usize].as_ref().is_some_and(|life| life.is_spoilt)
    }

    /// The newest batch of users in a zone.
    #[must_use]
    pub fn newest(&self, zone: ZoneIndex) -> BatchNo {
        self.lives[zone.0 as usize].as_ref().map_or(BatchNo(0), |life| life.user)
    }

    /// Whether a map with this cut has all batches of a zone.
    #[must_use]
    pub fn is_covered(&self, zone: ZoneIndex, cut: BatchNo, copies: CopyNo) -> bool {
        self.lives[zone.0 as usize].as_ref().is_some_and(|life| life.user <= cut && life.copy <= copies)
    }

    /// Zones with batches that a root with this cut does not cover.
    pub fn beyond(&self, cut: BatchNo, copies: CopyNo) -> impl Iterator<Item = (ZoneIndex, &ZoneRow)> {
        let is_beyond = move |life: &Life| life.user > cut || life.copy > copies;
        let zones = self.in_use().filter(move |(_, row, life)| row.used_for == ZoneUse::Open || is_beyond(life));
        zones.map(|(zone, row, _)| (zone, row))
    }

    /// Zones that are to be given back: nothing in them is live, and a root may say so. Not those that are never opened again.
    #[must_use]
    pub fn done_with(&self) -> usize {
        self.done_with
    }

    /// Zones that were reset and wait for a root.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.next.len()
    }

    /// Says what to keep for whom.
    pub fn keep(&mut self, keep: Keep) {
        self.keep = keep;
    }

    /// Free zones of which nothing is known but their row.
    pub fn all_free(&self) -> impl Iterator<Item = ZoneIndex> {
        self.free.iter().copied()
    }

    /// Counts live blocks of a zone.
    pub fn count(&mut self, zone: ZoneIndex, more: i64) {
        let live = &mut self.rows[zone.0 as usize].live;
        *live = (i64::from(*live) + more).clamp(0, u32::MAX.into()) as u32;
        if let Some(since) = &mut self.recount {
            since[zone.0 as usize] += more;
        }
    }

    /// Live blocks are counted anew from now on.
    pub fn begin_recount(&mut self) {
        self.recount = Some(vec![0; self.rows.len()]);
    }

    /// That was counted; what has changed since it began is added.
    pub fn end_recount(&mut self, live: &[u32]) {
        let Some(since) = self.recount.take() else { return };
        for ((row, live), since) in self.rows.iter_mut().zip(live).zip(since) {
            row.live = (i64::from(*live) + since).clamp(0, u32::MAX.into()) as u32;
        }
    }

    /// Blocks of a zone that are parts of the map.
    #[must_use]
    pub fn map_blocks(&self, zone: ZoneIndex) -> u32 {
        self.lives[zone.0 as usize].as_ref().map_or(0, |life| life.map_blocks)
    }

    /// Nothing in a full zone is live, and never will be.
    pub fn be_done_with(&mut self, zone: ZoneIndex) {
        if let Some(life) = self.lives[zone.0 as usize].as_mut().filter(|life| !life.is_done_with) {
            life.is_done_with = true;
            // One that died is not held any more.
            if self.rows[zone.0 as usize].used_for != ZoneUse::Dead {
                self.hold(zone, -1);
            }
            self.count_done_with(zone, 1);
        }
    }

    /// Something live in a zone cannot be read: it is not cleaned, and stays until nothing in it is live.
    pub fn spoil(&mut self, zone: ZoneIndex) {
        if let Some(life) = self.lives[zone.0 as usize].as_mut() {
            life.is_spoilt = true;
        }
    }

    /// A read of a zone begins.
    pub fn pin(&mut self, zone: ZoneIndex) {
        if let Some(life) = self.lives[zone.0 as usize].as_mut() {
            life.readers += 1;
        }
    }

    /// A read of a zone has ended. Whether that zone is done with, and nobody else reads it.
    pub fn unpin(&mut self, zone: ZoneIndex) -> bool {
        let Some(life) = self.lives[zone.0 as usize].as_mut() else { return false };
        life.readers -= 1;
        life.readers == 0 && life.is_done_with
    }

    /// Zones that may be reset now that a root is durable: nothing in them is live, nobody reads them, and the root knows all that
    /// their batches say.
    pub fn to_reset(&self, root: &Since) -> impl Iterator<Item = ZoneIndex> {
        let is_covered = |life: &Life| life.user <= root.cut && life.copy <= root.copies;
        let is_wanted = |life: &Life| life.is_done_with && !life.is_given_up;
        let ready = move |life: &Life| is_wanted(life) && life.readers == 0 && is_covered(life);
        self.in_use().filter(move |(_, _, life)| ready(life)).map(|(zone, _, _)| zone)
    }

    /// A zone that is done with could not be reset. After `most` times nobody counts on it before the next start.
    pub fn reset_failed(&mut self, zone: ZoneIndex, most: u32) {
        if let Some(life) = self.lives[zone.0 as usize].as_mut() {
            life.failed_resets += 1;
            if life.failed_resets == most {
                life.is_given_up = true;
                self.count_done_with(zone, -1);
            }
        }
    }

    /// A zone was reset.
    pub fn was_reset(&mut self, zone: ZoneIndex) {
        match self.lives[zone.0 as usize].take() {
            Some(life) if life.is_done_with => self.count_done_with(zone, -1),
            Some(_) => self.hold(zone, -1),
            None => {}
        }
        let row = &mut self.rows[zone.0 as usize];
        *row = ZoneRow { generation: row.generation, ..ZoneRow::default() };
        if self.barred[zone.0 as usize] {
            return;
        }
        if self.has_pointer[zone.0 as usize] {
            self.next.insert(zone);
        } else if self.unnamed.insert(zone) {
            self.front_unnamed += usize::from(self.is_front[zone.0 as usize]);
        }
    }

    /// Those that the root says may be opened which was made with these rows, and is durable.
    pub fn root_is_durable(&mut self, granted: BTreeSet<ZoneIndex>) {
        self.next.retain(|zone| !granted.contains(zone));
        for zone in granted {
            let is_front = usize::from(self.is_front[zone.0 as usize]);
            if self.unnamed.remove(&zone) {
                self.front_unnamed -= is_front;
            }
            if self.free.insert(zone) {
                self.front_free += is_front;
            }
        }
    }

    /// Free zones with a pointer among these that the root names which is made now, and so many with those that it named before.
    #[must_use]
    pub fn to_promise(&self, zones: &Range<ZoneIndex>, most: usize) -> BTreeSet<ZoneIndex> {
        let has = self.promised.range(zones.clone()).copied();
        let more = self.free.range(zones.clone()).copied().filter(|zone| self.has_pointer[zone.0 as usize]);
        let more = more.filter(|zone| !self.is_named_for_users(*zone));
        has.chain(more).take(most).collect()
    }

    /// The zone that the lane of users gets next from now on, which the root names that is made now: a free one with a pointer, or one that this root
    /// says may be opened. A start that finds nothing in it knows that users were not anywhere else.
    pub fn name_next(&mut self, places: &[Range<ZoneIndex>], granted: &BTreeSet<ZoneIndex>) -> Option<ZoneIndex> {
        if !self.has_next() {
            let (pool, stream) = (Pool::Users, Stream::Users);
            let wish = Opening { pool, share: pool, stream, behind: None, place: Place::Preferred(places) };
            let can_be = |zone: &ZoneIndex| self.has_pointer[zone.0 as usize] && !self.promised.contains(zone);
            self.next_of_users = self.find(&wish).into_iter().chain(granted.iter().copied()).find(can_be);
        }
        self.next_of_users
    }

    /// Those that the root names which is durable now, unless they were opened meanwhile.
    pub fn are_promised(&mut self, zones: &BTreeSet<ZoneIndex>) {
        self.promised = zones.iter().copied().filter(|zone| self.free.contains(zone)).collect();
    }

    /// Those that a root says may be opened that is made now, and that no earlier one did. `most_named`: how many it names of those without a
    /// pointer, beside those that it takes to write the next.
    #[must_use]
    pub fn to_grant(&self, most_named: usize) -> BTreeSet<ZoneIndex> {
        let is_front = |zone: &&ZoneIndex| self.is_front[zone.0 as usize];
        let (front, more) = (self.unnamed.iter().filter(is_front), self.unnamed.iter().filter(|it| !is_front(it)));
        let front = front.take(MOST_FRONT.saturating_sub(self.front_free));
        let (lent, own): (Vec<ZoneIndex>, Vec<_>) = more.partition(|zone| self.is_lent(**zone));
        let more = own.iter().chain(&lent).take(self.more_named(most_named));
        self.next.iter().chain(front).chain(more).copied().collect()
    }

    /// Whether there are any.
    #[must_use]
    pub fn has_grants(&self, most_named: usize) -> bool {
        let is_front = |zone: &ZoneIndex| self.is_front[zone.0 as usize];
        let has_front = self.front_free < MOST_FRONT && self.unnamed.iter().any(is_front);
        let has_more = || self.more_named(most_named) > 0 && !self.unnamed.iter().all(is_front);
        !self.next.is_empty() || has_front || has_more()
    }

    fn more_named(&self, most_named: usize) -> usize {
        let most = 2 * self.keep.recovery + self.keep.cleaning + most_named;
        let is_back = |zone: &&ZoneIndex| !self.is_front[zone.0 as usize] && !self.is_lent(**zone);
        most.saturating_sub(self.without_pointer(&self.free).filter(is_back).count())
    }

    /// Free zones without a write pointer, all of which a root has to name. Zones of a disk that refuses writes are included: they can be opened as
    /// soon as the disk takes writes again, before the next root is written.
    pub fn named(&self) -> impl Iterator<Item = ZoneIndex> {
        self.without_pointer(&self.free).chain(self.without_pointer(&self.aside)).copied()
    }

    fn without_pointer<'a>(&'a self, zones: &'a BTreeSet<ZoneIndex>) -> impl Iterator<Item = &'a ZoneIndex> {
        zones.iter().filter(|zone| !self.has_pointer[zone.0 as usize])
    }
}

/// Free zones without a pointer of devices that are faster than the others which a root names at most: to look into one is quick there.
const MOST_FRONT: usize = 64;

fn hold(held: &mut [usize; Pool::ALL.len()], row: &ZoneRow, more: isize) {
    if let Some(pool) = pool_of(row.stream) {
        let count = &mut held[pool as usize];
        *count = count.saturating_add_signed(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Since = Since { epoch: crate::dm::stl::Epoch(1), cut: BatchNo(5), copies: CopyNo(3) };

    fn zones(free: usize) -> Zones {
        Zones::new(vec![ZoneRow::default(); free], Keep { recovery: 1, map: 1, cycle: 0, cleaning: 1 })
    }

    const ANYWHERE: Place<'_> = Place::Preferred(&[]);

    fn open_with(zones: &mut Zones, pool: Pool, share: Pool, stream: Stream) -> Option<(ZoneIndex, Generation)> {
        zones.open(&Opening { pool, share, stream, behind: None, place: ANYWHERE })
    }

    fn open(zones: &mut Zones, stream: Stream) -> Option<(ZoneIndex, Generation)> {
        open_with(zones, Pool::Recovery, Pool::Recovery, stream)
    }

    fn filled(zones: &mut Zones, user: u64, copy: u64) -> ZoneIndex {
        let (zone, _) = open(zones, Stream::Users).unwrap();
        zones.note(zone, BatchNo(user), CopyNo(copy));
        zones.fill(zone, 100, 100);
        zone
    }

    #[test]
    fn who_has_less_right_leaves_zones_to_those_who_have_more() {
        let mut zones = zones(6);
        let mut taken = |pool: Pool| core::iter::from_fn(|| open_with(&mut zones, pool, pool, Stream::Users)).count();
        assert_eq!([Pool::Users, Pool::Cleaning, Pool::Map, Pool::Recovery].map(&mut taken), [3, 1, 1, 1]);
        assert!(Pool::ALL.is_sorted());
    }

    #[test]
    fn what_is_kept_for_the_map_is_less_by_what_it_has() {
        let mut zones = zones(6);
        assert!(open_with(&mut zones, Pool::Map, Pool::Map, Stream::Map).is_some());
        assert_eq!([Pool::Map, Pool::Cleaning, Pool::Users].map(|pool| zones.free(pool)), [4, 4, 3]);
    }

    #[test]
    fn a_zone_is_reset_only_when_a_root_covers_it_and_nobody_reads_it() {
        let mut zones = zones(5);
        let [covered, user, copy, read, live] =
            [(5, 3), (6, 0), (0, 4), (1, 1), (1, 1)].map(|(u, c)| filled(&mut zones, u, c));
        [covered, user, copy, read].into_iter().for_each(|zone| zones.be_done_with(zone));
        zones.pin(read);
        let to_reset = |zones: &Zones, since: &Since| zones.to_reset(since).collect::<Vec<_>>();
        assert_eq!(to_reset(&zones, &SINCE), [covered], "not {user}, {copy}, {read} or {live}");
        zones.unpin(read);
        let later = Since { cut: BatchNo(6), copies: CopyNo(4), ..SINCE };
        assert_eq!(to_reset(&zones, &later), [covered, user, copy, read]);
    }

    #[test]
    fn a_zone_that_was_reset_is_opened_only_after_a_root_that_says_so_and_with_a_higher_generation() {
        let mut zones = zones(1);
        let zone = filled(&mut zones, 1, 1);
        zones.be_done_with(zone);
        let early = zones.to_grant(1);
        zones.was_reset(zone);
        zones.root_is_durable(early);
        assert_eq!(open(&mut zones, Stream::Users), None, "that root was made before the reset");
        let grant = zones.to_grant(1);
        zones.root_is_durable(grant);
        assert_eq!(open(&mut zones, Stream::Users), Some((zone, Generation(2))));
    }

    /// Zones with odd numbers have a pointer, and a root names these.
    fn mixed(free: usize, named: &[u32]) -> Zones {
        let has_pointer = (0..free).map(|zone| zone % 2 == 1).collect();
        zones(free).with_pointers(has_pointer, &named.iter().map(|zone| ZoneIndex(*zone)).collect())
    }

    fn opened(zones: &mut Zones, stream: Stream) -> Option<u32> {
        open(zones, stream).map(|(zone, _)| zone.0)
    }

    #[test]
    fn data_gets_zones_with_a_pointer_one_behind_the_other_and_the_map_those_without_while_there_are_some() {
        let mut zones = mixed(6, &[0, 2, 4]);
        let mut open = |stream| opened(&mut zones, stream);
        assert_eq!([open(Stream::Users), open(Stream::Map), open(Stream::Users)], [Some(1), Some(0), Some(3)]);
        assert_eq!([open(Stream::Copies), open(Stream::Users), open(Stream::Users)], [Some(5), Some(2), Some(4)]);
    }

    #[test]
    fn a_zone_without_a_pointer_is_opened_only_when_a_root_names_it() {
        let mut zones = mixed(8, &[4]);
        assert_eq!(opened(&mut zones, Stream::Map), Some(4));
        assert_eq!(opened(&mut zones, Stream::Map), Some(1), "0, 2 and 6 are not named");
        let named = zones.to_grant(0);
        assert!(named.iter().map(|zone| zone.0).eq([0, 2, 6]), "what it takes to write the next root");
        zones.root_is_durable(named);
        assert!(zones.named().map(|zone| zone.0).eq([0, 2, 6]));
        assert_eq!(opened(&mut zones, Stream::Map), Some(2));
    }

    #[test]
    fn a_root_names_zones_without_a_pointer_of_a_disk_that_refuses_writes() {
        let mut zones = mixed(8, &[0, 4]);
        zones.set_aside(numbers(4, 8));
        assert_eq!(opened(&mut zones, Stream::Map), Some(0));
        assert_eq!(opened(&mut zones, Stream::Map), Some(1), "the disk of 4 refuses writes");
        let named: Vec<ZoneIndex> = zones.named().collect();
        assert_eq!(named, [ZoneIndex(4)]);
        zones.take_back();
        assert_eq!(opened(&mut zones, Stream::Map), Some(4));
    }

    #[test]
    fn while_zones_wait_for_a_root_to_name_them_those_that_may_be_opened_are_left_to_who_writes_it() {
        let mut zones = mixed(20, &[0, 2, 4, 6]);
        (0..10).for_each(|_| assert!(open(&mut zones, Stream::Users).is_some()));
        let mut count = |share| core::iter::from_fn(|| open_with(&mut zones, Pool::Map, share, Stream::Map)).count();
        assert_eq!([Pool::Users, Pool::Cleaning, Pool::Map, Pool::Recovery].map(&mut count), [1, 1, 1, 1]);
        assert_eq!(zones.to_grant(2).len(), 5, "two for roots and one for cleaning, and two");
    }

    fn numbers(from: u32, to: u32) -> Range<ZoneIndex> {
        ZoneIndex(from)..ZoneIndex(to)
    }

    #[test]
    fn a_zone_beside_is_opened_only_when_a_durable_root_names_it_and_is_the_last_that_others_take() {
        let mut zones = zones(8);
        let beside = |zones: &mut Zones, range: &Range<ZoneIndex>| {
            let (pool, place) = (Pool::Recovery, Place::Named(range, true));
            zones.open(&Opening { pool, share: pool, stream: Stream::Side, behind: None, place }).map(|it| it.0.0)
        };
        let range = numbers(2, 8);
        assert_eq!(beside(&mut zones, &range), None, "no root names any");
        let promised = zones.to_promise(&range, 2);
        assert!(promised.iter().map(|zone| zone.0).eq([2, 3]));
        zones.are_promised(&promised);
        let mut taken = || opened(&mut zones, Stream::Users).unwrap();
        assert_eq!([taken(), taken(), taken()], [0, 1, 4]);
        assert_eq!([(); 3].map(|()| beside(&mut zones, &range)), [Some(2), Some(3), None]);
        assert!(zones.to_promise(&range, 2).iter().map(|zone| zone.0).eq([5, 6]));
    }

    #[test]
    fn a_zone_is_opened_where_it_is_preferred_and_elsewhere_when_there_is_none() {
        let mut zones = zones(6).with_fronts(&[numbers(4, 6)]);
        assert_eq!(zones.front_left(), 1, "one is kept for the map");
        let mut open = |from, to| {
            let (pool, ranges) = (Pool::Recovery, [numbers(from, to)]);
            let place = Place::Preferred(&ranges);
            zones.open(&Opening { pool, share: pool, stream: Stream::Users, behind: None, place }).map(|it| it.0.0)
        };
        assert_eq!([open(4, 6), open(4, 6), open(4, 6)], [Some(4), Some(5), Some(0)]);
        assert_eq!(zones.front_left(), 0);
    }
}
