//! fio's `zonemode=zbd`, as far as the order and the timing of I/O depend on it.
//!
//! What a real fio does to a zoned disk is not "iodepth times numjobs writes in flight": a job locks the zone of an I/O
//! when it prepares it and keeps the lock until the I/O has completed. So a zone belongs to one job at a time, which may
//! have many I/Os in it. A job that picks a zone of another job first waits for all of its own I/Os, and then for the
//! lock; a job that picks a full zone waits for its own I/Os and resets the zone (fio 3.x, `zbd.c`: `zone_lock`,
//! `zbd_adjust_block`, `zbd_convert_to_open_zone`, `zbd_put_io`). With many jobs on few zones the queue therefore keeps
//! collapsing, and that shapes the published figures as much as the disk does.
//!
//! ```text
//!  pick ──> lock ──> [limit reached: an open zone instead] ──> [full: quiesce, reset] ──> submit ──> reap, unlock
//!             └─ another job's: quiesce, wait for the lock
//! ```

mod job;
mod options;
mod zones;

use alloc::boxed::Box;
use alloc::vec::Vec;

pub use options::{FioOptions, Host, Pattern};

use self::job::{Finished, Job, JobState};
use self::zones::{Admission, ZoneTable};
use super::Tally;
use crate::{Actor, Io};
use shingle_core::block::{Bio, Completion, Data, DeviceId, Op, Payload, Status};
use shingle_core::random::Rng;
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::time::{Duration, Instant};

/// The tag of an I/O of a job in a zone.
fn tag(job: usize, zone: u32) -> u64 {
    (job as u64) << 32 | u64::from(zone)
}

/// How soon a job that finds no zone to write looks again.
const RETRY: Duration = Duration::from_micros(10);

/// All jobs of one fio run on one device.
pub struct Fio {
    disk: DeviceId,
    options: FioOptions,
    zones: Option<ZoneTable>,
    jobs: Vec<Job>,
    memory: Data,
    rng: Rng,
    started: bool,
    failed: bool,
    /// What was read and written, in this order.
    pub tallies: [Tally; 2],
}

impl Fio {
    /// A run on `disk`. It asks for the zones first: they may hold data already.
    #[must_use]
    pub fn new(disk: DeviceId, options: FioOptions) -> Self {
        let tally = Tally::new(options.ramp, options.runtime);
        Self {
            disk,
            zones: None,
            jobs: Vec::new(),
            memory: Data::zeroed(options.block_sectors as usize * SECTOR_BYTES as usize),
            rng: Rng::new(options.seed),
            started: false,
            failed: false,
            tallies: [tally.clone(), tally],
            options,
        }
    }

    /// Reads that were done.
    #[must_use]
    pub fn reads(&self) -> &Tally {
        &self.tallies[0]
    }

    /// Writes that were done.
    #[must_use]
    pub fn writes(&self) -> &Tally {
        &self.tallies[1]
    }

    fn take_in(&mut self, done: Completion, io: &Io<'_>) {
        let (job, zone) = ((done.tag >> 32) as usize, done.tag as u32);
        match done.bio.op {
            Op::ReportZones => match &done.bio.payload {
                Payload::Zones(zones) if done.status.is_ok() => self.open_region(zones),
                _ => self.failed = true,
            },
            Op::ZoneReset => {
                self.failed |= !done.status.is_ok();
                let zones = self.zones.as_mut().expect("resets come after the report");
                zones.reset(zone);
                self.jobs[job].state = JobState::Write(zone);
            }
            op => {
                let write = op != Op::Read;
                self.tallies[usize::from(write)].note(io.now(), &done.bio, done.status);
                // As fio, which ends at the first error unless told otherwise.
                self.failed |= !done.status.is_ok();
                let filled = write && self.zones.as_ref().is_some_and(|zones| zones.ends_at_capacity(zone, &done.bio));
                self.jobs[job].done.push_back(Finished { zone, filled, at: io.now() });
            }
        }
    }

