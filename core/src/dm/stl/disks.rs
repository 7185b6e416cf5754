//! The disks of a set: where blocks lie on them, and I/O of whole blocks for tasks.

use core::ops::Range;

use super::format::MemberState;
use super::set::Set;
use super::{BLOCK_BYTES, BLOCK_SECTORS, Pba, ZoneIndex};
use crate::block::{Data, DeviceId, Flags, Limits, Payload, Reason};
use crate::prelude::*;
use crate::sector::Sector;
use crate::task::{Answer, Io};
use crate::zone::{Zone, ZoneKind};

/// A disk, as its device in the stack sees it.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub device: DeviceId,
    /// Most blocks of a command.
    most_blocks: u32,
    /// Most segments of memory of a command.
    most_segments: usize,
    /// Most active zones, if there is a limit.
    pub most_active: Option<u32>,
    pub is_rotational: bool,
    /// It has batches of users of which it may lose some with its power.
    pub has_undurable: bool,
}

impl Disk {
    pub fn new(device: DeviceId, limits: &Limits) -> Self {
        let most_blocks = limits.max_sectors.map_or(u32::MAX / BLOCK_SECTORS, |most| (most / BLOCK_SECTORS).max(1));
        Self {
            device,
            most_blocks,
            most_segments: limits.max_segments.map_or(usize::MAX, |most| most as usize),
            most_active: limits.max_active(),
            is_rotational: limits.rotational,
            has_undurable: false,
        }
    }

    /// Most blocks of a command.
    pub fn most_blocks(&self) -> u32 {
        self.most_blocks
    }
}

/// The disks of a set, by member.
#[derive(Clone, Debug, Default)]
pub(super) struct Disks {
    pub set: Set,
    /// None of a device that is gone.
    pub all: Vec<Option<Disk>>,
    /// Blocks that can be written, and whether they have to be written in order, for each zone of the set.
    pub zones: Vec<Shape>,
    /// Blocks that every zone takes that can be written: no batch is longer, so one that fails fits elsewhere.
    pub least_room: u32,
    /// Zones of devices that are faster than the others, and of these others; if all are alike, the latter are all.
    pub fronts: Vec<Range<ZoneIndex>>,
    pub backs: Vec<Range<ZoneIndex>>,
}

/// What a zone is like, whatever is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Blocks that the zone can hold.
    pub room: u32,
    pub is_sequential: bool,
    /// True of the last zone of a disk if it is shorter than the others. It is never written: no batch may be longer than the shortest zone that is.
    pub is_short: bool,
}

impl Shape {
    /// Shape of a zone of a disk whose zones have `zone_blocks` blocks, but for the last one.
    pub fn of(zone: &Zone, zone_blocks: u32) -> Self {
        Self {
            room: (zone.capacity / u64::from(BLOCK_SECTORS)) as u32,
            is_sequential: zone.kind == ZoneKind::Sequential,
            is_short: zone.len != u64::from(zone_blocks * BLOCK_SECTORS),
        }
    }

    /// Shape of the zones that a regular disk is cut into.
    pub fn of_regular(zone_blocks: u32) -> Self {
        Self { room: zone_blocks, ..Self::default() }
    }

    /// Blocks that can be written to the zone.
    pub fn writable(self) -> u32 {
        if self.is_short { 0 } else { self.room }
    }
}

impl Disks {
    /// Tells the devices that stand in front: those that do not rotate, where others do.
    pub fn sort(&mut self) {
        let does_any_rotate = self.all.iter().flatten().any(|disk| disk.is_rotational);
        let is_front = |member: &usize| does_any_rotate && !self.does_rotate(*member);
        let is_used = |member: &usize| self.set.members()[*member].state == MemberState::Used;
        let (fronts, backs): (Vec<_>, Vec<_>) = (0..self.all.len()).filter(is_used).partition(is_front);
        let zones = |members: Vec<usize>| members.into_iter().map(|member| self.set.zones(member)).collect();
        (self.fronts, self.backs) = (zones(fronts), zones(backs));
    }

