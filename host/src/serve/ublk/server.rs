//! The requests of one block device, as a source of a shard.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use shingle_core::block::{Completion as Done, Data, DeviceId, Payload, PortId, Status};
use shingle_core::frontend::ublk::{Next, Session, UserCopy};
use shingle_core::time::{Duration, Instant};
use shingle_sys::ublk::{self, Descriptors, QueueCommand};
use shingle_sys::{Completion, Fd, Request, driver_region};

use super::replay_watch::{Readiness, Stage};
use crate::serve::User;
use crate::shard::{Pump, Source, SourceCx};

/// Numbers for the commands of block devices that wait in the ring of a shard, as many as may.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Mutex<Vec<u32>>>);

impl Places {
    /// So many, all free.
    pub fn new(most: u32) -> Self {
        Self(Arc::new(Mutex::new((0..most).rev().collect())))
    }

    /// So many of them; `None` if fewer are free.
    pub fn take(&self, many: usize) -> Option<PlacesPermit> {
        let mut free = self.free();
        let rest = free.len().checked_sub(many)?;
        Some(PlacesPermit { numbers: free.split_off(rest), of: self.clone() })
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some of the [`Places`], until it is dropped.
#[derive(Debug)]
pub(super) struct PlacesPermit {
    /// Which.
    pub numbers: Vec<u32>,
    of: Places,
}

impl Drop for PlacesPermit {
    fn drop(&mut self) {
        self.of.free().append(&mut self.numbers);
    }
}

/// The word of reads that clear records.
const CLEAR: u64 = u64::MAX;

/// How long appends wait for one that a killed daemon has done in part: the kernel sends it again in milliseconds.
const PATIENCE: Duration = Duration::from_millis(5_000);

/// The device and its place on the shard.
pub(super) struct Server {
    /// Its part in the export, and among the commands of the shard. They are free before the driver hears that the
    /// device has no server any more.
    places: (User, PlacesPermit),
    export: String,
    device: DeviceId,
    session: Session,
    copies: Copies,
    /// `/dev/zero`.
    zeroes: Fd,
    /// One mapping of each queue.
    descriptors: Vec<Descriptors>,
    /// Of each tag the command, while it is not in the ring.
    commands: Vec<Option<Box<QueueCommand>>>,
    port: Option<PortId>,
    /// Tags that can still get requests.
    live: usize,
    is_asking: bool,
    is_stopping: bool,
    /// Since when appends wait for one that was done in part.
    held_since: Option<Instant>,
    readiness: Readiness,
    /// True if what a killed daemon left is replayed.
    is_ready: bool,
    /// Tags with requests that came before that.
    early: Vec<u32>,
}

/// How data comes out of the requests of a device and into them.
struct Copies {
    file: Fd,
    /// Tags of a queue.
    depth: u16,
}

impl Copies {
    fn place(&self, tag: u32) -> (u16, u16) {
        place(tag, self.depth)
    }
}

/// Queue and tag there of one of all tags of a device whose queues have this depth.
pub(super) fn place(tag: u32, depth: u16) -> (u16, u16) {
    let depth = u32::from(depth);
    ((tag / depth) as u16, (tag % depth) as u16)
}

impl UserCopy for Copies {
    fn take(&mut self, tag: u32, data: &Data) -> Result<(), Status> {
        ublk::take(&self.file, self.place(tag), data).map_err(|_| Status::Io)
    }

    fn give(&mut self, tag: u32, data: &Data) -> Result<(), Status> {
        ublk::give(&self.file, self.place(tag), data).map_err(|_| Status::Io)
    }
}

impl Server {
    /// A server for the device behind `file`, which nobody has asked for requests yet.
    pub fn new(
        (export, device): (String, DeviceId),
        (session, file, zeroes): (Session, Fd, Fd),
        descriptors: Vec<Descriptors>,
        (depth, registers, places): (u16, bool, (User, PlacesPermit)),
        readiness: Readiness,
    ) -> Self {
        let tags = descriptors.len() * usize::from(depth);
        let copies = Copies { file, depth };
        let command = |(tag, number): (usize, &u32)| {
            let (queue, of_queue) = copies.place(tag as u32);
            let command = QueueCommand::new(copies.file.clone(), queue, of_queue);
            Some(Box::new(if registers { command.registering(driver_region(*number)) } else { command }))
        };
        let commands = places.1.numbers.iter().enumerate().map(command).collect();
        Self {
            places,
            export,
            device,
            session,
            copies,
            zeroes,
            descriptors,
            commands,
            port: None,
            live: tags,
            is_asking: false,
            is_stopping: false,
            held_since: None,
            readiness,
            is_ready: false,
            early: Vec::new(),
        }
    }

    fn begin(&mut self, tag: u32, cx: &mut SourceCx<'_>) {
        let (queue, of_queue) = self.copies.place(tag);
        let descriptor = self.descriptors[usize::from(queue)].of(of_queue);
        self.session.handle_request(tag, descriptor, &mut self.copies);
        self.go_on(cx);
    }

    /// Does what the session wants.
    fn go_on(&mut self, cx: &mut SourceCx<'_>) {
        let Some(port) = self.port else { return };
        while let Some(next) = self.session.poll() {
            match next {
                Next::Submit(word, bio) => cx.stack.submit(port, word, self.device, bio),
                Next::Answer(tag, answer, clear) => {
                    if let Some(command) = &mut self.commands[tag as usize] {
                        command.answer(answer);
                    }
                    self.ask(tag, clear, cx);
                }
            }
        }
    }

    /// Sends the command of `tag`: its answer, if it has one, and the question for the next request. The kernel clears the record
    /// of the request before, in the same system call unless the ring just filled: a kill between the two has it done twice, and
    /// never taken for another one.
    fn ask(&mut self, tag: u32, clear: Option<Data>, cx: &mut SourceCx<'_>) {
        let Some(command) = self.commands[tag as usize].take() else { return };
        if let Some(data) = clear {
            let zeroes =
                Request::Read { file: self.zeroes.clone(), at: 0, payload: Payload::Data(data.clone()), skip: 0 };
            if cx.submit(CLEAR, zeroes).is_err() {
                data.fill(0);
            }
        }
        if cx.submit(tag.into(), Request::Other(command)).is_err() {
            // It cannot be: the shard counts the commands. The request stays for the next server.
            tracing::error!(
                export = self.export,
                "export `{}`: the ring is full; a request of its block device is left",
                self.export
            );
            self.live -= 1;
        }
    }

    /// Asks for requests before the replay: the kernel sends none until the recovery ends. Linux 6.12 refuses all later servers if one is killed
    /// that had begun the recovery and asked for nothing (`drivers/block/ublk_drv.c:ublk_ctrl_start_recovery`, `ublk_ch_mmap`).
    fn ask_all(&mut self, cx: &mut SourceCx<'_>) {
        self.is_asking = true;
        (0..self.commands.len() as u32).for_each(|tag| self.ask(tag, None, cx));
    }

    /// Appends wait a while for one that a killed daemon has done in part.
    fn be_patient(&mut self, cx: &mut SourceCx<'_>) {
        if !self.session.is_holding() {
            return self.held_since = None;
        }
        let end = *self.held_since.get_or_insert(cx.now()) + PATIENCE;
        if cx.now() < end {
            return cx.wake_at(end);
        }
        tracing::warn!(
            export = self.export,
            "export `{}`: an append of a killed daemon does not come again; its part stays in its zone",
            self.export
        );
        self.session.give_up_parts(&mut self.copies);
        self.go_on(cx);
    }

    /// Looks whether what a killed daemon left is replayed; then requests are served.
    fn replay(&mut self, cx: &mut SourceCx<'_>) -> Stage {
        let stage = match self.session.is_ready() {
            Ok(true) => Stage::Ready,
            Ok(false) => Stage::Replaying(self.session.progress()),
            Err(status) => Stage::Failed(status),
        };
        self.readiness.set(stage);
        self.is_ready = stage == Stage::Ready;
        if self.is_ready {
            std::mem::take(&mut self.early).into_iter().for_each(|tag| self.begin(tag, cx));
        }
        stage
    }

    fn ended(&mut self, result: i32) {
        self.live -= 1;
        if result != -Errno::NODEV.raw_os_error() && result != -Errno::CANCELED.raw_os_error() {
            let error = std::io::Error::from_raw_os_error(-result);
            tracing::error!(
                export = self.export,
                "export `{}`: its block device gives no more requests: {error}",
                self.export
            );
        }
    }
}

impl Source for Server {
    fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>) {
        if done.token.word == CLEAR {
            return;
        }
        let tag = done.token.word as u32;
        if let Request::Other(operation) = done.request {
            let operation: Box<dyn Any> = operation;
            self.commands[tag as usize] = operation.downcast().ok();
        }
        match done.result {
            // What comes now is for the next server.
            0 if self.is_stopping => self.live -= 1,
            0 if !self.is_ready => self.early.push(tag),
            0 => self.begin(tag, cx),
            result => self.ended(result),
        }
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        let port = *self.port.get_or_insert_with(|| cx.open_port());
        while let Some(Done { tag, bio, status }) = cx.stack.poll_completion(port) {
            self.places.0.tally.record(&bio, status, cx.now().since(bio.since));
            self.session.handle_completion(tag, bio, status, &mut self.copies);
        }
        self.go_on(cx);
        if !self.is_asking {
            self.ask_all(cx);
        }
        if !self.is_ready
            && let Stage::Failed(_) = self.replay(cx)
        {
            // The device stays as it is until what is below is repaired.
            return Pump::Done;
        }
        self.be_patient(cx);
        let is_over = self.live == 0 || self.is_stopping;
        if is_over && self.session.busy() == 0 { Pump::Done } else { Pump::Idle }
    }

    fn stop(&mut self, _: &mut SourceCx<'_>) {
        self.is_stopping = true;
    }
}
