//! One ring for all that a thread serves, or a simulation in its place.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue;
use shingle_core::block::{Memory, Region};

use crate::request::{Entries, Request};
use crate::ring::{Completion, Ring, Token};
use crate::ring_setup::RingError;

/// What carries out requests: a ring of the machine's kernel, or a simulation of one. Its methods are those of [`Ring`].
pub trait RequestQueue {
    /// See [`Ring::submit`].
    fn submit(&mut self, token: Token, request: Request) -> Result<(), Request>;

    /// See [`Ring::cancel`].
    fn cancel(&mut self, token: Token);

    /// See [`Ring::wait`].
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// See [`Ring::pop`].
    fn pop(&mut self) -> Option<Completion>;

    /// See [`Ring::in_flight`].
    fn in_flight(&self) -> usize;

    /// See [`Ring::register`].
    fn register(&mut self, _region: Region, _memory: Arc<dyn Memory>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// See [`Ring::reserve_regions`].
    fn reserve_regions(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl<E: Entries> RequestQueue for Ring<E> {
    fn submit(&mut self, token: Token, request: Request) -> Result<(), Request> {
        Ring::submit(self, token, request)
    }

    fn cancel(&mut self, token: Token) {
        Ring::cancel(self, token);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        Ring::wait(self, timeout)
    }

    fn pop(&mut self) -> Option<Completion> {
        Ring::pop(self)
    }

    fn in_flight(&self) -> usize {
        Ring::in_flight(self)
    }

    fn register(&mut self, region: Region, memory: Arc<dyn Memory>) -> io::Result<()> {
        Ring::register(self, region, memory)
    }

    fn reserve_regions(&mut self) -> io::Result<()> {
        Ring::reserve_regions(self)
    }
}

/// A ring that the devices and sources of one thread share.
#[derive(Clone)]
pub struct RingHandle(Rc<RefCell<dyn RequestQueue>>);

impl RingHandle {
    /// A new ring.
    pub fn new() -> Result<Self, RingError> {
        Ok(Self::over(Ring::<squeue::Entry>::new()?))
    }

    /// A new ring with entries of 128 bytes.
    pub fn wide() -> Result<Self, RingError> {
        Ok(Self::over(Ring::<squeue::Entry128>::new()?))
    }

    /// A handle of `queue`.
    #[must_use]
    pub fn over(queue: impl RequestQueue + 'static) -> Self {
        Self(Rc::new(RefCell::new(queue)))
    }

    /// See [`Ring::submit`].
    pub fn submit(&self, token: Token, request: Request) -> Result<(), Request> {
        self.0.borrow_mut().submit(token, request)
    }

    /// See [`Ring::cancel`].
    pub fn cancel(&self, token: Token) {
        self.0.borrow_mut().cancel(token);
    }

    /// See [`Ring::wait`].
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.borrow_mut().wait(timeout)
    }

    /// See [`Ring::pop`].
    #[must_use]
    pub fn pop(&self) -> Option<Completion> {
        self.0.borrow_mut().pop()
    }

    /// See [`Ring::in_flight`].
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.borrow().in_flight()
    }

    /// See [`Ring::register`].
    pub fn register(&self, region: Region, memory: Arc<dyn Memory>) -> io::Result<()> {
        self.0.borrow_mut().register(region, memory)
    }

    /// See [`Ring::reserve_regions`].
    pub fn reserve_regions(&self) -> io::Result<()> {
        self.0.borrow_mut().reserve_regions()
    }
}
