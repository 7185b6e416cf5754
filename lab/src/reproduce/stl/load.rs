//! Loads of blocks: so many at a time, wherever the pattern says.

use std::ops::Range;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, Status};
use shingle_core::dm::stl::BLOCK_SECTORS;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_sim::{Actor, Io};

/// Where I/O goes, in units of its length.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Anywhere in a range, as often in one place as in any other.
    Uniform(Range<u64>),
    /// So many of a hundred to the first range, the others to the second.
    Skewed(u64, Range<u64>, Range<u64>),
    /// In order, and from the start again.
    InOrder(Range<u64>),
    /// Each place of a range once, in an order without an order.
    Shuffled(Range<u64>),
    /// In order through zones from a sector on: the length of a zone, and what of it can be written.
    Zones(Sector, u64, u64),
}

/// What is done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A write, and a flush when it is done.
    WriteAndFlush,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// What.
    pub deed: Deed,
    /// Where.
    pub pattern: Pattern,
    /// The length of an I/O in sectors.
    pub sectors: u32,
    /// How many at a time.
    pub depth: u32,
    /// How many in all.
    pub count: u64,
    /// None is sent any more from then on.
    pub until: Instant,
}

impl Task {
    /// So much of it, one of a block at a time, with no end in time.
    pub fn of_blocks(deed: Deed, pattern: Pattern, count: u64) -> Self {
        Self { deed, pattern, sectors: BLOCK_SECTORS, depth: 1, count, until: Instant(u64::MAX) }
    }

    /// The same with so many at a time.
    pub fn at_depth(self, depth: u32) -> Self {
        Self { depth, ..self }
    }
}

/// Waits.
pub struct Sleeper {
    until: Instant,
    is_done: bool,
}

impl Sleeper {
    /// Until then.
    pub fn new(until: Instant) -> Self {
        Self { until, is_done: false }
    }
}

impl Actor for Sleeper {
    fn act(&mut self, io: &mut Io<'_>) {
        self.is_done = io.now() >= self.until;
        if !self.is_done {
            io.wake_at(self.until);
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// A program that does it.
pub struct Load {
    to: DeviceId,
    task: Task,
    /// Zeroes to write, and the memory that reads go to.
    memory: Data,
    rng: Rng,
    sent: u64,
    /// Writes that are done.
    pub done: u64,
    in_flight: u32,
    /// The outcome of the first I/O that failed.
    pub failure: Option<Status>,
    is_over: bool,
}

const WRITTEN: u64 = 0;
const FLUSHED: u64 = 1;

impl Load {
    /// Against the device `to`.
    pub fn new(to: DeviceId, task: Task, seed: u64) -> Self {
        let memory = Data::zeroed(task.sectors as usize * 512);
        let (rng, failure) = (Rng::new(seed), None);
        Self { to, task, memory, rng, sent: 0, done: 0, in_flight: 0, failure, is_over: false }
    }

    fn place(&mut self) -> Sector {
        let (rng, sent, sectors) = (&mut self.rng, self.sent, u64::from(self.task.sectors));
        let mut within = |range: &Range<u64>| range.start + rng.below(range.end - range.start);
        let unit = match &self.task.pattern {
            Pattern::Uniform(range) => within(range),
            Pattern::Skewed(percent, hot, other) => {
                let range = if within(&(0..100)) < *percent { hot } else { other };
                within(range)
            }
            Pattern::InOrder(range) => range.start + sent % (range.end - range.start),
            Pattern::Shuffled(range) => range.start + shuffled(sent, range.end - range.start),
            Pattern::Zones(first, zone, room) => {
                let of_zone = (room / sectors).max(1);
                return *first + sent / of_zone * zone + sent % of_zone * sectors;
            }
        };
        Sector(unit * sectors)
    }

    fn send(&mut self, io: &mut Io<'_>) {
        let place = self.place();
        let op = if self.task.deed == Deed::Read { Op::Read } else { Op::Write };
        let payload = Payload::Data(self.memory.clone());
        io.submit(WRITTEN, self.to, Box::new(Bio::new(op, place, self.task.sectors, payload)));
        (self.sent, self.in_flight) = (self.sent + 1, self.in_flight + 1);
    }
}

/// Where `number` comes in an order of `0..len` in which neighbours are far from each other: steps of a length that has no divisor
/// in common with it.
fn shuffled(number: u64, len: u64) -> u64 {
    let golden = (len as f64 * 0.618_033_988_749_895) as u64;
    let step = (golden..).find(|step| divisor(*step, len) == 1).unwrap_or(1);
    ((u128::from(number) * u128::from(step)) % u128::from(len.max(1))) as u64
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

impl Actor for Load {
    fn act(&mut self, io: &mut Io<'_>) {
        while let Some(back) = io.completion() {
            if !back.status.is_ok() {
                self.failure.get_or_insert(back.status);
            }
            if back.tag == WRITTEN && self.task.deed == Deed::WriteAndFlush {
                io.submit(FLUSHED, self.to, Box::new(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)));
                continue;
            }
            (self.done, self.in_flight) = (self.done + 1, self.in_flight - 1);
        }
        self.is_over |= self.failure.is_some() || io.now() >= self.task.until || self.sent >= self.task.count;
        while !self.is_over && self.in_flight < self.task.depth {
            self.send(io);
            self.is_over = self.sent >= self.task.count;
        }
    }

    fn is_done(&self) -> bool {
        self.is_over && self.in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffled_order_has_every_place_once_and_neighbours_far_apart() {
        for len in [1, 2, 10, 97, 1000] {
            let all: Vec<u64> = (0..len).map(|number| shuffled(number, len)).collect();
            let mut sorted = all.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..len).collect::<Vec<_>>());
            let far = all.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > len / 4).count() as u64;
            assert!(far + 1 >= len, "{len}");
        }
    }

    #[test]
    fn zones_are_written_up_to_what_they_take() {
        let pattern = Pattern::Zones(Sector(1000), 100, 50);
        let task = Task { deed: Deed::Write, pattern, sectors: 16, depth: 1, count: 7, until: Instant::ZERO };
        let mut load = Load::new(DeviceId(0), task, 1);
        let places: Vec<u64> = (0..7)
            .map(|sent| {
                load.sent = sent;
                load.place().0
            })
            .collect();
        assert_eq!(places, [1000, 1016, 1032, 1100, 1116, 1132, 1200]);
    }
}
