//! What reaches a device other than bios.

use super::op::Op;
use super::path::PathEvent;
use super::payload::Payload;
use super::status::Status;
use crate::sector::Sector;

/// What reaches a device other than bios.
#[derive(Debug)]
pub enum Event {
    /// A timer set with [`Cx::wake_at`](super::Cx::wake_at) is due.
    Timer(u64),
    /// A bio failed that it had passed on for good with [`Cx::pass`](super::Cx::pass): what it was here.
    Failed {
        /// What it asked for.
        op: Op,
        /// Its first sector.
        sector: Sector,
        /// How it failed.
        status: Status,
    },
    /// Its mapped device is about to be suspended: what it keeps back goes on now, or back to the door with
    /// [`Cx::push_back`](super::Cx::push_back) if that is wanted.
    Suspend {
        /// Whether bios that were not sent on yet are to wait at the door instead.
        push_back: bool,
    },
    /// Its mapped device takes bios again.
    Resume,
    /// What a device above several paths, or one of them, has to say.
    Path(PathEvent),
    /// I/O outside of the stack is done.
    Done {
        /// What the device called it.
        word: u64,
        /// The result of the system call: bytes, or a negative errno.
        result: i32,
        /// The memory that was lent for it.
        payload: Payload,
    },
}
