//! A stack with one device under test, in virtual time.

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Figure, Op, Payload, PortId, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_drives::{Link, LinkConfig};

pub const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A link to a null device whose completions take `device`; bios are tagged from 0 on.
pub struct Bench {
    pub stack: Stack,
    pub port: PortId,
    pub link: DeviceId,
    pub now: Instant,
    pub sent: u64,
    /// Tag, status and time of what is back.
    pub back: Vec<(u64, Status, Instant)>,
}

impl Bench {
    pub fn new(device: Duration, config: LinkConfig) -> Self {
        let null = NullConfig { completion: device, ..NullConfig::new(1 << 20) };
        Self::over(|stack| stack.add(Box::new(NullDevice::new(&null).unwrap())).unwrap(), Some(config))
    }

    pub fn over(disk: impl FnOnce(&mut Stack) -> DeviceId, config: Option<LinkConfig>) -> Self {
        let mut stack = Stack::new();
        let port = stack.open_port();
        let mut link = disk(&mut stack);
        if let Some(config) = config {
            let layer = Link::new(link, stack.limits(link), config).unwrap();
            link = stack.add(Box::new(layer)).unwrap();
        }
        Self { stack, port, link, now: Instant::ZERO, sent: 0, back: Vec::new() }
    }

    pub fn send(&mut self, op: Op, sector: u64, sectors: u32) {
        let bio = Bio::new(op, Sector(sector), sectors, Payload::Data(Data::zeroed(sectors as usize * 512)));
        self.stack.submit(self.port, self.sent, self.link, Box::new(bio));
        self.sent += 1;
    }

    /// Runs until `at`, and is there then.
    pub fn run_to(&mut self, at: Instant) {
        self.run(at);
        self.now = at;
        self.run(at);
    }

    pub fn run(&mut self, until: Instant) {
        loop {
            let next = self.stack.turn(self.now);
            while let Some(done) = self.stack.poll_completion(self.port) {
                self.back.push((done.tag, done.status, self.now));
            }
            match next {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => return,
            }
        }
    }

    pub fn run_out(&mut self) {
        self.run(Instant(u64::MAX));
    }

    pub fn tags(&self) -> Vec<u64> {
        self.back.iter().map(|(tag, ..)| *tag).collect()
    }

    /// When each bio was back, in us, in the order of their tags.
    pub fn times_us(&self) -> Vec<u64> {
        let mut back = self.back.clone();
        back.sort_unstable_by_key(|(tag, ..)| *tag);
        back.into_iter().map(|(.., at)| at.0 / 1000).collect()
    }

    pub fn figure(&self, wanted: &str) -> u64 {
        let mut found = None;
        self.link().figures(&mut |name, figure| match figure {
            Figure::Count(count) if name == wanted => found = Some(count),
            _ => {}
        });
        found.expect("a figure of the link")
    }

    pub fn link(&self) -> &Link {
        self.stack.device(self.link).unwrap()
    }
}
