//! The start: the newest root, what it names, and what of the batches behind it counts.

use super::checkpoint::{checkpoint, index_extents, leaves_of_piece, reset_zone, zones_of_piece};
use super::disks::{Disk, Disks, Shape};
use super::flush::flush_disks;
use super::format::{
    BatchKind, Checksum, Header, LeafRow, Life, Member, MemberState, OpenZone, PageRow, Piece, PieceKind, ROOT_BLOCKS,
    Root, ZoneRow, ZoneUse, decode_page,
};
use super::headers::{Chain, Found, chain};
use super::lanes::{Device, Lanes};
use super::log::{Keep, Order, Sealed, Stream, UsersZones, Zones};
use super::map::{Extent, Map, Run, RunNo, pages_from};
use super::older_copies::{blocks_written, older_roots, refuse_older_copies};
use super::replay::{Replay, Since, apply_copies};
use super::roots::{FoundRoot, Given, Seen, erase_torn, failed, hurt, look, newest};
use super::set::Set;
use super::state::{Readiness, RootPlace, Shared, Slot, State};
use super::{BLOCK_BYTES, BLOCK_SECTORS, BatchNo, CopyNo, Generation, Pba, ZoneIndex};
use crate::block::{Limits, Reason};
use crate::prelude::*;
use crate::task::Io;
use crate::zone::{Condition, Zone, ZoneKind};
use alloc::collections::{BTreeMap, BTreeSet};

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

async fn load(shared: &Shared, io: &Io, given: Vec<Given>, capacity: u64) -> Result<(), Reason> {
    let mut seen = Vec::new();
    let zone_blocks = given.iter().find_map(|given| zone_blocks_of(&given.limits));
    let zone_blocks = zone_blocks.ok_or_else(|| failed("a volume needs a zoned device"))?;
    for given in given {
        seen.push(look(io, given, zone_blocks).await?);
    }
    let newest = newest(&seen)?;
    if !shared.borrow().may_be(capacity, &newest.root) {
        let (has, wanted) = (newest.root.capacity * 8, capacity * 8);
        let what = format!("the volume has {has} sectors, and its table line says {wanted}: write {has} there");
        return Err(failed(what));
    }
    let (disks, roots) = arrange(&newest, &mut seen)?;
    let since = Since { epoch: newest.header.batch.epoch, cut: newest.root.cut, copies: newest.root.copies };
    {
        let mut state = shared.borrow_mut();
        state.id = newest.header.batch.set;
        (state.epoch, state.lives) = (since.epoch, newest.header.lives().to_vec());
        (state.capacity, state.reserve) = (newest.root.capacity, newest.root.reserve);
        state.copies = since.copies;
        state.disks = disks;
        state.tables.roots = roots;
        state.tables.root = newest.header.batch.number;
        state.tables.root_place = newest.header.batch.place;
        state.order = Order::after(since.cut);
    }
    read_tables(shared, &newest.root).await.map_err(|reason| match reason {
        Reason::VolumeFailed(why) => failed(format!("{why}{}", older_roots(&newest, &seen))),
        other => other,
    })?;
    let pointers = pointers(shared, &seen);
    refuse_older_copies(shared, &newest, &seen, &pointers).await?;
    let replayed = replay(shared, &newest, &since, &pointers).await?;
    shared.borrow_mut().begin_evacuation(capacity)?;
    let begun = match settle(shared, io, &seen, &pointers).await {
        Ok(()) => begin_life(shared, &since, &replayed).await,
        Err(reason) => Err(reason),
    };
    // All that counts was found: it can be read.
    begun.or_else(|reason| {
        shared.borrow_mut().degrade(format!("no root could be written: {reason}"));
        Ok(())
    })
}

fn zone_blocks_of(limits: &Limits) -> Option<u64> {
    limits.zoned.as_ref().map(|zoned| u64::from(zoned.zone_sectors / BLOCK_SECTORS))
}

