//! What a head does when its disk has lost its power while the host went on.
//!
//! A disk without a write cache has lost nothing: what was under way fails over as always. One with a cache has lost, of what it had
//! acknowledged since the last flush, anything from the end on, in zones and of resets, too. So its pointers prove nothing any more of
//! what was sent before, and no flush can do what it promises:
//!
//! ```text
//!   loss announced ──> what changes a zone and came before:  fails, done or not
//!                 ├──> flushes, those under way and later ones: fail, until somebody accepts the loss
//!                 └──> those above: a plug trusts no pointer until it was asked for
//! ```

use super::head::{Head, Job};
use crate::block::{Bio, Cx, Flags, Op, Reason};
use crate::sector::Sector;

/// Losses of power of a head's disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// How many the paths have counted.
    counted: u64,
    /// Whether one of them has not been accepted.
    pub is_open: bool,
}

impl Losses {
    /// Those of a disk whose paths have counted so many.
    pub fn of_paths(counts: impl Iterator<Item = Option<u64>>) -> Self {
        Self { counted: counts.flatten().max().unwrap_or(0), ..Self::default() }
    }

    /// Takes note of a count; whether it is news.
    fn count(&mut self, counted: Option<u64>) -> bool {
        let is_news = counted.is_none_or(|counted| counted > self.counted);
        self.counted = self.counted.max(counted.unwrap_or(0));
        is_news
    }
}

impl Head {
    /// A path says how often the disk has lost its power.
    pub(super) fn note_losses(&mut self, counted: Option<u64>, cx: &mut Cx<'_>) {
        let is_heard = !self.guards.gone().losses_unheard;
        if !self.losses.count(counted) || !self.limits.write_cache || !is_heard {
            return;
        }
        self.counters.losses += 1;
        self.losses.is_open = true;
        for job in core::mem::take(&mut self.waiting) {
            let job = self.still_valid(job, cx);
            self.waiting.extend(job);
        }
    }

    /// An operator knows that changes may be lost: flushes count again from now on.
    pub(super) fn accept_losses(&mut self) {
        self.losses.is_open = false;
    }

    /// Whether a flush is part of it, and none can do what it promises.
    #[inline]
    pub(super) fn is_flushed_in_vain(&self, bio: &Bio) -> bool {
        self.losses.is_open && flushes(bio) && !self.guards.gone().losses_unflushed
    }

    /// The bio, unless a loss of power since it came makes it void: then it fails.
    pub(super) fn still_valid(&mut self, job: Job, cx: &mut Cx<'_>) -> Option<Job> {
        if job.losses == self.counters.losses || !self.is_void(&job.bio, job.sector) {
            return Some(job);
        }
        cx.fail(job.restored(), Reason::CacheLost);
        None
    }

    /// Whether a loss of power since it came makes a bio to this sector void.
    pub(super) fn is_void(&self, bio: &Bio, sector: Sector) -> bool {
        let gone = self.guards.gone();
        let is_of_zone = || bio.op == Op::ZoneResetAll || bio.op.is_write() && self.is_in_sequential_zone(sector);
        flushes(bio) && !gone.losses_unflushed || !gone.losses_undone && is_of_zone()
    }

    /// Whether what is written at a sector moves a pointer.
    pub(super) fn is_in_sequential_zone(&self, sector: Sector) -> bool {
        self.limits.zoned.as_ref().is_some_and(|zoned| {
            let zone = (sector.0 / u64::from(zoned.zone_sectors)) as u32;
            zoned.sequential_in(zone..zone + 1) > 0
        })
    }
}

fn flushes(bio: &Bio) -> bool {
    bio.op == Op::Flush || bio.flags.has(Flags::PREFLUSH)
}
