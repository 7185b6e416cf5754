//! The way of every bio: which zone it goes to, and what is noted when it is back.

use core::ops::Range;

use super::device::{COMMIT, FILL, HELD, OVERWRITE, PACE, READ, WRITE};
use super::format::{MapEntry, NO_ZONE};
use super::policy::{Ahead, EarlyWrite, Place, Style, place_ahead, place_first};
use super::state::{Readiness, State, Then, ZEROES};
use super::volume::Write;
use super::zones::Role;
use super::{BLOCK_BYTES, BLOCK_SECTORS, Block, ChunkNo, SetZone, ZoneClass, ZoneHealth};
use crate::block::{Bio, Content, Cx, Flags, Op, Payload, Reason, Status};
use crate::prelude::*;
use crate::time::Duration;

/// Blocks of a chunk.
#[derive(Clone, Debug)]
struct Extent {
    chunk: ChunkNo,
    blocks: Range<Block>,
}

/// How often a write has been looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    First,
    /// It has waited for its time, or for what may come before it.
    Again,
}

/// Where a write goes.
enum Goal {
    /// To this zone; so many blocks of it, if not all.
    Zone(SetZone, u32),
    /// To this zone, with so many blocks of zeroes before it.
    Filled(SetZone, u32),
    /// Nowhere yet: it waits for a free zone.
    Starve,
    /// Nowhere yet: it waits until fewer zones are unrecorded.
    Crowd,
    /// It is held back, because what comes before it may be on its way.
    Hold,
    /// Nowhere.
    Fail(Reason),
}

impl State {
    /// Takes a bio that came from above.
    pub fn route(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.last_io = cx.now();
        self.is_reclaimed &= !bio.op.is_write();
        if bio.op.is_write() && !self.is_changed {
            // Reclaim has slept since the metadata was loaded: it may be needed already, or when the volume is idle.
            self.is_changed = true;
            self.notify(|signals| &signals.reclaim);
        }
        match (&self.readiness, bio.op) {
            (Readiness::Failed(why), _) => cx.fail(bio, Reason::VolumeFailed(why.as_str().into())),
            (Readiness::Unloaded | Readiness::Loading, _) if bio.flags.has(Flags::NOWAIT) => {
                cx.fail(bio, Reason::WouldWait("the metadata is not loaded yet"));
            }
            (Readiness::Unloaded | Readiness::Loading, _) => self.early.push_back(bio),
            (_, Op::Read) => self.read(bio, cx),
            (Readiness::ReadOnly(_), Op::Flush) => self.flush(bio, Then::Complete),
            (Readiness::ReadOnly(why), _) => cx.fail(bio, Reason::VolumeReadOnly(why.as_str().into())),
            (_, Op::Flush) => self.flush(bio, Then::Complete),
            (_, Op::Write | Op::Discard | Op::WriteZeroes) if bio.flags.has(Flags::PREFLUSH) => {
                self.flush(bio, Then::Route);
            }
            (_, Op::Write) => self.write(bio, Look::First, cx),
            (_, Op::Discard | Op::WriteZeroes) => self.discard(bio, cx),
            _ => cx.fail(bio, Reason::NotSupported),
        }
    }

    /// Has everything that is complete made durable before `bio` is done or goes on.
    pub fn flush(&mut self, bio: Box<Bio>, then: Then) {
        self.flushes.push((bio, then));
        self.notify(|signals| &signals.commit);
    }

    /// The chunk and the blocks of `bio`, which is cut if it goes beyond the chunk.
    fn extent(&self, bio: Box<Bio>, cx: &mut Cx<'_>) -> (Box<Bio>, Extent, Option<Box<Bio>>) {
        let zone_blocks = self.volume.zones.zone_blocks;
        let (block, len) = (bio.sector.0 / u64::from(BLOCK_SECTORS), bio.sectors / BLOCK_SECTORS);
        let chunk = ChunkNo((block / u64::from(zone_blocks)) as u32);
        let at = Block((block % u64::from(zone_blocks)) as u32);
        let fits = len.min(Block(zone_blocks) - at);
        let extent = Extent { chunk, blocks: at..at + fits };
        if fits == len {
            return (bio, extent, None);
        }
        let (front, rest) = cx.split(bio, fits * BLOCK_SECTORS);
        (front, extent, Some(rest))
    }

