//! How zones that take random writes are reclaimed.
//!
//! A copy never holds up the chunk's users: they go on reading and writing the zones that the chunk has, and what they change
//! meanwhile is not moved. When the copy is done, the new zone becomes the chunk's data zone and the old random one, if
//! something is left there, its buffer. So a copy that ends early is not lost either.
//!
//! ```text
//!   Move    R      ──> S'    dzone S'   bzone R with what was changed meanwhile, or none
//!   Append  S + B  ──> S     dzone S    bzone B with what was changed meanwhile, or none
//!   Merge   S + B  ──> S'    the same, and S is let go
//!   Fold    S + B  ──> B     dzone B    S is let go; the chunk is not written meanwhile
//!   Settle  R      ──> C     dzone C, a conventional zone; the chunk is not written at the end
//! ```

use core::future::poll_fn;
use core::ops::Range;
use core::pin::pin;
use core::task::Poll;

use super::clean::ask;
use super::format::{MapEntry, NO_ZONE};
use super::policy::{Action, Candidate, CopyTurn, CopyWay, Style, Urgency, choose, copy_turn, urgency};
use super::state::{Readiness, Rest, Shared, State, ZEROES};
use super::transfer::memory;
use super::valid::ValidBlocks;
use super::volume::ReclaimJob;
use super::zones::Role;
use super::{BLOCK_BYTES, BLOCK_SECTORS, Block, ChunkNo, MemberNo, Number, SetZone, ZoneClass};
use crate::block::{Data, Flags, Reason};
use crate::prelude::*;
use crate::task::{Answer, Io};
use crate::time::{Duration, Instant};

/// How long a chunk is left alone after it could not be copied so often in a row, and from then on. Before the last of them
/// begins, those who wait for a zone still hope for its.
const RETRY: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(1_000), Duration::from_millis(10_000)];
/// How long a chunk is left alone after a bio has ended its copy.
const YIELD: Duration = Duration::from_millis(100);

/// What is to be copied where.
#[derive(Clone, Debug)]
struct Copy {
    chunk: ChunkNo,
    action: Action,
    /// The zones it comes from: first the data zone.
    sources: Vec<SetZone>,
    /// The zone it goes to.
    to: SetZone,
    /// Blocks that are copied.
    copied: ValidBlocks,
    /// The memory of its longest windows so far, with what was last in it: of the one that was read last, and, if it reads
    /// ahead, of the one before.
    memory: [Option<Data>; 2],
}

/// A part of a chunk that was read.
struct Window {
    blocks: Range<Block>,
    data: Data,
    /// Those of its blocks that are valid.
    read: ValidBlocks,
}

/// Reclaims zones for device `member`, for as long as there is a reason.
pub(super) async fn run(shared: Shared, io: Io, member: MemberNo) {
    let signal = shared.borrow().signals.reclaim.clone();
    loop {
        let (chunk, action) = signal.until(|| shared.borrow_mut().pick(member, io.now())).await;
        let result = reclaim(&shared, &io, member, (chunk, action)).await;
        shared.borrow_mut().end_job(chunk, result, io.now());
    }
}

async fn reclaim(shared: &Shared, io: &Io, member: MemberNo, (chunk, action): (ChunkNo, Action)) -> Result<(), Reason> {
    if action == Action::Free {
        return Ok(());
    }
    let Some(mut copy) = shared.borrow_mut().begin_copy(member, (chunk, action)) else {
        return Err(Reason::VolumeFull);
    };
    wait_for_writers(shared, &copy).await;
    // Nothing was read yet, so nothing is out of date.
    if let Some(job) = shared.borrow_mut().volume.job(chunk) {
        job.changed.clear();
    }
    let result = run_copy(shared, io, &mut copy).await;
    if result.is_ok() && copy.action == Action::Settle && copy.is_whole(&shared.borrow()) {
        finish_settling(shared, io, &mut copy).await;
    }
    if result.is_err() && shared.borrow().volume.zones.is_sequential(copy.to) {
        // How far the copy got is known from the zone alone.
        let (device, sector) = shared.borrow().volume.zones.start(copy.to);
        let found = ask(io, device, sector).await;
        shared.borrow_mut().learn(copy.to, found);
        copy.copied.clear();
    }
    shared.borrow_mut().end_copy(copy);
    result
}

