//! Members that are older copies: a clone or a restored backup of a disk of the set.
//!
//! dm-zoned puts no version on data or on the superblocks of zoned disks, so a copy differs from its disk only by
//! *misfits*, sequential zones whose write pointers do not fit the mapping:
//!
//! - zones without an owner that were written,
//! - zones of chunks with valid blocks at or behind their write pointers.
//!
//! A power cut leaves few of them ([`most_misfits`]). Zones without an owner are the unrecorded zones of [`super::zones`]. Zones that are cut short are left by a kernel, which commits before data is flushed and resets zones before
//! it commits. A set with more misfits has a disk that is older than the others. Then nothing may be written: the owner has
//! to find the right disk, or to repair the set without what only that disk leads to.

use super::format::Layout;
use super::policy::MOST_UNRECORDED;
use super::{Block, MemberNo, Rows, SetZone, ZoneClass, ZoneHealth, ZoneSpace};
use crate::prelude::*;

/// Misfits of a set of so many devices that are all of the same time, at most: unrecorded zones, and two of a copy on each
/// zoned device.
fn most_misfits(members: usize) -> u32 {
    MOST_UNRECORDED + 2 * (members as u32 - 1)
}

/// Numbers of zones whose write pointers do not fit the mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misfits {
    of_members: Rows<MemberNo, u32>,
    /// Zones without an owner that were written.
    without_owner: u32,
    /// Zones with valid blocks at or behind their write pointers.
    cut_short: u32,
}

impl Misfits {
    /// None so far.
    pub fn none(space: &ZoneSpace) -> Self {
        Self { of_members: Rows::filled(0, space.members().len()), without_owner: 0, cut_short: 0 }
    }

    /// Counts `zone` if it is a misfit. `valid_from`: if a chunk has the zone, whether it has valid blocks from a block on.
    pub fn look_at(
        &mut self,
        (space, layout): (&ZoneSpace, &Layout),
        zone: SetZone,
        is_owned: bool,
        valid_from: impl FnOnce(Block) -> bool,
    ) {
        let info = &space.zones()[zone];
        let is_judged = info.class == ZoneClass::Sequential && info.health == ZoneHealth::Good;
        if !is_judged || layout.is_metadata(space, zone) {
            return;
        }
        let (count, is_misfit) = match is_owned {
            true => (&mut self.cut_short, valid_from(info.wp)),
            false => (&mut self.without_owner, info.wp > Block::FIRST),
        };
        *count += u32::from(is_misfit);
        self.of_members[space.member_of(zone)] += u32::from(is_misfit);
    }

    /// The disk that is an older copy, if there are more misfits than a power cut leaves. A disk alone is never one: its
    /// mapping is as old as its zones.
    pub fn older_copy(&self) -> Option<OlderCopy> {
        let Self { without_owner, cut_short, .. } = *self;
        let is_older = self.of_members.len() > 1 && without_owner + cut_short > most_misfits(self.of_members.len());
        is_older.then(|| OlderCopy {
            suspects: self.suspects(),
            without_owner,
            cut_short,
            most: most_misfits(self.of_members.len()),
        })
    }

    /// The devices that can be the older one, the likelier first. An older disk with the metadata, which is the first,
    /// makes zones of all others misfit; an older one of the others only its own.
    fn suspects(&self) -> Vec<MemberNo> {
        let all = self.without_owner + self.cut_short;
        let alone = self.of_members.numbered().find(|(_, count)| u64::from(**count) * 8 >= u64::from(all) * 7);
        match alone {
            Some((alone, _)) if self.of_members.len() > 2 => Vec::from([alone, MemberNo(0)]),
            Some((alone, _)) => Vec::from([MemberNo(0), alone]),
            None => Vec::from([MemberNo(0)]),
        }
    }
}

/// A disk of a set is an older copy of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OlderCopy {
    /// The devices that can be the older one, the likelier first.
    pub suspects: Vec<MemberNo>,
    /// Zones without an owner that were written.
    pub without_owner: u32,
    /// Zones with valid blocks at or behind their write pointers.
    pub cut_short: u32,
    /// The most of both that a power cut leaves.
    pub most: u32,
}

impl_display!(OlderCopy, |self, f| {
    let Self { suspects, without_owner, cut_short, most } = self;
    for (place, suspect) in suspects.iter().enumerate() {
        write!(f, "{}device {suspect}", if place > 0 { " or " } else { "" })?;
    }
    write!(
        f,
        " is an older copy of itself: {without_owner} written zones have no owner and {cut_short} zones lack valid blocks, \
         where a power cut leaves {most} at most"
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    fn with(of_members: &[u32]) -> Option<OlderCopy> {
        let without_owner = of_members.iter().sum();
        Misfits { of_members: of_members.iter().copied().collect(), without_owner, cut_short: 0 }.older_copy()
    }

    fn suspects(of_members: &[u32]) -> Vec<u32> {
        with(of_members).map(|copy| copy.suspects.iter().map(|member| member.0).collect()).unwrap_or_default()
    }

    #[test]
    fn as_many_misfits_as_a_power_cut_leaves_do_not_tell_of_an_older_copy() {
        assert_eq!(with(&[0, 6, 6]), None);
        assert!(with(&[0, 7, 6]).is_some());
        assert_eq!(with(&[0, 6, 6, 2]), None, "one more device has one more copy");
    }

    #[test]
    fn a_disk_alone_is_never_an_older_copy() {
        assert_eq!(with(&[1_000]), None);
    }

    #[test]
    fn misfits_of_one_zoned_disk_of_several_name_that_disk_and_of_all_the_one_with_the_metadata() {
        assert_eq!(suspects(&[0, 40, 2]), [1, 0]);
        assert_eq!(suspects(&[0, 2, 40]), [2, 0]);
        assert_eq!(suspects(&[0, 20, 20]), [0]);
        assert_eq!(suspects(&[0, 40]), [0, 1], "of two disks, either can be the older one");
    }
}
