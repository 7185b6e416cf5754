use std::cell::Cell;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shingle_core::block::{BlockDevice, Cx, Limits, Op, Payload};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::parse_table;
use shingle_core::mapper::StateName;
use shingle_core::sector::Sector;
use shingle_sys::Part;

use super::*;
use crate::devices::{MappedName, Named};
use crate::mailbox::MailboxError;

/// Answers everything but flushes at once, and those with `flush`; `None` keeps them.
struct Disk {
    limits: Limits,
    flush: Option<Status>,
    flushes: Arc<AtomicU32>,
    #[expect(clippy::vec_box, reason = "bios stay where they are")]
    kept: Vec<Box<Bio>>,
}

impl Disk {
    fn new(flush: Option<Status>) -> Box<Self> {
        let limits = Limits { write_cache: true, ..Limits::new(1024) };
        Box::new(Self { limits, flush, flushes: Arc::default(), kept: Vec::new() })
    }
}

impl BlockDevice for Disk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.op != Op::Flush {
            return cx.complete(bio, Status::Ok);
        }
        self.flushes.fetch_add(1, Ordering::Relaxed);
        match self.flush {
            Some(status) => cx.complete(bio, status),
            None => self.kept.push(bio),
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.kept.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("disk of a test")
    }
}

fn read() -> Bio {
    let data = shingle_core::block::Data::zeroed(512);
    Bio::new(Op::Read, Sector(0), 1, Payload::Data(data))
}

/// Sends back what it receives, each byte through a read of the disk.
struct Echo {
    socket: Fd,
    port: Option<PortId>,
    receiving: bool,
    got: Option<u8>,
    closed: bool,
}

impl Echo {
    fn new(socket: UnixStream) -> Box<Self> {
        Box::new(Self { socket: socket.into(), port: None, receiving: false, got: None, closed: false })
    }
}

impl Source for Echo {
    fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>) {
        let Request::Receive { into, .. } = done.request else { return };
        self.receiving = false;
        if done.result <= 0 {
            self.closed = true;
            return;
        }
        self.got = Some(into[0]);
        let port = *self.port.get_or_insert_with(|| cx.open_port());
        cx.stack.submit(port, 0, DeviceId(0), Box::new(read()));
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        if self.port.is_some_and(|port| cx.stack.poll_completion(port).is_some()) {
            let parts = vec![Part::Bytes(vec![self.got.take().unwrap()])];
            cx.submit(1, Request::Send { socket: self.socket.clone(), parts, skip: 0 }).unwrap();
        }
        if self.closed {
            return Pump::Done;
        }
        if !self.receiving && self.got.is_none() {
            self.receiving = true;
            cx.submit(2, Request::Receive { socket: self.socket.clone(), into: vec![0], at: 0 }).unwrap();
        }
        Pump::Idle
    }

    fn stop(&mut self, cx: &mut SourceCx<'_>) {
        self.closed = true;
        cx.cancel(2);
    }
}

/// Never lets the shard sleep.
struct Busy;

