//! Devices that leave: what is on them is moved to the others, and nothing new comes to them.
//!
//! ```text
//!   one life    room:   zones of the others are cleaned into the device, until they have the free ones that a volume needs
//!   the next    leave:  a start marks it ──> its root says so ──> data: every zone of it is cleaned ──┬──> zones are reset ──> nothing is left
//!                                                                 map: a sweep writes it anew ────────┘
//! ```
//!
//! That the volume is shorter from then on is said by the same root. What is behind its new end has to be zeroes: whoever lets a device go has
//! looked.

use alloc::collections::BTreeSet;

use super::checkpoint::leaves_of_piece;
use super::create::Spare;
use super::format::{MemberState, PieceKind, Root};
use super::log::{Pool, Rest};
use super::set::Set;
use super::state::{Readiness, State};
use super::{BatchNo, CopyNo, ZoneIndex};
use crate::block::Reason;
use crate::prelude::*;

/// What a life does for a device that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The others get the free zones that a volume of them needs. A root says nothing of it.
    MakeRoom,
    /// It leaves from the start on, and the volume is as short as the target was made.
    Leave,
}

/// What is known of devices that leave.
#[derive(Clone, Debug, Default)]
pub(super) struct Evacuation {
    /// The identity of one that is to leave, and what is done for it from the next start on.
    pub wanted: Option<([u8; 16], Step)>,
    /// What the devices that stay keep for a volume of their own, while they make room.
    room: Option<Spare>,
    /// A root was wanted that says which zones came free.
    is_told: bool,
    stage: Stage,
    /// What the map had when it was found that no more can be moved.
    stuck_at: (BatchNo, CopyNo),
    /// Zones that were to be emptied when a sweep was wanted for it last.
    at_last_sweep: Option<usize>,
    effort: Effort,
}

/// When making room has last led to something.
#[derive(Clone, Copy, Debug, Default)]
struct Effort {
    /// The fewest zones that were missing since users wrote.
    missing: usize,
    /// The last batch of users then.
    users: BatchNo,
    /// Blocks that had been copied then.
    copied: u64,
}

/// How far an evacuation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is left on any device that leaves, or none does.
    #[default]
    Over,
    /// It goes on.
    Working,
    /// What is left cannot be moved: it cannot be read, or there is no room.
    Stuck,
}

/// What is left to be done for devices that leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Zones of them that are not empty; while others make room, those that these have yet to empty.
    pub zones: usize,
    /// Blocks in them, as far as is known: what was written over since they were counted still counts.
    pub blocks: u64,
    /// Those of the zones that have something in them which cannot be read.
    pub spoilt: usize,
}

/// The zones of devices that leave, by what becomes of them.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    zones: usize,
    blocks: u64,
    movable: usize,
    spoilt: usize,
    /// Nothing in them is live: a checkpoint resets them.
    to_reset: usize,
}

impl Left {
    fn of(rests: impl Iterator<Item = Rest>) -> Self {
        let mut left = Self::default();
        for rest in rests {
            left.zones += 1;
            match rest {
                Rest::Data(blocks) | Rest::Map(blocks) => {
                    left.movable += 1;
                    left.blocks += u64::from(blocks);
                }
                Rest::Spoilt => left.spoilt += 1,
                Rest::Reset => left.to_reset += 1,
                Rest::Read => {}
            }
        }
        left
    }
}

impl State {
    /// Whether a volume with this root may be used with this capacity: it becomes shorter when devices leave.
    pub fn may_be(&self, capacity: u64, root: &Root) -> bool {
        let leaves = self.evacuation.wanted.is_some_and(|(_, step)| step == Step::Leave);
        capacity == root.capacity || leaves && capacity < root.capacity
    }

    /// Devices that leave get nothing new from here on: the root of this start says so.
    pub fn begin_evacuation(&mut self, capacity: u64) -> Result<(), Reason> {
        if let Some((id, step)) = self.evacuation.wanted.take() {
            let mut without = self.disks.set.clone();
            if !without.leave(id) {
                let what = format!("the device {:032x} that is to leave is not of the set", u128::from_be_bytes(id));
                return Err(Reason::VolumeFailed(what.into()));
            }
            match step {
                Step::Leave => self.disks.set = without,
                Step::MakeRoom => self.begin_to_make_room(&without),
            }
        }
        self.shorten_to(capacity);
        let zones: Vec<ZoneIndex> = self.disks.set.zones_that_are(MemberState::Leaving).collect();
        if !zones.is_empty() {
            self.evacuation.stage = Stage::Working;
        }
        for zone in zones {
            if self.zones.bar(zone) {
                self.zones.count_map(zone, self.map_blocks_in(zone));
            }
        }
        Ok(())
    }