/// Waits until all writes are known of that were sent before the copy began.
async fn wait_for_writers(shared: &Shared, copy: &Copy) {
    let progress = shared.borrow().signals.progress.clone();
    let is_quiet = || {
        let state = shared.borrow();
        let zones = &state.volume.zones;
        let owns = matches!(copy.action, Action::Append | Action::Merge | Action::Fold);
        copy.sources.iter().chain([&copy.to]).all(|zone| {
            let zone = &zones.all[*zone];
            let ordered = zone.class == ZoneClass::Sequential && owns || copy.action == Action::Fold;
            zone.overwrites == 0 && (!ordered || zone.writes == 0)
        })
    };
    progress.until(|| is_quiet().then_some(())).await;
    // What was written up to now is what will be copied.
    let zone_blocks = shared.borrow().volume.zones.zone_blocks;
    if let Some(job) = shared.borrow_mut().volume.job(copy.chunk) {
        job.changed = ValidBlocks::new(zone_blocks);
    }
}

/// Copies what is valid, a window at a time, until all is done or somebody wants it to end.
async fn run_copy(shared: &Shared, io: &Io, copy: &mut Copy) -> Result<(), Reason> {
    let mut took = Duration::ZERO;
    let mut at = shared.borrow().first_block(copy);
    let mut ahead = None;
    loop {
        let turn = shared.borrow().turn(copy, took);
        if turn.rest > Duration::ZERO {
            io.sleep_until(io.now() + turn.rest).await;
        }
        let began = io.now();
        let window = match ahead.take() {
            Some(_) if shared.borrow_mut().must_end(copy.chunk) => None,
            Some(window) => Some(window),
            None => read_next(shared, io, copy, (at, &turn)).await?,
        };
        let Some(Window { blocks, data, read }) = window else { return Ok(()) };
        let write = write_window(shared, io, copy.to, (at, &blocks, &data), &turn);
        if turn.reads_ahead {
            let (written, next) = both(write, read_next(shared, io, copy, (blocks.end, &turn))).await;
            ahead = written.and(next)?;
        } else {
            write.await?;
        }
        copy.copied.unite(&read);
        at = blocks.end;
        took = io.now().since(began);
    }
}

/// Reads the next window from block `at` on. `None` if all is copied, or the copy is to end.
async fn read_next(
    shared: &Shared,
    io: &Io,
    copy: &mut Copy,
    (at, turn): (Block, &CopyTurn),
) -> Result<Option<Window>, Reason> {
    let next = shared.borrow_mut().next_window(copy, at, turn);
    let Some(blocks) = next else { return Ok(None) };
    if turn.reads_ahead {
        // The window that was read before is being written.
        copy.memory.swap(0, 1);
    }
    let data = copy.memory_for(&blocks)?;
    let read = read_window(shared, io, copy, (&blocks, &data), turn).await?;
    Ok(Some(Window { blocks, data, read }))
}

/// Both, side by side.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (Poll::Pending, Poll::Pending);
    poll_fn(|cx| {
        if first.is_pending() {
            first = one.as_mut().poll(cx);
        }
        if second.is_pending() {
            second = other.as_mut().poll(cx);
        }
        match (core::mem::replace(&mut first, Poll::Pending), core::mem::replace(&mut second, Poll::Pending)) {
            (Poll::Ready(first), Poll::Ready(second)) => Poll::Ready((first, second)),
            so_far => {
                (first, second) = so_far;
                Poll::Pending
            }
        }
    })
    .await
}

