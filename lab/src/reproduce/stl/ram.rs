//! A device in memory, on one core of this machine: what the target costs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS, Options, Part, Sizing, Stl, create};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use super::measure::Extent;
use super::outcome::Run;
use super::plan::{Experiment, Size, System};
use super::volume::{RESERVE, text};

/// Sectors of a zone, and zones.
const ZONE: u64 = 1 << 15;
const ZONES: u64 = 64;
const CONVENTIONAL: u64 = 4;
/// Blocks that are read and written: they fit into the caches of a processor, and their map into the target's memory.
const BLOCKS: u64 = 1 << 11;
const DEPTH: u32 = 32;
/// I/Os between two looks at the clock.
const ROUND: u64 = 1024;

/// Runs it in real time.
pub fn run(experiment: Experiment, extent: Extent, stop: &AtomicBool) -> Result<Option<Run>, String> {
    let time = match extent.size {
        Size::Full => Duration::from_secs(3),
        Size::Quick => Duration::from_millis(300),
        Size::Tiny => Duration::from_millis(10),
    };
    let is_stl = experiment.system == System::Stl;
    let mut bench = if is_stl { Bench::stl()? } else { Bench::bare()? };
    let mut figures = BTreeMap::new();
    // Each block is there once before it counts.
    bench.each(Op::Write)?;
    if is_stl {
        if extent.size != Size::Tiny {
            bench.fill()?;
        }
        figures.insert("writes_per_s".to_owned(), bench.rate(Op::Write, time)?);
        bench.each(Op::Write)?;
    }
    figures.insert("reads_per_s".to_owned(), bench.rate(Op::Read, time)?);
    if !is_stl {
        figures.insert("blocks_in_batches_per_s".to_owned(), bench.rate_in_batches(time)?);
    }
    if is_stl {
        bench.message("checkpoint")?;
        bench.attach(Options { cached_extents: 0, ..Options::default() })?;
        figures.insert("cold_reads_per_s".to_owned(), bench.rate(Op::Read, time)?);
    }
    if stop.load(Relaxed) {
        return Ok(None);
    }
    Ok(Some(Run::with(experiment, figures)))
}

/// A stack that one thread turns.
struct Bench {
    stack: Stack,
    port: PortId,
    disk: DeviceId,
    top: DeviceId,
    sectors: u64,
    memory: Payload,
    /// Those that came back, to be sent again.
    #[expect(clippy::vec_box, reason = "a bio is sent in its box")]
    bios: Vec<Box<Bio>>,
    rng: Rng,
    began: std::time::Instant,
}

impl Bench {
    /// The device alone. Its first zone is a conventional one, so that the same blocks can be written again.
    fn bare() -> Result<Self, String> {
        let mut stack = Stack::new();
        let zoned = NullZones { zone_sectors: ZONE, conventional: CONVENTIONAL as u32, ..NullZones::default() };
        let zoned = Some(zoned);
        let config = NullConfig { memory_backed: true, zoned, block_bytes: 4096, ..NullConfig::new(ZONES * ZONE) };
        let disk = stack.add(Box::new(NullDevice::new(&config).map_err(text)?)).map_err(text)?;
        let (port, memory) = (stack.open_port(), Payload::Data(Data::zeroed(BLOCK_BYTES)));
        let (rng, began) = (Rng::new(1), std::time::Instant::now());
        Ok(Self { stack, port, disk, top: disk, sectors: ZONES * ZONE, memory, bios: Vec::new(), rng, began })
    }

    fn stl() -> Result<Self, String> {
        let mut bench = Self::bare()?;
        let zone = |number: u64| Zone {
            start: Sector(number * ZONE),
            len: ZONE,
            capacity: ZONE,
            wp: Sector(number * ZONE),
            kind: if number < CONVENTIONAL { ZoneKind::Conventional } else { ZoneKind::Sequential },
            cond: if number < CONVENTIONAL { Condition::NotWp } else { Condition::Empty },
        };
        let part = Part { id: [1; 16], zones: (0..ZONES).map(zone).collect(), sectors: ZONES * ZONE, max_active: None };
        let created = create(SetId([0x51; 16]), &[part], Sizing::with_reserve(RESERVE)).map_err(text)?;
        let (sector, bytes) = created.roots.first().ok_or("there is no root")?;
        let data = Data::zeroed(bytes.len());
        data.write(0, bytes);
        let write = Bio::new(Op::Write, *sector, bytes.len() as u32 / 512, Payload::Data(data));
        bench.stack.submit(bench.port, 0, bench.disk, Box::new(write));
        bench.drain()?;
        bench.sectors = created.sectors;
        bench.attach(Options::default())?;
        Ok(bench)
    }