/// The devices in the order of the root, whatever the order in which they were given.
fn arrange(newest: &FoundRoot, seen: &mut Vec<Seen>) -> Result<(Disks, Vec<RootPlace>), Reason> {
    let Root { members, zone_blocks, .. } = &newest.root;
    let mut disks = Disks { set: Set::new(*zone_blocks, members.clone()), ..Disks::default() };
    let (mut roots, mut ordered) = (Vec::new(), Vec::new());
    for (number, member) in members.iter().enumerate() {
        if member.state == MemberState::Gone {
            disks.all.push(None);
            roots.push(RootPlace::default());
            continue;
        }
        let place = seen.iter().position(|seen| is_member(seen, newest, member));
        let Some(place) = place else {
            let id = u128::from_be_bytes(member.id);
            let all = members.iter().filter(|member| member.state != MemberState::Gone).count();
            let what = format!("disk {id:032x} of the volume is missing: its table line has to name all {all} disks");
            return Err(failed(what));
        };
        let mut device = seen.swap_remove(place);
        device.member = number;
        let shapes = shapes(&device, member, *zone_blocks)?;
        let first = disks.set.zone_of(member.first).0.0 as usize;
        disks.zones.resize(disks.zones.len().max(first), Shape::default());
        disks.zones.extend(shapes);
        disks.all.push(Some(Disk::new(device.given.device, &device.given.limits)));
        roots.push(root_place(&device, member, *zone_blocks));
        ordered.push(device);
    }
    if !seen.is_empty() {
        return Err(failed("a device was given that is not of the set"));
    }
    // The last ones may be of a device that is gone.
    let end = members.len().checked_sub(1).map_or(0, |last| disks.set.zones(last).end.0 as usize);
    disks.zones.resize(end, Shape::default());
    *seen = ordered;
    disks.sort();
    disks.least_room = disks.zones.iter().map(|shape| shape.writable()).filter(|room| *room > 0).min().unwrap_or(1);
    Ok((disks, roots))
}

/// Whether this is that device of the set: its own roots say where it is.
fn is_member(seen: &Seen, newest: &FoundRoot, member: &Member) -> bool {
    let is_it = |found: &FoundRoot| found.header.batch.set == newest.header.batch.set && found.is_of(member);
    seen.roots.iter().any(is_it)
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
        return Ok(vec![Shape::of_regular(zone_blocks); count]);
    }
    if device.zones.len() < count {
        return Err(failed(format!("a device has {} zones, and the set says {count}", device.zones.len())));
    }
    Ok(device.zones[..count].iter().map(|zone| Shape::of(zone, zone_blocks)).collect())
}

/// Where the next root of a device goes.
fn root_place(device: &Seen, member: &Member, zone_blocks: u32) -> RootPlace {
    let first = (member.first.0 / u64::from(zone_blocks)) as u32;
    let zones = [0, 1].map(|number| (number < member.zones).then_some(ZoneIndex(first + number)));
    let newest = device.roots.iter().max_by_key(|found| found.header.batch.number);
    let Some(newest) = newest else { return RootPlace { zones, at: 1, behind: 0, takes_more: false } };
    let (at, offset) = (newest.block / u64::from(zone_blocks), newest.block % u64::from(zone_blocks));
    let behind = offset + ROOT_BLOCKS as u64;
    let pointer = device.zones.get(at as usize).filter(|zone| zone.kind != ZoneKind::Conventional);
    let takes_more = pointer.is_none_or(|zone| {
        zone.cond != Condition::Full && zone.wp.0 - zone.start.0 == behind * u64::from(BLOCK_SECTORS)
    });
    RootPlace { zones, at: at as usize, behind: behind as u32, takes_more }
}

/// Reads the tables and runs that a root names.
async fn read_tables(shared: &Shared, root: &Root) -> Result<(), Reason> {
    let (zones, cached) = {
        let state = shared.borrow();
        (state.disks.zones.len(), state.options.cached_extents)
    };
    let mut rows = vec![ZoneRow::default(); zones];
    let mut map = Map::new(root.capacity, root.leaf_size, cached);
    let leaves = map.leaves.len();
    let (of_zones, of_leaves) = (zones_of_piece(zones), leaves_of_piece(leaves));
    let mut runs = Vec::new();
    for (piece, bytes) in read_pieces(shared, &root.pieces).await? {
        let bad = || hurt(format!("the table at block {} cannot be", piece.place));
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
            PieceKind::Run => runs.push((piece, bytes)),
        }
    }
    for place in root_zone_numbers(shared) {
        rows[place.0 as usize].used_for = ZoneUse::Roots;
    }
    {
        let mut state = shared.borrow_mut();
        let gone = state.disks.set.zones_that_are(MemberState::Gone);
        gone.for_each(|zone| rows[zone.0 as usize] = ZoneRow { used_for: ZoneUse::Dead, ..ZoneRow::default() });
        retire(&mut rows, &state.disks.zones);
        state.clock = rows.iter().map(|row| row.closed_at).max().unwrap_or(0);
        let has_pointer = state.disks.zones.iter().map(|shape| shape.is_sequential).collect();
        let named = root.open.iter().map(|open| state.disks.set.zone_of(open.start).0).collect();
        let zones = Zones::new(rows, Keep::default()).with_pointers(has_pointer, &named);
        state.zones = zones.with_fronts(&state.disks.fronts);
        state.lanes = Lanes::new(&state.devices());
        let is_told = state.lanes.of_users().any(|(_, lane)| lane.is_in_order()) && !state.options.one_stream;
        let least = is_told.then_some(state.options.in_order_blocks);
        state.changes.tell_apart(least);
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
        if shape.writable() == 0 && row.used_for == ZoneUse::Free {
            row.used_for = ZoneUse::Dead;
        }
    }
}