    /// Whether a device turns; one that is gone does not.
    pub fn does_rotate(&self, member: usize) -> bool {
        self.all[member].as_ref().is_some_and(|disk| disk.is_rotational)
    }

    /// A device may lose batches of users with its power.
    pub fn doubt(&mut self, member: usize) {
        self.all[member].iter_mut().for_each(|disk| disk.has_undurable = true);
    }

    /// Whether a device stands in front of others.
    pub fn is_front(&self, member: usize) -> bool {
        self.fronts.contains(&self.set.zones(member))
    }

    /// The device of a zone.
    pub fn member_of(&self, zone: ZoneIndex) -> usize {
        self.set.member_of(self.set.start(zone))
    }

    /// What a zone is like.
    pub fn shape(&self, zone: ZoneIndex) -> Shape {
        self.zones[zone.0 as usize]
    }

    /// The disk of a block, and its sector there.
    pub fn spot(&self, place: Pba) -> Result<(&Disk, Sector), Reason> {
        let spot = self.set.locate(place).ok_or(Reason::Removed)?;
        let disk = self.all[spot.member].as_ref().ok_or(Reason::Removed)?;
        Ok((disk, spot.sector))
    }

    /// The devices that are there.
    pub fn present(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|member| self.all[*member].is_some()).collect()
    }

    /// Sends writes of `payload` from `place` on, in order, and no longer than the disk takes.
    pub fn send(&self, io: &Io, place: Pba, payload: Payload) -> Result<Vec<Answer>, Reason> {
        let (disk, sector) = self.spot(place)?;
        let payload = gathered(payload, disk.most_segments)?;
        let (blocks, mut at, mut answers) = (payload.bytes() / BLOCK_BYTES, 0, Vec::new());
        if blocks <= disk.most_blocks as usize {
            return Ok(vec![io.write_payload(disk.device, sector, payload, Flags::NONE)]);
        }
        while at < blocks as u32 {
            let now = disk.most_blocks.min(blocks as u32 - at);
            let part = payload.slice(at * BLOCK_SECTORS, now * BLOCK_SECTORS);
            answers.push(io.write_payload(disk.device, sector + u64::from(at * BLOCK_SECTORS), part, Flags::NONE));
            at += now;
        }
        Ok(answers)
    }

    /// Reads blocks.
    pub fn read(&self, io: &Io, place: Pba, blocks: u32) -> Result<Reading, Reason> {
        let (disk, sector) = self.spot(place)?;
        let data = memory(blocks as usize)?;
        let (mut at, mut answers) = (0, Vec::new());
        while at < blocks {
            let now = disk.most_blocks.min(blocks - at);
            let part = data.slice(at as usize * BLOCK_BYTES, now as usize * BLOCK_BYTES);
            answers.push(io.read(disk.device, sector + u64::from(at * BLOCK_SECTORS), part));
            at += now;
        }
        Ok(Reading { data, answers })
    }
}

/// Blocks that are being read.
pub(super) struct Reading {
    data: Data,
    answers: Vec<Answer>,
}

impl Reading {
    pub async fn data(self) -> Result<Data, Reason> {
        all(self.answers).await.map(|()| self.data)
    }
}

/// Waits for all, whatever becomes of some.
pub(super) async fn all(answers: Vec<Answer>) -> Result<(), Reason> {
    let mut result = Ok(());
    for answer in answers {
        let one = answer.ok().await;
        result = result.and(one);
    }
    result
}

/// Memory for blocks.
pub(super) fn memory(blocks: usize) -> Result<Data, Reason> {
    Data::try_zeroed(blocks * BLOCK_BYTES).ok_or(Reason::NoMemory)
}

/// Blocks in memory.
pub(super) fn data_of(bytes: &[u8]) -> Result<Data, Reason> {
    let data = memory(bytes.len() / BLOCK_BYTES)?;
    data.write(0, bytes);
    Ok(data)
}

fn gathered(payload: Payload, most: usize) -> Result<Payload, Reason> {
    if payload.segments().len() <= most {
        return Ok(payload);
    }
    let whole = memory(payload.bytes() / BLOCK_BYTES)?;
    payload.copy_to(&whole);
    Ok(Payload::Data(whole))
}
