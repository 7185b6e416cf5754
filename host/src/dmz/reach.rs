//! Devices of a shard, for those who wait until a bio is done.

use std::borrow::BorrowMut;
use std::cell::Cell;
use std::rc::Rc;

use shingle_core::block::{Bio, DeviceId, Limits, Status};

use crate::mailbox::Reply;
use crate::shard::{Mailbox, Shard};

/// A bio that is done.
type Done = (Status, Box<Bio>);

/// The way to the devices of a shard.
pub trait Reach {
    /// Has `device` do something, and waits for it.
    ///
    /// # Errors
    /// If the shard does not work.
    fn run(&mut self, device: DeviceId, bio: Bio) -> Result<Done, String>;

    /// Asks the shard.
    ///
    /// # Errors
    /// If the shard does not work.
    fn ask<T: Send + 'static>(&mut self, question: impl FnOnce(&mut Shard) -> T + Send + 'static) -> Result<T, String>;

    /// What a device accepts.
    ///
    /// # Errors
    /// If the shard does not work.
    fn limits(&mut self, device: DeviceId) -> Result<Limits, String> {
        self.ask(move |shard| shard.stack.limits(device).clone())
    }

    /// The device called `name`, if there is one.
    ///
    /// # Errors
    /// If the shard does not work.
    fn find(&mut self, name: &str) -> Result<Option<DeviceId>, String> {
        let name = name.to_owned();
        self.ask(move |shard| shard.devices.find(&name).map(|named| named.device))
    }
}

/// A shard of this thread: its rounds are taken meanwhile.
impl<S: BorrowMut<Shard>> Reach for S {
    fn run(&mut self, device: DeviceId, bio: Bio) -> Result<Done, String> {
        let (shard, done) = (self.borrow_mut(), Rc::new(Cell::new(None)));
        let slot = done.clone();
        shard.submit(device, bio, move |_, bio, status| slot.set(Some((status, bio))));
        loop {
            shard.round().map_err(|error| error.to_string())?;
            if let Some(done) = done.take() {
                return Ok(done);
            }
        }
    }

    fn ask<T>(&mut self, question: impl FnOnce(&mut Shard) -> T) -> Result<T, String> {
        Ok(question(self.borrow_mut()))
    }
}

/// A shard of another thread, which goes on with what it has to do.
impl Reach for &Mailbox {
    fn run(&mut self, device: DeviceId, bio: Bio) -> Result<Done, String> {
        let question = move |shard: &mut Shard, reply: Reply<Done>| {
            shard.submit(device, bio, move |_, bio, status| reply.send((status, bio)));
        };
        self.ask_later(question).map_err(|error| error.to_string())
    }

    fn ask<T: Send + 'static>(&mut self, question: impl FnOnce(&mut Shard) -> T + Send + 'static) -> Result<T, String> {
        Mailbox::ask(self, question).map_err(|error| error.to_string())
    }
}
