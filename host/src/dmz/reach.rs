//! Devices of a shard, for those who wait until a bio is done.

use std::cell::RefCell;
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

    /// What a device accepts.
    ///
    /// # Errors
    /// If the shard does not work.
    fn limits(&mut self, device: DeviceId) -> Result<Limits, String>;

    /// The device called `name`, if there is one.
    ///
    /// # Errors
    /// If the shard does not work.
    fn find(&mut self, name: &str) -> Result<Option<DeviceId>, String>;
}

/// A shard of this thread: its rounds are taken meanwhile.
impl Reach for Shard {
    fn run(&mut self, device: DeviceId, bio: Bio) -> Result<Done, String> {
        let done = Rc::new(RefCell::new(None));
        let slot = done.clone();
        self.submit(device, bio, move |_, bio, status| *slot.borrow_mut() = Some((status, bio)));
        loop {
            self.round().map_err(|error| error.to_string())?;
            if let Some(done) = done.take() {
                return Ok(done);
            }
        }
    }

    fn limits(&mut self, device: DeviceId) -> Result<Limits, String> {
        Ok(self.stack.limits(device).clone())
    }

    fn find(&mut self, name: &str) -> Result<Option<DeviceId>, String> {
        Ok(self.devices.find(name).map(|named| named.device))
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

    fn limits(&mut self, device: DeviceId) -> Result<Limits, String> {
        self.ask(move |shard| shard.stack.limits(device).clone()).map_err(|error| error.to_string())
    }

    fn find(&mut self, name: &str) -> Result<Option<DeviceId>, String> {
        let name = name.to_owned();
        let find = move |shard: &mut Shard| shard.devices.find(&name).map(|named| named.device);
        self.ask(find).map_err(|error| error.to_string())
    }
}

impl<R: Reach> Reach for &mut R {
    fn run(&mut self, device: DeviceId, bio: Bio) -> Result<Done, String> {
        (**self).run(device, bio)
    }

    fn limits(&mut self, device: DeviceId) -> Result<Limits, String> {
        (**self).limits(device)
    }

    fn find(&mut self, name: &str) -> Result<Option<DeviceId>, String> {
        (**self).find(name)
    }
}