impl Source for Busy {
    fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {}
    fn pump(&mut self, _: &mut SourceCx<'_>) -> Pump {
        Pump::Again
    }
    fn stop(&mut self, _: &mut SourceCx<'_>) {}
}

fn echo_shard(flush: Option<Status>) -> (ShardThread, UnixStream) {
    let (client, server) = UnixStream::pair().unwrap();
    let build = move |shard: &mut Shard| -> Result<(), ShardError> {
        shard.stack.add(Disk::new(flush)).unwrap();
        shard.spawn(Echo::new(server));
        Ok(())
    };
    (ShardThread::start("test", build).unwrap().0, client)
}

fn ping(client: &mut UnixStream, byte: u8) {
    use std::io::{Read as _, Write as _};
    client.write_all(&[byte]).unwrap();
    let mut got = [0];
    client.read_exact(&mut got).unwrap();
    assert_eq!(got[0], byte);
}

#[test]
fn completions_and_mail_arrive_beside_a_source_that_is_always_busy() {
    let (shard, mut client) = echo_shard(Some(Status::Ok));
    shard
        .mailbox()
        .post(|shard| {
            shard.spawn(Box::new(Busy));
        })
        .unwrap();
    (0..50).for_each(|n| ping(&mut client, n));
    assert_eq!(shard.mailbox().ask(|shard| shard.sources.slots.len()), Ok(2));
    let reads = shard.mailbox().ask(|shard| shard.stack.counters(DeviceId(0)).ios[Op::Read as usize]);
    assert_eq!(reads, Ok(50));
}

#[test]
fn a_stop_drains_the_sources_and_then_flushes() {
    let (shard, mut client) = echo_shard(Some(Status::Ok));
    ping(&mut client, 1);
    let flushes = shard.mailbox().ask(|shard| shard.stack.device::<Disk>(DeviceId(0)).unwrap().flushes.clone());
    shard.stop().unwrap();
    assert_eq!(flushes.unwrap().load(Ordering::Relaxed), 1);
    use std::io::Read as _;
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the connection is closed");
}

#[test]
fn a_stop_suspends_mapped_devices_from_the_top_down_before_it_flushes() {
    let mut shard = Shard::new().unwrap();
    let device = shard.stack.add(Disk::new(Some(Status::Ok))).unwrap();
    shard.devices.add_disk(Named { name: "disk".into(), kind: "file", device, leaf: device, plug: None }, None);
    for (name, below) in [("low", "disk"), ("high", "low"), ("top", "high"), ("beside", "disk")] {
        let lines = parse_table(&format!("0 1024 linear {below} 0")).unwrap();
        shard.devices.make(MappedName { name, uuid: "" }, lines, false, (&mut shard.stack, Instant::ZERO)).unwrap();
    }
    let flushes = shard.stack.device::<Disk>(device).unwrap().flushes.clone();
    shard.stop();
    let mut order: Vec<String> = Vec::new();
    while shard.stage != Stage::Stopped {
        shard.round().unwrap();
        let at_rest = |name: &&str| shard.devices.mapper.info(name, &shard.stack).unwrap().state != StateName::Active;
        let at_rest: Vec<&str> = shard.devices.mapper.names().filter(at_rest).collect();
        let new: Vec<String> =
            at_rest.iter().filter(|name| !order.contains(&(**name).into())).map(|name| (*name).into()).collect();
        assert!(new.is_empty() || flushes.load(Ordering::Relaxed) == 0, "{new:?} after a flush");
        order.extend(new);
    }
    assert_eq!((order.join(" ").as_str(), flushes.load(Ordering::Relaxed)), ("top beside high low", 1));
}

#[test]
fn a_stop_waits_for_what_a_removed_device_brings_to_an_end() {
    let mut shard = Shard::new().unwrap();
    let completion = Duration::from_millis(1);
    let config = NullConfig { memory_backed: true, completion, ..NullConfig::new(1024) };
    for name in ["data", "log"] {
        let device = shard.stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        shard.devices.add_disk(Named { name: name.into(), kind: "null", device, leaf: device, plug: None }, None);
    }
    let lines = parse_table("0 1024 log-writes data log").unwrap();
    shard
        .devices
        .make(MappedName { name: "logged", uuid: "" }, lines, false, (&mut shard.stack, Instant::ZERO))
        .unwrap();
    shard.devices.mapper.remove("logged", false, &mut shard.stack).unwrap();
    assert!(shard.stack.has_abandoned(), "the end of the log is on its way");
    shard.stop();
    while !matches!(shard.stage, Stage::Flushing { .. } | Stage::Stopped) {
        shard.round().unwrap();
    }
    assert!(!shard.stack.has_abandoned());
    shard.run().unwrap();
}

/// A shard with a disk for data and one for a log, and the flushes of each.
fn two_disks() -> (Shard, [Arc<AtomicU32>; 2]) {
    let mut shard = Shard::new().unwrap();
    let flushes = ["data", "log"].map(|name| {
        let disk = Disk::new(Some(Status::Ok));
        let flushes = disk.flushes.clone();
        let device = shard.stack.add(disk).unwrap();
        shard.devices.add_disk(Named { name: name.into(), kind: "file", device, leaf: device, plug: None }, None);
        flushes
    });
    (shard, flushes)
}

fn make(shard: &mut Shard, name: &str, table: &str) {
    let lines = parse_table(table).unwrap();
    shard.devices.make(MappedName { name, uuid: "" }, lines, false, (&mut shard.stack, Instant::ZERO)).unwrap();
}

/// Its end of the log waited at a door that was shut meanwhile, and the stop for that.
#[test]
fn what_a_removed_device_lies_on_stays_open_until_that_has_ended() {
    let (mut shard, _) = two_disks();
    make(&mut shard, "low", "0 1024 linear log 0");
    make(&mut shard, "logged", "0 1024 log-writes data low");
    shard.devices.mapper.remove("logged", false, &mut shard.stack).unwrap();
    assert!(shard.stack.has_abandoned(), "the end of the log is on its way");
    shard.stop();
    while shard.stage != Stage::Stopped {
        assert!(shard.round().is_ok(), "the end of the log waits at a door");
    }
    shard.run().unwrap();
}

/// The target began to log that flush, behind the end of its log, and the stop did not wait for it.
#[test]
fn the_last_flush_is_no_news_to_targets_that_are_at_rest() {
    let (mut shard, flushes) = two_disks();
    make(&mut shard, "logged", "0 1024 log-writes data log");
    shard.stop();
    shard.run().unwrap();
    assert_eq!(flushes.map(|flushes| flushes.load(Ordering::Relaxed)), [1, 1]);
}

#[test]
fn the_last_flush_goes_to_disks_and_not_through_doors_that_are_shut() {
    let (mut shard, flushes) = two_disks();
    // A target that is a device of its own, over a door.
    make(&mut shard, "low", "0 1024 linear data 0");
    make(&mut shard, "logged", "0 1024 log-writes low log");
    shard.stop();
    while shard.stage != Stage::Stopped {
        assert!(shard.round().is_ok(), "a flush waits at a door");
    }
    assert!(flushes.iter().all(|flushes| flushes.load(Ordering::Relaxed) > 0));
    shard.run().unwrap();
}

/// Rounds from the request to stop until all of so many devices in towers of three are suspended.
fn rounds_to_rest(towers: usize) -> usize {
    let mut shard = Shard::new().unwrap();
    let device = shard.stack.add(Disk::new(Some(Status::Ok))).unwrap();
    shard.devices.add_disk(Named { name: "disk".into(), kind: "file", device, leaf: device, plug: None }, None);
    for n in 0..3 * towers {
        let below = if n % 3 == 0 { "disk".to_owned() } else { format!("d{}", n - 1) };
        let lines = parse_table(&format!("0 1024 linear {below} 0")).unwrap();
        shard
            .devices
            .make(MappedName { name: &format!("d{n}"), uuid: "" }, lines, false, (&mut shard.stack, Instant::ZERO))
            .unwrap();
    }
    shard.stop();
    let mut rounds = 0;
    while !matches!(shard.stage, Stage::Flushing { .. } | Stage::Stopped) {
        shard.round().unwrap();
        rounds += 1;
    }
    let is_suspended = |(_, state)| state == StateName::Suspended;
    assert!(shard.devices.mapper.states().all(is_suspended));
    rounds
}

#[test]
fn a_stop_takes_as_many_steps_as_there_are_layers_however_many_devices_there_are() {
    assert_eq!(rounds_to_rest(100), rounds_to_rest(1));
}

#[test]
fn a_flush_that_fails_at_the_end_is_reported() {
    let (shard, _client) = echo_shard(Some(Status::Medium));
    let error = shard.stop().unwrap_err();
    assert!(matches!(&error, ShardError::Flush(failed) if failed == &[(DeviceId(0), Status::Medium)]), "{error}");
    assert!(error.to_string().contains("may be lost"), "{error}");
}

#[test]
fn a_stop_with_commands_that_are_never_answered_ends_and_names_them() {
    let mut shard = Shard::new().unwrap();
    shard.grace = Duration::from_millis(1);
    let disk = shard.stack.add(Disk::new(None)).unwrap();
    shard.devices.add_disk(Named { name: "mine".into(), kind: "file", device: disk, leaf: disk, plug: None }, None);
    shard.submit(disk, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None), |_, _, _| ());
    shard.round().unwrap();
    shard.stop();
    let error = shard.run().unwrap_err().to_string();
    let words = ["2 bios were stuck", "FLUSH 0+0 in device 0 (mine)", "last flush", "may be lost", "kernel log"];
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

#[test]
fn a_stopped_shard_says_so_to_those_who_ask() {
    let (shard, _client) = echo_shard(Some(Status::Ok));
    let mailbox = shard.mailbox().clone();
    shard.stop().unwrap();
    assert_eq!(mailbox.ask(|_| ()), Err(MailboxError::Stopped));
}

#[test]
fn bios_that_are_stuck_are_named_with_their_device_and_age() {
    let mut shard = Shard::new().unwrap();
    let disk = shard.stack.add(Disk::new(None)).unwrap();
    shard.submit(disk, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None), |_, _, _| ());
    shard.round().unwrap_or_else(|e| panic!("{e}"));
    let stuck = shard.stuck(Duration::ZERO);
    assert_eq!((stuck.len(), stuck[0].device, stuck[0].bio.as_str()), (1, disk, "FLUSH 0+0"));
    assert!(shard.stuck(Duration(u64::MAX)).is_empty());
    let error = ShardError::Stuck(stuck).to_string();
    assert!(error.contains("FLUSH 0+0 in device 0"), "{error}");
}

