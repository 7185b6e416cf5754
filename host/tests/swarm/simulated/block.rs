//! A kernel with a zoned block device, and [`ZonedBlk`] on it. One seed, one behaviour.
//!
//! ```text
//!   ZonedBlk ── Request ──> ring: late, reordered, short, interrupted ──┐
//!      └── helper ── ioctls, one after the other ───────────────────────┴──> kernel: plugs ──> CrashDisk
//! ```
//!
//! Below is the simulated disk with its own faults and what it loses with its power. Bugs are planted in the kernel's place.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time;

use shingle_core::block::{Bio, BlockDevice, Cx, Data, Event, Flags, Limits, Op, Payload, Status};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone, ZoneKind, ZoneNo};
use shingle_host::disk::zoned_blk::{self, Parts, ZonedBlk};
use shingle_host::helper::{Calls, Helper};
use shingle_sim::Choices;
use shingle_sim::disk::{CrashConfig, CrashDisk, Discipline, Medium, Powered};
use shingle_sim::fault::FaultPlan;
use shingle_sys::zoned_block::ZoneCommand;
use shingle_sys::{Completion, Request, RequestQueue, RingHandle, Token};

use super::kernel::{KERNEL, fill, taken};
use super::zone_plugs::{Way, ZonePlugs};

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
/// Too many active zones, and too many open ones.
const EOVERFLOW: i32 = 75;
const ETOOMANYREFS: i32 = 109;
/// Memory as direct I/O wants it and nobody has it: everything is copied.
const NOWHERE: usize = 1 << 31;

/// Guards of a disk that are taken away, by what the kernel does in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bug {
    #[default]
    None,
    /// A flush is answered, and nothing is sent to the drive.
    UnsentFlush,
    /// A flush that failed is taken for one that did not.
    DeafToFlush,
    /// FUA is decoration.
    NoFua,
    /// FUA is written through a disk that has none, without a flush behind it.
    NoFlushForFua,
    /// The flush before a write is decoration.
    NoPreflush,
    /// A short write is taken for a whole one.
    NoContinuation,
    /// A short read is taken for a whole one.
    NoReadContinuation,
    /// A request that was interrupted is taken for one that was carried out.
    NoRetry,
    /// A failed write is taken for one that was carried out.
    DeafToWrite,
    /// A failed command to a zone is taken for one that was carried out.
    DeafToZones,
    /// The pointer of a zone in which a write has failed is believed, not asked for.
    BelievedPointer,
    /// A report is what the last one was.
    OldReport,
    /// A reset is answered before the drive has done it.
    EarlyReset,
    /// An answer gets lost.
    LostAnswer,
}

/// The kernel and the drive below it.
struct Kernel {
    drive: CrashDisk,
    plugs: ZonePlugs,
    rng: Rng,
    now: Instant,
    troubled: bool,
    bug: Bug,
    /// Whether the drive makes single writes durable.
    fua: bool,
    /// Whether it resets all zones at once, and not one by one.
    resets_all: bool,
    /// Whether a reset or a finish is believed in once it is sent, and not once it is done.
    believes_early: bool,
    /// Whether a flush has failed: nothing can be relied on any more.
    flush_failed: bool,
    /// Whether one may have.
    is_in_doubt: bool,
    /// Faults in each zone that are not the drive's, and all of those.
    faults: Vec<u64>,
    all_faults: u64,
    /// For [`Bug::OldReport`].
    reported: Vec<Zone>,
    /// For [`Bug::EarlyReset`].
    late_reset: Option<Bio>,
}

impl Kernel {
    fn limits(&self) -> &Limits {
        self.drive.limits()
    }

    fn zone_of(&self, sector: Sector) -> ZoneNo {
        self.drive.config().geometry.zone_of(sector)
    }

    fn goes_wrong(&mut self, of: u64) -> bool {
        self.troubled && self.rng.chance(1, of)
    }

    /// Counts a fault for the zones of a command.
    fn fault(&mut self, bio: &Bio) {
        self.all_faults += 1;
        let zone = self.zone_of(bio.sector).index();
        match bio.op {
            Op::Flush | Op::ReportZones => {}
            Op::ZoneResetAll => self.faults.iter_mut().for_each(|faults| *faults += 1),
            _ => self.faults[zone] += 1,
        }
    }

