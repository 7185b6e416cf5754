//! What tasks do I/O with.

use alloc::rc::Rc;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use slab::Slab;

use crate::block::{Bio, Data, DeviceId, Flags, Op, Payload, Reason};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};
use crate::time::Instant;
use crate::zone::Zone;

enum Slot {
    Waiting(Option<Waker>),
    /// Nobody waits any more.
    Forgotten,
    Done(Done),
}

/// How a request ended: with why if it failed, and its memory.
type Done = (Result<(), Reason>, Payload);

/// What is under way, and what is to be sent.
#[derive(Default)]
pub(super) struct Board {
    pub now: Instant,
    /// Bios to be sent, and under which numbers.
    pub bios: Vec<(DeviceId, Bio, u64)>,
    /// Timers to be set, and under which numbers.
    pub timers: Vec<(Instant, u64)>,
    slots: Slab<Slot>,
}

/// The board, shared by the tasks and who runs them.
type Shared = Rc<RefCell<Board>>;

impl Board {
    pub fn answer(&mut self, key: u64, done: Done) {
        let Some(slot) = self.slots.get_mut(key as usize) else { return };
        match core::mem::replace(slot, Slot::Done(done)) {
            Slot::Waiting(Some(waker)) => waker.wake(),
            Slot::Forgotten => drop(self.slots.remove(key as usize)),
            Slot::Waiting(None) | Slot::Done(..) => {}
        }
    }
}

/// The I/O of tasks: bios of the device that they belong to. Clones are the same.
#[derive(Clone, Default)]
pub struct Io(pub(super) Shared);

/// The outcome of a request that is under way.
pub struct Answer {
    board: Shared,
    key: usize,
}

impl Future for Answer {
    type Output = (Result<(), Reason>, Payload);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut board = self.board.borrow_mut();
        match &mut board.slots[self.key] {
            Slot::Done((result, payload)) => {
                Poll::Ready((core::mem::replace(result, Ok(())), core::mem::take(payload)))
            }
            slot => {
                *slot = Slot::Waiting(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut board = self.board.borrow_mut();
        match &mut board.slots[self.key] {
            Slot::Done(..) => drop(board.slots.remove(self.key)),
            slot => *slot = Slot::Forgotten,
        }
    }
}

impl Answer {
    /// Waits for it, where only success matters.
    ///
    /// # Errors
    /// Why the request failed.
    pub async fn ok(self) -> Result<(), Reason> {
        self.await.0
    }
}

/// Waits for a time.
pub struct Sleep(Answer);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(|_| ())
    }
}

impl Io {
    /// The time of this turn.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.borrow().now
    }

    /// Sends `bio` to device `to`.
    #[must_use]
    pub fn send(&self, to: DeviceId, bio: Bio) -> Answer {
        self.start(|board, key| board.bios.push((to, bio, key)))
    }

    /// Waits until `at`.
    #[must_use]
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep(self.start(|board, key| board.timers.push((at, key))))
    }

    fn start(&self, send: impl FnOnce(&mut Board, u64)) -> Answer {
        let mut board = self.0.borrow_mut();
        let key = board.slots.insert(Slot::Waiting(None));
        send(&mut board, key as u64);
        Answer { board: self.0.clone(), key }
    }

    /// Reads into `data` from `sector` on.
    #[must_use]
    pub fn read(&self, to: DeviceId, sector: Sector, data: Data) -> Answer {
        self.transfer(to, Op::Read, sector, (data, Flags::NONE))
    }

    /// Writes `data` from `sector` on.
    #[must_use]
    pub fn write(&self, to: DeviceId, sector: Sector, data: Data, flags: Flags) -> Answer {
        self.transfer(to, Op::Write, sector, (data, flags))
    }

    /// Writes memory in pieces from `sector` on.
    #[must_use]
    pub fn write_payload(&self, to: DeviceId, sector: Sector, payload: Payload, flags: Flags) -> Answer {
        let sectors = (payload.bytes() / SECTOR_BYTES as usize) as u32;
        self.send(to, Bio::new(Op::Write, sector, sectors, payload).with_flags(flags))
    }

    fn transfer(&self, to: DeviceId, op: Op, sector: Sector, (data, flags): (Data, Flags)) -> Answer {
        let sectors = (data.len() / SECTOR_BYTES as usize) as u32;
        self.send(to, Bio::new(op, sector, sectors, Payload::Data(data)).with_flags(flags))
    }

    /// Makes `sectors` from `sector` on zeroes, without data.
    #[must_use]
    pub fn write_zeroes(&self, to: DeviceId, sector: Sector, sectors: u32) -> Answer {
        self.send(to, Bio::new(Op::WriteZeroes, sector, sectors, Payload::None))
    }

    /// Makes what was written durable.
    #[must_use]
    pub fn flush(&self, to: DeviceId) -> Answer {
        self.send(to, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None))
    }

    /// Empties the zone at `sector`.
    #[must_use]
    pub fn reset(&self, to: DeviceId, sector: Sector) -> Answer {
        self.send(to, Bio::new(Op::ZoneReset, sector, 0, Payload::None))
    }

    /// Makes the zone at `sector` full.
    #[must_use]
    pub fn finish(&self, to: DeviceId, sector: Sector) -> Answer {
        self.send(to, Bio::new(Op::ZoneFinish, sector, 0, Payload::None))
    }

    /// Sends a report of at most `most` zones from the one at `sector` on, which are the payload of its answer.
    #[must_use]
    pub fn send_report(&self, to: DeviceId, sector: Sector, most: usize) -> Answer {
        self.send(to, Bio::new(Op::ReportZones, sector, 0, Payload::Zones(Vec::with_capacity(most))))
    }

    /// Reports at most `most` zones from the one at `sector` on.
    ///
    /// # Errors
    /// Why the report failed.
    pub async fn report(&self, to: DeviceId, sector: Sector, most: usize) -> Result<Vec<Zone>, Reason> {
        match self.send_report(to, sector, most).await {
            (Ok(()), Payload::Zones(zones)) => Ok(zones),
            (Ok(()), _) => Err(Reason::NoRoom),
            (Err(reason), _) => Err(reason),
        }
    }
}