/// Reads what is valid of `window`: of the data zone with the holes that are not worth a seek, then exactly what is in the
/// buffer. What is read of neither becomes zeroes: it is written, too. Returns the blocks that were read.
async fn read_window(
    shared: &Shared,
    io: &Io,
    copy: &Copy,
    (window, data): (&Range<Block>, &Data),
    turn: &CopyTurn,
) -> Result<ValidBlocks, Reason> {
    let mut read = ValidBlocks::new(shared.borrow().volume.zones.zone_blocks);
    for (place, zone) in copy.sources.iter().copied().enumerate() {
        let runs: Vec<Range<Block>> = {
            let state = shared.borrow();
            state.volume.zones.all[zone].valid.runs(window.clone()).collect()
        };
        for run in &runs {
            read.insert(run.clone());
        }
        let joined = join(&runs, if place == 0 { turn.gap_blocks } else { 0 });
        if place == 0 {
            wipe_holes(window, &joined, data);
        }
        let pieces = joined.into_iter().flat_map(|run| pieces(run, turn.piece_blocks));
        let pieces: Vec<Range<Block>> = pieces.collect();
        let send = |piece: Range<Block>| {
            let from = (piece.start - window.start) as usize * BLOCK_BYTES;
            let part = data.slice(from, (piece.end - piece.start) as usize * BLOCK_BYTES);
            let zones = &shared.borrow().volume.zones;
            io.read(zones.device(zone), zones.sector(zone, piece.start), part)
        };
        flow(pieces.into_iter(), turn.pieces_in_flight, send).await?;
    }
    Ok(read)
}

/// Zeroes what `runs` leave of `window`: the memory still has what was copied before, maybe of another window.
fn wipe_holes(window: &Range<Block>, runs: &[Range<Block>], data: &Data) {
    let mut at = window.start;
    for run in runs.iter().chain([&(window.end..window.end)]) {
        let place = |block: Block| (block - window.start) as usize * BLOCK_BYTES;
        data.slice(place(at), place(run.start) - place(at)).fill(0);
        at = run.end;
    }
}

/// Writes `window` to `zone`; a sequential zone gets zeroes from block `at` on, where it was written last.
async fn write_window(
    shared: &Shared,
    io: &Io,
    zone: SetZone,
    (at, window, data): (Block, &Range<Block>, &Data),
    turn: &CopyTurn,
) -> Result<(), Reason> {
    if shared.borrow().volume.zones.is_sequential(zone) && at < window.start {
        let limits = shared.borrow().volume.zones.members[shared.borrow().volume.zones.all[zone].member].limits.clone();
        let fill = |piece: Range<Block>| {
            let len = piece.end - piece.start;
            let mut state = shared.borrow_mut();
            state.volume.zones.all[zone].wp = piece.end;
            state.counters.copied_blocks += u64::from(len);
            let (device, sector) = (state.volume.zones.device(zone), state.volume.zones.sector(zone, piece.start));
            match limits.max_write_zeroes {
                Some(_) => io.write_zeroes(device, sector, len * BLOCK_SECTORS),
                None => io.write(device, sector, state.zeroes.slice(0, len as usize * BLOCK_BYTES), Flags::NONE),
            }
        };
        let most = limits.max_write_zeroes.map_or(ZEROES, |most| (most / BLOCK_SECTORS).max(1));
        flow(pieces(at..window.start, most.min(turn.piece_blocks)), turn.pieces_in_flight, fill).await?;
    }
    let write = |piece: Range<Block>| {
        let from = (piece.start - window.start) as usize * BLOCK_BYTES;
        let part = data.slice(from, (piece.end - piece.start) as usize * BLOCK_BYTES);
        let mut state = shared.borrow_mut();
        if state.volume.zones.is_sequential(zone) {
            state.volume.zones.all[zone].wp = piece.end;
        }
        state.counters.copied_blocks += u64::from(piece.end - piece.start);
        io.write(state.volume.zones.device(zone), state.volume.zones.sector(zone, piece.start), part, Flags::NONE)
    };
    let result = flow(pieces(window.clone(), turn.piece_blocks), turn.pieces_in_flight, write).await;
    let mut state = shared.borrow_mut();
    let member = state.volume.zones.all[zone].member;
    state.volume.zones.members[member].is_unflushed = true;
    result
}

