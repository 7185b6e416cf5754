//! What the server of a queue says to the driver.

use io_uring::opcode;

use super::wire::{QueuePayload, queue_command};
use crate::request::{Fd, Operation, Submission};

/// The answer to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// What the kernel makes of it: bytes, or a negative errno.
    pub result: i32,
    /// Of an append that succeeded where the data is, in sectors.
    pub sector: u64,
}

/// A command of one tag: asks for its next request, after the answer to the last. The result is 0 when there is one, `-ENODEV`
/// when there will be none.
#[derive(Debug)]
pub struct QueueCommand {
    file: Fd,
    queue: u16,
    tag: u16,
    reply: Option<Reply>,
}

impl QueueCommand {
    /// Asks for the first request of `tag` of `queue` at `/dev/ublkcN`.
    #[must_use]
    pub fn new(file: Fd, queue: u16, tag: u16) -> Self {
        Self { file, queue, tag, reply: None }
    }

    /// Answers the last request before it asks for the next one.
    pub fn answer(&mut self, reply: Reply) {
        self.reply = Some(reply);
    }
}

// SAFETY: the command itself is copied into the entry, and the descriptor is kept open by `file`.
unsafe impl Operation for QueueCommand {
    fn entry(&mut self) -> Submission {
        let number = if self.reply.is_some() { queue_command::COMMIT_AND_FETCH } else { queue_command::FETCH };
        let Reply { result, sector } = self.reply.take().unwrap_or_default();
        let payload = QueuePayload { queue: self.queue, tag: self.tag, result, sector };
        Submission::Short(opcode::UringCmd16::new(self.file.target(), number).cmd(payload.bytes()).build())
    }

    fn ends_with_ring(&self) -> bool {
        true
    }
}
