//! What users see of a device: how long its bios take, and how many end in each second.

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Op, Status};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::time::Instant;
use shingle_host::latency::Histogram;

/// What ended in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Bios that wrote.
    pub writes: u64,
    /// Bios that read.
    pub reads: u64,
    /// Flushes.
    pub flushes: u64,
}

/// A layer over the device.
pub struct Probe {
    below: [DeviceId; 1],
    limits: Limits,
    began: Instant,
    /// Since then, second by second.
    pub seconds: Vec<Second>,
    /// Times of writes, in ns.
    pub writes: Histogram,
    /// The same of flushes.
    pub flushes: Histogram,
    /// The same of reads.
    pub reads: Histogram,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Probe {
    /// Over the device `below`, which has `limits`.
    pub fn new(below: DeviceId, limits: &Limits) -> Self {
        let [writes, flushes, reads] = [(); 3].map(|()| Histogram::new());
        let (limits, began) = (limits.clone(), Instant::ZERO);
        Self { below: [below], limits, began, seconds: Vec::new(), writes, flushes, reads }
    }

    /// Forgets what was before `now`.
    pub fn begin(&mut self, now: Instant) {
        *self = Self { began: now, ..Self::new(self.below[0], &self.limits) };
    }

    fn second(&mut self, now: Instant) -> &mut Second {
        let place = (now.since(self.began).0 / SECOND_NS) as usize;
        if place >= self.seconds.len() {
            self.seconds.resize(place + 1, Second::default());
        }
        &mut self.seconds[place]
    }
}

impl BlockDevice for Probe {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let now = cx.now().0;
        cx.submit(self.below[0], bio, now);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let (now, bytes) = (cx.now(), u64::from(bio.sectors) * u64::from(SECTOR_BYTES));
        let took = now.0 - word;
        let second = self.second(now);
        match bio.op {
            Op::Write => {
                (second.written, second.writes) = (second.written + bytes, second.writes + 1);
                self.writes.record(took);
            }
            Op::Read => {
                (second.read, second.reads) = (second.read + bytes, second.reads + 1);
                self.reads.record(took);
            }
            Op::Flush => {
                second.flushes += 1;
                self.flushes.record(took);
            }
            _ => {}
        }
        cx.complete(bio, status);
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        write!(out, "times of device {}", self.below[0].0)
    }
}
