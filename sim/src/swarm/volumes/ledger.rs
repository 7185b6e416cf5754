//! The ledger: what every actor of a world shares, the model above all.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::iter::repeat_n;

use super::super::base::{Log, PATIENCE};
use super::machine::Machine;
use super::removal::Removal;
use crate::disk::{CrashDisk, Powered};
use crate::model::Rule;
use crate::volume::{BLOCK_SECTORS, Seen, Volume, VolumeRequest, read_stamps};
use shingle_core::block::{Completion, Op, Stack};
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::ZoneNo;

/// The ledger, as actors hold it.
pub(super) type Shared = Rc<RefCell<Ledger>>;

/// The ledger.
#[derive(Default)]
pub(super) struct Ledger {
    pub volume: Volume,
    pub machine: Machine,
    /// Zones that were dead before the volume was there.
    pub dead: usize,
    /// Until when all hosts pause.
    pub pause: Instant,
    /// The machine is being stopped: nobody swaps tables any more.
    pub is_stopping: bool,
    /// An acknowledged discard may have done nothing, as hosts of disks refuse writes.
    pub are_discards_hints: bool,
    /// Disks damage data and do nothing else wrong, and the volume does not tell: no error has a reason in that.
    pub is_silently_damaged: bool,
    /// The power is gone: what happens now happens to nobody.
    pub is_dark: bool,
    /// Tables that were swapped while hosts went on, and the longest time that nobody was let in because of that.
    pub swaps: u64,
    pub longest_swap: Duration,
    /// The removal of a disk, where one is removed.
    pub removal: Option<Removal>,
    pub log: Log,
}

impl Ledger {
    pub fn violate(&mut self, rule: Rule, at: Instant, what: String) {
        if !self.is_dark {
            self.log.violate(rule, at, what);
        }
    }

    /// Whether the run is to stop here.
    pub fn is_over(&self) -> bool {
        self.log.violation.is_some() || self.is_dark
    }

    /// Takes note of a request of a host.
    pub fn submit(&mut self, request: VolumeRequest, now: Instant) -> u64 {
        self.log.count();
        self.volume.submit(request, now)
    }

    /// Judges a completion of what was `asked`.
    pub fn complete(&mut self, asked: VolumeRequest, back: &Completion, stack: &Stack, now: Instant) {
        if self.is_dark {
            return;
        }
        let Completion { tag, bio, status } = back;
        let whole = asked.op != Op::Read || bio.payload.bytes() == asked.blocks as usize * 4096;
        if bio.op != asked.op || !whole {
            self.violate(Rule::Completion, now, format!("request {tag}: {asked} came back as {bio:?}"));
        }
        self.log.judge_time(&asked, back, now);
        let is_hint = asked.op == Op::Discard && self.are_discards_hints;
        let outcome = match status.is_ok() && !is_hint {
            true => self.volume.succeed(*tag, read_stamps(&bio.payload)),
            false => self.volume.fail(*tag).map(|_| ()),
        };
        if let Err((rule, what)) = outcome {
            self.violate(rule, now, what);
        }
        if !status.is_ok() && !self.excuses(stack) {
            let what = format!("request {tag}: {asked} failed with {status} for no reason");
            self.violate(Rule::Unexplained, now, self.machine.with_status(stack, what));
        }
        self.log.judge_reason(&asked, back, now);
        self.look_for_holes(asked, stack, now);
    }

    /// What is called a hole at this moment counts as read, with zeroes in it.
    fn look_for_holes(&mut self, asked: VolumeRequest, stack: &Stack, now: Instant) {
        let (mut block, unit) = (asked.block, u64::from(BLOCK_SECTORS));
        let sectors = u64::from(block) * unit..u64::from(block + asked.blocks) * unit;
        let mut extents = Vec::with_capacity(64);
        stack.extents(self.machine.door(), sectors, &mut extents);
        for extent in extents {
            let blocks = (extent.sectors / unit) as u32;
            if extent.is_hole {
                self.log.note("hole");
                let read = self.volume.submit(VolumeRequest::new(Op::Read, block, blocks), now);
                if let Err((rule, what)) = self.volume.succeed(read, repeat_n(Seen::Zeroes, blocks as usize)) {
                    self.violate(rule, now, format!("called a hole: {what}"));
                }
            }
            block += blocks;
        }
    }

    /// Whether something went wrong that can be the reason of an error.
    pub fn excuses(&self, stack: &Stack) -> bool {
        let dead = |disk: &CrashDisk| {
            let zones = (0..disk.zones().geometry().zones()).map(ZoneNo);
            zones.filter(|zone| disk.has_failed(*zone)).count()
        };
        self.machine.is_damaged(stack)
            || self.machine.faults(stack) > 0 && !self.is_silently_damaged
            || self.machine.on_disks(stack).map(dead).sum::<usize>() > self.dead
    }

    /// Whether a request waits for too long at `now`.
    pub fn is_out_of_patience(&self, now: Instant) -> bool {
        let then = Instant(now.0.saturating_sub(PATIENCE.0));
        self.volume.waits_since_before(then)
    }
}

/// How long something that waits for a device looks away.
pub(super) const NAP: Duration = Duration::from_millis(500);
