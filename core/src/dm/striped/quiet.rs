//! Reports of several devices are one picture only if nothing changes while they are taken: so who wants to look waits
//! until nothing changes, and changes wait while somebody looks.

use alloc::collections::VecDeque;

use crate::block::{Bio, Op};
use crate::prelude::*;

/// Who changes zones and who looks at them.
#[derive(Default)]
pub(super) struct Quiet {
    /// Changes that are under way.
    changes: u32,
    /// Whether somebody looks.
    is_watched: bool,
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
        !self.is_watched && (self.changes == 0 || !looks(op))
    }

    fn enter(&mut self, bio: Box<Bio>) -> Box<Bio> {
        if looks(bio.op) {
            self.is_watched = true;
        } else if bio.op.is_write() {
            self.changes += 1;
        }
        bio
    }

    /// Who looked has seen enough, and goes on to change something if `op` does.
    pub fn seen(&mut self, op: Op) {
        self.is_watched = false;
        self.changes += u32::from(op.is_write());
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
