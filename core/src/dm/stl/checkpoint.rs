//! Checkpoints: the map as of a batch goes to the disk, then a root that names it, and then zones that nobody needs are reset.

use super::disks::data_of;
use super::flush::flush_disks;
use super::format::{
    Batch, BatchKind, Checksum, Header, LeafRow, Life, OpenZone, Piece, PieceKind, ROOT_BLOCKS, Root, ZoneRow,
};
use super::lanes::{Lane, LaneNo, Lanes, Use};
use super::log::{Keep, Pool, Stream};
use super::map::{LeafNo, Map, Run, RunIndex, RunNo, Span};
use super::nodes::{Draft, write_all};
use super::pages::{Pages, write_list};
use super::refusal::{is_refusal, until_let_in};
use super::replay::Since;
use super::second_daemon::{blame_second_daemon, refuse_second_daemon};
use super::state::{Readiness, RootPlace, Shared, State};
use super::{BLOCK_BYTES, BatchNo, CopyNo, Generation, Pba, ZoneIndex, disks};
use crate::block::{Payload, Reason};
use crate::prelude::*;
use alloc::collections::BTreeSet;
use alloc::rc::Rc;

/// Most pieces of a table.
const MOST_PIECES: usize = 256;
/// Times that a zone is tried to be reset before it is given up.
const MOST_RESETS: u32 = 4;
/// Times that a root, or a flush before it, is tried before the volume gives up.
const MOST_ROOTS: u32 = 4;

/// Tries again what has failed, and for as long as it takes what a host refused.
macro_rules! persistently {
    ($shared:expr, $try:expr) => {{
        let mut result = until_let_in($shared, async || $try.await).await;
        for _ in 1..MOST_ROOTS {
            if result.as_ref().err().is_none_or(is_refusal) {
                break;
            }
            result = until_let_in($shared, async || $try.await).await;
        }
        result
    }};
}

/// What a root is about to say, as of one moment.
struct Snapshot {
    root: Root,
    /// The rows of zones.
    rows: Vec<ZoneRow>,
    /// Pieces of leaves that are to be written.
    leaves: Vec<(u32, Vec<LeafRow>)>,
    named: Named,
    released: Vec<(Pba, u32)>,
}

/// Free zones that a root names.
struct Named {
    /// Those that it is the first to let be opened.
    granted: BTreeSet<ZoneIndex>,
    /// Those that users may get beside their lane.
    promised: BTreeSet<ZoneIndex>,
    /// The one that this lane gets next.
    next: Option<ZoneIndex>,
}

/// Makes checkpoints when they are due.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        signals.progress.until(|| shared.borrow().is_checkpoint_due().then_some(())).await;
        shared.borrow_mut().is_checkpointing = true;
        let result = checkpoint(&shared).await;
        let result = blame_second_daemon(&shared, result).await;
        let mut state = shared.borrow_mut();
        state.is_checkpointing = false;
        if let Err(reason) = result {
            state.degrade(format!("a checkpoint failed: {reason}"));
        }
        state.notify(|signals| &signals.progress);
        state.notify(|signals| &signals.changes);
    }
}

impl State {
    fn is_checkpoint_due(&self) -> bool {
        let is_leaving = self.is_suspended && self.writes.is_empty() && !self.is_at_rest();
        self.readiness == Readiness::Ready && (self.is_checkpoint_wanted || is_leaving)
    }

    /// Whether the map lies in more zones than it needs, where others wait for zones.
    fn is_map_sparse(&self) -> bool {
        self.is_map_large() && (!self.map.runs.is_empty() || !self.sparse_map_zones().is_empty())
    }

    /// Whether the map lies in more zones than are kept for it, where others wait for zones.
    pub fn is_map_large(&self) -> bool {
        let Keep { map, cycle, .. } = self.zones.kept();
        self.zones.held(Pool::Map) + cycle > map && self.is_short()
    }

    /// Whether there can be no further run before a sweep has merged some.
    fn has_all_runs(&mut self) -> bool {
        let has_all = self.map.free_run().is_none() && self.readiness == Readiness::Ready;
        if has_all && !self.is_sweep_wanted {
            self.is_sweep_wanted = true;
            self.notify(|signals| &signals.progress);
        }
        has_all
    }

