//! One seed of a shard that serves a file over NBD.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use shingle_core::frontend::nbd::SessionLimits;
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_host::disk::file::{self, Options};
use shingle_host::serve::nbd::{Nbd, NbdOptions};
use shingle_host::serve::{Directory, Export};
use shingle_host::shard::{Shard, ShardError};
use shingle_host::tls::TlsServer;
use shingle_sim::volume::{Volume, VolumeRequest};
use shingle_sys::RingHandle;

use super::client::{Client, EXPORT, Habit, World};
use super::file::{BLOCKS, PATH, audit, kernel, new_tree};
use super::kernel::Shared;
use super::net::{Bug, Line, Net};
use super::operator::Operator;
use super::tls::SERVER;

/// What a run without a broken promise did.
#[derive(Debug, PartialEq, Eq)]
pub struct Tally {
    pub replies: u64,
    /// Connections that did not end with a goodbye.
    pub ended: u64,
    /// Whether the disk kept the stop from being a clean one.
    pub stuck: bool,
    /// When it was over.
    pub time: Instant,
}

/// Connections, mapped devices and the last flush have 10 s each.
const MOST_STOP: Duration = Duration::from_millis(31_000);
/// Most rounds of one seed.
const MOST_ROUNDS: u64 = 200_000;

/// Runs one seed.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64, bug: Bug) -> Result<Tally, String> {
    let (mut rng, has_tls) = (Rng::new(seed), seed % 2 == 1);
    let disk = kernel(new_tree(), &mut rng, super::kernel::Bug::None);
    let clients: Vec<Client> = (0..2 + rng.below(6)).map(|_| Client::new(&mut rng, has_tls)).collect();
    let ended = clients.iter().filter(|client| client.habit != Habit::Good).count() as u64;
    let (clock, volume) = (Rc::new(Cell::new(Instant::ZERO)), Volume::new(BLOCKS));
    let is_troubled = rng.chance(1, 3);
    // With a disk that does not answer for minutes a stop has to end all the same.
    let stalls = rng.chance(1, 6);
    let early = (stalls || rng.chance(1, 4)).then(|| Instant::ZERO + Duration::from_micros(rng.below(30_000)));
    let limits = SessionLimits { requests: 2 + rng.below(8) as usize, bytes: 32 << rng.below(3) << 10 };
    let world = World { volume, rng, now: Instant::ZERO, flawless: true, stopping: false, replies: 0 };
    let mut net = Net::new(clock.clone(), disk.clone(), clients, world);
    (net.bug, net.troubled) = (bug, is_troubled);
    let line = Line(Rc::new(RefCell::new(net)));
    let tls = has_tls.then(|| SERVER.clone());
    let told = serve(&line, (&clock, early), (seed, limits, tls), (is_troubled, stalls));
    let net = &mut *line.0.borrow_mut();
    if let Some(what) = net.broken.take() {
        return Err(format!("seed {seed}: {what}"));
    }
    let at = |what| format!("seed {seed}: {what}");
    let stuck = told.map_err(at)?;
    check_the_end(net, &disk).map_err(at)?;
    Ok(Tally { replies: net.world.replies, ended, stuck, time: clock.get() })
}

/// The seed, what a client may hold, and who the server is.
type Serving = (u64, SessionLimits, Option<Arc<TlsServer>>);

