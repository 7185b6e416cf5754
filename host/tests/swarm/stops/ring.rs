//! A ring on which nothing happens but time.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time;

use shingle_core::time::{Duration, Instant};
use shingle_sys::{Completion, Request, RequestQueue, Token};

/// The ring.
pub struct Still {
    pub clock: Rc<Cell<Instant>>,
    /// Until when somebody lets time pass although nothing is due.
    pub until: Rc<Cell<Instant>>,
}

impl RequestQueue for Still {
    fn submit(&mut self, _: Token, request: Request) -> Result<(), Request> {
        // The shard asks for mail, which nobody sends.
        if matches!(request, Request::Readable { .. }) { Ok(()) } else { Err(request) }
    }

    fn cancel(&mut self, _: Token) {}

    fn wait(&mut self, timeout: Option<time::Duration>) -> io::Result<()> {
        // Time passes also for who is busy.
        let now = self.clock.get();
        let start = now + Duration::from_micros(1);
        let due = timeout.map(|timeout| start + Duration::from_nanos(timeout.as_nanos() as u64));
        let looked_at = Some(self.until.get()).filter(|until| *until > now).map(|until| until.max(start));
        let Some(next) = due.into_iter().chain(looked_at).min() else {
            return Err(io::Error::other("nothing will ever happen again"));
        };
        self.clock.set(next);
        Ok(())
    }

    fn pop(&mut self) -> Option<Completion> {
        None
    }

    fn in_flight(&self) -> usize {
        0
    }
}
