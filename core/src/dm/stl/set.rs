//! The devices of a set, and whose a block is.

use core::ops::Range;

use super::format::{Member, MemberState};
use super::numbers::Pba;
use super::{BLOCK_SECTORS, ZoneIndex};
use crate::prelude::*;
use crate::sector::Sector;

/// A place on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The device, by its place in the root.
    pub member: usize,
    /// The sector there.
    pub sector: Sector,
}

/// The devices of a set in the order of their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    zone_blocks: u32,
    members: Vec<Member>,
}

impl Set {
    /// A set of devices whose zones have `zone_blocks` blocks. They follow each other and do not overlap: a root that is sound says so.
    #[must_use]
    pub fn new(zone_blocks: u32, members: Vec<Member>) -> Self {
        Self { zone_blocks, members }
    }

    /// Blocks of a zone.
    #[must_use]
    pub fn zone_blocks(&self) -> u32 {
        self.zone_blocks
    }

    /// The devices.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The zone of a block, and where in it that is.
    #[must_use]
    pub fn zone_of(&self, place: Pba) -> (ZoneIndex, u32) {
        let blocks = u64::from(self.zone_blocks);
        (ZoneIndex((place.0 / blocks) as u32), (place.0 % blocks) as u32)
    }

    /// The first block of a zone.
    #[must_use]
    pub fn start(&self, zone: ZoneIndex) -> Pba {
        Pba(u64::from(zone.0) * u64::from(self.zone_blocks))
    }

    /// The zones of a device.
    #[must_use]
    pub fn zones(&self, member: usize) -> Range<ZoneIndex> {
        let Member { first, zones, .. } = self.members[member];
        let (start, _) = self.zone_of(first);
        start..ZoneIndex(start.0 + zones)
    }

    /// The last device that begins at a block or before it.
    #[must_use]
    pub fn member_of(&self, place: Pba) -> usize {
        self.members.partition_point(|member| member.first <= place).saturating_sub(1)
    }

    /// Where a block is; `None` if no device has it, or that one is gone.
    #[must_use]
    pub fn locate(&self, place: Pba) -> Option<Spot> {
        let member = self.member_with(place)?;
        let it = &self.members[member];
        let sector = Sector((place - it.first) * u64::from(BLOCK_SECTORS));
        (it.state != MemberState::Gone).then_some(Spot { member, sector })
    }

    /// The device that has a block.
    fn member_with(&self, place: Pba) -> Option<usize> {
        let member = self.member_of(place);
        let it = self.members.get(member)?;
        (place.0.checked_sub(it.first.0)? < u64::from(it.zones) * u64::from(self.zone_blocks)).then_some(member)
    }

    /// Whether a zone is on a device that leaves.
    #[must_use]
    pub fn is_leaving(&self, zone: ZoneIndex) -> bool {
        let member = self.member_with(self.start(zone));
        member.is_some_and(|member| self.members[member].state == MemberState::Leaving)
    }

    /// The zones of devices in such a state.
    pub fn zones_that_are(&self, state: MemberState) -> impl Iterator<Item = ZoneIndex> {
        let members = (0..self.members.len()).filter(move |member| self.members[*member].state == state);
        members.map(|member| self.zones(member)).flat_map(|zones| (zones.start.0..zones.end.0).map(ZoneIndex))
    }

    /// How many devices are used and do not leave, and how many zones they have.
    #[must_use]
    pub fn used(&self) -> (usize, usize) {
        let used = self.members.iter().filter(|member| member.state == MemberState::Used);
        used.fold((0, 0), |(devices, zones), member| (devices + 1, zones + member.zones as usize))
    }

    /// The device of this identity leaves from now on; whether there is one.
    pub(super) fn leave(&mut self, id: [u8; 16]) -> bool {
        let member = self.members.iter_mut().find(|member| member.id == id && member.state != MemberState::Gone);
        member.map(|member| member.state = MemberState::Leaving).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::format::MemberKind;

    #[test]
    fn a_block_is_on_the_device_that_has_its_number_and_on_none_in_a_gap() {
        let member =
            |first, zones, state| Member { id: [0; 16], first: Pba(first), zones, kind: MemberKind::Zoned, state };
        let members = vec![
            member(0, 2, MemberState::Used),
            member(300, 1, MemberState::Gone),
            member(500, 3, MemberState::Leaving),
        ];
        let set = Set::new(100, members);
        let spot = |member, block: u64| Some(Spot { member, sector: Sector(block * 8) });
        assert_eq!(set.locate(Pba(0)), spot(0, 0));
        assert_eq!(set.locate(Pba(199)), spot(0, 199));
        assert_eq!(set.locate(Pba(200)), None, "between two devices");
        assert_eq!(set.locate(Pba(310)), None, "on one that is gone");
        assert_eq!(set.locate(Pba(799)), spot(2, 299));
        assert_eq!(set.locate(Pba(800)), None, "behind the last");
        assert_eq!(set.zone_of(Pba(731)), (ZoneIndex(7), 31));
        assert_eq!(set.start(ZoneIndex(7)), Pba(700));
        assert_eq!(set.zones(2), ZoneIndex(5)..ZoneIndex(8));
        assert_eq!(
            [1, 3, 4, 5, 7, 8].map(|zone| set.is_leaving(ZoneIndex(zone))),
            [false, false, false, true, true, false]
        );
        assert!(set.zones_that_are(MemberState::Gone).eq([ZoneIndex(3)]));
        assert_eq!(set.used(), (1, 2));
    }
}