    fn begin_to_make_room(&mut self, without: &Set) {
        self.evacuation.room = Some(self.spare(without));
        self.evacuation.stage = Stage::Working;
        self.zones.lend(without.zones_that_are(MemberState::Leaving));
    }

    /// Whether what is in a zone is moved away: off a device that leaves, or off those that stay while they make room.
    pub fn is_to_be_emptied(&self, zone: ZoneIndex) -> bool {
        let makes_room = self.evacuation.room.is_some() && self.is_evacuating();
        self.disks.set.is_leaving(zone) || makes_room && !self.zones.is_lent(zone)
    }

    /// A zone is moved away, and there is no room for it that anybody knows of.
    pub fn moves_in_vain(&self) -> bool {
        let is_moving = self.victim.is_some_and(|zone| self.is_to_be_emptied(zone));
        is_moving && !self.are_zones_coming() && !self.is_sweep_wanted
    }

    /// Ends the map at `capacity`: what is behind that is zeroes.
    fn shorten_to(&mut self, capacity: u64) {
        let (old, new) = (self.map.leaves.len(), self.map.leaf_size.leaves(capacity));
        self.capacity = capacity;
        if new >= old {
            return;
        }
        for row in self.map.leaves.split_off(new) {
            self.release(row.place, row.blocks.into());
        }
        let pieces = new.div_ceil(leaves_of_piece(new)) as u32;
        let is_behind = |piece: &super::format::Piece| piece.kind == PieceKind::Leaves && piece.number >= pieces;
        let behind: Vec<_> = self.tables.pieces.extract_if(.., |piece| is_behind(piece)).collect();
        behind.iter().for_each(|piece| self.release(piece.place, piece.blocks));
        if leaves_of_piece(new) != leaves_of_piece(old) {
            self.tables.dirty_leaves.extend(0..pieces);
        }
    }

    /// Whether something may be moved from devices that leave. Where that was in vain it may be possible when the map has changed.
    pub fn is_evacuating(&self) -> bool {
        match self.evacuation.stage {
            Stage::Over => false,
            Stage::Working => true,
            Stage::Stuck => self.evacuation.stuck_at != self.map_cut,
        }
    }

    /// Zones of the map that a sweep moves it out of: those of devices that leave, and sparse ones.
    pub fn map_zones_to_leave(&self) -> BTreeSet<ZoneIndex> {
        let is_of_map = |zone: &ZoneIndex| self.zones.map_blocks(*zone) > 0;
        let leaving = self.disks.set.zones_that_are(MemberState::Leaving).filter(is_of_map);
        self.sparse_map_zones().into_iter().chain(leaving).collect()
    }

    /// Half of the marks is for zones that are to be emptied: cleaning the others makes the room for what is in those.
    pub fn with_leaving_first(&self, scored: Vec<(ZoneIndex, bool, f64)>) -> Vec<(ZoneIndex, bool, f64)> {
        let (mut leaving, others): (Vec<_>, Vec<_>) =
            scored.into_iter().partition(|(zone, ..)| self.is_to_be_emptied(*zone));
        let rest = leaving.split_off(leaving.len().min(self.options.marked_zones.div_ceil(2)));
        leaving.into_iter().chain(others).chain(rest).collect()
    }

    /// The zone that is to be emptied next, if there is room for what is live in it: of those of which that is known that with the least. Where
    /// users have a zone left there is room for one, as some are kept for cleaning.
    pub fn leaving_victim(&self) -> Option<ZoneIndex> {
        if !self.is_evacuating() || self.evacuation.room.is_some() && self.left().movable == 0 {
            return None;
        }
        let has_room = self.zones.free(Pool::Users) > 0;
        let marked = self.map.live.zones().filter(|(zone, _)| self.is_to_be_emptied(*zone));
        marked.filter(|(_, live)| has_room || *live == 0).min_by_key(|(_, live)| *live).map(|(zone, _)| zone)
    }