    /// What becomes of a command that has come, and what was not durable then.
    fn carry_out(&mut self, bio: &mut Bio, after: u64, way: Way) -> i32 {
        match bio.op {
            Op::Write => self.write(bio, after, way),
            Op::Flush => self.flush(after),
            _ => self.ask_drive(bio, after),
        }
    }

    fn ask_drive(&mut self, bio: &mut Bio, after: u64) -> i32 {
        match self.drive.carry_out(bio, after, self.now) {
            Status::Ok => bio.payload.bytes() as i32,
            // What a zone refuses has no number of its own.
            Status::Offline | Status::ReadOnly | Status::Invalid => -EIO,
            status => -status.errno(),
        }
    }

    fn flush(&mut self, after: u64) -> i32 {
        // A drive tells only once what it has lost: later flushes are well, and that is lost all the same.
        if self.bug == Bug::UnsentFlush || self.flush_failed {
            return 0;
        }
        let result = self.ask_drive(&mut plain(Op::Flush, Sector::ZERO), after);
        if result < 0 {
            self.flush_fails();
        }
        if self.bug == Bug::DeafToFlush { 0 } else { result }
    }

    /// Whether a flush follows that command, for want of FUA.
    fn flushes_behind(&self, bio: &Bio) -> bool {
        bio.flags.has(Flags::FUA) && !self.fua && self.limits().write_cache
    }

    /// What is durable of any zone is unknown from now on.
    fn flush_fails(&mut self) {
        self.flush_failed = true;
        self.fault(&plain(Op::ZoneResetAll, Sector::ZERO));
    }

    fn write(&mut self, bio: &mut Bio, after: u64, way: Way) -> i32 {
        let (zone, end) = (self.zone_of(bio.sector), bio.sector.0 + u64::from(bio.sectors));
        let is_sequential = self.drive.config().geometry.kind(zone) == ZoneKind::Sequential;
        if is_sequential && !self.plugs.admits(zone, bio.sector.0, way) {
            return -EIO;
        }
        let flushes = self.flushes_behind(bio);
        if flushes || self.bug == Bug::NoFua {
            bio.flags = bio.flags.without(Flags::FUA);
        }
        let result = self.ask_drive(bio, after);
        if result < 0 {
            // If a part is there, nobody above can tell it from a failed flush behind that.
            self.is_in_doubt |= flushes;
            self.plugs.fails(zone);
            return result;
        }
        self.plugs.moves(zone, end);
        if !flushes || matches!(self.bug, Bug::NoFua | Bug::NoFlushForFua) {
            return result;
        }
        let after = self.drive.arrives(&plain(Op::Flush, Sector::ZERO), self.now);
        let flushed = self.flush(after);
        if flushed < 0 {
            self.plugs.fails(zone);
        }
        if flushed < 0 { flushed } else { result }
    }

    /// A command that a call waits for.
    fn call(&mut self, bio: &mut Bio) -> i32 {
        let after = self.drive.arrives(bio, self.now);
        let result = self.carry_out(bio, after, Way::Call);
        self.drive.leaves(bio, if result < 0 { Status::Io } else { Status::Ok });
        result
    }

    fn manage(&mut self, bio: &mut Bio) -> i32 {
        let zone = self.zone_of(bio.sector);
        let pointer = match bio.op {
            Op::ZoneReset => Some(bio.sector.0),
            Op::ZoneFinish => Some(bio.sector.0 + u64::from(self.drive.config().geometry.zone_sectors())),
            _ => None,
        };
        let result = self.call(bio);
        if let Some(pointer) = pointer.filter(|_| result >= 0 || self.believes_early) {
            self.plugs.moves(zone, pointer);
        }
        result
    }

