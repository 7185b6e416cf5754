//! The start: the newest root, what it names, and what of the batches behind it counts.

use super::checkpoint::{checkpoint, index_page, leaves_of_piece, zones_of_piece};
use super::disks::{Disk, Disks, Shape};
use super::flush::flush_disks;
use super::format::{
    BatchKind, Checksum, Header, LeafRow, Member, MemberState, OpenZone, PageRow, Piece, PieceKind, ROOT_BLOCKS, Root,
    ZoneRow, ZoneUse,
};
use super::headers::{Found, chain};
use super::log::{Keep, Order, Pool, Sealed, Zones};
use super::map::{Extent, Map, Node, Run, RunNo};
use super::replay::{Replay, Since};
use super::set::Set;
use super::state::{Readiness, RootPlace, Shared, Slot, State};
use super::{BLOCK_BYTES, BLOCK_SECTORS, BatchNo, CopyNo, Epoch, Generation, Pba, ZoneIndex};
use crate::block::{Data, DeviceId, Limits, Reason};
use crate::prelude::*;
use crate::sector::Sector;
use crate::task::Io;
use crate::zone::{Condition, Zone, ZoneKind};
use alloc::collections::BTreeMap;

/// A device that the volume was given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub device: DeviceId,
    pub limits: Limits,
}

/// A root that was found, and where.
#[derive(Clone, Debug)]
pub(super) struct FoundRoot {
    pub header: Header,
    pub root: Root,
    /// The block of its device that it begins at.
    pub block: u64,
}

/// What was found on a device.
struct Seen {
    given: Given,
    zones: Vec<Zone>,
    /// Its roots that are whole, in whichever zone.
    roots: Vec<FoundRoot>,
    /// The version of one that is of another than is known.
    unknown: Option<u16>,
}

/// Loads the volume when it is wanted.
pub(super) async fn run(shared: Shared, io: Io, given: Vec<Given>, capacity: u64) {
    let wanted = shared.borrow().signals.wanted.clone();
    wanted.until(|| (shared.borrow().readiness == Readiness::Loading).then_some(())).await;
    let result = load(&shared, &io, given, capacity).await;
    let mut state = shared.borrow_mut();
    let is_loading = state.readiness == Readiness::Loading;
    match result {
        Ok(()) if is_loading => state.readiness = Readiness::Ready,
        Ok(()) => {}
        Err(Reason::VolumeFailed(why)) => state.readiness = Readiness::Failed(why.to_string()),
        Err(reason) => state.readiness = Readiness::Failed(format!("{reason}")),
    }
    let early = core::mem::take(&mut state.early);
    state.back.extend(early);
    for signal in [&state.signals.changes, &state.signals.flushes, &state.signals.progress, &state.signals.nodes] {
        signal.notify();
    }
    state.is_notified = true;
}

fn failed(what: impl Into<String>) -> Reason {
    Reason::VolumeFailed(what.into().into())
}

async fn load(shared: &Shared, io: &Io, given: Vec<Given>, capacity: u64) -> Result<(), Reason> {
    let mut seen = Vec::new();
    let zone_blocks = given.iter().find_map(|given| zone_blocks_of(&given.limits));
    let zone_blocks = zone_blocks.ok_or_else(|| failed("a volume needs a zoned device"))?;
    for given in given {
        seen.push(look(io, given, zone_blocks).await?);
    }
    let newest = newest(&seen)?;
    if newest.root.capacity != capacity {
        let (has, wanted) = (newest.root.capacity * 8, capacity * 8);
        return Err(failed(format!("the volume has {has} sectors, and the table says {wanted}")));
    }
    let (disks, roots) = arrange(&newest, &mut seen)?;
    let since = Since { epoch: newest.header.batch.epoch, cut: newest.root.cut, copies: newest.root.copies };
    {
        let mut state = shared.borrow_mut();
        state.id = newest.header.batch.set;
        state.epoch = since.epoch;
        (state.capacity, state.reserve) = (newest.root.capacity, newest.root.reserve);
        state.copies = since.copies;
        state.disks = disks;
        state.tables.roots = roots;
        state.tables.root = newest.header.batch.number;
        state.order = Order::after(since.cut);
    }
    read_tables(shared, &newest.root).await?;
    let pointers = pointers(shared, &seen);
    let replay = replay(shared, &newest.root, &since, &pointers).await?;
    clear_rest(shared, &pointers).await?;
    begin_life(shared, &since, replay).await
}

