//! What the server of a queue says to the driver.

use io_uring::opcode;
use shingle_core::block::Region;
use shingle_core::frontend::ublk::Answer;

use super::wire::{QueuePayload, queue_command, register_as};
use crate::request::{Fd, Operation, Submission};

/// A command of one tag: asks for its next request, after the answer to the last. The result is 0 when there is one, `-ENODEV`
/// when there will be none.
#[derive(Debug)]
pub struct QueueCommand {
    file: Fd,
    queue: u16,
    tag: u16,
    answer: Option<Answer>,
    /// As what the driver registers the memory of the requests.
    region: Option<u16>,
}

impl QueueCommand {
    /// Asks for the first request of `tag` of `queue` at `/dev/ublkcN`.
    #[must_use]
    pub fn new(file: Fd, queue: u16, tag: u16) -> Self {
        Self { file, queue, tag, answer: None, region: None }
    }

    /// The same, and the driver registers the memory of each request as `region` with the ring that this command goes to, until the
    /// answer.
    ///
    /// # Panics
    /// If it is not one for drivers ([`driver_region`](crate::driver_region)).
    #[must_use]
    pub fn registering(self, region: Region) -> Self {
        let number = u16::try_from(region.0).expect("a ring has fewer regions");
        Self { region: Some(number), ..self }
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
        Submission::Short({
            let command = opcode::UringCmd16::new(self.file.target(), number).cmd(payload.bytes());
            command.addr(self.region.map(register_as)).build()
        })
    }

    fn ends_with_ring(&self) -> bool {
        true
    }
}