fn root_zone_numbers(shared: &Shared) -> Vec<ZoneIndex> {
    shared.borrow().tables.roots.iter().flat_map(|place| place.zones).flatten().collect()
}

/// Reads these, those that lie side by side at once.
async fn read_pieces(shared: &Shared, pieces: &[Piece]) -> Result<Vec<(Piece, Vec<u8>)>, Reason> {
    let mut found = Vec::with_capacity(pieces.len());
    for row in pieces.chunk_by(|one, next| one.place + u64::from(one.blocks) == next.place) {
        let blocks = row.iter().fold(0_u32, |all, piece| all.saturating_add(piece.blocks));
        let start = row[0].place;
        let data = super::headers::read(shared, start, blocks).await;
        let data = data.map_err(|reason| unreadable_map(start, &reason))?;
        for piece in row {
            let at = (piece.place - start) as usize * BLOCK_BYTES;
            let bytes = data.slice(at, piece.blocks as usize * BLOCK_BYTES).to_vec();
            if Checksum::of(&bytes) != piece.checksum {
                return Err(hurt(format!("the table at block {} is damaged", piece.place)));
            }
            found.push((*piece, bytes));
        }
    }
    Ok(found)
}

fn unreadable_map(place: Pba, reason: &Reason) -> Reason {
    hurt(format!("block {place} of the map cannot be read: {reason}"))
}

/// Reads pages of a run, and notes what it still tells.
async fn read_run(shared: &Shared, piece: Piece, bytes: &[u8]) -> Result<(), Reason> {
    let number = RunNo(piece.number as u8);
    let pages = PageRow::decode_all(bytes).ok_or_else(|| hurt("the pages of a run are not in order"))?;
    let run = Run { number, known_as: number.into(), pages, piece };
    let size = shared.borrow().map.leaf_size;
    let first = size.start(piece.first);
    read_pages(shared, pages_from(&run.pages, first), |extents| {
        let told = extents.iter().filter(|extent| extent.end() > first);
        let told: Vec<Extent> = told.map(|extent| extent.part(first, extent.end())).collect();
        index_extents(&mut shared.borrow_mut().map, number, told.iter().map(Extent::span));
    })
    .await?;
    shared.borrow_mut().map.runs.push(run);
    Ok(())
}

/// Reads pages of a run, contiguous ones at once, and passes the extents of each to `each`.
pub(super) async fn read_pages(
    shared: &Shared,
    pages: &[PageRow],
    mut each: impl FnMut(&[Extent]),
) -> Result<(), Reason> {
    for row in pages.chunk_by(|one, next| one.place + 1 == next.place) {
        let data = super::headers::read(shared, row[0].place, row.len() as u32).await;
        let data = data.map_err(|reason| unreadable_map(row[0].place, &reason))?;
        for (at, page) in row.iter().enumerate() {
            let bytes = data.slice(at * BLOCK_BYTES, BLOCK_BYTES).to_vec();
            let damaged = |error| hurt(format!("block {} of the map: {error}", page.place));
            each(&decode_page(page.place, &bytes).map_err(damaged)?);
        }
    }
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
    for seen in seen {
        let first = state.disks.set.zones(seen.member).start.0;
        let sequential =
            (first..).map(ZoneIndex).zip(&seen.zones).filter(|(_, zone)| zone.kind != ZoneKind::Conventional);
        pointers.extend(sequential.map(|(index, zone)| (index, *zone)));
    }
    pointers
}

/// What a start has found behind the root.
struct Replayed {
    /// The last copies.
    copies: CopyNo,
    /// Whether all of it counts.
    is_all: bool,
}