/// Reads zones and roots of a device. A regular one is cut into zones as long as those of the others.
async fn look(io: &Io, given: Given, zone_blocks: u64) -> Result<Seen, Reason> {
    let count = given.limits.zones() as usize;
    let zones = if count == 0 { Vec::new() } else { io.report(given.device, Sector::ZERO, count).await? };
    let mut seen = Seen { given, zones, roots: Vec::new(), unknown: None };
    for number in 0..ROOT_ZONES {
        let zone = seen.zones.get(number as usize);
        let room = zone.map_or(zone_blocks, |zone| zone.capacity / u64::from(BLOCK_SECTORS));
        read_roots(io, &mut seen, number * zone_blocks, room as u32).await;
    }
    Ok(seen)
}

fn zone_blocks_of(limits: &Limits) -> Option<u64> {
    limits.zoned.as_ref().map(|zoned| u64::from(zoned.zone_sectors / BLOCK_SECTORS))
}

/// Zones of each device that have roots: the first ones.
pub(super) const ROOT_ZONES: u64 = 2;

/// Reads roots from a zone on until there are no more.
async fn read_roots(io: &Io, seen: &mut Seen, zone: u64, room: u32) {
    let mut at = 0;
    while at + ROOT_BLOCKS as u32 <= room {
        let block = zone + u64::from(at);
        let Ok(data) = super::disks::memory(ROOT_BLOCKS) else { return };
        let sector = Sector(block * u64::from(BLOCK_SECTORS));
        let result = io.read(seen.given.device, sector, data.clone()).ok().await;
        let bytes = if result.is_ok() { data.to_vec() } else { return };
        let Some(found) = decode_root(&bytes, block) else {
            seen.unknown = seen.unknown.or(Header::unknown_version(&bytes));
            return;
        };
        // Behind the newest root of a zone without a pointer lie older ones.
        let is_older = seen.roots.last().is_some_and(|last| {
            last.block + ROOT_BLOCKS as u64 == block && last.header.batch.number > found.header.batch.number
        });
        if is_older {
            return;
        }
        seen.roots.push(found);
        at += ROOT_BLOCKS as u32;
    }
}

/// Why such a volume is refused.
pub(super) fn of_unknown_version(version: u16) -> String {
    format!("the volume is of version {version} of the format, and this program knows version 1")
}

pub(super) fn decode_root(bytes: &[u8], block: u64) -> Option<FoundRoot> {
    let (header, blocks) = Header::decode(bytes).ok()?;
    let payload = &bytes[blocks * BLOCK_BYTES..];
    let is_whole = payload.chunks(BLOCK_BYTES).map(Checksum::of).eq(header.checksums.iter().copied());
    let root = Root::decode(payload).ok().filter(|_| header.kind == BatchKind::Root && is_whole)?;
    Some(FoundRoot { header, root, block })
}

fn newest(seen: &[Seen]) -> Result<FoundRoot, Reason> {
    if let Some(version) = seen.iter().find_map(|seen| seen.unknown) {
        return Err(failed(of_unknown_version(version)));
    }
    let all = seen.iter().flat_map(|seen| &seen.roots);
    let newest = all.max_by_key(|found| found.header.batch.number).cloned();
    newest.ok_or_else(|| failed("no root was found: it is no volume, or all its roots are lost"))
}

/// The devices in the order of the root, whatever the order in which they were given.
fn arrange(newest: &FoundRoot, seen: &mut Vec<Seen>) -> Result<(Disks, Vec<RootPlace>), Reason> {
    let Root { members, zone_blocks, .. } = &newest.root;
    let mut disks = Disks { set: Set::new(*zone_blocks, members.clone()), ..Disks::default() };
    let (mut roots, mut ordered) = (Vec::new(), Vec::new());
    for member in members {
        let place = seen.iter().position(|seen| is_member(seen, newest, member));
        let Some(place) = place else {
            let id = u128::from_be_bytes(member.id);
            return Err(failed(format!("the device {id:032x} of the set is missing")));
        };
        let device = seen.swap_remove(place);
        let shapes = shapes(&device, member, *zone_blocks)?;
        let first = disks.set.zone_of(member.first).0.0 as usize;
        disks.zones.resize(disks.zones.len().max(first), Shape::default());
        disks.zones.extend(shapes);
        disks.all.push(Disk::new(device.given.device, &device.given.limits));
        roots.push(root_place(&device, member, *zone_blocks));
        ordered.push(device);
    }
    if !seen.is_empty() {
        return Err(failed("a device was given that is not of the set"));
    }
    *seen = ordered;
    Ok((disks, roots))
}

