//! Random bios and messages, and a model that keeps every bio in a list and computes each line of a printout from all of them.

use std::fmt::Write;
use std::ops::Range;

use shingle_core::block::{Observer, Op, Span};
use shingle_core::mapper::stats::DmStats;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

/// A bio, when it came in and when it was done, and after which event that was.
struct Io {
    sectors: Range<u64>,
    write: bool,
    entered: u64,
    left: Option<(u64, usize)>,
}

/// What a region was asked to count, and when each of its areas was last cleared, and after which event.
struct Asked {
    sectors: Range<u64>,
    step: u64,
    tick_ns: u64,
    boundaries: Vec<u64>,
    created: u64,
    cleared: Vec<(u64, usize)>,
}

impl Asked {
    fn area(&self, index: usize) -> Range<u64> {
        let start = self.sectors.start + index as u64 * self.step;
        start..self.sectors.end.min(start + self.step)
    }

    /// The line of area `index`, from the definitions of its numbers.
    fn line(&self, index: usize, ios: &[Io], now: u64) -> String {
        let area = self.area(index);
        let tick = |at: u64| at / self.tick_ns;
        let (cleared_at, cleared_after) = (tick(self.cleared[index].0), self.cleared[index].1);
        let overlap = |io: &Io| io.sectors.end.min(area.end).saturating_sub(io.sectors.start.max(area.start));
        let mine: Vec<&Io> = ios.iter().filter(|io| overlap(io) > 0 && io.entered > self.created).collect();
        let done = |io: &&&Io| io.left.is_some_and(|(_, event)| event > cleared_after);
        let took = |io: &Io| tick(io.left.unwrap().0) - tick(io.entered);
        // When it was in flight, in ticks since the area was cleared.
        let flight = |io: &Io| tick(io.entered).max(cleared_at)..io.left.map_or(tick(now), |(at, _)| tick(at));
        let busy = |wanted: &dyn Fn(&Io) -> bool| {
            let mut flights: Vec<_> = mine.iter().filter(|io| wanted(io)).map(|io| flight(io)).collect();
            flights.sort_by_key(|flight| flight.start);
            let (mut sum, mut until) = (0, 0);
            for flight in flights {
                sum += flight.end.saturating_sub(flight.start.max(until));
                until = until.max(flight.end);
            }
            sum
        };
        let mut line = format!("{}+{}", area.start, self.step);
        for write in [false, true] {
            let done: Vec<&&Io> = mine.iter().filter(|io| io.write == write).filter(done).collect();
            let sectors: u64 = done.iter().map(|io| overlap(io)).sum();
            let ticks: u64 = done.iter().map(|io| took(io)).sum();
            write!(line, " {} 0 {sectors} {ticks}", done.len()).unwrap();
        }
        let in_flight = mine.iter().filter(|io| io.left.is_none()).count();
        let weighted: u64 =
            mine.iter().map(|io| flight(io)).map(|flight| flight.end.saturating_sub(flight.start)).sum();
        let (all, reads, writes) = (busy(&|_| true), busy(&|io| !io.write), busy(&|io| io.write));
        write!(line, " {in_flight} {all} {weighted} {reads} {writes}").unwrap();
        if !self.boundaries.is_empty() {
            let starts = [0].iter().chain(&self.boundaries);
            let ends = self.boundaries.iter().chain(&[u64::MAX]);
            let in_bucket = |(start, end): (&u64, &u64)| {
                mine.iter().filter(done).filter(|io| (*start..*end).contains(&took(io))).count().to_string()
            };
            write!(line, " {}", starts.zip(ends).map(in_bucket).collect::<Vec<_>>().join(":")).unwrap();
        }
        line + "\n"
    }
}

