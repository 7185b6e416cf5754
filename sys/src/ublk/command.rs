//! What the server of a queue says to the driver.

use io_uring::opcode;
use shingle_core::frontend::ublk::Answer;

use super::wire::{QueuePayload, queue_command};
use crate::request::{Fd, Operation, Submission};

/// A command of one tag: asks for its next request, after the answer to the last. The result is 0 when there is one, `-ENODEV`
/// when there will be none.
#[derive(Debug)]
pub struct QueueCommand {
    file: Fd,
    queue: u16,
    tag: u16,
    answer: Option<Answer>,
}

impl QueueCommand {
    /// Asks for the first request of `tag` of `queue` at `/dev/ublkcN`.
    #[must_use]
    pub fn new(file: Fd, queue: u16, tag: u16) -> Self {
        Self { file, queue, tag, answer: None }
    }

    /// Answers the last request before it asks for the next one.
    pub fn answer(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }
}

// SAFETY: the command itself is copied into the entry, and the descriptor is kept open by `file`.
unsafe impl Operation for QueueCommand {
    fn entry(&mut self) -> Submission {
        let number = if self.answer.is_some() { queue_command::COMMIT_AND_FETCH } else { queue_command::FETCH };
        let Answer { result, sector } = self.answer.take().unwrap_or_default();
        let payload = QueuePayload { queue: self.queue, tag: self.tag, result, sector };
        Submission::Short(opcode::UringCmd16::new(self.file.target(), number).cmd(payload.bytes()).build())
    }

    fn ends_with_ring(&self) -> bool {
        true
    }
}
