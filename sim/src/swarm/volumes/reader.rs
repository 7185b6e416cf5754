//! Another reader of the disks: what the format alone says is on them, before a start of ours has mended anything. So the kernel
//! reads dm-zoned's, which starts with what a crash has left as it is.

use alloc::string::ToString;

use super::machine::bare;
use super::removal::Removal;
use super::{Judged, Media, Run, Shared, branch_rng};
use crate::model::{Rule, Violation};
use shingle_core::time::Instant;

impl Run<'_> {
    /// Compares what `media` hold by the format with what may be there.
    pub(super) fn read_by_format(&self, number: u64, media: &Media, shared: &Shared) -> Judged {
        let has_faults = self.scenario.faults.iter().any(|plan| !plan.rules.is_empty() || !plan.bad.is_empty());
        if has_faults || !self.scenario.dead.is_empty() {
            return Ok(());
        }
        let drives = bare(self.scenario, Some(media.clone()), &mut branch_rng(self.seed, number, 0));
        // What is found here binds nobody: the model goes on without it.
        let mut volume = shared.borrow().volume.clone();
        let read = drives.map_err(|what| (Rule::Metadata, what));
        let removal = shared.borrow().removal;
        let read = read.and_then(|mut drives| {
            drives.used = Removal::stays(removal.as_ref(), drives.disks.len());
            for condition in self.kind.conditions(&mut drives) {
                shared.borrow_mut().log.note(condition);
            }
            self.kind.read(&mut drives, &mut volume)
        });
        read.map_err(|(rule, what)| Violation { rule, at: Instant::ZERO, what: "by the format: ".to_string() + &what })
    }
}
