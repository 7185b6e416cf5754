//! Every zone of the set, from one opening to the next.
//!
//! ```text
//!   free ── open ──> open ── full ──> full ── nothing in it is live ──> done with ── root covers it, no reader ──> reset ── next root ──> free
//! ```
//!
//! A start finds out where something was written since the root: by its pointer in most zones. Into those without a pointer it has to look, so
//! a root names a few of them that may be opened, and leaves the others alone.

use alloc::collections::BTreeSet;

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

/// All zones of a set.
#[derive(Clone, Debug)]
pub struct Zones {
    rows: Vec<ZoneRow>,
    /// Those of zones that are not free or unused.
    lives: Vec<Option<Life>>,
    /// How many are done with.
    done_with: usize,
    /// Those that tell how far they are written.
    has_pointer: Vec<bool>,
    /// May be opened: the newest durable root says so.
    free: BTreeSet<ZoneIndex>,
    /// Were reset since: the next root says that they may be opened.
    next: BTreeSet<ZoneIndex>,
    /// Free ones without a pointer that no root names: a later one says that they may be opened.
    unnamed: BTreeSet<ZoneIndex>,
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
        let (has_pointer, last_opened) = (vec![true; rows.len()], [ZoneIndex(0); Pool::ALL.len()]);
        Self { has_pointer, free, next, unnamed, lives, done_with: 0, keep, held, rows, last_opened, recount: None }
    }

    /// The same, where some have no pointer and a root names these.
    #[must_use]
    pub fn with_pointers(mut self, has_pointer: Vec<bool>, named: &BTreeSet<ZoneIndex>) -> Self {
        self.has_pointer = has_pointer;
        let may_be_opened = |zone: &ZoneIndex| self.has_pointer[zone.0 as usize] || named.contains(zone);
        (self.free, self.unnamed) = self.free.iter().copied().partition(may_be_opened);
        self
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

    /// Opens a zone for `stream` with the right of `pool`, out of the share of `share`: the next one behind its last one, which is a short
    /// way for a head. Data is written faster in order, and the map is small: it gets zones without a pointer while there are some.
    pub fn open(&mut self, pool: Pool, share: Pool, stream: Pool) -> Option<(ZoneIndex, Generation)> {
        if self.free(pool) == 0 || self.free.len() <= self.not_for(share) {
            return None;
        }
        let last = self.last_opened[stream as usize];
        let mut in_order = self.free.range(last..).chain(self.free.range(..last)).copied();
        let is_data = stream >= Pool::Cleaning;
        let zone = in_order.find(|zone| self.has_pointer[zone.0 as usize] == is_data);
        let zone = zone.or_else(|| self.free.first().copied())?;
        self.free.remove(&zone);
        let generation = self.rows[zone.0 as usize].generation + 1;
        self.rows[zone.0 as usize] =
            ZoneRow { generation, used_for: ZoneUse::Open, stream: stream as u8, ..ZoneRow::default() };
        hold(&mut self.held, &self.rows[zone.0 as usize], 1);
        self.lives[zone.0 as usize] = Some(Life::default());
        self.last_opened[stream as usize] = zone;
        Some((zone, generation))
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
                self.done_with -= usize::from(!life.is_given_up);
                self.lives[place] = None;
            }
            Some(_) if self.rows[place].used_for != ZoneUse::Dead => hold(&mut self.held, &self.rows[place], -1),
            _ => {}
        }
        self.rows[place].used_for = ZoneUse::Dead;
        for zones in [&mut self.free, &mut self.next, &mut self.unnamed] {
            zones.remove(&zone);
        }
    }

    /// A zone that no root knows turns out to be in use.
    pub fn adopt(&mut self, zone: ZoneIndex, generation: Generation, pool: Pool, written: u32) {
        self.free.remove(&zone);
        let row = ZoneRow { generation, used_for: ZoneUse::Full, stream: pool as u8, written, ..ZoneRow::default() };
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
        for (life, row) in self.lives.iter_mut().zip(&self.rows).filter_map(|(life, row)| Some((life.as_mut()?, row))) {
            let is_of_map = row.used_for == ZoneUse::Full && row.stream == Pool::Map as u8;
            if is_of_map && life.map_blocks == 0 && !life.is_done_with {
                life.is_done_with = true;
                self.done_with += 1;
                hold(&mut self.held, row, -1);
            }
        }
    }

    fn in_use(&self) -> impl Iterator<Item = (ZoneIndex, &ZoneRow, &Life)> {
        let all = (0..).map(ZoneIndex).zip(&self.rows).zip(&self.lives);
        all.filter_map(|((zone, row), life)| Some((zone, row, life.as_ref()?)))
    }

    /// Full zones of these streams that still have something in them.
    pub fn full(&self, pools: &[Pool]) -> impl Iterator<Item = (ZoneIndex, &ZoneRow)> {
        let of =
            move |row: &ZoneRow| row.used_for == ZoneUse::Full && pools.iter().any(|pool| *pool as u8 == row.stream);
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

    /// Zones that are to be given back: nothing in them is live, and a root may say so.
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
            self.done_with += 1;
            hold(&mut self.held, &self.rows[zone.0 as usize], -1);
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
                self.done_with -= 1;
            }
        }
    }

    /// A zone was reset.
    pub fn was_reset(&mut self, zone: ZoneIndex) {
        match self.lives[zone.0 as usize].take() {
            Some(life) if life.is_done_with => self.done_with -= 1,
            Some(_) => hold(&mut self.held, &self.rows[zone.0 as usize], -1),
            None => {}
        }
        let row = &mut self.rows[zone.0 as usize];
        *row = ZoneRow { generation: row.generation, ..ZoneRow::default() };
        let has_pointer = self.has_pointer[zone.0 as usize];
        if has_pointer { &mut self.next } else { &mut self.unnamed }.insert(zone);
    }

    /// Those that the root says may be opened which was made with these rows, and is durable.
    pub fn root_is_durable(&mut self, granted: BTreeSet<ZoneIndex>) {
        self.next.retain(|zone| !granted.contains(zone));
        self.unnamed.retain(|zone| !granted.contains(zone));
        self.free.extend(granted);
    }

    /// Those that a root says may be opened that is made now, and that no earlier one did. `most_named`: how many it names of those without a
    /// pointer, beside those that it takes to write the next.
    #[must_use]
    pub fn to_grant(&self, most_named: usize) -> BTreeSet<ZoneIndex> {
        let more = self.unnamed.iter().take(self.more_named(most_named));
        self.next.iter().chain(more).copied().collect()
    }

    /// Whether there are any.
    #[must_use]
    pub fn has_grants(&self, most_named: usize) -> bool {
        !self.next.is_empty() || !self.unnamed.is_empty() && self.more_named(most_named) > 0
    }

    fn more_named(&self, most_named: usize) -> usize {
        let most = 2 * self.keep.recovery + self.keep.cleaning + most_named;
        most.saturating_sub(self.named().count())
    }

    /// Zones without a pointer that may be opened.
    pub fn named(&self) -> impl Iterator<Item = ZoneIndex> {
        self.free.iter().copied().filter(|zone| !self.has_pointer[zone.0 as usize])
    }
}