    /// Takes what is pending for a checkpoint: the map as of this moment.
    fn freeze(&mut self) -> (BatchNo, CopyNo) {
        self.is_checkpoint_wanted = false;
        self.is_freezing = false;
        self.notify(|signals| &signals.progress);
        self.since_checkpoint = 0;
        let pending = core::mem::take(&mut self.map.pending);
        self.map.frozen = Some(Rc::new(pending));
        self.frozen_cut = (self.counted(), self.copies);
        self.frozen_cut
    }

    /// All that a root with this cut says.
    fn snapshot(&mut self, cut: BatchNo, copies: CopyNo) -> Snapshot {
        let named = self.name_free();
        let open = self.open(cut, copies, &named);
        let root = Root {
            cut,
            copies,
            capacity: self.capacity,
            zone_blocks: self.disks.set.zone_blocks(),
            reserve: self.reserve,
            leaf_size: self.map.leaf_size,
            members: self.disks.set.members().to_vec(),
            open,
            pieces: self.map.runs.iter().map(|run| self.piece_of(run)).collect(),
        };
        let dirty = core::mem::take(&mut self.tables.dirty_leaves);
        let rows = leaves_of_piece(self.map.leaves.len());
        let leaves = dirty.into_iter().map(|piece| {
            let first = piece as usize * rows;
            let end = (first + rows).min(self.map.leaves.len());
            (piece, self.map.leaves[first..end].to_vec())
        });
        Snapshot {
            rows: self.zones.rows().to_vec(),
            named,
            leaves: leaves.collect(),
            released: core::mem::take(&mut self.tables.released),
            root,
        }
    }

    /// Free zones that may be opened before the next root.
    fn name_free(&mut self) -> Named {
        let granted = self.zones.to_grant(self.options.named_zones);
        let next = self.zones.name_next(&self.disks.backs, &granted);
        Named { promised: self.to_promise(), granted, next }
    }

    /// Zones that may have batches which a root does not cover, and free ones that may get some.
    fn open(&self, cut: BatchNo, copies: CopyNo, free: &Named) -> Vec<OpenZone> {
        let open = |zone: ZoneIndex, stream: u8| {
            let ZoneRow { generation, .. } = self.zones.rows()[zone.0 as usize];
            OpenZone { start: self.disks.set.start(zone), generation, written: 0, stream }
        };
        let begun = self.zones.beyond(cut, copies).map(|(zone, row)| open(zone, row.stream));
        let granted = free.granted.iter().copied().filter(|zone| !self.disks.shape(*zone).is_sequential);
        let without_pointer = self.zones.named().chain(granted).map(|zone| open(zone, 0));
        let beside = free.promised.iter().map(|zone| open(*zone, Stream::Side as u8));
        let next = free.next.map(|zone| open(zone, Stream::Users as u8));
        begun.chain(without_pointer).chain(beside).chain(next).collect()
    }

    /// A run, as of now: what of it was merged into leaves by the sweep that is under way is in these, by the table that goes with it.
    fn piece_of(&self, run: &Run) -> Piece {
        let merged = if self.in_sweep.has(run.number) { self.merged_before } else { LeafNo(0) };
        Piece { first: run.piece.first.max(merged), ..run.piece }
    }

    /// Free zones that the root names which is made now, so that users may write to several at a time.
    fn to_promise(&self) -> BTreeSet<ZoneIndex> {
        let of = |member: &usize| self.zones.to_promise(&self.disks.set.zones(*member), self.options.promised_zones);
        self.members_beside().iter().flat_map(of).collect()
    }

    /// Devices on which users may get zones beside the one of their lane.
    fn members_beside(&self) -> BTreeSet<usize> {
        let home = self.lanes[Lanes::USERS].cursor.map(|cursor| self.disks.member_of(cursor.zone));
        let member = |(_, lane): (LaneNo, &Lane)| match lane.used_for {
            Use::Member(member) | Use::InOrder(member) => Some(member),
            Use::Angle if self.turns.are_flushed_one_by_one(self.options.flushes_in_a_row) => home,
            _ => None,
        };
        self.lanes.of_users().filter_map(member).collect()
    }

    /// Leaf `leaf` is there now.
    pub fn put_leaf(&mut self, leaf: LeafNo, row: LeafRow) {
        let old = core::mem::replace(&mut self.map.leaves[leaf.0 as usize], row);
        self.release(old.place, old.blocks.into());
        self.tables.dirty_leaves.insert(leaf.0 / leaves_of_piece(self.map.leaves.len()) as u32);
    }
}

/// Rows of leaves in a piece of their table.
pub(super) fn leaves_of_piece(leaves: usize) -> usize {
    rows_of_piece(leaves, LeafRow::BYTES)
}

