//! A simulated drive alone under a load: every bio that comes back goes out again.

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

use shingle_host::profile::Model;

/// What jobs do. Each has zones of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rw {
    /// Reads one zone after the other.
    Read,
    /// The same beyond the write pointer.
    ReadUnwritten,
    /// Reads anywhere.
    RandRead,
    /// Reads anywhere in conventional zones.
    RandReadConventional,
    /// Writes one zone after the other.
    Write,
    /// The same with appends.
    Append,
}

/// A load, as fio has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What its jobs do.
    pub rw: Rw,
    /// Sectors of an I/O.
    pub sectors: u32,
    /// I/Os of a job in flight.
    pub depth: u32,
    /// Number of jobs.
    pub jobs: u32,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Mean time of an I/O, in us.
    Latency(f64),
    /// I/Os a second.
    Rate(f64),
}

impl Figure {
    /// Its number.
    pub fn value(self) -> f64 {
        let (Self::Latency(value) | Self::Rate(value)) = self;
        value
    }
}

/// I/Os before it counts: what buffers take at first is no measure.
const RAMP: u32 = 5_000;
/// I/Os that count.
const RUN: u32 = 20_000;
/// Sectors of an I/O that fills zones.
const FILL: u64 = 2_048;

/// A drive under load.
pub struct Drive {
    stack: Stack,
    port: PortId,
    device: DeviceId,
    now: Instant,
    rng: Rng,
    /// Zones begin at equal distances, and so much of each can be written, in sectors.
    zone: u64,
    capacity: u64,
    /// Sequential zones: where they begin, and how many of them can be read; `None`: those that were filled.
    first: u64,
    readable: Option<u64>,
    /// How many I/Os each job has sent.
    sent: Vec<u64>,
}

impl Drive {
    /// A new drive, with room for the zones of `load`.
    ///
    /// # Errors
    /// If it has no zones, or not those that the load needs.
    pub fn new(model: &Model, load: Load) -> Result<Self, String> {
        let (mut stack, mut model, mut readable) = (Stack::new(), model.clone(), None);
        let capacity = match &mut model {
            Model::Smr(config) => {
                config.zones_full = matches!(load.rw, Rw::Read | Rw::RandRead);
                readable = Some(config.capacity / config.zone_sectors - u64::from(config.conventional));
                config.zone_sectors
            }
            Model::Zns(config) => config.zone_capacity,
            _ => return Err("the drive has no zones: only profiles of zoned drives are fitted".into()),
        };
        let device = model.add_to(&mut stack, false).map_err(|error| error.to_string())?;
        let port = stack.open_port();
        let (limits, zones) = (stack.limits(device).clone(), stack.limits(device).zones());
        let Some(zoned) = &limits.zoned else { return Err("the drive has no zones".into()) };
        let zone = u64::from(zoned.zone_sectors);
        let first = zoned.conventional.first().map_or(0, |run| u64::from(run.end) * zone);
        let sent = vec![0; load.jobs as usize];
        let drive =
            Self { stack, port, device, now: Instant::ZERO, rng: Rng::new(7), zone, capacity, first, readable, sent };
        let most = limits.max_sectors.unwrap_or(u32::MAX);
        drive.check(load, most, u64::from(zones)).map(|()| drive)
    }

    fn check(&self, load: Load, most: u32, zones: u64) -> Result<(), String> {
        if load.sectors == 0 || load.sectors > most || u64::from(load.sectors) > self.capacity {
            return Err(format!("I/Os of {} KiB do not fit the drive", load.sectors / 2));
        }
        if load.rw == Rw::RandReadConventional && self.first == 0 {
            return Err("the drive has no conventional zones".into());
        }
        let rounds = u64::from(RAMP + RUN + load.depth * load.jobs) / (self.capacity / u64::from(load.sectors)) + 1;
        let needed = rounds + u64::from(load.jobs);
        if !matches!(load.rw, Rw::RandRead | Rw::RandReadConventional) && needed > zones - self.first / self.zone {
            return Err(format!("the load writes or reads {needed} zones, and the drive has fewer"));
        }
        Ok(())
    }

