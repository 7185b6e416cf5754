//! Reports of several devices are one picture only if nothing changes while they are taken: so who wants to look waits
//! until nothing changes, and changes wait while somebody looks. Any number of reports look at the same time; who looks to
//! change what it has seen is alone.

use alloc::collections::VecDeque;

use crate::block::{Bio, Op};
use crate::prelude::*;

/// Who changes zones and who looks at them.
#[derive(Default)]
pub(super) struct Quiet {
    /// Changes that are under way.
    changes: u32,
    /// Reports that are under way.
    reports: u32,
    /// Whether somebody looks who then changes something.
    is_claimed: bool,
    /// Who waits, in order of arrival.
    waiting: VecDeque<Box<Bio>>,
}

/// Whether `op` has to know all parts of a zone.
fn looks(op: Op) -> bool {
    matches!(op, Op::ReportZones | Op::ZoneOpen | Op::ZoneClose)
}

impl Quiet {
    /// Lets `bio` through, or keeps it until [`Quiet::next`].
    pub fn admit(&mut self, bio: Box<Bio>) -> Option<Box<Bio>> {
        let matters = looks(bio.op) || bio.op.is_write();
        if matters && (!self.waiting.is_empty() || !self.has_room_for(bio.op)) {
            self.waiting.push_back(bio);
            return None;
        }
        Some(self.enter(bio))
    }

    /// The next one that may go on.
    pub fn next(&mut self) -> Option<Box<Bio>> {
        let next = self.waiting.front()?.op;
        let bio = if self.has_room_for(next) { self.waiting.pop_front() } else { None };
        bio.map(|bio| self.enter(bio))
    }

    fn has_room_for(&self, op: Op) -> bool {
        let is_still = self.changes == 0 || !looks(op);
        let is_unwatched = self.reports == 0 || op == Op::ReportZones;
        is_still && is_unwatched && !self.is_claimed
    }

    fn enter(&mut self, bio: Box<Bio>) -> Box<Bio> {
        match bio.op {
            Op::ReportZones => self.reports += 1,
            op if looks(op) => self.is_claimed = true,
            op => self.changes += u32::from(op.is_write()),
        }
        bio
    }

    /// Who looked has seen enough, and goes on to change something if `op` does.
    pub fn seen(&mut self, op: Op) {
        match op {
            Op::ReportZones => self.reports -= 1,
            _ => (self.is_claimed, self.changes) = (false, self.changes + 1),
        }
    }

    /// A change is done.
    pub fn changed(&mut self) {
        self.changes -= 1;
    }

    /// Shows who waits.
    pub fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.waiting.iter().for_each(|bio| visit(bio));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Payload;
    use crate::sector::Sector;

    fn is_admitted(quiet: &mut Quiet, op: Op) -> bool {
        quiet.admit(Box::new(Bio::new(op, Sector::ZERO, 0, Payload::None))).is_some()
    }

    fn next(quiet: &mut Quiet) -> Option<Op> {
        quiet.next().map(|bio| bio.op)
    }

    /// Found by the swarm (mapper 179539966596): tables that were loaded faster than one report after the other was taken.
    #[test]
    fn reports_are_taken_at_the_same_time_and_what_changes_zones_waits_for_all_of_them() {
        let mut quiet = Quiet::default();
        assert!(is_admitted(&mut quiet, Op::ReportZones) && is_admitted(&mut quiet, Op::ReportZones));
        assert!(!is_admitted(&mut quiet, Op::Write) && !is_admitted(&mut quiet, Op::ReportZones), "a write is first");
        quiet.seen(Op::ReportZones);
        assert_eq!(next(&mut quiet), None);
        quiet.seen(Op::ReportZones);
        assert_eq!((next(&mut quiet), next(&mut quiet)), (Some(Op::Write), None));
        quiet.changed();
        assert_eq!(next(&mut quiet), Some(Op::ReportZones));
    }

    #[test]
    fn who_looks_to_change_something_is_alone_until_it_has_changed_it() {
        let mut quiet = Quiet::default();
        assert!(is_admitted(&mut quiet, Op::ReportZones) && !is_admitted(&mut quiet, Op::ZoneOpen));
        quiet.seen(Op::ReportZones);
        assert_eq!(next(&mut quiet), Some(Op::ZoneOpen));
        assert!(!is_admitted(&mut quiet, Op::ReportZones));
        quiet.seen(Op::ZoneOpen);
        assert_eq!(next(&mut quiet), None, "it changes the zone now");
        quiet.changed();
        assert_eq!(next(&mut quiet), Some(Op::ReportZones));
    }
}
