//! The zones of a set while it is used: what each is for, and which are free.
//!
//! A sequential zone is *unrecorded* while it may be written and the metadata on the disk may name no chunk for it: a chunk
//! or a copy took it since the last commit, nothing is valid there any more, writes in flight may have that effect, or no
//! flush covers its reset yet. A power cut leaves such zones behind as written zones without an owner. Their number is
//! bounded (the knob `unrecorded_zones`), so a set with more of them has a disk that is an older copy of itself
//! ([`super::stale`]).

use alloc::collections::VecDeque;

use super::policy::{Pool, Stock};
use super::valid::ValidBlocks;
use super::{BLOCK_SECTORS, Block, ChunkNo, MemberNo, Number, Rows, SetZone, ZoneClass, ZoneHealth, ZoneSpace};
use crate::block::{DeviceId, Limits};
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::Instant;
use crate::zone::ZoneNo;

/// What a zone is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It cannot be used, or holds metadata.
    None,
    /// It is free.
    Free,
    /// It holds the blocks of a chunk.
    Data(ChunkNo),
    /// It buffers rewrites of a chunk.
    Buffer(ChunkNo),
    /// Reclaim copies a chunk there.
    Target,
    /// Its chunk is gone, but the metadata on the disk may still name it: it must not be written.
    Leaving,
    /// The metadata on the disk does not name it any more: it is free when nobody reads it and it is empty.
    Left,
}

/// A zone in use.
#[derive(Debug)]
pub(super) struct ZoneState {
    pub class: ZoneClass,
    pub health: ZoneHealth,
    pub role: Role,
    pub member: MemberNo,
    /// Its first sector on its device.
    pub start: Sector,
    /// Of a sequential zone: where the next write goes.
    pub wp: Block,
    /// A write failed: where the next one goes is not known.
    pub is_suspect: bool,
    /// True if it is sequential, may be written, and the metadata on the disk may name no chunk for it.
    pub is_unrecorded: bool,
    /// Blocks that hold data of the chunk.
    pub valid: ValidBlocks,
    /// Bios that read or write it.
    pub in_flight: u32,
    /// Bios that write it.
    pub writes: u32,
    /// Those of them that change nothing but data, and that nobody knows more of.
    pub overwrites: u32,
    /// When it was last written.
    pub written_at: Instant,
    /// Rises with each use.
    pub used: u64,
    /// Of a free zone: rises with each zone that becomes free.
    pub freed: u64,
}

/// A device of the set.
#[derive(Clone, Debug)]
pub(super) struct MemberState {
    pub device: DeviceId,
    pub limits: Limits,
    /// Whether writes completed that no flush has covered.
    pub is_unflushed: bool,
}

/// All zones, and lists of the free ones.
pub(super) struct Zones {
    pub zone_blocks: u32,
    pub all: Rows<SetZone, ZoneState>,
    pub members: Rows<MemberNo, MemberState>,
    pub has_cache: bool,
    /// True if conventional zones take first writes and buffers beside the cache, as in Linux before there were cache zones.
    pub random_buffers: bool,
    /// Free zones: those of the cache, then random and sequential ones of each member.
    free: Vec<VecDeque<SetZone>>,
    /// Usable zones that hold no metadata: cache, random, sequential.
    totals: [Rows<MemberNo, u32>; 3],
    /// Sequential zones that are kept for reclaim.
    pub reserve: u32,
    /// Zones that the next commit lets go.
    pub leaving: Vec<SetZone>,
    /// Zones that a commit let go and that have to be emptied.
    pub to_reset: Vec<SetZone>,
    /// Zones that were written and had no owner as the metadata was loaded. They are reset when zones are needed: if a
    /// disk is an older copy of itself, they can hold data.
    pub found_written: Vec<SetZone>,
    /// The number of unrecorded zones, those of `found_written` included.
    pub unrecorded: u32,
    /// Zones of chunks and copies that became unrecorded since the last commit, and maybe others.
    taken: Vec<SetZone>,
    uses: u64,
    frees: u64,
}

impl Zones {
    pub fn new(space: &ZoneSpace, members: Rows<MemberNo, MemberState>, reserve: u32) -> Self {
        let zone_blocks = space.zone_blocks();
        let state = |(zone, info): (SetZone, &super::ZoneInfo)| {
            let (member, start) = space.place(space.start(zone));
            ZoneState {
                class: info.class,
                health: info.health,
                role: Role::None,
                member,
                start,
                wp: info.wp,
                is_suspect: false,
                is_unrecorded: false,
                valid: ValidBlocks::new(zone_blocks),
                in_flight: 0,
                writes: 0,
                overwrites: 0,
                written_at: Instant::ZERO,
                used: 0,
                freed: 0,
            }
        };
        let lists = members.len();
        Self {
            zone_blocks,
            all: space.zones().numbered().map(state).collect(),
            has_cache: space.has_cache(),
            random_buffers: false,
            free: (0..1 + 2 * lists).map(|_| VecDeque::new()).collect(),
            totals: [0; 3].map(|_| Rows::filled(0, lists)),
            members,
            reserve,
            leaving: Vec::new(),
            to_reset: Vec::new(),
            found_written: Vec::new(),
            unrecorded: 0,
            taken: Vec::new(),
            uses: 0,
            frees: 0,
        }
    }

