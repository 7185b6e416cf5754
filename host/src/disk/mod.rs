//! Real disks as devices of a stack.
//!
//! - [`drive_dir`]: the data of a simulated drive.
//! - [`file`]: a regular file or a block device.
//! - [`files`]: the calls that wait, so that a simulated kernel can stand in for the machine's.
//! - [`zoned_blk`]: a zoned block device of the kernel.
//! - [`zoned_dir`]: a zoned disk in a directory.
//!
//! A disk starts its I/O on the ring of its shard and gets it back as an event of the stack; it never blocks for data. Only simulated drives
//! do, which have it in the page cache.

pub mod drive_dir;
pub mod file;
mod file_budget;
pub mod files;
mod holder;
mod jobs;
mod overdue;
mod transfer;
mod unanswered;
pub mod zoned_blk;
pub mod zoned_dir;

pub use file_budget::{FileBudget, raise_file_limit};
pub use holder::Holder;
pub use overdue::{Overdue, TIMEOUT};

#[cfg(test)]
mod never_answers {
    //! A stand-in for a file below which nothing moves.

    use std::io::{ErrorKind, Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, Status};
    use shingle_core::sector::Sector;

    use crate::shard::Shard;

    /// A socket that takes nothing more, until its peer reads.
    pub struct Stuck(UnixStream);

    impl Stuck {
        pub fn new() -> (Self, UnixStream) {
            let (mut full, peer) = UnixStream::pair().unwrap();
            full.set_nonblocking(true).unwrap();
            let error = loop {
                if let Err(error) = full.write(&[0; 4096]) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            full.set_nonblocking(false).unwrap();
            peer.set_nonblocking(true).unwrap();
            (Self(peer), full)
        }

        /// Answers, at last.
        pub fn answer(&mut self) {
            while self.0.read(&mut [0; 65536]).is_ok_and(|bytes| bytes > 0) {}
        }
    }

    pub fn bio(op: Op, sector: u64) -> Bio {
        let sectors = if op.has_data() { 8 } else { 0 };
        let payload = if op.has_data() { Payload::Data(Data::zeroed(4096)) } else { Payload::None };
        Bio::new(op, Sector(sector), sectors, payload)
    }

    /// Statuses in the order in which they come.
    pub type Answers = std::rc::Rc<std::cell::RefCell<Vec<(Op, Status)>>>;

    pub fn submit(shard: &mut Shard, disk: DeviceId, bio: Bio, answers: &Answers) {
        let answers = answers.clone();
        shard.submit(disk, bio, move |_, bio, status| answers.borrow_mut().push((bio.op, status)));
    }

    /// Goes on until nothing moves but what the kernel holds back: the mailbox's watch and `stuck` others.
    pub fn settle(shard: &mut Shard, stuck: usize) {
        let ring = shard.ring();
        shard.hurry();
        shard.round().unwrap();
        shard.run_until(|shard| ring.in_flight() == 1 + stuck && !shard.stack.has_arrivals()).unwrap();
        shard.hurry();
        shard.round().unwrap();
    }
}
