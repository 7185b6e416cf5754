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
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::task::{Context, Waker};

pub use io::{Answer, Io, Sleep};
pub use signal::Signal;

use crate::block::{Bio, Cx, Status, WordOwner};
use crate::prelude::*;

/// Tasks that share a word which says who of them was woken.
const GROUP: usize = u64::BITS as usize;

/// The tasks of a device.
#[derive(Default)]
pub struct Tasks {
    io: Io,
    /// By place; those that are over leave theirs empty.
    tasks: Vec<Option<Task>>,
    /// Who has a reason to be polled, a bit each: tasks that wait cost nothing.
    woken: Vec<Arc<AtomicU64>>,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Waker,
}

/// Wakes the task in one place. One that is there later may be woken in vain.
struct Bell {
    group: Arc<AtomicU64>,
    bit: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.group.fetch_or(self.bit, Relaxed);
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
        let place = self.tasks.iter().position(Option::is_none).unwrap_or(self.tasks.len());
        if place == self.tasks.len() {
            self.tasks.push(None);
            self.woken.resize_with(self.tasks.len().div_ceil(GROUP), Arc::default);
        }
        let waker = Waker::from(Arc::new(Bell { group: self.woken[place / GROUP].clone(), bit: 1 << (place % GROUP) }));
        waker.wake_by_ref();
        self.tasks[place] = Some(Task { future: Box::pin(future), waker });
    }

    /// Polls the tasks that have a reason, until none has, and sends what they want sent.
    pub fn run(&mut self, cx: &mut Cx<'_>) {
        self.io.0.borrow_mut().now = cx.now();
        self.poll_woken();
        self.send(cx);
    }

    /// Round after round, each in the order of their places.
    fn poll_woken(&mut self) {
        let mut next = 0;
        while let Some(place) = self.woken_from(next).or_else(|| self.woken_from(0)) {
            self.poll(place);
            next = place + 1;
        }
    }

    /// The first task from `place` on that has a reason to be polled.
    fn woken_from(&self, place: usize) -> Option<usize> {
        let first = place / GROUP;
        let mut mask = u64::MAX << (place % GROUP);
        self.woken.iter().enumerate().skip(first).find_map(|(group, woken)| {
            let woken = woken.load(Relaxed) & core::mem::replace(&mut mask, u64::MAX);
            (woken != 0).then(|| group * GROUP + woken.trailing_zeros() as usize)
        })
    }

    fn poll(&mut self, place: usize) {
        self.woken[place / GROUP].fetch_and(!(1 << (place % GROUP)), Relaxed);
        let Some(Task { future, waker }) = &mut self.tasks[place] else { return };
        if future.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            self.tasks[place] = None;
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>) {
        let (mut bios, timers) = {
            let mut board = self.io.0.borrow_mut();
            if board.bios.is_empty() && board.timers.is_empty() {
                return;
            }
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

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;
    use core::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn tasks_that_were_woken_are_polled_in_order_of_their_places_and_no_others() {
        let (mut tasks, polled) = (Tasks::default(), Rc::new(RefCell::new(Vec::new())));
        let signals = [(); 200].map(|()| (Signal::default(), Rc::new(Cell::new(false))));
        for (number, (signal, is_over)) in signals.iter().cloned().enumerate() {
            let polled = polled.clone();
            tasks.spawn(async move {
                let look = || {
                    polled.borrow_mut().push(number);
                    is_over.get().then_some(())
                };
                signal.until(look).await;
            });
        }
        let seen = |tasks: &mut Tasks| {
            tasks.poll_woken();
            core::mem::take(&mut *polled.borrow_mut())
        };
        assert!(seen(&mut tasks).into_iter().eq(0..200));
        [150, 3, 64, 63].into_iter().for_each(|number| signals[number].0.notify());
        assert_eq!(seen(&mut tasks), [3, 63, 64, 150]);
        assert_eq!(seen(&mut tasks), []);
        signals[64].1.set(true);
        [64, 199].into_iter().for_each(|number| signals[number].0.notify());
        assert_eq!(seen(&mut tasks), [64, 199]);
        [64, 65].into_iter().for_each(|number| signals[number].0.notify());
        assert_eq!(seen(&mut tasks), [65], "64 is over");
    }

    #[test]
    fn a_task_that_wakes_others_has_those_behind_it_polled_in_this_round_and_those_before_it_in_the_next() {
        let (mut tasks, order) = (Tasks::default(), Rc::new(RefCell::new(Vec::new())));
        let (start, signal) = (Signal::default(), Signal::default());
        for number in 0..5 {
            let (order, start, signal) = (order.clone(), start.clone(), signal.clone());
            tasks.spawn(async move {
                let mut is_first = true;
                let mut again = || !core::mem::take(&mut is_first);
                if number == 2 {
                    start.until(|| again().then_some(())).await;
                    signal.notify();
                } else {
                    signal.until(|| again().then_some(())).await;
                }
                order.borrow_mut().push(number);
            });
        }
        tasks.poll_woken();
        start.notify();
        tasks.poll_woken();
        assert_eq!(*order.borrow(), [2, 3, 4, 0, 1]);
    }
}