/// Finds the batches behind the root, and does again what counts of them.
async fn replay(
    shared: &Shared,
    newest: &FoundRoot,
    since: &Since,
    pointers: &BTreeMap<ZoneIndex, Zone>,
) -> Result<Replayed, Reason> {
    let root = &newest.root;
    for open in &root.open {
        shorten(shared, open, pointers).await;
    }
    let mut users = users_zones(shared, root);
    let (mut found, mut is_torn) = (Vec::new(), false);
    for zone in zones_beyond(shared, root, pointers) {
        let chained = chain(shared, zone, Some(since)).await;
        let Chain { found: batches, generation, is_torn: is_this } =
            chained.map_err(|reason| unreadable(zone, reason))?;
        is_torn |= is_this;
        let is_free = shared.borrow().zones.rows()[zone.0 as usize].used_for == ZoneUse::Free;
        if is_free && batches.is_empty() && is_named(shared, zone) {
            adopt_map(shared, zone).await?;
            continue;
        }
        let mut behind = batches.iter().map(|batch| &batch.header).filter(|header| is_free || since.is_before(header));
        behind.try_for_each(|header| refuse_lost(shared, header, newest, pointers))?;
        let end = match batches.last() {
            Some(last) => last.end,
            None if is_free => 0,
            // A tool has written the newest root, and begun a life in which there are no batches.
            None => end_of(&all_of(shared, zone).await?.found),
        };
        adopt(shared, zone, &batches, end);
        // Whatever else lies in it: the next generation is higher.
        shared.borrow_mut().zones.outgrow(zone, generation);
        found.extend(batches.into_iter().map(|batch| batch.header));
    }
    {
        let State { disks, .. } = &*shared.borrow();
        users.find(&disks.set, root, &found, |zone| disks.shape(zone).is_sequential);
    }
    let sabotaged = shared.borrow().guards.gone();
    let replay = Replay::choose(since, found, sabotaged.replay_over_gaps);
    refuse_gone(shared, &users, replay.behind_gap, pointers)?;
    let last = replay.copies.last().map_or(since.copies, |header| CopyNo(header.batch.number));
    let mut state = shared.borrow_mut();
    replay.users.into_iter().for_each(|header| state.replay_users(header));
    let cut = replay_cut(&state, since);
    let is_all =
        !is_torn && replay.behind_gap == 0 && replay.copies.iter().all(|header| header.is_of_batches_up_to(cut));
    replay.copies.iter().for_each(|header| state.replay_copies(header, cut));
    if !sabotaged.keep_epoch {
        state.zones.forget_behind(cut, last);
    }
    Ok(Replayed { copies: last, is_all })
}

fn users_zones(shared: &Shared, root: &Root) -> UsersZones {
    let State { disks, zones, .. } = &*shared.borrow();
    UsersZones::named(&disks.set, root, |zone| zones.rows()[zone.0 as usize].used_for == ZoneUse::Free)
}

/// The batches of a zone, of whatever life.
async fn all_of(shared: &Shared, zone: ZoneIndex) -> Result<Chain, Reason> {
    {
        let mut state = shared.borrow_mut();
        let room = state.disks.shape(zone).room;
        state.zones.set_written(zone, room);
    }
    chain(shared, zone, None).await
}

/// The block behind the last of them.
fn end_of(found: &[Found]) -> u32 {
    found.last().map_or(0, |last| last.end)
}

/// Zones that may have batches behind a root. One that is gone has them if the root names it, and cannot be read.
fn zones_beyond(shared: &Shared, root: &Root, pointers: &BTreeMap<ZoneIndex, Zone>) -> Vec<ZoneIndex> {
    let state = shared.borrow();
    let named: BTreeSet<ZoneIndex> = root.open.iter().map(|open| state.disks.set.zone_of(open.start).0).collect();
    let has_none = |zone: &ZoneIndex| {
        pointers.get(zone).is_some_and(|zone| !zone.cond.is_dead() && zone.written_up_to() == zone.start)
    };
    let is_gone = |zone: &ZoneIndex| pointers.get(zone).is_some_and(|zone| zone.cond == Condition::Offline);
    let others = state.zones.all_free().filter(|zone| !is_gone(zone) && !named.contains(zone));
    named.iter().copied().chain(others).filter(|zone| !has_none(zone)).collect()
}

fn unreadable(zone: ZoneIndex, reason: Reason) -> Reason {
    match reason {
        Reason::VolumeFailed(_) => reason,
        reason => hurt(format!("zone {zone} may have batches behind the newest root, and cannot be read: {reason}")),
    }
}