    fn read(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let (bio, extent, rest) = self.extent(bio, cx);
        self.read_chunk(bio, extent, cx);
        if let Some(rest) = rest {
            cx.again(rest);
        }
    }

    fn read_chunk(&mut self, mut bio: Box<Bio>, extent: Extent, cx: &mut Cx<'_>) {
        let Extent { chunk, blocks } = extent;
        let known = self.volume.chunks[chunk];
        if known.is_bad {
            return cx.fail(bio, Reason::BadChunk(chunk.0));
        }
        if known.is_busy && self.interrupts(chunk) {
            return self.wait_for(chunk, bio, cx);
        }
        let (zone, until) = self.volume.find(chunk, blocks.start, blocks.end);
        let mut rest = None;
        if until < blocks.end {
            let (front, behind) = cx.split(bio, (until - blocks.start) * BLOCK_SECTORS);
            (bio, rest) = (front, Some(behind));
        }
        match zone {
            None => {
                bio.payload.for_each_segment(|_, data| data.fill(0));
                cx.complete(bio, Status::Ok);
            }
            Some(zone) => {
                bio.sector = self.volume.zones.sector(zone, blocks.start);
                self.volume.zones.all[zone].in_flight += 1;
                cx.submit(self.volume.zones.device(zone), bio, READ | u64::from(zone));
            }
        }
        if let Some(rest) = rest {
            cx.again(rest);
        }
    }

    /// What a read of the first of `sectors` would find now, and of how many of them that is so: within a chunk, what
    /// [`State::read_chunk`] does. A write that is under way does not count until it is done.
    pub fn content(&self, sectors: Range<u64>) -> (Content, u64) {
        if !matches!(self.readiness, Readiness::Ready | Readiness::ReadOnly(_)) {
            return (Content::Data, sectors.end - sectors.start);
        }
        let (block_sectors, zone_blocks) = (u64::from(BLOCK_SECTORS), u64::from(self.volume.zones.zone_blocks));
        let (at, end) = (sectors.start / block_sectors, sectors.end.div_ceil(block_sectors));
        let first = at - at % zone_blocks;
        let chunk = ChunkNo((first / zone_blocks) as u32);
        let [at, end] = [at - first, (end - first).min(zone_blocks)].map(|block| Block(block as u32));
        let (content, until) = match self.volume.chunks[chunk].is_bad {
            true => (Content::Data, end),
            false => match self.volume.find(chunk, at, end) {
                (Some(_), until) => (Content::Data, until),
                (None, until) => (Content::Hole, until),
            },
        };
        let until = (first + u64::from(until)) * block_sectors;
        (content, until.min(sectors.end) - sectors.start)
    }

    /// True if a bio for `chunk` has to wait for a copy: the kernel's way. The bio ends the copy, unless no zone is left: it may be
    /// waiting for the zone that the copy frees.
    fn interrupts(&mut self, chunk: ChunkNo) -> bool {
        let has_zones = self.volume.zones.stock().buffers().free > 0;
        let Some(job) = self.volume.job(chunk) else { return false };
        job.is_cancelled |= job.yields && has_zones;
        job.excludes_users
    }

    fn wait_for(&mut self, chunk: ChunkNo, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.flags.has(Flags::NOWAIT) {
            return cx.fail(bio, Reason::WouldWait("its chunk is being copied"));
        }
        self.volume.make_busy(chunk).waiting.push_back(bio);
    }

    /// Sends a write on, in as many parts as it takes. All of them go now: if one waited in line, writes that are sent after
    /// it would be there before it, and a zone would get them in the wrong order.
    fn write(&mut self, bio: Box<Bio>, look: Look, cx: &mut Cx<'_>) {
        let mut next = Some(bio);
        while let Some(bio) = next {
            let (bio, Extent { chunk, blocks }, rest) = self.extent(bio, cx);
            let mut part = Some((bio, blocks));
            while let Some((bio, blocks)) = part {
                part = self.write_chunk(bio, Extent { chunk, blocks }, look, cx);
            }
            next = rest;
        }
    }