    /// As `block/blk-zoned.c:blkdev_zone_reset_all`, or its emulation of one zone after the other.
    fn reset_all(&mut self) -> i32 {
        if self.resets_all {
            let result = self.call(&mut plain(Op::ZoneResetAll, Sector::ZERO));
            if result >= 0 || self.believes_early {
                self.drive
                    .zones()
                    .zones(Sector::ZERO)
                    .for_each(|zone| self.plugs.moves(number(&self.drive, &zone), zone.start.0));
            }
            return result;
        }
        let needs_it = |zone: &Zone| zone.cond == Condition::Full || zone.cond.is_active();
        let zones: Vec<Sector> =
            self.drive.zones().zones(Sector::ZERO).filter(needs_it).map(|zone| zone.start).collect();
        let results: Vec<i32> = zones.into_iter().map(|zone| self.manage(&mut plain(Op::ZoneReset, zone))).collect();
        results.into_iter().find(|result| *result < 0).unwrap_or(0)
    }

    /// The whole result of a command, whatever happened to it.
    fn whole(request: &Request) -> i32 {
        match request {
            Request::Read { payload, skip, .. } | Request::Write { payload, skip, .. } => {
                (payload.bytes() - skip) as i32
            }
            _ => 0,
        }
    }
}

fn number(drive: &CrashDisk, zone: &Zone) -> ZoneNo {
    drive.config().geometry.zone_of(zone.start)
}

fn plain(op: Op, sector: Sector) -> Bio {
    Bio::new(op, sector, 0, Payload::None)
}

/// The kernel, as the disk's thread for calls has it.
#[derive(Clone)]
struct Handle(Arc<Mutex<Kernel>>);

impl Handle {
    fn kernel(&self) -> MutexGuard<'_, Kernel> {
        self.0.lock().unwrap()
    }
}

fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

impl zoned_blk::Calls for Handle {
    fn report(&self, from: Sector, zones: &mut Vec<Zone>) -> io::Result<()> {
        let kernel = &mut *self.kernel();
        let room = zones.capacity() - zones.len();
        let mut bio = Bio::new(Op::ReportZones, from, 0, Payload::Zones(Vec::with_capacity(room)));
        let result = kernel.call(&mut bio);
        if result < 0 {
            // Perhaps of a failed command in that zone nothing is known now.
            kernel.fault(&plain(Op::ZoneOpen, from));
        }
        outcome(result)?;
        let Payload::Zones(mut found) = std::mem::take(&mut bio.payload) else { unreachable!() };
        for zone in &mut found {
            let number = number(&kernel.drive, zone);
            if kernel.bug == Bug::BelievedPointer
                && kernel.plugs.failed.contains(&number)
                && zone.cond.has_write_pointer()
            {
                zone.wp = Sector(kernel.plugs.believed(number));
            }
            kernel.plugs.reported(number, zone.wp.0);
            let old = kernel.reported[number.index()];
            kernel.reported[number.index()] = *zone;
            if kernel.bug == Bug::OldReport {
                *zone = old;
            }
        }
        zones.extend(found);
        Ok(())
    }

    fn manage(&self, command: ZoneCommand, first: Sector, sectors: u64) -> io::Result<()> {
        let kernel = &mut *self.kernel();
        let op = match command {
            ZoneCommand::Reset => Op::ZoneReset,
            ZoneCommand::Open => Op::ZoneOpen,
            ZoneCommand::Close => Op::ZoneClose,
            ZoneCommand::Finish => Op::ZoneFinish,
        };
        let mut bio = plain(op, first);
        let result = match op {
            Op::ZoneReset if sectors == kernel.limits().capacity => kernel.reset_all(),
            Op::ZoneReset if kernel.bug == Bug::EarlyReset => {
                kernel.late_reset = Some(bio);
                0
            }
            _ => kernel.manage(&mut bio),
        };
        if kernel.bug == Bug::DeafToZones { Ok(()) } else { outcome(result).map(drop) }
    }

    fn write(&self, at: u64, (memory, skip): (&Payload, usize), durable: bool) -> io::Result<usize> {
        let kernel = &mut *self.kernel();
        outcome(kernel.call(&mut writing(at, &taken(memory, skip), durable)))
    }

    fn sectors(&self) -> io::Result<u64> {
        Ok(self.kernel().limits().capacity)
    }
}

