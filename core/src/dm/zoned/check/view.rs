//! The best that both copies of the metadata say together. What is salvaged is read by it, and what is repaired becomes it,
//! so a repair loses nothing that could be salvaged.
//!
//! ```text
//!   entries:  what both copies say ──> what is contested ──> what is wrong in the one: from the other ──> right parts
//!   blocks:   where the copy in force has them; those that it lacks, where the other one has them
//! ```
//!
//! Of two copies of the same generation the other one can also be ahead: its next commit has begun. What that adds was
//! written, only nobody was promised it; what that takes away is still in the copy in force.

use super::Loss;
use super::copies::{Asked, Copies, Table, Twin};
use crate::dm::zoned::format::{
    Bitmap, ENTRIES, Judge, Layout, MapEntry, MappingProblem, Media, MediaError, NO_ZONE, Progress, validate_mapping,
};
use crate::dm::zoned::stale::Misfits;
use crate::dm::zoned::{Block, ChunkNo, Rows, SetZone, ZoneSpace};
use crate::prelude::*;

/// Why blocks of a bitmap cannot be read in the copy in force, and whether they are known from the other one.
type Lacks = Vec<(MediaError, bool)>;

/// What both copies say together.
#[derive(Clone, Debug)]
pub(super) struct View {
    copies: Copies,
    /// The zones of each chunk.
    pub entries: Rows<ChunkNo, MapEntry>,
    /// Whether the copy in force does not say so, but the other one does.
    is_taken: Rows<ChunkNo, bool>,
    tables: [Table; 2],
    /// The first chunk that has a zone in each of the tables.
    owners: [Rows<SetZone, Option<ChunkNo>>; 2],
    /// What is wrong with the mapping.
    pub losses: Vec<Loss>,
}

impl View {
    pub fn new(media: &mut dyn Media, copies: Copies, progress: Progress<'_>) -> Self {
        let tables = copies.tables(media);
        let owners = [0, 1].map(|copy: usize| owners(&tables[copy], media.space()));
        let chunks = copies.layout.chunks as usize;
        let (entries, is_taken) = (Rows::filled(MapEntry::UNMAPPED, chunks), Rows::filled(false, chunks));
        let mut view = Self { copies, entries, is_taken, tables, owners, losses: Vec::new() };
        view.settle(media);
        progress(copies.layout.map_blocks.into(), copies.layout.map_blocks.into());
        view
    }

    pub fn layout(&self) -> &Layout {
        &self.copies.layout
    }

    /// The blocks of chunk `chunk` that are in its data zone, and those that are in its buffer.
    pub fn parts(&self, media: &mut dyn Media, chunk: ChunkNo, lost: &mut dyn FnMut(Loss)) -> [Bitmap; 2] {
        let MapEntry { dzone, bzone } = self.entries[chunk];
        let mut is_guess = false;
        let mut data = self.bitmaps(media, (chunk, dzone, true), &mut |loss| {
            is_guess |= loss.is_of_both();
            lost(loss);
        });
        let buffer = self.bitmaps(media, (chunk, bzone, false), lost);
        if is_guess {
            // What is known to be in the buffer is newer.
            data.iter_mut().for_each(|data| buffer.iter().for_each(|buffer| data.subtract(buffer)));
        }
        join(&data, &buffer)
    }

    /// What is in neither copy, all bitmaps included.
    pub fn lost(&self, media: &mut dyn Media) -> Vec<Loss> {
        let mut lost: Vec<Loss> = self.losses.iter().filter(|loss| loss.is_of_both()).cloned().collect();
        for (zone, owner) in self.owners(media.space()).numbered() {
            if let Some(owner) = *owner {
                let is_data = self.entries[owner].dzone == zone;
                self.bitmaps(media, (owner, zone, is_data), &mut |loss| {
                    lost.extend(Some(loss).filter(Loss::is_of_both))
                });
            }
        }
        lost.extend(self.orphans(media));
        lost.extend(self.older_copy(media));
        lost
    }