    fn list(&self, class: ZoneClass, member: MemberNo) -> usize {
        match class {
            ZoneClass::Cache => 0,
            ZoneClass::Random => 1 + 2 * member.index(),
            ZoneClass::Sequential => 2 + 2 * member.index(),
        }
    }

    /// Counts a zone that can hold data.
    pub fn count(&mut self, zone: SetZone) {
        let state = &self.all[zone];
        self.totals[state.class as usize][state.member] += 1;
    }

    /// Puts a zone that is free and empty with the others.
    pub fn put_free(&mut self, zone: SetZone) {
        let state = &mut self.all[zone];
        debug_assert!(state.valid.is_empty() && state.in_flight == 0);
        self.frees += 1;
        (state.role, state.freed) = (Role::Free, self.frees);
        let (class, member) = (state.class, state.member);
        self.set_unrecorded(zone, false);
        let list = self.list(class, member);
        self.free[list].push_back(zone);
    }

    /// True if zones of `class` take first writes and buffer.
    pub fn is_buffering(&self, class: ZoneClass) -> bool {
        match class {
            ZoneClass::Cache => true,
            ZoneClass::Random => !self.has_cache || self.random_buffers,
            ZoneClass::Sequential => false,
        }
    }

    /// A free zone for a first write or a buffer. If conventional zones buffer beside the cache, all of them are one queue: the zone
    /// that became free first.
    pub fn take_buffer(&mut self) -> Option<SetZone> {
        if !self.has_cache || !self.random_buffers {
            let class = if self.has_cache { ZoneClass::Cache } else { ZoneClass::Random };
            return self.take(class, Some(MemberNo(0)));
        }
        let random = self.members.numbers().map(|member| (ZoneClass::Random, member));
        let lists = core::iter::once((ZoneClass::Cache, MemberNo(0))).chain(random);
        let fronts = lists.filter_map(|(class, member)| {
            let list = self.list(class, member);
            Some((self.all[*self.free[list].front()?].freed, list))
        });
        let (_, list) = fronts.min()?;
        self.free[list].pop_front()
    }

    /// A free zone of `class`, of device `member` if it has one, else of the device with the most.
    pub fn take(&mut self, class: ZoneClass, member: Option<MemberNo>) -> Option<SetZone> {
        let lists = self.members.numbers().map(|member| self.list(class, member));
        let own = member.map(|member| self.list(class, member)).filter(|list| !self.free[*list].is_empty());
        let list = own.or_else(|| lists.max_by_key(|list| self.free[*list].len()))?;
        let zone = self.free[list].pop_front()?;
        self.set_unrecorded(zone, true);
        Some(zone)
    }

    /// Notes whether `zone` is unrecorded; a zone that is not sequential never is.
    pub fn set_unrecorded(&mut self, zone: SetZone, is_unrecorded: bool) {
        let state = &mut self.all[zone];
        if state.class != ZoneClass::Sequential || state.is_unrecorded == is_unrecorded {
            return;
        }
        state.is_unrecorded = is_unrecorded;
        if is_unrecorded {
            self.unrecorded += 1;
            self.taken.push(zone);
        } else {
            self.unrecorded -= 1;
        }
    }

    /// True if at least half of `most` zones are unrecorded, and a commit now would lower their number.
    pub fn has_to_record(&self, most: u32) -> bool {
        self.unrecorded >= most / 2
            && (self.taken.iter().any(|zone| self.is_recordable(*zone))
                || self.leaving.iter().any(|zone| self.is_sequential(*zone)))
    }

    /// True if a commit that begins now is the first to name `zone`.
    pub fn is_recordable(&self, zone: SetZone) -> bool {
        let state = &self.all[zone];
        state.is_unrecorded && matches!(state.role, Role::Data(_) | Role::Buffer(_)) && !state.valid.is_empty()
    }

    /// The unrecorded zones that a commit that begins now names.
    pub fn begin_record(&mut self) -> Vec<SetZone> {
        let taken = core::mem::take(&mut self.taken);
        self.taken = taken.into_iter().filter(|zone| self.all[*zone].is_unrecorded).collect();
        self.taken.iter().copied().filter(|zone| self.is_recordable(*zone)).collect()
    }

    /// Free and all zones of `class` on device `member`.
    pub fn pool(&self, class: ZoneClass, member: MemberNo) -> Pool {
        let free = self.free[self.list(class, member)].len() as u32;
        Pool { free, total: self.totals[class as usize][member] }
    }

    pub fn sum(&self, class: ZoneClass) -> Pool {
        let all = self.members.numbers().map(|member| self.pool(class, member));
        let members = if class == ZoneClass::Cache { 1 } else { usize::MAX };
        all.take(members).fold(Pool { free: 0, total: 0 }, |sum, pool| Pool {
            free: sum.free + pool.free,
            total: sum.total + pool.total,
        })
    }