    /// The first part of a write within a chunk. Returns what is left of it, and its blocks.
    fn write_chunk(
        &mut self,
        bio: Box<Bio>,
        extent: Extent,
        look: Look,
        cx: &mut Cx<'_>,
    ) -> Option<(Box<Bio>, Range<Block>)> {
        let Extent { chunk, blocks } = extent;
        if self.volume.chunks[chunk].is_busy {
            self.interrupts(chunk);
            if self.volume.make_busy(chunk).holds_writes() {
                self.wait_for(chunk, bio, cx);
                return None;
            }
            self.volume.calm(chunk);
        }
        match self.goal(chunk, &blocks, look) {
            Goal::Zone(zone, len) if len < blocks.end - blocks.start => {
                let (front, rest) = cx.split(bio, len * BLOCK_SECTORS);
                let cut = blocks.start + len;
                self.send(front, (chunk, zone, blocks.start..cut), look, cx);
                return Some((rest, cut..blocks.end));
            }
            Goal::Zone(zone, _) => self.send(bio, (chunk, zone, blocks), look, cx),
            Goal::Filled(zone, gap) => {
                self.fill(zone, gap, cx);
                self.send(bio, (chunk, zone, blocks), look, cx);
            }
            Goal::Hold => self.hold(bio, chunk, cx),
            Goal::Crowd => self.wait_in_crowd(bio, cx),
            Goal::Starve if bio.flags.has(Flags::NOWAIT) => cx.fail(bio, Reason::WouldWait("no zone is free")),
            Goal::Starve => {
                self.starved.push_back(bio);
                self.notify(|signals| &signals.reclaim);
                self.notify(|signals| &signals.commit);
                self.notify(|signals| &signals.clean);
            }
            Goal::Fail(reason) => cx.fail(bio, reason),
        }
        None
    }

    /// Where a write to `blocks` of `chunk` goes. Takes a zone for it if it needs one.
    fn goal(&mut self, chunk: ChunkNo, blocks: &Range<Block>, look: Look) -> Goal {
        let len = blocks.end - blocks.start;
        let dzone = self.volume.chunks[chunk].entry.dzone;
        if dzone == NO_ZONE {
            return self.first_goal(chunk, blocks, look);
        }
        let zone = &self.volume.zones.all[dzone];
        if zone.class != ZoneClass::Sequential {
            let failed = Goal::Fail(Reason::ChunkReadOnly { chunk: chunk.0, zone: dzone.0 });
            return if zone.health == ZoneHealth::Good { Goal::Zone(dzone, len) } else { failed };
        }
        let (wp, is_good) = (zone.wp, zone.health == ZoneHealth::Good);
        let is_taken = self.volume.job(chunk).is_some_and(|job| job.owns_pointer);
        if !is_good || is_taken {
            return self.buffer_goal(chunk, len);
        }
        match (blocks.start, self.knobs.style) {
            (start, _) if start == wp => Goal::Zone(dzone, len),
            (start, Style::Shingle) if start < wp => self.buffer_goal(chunk, len.min(wp - start)),
            (_, Style::Kernel | Style::Kernel2020) => self.buffer_goal(chunk, len),
            (_, Style::Shingle) => self.ahead_goal(chunk, blocks, look),
        }
    }