/// Whether this is that device of the set: its own roots say where it is.
fn is_member(seen: &Seen, newest: &FoundRoot, member: &Member) -> bool {
    let is_it = |found: &FoundRoot| found.header.batch.set == newest.header.batch.set && found.is_of(member);
    member.state != MemberState::Gone && seen.roots.iter().any(is_it)
}

impl FoundRoot {
    /// Whether it was written to that device. One that was to be added where this one is now, and never was, has roots of the set as well.
    fn is_of(&self, member: &Member) -> bool {
        let is_listed = |own: &Member| (own.id, own.first) == (member.id, member.first);
        self.header.batch.place == member.first + self.block && self.root.members.iter().any(is_listed)
    }
}

fn shapes(device: &Seen, member: &Member, zone_blocks: u32) -> Result<Vec<Shape>, Reason> {
    let count = member.zones as usize;
    if device.zones.is_empty() {
        return Ok(vec![Shape { room: zone_blocks, is_sequential: false }; count]);
    }
    if device.zones.len() < count {
        return Err(failed(format!("a device has {} zones, and the set says {count}", device.zones.len())));
    }
    let shape = |zone: &Zone| Shape {
        room: (zone.capacity / u64::from(BLOCK_SECTORS)) as u32,
        is_sequential: zone.kind != ZoneKind::Conventional,
    };
    Ok(device.zones[..count].iter().map(shape).collect())
}

/// Where the next root of a device goes.
fn root_place(device: &Seen, member: &Member, zone_blocks: u32) -> RootPlace {
    let first = (member.first.0 / u64::from(zone_blocks)) as u32;
    let zones = [0, 1].map(|number| (number < member.zones).then_some(ZoneIndex(first + number)));
    let newest = device.roots.iter().max_by_key(|found| found.header.batch.number);
    let Some(newest) = newest else { return RootPlace { zones, at: 1, next: None } };
    let (at, offset) = (newest.block / u64::from(zone_blocks), newest.block % u64::from(zone_blocks));
    let behind = offset + ROOT_BLOCKS as u64;
    let pointer = device.zones.get(at as usize).filter(|zone| zone.kind != ZoneKind::Conventional);
    let is_clean = pointer.is_none_or(|zone| {
        zone.cond != Condition::Full && zone.wp.0 - zone.start.0 == behind * u64::from(BLOCK_SECTORS)
    });
    RootPlace { zones, at: at as usize, next: is_clean.then_some(behind as u32) }
}

/// Reads the tables and runs that a root names.
async fn read_tables(shared: &Shared, root: &Root) -> Result<(), Reason> {
    let (zones, cached) = {
        let state = shared.borrow();
        (state.disks.zones.len(), state.options.cached_extents)
    };
    let mut rows = vec![ZoneRow::default(); zones];
    let mut map = Map::new(root.capacity, cached);
    let leaves = map.leaves.len();
    let (of_zones, of_leaves) = (zones_of_piece(zones), leaves_of_piece(leaves));
    let mut runs = Vec::new();
    for piece in &root.pieces {
        let bytes = read_piece(shared, piece).await?;
        let bad = || failed(format!("the table at block {} cannot be", piece.place));
        match piece.kind {
            PieceKind::Zones => {
                let to = rows.chunks_mut(of_zones).nth(piece.number as usize).ok_or_else(bad)?;
                let from =
                    ZoneRow::decode_all(&bytes[..(to.len() * ZoneRow::BYTES).min(bytes.len())]).ok_or_else(bad)?;
                (to.len() == from.len()).then(|| to.copy_from_slice(&from)).ok_or_else(bad)?;
            }
            PieceKind::Leaves => {
                let to = map.leaves.chunks_mut(of_leaves).nth(piece.number as usize).ok_or_else(bad)?;
                let from =
                    LeafRow::decode_all(&bytes[..(to.len() * LeafRow::BYTES).min(bytes.len())]).ok_or_else(bad)?;
                (to.len() == from.len()).then(|| to.copy_from_slice(&from)).ok_or_else(bad)?;
            }
            PieceKind::Run => runs.push((*piece, bytes)),
        }
    }
    for place in root_zone_numbers(shared) {
        rows[place.0 as usize].used_for = ZoneUse::Roots;
    }
    {
        let mut state = shared.borrow_mut();
        retire(&mut rows, &state.disks.zones);
        state.clock = rows.iter().map(|row| row.closed_at).max().unwrap_or(0);
        state.zones = Zones::new(rows, Keep::default());
        state.map = map;
        state.tables.pieces = root.pieces.iter().filter(|piece| piece.kind != PieceKind::Run).copied().collect();
    }
    for (piece, bytes) in runs {
        read_run(shared, piece, &bytes).await?;
    }
    count_map(shared);
    Ok(())
}

