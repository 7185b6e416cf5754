//! Emulated FUA: of a FUA write the stack makes a write and a flush, for a disk with a volatile write cache and no FUA.
//!
//! ```text
//!   plug ── WRITE fua ──> without_emulated_fua ── WRITE ──> disk ── done ──> advance_fua ── FLUSH ──> disk
//!   plug <── WRITE fua ended ─────────────────────────────────────────────────── done ──────┘
//! ```
//!
//! It is done where bios reach the disk, below plugs, multipath heads and tables, as in the kernel (`block/blk-flush.c`). So it
//! serves every submitter, also a target that writes its metadata with FUA, and a FUA write is one command to all layers above,
//! as it is to a disk that has FUA:
//!
//! - Only the next write of the same zone waits for the flush, and under `qd1` the next zone. Above the plug the flush would be a
//!   separate bio without an order, and the plug could reset the zone between the write and its flush.
//! - If the flush fails, the write fails. The plug then asks for the write pointer, as after any failed write, before it
//!   writes to the zone again: the disk may have lost what it had in its cache.
//! - Flushes of the disk never wait for a zone.

use alloc::sync::Arc;

use slab::Slab;

use super::bio::{Bio, Owner};
use super::device::BlockDevice;
use super::id::DeviceId;
use super::op::{Flags, Op};
use super::payload::Payload;
use super::reason::Reason;
use super::stack::{Slot, Stack};
use super::status::Status;
use super::trace::Action;
use crate::guards::Guards;
use crate::prelude::*;
use crate::sector::Sector;

/// Word of the frame of a write whose data is being written. Else the word is the place of the write in [`FuaWrites`].
const WRITING: u64 = u64::MAX;

/// Guards of emulated FUA that can be taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// A FUA write is acknowledged when its data is in the volatile write cache, without a flush.
    pub fua_unflushed: bool,
}

/// FUA writes whose data is written, and that wait for the flush.
#[derive(Default)]
pub(super) struct FuaWrites {
    waiting: Slab<(DeviceId, Box<Bio>)>,
    guards: Guards<Sabotage>,
}

impl FuaWrites {
    /// Shows the writes that wait for a flush.
    pub fn held(&self, visit: &mut dyn FnMut(DeviceId, &Bio)) {
        self.waiting.iter().for_each(|(_, (disk, bio))| visit(*disk, bio));
    }
}

/// True if the stack makes a write and a flush of a FUA write to `device`. A device that lies on others passes FUA on to these.
pub(super) fn emulates_fua(device: &dyn BlockDevice) -> bool {
    let limits = device.limits();
    limits.write_cache && !limits.fua && device.below().is_empty()
}

impl Slot {
    /// The bio that the device gets: a plain write for a FUA write if the stack emulates FUA. Its completion is handled by [`Stack::advance_fua`].
    pub fn without_emulated_fua(&self, mut bio: Box<Bio>) -> Box<Bio> {
        if self.emulates_fua && bio.flags.has(Flags::FUA) && bio.op.writes_data() {
            bio.flags = bio.flags.without(Flags::FUA);
            bio.push(Owner::EmulatedFua, WRITING);
        }
        bio
    }
}

/// The status of a FUA write whose flush failed with `status`. A status that says of a write that it did not begin would be wrong: the plug
/// would take the write pointer for where it was.
#[cold]
fn blame_flush(write: &mut Bio, flush: &mut Bio, status: Status) -> Status {
    let says_untouched = matches!(
        status,
        Status::NotSupported
            | Status::Invalid
            | Status::Again
            | Status::ReadOnly
            | Status::Resource
            | Status::NoSpace
            | Status::ZoneOpenResource
            | Status::ZoneActiveResource
    );
    match flush.why() {
        Some(why) if says_untouched => write.blame(Reason::FuaFlush(Arc::new(why.clone()))),
        _ => {
            write.inherit(flush);
            status
        }
    }
}

impl Stack {
    /// Takes guards away.
    #[cfg(feature = "sabotage")]
    pub fn sabotage(&mut self, gone: Sabotage) {
        self.effects.fua_writes.guards = Guards::without(gone);
    }

    /// Sends the flush behind a write that `disk` has completed, or completes the write after its flush.
    #[cold]
    #[inline(never)]
    pub(super) fn advance_fua(&mut self, disk: DeviceId, mut bio: Box<Bio>, status: Status) {
        let word = bio.top().word;
        if word != WRITING {
            self.effects.trace(Action::Complete, disk, &bio, status);
            bio.pop();
            let (_, mut write) = self.effects.fua_writes.waiting.remove(word as usize);
            let status = if status.is_ok() { status } else { blame_flush(&mut write, &mut bio, status) };
            self.effects.pool.give(bio);
            return self.effects.complete(disk, write, status);
        }
        bio.pop();
        // Layers above decide by the flag, for instance whether to send the write again over another path.
        bio.flags = bio.flags.with(Flags::FUA);
        if !status.is_ok() || self.effects.fua_writes.guards.gone().fua_unflushed {
            return self.effects.complete(disk, bio, status);
        }
        let mut flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        flush.since = bio.since;
        flush.enter(&self.effects.mark);
        let write = self.effects.fua_writes.waiting.insert((disk, bio));
        flush.push(Owner::EmulatedFua, write as u64);
        let mut flush = self.effects.pool.take(flush);
        if self.effects.is_traced() {
            self.effects.trace_numbered(Action::Dispatch, disk, &mut flush);
        }
        // Not through the door of the disk: what waits there is suspended, and this write is inside already.
        self.hand_over(disk, flush);
    }
}
