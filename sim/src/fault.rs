//! What goes wrong with a disk of the simulated world: a list of rules, each a trigger and a fault.

use alloc::vec::Vec;

use shingle_core::block::{Bio, Op, Status};
use shingle_core::device::bad_blocks::BadBlocks;
use shingle_core::dm::Trigger;
use shingle_core::random::Rng;
use shingle_core::time::Instant;

/// What happens to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this status, and nothing has changed.
    Fail(Status),
    /// Some blocks of it arrive, perhaps none, perhaps all but one, and it fails: the write pointer is short of its end.
    Partial(Status),
    /// It is carried out and reported as failed: the write pointer is beyond what was acknowledged.
    Landed(Status),
    /// The host below the disk refuses it with this status, and nothing has changed: its file system is full or read-only for a while.
    Refuse(Status),
    /// Its completion is lost. The disk carried it out, or not; it ends with [`Status::Timeout`] when its time is up.
    Lose,
    /// It takes so many times as long.
    Slow(u32),
    /// Its zone becomes read-only first.
    ZoneReadOnly,
    /// Its zone goes offline first.
    ZoneOffline,
    /// Bit rot: a block that the command reads has changed on the medium, without an error.
    Rot,
    /// A lost write: data for a sequential zone does not get there, without an error. The pointer advances, and the sectors below it read as
    /// unwritten ones.
    Vanish,
    /// A misdirected write: a lost write whose data overwrites an earlier part of the zone.
    Stray,
}

/// A fault, and when it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// When.
    pub trigger: Trigger,
    /// What.
    pub fault: Fault,
}

/// Everything that goes wrong with one disk. The first rule that picks a command decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// In order.
    pub rules: Vec<FaultRule>,
    /// Sectors that cannot be read or written; what lies before them in the same command can.
    pub bad: BadBlocks,
}

impl FaultPlan {
    /// A disk that never fails.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether nothing can go wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.bad.is_empty()
    }

    /// Adds a rule.
    #[must_use]
    pub fn with(mut self, trigger: Trigger, fault: Fault) -> Self {
        self.rules.push(FaultRule { trigger, fault });
        self
    }

    /// What happens to `bio`, if anything.
    pub fn choose(&mut self, bio: &Bio, now: Instant, rng: &mut Rng) -> Option<Fault> {
        self.rules.iter_mut().find_map(|rule| rule.trigger.picks(bio, now, rng).then_some(rule.fault))
    }
}

impl Fault {
    /// Whether the disk may have done something that it did not acknowledge, or may not do what it is asked from now on.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(self, Fault::Slow(_))
    }

    /// True if the disk returns other data than was written from now on.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        matches!(self, Fault::Rot | Fault::Vanish | Fault::Stray)
    }

    /// Whether the fault makes sense for `op`; one that does not is no fault.
    #[must_use]
    pub const fn suits(self, op: Op) -> bool {
        match self {
            Fault::Partial(_) | Fault::Refuse(_) => op.writes_data(),
            Fault::Rot => matches!(op, Op::Read),
            Fault::Vanish | Fault::Stray => matches!(op, Op::Write),
            Fault::ZoneReadOnly | Fault::ZoneOffline => !matches!(op, Op::Flush | Op::ReportZones | Op::ZoneResetAll),
            _ => true,
        }
    }
}
