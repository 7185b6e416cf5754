//! A disk that is taken out of a volume while hosts use it. The target moves what is on it, told so by tables that are swapped in; between
//! two lives the tool writes roots without it. The power can go at each step, and then what the disks say decides how it goes on.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::drives::Drives;
use super::ledger::Shared;
use super::machine::bare;
use super::{Judged, Media, Run};
use crate::model::{Rule, Violation};
use crate::volume::BLOCK_SECTORS;
use shingle_core::block::DeviceId;
use shingle_core::dm::stl::format::MemberState;
use shingle_core::dm::stl::tools::{self, Disk, MediaError, RemoveError, Spot, finish_removal, plan_removal};
use shingle_core::random::Rng;
use shingle_core::time::Instant;

/// What is known of a removal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal {
    /// Which of the disks leaves, and its identity.
    pub disk: usize,
    pub id: [u8; 16],
    /// Blocks of the volume with it, and without. Hosts use no more than the latter from the beginning.
    pub with: u32,
    pub without: u32,
    /// What the disks said of it when they were looked at last.
    pub state: MemberState,
    /// The target has said that nothing is left on it.
    pub is_empty: bool,
}

impl Removal {
    /// The disks that a table names, of so many.
    pub fn stays(removal: Option<&Self>, disks: usize) -> Vec<usize> {
        let gone = removal.filter(|it| it.state == MemberState::Gone).map(|it| it.disk);
        (0..disks).filter(|disk| gone != Some(*disk)).collect()
    }
}

/// Disks whose power goes after so many changes.
struct Cut<'a> {
    media: &'a mut dyn tools::Media,
    left: Option<u64>,
}

impl Cut<'_> {
    fn change(&mut self) -> Result<(), MediaError> {
        match &mut self.left {
            Some(0) => return Err(MediaError(String::from("the power is gone"))),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }
}

impl tools::Media for Cut<'_> {
    fn disks(&self) -> &[Disk] {
        self.media.disks()
    }

    fn read(&mut self, from: Spot, to: &mut [u8]) -> Result<(), MediaError> {
        self.media.read(from, to)
    }

    fn write(&mut self, to: Spot, from: &[u8]) -> Result<(), MediaError> {
        self.change().and_then(|()| self.media.write(to, from))
    }

    fn reset(&mut self, start: Spot) -> Result<(), MediaError> {
        self.change().and_then(|()| self.media.reset(start))
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.change().and_then(|()| self.media.flush())
    }
}

/// How the end of a removal came out.
enum Finish {
    Done,
    /// The power has gone.
    Cut,
}

/// The disks in their order, but the one that leaves is the last.
fn leaving_last(drives: &Drives, disk: usize) -> Vec<DeviceId> {
    let others = drives.disks.iter().enumerate().filter(|(number, _)| *number != disk).map(|(_, id)| *id);
    others.chain([drives.disks[disk]]).collect()
}

fn wrong(what: impl ToString) -> Violation {
    Violation { rule: Rule::Metadata, at: Instant::ZERO, what: format!("removal: {}", what.to_string()) }
}