/// Puts the file on a shard and exports it.
fn furnish(
    line: &Line,
    clock: &Rc<Cell<Instant>>,
    (seed, limits, tls): Serving,
) -> Result<(Shard, Nbd, Operator), String> {
    let ring = RingHandle::over(line.clone());
    let mut shard = Shard::simulated(ring.clone(), clock.clone()).map_err(|error| error.to_string())?;
    let disk = line.0.borrow().disk.clone();
    let disk = file::open_on(Rc::new(disk), Path::new(PATH), &Options::default(), ring);
    let disk = shard.stack.add(Box::new(disk.map_err(|error| error.to_string())?));
    let disk = disk.map_err(|error| error.to_string())?;
    let log = std::sync::Arc::new(|_: &shingle_host::serve::Complaint<'_>| ());
    let options =
        NbdOptions { session: limits, memory_bytes: 128 << 10, keep_bytes: 64 << 10, log, ..NbdOptions::default() };
    let nbd = Nbd::install(&mut shard, options.clone());
    let directory = Directory::default();
    let added = directory.add(Export::new(EXPORT, disk, shard.stack.limits(disk)));
    added.map_err(|error| error.to_string())?;
    let operator = Operator::new(seed, (&nbd, options), directory, tls)?;
    Ok((shard, nbd, operator))
}

/// Serves until all clients are done, and stops. Whether the disk kept the stop from being a clean one.
fn serve(
    line: &Line,
    (clock, early): (&Rc<Cell<Instant>>, Option<Instant>),
    serving: Serving,
    (is_troubled, stalls): (bool, bool),
) -> Result<bool, String> {
    let (mut shard, nbd, mut operator) = furnish(line, clock, serving)?;
    {
        let kernel = line.0.borrow().disk.clone();
        let kernel = &mut *kernel.0.borrow_mut();
        (kernel.troubled, kernel.stalls) = (is_troubled, stalls);
    }
    let mut rounds = 0;
    let over = |shard: &mut Shard| {
        rounds += 1;
        let net = &mut *line.0.borrow_mut();
        if let Err(what) = operator.turn(net, shard.now()) {
            net.broken.get_or_insert(what);
        }
        rounds > MOST_ROUNDS || net.is_over() || early.is_some_and(|early| early < shard.now())
    };
    shard.run_until(over).map_err(|error| error.to_string())?;
    if rounds > MOST_ROUNDS {
        return Err(format!("stuck: {rounds} rounds"));
    }
    {
        let net = &mut *line.0.borrow_mut();
        (net.world.stopping, net.wakes_at) = (true, None);
    }
    shard.stop();
    let began = shard.now();
    let stopped = shard.run();
    if shard.now().since(began) > MOST_STOP {
        return Err(format!("the stop took {:?}", shard.now().since(began)));
    }
    if nbd.connections() > 0 {
        return Err(format!("{} connections are left", nbd.connections()));
    }
    let net = &mut *line.0.borrow_mut();
    for client in &mut net.clients {
        client.look(&mut net.world)?;
    }
    // What was acknowledged is durable after a stop that went well.
    let flush = net.world.volume.submit(VolumeRequest::FLUSH, shard.now());
    let stuck = matches!(stopped, Err(ShardError::Stuck(_)));
    let told = match stopped {
        Ok(()) => net.world.volume.succeed(flush, std::iter::empty()),
        Err(ShardError::Flush(_)) if net.disk.0.borrow().all_faults > 0 => net.world.volume.fail(flush).map(drop),
        Err(ShardError::Stuck(stuck)) if stalls && !stuck.is_empty() => net.world.volume.fail(flush).map(drop),
        Err(error) => return Err(format!("the stop failed: {error}")),
    };
    told.map(|()| stuck).map_err(|(rule, what)| format!("{rule:?}: {what}"))
}

/// Nothing is left in the ring or at a socket, and what is on the disk is what may be there.
fn check_the_end(net: &mut Net, disk: &Shared) -> Result<(), String> {
    let left = net.left_over();
    if !left.is_empty() {
        return Err(format!("requests of sockets that are gone are in the ring: {left:?}"));
    }
    if let Some(place) = net.clients.iter().position(|client| client.line.is_some() && !client.is_over) {
        return Err(format!("the socket of client {place} is open, and the shard has stopped"));
    }
    let World { volume, rng, .. } = &mut net.world;
    if volume.outstanding() > 0 {
        return Err(format!("without an answer: {:?}", volume.oldest()));
    }
    volume.power_cut();
    let left = disk.0.borrow().cut_power(rng);
    audit(volume, rng, left)
}