    /// Of the first write to a chunk.
    fn first_goal(&mut self, chunk: ChunkNo, blocks: &Range<Block>, look: Look) -> Goal {
        let (stock, len) = (self.volume.zones.stock(), blocks.end - blocks.start);
        let place = match self.knobs.style {
            Style::Kernel | Style::Kernel2020 => Place::Random,
            Style::Shingle => place_first(&self.knobs, &stock, blocks.start, len),
        };
        let spare = stock.sequential.free > 0;
        let is_crowded = self.is_crowded();
        let taken = match place {
            Place::Sequential if spare && is_crowded => return Goal::Crowd,
            Place::Sequential if spare => self.volume.take_sequential(),
            _ => self.take_buffer(),
        };
        // When one kind is used up the other will do, at the cost of zeroes in front.
        let other = || (self.knobs.style == Style::Shingle && spare && blocks.start == Block::FIRST).then_some(());
        if taken.is_none() && other().is_some() && is_crowded {
            return Goal::Crowd;
        }
        let Some(zone) = taken.or_else(|| other().and_then(|()| self.volume.take_sequential())) else {
            return Goal::Starve;
        };
        if self.has_to_record() {
            self.notify(|signals| &signals.commit);
        }
        self.volume.map(chunk, zone);
        self.notify(|signals| &signals.reclaim);
        match blocks.start {
            start if start > Block::FIRST && self.volume.zones.is_sequential(zone) => {
                self.ahead_goal(chunk, blocks, look)
            }
            _ => Goal::Zone(zone, len),
        }
    }

    /// A cache or random zone for the write that is looked at.
    fn take_buffer(&mut self) -> Option<SetZone> {
        let zone = self.volume.take_random()?;
        self.pacer.took(self.volume.zones.zone_blocks.into());
        Some(zone)
    }

    /// Of a write that begins ahead of the write pointer.
    fn ahead_goal(&mut self, chunk: ChunkNo, blocks: &Range<Block>, look: Look) -> Goal {
        let (entry, len) = (self.volume.chunks[chunk].entry, blocks.end - blocks.start);
        let gap = blocks.start - self.volume.zones.all[entry.dzone].wp;
        let held: u32 = self.volume.busy.get(&chunk).map_or(0, |busy| busy.held.iter().map(|bio| bio.sectors).sum());
        let (stock, has_buffer) = (self.volume.zones.stock(), entry.bzone != NO_ZONE);
        // A suspend waits for all writes, and none comes before this one any more.
        let has_waited = look == Look::Again || self.is_suspended;
        match place_ahead(
            &self.knobs,
            &stock,
            &EarlyWrite { gap, len, held: held / BLOCK_SECTORS, has_waited, has_buffer },
        ) {
            Ahead::Fill => Goal::Filled(entry.dzone, gap),
            Ahead::Hold => Goal::Hold,
            Ahead::Buffer => self.buffer_goal(chunk, len),
        }
    }

    /// Of a write that cannot go to the chunk's sequential zone.
    fn buffer_goal(&mut self, chunk: ChunkNo, len: u32) -> Goal {
        if self.is_crowded() && self.volume.may_unrecord(chunk, len) {
            return Goal::Crowd;
        }
        let bzone = self.volume.chunks[chunk].entry.bzone;
        if bzone != NO_ZONE {
            return Goal::Zone(bzone, len);
        }
        let Some(zone) = self.take_buffer() else { return Goal::Starve };
        self.volume.add_buffer(chunk, zone);
        self.notify(|signals| &signals.reclaim);
        Goal::Zone(zone, len)
    }

    /// Sends a write to its zone, or has it wait for its time.
    fn send(&mut self, bio: Box<Bio>, to: (ChunkNo, SetZone, Range<Block>), look: Look, cx: &mut Cx<'_>) {
        let (chunk, zone, blocks) = to;
        let state = &self.volume.zones.all[zone];
        let is_known = state.valid.has_all(&blocks) && !self.volume.chunks[chunk].is_busy;
        if is_known && (!bio.flags.has(Flags::FUA) || self.volume.is_durable(chunk, zone, &blocks)) {
            return self.overwrite(bio, zone, blocks.start, cx);
        }
        let len = blocks.end - blocks.start;
        let takes_space = state.class != ZoneClass::Sequential && !state.valid.has_all(&blocks);
        if takes_space && look == Look::First && !self.is_suspended && !bio.flags.has(Flags::NOWAIT) {
            let stock = self.volume.zones.stock();
            let due = self.pacer.admit(&self.knobs, &stock, cx.now(), len);
            if due > cx.now() {
                // The zone that was taken for it stays with the chunk; if nothing is written there, it is let go.
                self.paced.push_back((due, bio));
                return self.time_pace(cx);
            }
        }
        self.dispatch(bio, (chunk, zone, blocks), cx);
    }

