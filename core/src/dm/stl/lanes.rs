//! Lanes: the zones to which the volume appends, each with what goes there.
//!
//! ```text
//!   map      copies    users      old copies   oldest copies   users beside: on the other devices, in order, at other angles
//!   ─────────── base ─────────    ──────────────── side ────────────────────────────────────────────────────────
//! ```
//!
//! A volume works with the three base lanes alone. Side lanes make it faster: they get a zone only while there are some to spare, and a base
//! lane for which there is none goes on in theirs.

use core::ops::Range;

use super::log::{Pool, Stream};
use super::{Generation, ZoneIndex};
use crate::prelude::*;
use crate::time::Instant;

/// A lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneNo(pub usize);

/// The open zone of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub zone: ZoneIndex,
    pub generation: Generation,
    /// The next block to be written, in the zone.
    pub next: u32,
    /// Blocks that can be written.
    pub room: u32,
}

/// What a lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// What has to be written, wherever that may be.
    Base,
    /// Copies of what was copied before.
    Copies,
    /// Changes of users on a device: the member.
    Member(usize),
    /// What users write in order, on a device without a head: the member.
    InOrder(usize),
    /// Small changes of users that are flushed one by one, at another angle of the disk.
    Angle,
}

#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub stream: Stream,
    pub used_for: Use,
    pub cursor: Option<Cursor>,
    /// Batches under way in its zone.
    pub under_way: u32,
    /// When the block behind its last batch passed the head, if that is known.
    pub passed: Option<Instant>,
}

impl Lane {
    fn new(stream: Stream, used_for: Use) -> Self {
        Self { stream, used_for, cursor: None, under_way: 0, passed: None }
    }

    /// Blocks that its zone still takes.
    pub fn room(&self) -> u32 {
        self.cursor.map_or(0, |cursor| cursor.room - cursor.next)
    }

    /// Whether it is for what users write in order.
    pub fn is_in_order(&self) -> bool {
        matches!(self.used_for, Use::InOrder(_))
    }

    /// Whether it takes a batch: a header and a block.
    pub fn has_room(&self) -> bool {
        self.room() >= 2
    }
}

/// The lanes of a volume.
#[derive(Clone, Debug)]
pub(super) struct Lanes(Vec<Lane>);

/// Lanes at other angles, beside the one of users.
const ANGLES: usize = 5;

/// What lanes have to know of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    /// It takes changes.
    pub is_used: bool,
    /// It is faster than others.
    pub is_front: bool,
    pub is_rotational: bool,
}

impl Lanes {
    pub const MAP: LaneNo = LaneNo(0);
    pub const COPIES: LaneNo = LaneNo(1);
    pub const USERS: LaneNo = LaneNo(2);

    /// Those of a volume on these devices. The lane of users is on the first that is not faster than others, and has none of its own there.
    pub fn new(devices: &[Device]) -> Self {
        let base = [Stream::Map, Stream::Copies, Stream::Users].map(|stream| Lane::new(stream, Use::Base));
        let copies = [Stream::OldCopies, Stream::OldestCopies].map(|stream| Lane::new(stream, Use::Copies));
        let home = devices.iter().position(|device| device.is_used && !device.is_front);
        let others = (0..devices.len()).filter(|member| devices[*member].is_used && home != Some(*member));
        let others = others.map(|member| Lane::new(Stream::Side, Use::Member(member)));
        // A head would lose a way with each batch of the other lane.
        let is_without_head = devices.iter().filter(|device| device.is_used).all(|device| !device.is_rotational);
        let in_order = (0..devices.len()).filter(|member| is_without_head && devices[*member].is_used);
        let in_order = in_order.map(|member| Lane::new(Stream::Side, Use::InOrder(member)));
        let angles = if home.is_some_and(|home| devices[home].is_rotational) { ANGLES } else { 0 };
        let angles = (0..angles).map(|_| Lane::new(Stream::Side, Use::Angle));
        Self(base.into_iter().chain(copies).chain(others).chain(in_order).chain(angles).collect())
    }

    pub fn is_base(lane: LaneNo) -> bool {
        lane <= Self::USERS
    }