#[test]
fn the_port_of_a_finished_source_is_used_again_once_nothing_is_under_way_on_it() {
    let mut shard = Shard::new().unwrap();
    shard.stack.add(Disk::new(Some(Status::Ok))).unwrap();
    for _ in 0..3 {
        let (client, server) = UnixStream::pair().unwrap();
        shard.spawn(Echo::new(server));
        use std::io::Write as _;
        (&client).write_all(b"x").unwrap();
        drop(client);
        shard.run_until(|shard| shard.sources.is_empty() && shard.sources.ports.draining.is_empty()).unwrap();
        assert_eq!(shard.sources.ports.free.len(), 1);
    }
}

#[test]
fn a_completion_for_a_source_that_is_gone_reaches_nobody_else() {
    /// Leaves at once, with a request in flight.
    struct Hasty(Fd);
    impl Source for Hasty {
        fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {
            panic!("it is gone");
        }
        fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
            cx.submit(0, Request::Readable { file: self.0.clone() }).unwrap();
            Pump::Done
        }
        fn stop(&mut self, _: &mut SourceCx<'_>) {}
    }
    struct Heir(Rc<Cell<bool>>);
    impl Source for Heir {
        fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {
            self.0.set(true);
        }
        fn pump(&mut self, _: &mut SourceCx<'_>) -> Pump {
            Pump::Idle
        }
        fn stop(&mut self, _: &mut SourceCx<'_>) {}
    }
    let (mut client, server) = UnixStream::pair().unwrap();
    let mut shard = Shard::new().unwrap();
    shard.spawn(Box::new(Hasty(server.into())));
    shard.run_until(|shard| shard.sources.is_empty()).unwrap();
    let disturbed = Rc::new(Cell::new(false));
    shard.spawn(Box::new(Heir(disturbed.clone())));
    assert_eq!(shard.ring.in_flight(), 2, "the mailbox's and the late one");
    use std::io::Write as _;
    client.write_all(b"x").unwrap();
    shard.run_until(|shard| shard.ring.in_flight() == 1).unwrap();
    assert!(!disturbed.get());
}

#[test]
fn a_source_is_woken_at_the_time_it_asked_for() {
    struct Sleeper(Option<Instant>);
    impl Source for Sleeper {
        fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {}
        fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
            let at = *self.0.get_or_insert(cx.now() + Duration::from_millis(1));
            if cx.now() >= at {
                return Pump::Done;
            }
            cx.wake_at(at);
            cx.wake_at(at + Duration::from_millis(1_000_000));
            Pump::Idle
        }
        fn stop(&mut self, _: &mut SourceCx<'_>) {}
    }
    let mut shard = Shard::new().unwrap();
    shard.spawn(Box::new(Sleeper(None)));
    shard.run_until(|shard| shard.sources.is_empty()).unwrap();
}

#[test]
fn a_shard_that_cannot_be_built_says_why_and_leaves_no_thread() {
    let result = ShardThread::start("test", |_: &mut Shard| Err::<(), _>(ShardError::Panicked));
    assert!(matches!(result.map(|_| ()), Err(ShardError::Panicked)));
}

/// Counts its turns, and asks for another one at its time.
struct Counting {
    turns: Rc<Cell<usize>>,
    alarm: Option<Instant>,
}

impl Source for Counting {
    fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {}

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        self.turns.set(self.turns.get() + 1);
        self.alarm.into_iter().for_each(|at| cx.wake_at(at));
        Pump::Idle
    }

    fn stop(&mut self, _: &mut SourceCx<'_>) {}
}

#[test]
fn a_round_costs_nothing_for_sources_that_have_nothing_to_do() {
    let (mut shard, turns) = (Shard::new().unwrap(), Rc::new(Cell::new(0)));
    for _ in 0..100 {
        shard.spawn(Box::new(Counting { turns: turns.clone(), alarm: None }));
    }
    let mut later = Instant(u64::MAX);
    for round in 0..100 {
        shard.hurry();
        // Others keep the shard busy.
        later.0 -= round;
        shard.spawn(Box::new(Counting { turns: Rc::default(), alarm: Some(later) }));
        shard.round().unwrap();
    }
    assert_eq!(turns.get(), 100, "the first turn of each");
    assert_eq!(shard.sources.next_alarm(), Some(later));
}

#[test]
fn an_alarm_that_moves_on_is_kept_once_and_one_that_comes_sooner_is_heard_in_time() {
    struct Shifting(Rc<Cell<Instant>>, Rc<Cell<usize>>);
    impl Source for Shifting {
        fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {}
        fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
            self.1.set(self.1.get() + 1);
            cx.wake_at(self.0.get());
            Pump::Idle
        }
        fn stop(&mut self, _: &mut SourceCx<'_>) {}
    }
    let (mut shard, at, turns) = (Shard::new().unwrap(), Rc::new(Cell::new(Instant(u64::MAX / 2))), Rc::default());
    let id = shard.spawn(Box::new(Shifting(at.clone(), Rc::clone(&turns))));
    for _ in 0..50 {
        at.set(Instant(at.get().0 + 1));
        shard.sources.notify(id);
        shard.round().unwrap();
    }
    assert_eq!((shard.sources.alarms.len(), turns.get()), (1, 50));
    at.set(shard.now());
    shard.sources.notify(id);
    shard.round().unwrap();
    // What it asked for is past: its next turn is not waited for.
    at.set(Instant(u64::MAX));
    shard.round().unwrap();
    assert_eq!((shard.sources.alarms.len(), turns.get()), (1, 52));
}

#[test]
fn who_reads_mail_has_a_turn_after_it_and_nobody_else() {
    let (mut shard, turns) = (Shard::new().unwrap(), [Rc::new(Cell::new(0)), Rc::new(Cell::new(0))]);
    let [reader, _] = [0, 1].map(|n| shard.spawn(Box::new(Counting { turns: turns[n].clone(), alarm: None })));
    shard.notify_of_mail(reader);
    shard.round().unwrap();
    shard.mailbox().post(|_| ()).unwrap();
    shard.run_until(|_| turns[0].get() == 2).unwrap();
    assert_eq!(turns[1].get(), 1);
}
