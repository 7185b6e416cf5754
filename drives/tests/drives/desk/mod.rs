//! A stack with one device, in virtual time.

use shingle_core::block::{Bio, BlockDevice, Completion, DeviceId, Payload, PortId, Stack, Status};
use shingle_core::time::Instant;
use shingle_drives::live::{LiveDrive, Model};

pub struct Desk {
    pub stack: Stack,
    pub port: PortId,
    pub device: DeviceId,
    pub now: Instant,
}

impl Desk {
    pub fn new(device: Box<dyn BlockDevice>) -> Self {
        let mut stack = Stack::new();
        let (port, device) = (stack.open_port(), stack.add(device).unwrap());
        Self { stack, port, device, now: Instant::ZERO }
    }

    /// With a live drive that is `model`.
    pub fn live(model: Box<dyn Model>, seed: u64) -> Self {
        Self::new(Box::new(LiveDrive::new(model, None, seed).unwrap()))
    }

    pub fn drive(&self) -> &LiveDrive {
        self.stack.device(self.device).unwrap()
    }

    pub fn submit(&mut self, tag: u64, bio: Bio) {
        self.stack.submit(self.port, tag, self.device, Box::new(bio));
    }

    /// Does one thing; how it ended, and its memory.
    pub fn wait(&mut self, bio: Bio) -> (Status, Vec<u8>) {
        self.submit(u64::MAX, bio);
        loop {
            let next = self.stack.turn(self.now);
            if let Some(Completion { bio, status, .. }) = self.stack.poll_completion(self.port) {
                let data = if let Payload::Data(data) = &bio.payload { data.to_vec() } else { Vec::new() };
                return (status, data);
            }
            self.now = next.expect("it ends").max(self.now);
        }
    }
}