fn writing(at: u64, bytes: &[u8], durable: bool) -> Bio {
    let data = Data::zeroed(bytes.len());
    data.write(0, bytes);
    let flags = if durable { Flags::FUA } else { Flags::NONE };
    Bio::new(Op::Write, Sector(at / 512), (bytes.len() / 512) as u32, Payload::Data(data)).with_flags(flags)
}

/// A request in the ring, and the command that it becomes.
struct Flight {
    token: Token,
    request: Request,
    bio: Bio,
    after: u64,
}

/// The ring.
struct Queue {
    kernel: Handle,
    flights: BTreeMap<(Instant, u64), Flight>,
    arrived: u64,
    done: VecDeque<Completion>,
}

impl Queue {
    fn arrives(&mut self, token: Token, request: Request) -> Result<(), Request> {
        let kernel = &mut *self.kernel.kernel();
        let block = kernel.limits().block_sectors() as usize * 512;
        let (rng, wrong) = (&mut kernel.rng, kernel.troubled);
        let bio = command(&request, rng, block);
        if wrong && kernel.rng.chance(1, 400) {
            kernel.fault(&bio);
            return Err(request);
        }
        let after = kernel.drive.arrives(&bio, kernel.now);
        let due = kernel.now + kernel.draw_latency();
        self.flights.insert((due, self.arrived), Flight { token, request, bio, after });
        self.arrived += 1;
        Ok(())
    }

    /// Carries out what is due.
    fn advance(&mut self) {
        let handle = self.kernel.clone();
        let kernel = &mut *handle.kernel();
        while let Some(entry) = self.flights.first_entry().filter(|entry| entry.key().0 <= kernel.now) {
            let Flight { token, mut request, mut bio, after } = entry.remove();
            let result = answer(kernel, (&mut request, &mut bio), after);
            if kernel.bug == Bug::LostAnswer && kernel.rng.chance(1, 200) {
                continue;
            }
            self.done.push_back(Completion { token, result, request });
        }
    }

    /// The power goes: some of what is in flight has just been carried out, in any order.
    fn cut_power(&mut self, rng: &mut Rng) {
        let handle = self.kernel.clone();
        let mut flights: Vec<Flight> = std::mem::take(&mut self.flights).into_values().collect();
        while !flights.is_empty() {
            let mut flight = flights.swap_remove(rng.below(flights.len() as u64) as usize);
            if flight.bio.op == Op::Write && rng.chance(1, 2) {
                handle.kernel().carry_out(&mut flight.bio, flight.after, Way::Ring);
            }
        }
    }
}

impl Kernel {
    fn draw_latency(&mut self) -> Duration {
        let CrashConfig { fastest, slowest, .. } = *self.drive.config();
        let late = if self.rng.chance(1, 50) { 20 } else { 1 };
        Duration((fastest.0 + self.rng.below(slowest.0.saturating_sub(fastest.0) + 1)) * late)
    }
}

/// What of a request is done at once, in whole blocks.
fn command(request: &Request, rng: &mut Rng, block: usize) -> Bio {
    let mut some = |bytes: usize| match bytes / block {
        blocks @ 2.. if rng.chance(1, 6) => (1 + rng.below(blocks as u64 - 1) as usize) * block,
        _ => bytes,
    };
    match request {
        Request::Read { at, payload, skip, .. } => {
            let bytes = some(payload.bytes() - skip);
            let sector = Sector((at + *skip as u64) / 512);
            Bio::new(Op::Read, sector, (bytes / 512) as u32, Payload::Data(Data::zeroed(bytes)))
        }
        Request::Write { at, payload, skip, durable, .. } => {
            let bytes = taken(payload, *skip);
            writing(at + *skip as u64, &bytes[..some(bytes.len())], *durable)
        }
        Request::Sync { .. } => plain(Op::Flush, Sector::ZERO),
        other => panic!("a disk asked for {other:?}"),
    }
}