    /// A target on the device.
    fn attach(&mut self, options: Options) -> Result<(), String> {
        let limits = self.stack.limits(self.disk).clone();
        let target = Stl::new(vec![self.disk], &[limits], self.sectors, options);
        self.top = self.stack.add(Box::new(target)).map_err(text)?;
        Ok(())
    }

    fn message(&mut self, word: &str) -> Result<(), String> {
        self.stack.message(self.top, &[word]).map_err(text)?;
        self.drain()
    }

    fn send(&mut self, op: Op, block: u64) {
        let new = || Box::new(Bio::new(op, Sector::ZERO, BLOCK_SECTORS, self.memory.slice(0, BLOCK_SECTORS)));
        let mut bio = self.bios.pop().unwrap_or_else(new);
        (bio.op, bio.sector) = (op, Sector(block * u64::from(BLOCK_SECTORS)));
        self.stack.submit(self.port, 0, self.top, bio);
    }

    fn turn(&mut self) -> Result<u64, String> {
        self.stack.turn(Instant(self.began.elapsed().as_nanos() as u64));
        let mut done = 0;
        while let Some(back) = self.stack.poll_completion(self.port) {
            if !back.status.is_ok() {
                return Err(format!("{:?}: {}", back.bio, back.status));
            }
            if back.bio.sectors == BLOCK_SECTORS {
                self.bios.push(back.bio);
            }
            done += 1;
        }
        Ok(done)
    }

    fn drain(&mut self) -> Result<(), String> {
        while self.stack.outstanding(self.port) > 0 {
            self.turn()?;
        }
        self.turn().map(drop)
    }

    /// Does it with each block once.
    fn each(&mut self, op: Op) -> Result<(), String> {
        for block in 0..BLOCKS {
            self.send(op, block);
            if block % u64::from(DEPTH) == 0 {
                self.drain()?;
            }
        }
        self.drain()
    }

    /// Writes as much as the device has room for. From then on it has all the memory that it takes, and what the system does to give it
    /// some is no cost of the target.
    fn fill(&mut self) -> Result<(), String> {
        for _ in 0..ZONES * ZONE / u64::from(BLOCK_SECTORS) / BLOCKS {
            self.each(Op::Write)?;
        }
        Ok(())
    }

    /// How many a second, at random.
    fn rate(&mut self, op: Op, time: Duration) -> Result<f64, String> {
        let (began, mut done) = (std::time::Instant::now(), 0);
        (0..DEPTH).for_each(|_| self.send_anywhere(op));
        while began.elapsed() < time {
            let until = done + ROUND;
            while done < until {
                let back = self.turn()?;
                (0..back).for_each(|_| self.send_anywhere(op));
                done += back;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        self.drain()?;
        Ok(done as f64 / seconds)
    }

    /// How many blocks of data a second, in batches of [`DEPTH`] with a header, zone after zone: no log is faster than its device.
    fn rate_in_batches(&mut self, time: Duration) -> Result<f64, String> {
        let sectors = (DEPTH + 1) * BLOCK_SECTORS;
        let batch = Data::zeroed(sectors as usize * 512);
        let (began, mut done) = (std::time::Instant::now(), 0);
        for zone in (CONVENTIONAL..ZONES).cycle() {
            let start = Sector(zone * ZONE);
            self.ask(Bio::new(Op::ZoneReset, start, 0, Payload::None))?;
            for number in 0..ZONE / u64::from(sectors) {
                self.ask(Bio::new(
                    Op::Write,
                    start + number * u64::from(sectors),
                    sectors,
                    Payload::Data(batch.clone()),
                ))?;
                done += u64::from(DEPTH);
            }
            if began.elapsed() >= time {
                break;
            }
        }
        Ok(done as f64 / began.elapsed().as_secs_f64())
    }

    fn ask(&mut self, bio: Bio) -> Result<(), String> {
        self.stack.submit(self.port, 0, self.top, Box::new(bio));
        self.drain()
    }

    fn send_anywhere(&mut self, op: Op) {
        let block = self.rng.below(BLOCKS);
        self.send(op, block);
    }
}
