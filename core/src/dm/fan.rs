//! One bio for several devices at once: each gets a bio of our own, and the original ends, with the first failure, when
//! all of them have.

use slab::Slab;

use crate::block::{Bio, Cx, DeviceId, Status, WordOwner};
use crate::prelude::*;

/// The original and how many of its own bios are out.
struct Spread {
    bio: Box<Bio>,
    pending: u32,
    status: Status,
}

/// The bios that a device has spread at the moment. A device with several fans gives each a number.
///
/// What its words say: the fan's number in 12 bits, the number of the part in 16, and the key of the original in 32.
#[derive(Default)]
pub(super) struct Fan {
    number: u16,
    spread: Slab<Spread>,
}

impl Fan {
    /// A fan with this number, of 12 bits.
    pub fn numbered(number: u16) -> Self {
        Self { number, spread: Slab::new() }
    }

    /// Sends each part, with its number, to its device. With nothing to send the original is done.
    pub fn spread(
        &mut self,
        bio: Box<Bio>,
        parts: impl Iterator<Item = (u16, DeviceId, Bio)>,
        cx: &mut Cx<'_>,
    ) -> Option<(Box<Bio>, Status)> {
        let key = self.spread.insert(Spread { bio, pending: 1, status: Status::Ok });
        for (number, to, part) in parts {
            self.spread[key].pending += 1;
            let own = cx.own_bio(part);
            cx.submit(to, own, self.tag() | u64::from(number) << 32 | key as u64);
        }
        self.count(key, Status::Ok)
    }

    fn tag(&self) -> u64 {
        WordOwner::Fan.mark(u64::from(self.number) << 48)
    }

    /// Whether a bio that comes back with `word` was sent here.
    pub fn is_own(&self, word: u64) -> bool {
        word >> 48 == self.tag() >> 48
    }

    /// The number of the part that comes back with `word`.
    pub fn part(word: u64) -> u16 {
        (word >> 32) as u16
    }

    /// What tells apart the originals that are spread at the moment.
    pub fn key(word: u64) -> usize {
        word as u32 as usize
    }

    /// The original of a bio that comes back with `word`.
    pub fn original(&self, word: u64) -> &Bio {
        &self.spread[Self::key(word)].bio
    }

    /// Takes back one of its bios; returns the original if it was the last.
    pub fn end_io(
        &mut self,
        mut own: Box<Bio>,
        status: Status,
        word: u64,
        cx: &mut Cx<'_>,
    ) -> Option<(Box<Bio>, Status)> {
        let spread = &mut self.spread[Self::key(word)];
        if !status.is_ok() && spread.status.is_ok() {
            spread.bio.inherit(&mut own);
        }
        cx.recycle(own);
        self.count(Self::key(word), status)
    }

    fn count(&mut self, key: usize, status: Status) -> Option<(Box<Bio>, Status)> {
        let spread = &mut self.spread[key];
        spread.pending -= 1;
        spread.status = spread.status.and(status);
        (spread.pending == 0).then(|| {
            let Spread { bio, status, .. } = self.spread.remove(key);
            (bio, status)
        })
    }

    /// Shows the originals.
    pub fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.spread.iter().for_each(|(_, spread)| visit(&spread.bio));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockDevice, Limits, Op, Payload, Stack};
    use crate::harness::MockDevice;
    use crate::sector::Sector;
    use crate::task::Tasks;
    use crate::time::Instant;

    /// It flushes two devices with a fan, and one of them in the background.
    struct Both {
        limits: Limits,
        tasks: Tasks,
        fan: Fan,
        devices: [DeviceId; 2],
    }

    impl BlockDevice for Both {
        fn limits(&self) -> &Limits {
            &self.limits
        }

        fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
            let (io, to) = (self.tasks.io(), self.devices[0]);
            self.tasks.spawn(async move { io.flush(to).ok().await.unwrap() });
            self.tasks.run(cx);
            let flush = || Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            let parts = (0..).zip(self.devices).map(|(part, device)| (part, device, flush()));
            assert!(self.fan.spread(bio, parts, cx).is_none());
        }

        fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
            assert_ne!(WordOwner::Task.owns(word), self.fan.is_own(word), "{word:#x} has one owner");
            if WordOwner::Task.owns(word) {
                return self.tasks.end_io(bio, status, word, cx);
            }
            if let Some((bio, status)) = self.fan.end_io(bio, status, word, cx) {
                cx.complete(bio, status);
            }
        }

        fn describe(&self, _: &mut dyn core::fmt::Write) -> core::fmt::Result {
            Ok(())
        }
    }

    #[test]
    fn a_device_can_have_tasks_and_a_fan_at_once() {
        let mut stack = Stack::new();
        let limits = || Limits { write_cache: true, ..Limits::new(8) };
        let devices = [(); 2].map(|()| stack.add(Box::new(MockDevice::with(limits(), Default::default()))).unwrap());
        let (tasks, fan) = (Tasks::default(), Fan::numbered(0xfff));
        let top = stack.add(Box::new(Both { limits: limits(), tasks, fan, devices })).unwrap();
        let port = stack.open_port();
        stack.submit(port, 0, top, Box::new(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)));
        stack.turn(Instant::ZERO);
        for device in [devices[0], devices[0], devices[1]] {
            assert!(stack.poll_completion(port).is_none());
            stack.with_device(device, |desk: &mut MockDevice, cx| {
                let number = desk.held()[0].number;
                desk.end(number, Status::Ok, 0, cx);
            });
            stack.turn(Instant::ZERO);
        }
        assert_eq!(stack.poll_completion(port).map(|done| done.status), Some(Status::Ok));
    }
}