/// Zones that cannot be written are not free.
fn retire(rows: &mut [ZoneRow], shapes: &[Shape]) {
    for (row, shape) in rows.iter_mut().zip(shapes) {
        // A zone was open when the root was made: it is replayed, and takes no more.
        if row.used_for == ZoneUse::Open {
            row.used_for = ZoneUse::Full;
        }
        if shape.room == 0 && row.used_for == ZoneUse::Free {
            row.used_for = ZoneUse::Dead;
        }
    }
}

fn root_zone_numbers(shared: &Shared) -> Vec<ZoneIndex> {
    shared.borrow().tables.roots.iter().flat_map(|place| place.zones).flatten().collect()
}

async fn read_piece(shared: &Shared, piece: &Piece) -> Result<Vec<u8>, Reason> {
    let bytes = super::headers::read(shared, piece.place, piece.blocks).await?.to_vec();
    if Checksum::of(&bytes) != piece.checksum {
        return Err(failed(format!("the table at block {} is damaged", piece.place)));
    }
    Ok(bytes)
}

/// Reads all pages of a run, and notes what it has.
async fn read_run(shared: &Shared, piece: Piece, bytes: &[u8]) -> Result<(), Reason> {
    let number = RunNo(piece.number as u8);
    let pages = PageRow::decode_all(bytes).ok_or_else(|| failed("the pages of a run are not in order"))?;
    for row in pages.chunk_by(|one, next| one.place + 1 == next.place) {
        let data = super::headers::read(shared, row[0].place, row.len() as u32).await?;
        for (at, page) in row.iter().enumerate() {
            let bytes = data.slice(at * BLOCK_BYTES, BLOCK_BYTES).to_vec();
            let damaged = |error| failed(format!("block {} of the map: {error}", page.place));
            let extents = Node::Page(page.place).decode(&bytes).map_err(damaged)?;
            index_page(&mut shared.borrow_mut().map.index, number, &extents);
        }
    }
    shared.borrow_mut().map.runs.push(Run { number, pages, piece });
    Ok(())
}

/// Counts what of the map is in each zone.
fn count_map(shared: &Shared) {
    let mut state = shared.borrow_mut();
    let State { map, tables, zones, disks, .. } = &mut *state;
    let mut count = |place: Pba, blocks: u32| zones.count_map(disks.set.zone_of(place).0, blocks.into());
    tables.pieces.iter().chain(map.runs.iter().map(|run| &run.piece)).for_each(|it| count(it.place, it.blocks));
    map.runs.iter().flat_map(|run| &run.pages).for_each(|page| count(page.place, 1));
    map.leaves.iter().filter(|row| row.blocks > 0).for_each(|row| count(row.place, row.blocks.into()));
}

/// Blocks up to which a zone is written, where that can be known.
fn pointers(shared: &Shared, seen: &[Seen]) -> BTreeMap<ZoneIndex, Zone> {
    let state = shared.borrow();
    let mut pointers = BTreeMap::new();
    for (member, seen) in seen.iter().enumerate() {
        let first = state.disks.set.zones(member).start.0;
        let sequential =
            (first..).map(ZoneIndex).zip(&seen.zones).filter(|(_, zone)| zone.kind != ZoneKind::Conventional);
        pointers.extend(sequential.map(|(index, zone)| (index, *zone)));
    }
    pointers
}

