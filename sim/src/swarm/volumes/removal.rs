//! A disk that is taken out of a volume while hosts use it, and is added again. The target moves what is on it, told so by tables that are
//! swapped in; between two lives the tools write roots without it, and later with it. The power can go at each step, and then what the disks say
//! decides how it goes on.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::drives::Drives;
use super::ledger::Shared;
use super::machine::bare;
use super::{Judged, Media, Run};
use crate::choices::Choices;
use crate::model::{Rule, Violation};
use crate::volume::BLOCK_SECTORS;
use shingle_core::block::DeviceId;
use shingle_core::dm::stl::format::{MemberState, Root};
use shingle_core::dm::stl::tools::{
    self, Depth, Disk, FindError, Foreign, MediaError, RemoveError, Spot, finish_removal, plan_removal,
};
use shingle_core::random::Rng;

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
    /// Blocks of the volume with the disk, if it was added again.
    pub again: Option<u32>,
}

impl Removal {
    /// Whether the disk is none of the volume.
    fn is_out(&self) -> bool {
        self.state == MemberState::Gone && self.again.is_none()
    }

    /// Blocks of a table, of which hosts use `of_hosts`: the volume is as long as it was until the disk leaves, and longer again when it is added.
    /// `leaves`: whether the table takes the disk away.
    pub fn blocks_of_table(&self, leaves: bool, of_hosts: u32) -> u32 {
        let is_long = self.state == MemberState::Used && !leaves;
        self.again.or(is_long.then_some(self.with)).unwrap_or(of_hosts)
    }