    /// The base lane of a pool.
    pub fn base(pool: Pool) -> LaneNo {
        match pool {
            Pool::Recovery | Pool::Map => Self::MAP,
            Pool::Cleaning => Self::COPIES,
            Pool::Users => Self::USERS,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn all(&self) -> impl Iterator<Item = (LaneNo, &Lane)> {
        (0..).map(LaneNo).zip(&self.0)
    }

    /// Those of users.
    pub fn of_users(&self) -> impl Iterator<Item = (LaneNo, &Lane)> {
        self.all().filter(|(_, lane)| lane.stream.pool() == Pool::Users)
    }

    /// The lane of copies of this stream.
    pub fn of_copies(&self, stream: Stream) -> LaneNo {
        self.all().find(|(_, lane)| lane.stream == stream).map_or(Self::COPIES, |(lane, _)| lane)
    }

    /// Side lanes that have a zone among these.
    pub fn aside_in(&self, zones: &Range<ZoneIndex>) -> usize {
        let is_aside = |(lane, it): &(LaneNo, &Lane)| {
            !Self::is_base(*lane) && it.cursor.is_some_and(|cursor| zones.contains(&cursor.zone))
        };
        self.all().filter(is_aside).count()
    }

    /// Side lanes in the zone of which a base lane of `pool` may go on that has none.
    fn lenders(&self, pool: Pool) -> impl Iterator<Item = (LaneNo, &Lane)> {
        self.all().filter(move |(lane, it)| !Self::is_base(*lane) && it.has_room() && it.stream.pool() >= pool)
    }

    /// The one that lends its zone now, as nothing is under way there: one of its own pool first.
    pub fn lender(&self, pool: Pool) -> Option<LaneNo> {
        let idle = self.lenders(pool).filter(|(_, it)| it.under_way == 0);
        idle.min_by_key(|(_, it)| it.stream.pool()).map(|(lane, _)| lane)
    }

    /// Whether one will lend its zone, at the latest when nothing is under way there.
    pub fn will_lend(&self, pool: Pool) -> bool {
        self.lenders(pool).next().is_some()
    }
}

impl core::ops::Index<LaneNo> for Lanes {
    type Output = Lane;

    fn index(&self, lane: LaneNo) -> &Lane {
        &self.0[lane.0]
    }
}

impl core::ops::IndexMut<LaneNo> for Lanes {
    fn index_mut(&mut self, lane: LaneNo) -> &mut Lane {
        &mut self.0[lane.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Device = Device { is_used: true, is_front: false, is_rotational: true };
    const SSD: Device = Device { is_used: true, is_front: true, is_rotational: false };

    fn cursor(zone: u32) -> Option<Cursor> {
        Some(Cursor { zone: ZoneIndex(zone), generation: Generation(1), next: 0, room: 10 })
    }

    #[test]
    fn each_device_that_takes_changes_has_a_lane_and_a_rotating_disk_some_at_other_angles() {
        let uses =
            |devices: &[Device]| Lanes::new(devices).of_users().map(|(_, lane)| lane.used_for).collect::<Vec<_>>();
        let alone = Device { is_rotational: false, ..DISK };
        assert_eq!(uses(&[alone]), [Use::Base, Use::InOrder(0)]);
        assert_eq!(uses(&[alone, alone]), [Use::Base, Use::Member(1), Use::InOrder(0), Use::InOrder(1)]);
        assert_eq!(uses(&[SSD, DISK])[..3], [Use::Base, Use::Member(0), Use::Angle]);
        let leaving = Device { is_used: false, ..DISK };
        assert_eq!(uses(&[leaving, DISK, DISK])[..3], [Use::Base, Use::Member(2), Use::Angle]);
        assert_eq!(uses(&[DISK]).len(), 1 + ANGLES);
    }

    #[test]
    fn a_base_lane_without_a_zone_goes_on_in_that_of_its_own_or_of_who_has_less_right() {
        let mut lanes = Lanes::new(&[SSD, DISK]);
        let old = lanes.of_copies(Stream::OldCopies);
        let (side, _) = lanes.of_users().find(|(_, lane)| lane.used_for == Use::Member(0)).unwrap();
        assert_eq!(lanes.lender(Pool::Users), None);
        lanes[side].cursor = cursor(1);
        assert_eq!([Pool::Cleaning, Pool::Users].map(|pool| lanes.lender(pool)), [Some(side); 2]);
        lanes[old].cursor = cursor(2);
        assert_eq!([Pool::Cleaning, Pool::Users].map(|pool| lanes.lender(pool)), [Some(old), Some(side)]);
        lanes[side].under_way = 1;
        assert!(lanes.lender(Pool::Users).is_none() && lanes.will_lend(Pool::Users));
        let aside = |zones: [u32; 2]| lanes.aside_in(&(ZoneIndex(zones[0])..ZoneIndex(zones[1])));
        assert_eq!([aside([0, 2]), aside([0, 3]), aside([3, 9])], [1, 2, 0]);
    }
}
