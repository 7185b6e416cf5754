//! Calls that block, beside a shard: a thread does them one after the other, and the device that asked hears of the result as of
//! one of the ring's.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;

use rustix::io::Errno;
use shingle_core::block::{DeviceId, Event, Payload};

use crate::shard::{Mailbox, never_wait_for_own_writes};

/// A call that blocks. It may fill or empty the memory, and returns what a system call would.
pub type Work = Box<dyn FnOnce(&mut Payload) -> io::Result<i32> + Send>;

/// Most calls that wait for the thread.
const MOST_CALLS: usize = 64;

struct Call {
    device: DeviceId,
    word: u64,
    payload: Payload,
    work: Work,
}

/// A thread for the calls of the devices of one shard. It ends when its last owner drops it, after the calls that it has.
#[derive(Clone)]
pub struct Helper(SyncSender<Call>);

impl Helper {
    /// A thread of this name. What it has done is delivered through `mailbox`.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(name: &str, mailbox: Mailbox) -> io::Result<Self> {
        let (helper, calls) = Self::by_hand();
        let body = move || {
            never_wait_for_own_writes();
            serve(&calls, &mailbox);
        };
        thread::Builder::new().name(name.into()).spawn(body)?;
        Ok(helper)
    }

    /// One without a thread: somebody else does its calls. For simulations.
    #[must_use]
    pub fn by_hand() -> (Self, Calls) {
        let (sender, calls) = mpsc::sync_channel(MOST_CALLS);
        (Self(sender), Calls(calls))
    }

    /// Does `work`, then tells `device` [`Event::Done`] under `word`, with the memory. The device has a bio meanwhile, so that it
    /// is still there.
    ///
    /// # Errors
    /// The memory comes straight back if 64 calls wait already: keep the bio until one is done.
    pub fn call(&self, device: DeviceId, word: u64, payload: Payload, work: Work) -> Result<(), Payload> {
        self.0.try_send(Call { device, word, payload, work }).map_err(|error| match error {
            TrySendError::Full(call) | TrySendError::Disconnected(call) => call.payload,
        })
    }
}

/// The calls that wait for a helper, in order.
pub struct Calls(Receiver<Call>);

impl Calls {
    /// Does the next call, if there is one: what to tell whom.
    #[must_use]
    pub fn next(&self) -> Option<(DeviceId, Event)> {
        self.0.try_recv().ok().map(Call::carry_out)
    }
}

impl Call {
    fn carry_out(self) -> (DeviceId, Event) {
        let Call { device, word, mut payload, work } = self;
        let errno = |error: io::Error| -error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        let result = work(&mut payload).unwrap_or_else(errno);
        (device, Event::Done { word, result, payload })
    }
}

fn serve(calls: &Calls, mailbox: &Mailbox) {
    while let Ok(call) = calls.0.recv() {
        let (device, done) = call.carry_out();
        if !mailbox.deliver(move |shard| shard.stack.tell(device, done)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::mpsc::Sender;

    use shingle_core::block::{Bio, BlockDevice, Cx, Data, Limits, Op, Status};
    use shingle_core::sector::Sector;

    use super::*;
    use crate::shard::{ShardError, ShardThread};

    /// Reads by a call that waits for its answer from somebody else.
    struct Slow {
        limits: Limits,
        helper: Helper,
        answers: Option<Receiver<io::Result<u8>>>,
        #[expect(clippy::vec_box, reason = "bios stay where they are")]
        kept: Vec<Box<Bio>>,
    }

    impl BlockDevice for Slow {
        fn limits(&self) -> &Limits {
            &self.limits
        }

        fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
            let payload = std::mem::take(&mut bio.payload);
            let answers = self.answers.take();
            let work = move |payload: &mut Payload| {
                let byte = answers.expect("one read").recv().expect("an answer")?;
                payload.segments()[0].fill(byte);
                Ok(0)
            };
            let refused = bio.op != Op::Read || self.helper.call(cx.me(), 5, payload, Box::new(work)).is_err();
            if refused { cx.complete(bio, Status::Io) } else { self.kept.push(bio) }
        }

        fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
            let Event::Done { word: 5, result, payload } = event else { return };
            let mut bio = self.kept.pop().expect("it waits");
            bio.payload = payload;
            cx.complete(bio, if result == 0 { Status::Ok } else { Status::Medium });
        }

        fn held(&self, visit: &mut dyn FnMut(&Bio)) {
            self.kept.iter().for_each(|bio| visit(bio));
        }

        fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
            out.write_str("slow disk of a test")
        }
    }

    /// How a read of a shard with a slow disk ends, whose call is answered after the shard has shown that it goes on.
    fn read(answer: io::Result<u8>) -> (Status, Vec<u8>) {
        let (answers, later): (Sender<_>, _) = mpsc::channel();
        let shard = ShardThread::start("slow", move |shard| {
            let helper = Helper::start("helper", shard.mailbox()).unwrap();
            let slow = Slow { limits: Limits::new(8), helper, answers: Some(later), kept: Vec::new() };
            shard.stack.add(Box::new(slow)).unwrap();
            Ok::<_, ShardError>(())
        });
        let (shard, ()) = shard.unwrap();
        let (sender, outcome) = mpsc::channel();
        let read = Bio::new(Op::Read, Sector::ZERO, 1, Payload::Data(Data::zeroed(512)));
        let post = shard.mailbox().post(move |shard| {
            shard.submit(DeviceId(0), read, move |_, bio, status| {
                sender.send((status, bio.payload.segments()[0].to_vec())).unwrap();
            });
        });
        post.unwrap();
        let under_way = shard.mailbox().ask(|shard| shard.stack.device::<Slow>(DeviceId(0)).unwrap().kept.len());
        assert!(
            under_way.is_ok_and(|bios| bios <= 1) && outcome.try_recv().is_err(),
            "it waits, and the shard does not"
        );
        answers.send(answer).unwrap();
        let outcome = outcome.recv().unwrap();
        shard.stop().unwrap();
        outcome
    }

    #[test]
    fn a_call_that_blocks_keeps_no_shard_waiting_and_its_result_reaches_the_device() {
        assert_eq!(read(Ok(7)), (Status::Ok, vec![7; 512]));
        assert_eq!(read(Err(Errno::NODEV.into())).0, Status::Medium);
    }
}
