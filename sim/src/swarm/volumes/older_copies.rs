//! Older copies of disks: one disk of a volume is replaced by a copy of itself from an earlier moment, as a clone or a restored backup would be.

use alloc::format;
use alloc::string::String;

use super::machine::bare;
use super::{Judged, Media, Run, branch_rng};
use crate::disk::CrashDisk;
use crate::model::{Rule, Violation};
use shingle_core::block::DeviceId;
use shingle_core::time::Instant;

/// Power cuts for each start with an older copy, on average.
const ONE_CUT_OF: u64 = 4;

/// Outcome of a start with an older copy of a disk.
pub(super) struct Start {
    /// Text of the error, if the volume is refused.
    pub refused: Option<String>,
    /// Blocks that the newest root names on the disk, and that the copy does not have.
    pub lacking: usize,
}

impl Run<'_> {
    /// Starts the volume on `media` with one disk as it was at an earlier moment, for some of the moments `(life, at)`. A start that refuses the disks
    /// must not have written to any. The report counts what came of it.
    pub(super) fn start_with_older_copy(&mut self, media: &Media, (life, at): (u64, u64), blocks: u32) -> Judged {
        let mut rng = branch_rng(self.seed.rotate_left(29), life, at);
        let is_sound = self.scenario.dead.is_empty() && self.scenario.faults.iter().all(|plan| plan.is_empty());
        let is_drawn = rng.chance(1, ONE_CUT_OF) && is_sound && media.len() > 1 && self.scenario.leaving.is_none();
        let Some(earlier) = self.earlier.as_ref().filter(|_| is_drawn) else { return Ok(()) };
        let place = rng.below(media.len() as u64) as usize;
        let mut copied = media.clone();
        copied[place] = earlier[place].clone();
        if rng.chance(1, 4) {
            self.earlier = Some(media.clone());
        }
        let broken = |what| Violation { rule: Rule::Metadata, at: Instant::ZERO, what };
        let mut on = |media| bare(self.scenario, Some(media), &mut rng).map_err(broken);
        let (mut right, mut copied) = (on(media.clone())?, on(copied)?);
        let start = self.kind.start_with_older_copy(&mut right, &mut copied, (place, blocks)).map_err(broken)?;
        let Some(start) = start else { return Ok(()) };
        let has_changed = |disk: &DeviceId| copied.stack.device::<CrashDisk>(*disk).is_some_and(CrashDisk::has_changed);
        let condition = match (&start.refused, start.lacking) {
            (Some(why), _) if copied.disks.iter().any(has_changed) => {
                let what =
                    format!("a start with an older copy of disk {place} was refused, after it had written: {why}");
                return Err(broken(what));
            }
            (Some(_), _) => "older copy refused",
            (None, 0) => "older copy without a difference that a root names",
            (None, _) => "older copy not noticed",
        };
        *self.report.noted.entry(condition).or_default() += 1;
        Ok(())
    }
}