    /// The disk that is older than the others, if the mapping in force is whole and does not fit the zones.
    pub fn older_copy(&self, media: &mut dyn Media) -> Option<Loss> {
        let space = media.space().clone();
        let own: Option<Rows<ChunkNo, MapEntry>> = self.tables[0].entries.iter().copied().collect();
        let is_wrong = |problem: &MappingProblem| problem.fault.is_error() && !problem.fault.is_bearable();
        if self.is_taken.iter().any(|taken| *taken)
            || validate_mapping(&own?, &space, self.layout()).iter().any(is_wrong)
        {
            return None;
        }
        let mut misfits = Misfits::none(&space);
        // As the one in force says: what cannot be right of that is what tells.
        for (zone, owner) in self.owners[0].numbered() {
            let asked = Asked { zone, otherwise: false, may_stand_in: true };
            misfits.look_at((&space, self.layout()), zone, owner.is_some(), |wp| {
                self.copies.bitmaps(media, asked, &mut |_, _| ())[0].blocks(wp).next().is_some()
            });
        }
        misfits.older_copy().map(Loss::OlderCopy)
    }

    /// Zones with valid blocks that no chunk has.
    pub fn orphans(&self, media: &mut dyn Media) -> Vec<Loss> {
        let space = media.space().clone();
        let owners = self.owners(&space);
        let free = owners.numbered().filter(|(_, owner)| owner.is_none()).map(|(zone, _)| zone);
        let free = free.filter(|zone| !self.layout().is_metadata(&space, *zone));
        let orphan = |zone| Loss::Orphan { zone, count: self.orphaned(media, zone) };
        free.map(orphan).filter(|loss| !matches!(loss, Loss::Orphan { count: 0, .. })).collect()
    }

    /// Blocks of `zone` that are valid as far as anybody can tell.
    fn orphaned(&self, media: &mut dyn Media, zone: SetZone) -> u32 {
        let [own, other] = {
            let asked = Asked { zone, otherwise: false, may_stand_in: true };
            self.copies.bitmaps(media, asked, &mut |_, _| ())
        };
        let bits = if self.copies.twin == Twin::Equal { own.common(&other) } else { own };
        possible(bits, media.space(), zone).0.weight()
    }

    /// The chunk that has each zone.
    pub fn owners(&self, space: &ZoneSpace) -> Rows<SetZone, Option<ChunkNo>> {
        let mut owners = Rows::filled(None, space.zones().len());
        for (chunk, entry) in self.entries.numbered() {
            let zones = [entry.dzone, entry.bzone].into_iter().filter(|zone| *zone != NO_ZONE);
            zones.for_each(|zone| owners[zone] = Some(chunk));
        }
        owners
    }

    /// Gives each chunk its zones.
    fn settle(&mut self, media: &mut dyn Media) {
        let (space, layout) = (media.space().clone(), self.copies.layout);
        let mut judge = Judge::new(&space, &layout);
        let said = |view: &Self, chunk: ChunkNo| [0, 1].map(|copy: usize| view.tables[copy].entries[chunk]);
        let is_agreed = |[own, other]: [Option<MapEntry>; 2]| own.is_some() && own == other;
        let (agreed, contested): (Vec<ChunkNo>, Vec<ChunkNo>) =
            self.entries.numbers().partition(|chunk| is_agreed(said(self, *chunk)));
        for chunk in agreed {
            let own = said(self, chunk)[0];
            if !self.take(&mut judge, chunk, own) {
                self.take_part(&mut judge, chunk, own);
            }
        }
        let mut open = Vec::new();
        for chunk in contested {
            let ranked = self.by_rank(media, chunk, said(self, chunk));
            if !self.take(&mut judge, chunk, ranked[0]) {
                open.push((chunk, ranked));
            }
        }
        for (chunk, [first, second]) in open {
            if !self.take(&mut judge, chunk, second) {
                self.take_part(&mut judge, chunk, first.or(second));
            }
        }
        self.tell_unreadable();
        self.losses.sort_by_key(Loss::chunk);
    }

