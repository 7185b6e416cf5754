//! Older copies of disks: one disk of a volume is replaced by a copy of itself from an earlier moment, as a clone or a restored backup would be.

use alloc::format;
use alloc::string::String;

use super::drives::Drives;
use super::ledger::Shared;
use super::machine::bare;
use super::removal::Removal;
use super::{Judged, Media, Run, branch_rng};
use crate::disk::CrashDisk;
use crate::fault::FaultPlan;
use crate::model::{Rule, Violation};
use shingle_core::block::DeviceId;
use shingle_core::dm::stl::format::MemberState;
use shingle_core::random::Rng;

/// Power cuts for each start with an older copy, and uses of a tool for each with an older copy, on average.
const ONE_OF: u64 = 4;

/// Outcome of a start with an older copy of a disk.
pub(super) struct Start {
    /// Text of the error, if the volume is refused.
    pub refused: Option<String>,
    /// Blocks that the newest root names on the disk, and that the copy does not have.
    pub lacking: usize,
}

impl Run<'_> {
    /// Returns `media` with one of `disks` as it was at an earlier moment, and which of `disks` that is; `None` unless `rng` draws it, and for sets
    /// whose disks have faults of their own.
    fn with_older_copy(&self, media: &Media, disks: &[usize], rng: &mut Rng) -> Option<(Media, usize)> {
        let is_sound = self.scenario.dead.is_empty() && self.scenario.faults.iter().all(FaultPlan::is_empty);
        let is_drawn = rng.chance(1, ONE_OF) && is_sound && disks.len() > 1;
        let earlier = self.earlier.as_ref().filter(|_| is_drawn)?;
        let place = rng.below(disks.len() as u64) as usize;
        let mut copied = media.clone();
        copied[disks[place]] = earlier[disks[place]].clone();
        Some((copied, place))
    }

    /// Starts the volume on `media` with one disk as it was at an earlier moment, for some of the moments `(life, at)`. A start that refuses the disks
    /// must not have written to any. The report counts what came of it.
    pub(super) fn start_with_older_copy(&mut self, media: &Media, (life, at): (u64, u64), shared: &Shared) -> Judged {
        let mut rng = branch_rng(self.seed.rotate_left(29), life, at);
        let used = Removal::stays(shared.borrow().removal.as_ref(), media.len());
        let Some((copied, place)) = self.with_older_copy(media, &used, &mut rng) else { return Ok(()) };
        if rng.chance(1, 4) {
            self.earlier = Some(media.clone());
        }
        self.look_at_removal(media, shared, &mut rng)?;
        let (blocks, removal) = (shared.borrow().volume.blocks(), shared.borrow().removal);
        if removal.is_some_and(|removal| removal.state == MemberState::Leaving) {
            return Ok(());
        }
        let blocks = removal.map_or(blocks, |removal| removal.blocks_of_table(false, blocks));
        let mut on = |media| {
            let drives = bare(self.scenario, Some(media), &mut rng).map_err(broken)?;
            Ok(Drives { used: used.clone(), ..drives })
        };
        let (mut right, mut copied) = (on(media.clone())?, on(copied)?);
        let start = self.kind.start_with_older_copy(&mut right, &mut copied, (place, blocks)).map_err(broken)?;
        let Some(start) = start else { return Ok(()) };
        let condition = match (&start.refused, start.lacking) {
            (Some(why), _) => {
                unchanged(&copied, why)?;
                "older copy refused"
            }
            (None, 0) => "older copy without a difference that a root names",
            (None, _) => "older copy not noticed",
        };
        *self.report.noted.entry(condition).or_default() += 1;
        Ok(())
    }

    /// Lets `tool` work on `media` with one of `disks` as it was at an earlier moment, if `rng` draws that. A tool that refuses the disks must not have
    /// written to any. The report counts what came of it.
    pub(super) fn tool_with_older_copy(
        &mut self,
        (media, disks): (&Media, &[usize]),
        rng: &mut Rng,
        tool: impl FnOnce(&mut Drives) -> Result<(), String>,
    ) -> Judged {
        let Some((copied, _)) = self.with_older_copy(media, disks, rng) else { return Ok(()) };
        let mut copied = bare(self.scenario, Some(copied), rng).map_err(broken)?;
        let condition = match tool(&mut copied) {
            Err(why) => {
                unchanged(&copied, &why)?;
                "older copy refused by a tool"
            }
            Ok(()) => "older copy taken by a tool",
        };
        *self.report.noted.entry(condition).or_default() += 1;
        Ok(())
    }
}

fn broken(what: String) -> Violation {
    Violation::at_rest(Rule::Metadata, what)
}

/// Returns an error if any disk was written to, though the disks were refused for the reason `why`.
fn unchanged(copied: &Drives, why: &str) -> Judged {
    let has_changed = |disk: &DeviceId| copied.stack.device::<CrashDisk>(*disk).is_some_and(CrashDisk::has_changed);
    if copied.disks.iter().any(has_changed) {
        return Err(broken(format!(
            "a set with an older copy of a disk was refused, after it had been written to: {why}"
        )));
    }
    Ok(())
}