    /// The disks that a table names, of so many.
    pub fn stays(removal: Option<&Self>, disks: usize) -> Vec<usize> {
        let gone = removal.filter(|it| it.is_out()).map(|it| it.disk);
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

/// How what a tool does came out.
enum Outcome<T> {
    Done(T),
    /// The power has gone.
    Cut,
}

/// The disks in their order, but the one that leaves is the last.
fn leaving_last(drives: &Drives, disk: usize) -> Vec<DeviceId> {
    let others = drives.disks.iter().enumerate().filter(|(number, _)| *number != disk).map(|(_, id)| *id);
    others.chain([drives.disks[disk]]).collect()
}

/// When the power goes in one attempt of several, in changes of a disk; at last it stays.
fn cut_of(attempt: u64, choices: &mut Choices) -> Option<u64> {
    choices.decide("cut-after", (None, &[]), |rng| (attempt < 4 && rng.chance(2, 3)).then(|| rng.below(24)))
}

fn blocks(sectors: u64) -> u32 {
    (sectors / u64::from(BLOCK_SECTORS)) as u32
}

fn wrong(what: impl ToString) -> Violation {
    Violation::at_rest(Rule::Metadata, format!("removal: {}", what.to_string()))
}

impl Run<'_> {
    /// What it takes to take a disk away from a volume that was just made; nothing where the others have no room for one.
    pub(super) fn plan_of_removal(&self, media: &Media, rng: &mut Rng) -> Result<Option<Removal>, Violation> {
        let has_faults = self.scenario.faults.iter().any(|plan| !plan.rules.is_empty() || !plan.bad.is_empty());
        // Of zones that are dead from the beginning the first root does not know, and the others have less room than it says.
        let is_sound = !has_faults && self.scenario.dead.is_empty();
        let Some(disk) = self.scenario.leaving.filter(|_| is_sound) else { return Ok(None) };
        let mut drives = bare(self.scenario, Some(media.clone()), rng).map_err(wrong)?;
        match plan(&mut drives, disk)? {
            Ok(plan) => Ok(Some(Removal {
                disk,
                id: plan.id,
                with: blocks(plan.before),
                without: blocks(plan.sectors),
                state: plan.state,
                is_empty: false,
                again: None,
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
    pub(super) fn end_removal(
        &mut self,
        media: Media,
        shared: &Shared,
        choices: &mut Choices,
    ) -> Result<Media, Violation> {
        let mut media = media;
        for attempt in 0.. {
            choices.begin("attempt", attempt + 1);
            let removal = shared.borrow().removal;
            let Some(removal) = removal.filter(|it| it.is_empty && it.state != MemberState::Gone) else { break };
            self.finish_with_older_copy(&media, removal.disk, &mut choices.rng().clone())?;
            let cut = cut_of(attempt, choices);
            let mut drives = bare(self.scenario, Some(media), choices.rng()).map_err(wrong)?;
            let ended = finish(&mut drives, removal.disk, cut)?;
            media = drives.take(choices);
            match ended {
                Outcome::Done(()) => {
                    let ledger = &mut *shared.borrow_mut();
                    ledger.removal = Some(Removal { state: MemberState::Gone, ..removal });
                    ledger.log.note("removed");
                    // Hosts go on without it.
                    ledger.log.left += self.scenario.ops / 2;
                }
                Outcome::Cut => {
                    self.report.cuts += 1;
                    self.look_at_removal(&media, shared, choices.rng())?;
                }
            }
        }
        Ok(media)
    }

    /// Adds the disk that was removed, as a new one, perhaps in several attempts, as the power goes. Returns what is left on the disks.
    pub(super) fn add_again(
        &mut self,
        media: Media,
        shared: &Shared,
        choices: &mut Choices,
    ) -> Result<Media, Violation> {
        let mut media = media;
        for attempt in 0.. {
            choices.begin("addition", attempt + 1);
            let removal = shared.borrow().removal;
            let can_be_added = |it: &Removal| it.is_out() && self.has_room_for_tables(it.disk);
            let Some(removal) = removal.filter(can_be_added) else { break };
            let cut = cut_of(attempt, choices);
            let id = [choices.number("id"), choices.number("id")].map(u128::from);
            let id = id[0] << 64 | id[1];
            self.add_with_older_copy(&media, (removal.disk, id.to_be_bytes()), &mut choices.rng().clone())?;
            let mut drives = bare(self.scenario, Some(media), choices.rng()).map_err(wrong)?;
            let added = add(&mut drives, (removal.disk, id.to_be_bytes()), cut)?;
            media = drives.take(choices);
            let again = match added {
                Outcome::Done(blocks) => Some(blocks),
                Outcome::Cut => {
                    self.report.cuts += 1;
                    let mut drives = bare(self.scenario, Some(media.clone()), choices.rng()).map_err(wrong)?;
                    blocks_of_all(&mut drives, removal.disk)?
                }
            };
            let ledger = &mut *shared.borrow_mut();
            ledger.removal = Some(Removal { again, ..removal });
            if again.is_some() {
                ledger.log.note("added");
                ledger.log.trace.line("# the disk that left is added again");
                ledger.log.left += self.scenario.ops / 2;
            }
        }
        Ok(media)
    }

    /// Returns whether the disk has a whole zone for tables behind the two of its roots.
    fn has_room_for_tables(&self, disk: usize) -> bool {
        let config = &self.scenario.disks[disk];
        let sectors = config.regular.unwrap_or(config.geometry.capacity());
        sectors / u64::from(self.scenario.zone_blocks * BLOCK_SECTORS) > 2
    }

    fn finish_with_older_copy(&mut self, media: &Media, disk: usize, rng: &mut Rng) -> Judged {
        let all: Vec<usize> = (0..media.len()).collect();
        self.tool_with_older_copy((media, &all), rng, |drives| {
            let disks = leaving_last(drives, disk);
            finish_removal(&mut drives.media_of(&disks)?, &mut |_, _| ()).map_err(|error| error.to_string())
        })
    }

    fn add_with_older_copy(&mut self, media: &Media, (disk, id): (usize, [u8; 16]), rng: &mut Rng) -> Judged {
        let others: Vec<usize> = (0..media.len()).filter(|other| *other != disk).collect();
        self.tool_with_older_copy((media, &others), rng, |drives| {
            add(drives, (disk, id), None).map(drop).map_err(|violation| violation.what)
        })
    }
}

/// What the tool says of a removal; the error of the outer result is one of the simulation.
fn plan(drives: &mut Drives, disk: usize) -> Result<Result<tools::Removal, RemoveError>, Violation> {
    let disks = leaving_last(drives, disk);
    let mut media = drives.media_of(&disks).map_err(wrong)?;
    Ok(plan_removal(&mut media, None, &mut |_, _| ()))
}

fn finish(drives: &mut Drives, disk: usize, cut: Option<u64>) -> Result<Outcome<()>, Violation> {
    let disks = leaving_last(drives, disk);
    let mut media = drives.media_of(&disks).map_err(wrong)?;
    let mut media = Cut { media: &mut media, left: cut };
    match finish_removal(&mut media, &mut |_, _| ()) {
        Ok(()) => Ok(Outcome::Done(())),
        Err(_) if media.left == Some(0) => Ok(Outcome::Cut),
        Err(error) if is_gone(&error) => Ok(Outcome::Done(())),
        Err(error) => Err(wrong(error)),
    }
}

/// Blocks of the volume that these disks make, if they make one.
fn blocks_of_all(drives: &mut Drives, disk: usize) -> Result<Option<u32>, Violation> {
    let disks = leaving_last(drives, disk);
    let mut media = drives.media_of(&disks).map_err(wrong)?;
    let report = tools::check(&mut media, Depth { pace: None }, &mut |_, _| ());
    let root = report.volume.map(|volume| volume.newest.root);
    // What was not wiped yet is found as the member that is gone.
    let has_all = |root: &Root| {
        root.members.iter().filter(|member| member.state != MemberState::Gone).count() == drives.disks.len()
    };
    Ok(root.filter(has_all).map(|root| root.capacity as u32))
}

/// Adds a disk, with this identity; blocks of the volume then.
fn add(drives: &mut Drives, (disk, id): (usize, [u8; 16]), cut: Option<u64>) -> Result<Outcome<u32>, Violation> {
    let disks = leaving_last(drives, disk);
    let mut media = drives.media_of(&disks).map_err(wrong)?;
    let mut media = Cut { media: &mut media, left: cut };
    match tools::add(&mut media, id, &mut |_, _| ()) {
        Ok(added) => Ok(Outcome::Done(blocks(added.sectors))),
        Err(_) if media.left == Some(0) => Ok(Outcome::Cut),
        Err(error) => Err(wrong(error)),
    }
}

/// Whether the disk is none of the volume any more.
fn is_gone(error: &RemoveError) -> bool {
    match error {
        RemoveError::NotOfSet => true,
        RemoveError::Find(FindError::Members(wrong)) => wrong.foreign.iter().any(|(_, why)| *why == Foreign::Unknown),
        _ => false,
    }
}