    /// Sends a write that changes nothing but data.
    fn overwrite(&mut self, mut bio: Box<Bio>, zone: SetZone, at: Block, cx: &mut Cx<'_>) {
        bio.sector = self.volume.zones.sector(zone, at);
        self.volume.zones.touch(zone, cx.now());
        let state = &mut self.volume.zones.all[zone];
        state.in_flight += 1;
        state.writes += 1;
        state.overwrites += 1;
        self.counters.random_blocks += u64::from(bio.sectors / BLOCK_SECTORS);
        cx.submit(self.volume.zones.device(zone), bio, OVERWRITE | u64::from(zone));
    }

    fn dispatch(
        &mut self,
        mut bio: Box<Bio>,
        (chunk, zone, blocks): (ChunkNo, SetZone, Range<Block>),
        cx: &mut Cx<'_>,
    ) {
        let is_fua = bio.flags.has(Flags::FUA);
        bio.flags = bio.flags.without(Flags::FUA);
        bio.sector = self.volume.zones.sector(zone, blocks.start);
        self.volume.zones.touch(zone, cx.now());
        let (state, len) = (&mut self.volume.zones.all[zone], u64::from(blocks.end - blocks.start));
        state.in_flight += 1;
        state.writes += 1;
        let is_direct = state.class == ZoneClass::Sequential;
        if is_direct {
            state.wp = blocks.end;
            self.counters.direct_blocks += len;
        } else {
            self.counters.random_blocks += len;
            self.volume.expect_unrecorded(chunk, blocks.end - blocks.start);
        }
        let device = self.volume.zones.device(zone);
        let write = Write { chunk, zone, blocks, is_fua };
        if self.guards.gone().valid_when_sent {
            self.volume.written(&write);
        }
        let key = self.volume.writes.insert(write);
        cx.submit(device, bio, WRITE | key as u64);
        if is_direct {
            self.release_next(chunk, cx);
        }
    }

    /// Writes zeroes at the write pointer of a sequential zone, up to block `to`.
    fn fill(&mut self, zone: SetZone, gap: u32, cx: &mut Cx<'_>) {
        let (member, from) = {
            let state = &self.volume.zones.all[zone];
            (state.member, state.wp)
        };
        let limits = &self.volume.zones.members[member].limits;
        let offload = limits.max_write_zeroes;
        let most = offload.or(limits.max_sectors).unwrap_or(u32::MAX).min(ZEROES * BLOCK_SECTORS) / BLOCK_SECTORS;
        let device = self.volume.zones.device(zone);
        let mut at = from;
        while at < from + gap {
            let len = most.min(from + gap - at);
            let sector = self.volume.zones.sector(zone, at);
            let (op, payload) = match offload {
                Some(_) => (Op::WriteZeroes, Payload::None),
                None => (Op::Write, Payload::Data(self.zeroes.slice(0, len as usize * BLOCK_BYTES))),
            };
            let state = &mut self.volume.zones.all[zone];
            state.in_flight += 1;
            state.writes += 1;
            let bio = cx.own_bio(Bio::new(op, sector, len * BLOCK_SECTORS, payload));
            cx.submit(device, bio, FILL | u64::from(zone));
            at = at + len;
        }
        self.volume.zones.all[zone].wp = from + gap;
        self.counters.filled_blocks += u64::from(gap);
    }

    /// Keeps a write back until what comes before it has come, or some time has passed.
    fn hold(&mut self, bio: Box<Bio>, chunk: ChunkNo, cx: &mut Cx<'_>) {
        let until = cx.now() + self.knobs.reorder_time();
        let busy = self.volume.make_busy(chunk);
        if busy.held.is_empty() {
            (busy.held_until, busy.held_since) = (until, cx.now());
            cx.wake_at(until, HELD | u64::from(chunk));
        }
        busy.held.push_back(bio);
    }

