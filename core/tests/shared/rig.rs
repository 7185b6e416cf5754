//! A stack with one submitter and a time of its own: what tests share that look at a whole stack from above. Those of one layer
//! alone have `shingle_core::harness`.
#![allow(dead_code, reason = "each program uses its part")]

use shingle_core::block::{Bio, BlockDevice, Completion, DeviceId, PortId, Stack};
use shingle_core::time::{Duration, Instant};

pub struct Rig {
    pub stack: Stack,
    /// Where bios go unless a test says something else.
    pub top: DeviceId,
    pub port: PortId,
    pub now: Instant,
    submitted: u64,
}

impl Rig {
    pub fn new(mut stack: Stack, top: DeviceId) -> Self {
        let port = stack.open_port();
        Self { stack, top, port, now: Instant::ZERO, submitted: 0 }
    }

    /// One device alone.
    pub fn over(device: impl BlockDevice) -> Self {
        let mut stack = Stack::new();
        let top = stack.add(Box::new(device)).unwrap();
        Self::new(stack, top)
    }

    /// Hands a bio in and does nothing yet; the result is its number, from 1.
    pub fn queue(&mut self, to: DeviceId, bio: Bio) -> u64 {
        self.submitted += 1;
        self.stack.submit(self.port, self.submitted, to, Box::new(bio));
        self.submitted
    }

    /// Hands a bio in, and lets happen what does at once.
    pub fn send(&mut self, to: DeviceId, bio: Bio) -> u64 {
        let tag = self.queue(to, bio);
        self.turn();
        tag
    }

    /// The same, to the top.
    pub fn submit(&mut self, bio: Bio) -> u64 {
        self.send(self.top, bio)
    }

    /// Lets happen what does at once.
    pub fn turn(&mut self) -> Option<Instant> {
        self.stack.turn(self.now)
    }

    /// Lets time pass until nothing more happens by itself.
    pub fn settle(&mut self) {
        while let Some(next) = self.turn() {
            self.now = self.now.max(next);
        }
    }

    /// Lets so much time pass, from one timer to the next.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.turn().filter(|next| *next <= end) {
            self.now = self.now.max(next);
        }
        self.now = end;
        self.turn();
    }

    /// Lets time pass until a bio is done.
    pub fn next(&mut self) -> Completion {
        loop {
            let next = self.turn();
            if let Some(done) = self.stack.poll_completion(self.port) {
                return done;
            }
            let next = next.unwrap_or_else(|| panic!("nothing will ever happen again: {}", self.held().join(", ")));
            self.now = self.now.max(next);
        }
    }

    /// Sends a bio and lets it run to its end, whatever time that takes; others may end before it.
    pub fn finish(&mut self, to: DeviceId, bio: Bio) -> Completion {
        let tag = self.queue(to, bio);
        std::iter::repeat_with(|| self.next()).find(|done| done.tag == tag).unwrap()
    }

    /// What is done by now.
    pub fn done(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.stack.poll_completion(self.port)).collect()
    }

    fn held(&self) -> Vec<String> {
        let mut held = vec![];
        self.stack.held(&mut |device, bio| held.push(format!("{bio:?} in device {}", device.0)));
        held
    }
}