/// What becomes of a request that is due, and of what is told about it.
fn answer(kernel: &mut Kernel, (request, bio): (&mut Request, &mut Bio), after: u64) -> i32 {
    if kernel.rng.chance(1, 40) {
        kernel.drive.leaves(bio, Status::NotSupported);
        return if kernel.bug == Bug::NoRetry { Kernel::whole(request) } else { -EINTR };
    }
    if kernel.goes_wrong(200) {
        if bio.op == Op::Flush {
            kernel.flush_fails()
        } else {
            kernel.fault(bio)
        }
        kernel.is_in_doubt |= kernel.flushes_behind(bio);
        kernel.drive.leaves(bio, Status::NotSupported);
        return -[EAGAIN, ENOMEM][kernel.rng.below(2) as usize];
    }
    let result = kernel.carry_out(bio, after, Way::Ring);
    kernel.drive.leaves(bio, if result < 0 { Status::Io } else { Status::Ok });
    if let (Request::Write { skip: 1.., .. }, EOVERFLOW | ETOOMANYREFS) = (&*request, -result) {
        // A part of it was written: nobody may believe that it was refused.
        kernel.fault(bio);
    }
    if let (Request::Read { payload, skip, .. }, 0..) = (&mut *request, result) {
        fill(payload, *skip, &taken(&bio.payload, 0));
    }
    match (kernel.bug, bio.op) {
        (Bug::NoContinuation | Bug::DeafToWrite, Op::Write) if (result < 0) == (kernel.bug == Bug::DeafToWrite) => {
            Kernel::whole(request)
        }
        (Bug::NoReadContinuation, Op::Read) if result > 0 => Kernel::whole(request),
        _ => result,
    }
}

/// The ring, as the disk and its kernel have it.
#[derive(Clone)]
struct SharedQueue(Rc<RefCell<Queue>>);

impl RequestQueue for SharedQueue {
    fn submit(&mut self, token: Token, request: Request) -> Result<(), Request> {
        self.0.borrow_mut().arrives(token, request)
    }

    fn cancel(&mut self, _: Token) {}

    fn wait(&mut self, _: Option<time::Duration>) -> io::Result<()> {
        Ok(())
    }

    fn pop(&mut self) -> Option<Completion> {
        self.0.borrow_mut().done.pop_front()
    }

    fn in_flight(&self) -> usize {
        let queue = self.0.borrow();
        queue.flights.len() + queue.done.len()
    }
}

/// A zoned block device of a simulated kernel as a disk.
struct SimulatedBlk {
    disk: ZonedBlk,
    kernel: Handle,
    queue: SharedQueue,
    calls: Calls,
    /// A call that is done, and when that is told.
    called: Option<(Instant, Event)>,
    /// Until when the thread for calls has something else to do.
    busy: Instant,
}

/// Makes a disk as a swarm wants it, on a kernel with a bug.
pub fn make(
    config: &CrashConfig,
    mut choices: Choices,
    left: Option<Box<dyn Any>>,
    bug: Bug,
) -> Result<Box<dyn Powered>, String> {
    let medium = left.and_then(|left| left.downcast::<Medium>().ok()).map(|medium| *medium);
    let mut rng = choices.rng().clone();
    let drive = CrashDisk::restart(config.clone(), FaultPlan::none(), rng.draw(), medium);
    let drive = drive.map_err(|error| error.to_string())?;
    let reported: Vec<Zone> = drive.zones().zones(Sector::ZERO).collect();
    let kernel = Kernel {
        plugs: ZonePlugs::new(reported.iter().map(|zone| zone.wp.0)),
        now: Instant::ZERO,
        troubled: false,
        bug,
        fua: rng.chance(1, 2),
        resets_all: rng.chance(1, 2),
        believes_early: rng.chance(1, 2),
        flush_failed: false,
        is_in_doubt: false,
        faults: vec![0; reported.len()],
        all_faults: 0,
        reported,
        late_reset: None,
        rng,
        drive,
    };
    Ok(Box::new(SimulatedBlk::over(kernel)))
}

impl SimulatedBlk {
    fn over(mut kernel: Kernel) -> Self {
        let (limits, fua) = (kernel.limits().clone(), kernel.fua);
        let memory = if kernel.rng.chance(1, 4) { NOWHERE } else { 512 };
        let kernel = Handle(Arc::new(Mutex::new(kernel)));
        let parts = Parts {
            path: "/dev/sdz".into(),
            file: File::open("/dev/null").unwrap().into(),
            calls: Arc::new(kernel.clone()),
            limits,
            fua,
            alignment: (memory, 512),
            timeout: time::Duration::from_secs(30),
        };
        let queue = Queue { kernel: kernel.clone(), flights: BTreeMap::new(), arrived: 0, done: VecDeque::new() };
        let queue = SharedQueue(Rc::new(RefCell::new(queue)));
        let (helper, calls) = Helper::by_hand();
        let disk = ZonedBlk::new(parts, RingHandle::over(queue.clone()), helper);
        Self { disk, kernel, queue, calls, called: None, busy: Instant::ZERO }
    }