/// A zone that was free when the root was made, and is gone since. It may have had batches of users if some are missing in the sequence,
/// or if none of the zones in which they would be takes more. Copies may be missing.
fn refuse_gone(
    shared: &Shared,
    users: &UsersZones,
    behind_gap: usize,
    pointers: &BTreeMap<ZoneIndex, Zone>,
) -> Result<(), Reason> {
    let state = shared.borrow();
    let condition = |zone| pointers.get(&zone).map(|zone| zone.cond);
    let gone = state.zones.all_free().find(|zone| condition(*zone) == Some(Condition::Offline));
    let gone = gone.filter(|_| !state.guards.gone().gone_is_empty);
    match gone.filter(|_| behind_gap > 0 || users.may_go_on_elsewhere(condition)) {
        Some(gone) => Err(hurt(format!("zone {gone} may have batches behind the newest root, and is gone"))),
        None => Ok(()),
    }
}

/// A batch behind the newest root that can be read, which was written when the newest one was in a zone that is gone since: what that one says
/// is lost. Of several devices each has a root. Batches that a root covers may be as old as their zone is open, and say nothing.
fn refuse_lost(
    shared: &Shared,
    batch: &Header,
    newest: &FoundRoot,
    pointers: &BTreeMap<ZoneIndex, Zone>,
) -> Result<(), Reason> {
    let state = shared.borrow();
    let (place, is_alone) = (batch.batch.root, state.disks.present().len() == 1);
    let is_gone = pointers.get(&state.disks.set.zone_of(place).0).is_some_and(|zone| zone.cond == Condition::Offline);
    if is_gone && place != newest.header.batch.root && is_alone {
        return Err(hurt(format!("the newest root was at block {place}, in a zone that is gone")));
    }
    Ok(())
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
    let pointer = blocks_written(on_disk);
    let is_dead = on_disk.cond.is_dead();
    if pointer >= written || is_dead {
        return;
    }
    shared.borrow_mut().zones.end_at(zone, pointer);
    if let Ok(chain) = chain(shared, zone, None).await {
        shared.borrow_mut().zones.end_at(zone, end_of(&chain.found));
    }
}

fn replay_cut(state: &State, since: &Since) -> BatchNo {
    state.order.counted().max(since.cut)
}

/// Whether a root names parts of the map in a zone.
fn is_named(shared: &Shared, zone: ZoneIndex) -> bool {
    let state = shared.borrow();
    state.map_blocks_in(zone) > 0 && !state.guards.gone().named_is_free
}

/// A zone that was free when the tables were written has parts of the map that the newest root names, and nothing of its life: a tool has
/// written that root, and begun a life in which there are no batches.
async fn adopt_map(shared: &Shared, zone: ZoneIndex) -> Result<(), Reason> {
    let Chain { found, generation, .. } = all_of(shared, zone).await?;
    adopt(shared, zone, &found, end_of(&found));
    shared.borrow_mut().zones.outgrow(zone, generation);
    Ok(())
}