    /// What the copies say of a chunk, what is to be believed first. That is the one in force, unless only what the other one
    /// says leads to blocks that are valid.
    fn by_rank(
        &self,
        media: &mut dyn Media,
        chunk: ChunkNo,
        [own, other]: [Option<MapEntry>; 2],
    ) -> [Option<MapEntry>; 2] {
        let (Some(first), Some(second)) = (own, other) else { return [own, other] };
        if self.evidence(media, chunk, second) > self.evidence(media, chunk, first) {
            return [other, own];
        }
        [own, other]
    }

    /// Whether both copies say that blocks of the zones of `entry` are valid, and whether one does. Of an older copy nothing
    /// counts but what the one in force has valid blocks in and gives to no other chunk.
    fn evidence(&self, media: &mut dyn Media, chunk: ChunkNo, entry: MapEntry) -> (bool, bool) {
        let mut is_known = (false, false);
        for zone in [entry.dzone, entry.bzone] {
            let is_known_zone = media.space().zones().get(zone).is_some();
            if is_known_zone && (self.copies.twin == Twin::Equal || self.is_about(0, chunk, zone)) {
                let [own, other] = self.bitmaps(media, (chunk, zone, false), &mut |_| ());
                is_known.0 |= own.common(&other).weight() > 0;
                is_known.1 |= own.weight() + other.weight() > 0;
            }
        }
        is_known
    }

    /// Gives a chunk the zones of an entry, if all of it is right.
    fn take(&mut self, judge: &mut Judge<'_>, chunk: ChunkNo, entry: Option<MapEntry>) -> bool {
        let Some(entry) = entry else { return false };
        let problems: Vec<_> = judge.problems(chunk, entry).collect();
        if problems.iter().any(|problem| problem.fault.is_error() && !problem.fault.is_bearable()) {
            judge.release(chunk, entry);
            return false;
        }
        let own = self.tables[0].entries[chunk];
        self.entries[chunk] = problems.first().map_or(entry, |problem| problem.repaired);
        self.is_taken[chunk] = own != Some(entry);
        if own.is_some_and(|own| own != entry) && entry != MapEntry::UNMAPPED {
            self.losses.push(Loss::OlderEntry(chunk));
        }
        self.losses.extend(problems.into_iter().filter(|problem| problem.fault.is_error()).map(Loss::Entry));
        true
    }

    /// Gives a chunk those zones of an entry that are right.
    fn take_part(&mut self, judge: &mut Judge<'_>, chunk: ChunkNo, entry: Option<MapEntry>) {
        let Some(entry) = entry else { return };
        let problems: Vec<MappingProblem> = judge.problems(chunk, entry).collect();
        self.entries[chunk] = problems.first().map_or(entry, |problem| problem.repaired);
        self.losses.extend(problems.into_iter().filter(|problem| problem.fault.is_error()).map(Loss::Entry));
    }

    fn tell_unreadable(&mut self) {
        let [own, other] = &self.tables;
        for (block, error) in &own.unreadable {
            let first = ChunkNo(block * ENTRIES as u32);
            if other.entries[first].is_none() {
                let count = (ChunkNo(self.copies.layout.chunks) - first).min(ENTRIES as u32);
                self.losses.push(Loss::Entries { first, count, error: error.clone() });
            }
        }
    }

