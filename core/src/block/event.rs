//! What reaches a device other than bios.

use super::payload::Payload;

/// What reaches a device other than bios.
#[derive(Debug)]
pub enum Event {
    /// A timer set with [`Cx::wake_at`] is due.
    Timer(u64),
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