    /// Whether all that stays was moved once, and no more room came of it: what fills zones there may fill as many, however often it is moved.
    pub fn moves_in_circles(&mut self) -> bool {
        if self.evacuation.room.is_none() || !self.is_evacuating() {
            return false;
        }
        let (missing, users, copied) = (self.left().zones, self.counted(), self.counters.copied_blocks);
        let Effort { missing: least, users: before, .. } = self.evacuation.effort;
        if missing < least || users != before {
            self.evacuation.effort = Effort { missing, users, copied };
        }
        let live = Left::of(self.zones.not_lent().1).blocks;
        copied - self.evacuation.effort.copied > live
    }

    /// No zone of a device that leaves can be cleaned now. Whether more can be known, or comes free; then that is under way.
    pub fn look_for_leaving(&mut self) -> bool {
        if !self.is_evacuating() {
            return false;
        }
        if self.is_sweep_wanted || self.is_checkpoint_wanted || self.is_checkpointing {
            return true;
        }
        let Left { zones, movable, spoilt, to_reset, .. } = self.left();
        let is_less = self.evacuation.at_last_sweep.is_none_or(|before| zones < before);
        if movable > 0 && self.zones.free(Pool::Users) == 0 {
            self.want_zones();
            return self.is_checkpoint_wanted;
        }
        if movable > 0 && is_less {
            self.evacuation.at_last_sweep = Some(zones);
            self.is_sweep_wanted = true;
        } else if to_reset > 0 {
            self.is_checkpoint_wanted = true;
        } else if zones == 0 && !self.evacuation.is_told {
            self.evacuation.is_told = true;
            self.is_checkpoint_wanted = true;
        } else {
            if zones == 0 {
                self.evacuation.stage = Stage::Over;
            } else if movable + spoilt > 0 || self.evacuation.room.is_some() {
                self.be_stuck();
            }
            return false;
        }
        self.notify(|signals| &signals.progress);
        true
    }

    fn be_stuck(&mut self) {
        self.evacuation.stage = Stage::Stuck;
        self.evacuation.stuck_at = self.map_cut;
    }

    /// Nothing can be cleaned, and nothing more can be known.
    pub fn have_no_room_for_leaving(&mut self) {
        if self.is_evacuating() && !self.are_zones_coming() {
            self.evacuation.at_last_sweep = None;
            self.be_stuck();
        }
    }

    /// A zone was opened: it may be of those that stay, which had room enough, and users write on.
    pub fn take_room(&mut self, zone: ZoneIndex) {
        let Evacuation { room, stage, .. } = self.evacuation;
        if room.is_some() && stage == Stage::Over && !self.zones.is_lent(zone) {
            (self.evacuation.stage, self.evacuation.is_told) = (Stage::Working, false);
        }
    }

    /// Copies of a zone that stays wait for one to be written to, and it may be that none comes before users write.
    pub fn look_for_room(&mut self) {
        if self.is_evacuating() && !self.is_sweep_wanted && !self.look_further() {
            self.have_no_room_for_leaving();
        }
    }

    fn left(&self) -> Left {
        let Some(spare) = self.evacuation.room else { return Left::of(self.zones.barred_in_use()) };
        let (free, full) = self.zones.not_lent();
        let (map, data): (Vec<Rest>, Vec<Rest>) = full.partition(|rest| matches!(rest, Rest::Map(_)));
        let wanted = spare.recovery + spare.open + spare.map.saturating_sub(map.len()).max(spare.cycle);
        let (left, missing) = (Left::of(data.into_iter()), wanted.saturating_sub(free));
        // Those that are to be reset may be enough.
        let movable = if left.to_reset >= missing { 0 } else { left.movable };
        Left { zones: missing, blocks: 0, movable, spoilt: 0, to_reset: left.to_reset.min(missing) }
    }

    /// How far an evacuation is; or why the volume takes no changes.
    pub fn evacuation_stage(&self) -> Result<Stage, String> {
        match &self.readiness {
            Readiness::ReadOnly(why) | Readiness::Failed(why) => Err(why.clone()),
            Readiness::Unloaded | Readiness::Loading => Ok(Stage::Working),
            Readiness::Ready if self.guards.gone().emptied_early => Ok(Stage::Over),
            Readiness::Ready => Ok(self.evacuation.stage),
        }
    }

    /// What is left on devices that leave.
    pub fn leaving(&self) -> Leaving {
        let Left { zones, blocks, spoilt, .. } = self.left();
        Leaving { zones, blocks, spoilt }
    }
}