    /// Sends the held write that begins at the write pointer of the chunk's zone, if there is one.
    fn release_next(&mut self, chunk: ChunkNo, cx: &mut Cx<'_>) {
        if !self.volume.chunks[chunk].is_busy {
            return;
        }
        let dzone = self.volume.chunks[chunk].entry.dzone;
        let wp = self.volume.zones.all[dzone].wp;
        let Some(busy) = self.volume.busy.get_mut(&chunk) else { return };
        let zone_sectors = u64::from(self.volume.zones.zone_blocks) * u64::from(BLOCK_SECTORS);
        let start = u64::from(wp) * u64::from(BLOCK_SECTORS);
        if let Some(next) = busy.held.iter().position(|bio| bio.sector.0 % zone_sectors == start) {
            let Some(bio) = busy.held.remove(next) else { return };
            busy.held_since = cx.now();
            self.volume.calm(chunk);
            self.back.push_back(bio);
            self.is_notified = true;
        }
    }

    /// Goes on with a write that has waited. The volume may have become read only meanwhile.
    fn write_again(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.readiness == Readiness::Ready { self.write(bio, Look::Again, cx) } else { self.route(bio, cx) }
    }

    /// The time of the writes of `chunk` that were held back is over.
    pub fn end_hold(&mut self, chunk: ChunkNo, cx: &mut Cx<'_>) {
        let Some(busy) = self.volume.busy.get_mut(&chunk) else { return };
        if busy.held_until > cx.now() && !self.is_suspended {
            return;
        }
        // A submitter may have to wait for what is under way before it sends what is missing.
        let (step, most) = (self.knobs.reorder_time(), self.knobs.reorder_busy_time());
        let is_early = step > Duration::ZERO && cx.now() < busy.held_since + most && !self.is_suspended;
        if is_early && !busy.held.is_empty() && !self.volume.writes.is_empty() {
            busy.held_until = cx.now() + step;
            return cx.wake_at(busy.held_until, HELD | u64::from(chunk));
        }
        let mut held = core::mem::take(&mut busy.held);
        held.make_contiguous().sort_by_key(|bio| bio.sector);
        self.volume.calm(chunk);
        for bio in held {
            self.write_again(bio, cx);
        }
    }

    /// Sends paced writes whose time has come.
    pub fn end_pace(&mut self, cx: &mut Cx<'_>) {
        self.is_pace_timed = false;
        while let Some((due, _)) = self.paced.front() {
            if *due > cx.now() && !self.is_suspended {
                return self.time_pace(cx);
            }
            if let Some((_, bio)) = self.paced.pop_front() {
                self.write_again(bio, cx);
            }
        }
    }

    fn time_pace(&mut self, cx: &mut Cx<'_>) {
        if let (false, Some((due, _))) = (self.is_pace_timed, self.paced.front()) {
            self.is_pace_timed = true;
            cx.wake_at(*due, PACE);
        }
    }

    /// Discards and zeroes alike: the blocks are forgotten, and read as zeroes.
    fn discard(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let (bio, extent, rest) = self.extent(bio, cx);
        let Extent { chunk, blocks } = extent;
        if self.volume.chunks[chunk].is_busy && (self.interrupts(chunk) || self.volume.make_busy(chunk).holds_writes())
        {
            self.wait_for(chunk, bio, cx);
        } else if self.is_crowded() && self.volume.chunks[chunk].entry != MapEntry::UNMAPPED {
            self.wait_in_crowd(bio, cx);
        } else {
            self.volume.discard(chunk, &blocks);
            self.time_commit(cx);
            match bio.flags.has(Flags::FUA) {
                true => self.flush(bio, Then::Complete),
                false => cx.complete(bio, Status::Ok),
            }
        }
        if let Some(rest) = rest {
            cx.again(rest);
        }
    }

    /// A read is back.
    pub fn read_done(&mut self, zone: SetZone) {
        if self.volume.zones.release(zone, false) {
            self.let_go(zone);
        }
    }