/// Finds the batches behind the root, and does again what counts of them. The last copies.
async fn replay(
    shared: &Shared,
    root: &Root,
    since: &Since,
    pointers: &BTreeMap<ZoneIndex, Zone>,
) -> Result<CopyNo, Reason> {
    for open in &root.open {
        shorten(shared, open, pointers).await;
    }
    let named: Vec<ZoneIndex> = {
        let state = shared.borrow();
        let named = root.open.iter().map(|open| state.disks.set.zone_of(open.start).0);
        let is_empty = |zone: &ZoneIndex| {
            pointers.get(zone).is_some_and(|zone| zone.cond == Condition::Empty || zone.written_up_to() == zone.start)
        };
        named.chain(state.zones.all_free()).filter(|zone| !is_empty(zone)).collect()
    };
    let mut found = Vec::new();
    for zone in named {
        let batches = chain(shared, zone, Some(since.epoch)).await?;
        adopt(shared, zone, &batches);
        found.extend(batches.into_iter().map(|batch| batch.header));
    }
    let sabotaged = shared.borrow().guards.gone();
    let replay = Replay::choose(since, found, sabotaged.replay_over_gaps);
    let last = replay.copies.last().map_or(since.copies, |header| CopyNo(header.batch.number));
    let mut state = shared.borrow_mut();
    replay.users.into_iter().for_each(|header| state.replay_users(header));
    let cut = replay_cut(&state, since);
    replay.copies.into_iter().for_each(|header| state.replay_copies(header, cut));
    if !sabotaged.keep_epoch {
        state.zones.forget_behind(cut, last);
    }
    Ok(last)
}

/// A zone that was full, with batches that the root does not cover, may have lost the end of them: its batches end where headers do, or it
/// could never be cleaned.
async fn shorten(shared: &Shared, open: &OpenZone, pointers: &BTreeMap<ZoneIndex, Zone>) {
    let (zone, written) = {
        let state = shared.borrow();
        let (zone, _) = state.disks.set.zone_of(open.start);
        (zone, state.zones.rows()[zone.0 as usize].written)
    };
    let Some(on_disk) = pointers.get(&zone) else { return };
    let pointer = ((on_disk.written_up_to().0 - on_disk.start.0) / u64::from(BLOCK_SECTORS)) as u32;
    let is_dead = matches!(on_disk.cond, Condition::ReadOnly | Condition::Offline);
    if pointer >= written || is_dead {
        return;
    }
    shared.borrow_mut().zones.end_at(zone, pointer);
    if let Ok(found) = chain(shared, zone, None).await {
        shared.borrow_mut().zones.end_at(zone, found.last().map_or(0, |last| last.end));
    }
}

fn replay_cut(state: &State, since: &Since) -> BatchNo {
    state.order.counted().max(since.cut)
}

/// A zone has batches that may count.
fn adopt(shared: &Shared, zone: ZoneIndex, batches: &[Found]) {
    let mut state = shared.borrow_mut();
    let Some(end) = batches.last().map(|last| last.end) else { return };
    let Some((pool, generation)) = batches.iter().find_map(pool_of) else { return };
    if state.zones.rows()[zone.0 as usize].used_for == ZoneUse::Free {
        state.zones.adopt(zone, generation, pool, end);
        let State { map, zones, disks, tables, .. } = &mut *state;
        recount_map(zone, map, zones, disks, tables);
    } else {
        state.zones.set_written(zone, end);
    }
    for batch in batches {
        let number = batch.header.batch.number;
        match batch.header.kind {
            BatchKind::User(_) => state.zones.note(zone, BatchNo(number), CopyNo(0)),
            BatchKind::Copies(_) => state.zones.note(zone, BatchNo(0), CopyNo(number)),
            _ => {}
        }
    }
}

/// Whose a zone is that has this batch, if it says.
fn pool_of(batch: &Found) -> Option<(Pool, Generation)> {
    let pool = match batch.header.kind {
        BatchKind::User(_) => Pool::Users,
        BatchKind::Copies(_) => Pool::Cleaning,
        BatchKind::Map => Pool::Map,
        BatchKind::Root | BatchKind::Footer | BatchKind::Filler => return None,
    };
    Some((pool, batch.header.batch.generation))
}

/// The same for one zone, which nobody knew.
fn recount_map(zone: ZoneIndex, map: &Map, zones: &mut Zones, disks: &Disks, tables: &super::state::Tables) {
    let mut count = |place: Pba, blocks: u32| {
        if disks.set.zone_of(place).0 == zone {
            zones.count_map(zone, blocks.into());
        }
    };
    tables.pieces.iter().chain(map.runs.iter().map(|run| &run.piece)).for_each(|it| count(it.place, it.blocks));
    map.runs.iter().flat_map(|run| &run.pages).for_each(|page| count(page.place, 1));
    map.leaves.iter().filter(|row| row.blocks > 0).for_each(|row| count(row.place, row.blocks.into()));
}