/// Rows of zones in a piece of their table.
pub(super) fn zones_of_piece(zones: usize) -> usize {
    rows_of_piece(zones, ZoneRow::BYTES)
}

fn rows_of_piece(rows: usize, bytes: usize) -> usize {
    let of_block = BLOCK_BYTES / bytes;
    rows.div_ceil(of_block).div_ceil(MOST_PIECES).max(1) * of_block
}

/// Makes the map as of now durable, and gives back what nobody needs any more.
pub(super) async fn checkpoint(shared: &Shared) -> Result<(), Reason> {
    let progress = shared.borrow().signals.progress.clone();
    progress.until(|| (!shared.borrow_mut().has_all_runs()).then_some(())).await;
    // A copy counts in a root or is judged again behind it, so none may be half way.
    shared.borrow_mut().is_freezing = true;
    progress.until(|| (shared.borrow().copies_under_way == 0).then_some(())).await;
    let (cut, copies) = shared.borrow_mut().freeze();
    write_run(shared).await?;
    let snapshot = shared.borrow_mut().snapshot(cut, copies);
    let (pieces, old) = write_tables(shared, &snapshot).await?;
    if !shared.borrow().guards.gone().root_before_flush {
        persistently!(shared, flush_disks(shared))?;
    }
    let Snapshot { mut root, named, mut released, .. } = snapshot;
    released.extend(old);
    shared.borrow_mut().tables.pieces = pieces;
    root.pieces.splice(0..0, shared.borrow().tables.pieces.iter().copied());
    persistently!(shared, write_root(shared, &root))?;
    let epoch = {
        let mut state = shared.borrow_mut();
        state.counters.checkpoints += 1;
        state.zones.root_is_durable(named.granted);
        state.zones.are_promised(&named.promised);
        state.give_up(&released);
        state.zones.settle_map();
        state.is_sweep_wanted |= state.is_map_sparse();
        state.epoch
    };
    reset_zones(shared, &Since { epoch, cut, copies }).await;
    Ok(())
}

/// Writes what was pending as a run, which takes its place.
async fn write_run(shared: &Shared) -> Result<(), Reason> {
    let frozen = shared.borrow().map.frozen.clone().unwrap_or_default();
    if frozen.is_empty() {
        let mut state = shared.borrow_mut();
        state.map.frozen = None;
        state.map_cut = state.frozen_cut;
        return Ok(());
    }
    let pages = Pages::of(frozen.iter()).write(shared, Pool::Map).await?;
    let number = shared.borrow().map.free_run().ok_or(Reason::VolumeFull)?;
    let piece = write_list(shared, Pool::Map, number, &pages).await?;
    let mut state = shared.borrow_mut();
    index_extents(&mut state.map, number, frozen.iter());
    state.map.runs.push(Run { number, known_as: number.into(), pages, piece });
    state.map.frozen = None;
    state.map_cut = state.frozen_cut;
    state.is_sweep_wanted |= state.is_merging_due();
    Ok(())
}

/// Notes what a run has, which is told in order, leaf by leaf.
pub(super) fn index_extents<'a>(map: &mut Map, run: RunNo, extents: impl Iterator<Item = Span<'a>>) {
    let (mut leaf, mut ranges) = (LeafNo(0), Vec::new());
    let Map { leaf_size, index, .. } = map;
    for extent in extents {
        let mut lba = extent.lba;
        while lba < extent.end() {
            let (of, offset) = leaf_size.leaf_of(lba);
            if of != leaf {
                flush_ranges(index, run, leaf, &mut ranges);
                leaf = of;
            }
            let end = extent.end().min(leaf_size.range(of).end);
            ranges.push(offset..offset + (end - lba) as u32);
            lba = end;
        }
    }
    flush_ranges(index, run, leaf, &mut ranges);
}

fn flush_ranges(index: &mut RunIndex, run: RunNo, leaf: LeafNo, ranges: &mut Vec<core::ops::Range<u32>>) {
    if !ranges.is_empty() {
        index.add(leaf, run, &core::mem::take(ranges));
    }
}

/// Bytes of the map that a root names.
pub(super) struct Part {
    kind: PieceKind,
    number: u32,
    bytes: Vec<u8>,
}

impl Part {
    pub fn new(kind: PieceKind, number: u32, mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        Self { kind, number, bytes }
    }