    /// A zone that was waiting for its last reader is free, or has to be reset.
    fn let_go(&mut self, zone: SetZone) {
        if self.volume.zones.is_sequential(zone) {
            self.notify(|signals| &signals.clean);
        }
        self.space_freed();
    }

    /// A write that changed nothing but data is back.
    pub fn overwrite_done(&mut self, zone: SetZone) {
        let state = &mut self.volume.zones.all[zone];
        state.overwrites -= 1;
        let (member, is_last) = (state.member, state.overwrites == 0);
        self.volume.zones.members[member].is_unflushed = true;
        self.volume.zones.release(zone, true);
        if is_last && self.jobs > 0 {
            self.notify(|signals| &signals.progress);
        }
        self.leave_unwritten(zone);
    }

    /// If this was the last write to a zone, all of it may have been discarded meanwhile: then nobody else lets it go. And
    /// reclaim, which leaves chunks alone that are written, may have been waiting for that if somebody waits for space.
    fn leave_unwritten(&mut self, zone: SetZone) {
        let state = &self.volume.zones.all[zone];
        if state.writes > 0 {
            return;
        }
        if let (true, Role::Data(chunk) | Role::Buffer(chunk)) = (state.valid.is_empty(), state.role) {
            self.volume.settle(chunk);
            self.is_notified = true;
        }
        self.want_space();
    }

    /// Zeroes in front of a direct write are written, or not.
    pub fn fill_done(&mut self, zone: SetZone, status: Status) {
        let member = self.volume.zones.all[zone].member;
        self.volume.zones.members[member].is_unflushed = true;
        self.volume.zones.release(zone, true);
        self.after_write(zone, status);
        self.leave_unwritten(zone);
    }

    /// A write is back. Returns whether its bio is done now.
    pub fn write_done(&mut self, key: usize, status: Status, cx: &mut Cx<'_>) -> Write {
        let write = self.volume.writes.remove(key);
        let member = self.volume.zones.all[write.zone].member;
        self.volume.zones.members[member].is_unflushed = true;
        self.volume.zones.release(write.zone, true);
        if status.is_ok() {
            self.volume.written(&write);
        } else if !self.guards.gone().trust_copy_after_failure {
            self.volume.write_failed(&write);
        }
        self.after_write(write.zone, status);
        self.volume.mark_unrecorded(&write);
        self.volume.settle(write.chunk);
        self.want_space();
        if self.has_to_record() {
            self.notify(|signals| &signals.commit);
        }
        if self.jobs > 0 && self.volume.zones.all[write.zone].writes == 0 {
            self.notify(|signals| &signals.progress);
        }
        self.time_commit(cx);
        write
    }

    /// If a write to a sequential zone failed, nobody knows where its pointer is.
    fn after_write(&mut self, zone: SetZone, status: Status) {
        let state = &mut self.volume.zones.all[zone];
        if !status.is_ok() && state.class == ZoneClass::Sequential {
            state.is_suspect = true;
            if let Role::Data(chunk) = state.role
                && !core::mem::replace(&mut self.volume.make_busy(chunk).is_recovering, true)
            {
                self.to_recover.push(chunk);
            }
        }
        let state = &self.volume.zones.all[zone];
        if state.is_suspect && state.writes == 0 {
            self.notify(|signals| &signals.recover);
        }
    }

    /// A write is done: if somebody waits for space, reclaim may win the zone that it went to, and if that let zones go, the
    /// commit that frees them is due now.
    pub fn want_space(&mut self) {
        if self.is_starved() {
            self.notify(|signals| &signals.reclaim);
            self.notify(|signals| &signals.commit);
        }
    }

    /// Sees to it that what has changed is committed some time.
    pub fn time_commit(&mut self, cx: &mut Cx<'_>) {
        let has_changes = !self.volume.dirty.is_empty() || !self.volume.zones.leaving.is_empty();
        if has_changes && !self.is_commit_timed {
            self.is_commit_timed = true;
            cx.wake_at(cx.now() + self.knobs.commit_time(), COMMIT);
        }
    }
}