impl State {
    fn slot_of(&self, header: &Header) -> Slot {
        let (zone, _) = self.disks.set.zone_of(header.batch.place);
        Slot { zone, place: header.batch.place, generation: header.batch.generation }
    }

    fn replay_users(&mut self, header: Header) {
        let slot = self.slot_of(&header);
        let number = header.batch.number;
        let Header { kind, checksums, .. } = header;
        self.order = Order::after(BatchNo(number));
        self.apply(&slot, &Sealed { number, kind, checksums, payload: Vec::new() });
    }

    /// A copy counts if its block was not written again since, or if that is what was copied.
    fn replay_copies(&mut self, header: Header, cut: BatchNo) {
        let slot = self.slot_of(&header);
        let BatchKind::Copies(records) = &header.kind else { return };
        let blocks = Header::blocks_of(header.kind.record_bytes(), header.checksums.len()) as u64;
        for ((record, checksum), at) in records.iter().zip(&header.checksums).zip(blocks..) {
            let known = self.map.pending.find(record.lba);
            let place = known.map(|extent| extent.place((record.lba - extent.lba) as u32).map(|(place, _)| place));
            let counts = place.is_none_or(|place| place == Some(record.from)) && record.written <= cut;
            if counts || self.guards.gone().replay_copies_unconditional {
                self.map.pending.put(Extent::at(record.lba, slot.place + at, &[*checksum]));
                self.zones.count(slot.zone, 1);
            }
        }
    }
}

/// Free zones that have something in them which counts for nothing are emptied, and no zone is left active.
async fn clear_rest(shared: &Shared, pointers: &BTreeMap<ZoneIndex, Zone>) -> Result<(), Reason> {
    let io = shared.borrow().io.clone();
    for (index, zone) in pointers {
        let (row, spot) = {
            let state = shared.borrow();
            let spot = state.disks.spot(state.disks.set.start(*index)).map(|(disk, sector)| (disk.device, sector));
            (state.zones.rows()[index.0 as usize], spot)
        };
        let (device, sector) = spot?;
        let is_dead = matches!(zone.cond, Condition::ReadOnly | Condition::Offline);
        let is_empty = zone.cond == Condition::Empty;
        match row.used_for {
            ZoneUse::Free if is_dead => shared.borrow_mut().zones.die(*index),
            ZoneUse::Free if !is_empty => {
                let stale = stale_generation(shared, *index).await;
                shared.borrow_mut().zones.outgrow(*index, stale);
                if io.reset(device, sector).ok().await.is_err() {
                    shared.borrow_mut().zones.die(*index);
                }
            }
            ZoneUse::Full if !is_empty && !is_dead && zone.cond != Condition::Full => {
                let _ = io.finish(device, sector).ok().await;
            }
            _ => {}
        }
    }
    // What lies in zones without a pointer stays, and the next generation is higher.
    let others: Vec<ZoneIndex> = {
        let state = shared.borrow();
        state.zones.all_free().filter(|zone| !pointers.contains_key(zone)).collect()
    };
    for zone in others {
        let stale = stale_generation(shared, zone).await;
        shared.borrow_mut().zones.outgrow(zone, stale);
    }
    flush_disks(shared).await
}

/// The generation of what lies at the start of a zone.
async fn stale_generation(shared: &Shared, zone: ZoneIndex) -> Generation {
    let start = shared.borrow().disks.set.start(zone);
    let data: Result<Data, Reason> = super::headers::read(shared, start, 1).await;
    let id = shared.borrow().id;
    let header = data.ok().and_then(|data| Header::decode(&data.to_vec()).ok());
    header.filter(|(header, _)| header.batch.set == id).map_or(Generation(0), |(header, _)| header.batch.generation)
}

/// Writes a root of a new life: from then on what the one before left behind the cut counts for nothing.
async fn begin_life(shared: &Shared, since: &Since, copies: CopyNo) -> Result<(), Reason> {
    {
        let mut state = shared.borrow_mut();
        state.copies = copies;
        state.since = state.counted();
        if !state.guards.gone().keep_epoch {
            state.epoch = Epoch(since.epoch.0 + 1);
        }
    }
    checkpoint(shared).await?;
    let mut state = shared.borrow_mut();
    let keep = state.kept();
    state.zones.keep(keep);
    Ok(())
}
