//! Background work of a device as plain async: what has to wait for other I/O reads like straight-line code.
//!
//! ```text
//!   task ── io.write(..).await ──> outbox ── Tasks::run ──> own bios of the device ──> the stack
//!     ^                                                                                  │
//!     └──────────── waker <── answer <── Tasks::end_io / Tasks::on_timer <───────────────┘
//! ```
//!
//! [`Tasks`] belongs to a device and is polled in its calls, so tasks run on the thread and in the time of the stack, one
//! after the other, and share the device's state through a `RefCell` that none holds across an await. A request is sent
//! when it is made, not when it is awaited: several in flight are several answers in a row.

mod io;
mod signal;

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::task::{Context, Waker};

pub use io::{Answer, Io, Sleep};
pub use signal::Signal;

use crate::block::{Bio, Cx, Status, WordOwner};
use crate::prelude::*;

/// The tasks of a device.
#[derive(Default)]
pub struct Tasks {
    io: Io,
    tasks: Vec<Task>,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
    waker: Waker,
}

/// Whether a task has a reason to be polled.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

impl Tasks {
    /// What tasks do their I/O with.
    #[must_use]
    pub fn io(&self) -> Io {
        self.io.clone()
    }

    /// Adds a task. It is first polled at the next [`Tasks::run`].
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(woken.clone());
        self.tasks.push(Task { future: Box::pin(future), woken, waker });
    }

    /// Polls the tasks that have a reason, until none has, and sends what they want sent.
    pub fn run(&mut self, cx: &mut Cx<'_>) {
        self.io.0.borrow_mut().now = cx.now();
        while self.poll() {}
        self.send(cx);
    }

    fn poll(&mut self) -> bool {
        let mut polled = false;
        self.tasks.retain_mut(|task| {
            if !task.woken.0.swap(false, Relaxed) {
                return true;
            }
            polled = true;
            task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_pending()
        });
        polled
    }

    fn send(&mut self, cx: &mut Cx<'_>) {
        let (mut bios, timers) = {
            let mut board = self.io.0.borrow_mut();
            (core::mem::take(&mut board.bios), core::mem::take(&mut board.timers))
        };
        for (to, bio, key) in bios.drain(..) {
            let bio = cx.own_bio(bio);
            cx.submit(to, bio, WordOwner::Task.mark(key));
        }
        timers.into_iter().for_each(|(at, key)| cx.wake_at(at, WordOwner::Task.mark(key)));
        self.io.0.borrow_mut().bios = bios;
    }

    /// Takes back a bio whose word is of [`WordOwner::Task`]. [`Tasks::run`] then goes on with who waits for it.
    pub fn end_io(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let payload = core::mem::take(&mut bio.payload);
        let result = if status.is_ok() { Ok(()) } else { Err(bio.cause(status)) };
        cx.recycle(bio);
        self.io.0.borrow_mut().answer(WordOwner::rest(word), (result, payload));
    }

    /// A timer whose word is of [`WordOwner::Task`] is due.
    pub fn on_timer(&mut self, word: u64) {
        self.io.0.borrow_mut().answer(WordOwner::rest(word), (Ok(()), crate::block::Payload::None));
    }
}