/// Sends a request for each piece, so many at once; waits for all, and gives the first failure.
async fn flow(
    mut pieces: impl Iterator<Item = Range<Block>>,
    depth: u32,
    mut send: impl FnMut(Range<Block>) -> Answer,
) -> Result<(), Reason> {
    let mut under_way = alloc::collections::VecDeque::new();
    let mut result = Ok(());
    loop {
        while result.is_ok() && under_way.len() < depth.max(1) as usize {
            let Some(piece) = pieces.next() else { break };
            under_way.push_back(send(piece));
        }
        let Some(answer) = under_way.pop_front() else { return result };
        result = result.and(answer.ok().await);
    }
}

/// The end of a copy to a random zone, after which nothing may be left behind: the chunk is not written while the rest goes.
async fn finish_settling(shared: &Shared, io: &Io, copy: &mut Copy) {
    {
        let mut state = shared.borrow_mut();
        let Some(job) = state.volume.job(copy.chunk) else { return };
        job.is_exclusive = true;
    }
    let progress = shared.borrow().signals.progress.clone();
    let source = copy.sources[0];
    let is_quiet = || shared.borrow().volume.zones.all[source].writes == 0;
    progress.until(|| is_quiet().then_some(())).await;
    let changed: Vec<Range<Block>> = {
        let mut state = shared.borrow_mut();
        let zone_blocks = state.volume.zones.zone_blocks;
        let Some(job) = state.volume.job(copy.chunk) else { return };
        let changed = core::mem::replace(&mut job.changed, ValidBlocks::new(zone_blocks));
        copy.copied.subtract(&changed);
        let valid = &state.volume.zones.all[source].valid;
        changed.runs(Block::all(zone_blocks)).flat_map(|run| valid.runs(run).collect::<Vec<_>>()).collect()
    };
    for run in changed {
        let Ok(data) = copy.memory_for(&run) else { return };
        let turn = shared.borrow().turn(copy, Duration::ZERO);
        let Ok(read) = read_window(shared, io, copy, (&run, &data), &turn).await else { return };
        let zone = copy.to;
        if write_window(shared, io, zone, (run.start, &run, &data), &turn).await.is_err() {
            return;
        }
        copy.copied.unite(&read);
    }
}

/// Runs with holes of at most `gap` between them taken as one.
fn join(runs: &[Range<Block>], gap: u32) -> Vec<Range<Block>> {
    let mut joined: Vec<Range<Block>> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last) if run.start - last.end <= gap => last.end = run.end,
            _ => joined.push(run.clone()),
        }
    }
    joined
}

fn pieces(range: Range<Block>, most: u32) -> impl Iterator<Item = Range<Block>> {
    let most = most.max(1);
    let starts = range.start.onwards().step_by(most as usize).take_while(move |start| *start < range.end);
    starts.map(move |start| start..range.end.min(Block(start.0.saturating_add(most))))
}

impl Copy {
    /// Memory for a window of it, with anything in it. Nobody has that of the window that was last in it any more.
    fn memory_for(&mut self, window: &Range<Block>) -> Result<Data, Reason> {
        let bytes = (window.end - window.start) as usize * BLOCK_BYTES;
        let [next, _] = &mut self.memory;
        let long_enough = next.take().filter(|data| data.len() >= bytes);
        let data = long_enough.map_or_else(|| memory(bytes), Ok)?;
        Ok(next.insert(data).slice(0, bytes))
    }