    fn open_region(&mut self, report: &[shingle_core::zone::Zone]) {
        let zones = ZoneTable::new(report, &self.options);
        self.failed |= zones.len() == 0;
        let jobs = self.options.jobs.max(1);
        self.jobs = (0..jobs).map(|number| Job::new(number, jobs, zones.len(), &mut self.rng)).collect();
        self.zones = Some(zones);
    }

    fn stopping(&self, now: Instant) -> bool {
        self.failed || self.writes().is_over(now)
    }
}

impl Actor for Fio {
    fn act(&mut self, io: &mut Io<'_>) {
        if !self.started {
            self.started = true;
            return io.report_zones(0, self.disk);
        }
        while let Some(done) = io.completion() {
            self.take_in(done, io);
        }
        // A lock that one job gives up may be what another one waits for.
        while self.run_all(io) {}
    }

    fn is_done(&self) -> bool {
        let idle = |job: &Job| matches!(job.state, JobState::Stopped) && job.in_flight == 0;
        self.failed || self.zones.is_some() && self.jobs.iter().all(idle)
    }
}

/// A thread's life.
impl Fio {
    /// Lets every job go on once; false if all of them wait.
    fn run_all(&mut self, io: &mut Io<'_>) -> bool {
        let mut moved = false;
        for number in 0..self.jobs.len() {
            moved |= self.run(number, io);
        }
        moved
    }

    /// Lets a job go on until it waits for something; false if it could not even start.
    fn run(&mut self, number: usize, io: &mut Io<'_>) -> bool {
        let mut moved = false;
        loop {
            let busy_until = self.jobs[number].busy_until;
            if busy_until > io.now() {
                io.wake_at(busy_until);
                return moved;
            }
            if !self.step(number, io) {
                return moved;
            }
            moved = true;
        }
    }

    /// One thing that a job does; false if it has to wait.
    fn step(&mut self, number: usize, io: &mut Io<'_>) -> bool {
        let (depth, in_flight) = (self.options.iodepth.max(1), self.jobs[number].in_flight);
        match self.jobs[number].state {
            JobState::Pick if self.stopping(io.now()) => self.jobs[number].state = JobState::Stopped,
            JobState::Pick if in_flight < depth => self.pick(number, io.now()),
            JobState::Pick | JobState::Stopped => return self.reap(number, io.now()),
            JobState::Lock(_) | JobState::OtherZone(_) | JobState::Reset(_) if in_flight > 0 => {
                return self.reap(number, io.now());
            }
            JobState::Lock(zone) => return self.lock(number, zone, io),
            JobState::OtherZone(zone) => self.open_other(number, zone, io.now()),
            JobState::Reset(zone) => self.reset(number, zone, io),
            JobState::Resetting => return false,
            JobState::Write(zone) => self.transfer(number, zone, Op::Write, io),
            JobState::Read(zone) => self.transfer(number, zone, Op::Read, io),
        }
        true
    }

    fn zones(&mut self) -> &mut ZoneTable {
        self.zones.as_mut().expect("jobs exist once the zones are known")
    }

    fn pick(&mut self, number: usize, now: Instant) {
        let read = self.rng.chance(self.options.read_percent.into(), 100);
        let zones = self.zones.as_ref().expect("jobs exist once the zones are known");
        let job = &mut self.jobs[number];
        let written = if read { zones.pick_written(&mut job.rng) } else { None };
        (job.reading, job.converted) = (written.is_some(), false);
        job.busy_until = now + self.options.host.submit;
        let zone = written.unwrap_or_else(|| zones.pick(job, self.options.pattern));
        self.try_lock(number, zone);
    }

    /// Goes on with `zone` if it is free or the job's own; else the job waits for its own I/Os and then for the lock.
    fn try_lock(&mut self, number: usize, zone: u32) {
        if self.zones().lock(zone, number as u32) {
            self.enter(number, zone);
        } else {
            self.jobs[number].state = JobState::Lock(zone);
        }
    }

    fn lock(&mut self, number: usize, zone: u32, io: &mut Io<'_>) -> bool {
        let wake = self.options.host.wake;
        let granted = self.zones().wait(zone, number as u32, io.now(), wake);
        match granted {
            Ok(()) => self.enter(number, zone),
            Err(at) => at.into_iter().for_each(|at| io.wake_at(at)),
        }
        granted.is_ok()
    }