    /// With these rows.
    fn of<T>(kind: PieceKind, number: u32, rows: &[T], encode: impl Fn(&T, &mut Vec<u8>)) -> Self {
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| encode(row, &mut bytes));
        Self::new(kind, number, bytes)
    }

    fn blocks(&self) -> u32 {
        (self.bytes.len() / BLOCK_BYTES) as u32
    }

    fn draft(&self) -> Draft<'_> {
        Draft { blocks: self.blocks(), encode: Box::new(|_| self.bytes.clone()) }
    }

    /// What a root says of it.
    fn piece(&self, place: Pba) -> Piece {
        let (blocks, checksum) = (self.blocks(), Checksum::of(&self.bytes));
        Piece { kind: self.kind, number: self.number, place, blocks, checksum, first: LeafNo(0) }
    }
}

/// Writes these, side by side: the head comes and goes for each that is written by itself.
pub(super) async fn write_parts(shared: &Shared, share: Pool, parts: &[Part]) -> Result<Vec<Piece>, Reason> {
    let drafts: Vec<Draft<'_>> = parts.iter().map(Part::draft).collect();
    let places = write_all(shared, share, &drafts).await?;
    Ok(parts.iter().zip(places).map(|(part, place)| part.piece(place)).collect())
}

/// Writes the tables. What the root names of them, and what it does without from now on.
async fn write_tables(shared: &Shared, snapshot: &Snapshot) -> Result<(Vec<Piece>, Vec<(Pba, u32)>), Reason> {
    let zones = snapshot.rows.chunks(zones_of_piece(snapshot.rows.len())).zip(0..);
    let zones = zones.map(|(rows, number)| Part::of(PieceKind::Zones, number, rows, ZoneRow::encode));
    let leaves = snapshot.leaves.iter();
    let leaves = leaves.map(|(number, rows)| Part::of(PieceKind::Leaves, *number, rows, LeafRow::encode));
    let parts: Vec<Part> = zones.chain(leaves).collect();
    let (mut pieces, mut old) = (shared.borrow().tables.pieces.clone(), Vec::new());
    for new in write_parts(shared, Pool::Map, &parts).await? {
        match pieces.iter_mut().find(|piece| (piece.kind, piece.number) == (new.kind, new.number)) {
            Some(piece) => {
                old.push((piece.place, piece.blocks));
                *piece = new;
            }
            None => pieces.push(new),
        }
    }
    Ok((pieces, old))
}

/// Writes a root to every device. It is in force when one of them has it for good.
async fn write_root(shared: &Shared, root: &Root) -> Result<(), Reason> {
    if !root.fits() {
        return Err(Reason::VolumeFull);
    }
    refuse_second_daemon(shared).await?;
    shared.borrow_mut().tables.root += 1;
    let members = shared.borrow().disks.present();
    let (mut written, mut failure) = (0, None);
    for member in members {
        match write_root_to(shared, root, member).await {
            Ok(()) => written += 1,
            Err(reason) => failure = Some(reason),
        }
    }
    match (written, failure) {
        (0, Some(reason)) => Err(reason),
        _ => Ok(()),
    }
}

async fn write_root_to(shared: &Shared, root: &Root, member: usize) -> Result<(), Reason> {
    let (at, next, zone) = shared.borrow().root_slot(member)?;
    if next == 0 {
        reset_zone(shared, zone).await?;
    }
    let (place, payload) = {
        let mut state = shared.borrow_mut();
        // Should this one fail, or be torn, the next goes to the other zone, and never over the newest that is whole.
        state.tables.roots[member].takes_more = false;
        let place = state.disks.set.start(zone) + u64::from(next);
        (place, state.encode_root(root, place)?)
    };
    let sent = {
        let state = shared.borrow();
        state.disks.send(&state.io, place, payload)?
    };
    disks::all(sent).await?;
    let flushed = {
        let state = shared.borrow();
        let (disk, _) = state.disks.spot(place)?;
        state.io.flush(disk.device)
    };
    flushed.ok().await?;
    let mut state = shared.borrow_mut();
    let zones = state.tables.roots[member].zones;
    state.tables.roots[member] = RootPlace { zones, at, behind: next + ROOT_BLOCKS as u32, takes_more: true };
    state.tables.root_place = place;
    state.counters.root_blocks += ROOT_BLOCKS as u64;
    Ok(())
}

