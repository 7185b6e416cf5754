//! What dm-multipath leaves to who stands above: to say that a path has failed, and what becomes of bios without a path.

use super::groups::Groups;
use super::head::{Head, Job};
use super::path::Health;
use super::policy::PathView;
use crate::block::Cx;

/// What becomes of a bio that finds no path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutPath {
    /// It waits, as the options say.
    #[default]
    Waits,
    /// It fails at once.
    Fails,
    /// It goes back to the door of the mapped device that it came through, as long as that is shut; otherwise it waits.
    GoesBack,
}

impl Head {
    /// The groups of its paths.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.policy
    }

    /// The same, to change which one is in use.
    pub fn groups_mut(&mut self) -> &mut Groups {
        &mut self.policy
    }

    /// What its policies see of its paths.
    #[must_use]
    pub fn views(&self) -> &[PathView] {
        &self.views
    }

    /// Has a path count as failed that no bio has failed on, and as nothing else if it has failed already. Whether it worked.
    pub fn fail_by_hand(&mut self, path: usize, cx: &mut Cx<'_>) -> bool {
        let has_worked = self.paths.get(path).is_some_and(|it| it.health == Health::Live);
        if has_worked {
            self.note_failure(path, cx);
        }
        has_worked
    }

    /// Says what becomes of bios that find no path, also of those that wait for one now.
    pub fn set_without_path(&mut self, what: WithoutPath, cx: &mut Cx<'_>) {
        self.without = what;
        if what != WithoutPath::Waits {
            core::mem::take(&mut self.waiting).into_iter().for_each(|job| self.wait(job, cx));
        }
    }

    /// The bio, if it is to wait for a path.
    pub(super) fn turned_away(&mut self, job: Job, cx: &mut Cx<'_>) -> Option<Job> {
        match self.without {
            WithoutPath::Waits => Some(job),
            WithoutPath::Fails => {
                self.fail(job, cx);
                None
            }
            // Of a write of which a part may be done that part would be forgotten.
            WithoutPath::GoesBack if job.may_be_done => Some(job),
            WithoutPath::GoesBack => {
                let losses = job.losses;
                cx.push_back(job.restored()).err().map(|bio| Job::new(bio, losses))
            }
        }
    }
}