    /// The bits of `zone` in both copies as far as they are about `chunk` and can be right, that in force first. A copy that
    /// has nothing to say of them says what the other one does.
    fn bitmaps(
        &self,
        media: &mut dyn Media,
        (chunk, zone, is_data): (ChunkNo, SetZone, bool),
        lost: &mut dyn FnMut(Loss),
    ) -> [Bitmap; 2] {
        if zone == NO_ZONE {
            return [Bitmap::empty(media.space().zone_blocks()), Bitmap::empty(media.space().zone_blocks())];
        }
        let [own_speaks, other_speaks] = [0, 1].map(|copy| self.is_about(copy, chunk, zone));
        let (mut both, mut lacks) = self.look(media, Asked { zone, otherwise: is_data, may_stand_in: other_speaks });
        if !lacks.is_empty() && both[0].0.weight() == 0 && media.space().written_end(zone) > Block::FIRST {
            // A chunk has no zone without valid blocks: that bitmap is of another time.
            (both, lacks) = self.look(media, Asked { zone, otherwise: is_data, may_stand_in: false });
        }
        for (error, is_known) in lacks {
            lost(if is_known { Loss::OtherBitmap { zone, error } } else { Loss::Bitmap { zone, error } });
        }
        let [own, other] = both;
        let is_heard = self.copies.twin == Twin::Equal || self.is_taken[chunk];
        let other_is_better = own.1 > 0 && other.1 == 0 && other.0.weight() > 0;
        match () {
            () if !is_heard || !other_speaks || (other.1 > 0 && own.1 == 0) => [own.0.clone(), own.0],
            () if !own_speaks || other_is_better => [other.0.clone(), other.0],
            () => [own.0, other.0],
        }
    }

    /// The bits of `zone` in both copies that can be right, with the number of others, and what the one in force lacks.
    fn look(&self, media: &mut dyn Media, of: Asked) -> ([(Bitmap, usize); 2], Lacks) {
        let mut lacks = Vec::new();
        let both = self.copies.bitmaps(media, of, &mut |error, is_known| lacks.push((error, is_known)));
        (both.map(|bits| possible(bits, media.space(), of.zone)), lacks)
    }

    /// Whether what a copy says of `zone` is about `chunk`: it gives the zone to that, or to none.
    fn is_about(&self, copy: usize, chunk: ChunkNo, zone: SetZone) -> bool {
        let said = self.tables[copy].entries[chunk];
        let is_own = said.is_some_and(|entry| [entry.dzone, entry.bzone].contains(&zone));
        is_own || self.owners[copy][zone].is_none()
    }
}

/// The first chunk that has each zone.
fn owners(table: &Table, space: &ZoneSpace) -> Rows<SetZone, Option<ChunkNo>> {
    let mut owners = Rows::filled(None, space.zones().len());
    for (chunk, entry) in table.entries.numbered() {
        for zone in entry.iter().flat_map(|entry| [entry.dzone, entry.bzone]) {
            owners.get_mut(zone).into_iter().for_each(|owner| *owner = owner.or(Some(chunk)));
        }
    }
    owners
}

/// The bits that stand for blocks of `zone` which can have been written, and how many others there were.
fn possible(mut bits: Bitmap, space: &ZoneSpace, zone: SetZone) -> (Bitmap, usize) {
    let stray: Vec<Block> = bits.blocks(space.written_end(zone)).collect();
    stray.iter().for_each(|block| bits.set(*block, false));
    (bits, stray.len())
}

/// Which blocks are in the data zone and which in the buffer, by the bits of both copies. A block that is in both is in the
/// data zone, from which the kernel reads it, unless the other copy knows better.
fn join([own_data, data]: &[Bitmap; 2], [own_buffer, buffer]: &[Bitmap; 2]) -> [Bitmap; 2] {
    let (mut in_data, mut in_buffer) = (own_data.clone(), own_buffer.clone());
    let own = in_data.bytes_mut().iter_mut().zip(in_buffer.bytes_mut());
    for ((own_data, own_buffer), (data, buffer)) in own.zip(data.bytes().iter().zip(buffer.bytes())) {
        let (only_data, only_buffer, twice) =
            (*own_data & !*own_buffer, *own_buffer & !*own_data, *own_data & *own_buffer);
        let lacking = !(*own_data | *own_buffer);
        let elsewhere = buffer & !data;
        *own_data = only_data | twice & !elsewhere | lacking & data;
        *own_buffer = only_buffer | (twice | lacking) & elsewhere;
    }
    [in_data, in_buffer]
}