    /// Whether all that is valid in its sources is copied, but for what changed since.
    fn is_whole(&self, state: &State) -> bool {
        let zone_blocks = state.volume.zones.zone_blocks;
        let changed = state.volume.busy.get(&self.chunk).and_then(|busy| busy.job.as_ref()).map(|job| &job.changed);
        self.sources.iter().all(|zone| {
            let mut left = state.volume.zones.all[*zone].valid.clone();
            left.subtract(&self.copied);
            if let Some(changed) = changed {
                left.subtract(changed);
            }
            left.weight_in(Block::all(zone_blocks)) == 0
        })
    }
}

impl Rest {
    /// Whether nobody hopes for its zone any more.
    fn is_lost(&self) -> bool {
        self.failures >= RETRY.len()
    }
}

impl State {
    /// What reclaim of device `member` does next, if it has a reason to do something. The chunk is its own from now on.
    fn pick(&mut self, member: MemberNo, now: Instant) -> Option<(ChunkNo, Action)> {
        if self.readiness != Readiness::Ready || self.is_put_away() {
            return None;
        }
        let stock = self.volume.zones.stock();
        let idle_for = now.since(self.last_io);
        self.urgency = urgency(&self.knobs, &stock, idle_for, self.urgency);
        let asked = if self.is_reclaim_wanted { self.urgency.max(Urgency::Urgent) } else { self.urgency };
        let asked = if self.is_starved() { Urgency::Emergency } else { asked };
        if asked == Urgency::None || !self.is_changed && !self.is_reclaim_wanted {
            return None;
        }
        if self.is_crowded() && !self.is_stuck_in_crowd() {
            self.is_reclaim_crowded = true;
            self.notify(|signals| &signals.clean);
            return None;
        }
        let picked = {
            // Copies that fail again and again are for times when nobody waits: one after the other, they would never end.
            let is_awaited = self.is_starved() || !self.back.is_empty();
            let rests =
                |chunk| self.rest_of(chunk).is_some_and(|rest| rest.until > now || is_awaited && rest.is_lost());
            let mut candidates = self.candidates(member, now).filter(|candidate| !rests(candidate.chunk));
            choose(&self.knobs, &stock, asked, &mut candidates)
        };
        let Some((chunk, action)) = picked else {
            self.nothing_to_reclaim(asked == Urgency::Idle && !self.has_recent(now), now);
            return None;
        };
        self.jobs += 1;
        let zone_blocks = self.volume.zones.zone_blocks;
        let excludes_users = self.knobs.style.is_kernel() && action != Action::Free;
        self.volume.make_busy(chunk).job = Some(ReclaimJob {
            changed: ValidBlocks::new(zone_blocks),
            owns_pointer: matches!(action, Action::Append | Action::Merge | Action::Fold),
            is_exclusive: action == Action::Fold,
            excludes_users,
            // In 2020 users waited until the copy was over.
            yields: excludes_users && self.knobs.style != Style::Kernel2020,
            is_cancelled: false,
        });
        Some((chunk, action))
    }

    /// True if writes wait for a zone, and such writes hold all unrecorded zones. Commits and resets do not lower the number of these then; only reclaim
    /// frees the zones that the writes wait for.
    fn is_stuck_in_crowd(&self) -> bool {
        let zones = &self.volume.zones;
        let may_lower = self.has_to_record() || !zones.is_settled() || !self.has_settled_found();
        let is_quiet = self.jobs == 0 && !self.is_committing && !zones.is_written_somewhere();
        self.is_starved() && is_quiet && !may_lower
    }

    /// Nothing can be reclaimed here now, or `for_good`: until somebody writes. If somebody waits for space that nobody will
    /// free, it is an error.
    fn nothing_to_reclaim(&mut self, for_good: bool, now: Instant) {
        (self.is_reclaim_wanted, self.is_reclaimed) = (false, for_good);
        if self.is_starved() && self.jobs == 0 && !self.is_committing && !self.may_win_space(now) {
            let starved = self.starved.drain(..).map(|mut bio| {
                let status = bio.blame(Reason::VolumeFull);
                (bio, status)
            });
            self.done.extend(starved);
            self.events += 1;
            self.notify(|signals| &signals.reclaim);
        }
    }

