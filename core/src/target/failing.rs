//! `error`: every bio fails.

use alloc::boxed::Box;
use core::fmt;

use crate::block::{Bio, BlockDevice, Cx, Limits, Status};

/// A range in which every bio fails with an I/O error (`drivers/md/dm-target.c:io_err_map`).
pub struct Failing {
    limits: Limits,
}

impl Failing {
    /// An error target of `sectors`.
    #[must_use]
    pub fn new(sectors: u64) -> Self {
        let mut limits = Limits::new(sectors);
        // It takes these as well, and fails them. A flush is not for it: there is nothing that could be lost.
        (limits.max_discard, limits.max_write_zeroes) = (Some(u32::MAX), Some(u32::MAX));
        Self { limits }
    }
}

impl BlockDevice for Failing {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        cx.complete(bio, Status::Io);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "error, {} sectors", self.limits.capacity)
    }
}