fn hold(held: &mut [usize; Pool::ALL.len()], row: &ZoneRow, more: isize) {
    if let Some(count) = held.get_mut(usize::from(row.stream)) {
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

    fn filled(zones: &mut Zones, user: u64, copy: u64) -> ZoneIndex {
        let (zone, _) = zones.open(Pool::Recovery, Pool::Recovery, Pool::Users).unwrap();
        zones.note(zone, BatchNo(user), CopyNo(copy));
        zones.fill(zone, 100, 100);
        zone
    }

    #[test]
    fn who_has_less_right_leaves_zones_to_those_who_have_more() {
        let mut zones = zones(6);
        let mut taken = |pool: Pool| core::iter::from_fn(|| zones.open(pool, pool, pool)).count();
        assert_eq!([Pool::Users, Pool::Cleaning, Pool::Map, Pool::Recovery].map(&mut taken), [3, 1, 1, 1]);
        assert!(Pool::ALL.is_sorted());
    }

    #[test]
    fn what_is_kept_for_the_map_is_less_by_what_it_has() {
        let mut zones = zones(6);
        assert!(zones.open(Pool::Map, Pool::Map, Pool::Map).is_some());
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
        assert_eq!(
            zones.open(Pool::Recovery, Pool::Recovery, Pool::Users),
            None,
            "that root was made before the reset"
        );
        let grant = zones.to_grant(1);
        zones.root_is_durable(grant);
        assert_eq!(zones.open(Pool::Recovery, Pool::Recovery, Pool::Users), Some((zone, Generation(2))));
    }

    /// Zones with odd numbers have a pointer, and a root names these.
    fn mixed(free: usize, named: &[u32]) -> Zones {
        let has_pointer = (0..free).map(|zone| zone % 2 == 1).collect();
        zones(free).with_pointers(has_pointer, &named.iter().map(|zone| ZoneIndex(*zone)).collect())
    }

    fn opened(zones: &mut Zones, stream: Pool) -> Option<u32> {
        zones.open(Pool::Recovery, Pool::Recovery, stream).map(|(zone, _)| zone.0)
    }

    #[test]
    fn data_gets_zones_with_a_pointer_one_behind_the_other_and_the_map_those_without_while_there_are_some() {
        let mut zones = mixed(6, &[0, 2, 4]);
        let mut open = |stream| opened(&mut zones, stream);
        assert_eq!([open(Pool::Users), open(Pool::Map), open(Pool::Users)], [Some(1), Some(0), Some(3)]);
        assert_eq!([open(Pool::Cleaning), open(Pool::Users), open(Pool::Users)], [Some(5), Some(2), Some(4)]);
    }

    #[test]
    fn a_zone_without_a_pointer_is_opened_only_when_a_root_names_it() {
        let mut zones = mixed(8, &[4]);
        assert_eq!(opened(&mut zones, Pool::Map), Some(4));
        assert_eq!(opened(&mut zones, Pool::Map), Some(1), "0, 2 and 6 are not named");
        let named = zones.to_grant(0);
        assert!(named.iter().map(|zone| zone.0).eq([0, 2, 6]), "what it takes to write the next root");
        zones.root_is_durable(named);
        assert!(zones.named().map(|zone| zone.0).eq([0, 2, 6]));
        assert_eq!(opened(&mut zones, Pool::Map), Some(2));
    }

    #[test]
    fn while_zones_wait_for_a_root_to_name_them_those_that_may_be_opened_are_left_to_who_writes_it() {
        let mut zones = mixed(20, &[0, 2, 4, 6]);
        (0..10).for_each(|_| assert!(zones.open(Pool::Recovery, Pool::Recovery, Pool::Users).is_some()));
        let mut count = |share| core::iter::from_fn(|| zones.open(Pool::Map, share, Pool::Map)).count();
        assert_eq!([Pool::Users, Pool::Cleaning, Pool::Map, Pool::Recovery].map(&mut count), [1, 1, 1, 1]);
        assert_eq!(zones.to_grant(2).len(), 5, "two for roots and one for cleaning, and two");
    }
}