    /// Whether a chunk, on whatever device, was written so lately that reclaim may only spare it for now.
    fn has_recent(&self, now: Instant) -> bool {
        let mut candidates = self.volume.zones.members.numbers().flat_map(|member| self.candidates(member, now));
        candidates.any(|candidate| candidate.idle_for < self.knobs.hot_time())
    }

    /// Whether a zone is on its way to be free, or can be reclaimed once those who use it now are done, or on another device, or
    /// when its chunk has rested.
    fn may_win_space(&self, now: Instant) -> bool {
        let (zones, stock) = (&self.volume.zones, self.volume.zones.stock());
        let is_lost = |chunk| self.rest_of(chunk).is_some_and(Rest::is_lost);
        let wins = |member: MemberNo| {
            let candidates = &mut self.candidates(member, now).filter(|candidate| !is_lost(candidate.chunk));
            choose(&self.knobs, &stock, Urgency::Emergency, candidates).is_some()
        };
        !zones.is_settled()
            || !self.has_settled_found()
            || zones.is_read_somewhere()
            || zones.is_awaited_somewhere()
            || zones.all.iter().any(|zone| zone.writes > 0)
            || zones.members.numbers().any(wins)
    }

    /// The chunks with random zones, as far as device `member` is to work on them.
    fn candidates(&self, member: MemberNo, now: Instant) -> impl Iterator<Item = Candidate> {
        let zones = &self.volume.zones;
        let in_random_zones = zones.all.iter().filter(|zone| zone.class != ZoneClass::Sequential);
        let chunks = in_random_zones.filter_map(move |zone| match zone.role {
            // It has come to rest there.
            Role::Data(_) if !zones.is_buffering(zone.class) => None,
            Role::Data(chunk) => Some(chunk),
            Role::Buffer(chunk) => {
                let dzone = self.volume.chunks[chunk].entry.dzone;
                (zones.all[dzone].member == member).then_some(chunk)
            }
            _ => None,
        });
        chunks.filter_map(move |chunk| self.candidate(chunk, now))
    }

    fn candidate(&self, chunk: ChunkNo, now: Instant) -> Option<Candidate> {
        let busy = self.volume.busy.get(&chunk);
        if busy.is_some_and(|busy| busy.job.is_some() || busy.is_recovering) {
            return None;
        }
        let MapEntry { dzone, bzone } = self.volume.chunks[chunk].entry;
        let data = &self.volume.zones.all[dzone];
        let buffer = (bzone != NO_ZONE).then(|| &self.volume.zones.all[bzone]);
        let last_written = buffer.map_or(data.written_at, |buffer| buffer.written_at.max(data.written_at));
        Some(Candidate {
            chunk,
            dzone_is_random: data.class != ZoneClass::Sequential,
            dzone_is_cache: data.class == ZoneClass::Cache,
            data_blocks: data.valid.weight(),
            buffer_blocks: buffer.map_or(0, |buffer| buffer.valid.weight()),
            has_buffer: buffer.is_some(),
            runs: data.valid.count_runs() + buffer.map_or(0, |buffer| buffer.valid.count_runs()),
            wp: data.wp,
            first_buffered: buffer.and_then(|buffer| buffer.valid.first()).unwrap_or_default(),
            last_block: data.valid.end().max(buffer.map_or(Block::FIRST, |buffer| buffer.valid.end())),
            idle_for: now.since(last_written),
            lru: buffer.map_or(data.used, |buffer| buffer.used),
            is_open: data.writes + buffer.map_or(0, |buffer| buffer.writes) > 0
                || buffer.unwrap_or(data).valid.is_empty(),
        })
    }