/// The statistics and the model, fed with the same.
struct Pair {
    stats: DmStats,
    ios: Vec<Io>,
    regions: Vec<Option<Asked>>,
    rng: Rng,
    now: u64,
    events: usize,
    compared: usize,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let regions = (0..6).map(|_| None).collect();
        Pair { stats: DmStats::new(), ios: vec![], regions, rng: Rng::new(seed), now: 1 << 30, events: 0, compared: 0 }
    }

    fn say(&mut self, message: &str) -> String {
        let argv: Vec<&str> = message.split(' ').collect();
        self.stats.message(&argv, 5000, Instant(self.now)).unwrap_or_else(|error| panic!("{message}: {error}"))
    }

    fn step(&mut self) {
        self.events += 1;
        if self.rng.chance(2, 3) {
            self.now += self.rng.below(3_000_000);
        }
        match self.rng.below(100) {
            0..45 => self.enter(),
            45..88 => self.leave(),
            88..92 => self.create_or_delete(),
            92..94 => self.clear(),
            _ => self.print(),
        }
    }

    fn enter(&mut self) {
        let op = [Op::Read, Op::Write, Op::Discard][self.rng.below(3) as usize];
        let (sector, sectors) = (self.rng.below(4000), 1 + self.rng.below(600) as u32);
        self.stats.entered(&Span { op, sector: Sector(sector), sectors }, Instant(self.now));
        let (sectors, write) = (sector..sector + u64::from(sectors), op != Op::Read);
        self.ios.push(Io { sectors, write, entered: self.now, left: None });
    }

    fn leave(&mut self) {
        let mut in_flight: Vec<_> = self.ios.iter_mut().filter(|io| io.left.is_none()).collect();
        if in_flight.is_empty() {
            return;
        }
        let io = in_flight.remove(self.rng.below(in_flight.len() as u64) as usize);
        let span = Span {
            op: if io.write { Op::Write } else { Op::Read },
            sector: Sector(io.sectors.start),
            sectors: (io.sectors.end - io.sectors.start) as u32,
        };
        self.stats.left(&span, Instant(io.entered), Instant(self.now));
        io.left = Some((self.now, self.events));
    }

    fn create_or_delete(&mut self) {
        let place = self.rng.below(self.regions.len() as u64) as usize;
        if self.regions[place].take().is_some() {
            self.say(&format!("@stats_delete {place}"));
            return;
        }
        let place = self.regions.iter().position(Option::is_none).unwrap();
        let (start, length) = (self.rng.below(3000), 1 + self.rng.below(2000));
        let step = [64, 100, 256, 300, 5000][self.rng.below(5) as usize];
        let boundaries = [vec![], vec![3], vec![1, 2, 5, 9]][self.rng.below(3) as usize].clone();
        let (tick_ns, precise) = [(1_000_000, ""), (1, " precise_timestamps")][self.rng.below(2) as usize];
        let boundaries: Vec<u64> = boundaries.into_iter().map(|ms| ms * 1_000_000 / tick_ns).collect();
        let times: Vec<String> = boundaries.iter().map(u64::to_string).collect();
        let histogram = if times.is_empty() { String::new() } else { format!(" histogram:{}", times.join(",")) };
        let options = usize::from(!precise.is_empty()) + usize::from(!times.is_empty());
        let id = self.say(&format!("@stats_create {start}+{length} {step} {options}{precise}{histogram}"));
        assert_eq!(id, place.to_string());
        let cleared = vec![(0, 0); length.div_ceil(step) as usize];
        let sectors = start..start + length;
        self.regions[place] = Some(Asked { sectors, step, tick_ns, boundaries, created: self.now, cleared });
    }

    fn a_region(&mut self) -> Option<usize> {
        let there: Vec<usize> = (0..self.regions.len()).filter(|place| self.regions[*place].is_some()).collect();
        (!there.is_empty()).then(|| there[self.rng.below(there.len() as u64) as usize])
    }

    fn forget(&mut self, place: usize, lines: Range<usize>) {
        let cleared = &mut self.regions[place].as_mut().unwrap().cleared[lines];
        cleared.fill((self.now, self.events));
    }

    fn clear(&mut self) {
        let Some(place) = self.a_region() else { return };
        self.say(&format!("@stats_clear {place}"));
        self.forget(place, 0..self.regions[place].as_ref().unwrap().cleared.len());
    }

    fn print(&mut self) {
        let Some(place) = self.a_region() else { return };
        let areas = self.regions[place].as_ref().unwrap().cleared.len();
        let first = self.rng.below(areas as u64) as usize;
        let lines = [0..areas, first..areas.min(first + 3)][self.rng.below(2) as usize].clone();
        let clear = self.rng.chance(1, 3);
        let verb = if clear { "@stats_print_clear" } else { "@stats_print" };
        let printed = self.say(&format!("{verb} {place} {} {}", lines.start, lines.len()));
        let region = self.regions[place].as_ref().unwrap();
        let expected: String = lines.clone().map(|index| region.line(index, &self.ios, self.now)).collect();
        assert_eq!(printed, expected, "region {place} at {} ns", self.now);
        self.compared += lines.len();
        if clear {
            self.forget(place, lines);
        }
    }
}

#[test]
fn counters_are_what_a_list_of_all_bios_says() {
    let mut compared = 0;
    for seed in 0..30 {
        let mut pair = Pair::new(seed);
        (0..1500).for_each(|_| pair.step());
        compared += pair.compared;
    }
    assert!(compared > 10_000, "{compared} lines were compared");
}