/// A zone has batches that may count, and others up to `end`.
fn adopt(shared: &Shared, zone: ZoneIndex, batches: &[Found], end: u32) {
    let mut state = shared.borrow_mut();
    if state.zones.rows()[zone.0 as usize].used_for == ZoneUse::Free {
        let Some((stream, generation)) = batches.iter().find_map(stream_of) else { return };
        let blocks = state.map_blocks_in(zone);
        if stream == Stream::Map && blocks == 0 {
            // A checkpoint did not come to its root: nobody knows of what it has written.
            return;
        }
        state.zones.adopt(zone, generation, stream, end);
        state.zones.count_map(zone, blocks);
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

/// What is written to a zone that has this batch, if it says.
fn stream_of(batch: &Found) -> Option<(Stream, Generation)> {
    let stream = match batch.header.kind {
        BatchKind::User(_) => Stream::Users,
        BatchKind::Copies(_) => Stream::Copies,
        BatchKind::Map(_) => Stream::Map,
        BatchKind::Root(_) | BatchKind::Footer | BatchKind::Filler => return None,
    };
    Some((stream, batch.header.batch.generation))
}

impl State {
    /// The devices, as lanes see them.
    fn devices(&self) -> Vec<Device> {
        let members = self.disks.set.members().iter().enumerate();
        let device = |(member, it): (usize, &Member)| Device {
            is_used: it.state == MemberState::Used,
            is_front: self.disks.is_front(member),
            is_rotational: self.disks.does_rotate(member),
        };
        members.map(device).collect()
    }

    /// Blocks of a zone that are parts of the map, by the root.
    pub fn map_blocks_in(&self, zone: ZoneIndex) -> i64 {
        let State { map, tables, disks, .. } = self;
        let of = |place: Pba, blocks: u32| if disks.set.zone_of(place).0 == zone { i64::from(blocks) } else { 0 };
        let pieces = tables.pieces.iter().chain(map.runs.iter().map(|run| &run.piece));
        let pages = map.runs.iter().flat_map(|run| &run.pages).map(|page| of(page.place, 1));
        let leaves = map.leaves.iter().filter(|row| row.blocks > 0).map(|row| of(row.place, row.blocks.into()));
        pieces.map(|it| of(it.place, it.blocks)).chain(pages).chain(leaves).sum()
    }

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

    fn replay_copies(&mut self, header: &Header, cut: BatchNo) {
        let (zone, _) = self.disks.set.zone_of(header.batch.place);
        let counts = apply_copies(&mut self.map.pending, header, cut, self.guards.gone().replay_copies_unconditional);
        self.zones.count(zone, i64::from(counts));
    }
}

/// Makes the disks what was found on them. That is durable first: who wrote it may have ended before it was, and what is given up now may be needed if
/// the newest root is lost.
async fn settle(shared: &Shared, io: &Io, seen: &[Seen], pointers: &BTreeMap<ZoneIndex, Zone>) -> Result<(), Reason> {
    if !shared.borrow().guards.gone().start_unflushed {
        make_durable(shared).await?;
    }
    erase_torn(io, seen).await;
    empty_map_zones(shared).await;
    clear_rest(shared, pointers).await
}

/// Times that a start tries to flush the disks.
const MAX_FLUSHES: u32 = 4;

/// Flushes all disks. If that fails again and again, the volume is read-only, and what was found after a kill may be in their caches: a flush of users
/// reaches them.
async fn make_durable(shared: &Shared) -> Result<(), Reason> {
    let mut result = flush_disks(shared).await;
    for _ in 1..MAX_FLUSHES {
        if result.is_err() {
            result = flush_disks(shared).await;
        }
    }
    let mut state = shared.borrow_mut();
    if result.is_err() && !state.guards.gone().failed_flush_counts {
        state.disks.present().into_iter().for_each(|member| state.disks.doubt(member));
    }
    result
}

/// Zones in which the root names no part of the map are emptied, for the first root of this life: if each start needed a zone that the one before did not
/// give back as the power was lost, there would be none in the end.
async fn empty_map_zones(shared: &Shared) {
    let zones = shared.borrow().zones.without_map();
    for zone in zones {
        if reset_zone(shared, zone).await.is_ok() {
            let mut state = shared.borrow_mut();
            // No root has to say so before parts of the map are written there: without the next root they count for nothing.
            if state.was_reset(zone) {
                state.zones.root_is_durable(BTreeSet::from([zone]));
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
        let is_dead = zone.cond.is_dead();
        let is_empty = zone.cond == Condition::Empty;
        match row.used_for {
            ZoneUse::Free if is_dead => shared.borrow_mut().zones.die(*index),
            ZoneUse::Free if !is_empty && io.reset(device, sector).ok().await.is_err() => {
                shared.borrow_mut().zones.die(*index);
            }
            ZoneUse::Full if !is_empty && !is_dead && zone.cond != Condition::Full => {
                let _ = io.finish(device, sector).ok().await;
            }
            _ => {}
        }
    }
    flush_disks(shared).await
}

/// Writes a root of a new life: from then on what the one before left behind the cut counts for nothing.
async fn begin_life(shared: &Shared, since: &Since, replayed: &Replayed) -> Result<(), Reason> {
    {
        let mut state = shared.borrow_mut();
        state.copies = replayed.copies;
        state.since = state.counted();
        if !state.guards.gone().keep_epoch {
            state.epoch = since.epoch + 1;
        }
        if !replayed.is_all && !state.guards.gone().lives_forgotten {
            let life = Life { epoch: state.epoch, since: state.since };
            life.note(&mut state.lives);
        }
    }
    checkpoint(shared).await?;
    let mut state = shared.borrow_mut();
    let keep = state.kept();
    state.zones.keep(keep);
    // What this root gave back is free by the next one. Where there is none, as nobody writes, each start would take one more zone.
    state.is_checkpoint_wanted |= state.is_short() && state.zones.waiting() > 0;
    Ok(())
}