    /// Takes the zone that a copy goes to.
    fn begin_copy(&mut self, member: MemberNo, (chunk, action): (ChunkNo, Action)) -> Option<Copy> {
        let MapEntry { dzone, bzone } = self.volume.chunks[chunk].entry;
        let fresh = |state: &mut Self, class| {
            let zone = state.volume.zones.take(class, Some(member))?;
            state.volume.zones.all[zone].role = Role::Target;
            Some(zone)
        };
        let (sources, to) = match action {
            Action::Move => (Vec::from([dzone]), fresh(self, ZoneClass::Sequential)?),
            Action::Settle => (Vec::from([dzone]), fresh(self, ZoneClass::Random)?),
            Action::Merge => (Vec::from([dzone, bzone]), fresh(self, ZoneClass::Sequential)?),
            Action::Append => (Vec::from([bzone]), dzone),
            Action::Fold => (Vec::from([dzone]), bzone),
            Action::Free => return None,
        };
        let copied = ValidBlocks::new(self.volume.zones.zone_blocks);
        Some(Copy { chunk, action, sources, to, copied, memory: [None, None] })
    }

    /// The block from which on `copy` writes.
    fn first_block(&self, copy: &Copy) -> Block {
        let to = &self.volume.zones.all[copy.to];
        if to.class == ZoneClass::Sequential { to.wp } else { Block::FIRST }
    }

    fn turn(&self, copy: &Copy, took: Duration) -> CopyTurn {
        let home = |zone: SetZone| self.volume.zones.all[zone].member;
        let limits = |zone: SetZone| &self.volume.zones.members[home(zone)].limits;
        let zones = copy.sources.iter().chain([&copy.to]).copied();
        let way = CopyWay {
            is_rotational: zones.clone().any(|zone| limits(zone).rotational),
            is_across: copy.sources.iter().all(|zone| home(*zone) != home(copy.to)),
        };
        let mut turn = copy_turn(&self.knobs, self.urgency, way, took);
        let longest = zones.filter_map(|zone| limits(zone).max_sectors).min().unwrap_or(u32::MAX);
        turn.piece_blocks = turn.piece_blocks.min(longest / BLOCK_SECTORS).max(1);
        turn
    }

    /// Whether the copy of `chunk` is to end.
    fn must_end(&mut self, chunk: ChunkNo) -> bool {
        let is_unwanted = self.volume.job(chunk).is_none_or(|job| job.is_cancelled);
        is_unwanted || self.is_put_away() || self.readiness != Readiness::Ready
    }

    /// What is copied next: from the first valid block at or behind `at` on. `None` if all is, or the copy is to end.
    fn next_window(&mut self, copy: &Copy, at: Block, turn: &CopyTurn) -> Option<Range<Block>> {
        if self.must_end(copy.chunk) {
            return None;
        }
        let (zones, end) = (&self.volume.zones.all, Block(self.volume.zones.zone_blocks));
        let runs = |from: Block| copy.sources.iter().filter_map(move |zone| zones[*zone].valid.runs(from..end).next());
        let first = runs(at).map(|run| run.start).min()?;
        let most = end.min(Block(first.0.saturating_add(turn.window_blocks)));
        if self.knobs.style.is_kernel() || copy.action == Action::Fold {
            // A run at a time; between the runs of a fold lies what the buffer has.
            let run = runs(at).find(|run| run.start == first)?;
            return Some(first..run.end.min(most));
        }
        let last = copy
            .sources
            .iter()
            .map(|zone| zones[*zone].valid.runs(first..most).last().map_or(Block::FIRST, |run| run.end));
        Some(first..last.max()?)
    }