    /// Sends an I/O of `job`.
    pub fn send(&mut self, job: u64, op: Op, sector: u64, sectors: u32) {
        let payload = match op {
            Op::ZoneReset => Payload::None,
            _ => Payload::Data(Data::zeroed(sectors as usize * 512)),
        };
        self.stack.submit(self.port, job, self.device, Box::new(Bio::new(op, Sector(sector), sectors, payload)));
    }

    /// The next that comes back: whose it is, and how long it took, in ns.
    ///
    /// # Errors
    /// If it failed, or nothing ever comes back.
    pub fn next_done(&mut self) -> Result<(u64, f64), String> {
        loop {
            if let Some(done) = self.stack.poll_completion(self.port) {
                if !done.status.is_ok() {
                    return Err(format!("the drive answers {:?} with: {}", done.bio, done.status));
                }
                return Ok((done.tag, self.now.since(done.bio.since).as_nanos() as f64));
            }
            let next = self.stack.turn(self.now);
            if !self.stack.has_completions(self.port) {
                self.now = next.ok_or("the drive does not answer")?;
            }
        }
    }

    /// Writes this share of a zone, and waits until all of it is where it stays.
    ///
    /// # Errors
    /// If a write fails.
    pub fn fill(&mut self, zone: u64, share: f64) -> Result<(), String> {
        let end = (self.capacity as f64 * share) as u64 / 8 * 8;
        let mut at = 0;
        while at < end {
            let sectors = FILL.min(end - at);
            self.send(0, Op::Write, self.first + zone * self.zone + at, sectors as u32);
            self.next_done()?;
            at += sectors;
        }
        while let Some(next) = self.stack.turn(self.now) {
            self.now = next;
        }
        Ok(())
    }

    /// Job `job` sends its next I/O.
    fn step(&mut self, job: u64, Load { rw, sectors, jobs, .. }: Load) {
        let fits = self.capacity / u64::from(sectors);
        let sent = &mut self.sent[job as usize];
        let (mut zone, mut block) = (job + *sent / fits * u64::from(jobs), *sent % fits);
        *sent += 1;
        if matches!(rw, Rw::RandRead | Rw::RandReadConventional) {
            let zones = if rw == Rw::RandRead { self.readable } else { Some(self.first / self.zone) };
            zone = zones.map_or(job, |zones| self.rng.below(zones));
            block = self.rng.below(fits);
        }
        let first = if rw == Rw::RandReadConventional { 0 } else { self.first };
        let (op, offset) = match rw {
            Rw::Append => (Op::ZoneAppend, 0),
            Rw::Write => (Op::Write, block * u64::from(sectors)),
            _ => (Op::Read, block * u64::from(sectors)),
        };
        self.send(job, op, first + zone * self.zone + offset, sectors);
    }

    /// What the drive does under `load`, in terms of `wanted`.
    ///
    /// # Errors
    /// If an I/O fails.
    pub fn measure(&mut self, load: Load, wanted: Figure) -> Result<f64, String> {
        let jobs = u64::from(load.jobs);
        if matches!(load.rw, Rw::Read | Rw::RandRead) && self.readable.is_none() {
            (0..jobs).try_for_each(|job| self.fill(job, 1.0))?;
        }
        (0..jobs * u64::from(load.depth)).for_each(|n| self.step(n % jobs, load));
        let (mut began, mut sum) = (self.now, 0.0);
        for count in 0..RAMP + RUN {
            let (job, took) = self.next_done()?;
            if count == RAMP {
                (began, sum) = (self.now, 0.0);
            }
            sum += took;
            self.step(job, load);
        }
        let seconds = self.now.since(began).as_nanos() as f64 / 1e9;
        Ok(match wanted {
            Figure::Latency(_) => sum / f64::from(RUN) / 1e3,
            Figure::Rate(_) => f64::from(RUN) / seconds,
        })
    }
}