    /// What is free.
    pub fn stock(&self) -> Stock {
        let sequential = self.sum(ZoneClass::Sequential);
        let reserve = self.reserve.min(sequential.free);
        Stock {
            cache: self.sum(ZoneClass::Cache),
            random: self.sum(ZoneClass::Random),
            sequential: Pool { free: sequential.free - reserve, total: sequential.total.saturating_sub(self.reserve) },
            reserve,
            zone_blocks: self.zone_blocks,
            leaving: (self.leaving.len() + self.to_reset.len() + self.found_written.len()) as u32,
            random_buffers: self.random_buffers,
        }
    }

    /// Whether no zone is on its way to be free.
    pub fn is_settled(&self) -> bool {
        self.leaving.is_empty() && self.to_reset.is_empty()
    }

    /// Whether a device has something that a loss of power takes.
    pub fn is_volatile(&self) -> bool {
        self.members.iter().any(|member| member.is_unflushed)
    }

    /// Whether a write is under way.
    pub fn is_written_somewhere(&self) -> bool {
        self.all.iter().any(|zone| zone.writes > 0)
    }

    /// Whether a zone will be free when it has no readers any more.
    pub fn is_read_somewhere(&self) -> bool {
        self.all.iter().any(|zone| zone.role == Role::Left && zone.in_flight > 0)
    }

    /// Whether a zone was taken for a write that has not come there yet. When it has, reclaim can win the zone.
    pub fn is_awaited_somewhere(&self) -> bool {
        let is_awaited = |zone: &ZoneState| {
            matches!(zone.role, Role::Data(_) | Role::Buffer(_))
                && zone.class != ZoneClass::Sequential
                && zone.valid.is_empty()
        };
        self.all.iter().any(is_awaited)
    }

    /// The device of `zone`.
    #[inline]
    pub fn device(&self, zone: SetZone) -> DeviceId {
        self.members[self.all[zone].member].device
    }

    /// The device of `zone`, and the first sector of `zone` there.
    pub fn start(&self, zone: SetZone) -> (DeviceId, Sector) {
        (self.device(zone), self.all[zone].start)
    }

    /// The sector of block `block` of `zone` on its device.
    #[inline]
    pub fn sector(&self, zone: SetZone, block: Block) -> Sector {
        self.all[zone].start + u64::from(block) * u64::from(BLOCK_SECTORS)
    }

    /// What a zone of a device is used for.
    pub fn use_of(&self, device: DeviceId, zone: ZoneNo) -> Option<&'static str> {
        let (member, _) = self.members.numbered().find(|(_, member)| member.device == device)?;
        // Zones are in the order of their devices.
        let all = self.all.as_slice();
        let first = all.partition_point(|zone| zone.member < member);
        let zone = all.get(first + zone.index()).filter(|zone| zone.member == member)?;
        Some(match zone.role {
            Role::None if zone.health == ZoneHealth::Good => "metadata",
            Role::None => "unusable",
            Role::Free => "free",
            Role::Data(_) => "data",
            Role::Buffer(_) => "buffer",
            Role::Target => "reclaim",
            Role::Leaving | Role::Left => "to be freed",
        })
    }

    pub fn is_sequential(&self, zone: SetZone) -> bool {
        self.all[zone].class == ZoneClass::Sequential
    }

    /// Notes that `zone` is written.
    #[inline]
    pub fn touch(&mut self, zone: SetZone, now: Instant) {
        self.uses += 1;
        let state = &mut self.all[zone];
        (state.written_at, state.used) = (now, self.uses);
    }

    /// A bio that used `zone` is done. Returns whether that lets the zone go.
    #[inline]
    pub fn release(&mut self, zone: SetZone, is_write: bool) -> bool {
        let state = &mut self.all[zone];
        state.in_flight -= 1;
        state.writes -= u32::from(is_write);
        state.in_flight == 0 && state.role == Role::Left && self.let_go(zone)
    }

    /// A commit is durable that does not name `zone` any more. Returns whether it is free now, or has to be reset first.
    pub fn leave(&mut self, zone: SetZone) -> bool {
        self.all[zone].role = Role::Left;
        self.all[zone].in_flight == 0 && self.let_go(zone)
    }

    /// Keeps a zone without an owner that was written before the metadata was loaded, until zones are needed.
    pub fn keep_written(&mut self, zone: SetZone) {
        self.all[zone].role = Role::Left;
        self.set_unrecorded(zone, true);
        self.found_written.push(zone);
    }

    /// Does without a zone from now on.
    pub fn lose(&mut self, zone: SetZone) {
        self.all[zone].role = Role::None;
        self.set_unrecorded(zone, false);
    }

    fn let_go(&mut self, zone: SetZone) -> bool {
        let state = &self.all[zone];
        let is_usable = state.health == ZoneHealth::Good;
        match state.class {
            _ if !is_usable => self.lose(zone),
            ZoneClass::Sequential if state.wp > Block::FIRST || state.is_suspect => self.to_reset.push(zone),
            _ => self.put_free(zone),
        }
        true
    }
}