    /// The job holds the zone's lock: may it write there?
    fn enter(&mut self, number: usize, zone: u32) {
        let Job { reading, converted, .. } = self.jobs[number];
        if reading {
            self.jobs[number].state = JobState::Read(zone);
            return;
        }
        self.jobs[number].state = match self.zones().admit(zone, converted) {
            Admission::Write => JobState::Write(zone),
            Admission::ResetFirst => JobState::Reset(zone),
            Admission::LimitReached => {
                self.zones().unlock(zone);
                return self.convert(number);
            }
            Admission::NoRoom => {
                self.zones().unlock(zone);
                JobState::OtherZone(zone)
            }
        };
    }

    /// As many zones are written as may be: takes one of them instead.
    fn convert(&mut self, number: usize) {
        self.jobs[number].converted = true;
        let zones = self.zones.as_ref().expect("jobs exist once the zones are known");
        let open = zones.pick_open(&mut self.jobs[number].rng);
        self.try_lock(number, open);
    }

    /// Looks for a zone to open behind `zone`, or for an open one with room; if there is none, tries again a little later.
    fn open_other(&mut self, number: usize, zone: u32, now: Instant) {
        let (found, job) = (self.zones().find_other(zone), &mut self.jobs[number]);
        match found {
            Some((other, open)) => {
                job.converted = open;
                self.try_lock(number, other);
            }
            None => job.busy_until = now + self.options.host.wake.max(RETRY),
        }
    }

    fn reset(&mut self, number: usize, zone: u32, io: &mut Io<'_>) {
        let bio = Bio::new(Op::ZoneReset, self.zones().start(zone), 0, Payload::None);
        self.jobs[number].state = JobState::Resetting;
        io.submit(tag(number, zone), self.disk, Box::new(bio));
    }

    fn transfer(&mut self, number: usize, zone: u32, op: Op, io: &mut Io<'_>) {
        let append = self.options.append && op == Op::Write;
        let (block, pattern) = (self.options.block_sectors, self.options.pattern);
        let zones = self.zones.as_mut().expect("jobs exist once the zones are known");
        let job = &mut self.jobs[number];
        let (sector, sectors) = match op {
            Op::Read => zones.place_read(zone, block, &mut job.rng),
            _ => zones.place_write(zone, block, job, pattern),
        };
        let (op, sector) = if append { (Op::ZoneAppend, zones.start(zone)) } else { (op, sector) };
        let payload = Payload::Data(self.memory.slice(0, sectors as usize * SECTOR_BYTES as usize));
        job.in_flight += 1;
        job.state = JobState::Pick;
        io.submit(tag(number, zone), self.disk, Box::new(Bio::new(op, sector, sectors, payload)));
    }

    /// Takes back all I/Os that are done, and gives up their locks; false if there is none.
    fn reap(&mut self, number: usize, now: Instant) -> bool {
        let (mut reaped, mut commands, mut last) = (0, 0, None);
        while let Some(Finished { zone, filled, at }) = self.jobs[number].done.pop_front() {
            if filled {
                self.zones().close(zone);
            }
            self.zones().unlock(zone);
            reaped += 1;
            // I/Os that were merged into one command end together.
            commands += u64::from(last.replace(at) != Some(at));
        }
        let Host { complete, rouse, hop, .. } = self.options.host;
        let job = &mut self.jobs[number];
        job.in_flight -= reaped;
        let hops = if job.in_flight > 0 { commands } else { 0 };
        let roused = if job.asleep && reaped > 0 { rouse } else { Duration::ZERO };
        job.busy_until = now + roused + Duration(complete.0 * u64::from(reaped) + hop.0 * hops);
        job.asleep = reaped == 0;
        reaped > 0
    }

    /// The first I/O that failed, if one did.
    #[must_use]
    pub fn first_error(&self) -> Option<Status> {
        self.tallies.iter().find_map(|tally| tally.first_error)
    }
}