impl State {
    /// Notes that a zone was reset. Returns true if it may be written again: a short zone may not.
    pub fn was_reset(&mut self, zone: ZoneIndex) -> bool {
        self.zones.was_reset(zone);
        let is_short = self.disks.shape(zone).is_short;
        if is_short {
            self.zones.die(zone);
        }
        !is_short
    }

    /// Where the next root of a device goes: the zone with the newest one, if there is room behind it, or the other from its start.
    fn root_slot(&self, member: usize) -> Result<(usize, u32, ZoneIndex), Reason> {
        let RootPlace { zones, at, behind, takes_more } = self.tables.roots[member];
        let fits = |zone: ZoneIndex, next: u32| next + ROOT_BLOCKS as u32 <= self.disks.shape(zone).room;
        match zones[at] {
            Some(zone) if takes_more && fits(zone, behind) => Ok((at, behind, zone)),
            _ => zones[1 - at].map(|zone| (1 - at, 0, zone)).ok_or(Reason::VolumeFull),
        }
    }

    fn encode_root(&self, root: &Root, place: Pba) -> Result<Payload, Reason> {
        encode_root(
            root,
            &self.lives,
            &Batch {
                set: self.id,
                place,
                generation: Generation(0),
                epoch: self.epoch,
                number: self.tables.root,
                attempt: 0,
                root: self.tables.root_place,
                since: self.since,
            },
        )
        .and_then(|bytes| data_of(&bytes).map(Payload::Data))
    }
}

/// The batch of a root.
pub(super) fn encode_root(root: &Root, lives: &[Life], batch: &Batch) -> Result<Vec<u8>, Reason> {
    let payload = root.encode();
    let checksums = payload.chunks(BLOCK_BYTES).map(Checksum::of).collect();
    let mut bytes = Header { batch: *batch, kind: BatchKind::Root(lives.to_vec()), checksums }.encode();
    bytes.extend(payload);
    Ok(bytes)
}

/// Empties a zone.
pub(super) async fn reset_zone(shared: &Shared, zone: ZoneIndex) -> Result<(), Reason> {
    let reset = {
        let state = shared.borrow();
        let (disk, sector) = state.disks.spot(state.disks.set.start(zone))?;
        state.disks.shape(zone).is_sequential.then(|| state.io.reset(disk.device, sector))
    };
    match reset {
        Some(reset) => reset.ok().await,
        None => Ok(()),
    }
}

/// Resets zones that a durable root does without.
async fn reset_zones(shared: &Shared, root: &Since) {
    let zones: Vec<ZoneIndex> = {
        let state = shared.borrow();
        let root = &state.loosened(root);
        state.zones.to_reset(root).collect()
    };
    for zone in zones {
        let result = reset_zone(shared, zone).await;
        let is_dead = result.is_err() && is_dead(shared, zone).await;
        let mut state = shared.borrow_mut();
        match &result {
            Err(_) if is_dead => state.zones.die(zone),
            Err(reason) if is_refusal(reason) => {}
            Err(_) => state.zones.reset_failed(zone, MOST_RESETS),
            Ok(()) => {}
        }
        if result.is_ok() {
            let start = state.disks.set.start(zone);
            let end = start + u64::from(state.disks.set.zone_blocks());
            state.map.cache.forget(start, end);
            state.ahead.forget(zone, start, end);
            state.was_reset(zone);
            state.events += 1;
        }
        // Another root is wanted that says so.
        state.is_checkpoint_wanted |= result.is_ok() && state.is_short();
    }
    if shared.borrow().guards.gone().open_ungranted {
        let mut state = shared.borrow_mut();
        let granted = state.zones.to_grant(usize::MAX / 2);
        state.zones.root_is_durable(granted);
    }
}

async fn is_dead(shared: &Shared, zone: ZoneIndex) -> bool {
    let (io, spot) = {
        let state = shared.borrow();
        (state.io.clone(), state.disks.spot(state.disks.set.start(zone)).map(|(disk, sector)| (disk.device, sector)))
    };
    let Ok((device, sector)) = spot else { return true };
    let report = io.report(device, sector, 1).await;
    report.is_ok_and(|zones| zones.iter().all(|zone| zone.cond.is_dead()))
}

impl State {
    /// What a root covers, if nobody looks closely.
    fn loosened(&self, root: &Since) -> Since {
        let gone = self.guards.gone();
        let mut root = *root;
        if gone.reset_uncovered {
            root.cut = BatchNo(u64::MAX);
        }
        if gone.reset_before_copies {
            root.copies = CopyNo(u64::MAX);
        }
        root
    }
}