impl Run<'_> {
    /// What it takes to take a disk away from a volume that was just made; nothing where the others have no room for one.
    pub(super) fn plan_of_removal(&self, media: &Media, rng: &mut Rng) -> Result<Option<Removal>, Violation> {
        let has_faults = self.scenario.faults.iter().any(|plan| !plan.rules.is_empty() || !plan.bad.is_empty());
        // Of zones that are dead from the beginning the first root does not know, and the others have less room than it says.
        let is_sound = !has_faults && self.scenario.dead.is_empty();
        let Some(disk) = self.scenario.leaving.filter(|_| is_sound) else { return Ok(None) };
        let mut drives = bare(self.scenario, Some(media.clone()), rng).map_err(wrong)?;
        let blocks = |sectors: u64| (sectors / u64::from(BLOCK_SECTORS)) as u32;
        match plan(&mut drives, disk)? {
            Ok(plan) => Ok(Some(Removal {
                disk,
                id: plan.id,
                with: blocks(plan.before),
                without: blocks(plan.sectors),
                state: plan.state,
                is_empty: false,
            })),
            Err(RemoveError::Room(_) | RemoveError::LastZoned) => Ok(None),
            Err(error) => Err(wrong(error)),
        }
    }

    /// Looks how far the removal is on disks that nobody uses.
    pub(super) fn look_at_removal(&self, media: &Media, shared: &Shared, rng: &mut Rng) -> Judged {
        let Some(removal) = shared.borrow().removal else { return Ok(()) };
        if removal.state == MemberState::Gone {
            return Ok(());
        }
        let mut drives = bare(self.scenario, Some(media.clone()), rng).map_err(wrong)?;
        let state = match plan(&mut drives, removal.disk)? {
            Ok(plan) => plan.state,
            Err(RemoveError::NotAtRest) => MemberState::Used,
            Err(error) if is_gone(&error) => MemberState::Gone,
            Err(error) => return Err(wrong(error)),
        };
        if (state as u8) < removal.state as u8 {
            return Err(wrong(format!("it was {:?}, and is {state:?}", removal.state)));
        }
        let ledger = &mut *shared.borrow_mut();
        ledger.removal = Some(Removal { state, ..removal });
        ledger.log.trace.line(&format!("# the disk that leaves is {state:?}"));
        Ok(())
    }

    /// Ends the removal if nothing is left on the disk, perhaps in several attempts, as the power goes. Returns what is left on the disks.
    pub(super) fn end_removal(&mut self, media: Media, shared: &Shared, rng: &mut Rng) -> Result<Media, Violation> {
        let mut media = media;
        for attempt in 0.. {
            let removal = shared.borrow().removal;
            let Some(removal) = removal.filter(|it| it.is_empty && it.state != MemberState::Gone) else { break };
            let cut = (attempt < 4 && rng.chance(2, 3)).then(|| rng.below(24));
            let mut drives = bare(self.scenario, Some(media), rng).map_err(wrong)?;
            let ended = finish(&mut drives, removal.disk, cut)?;
            media = drives.take(rng);
            match ended {
                Finish::Done => {
                    let ledger = &mut *shared.borrow_mut();
                    ledger.removal = Some(Removal { state: MemberState::Gone, ..removal });
                    ledger.log.note("removed");
                    // Hosts go on without it.
                    ledger.log.left += self.scenario.ops / 2;
                }
                Finish::Cut => {
                    self.report.cuts += 1;
                    self.look_at_removal(&media, shared, rng)?;
                }
            }
        }
        Ok(media)
    }
}

/// What the tool says of a removal; the error of the outer result is one of the simulation.
fn plan(drives: &mut Drives, disk: usize) -> Result<Result<tools::Removal, RemoveError>, Violation> {
    let disks = leaving_last(drives, disk);
    let mut media = drives.media_of(&disks).map_err(wrong)?;
    Ok(plan_removal(&mut media, None, &mut |_, _| ()))
}

fn finish(drives: &mut Drives, disk: usize, cut: Option<u64>) -> Result<Finish, Violation> {
    let disks = leaving_last(drives, disk);
    let mut media = drives.media_of(&disks).map_err(wrong)?;
    let mut media = Cut { media: &mut media, left: cut };
    match finish_removal(&mut media, &mut |_, _| ()) {
        Ok(()) => Ok(Finish::Done),
        Err(_) if media.left == Some(0) => Ok(Finish::Cut),
        Err(error) if is_gone(&error) => Ok(Finish::Done),
        Err(error) => Err(wrong(error)),
    }
}

/// Whether the disk is none of the volume any more.
fn is_gone(error: &RemoveError) -> bool {
    match error {
        RemoveError::NotOfSet => true,
        RemoveError::Volume(why) => why.contains("is not of the set"),
        _ => false,
    }
}