    /// Gives the chunk what was copied.
    fn end_copy(&mut self, copy: Copy) {
        let is_whole = copy.is_whole(self);
        let Copy { chunk, action, sources, to, mut copied, memory: _ } = copy;
        let cancelled = self.volume.job(chunk).is_some_and(|job| job.is_cancelled);
        if let Some(job) = self.volume.job(chunk) {
            copied.subtract(&job.changed);
        }
        let needs_all = matches!(action, Action::Merge | Action::Settle) || self.knobs.style.is_kernel();
        let is_fresh = matches!(action, Action::Move | Action::Merge | Action::Settle);
        // Of these, the data zone is given up: it may only be if nothing is left there.
        let gives_up = matches!(action, Action::Merge | Action::Settle);
        let is_settled = !gives_up || self.is_emptied_by(sources[0], &copied);
        if cancelled || copied.is_empty() || needs_all && !is_whole || !is_settled {
            if is_fresh {
                self.volume.give_up(to);
            }
            return;
        }
        let MapEntry { dzone, bzone } = self.volume.chunks[chunk].entry;
        let zone_blocks = self.volume.zones.zone_blocks;
        for run in copied.runs(Block::all(zone_blocks)) {
            sources.iter().for_each(|zone| self.volume.invalidate(chunk, *zone, &run));
            self.volume.validate(chunk, to, &run);
        }
        if is_fresh {
            let left = if action == Action::Merge { bzone } else { dzone };
            self.volume.chunks[chunk].entry = MapEntry { dzone: to, bzone: left };
            self.volume.zones.all[to].role = Role::Data(chunk);
            self.volume.zones.all[to].written_at = self.volume.zones.all[left].written_at;
            self.volume.zones.all[left].role = Role::Buffer(chunk);
            self.volume.mark_entry(chunk);
            if action == Action::Merge {
                debug_assert!(self.volume.zones.all[dzone].valid.is_empty(), "a merge leaves nothing behind");
                self.volume.give_up(dzone);
            }
        }
    }

    fn is_emptied_by(&self, zone: SetZone, copied: &ValidBlocks) -> bool {
        let mut left = self.volume.zones.all[zone].valid.clone();
        left.subtract(copied);
        left.is_empty()
    }

    /// Leaves `chunk`, which could not be copied `failures` times in a row, alone for a while.
    fn rest(&mut self, chunk: ChunkNo, until: Instant, failures: usize) {
        self.resting.insert(chunk, Rest { until, failures, entry: self.volume.chunks[chunk].entry });
        self.rested_at = Some(self.rested_at.map_or(until, |at| at.min(until)));
    }

    /// Why `chunk` is left alone, if it still has the zones for which it is.
    fn rest_of(&self, chunk: ChunkNo) -> Option<&Rest> {
        self.resting.get(&chunk).filter(|rest| rest.entry == self.volume.chunks[chunk].entry)
    }

    /// A copy is over.
    fn end_job(&mut self, chunk: ChunkNo, result: Result<(), Reason>, now: Instant) {
        let was_cancelled = self.volume.job(chunk).is_some_and(|job| job.is_cancelled);
        self.volume.make_busy(chunk).job = None;
        let failures = self.rest_of(chunk).map_or(0, |rest| rest.failures);
        self.resting.remove(&chunk);
        match result {
            Err(_) => self.rest(chunk, now + RETRY[failures.min(RETRY.len() - 1)], failures + 1),
            // Whoever ended it goes first.
            Ok(()) if was_cancelled => self.rest(chunk, now + YIELD, failures),
            Ok(()) => {}
        }
        self.volume.settle(chunk);
        self.wake_chunk(chunk);
        self.jobs -= 1;
        let freed = core::mem::take(&mut self.volume.random_freed);
        self.counters.reclaimed_zones += u64::from(freed);
        let freed = core::mem::take(&mut self.volume.buffers_freed);
        if freed > 0 {
            self.pacer.freed(now, u64::from(freed) * u64::from(self.volume.zones.zone_blocks));
        }
        // The kernel commits after each zone; we when somebody needs it, or some have come together.
        let is_urgent = self.urgency >= Urgency::Urgent || self.knobs.style.is_kernel();
        if !self.volume.zones.leaving.is_empty() && (is_urgent || self.volume.zones.leaving.len() >= 4) {
            self.is_commit_due = true;
        }
        self.notify(|signals| &signals.commit);
        self.notify(|signals| &signals.progress);
        self.notify(|signals| &signals.reclaim);
    }
}