    /// What is done goes to the disk, which may ask for more.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        self.queue.0.borrow_mut().advance();
        while let Some(done) = self.queue.pop() {
            let payload = done.request.into_payload();
            self.disk.on_event(Event::Done { word: done.token.word, result: done.result, payload }, cx);
        }
        while self.calls_go_on(cx) {}
        let due = self.queue.0.borrow().flights.keys().next().map(|(due, _)| *due);
        let called = self.called.as_ref().map(|(due, _)| *due);
        let busy = Some(self.busy).filter(|busy| called.is_none() && *busy > cx.now());
        if let Some(next) = due.into_iter().chain(called).chain(busy).min() {
            cx.wake_at(next, KERNEL);
        }
    }

    /// Takes the next call, or tells of the one that is done; whether there was something to do.
    fn calls_go_on(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        match self.called.take_if(|(due, _)| *due <= now) {
            Some((_, done)) => {
                self.busy = now + self.kernel.kernel().draw_latency();
                self.disk.on_event(done, cx);
                return true;
            }
            None if self.called.is_some() || self.busy > now => return false,
            None => {}
        }
        let late = self.kernel.kernel().late_reset.take();
        late.into_iter().for_each(|mut bio| _ = self.kernel.kernel().manage(&mut bio));
        let Some((_, done)) = self.calls.next() else { return false };
        self.called = Some((now + self.kernel.kernel().draw_latency(), done));
        true
    }
}

impl BlockDevice for SimulatedBlk {
    fn limits(&self) -> &Limits {
        self.disk.limits()
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        {
            let kernel = &mut *self.kernel.kernel();
            kernel.now = cx.now();
            if (kernel.flush_failed || kernel.is_in_doubt) && (bio.op.is_write() || bio.op == Op::Flush) {
                kernel.fault(&bio);
            }
            if kernel.bug == Bug::NoPreflush {
                bio.flags = bio.flags.without(Flags::PREFLUSH);
            }
            if kernel.rng.chance(1, 2) {
                self.busy = self.busy.max(cx.now() + kernel.draw_latency());
            }
        }
        self.disk.submit(bio, cx);
        self.go_on(cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.kernel.kernel().now = cx.now();
        if !matches!(event, Event::Timer(KERNEL)) {
            self.disk.on_event(event, cx);
        }
        self.go_on(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.disk.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.disk.describe(out)
    }
}

impl Powered for SimulatedBlk {
    fn set_plan(&mut self, plan: FaultPlan) {
        let kernel = &mut *self.kernel.kernel();
        kernel.troubled = !plan.is_empty();
        kernel.drive.set_plan(plan);
    }

    fn expect(&mut self, discipline: Discipline) {
        self.kernel.kernel().drive.expect(discipline);
    }

    fn complaint(&self) -> Option<(Instant, String)> {
        self.kernel.kernel().drive.complaint()
    }

    fn faults(&self) -> u64 {
        let kernel = self.kernel.kernel();
        kernel.all_faults + kernel.drive.faults()
    }

    fn faults_in(&self, zone: ZoneNo) -> u64 {
        let kernel = self.kernel.kernel();
        kernel.faults[zone.index()] + kernel.drive.faults_in(zone)
    }

    fn has_failed(&self, zone: ZoneNo) -> bool {
        self.kernel.kernel().drive.has_failed(zone)
    }

    fn cut_power(&self, choices: &mut Choices) -> Box<dyn Any> {
        self.queue.0.borrow_mut().cut_power(choices.rng());
        if choices.rng().chance(1, 2) {
            let _ = self.calls.next();
        }
        Box::new(self.kernel.kernel().drive.cut_power(choices))
    }
}
