//! What the stack promises to devices and submitters.

use shingle_core::block::{
    Action, Admitted, Bio, BlockDevice, Cx, DeviceId, Event, FRAMES, Flags, Limits, Op, Payload, Reason, Stack,
    StackError, Status, Trace, check,
};
use shingle_core::harness::{Harness, MockDevice};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

use crate::desk::*;

/// Sends everything on and wants it back, as a layer with per-bio state does.
struct Watcher(Limits, [DeviceId; 1]);

impl BlockDevice for Watcher {
    fn limits(&self) -> &Limits {
        &self.0
    }
    fn below(&self) -> &[DeviceId] {
        &self.1
    }
    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let word = bio.sector.0;
        cx.submit(self.1[0], bio, word);
    }
    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        assert_eq!(bio.sector.0, word, "the word comes back with its bio");
        cx.complete(bio, status);
    }
    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("watcher")
    }
}

fn memory(sectors: usize) -> Payload {
    Payload::Data(shingle_core::block::Data::zeroed(sectors * 512))
}

fn watched(desk: MockDevice) -> Harness {
    Harness::new(desk, |below, limits| Box::new(Watcher(limits.clone(), [below])), |_, _| ())
}

#[test]
fn a_bio_comes_back_once_with_its_memory_and_the_status_of_the_device() {
    for status in [Status::Ok, Status::Medium] {
        let mut h = watched(MockDevice::regular());
        let port = h.stack.open_port();
        h.stack.submit(port, 77, h.top, Box::new(write(8, 8)));
        assert!(h.stack.poll_completion(port).is_none(), "nothing completes inside of submit");
        h.run();
        h.end(status);
        let done = h.stack.poll_completion(port).unwrap();
        assert_eq!((done.tag, done.status, done.bio.payload.bytes()), (77, status, 4096));
        assert!(done.bio.is_idle() && h.stack.poll_completion(port).is_none());
    }
}

#[test]
fn a_split_bio_completes_after_its_last_piece_with_the_first_failure() {
    let mut desk = MockDevice::regular();
    desk.limits_mut().max_sectors = Some(4);
    let mut h = watched(desk);
    let tag = h.submit(read(0, 11));
    assert_eq!(at_desk(&h), ["READ 0+4", "READ 4+4", "READ 8+3"]);
    h.end_number(1, Status::Timeout, 0);
    h.end_number(0, Status::Medium, 0);
    assert_eq!(h.statuses(), []);
    h.end_number(2, Status::Ok, 0);
    assert_eq!(h.statuses(), [(tag, Status::Timeout)]);
}

#[test]
fn a_split_read_fills_the_memory_of_the_whole() {
    use shingle_core::device::{NullConfig, NullDevice};
    let config = NullConfig { memory_backed: true, max_sectors: Some(3), ..NullConfig::new(64) };
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
    let port = stack.open_port();
    stack.submit(port, 0, disk, Box::new(write(5, 20)));
    stack.submit(port, 1, disk, Box::new(Bio::new(Op::Read, Sector(5), 20, memory(20))));
    stack.turn(Instant::ZERO);
    assert_eq!(stack.poll_completion(port).unwrap().status, Status::Ok);
    let read = stack.poll_completion(port).unwrap();
    let expected: Vec<u8> = (5..25u8).flat_map(|n| [n; 512]).collect();
    assert_eq!(read.bio.payload.segments()[0].to_vec(), expected);
}

#[test]
fn the_entry_check_refuses_what_a_device_must_never_see() {
    let limits = Limits { logical_block_bytes: 4096, physical_block_bytes: 4096, ..Limits::new(1 << 20) };
    let mut zoned = MockDevice::zoned(4, 64, 64, 1).limits_mut().clone();
    zoned.max_write_zeroes = Some(16);
    let read_only = Limits { read_only: true, ..zoned.clone() };
    let short = Bio::new(Op::Read, Sector(0), 8, memory(4));
    let cases = [
        ("misaligned start", read(1, 8), &limits, Err(Status::Io)),
        ("misaligned length", read(8, 4), &limits, Err(Status::Io)),
        ("past the end", read((1 << 20) - 8, 16), &limits, Err(Status::Io)),
        (
            "around the end of the numbers",
            Bio::new(Op::Discard, Sector(u64::MAX - 7), 8, Payload::None),
            &zoned,
            Err(Status::NotSupported),
        ),
        (
            "sector overflow",
            Bio::new(Op::WriteZeroes, Sector(u64::MAX - 7), 16, Payload::None),
            &zoned,
            Err(Status::Io),
        ),
        ("no length", Bio::new(Op::Read, Sector(0), 0, Payload::None), &limits, Err(Status::Io)),
        ("no memory", Bio::new(Op::Read, Sector(0), 8, Payload::None), &limits, Err(Status::Invalid)),
        ("too little memory", short, &limits, Err(Status::Invalid)),
        (
            "discard where there is none",
            Bio::new(Op::Discard, Sector(0), 8, Payload::None),
            &limits,
            Err(Status::NotSupported),
        ),
        ("append to a regular device", append(0, 8), &limits, Err(Status::NotSupported)),
        ("append inside of a zone", data(Op::ZoneAppend, 65, 1), &zoned, Err(Status::Io)),
        ("append longer than a zone", append(1, 65), &zoned, Err(Status::Io)),
        ("reset inside of a zone", Bio::new(Op::ZoneReset, Sector(65), 0, Payload::None), &zoned, Err(Status::Invalid)),
        ("reset past the end", reset(4), &zoned, Err(Status::Invalid)),
        ("report of a regular device", report(), &limits, Err(Status::NotSupported)),
        ("report without room", Bio::new(Op::ReportZones, Sector(0), 0, Payload::None), &zoned, Err(Status::Invalid)),
        ("write to a read-only device", write(64, 8), &read_only, Err(Status::ReadOnly)),
        ("finish on a read-only device", finish(1), &read_only, Err(Status::ReadOnly)),
        ("read of a read-only device", read(64, 8), &read_only, Ok(Admitted::Whole)),
        ("read across zones", read(60, 8), &zoned, Ok(Admitted::Split(4))),
        (
            "zeroes longer than the device takes",
            Bio::new(Op::WriteZeroes, Sector(64), 20, Payload::None),
            &zoned,
            Ok(Admitted::Split(16)),
        ),
        ("across zones, and must not wait", read(60, 8).with_flags(Flags::NOWAIT), &zoned, Err(Status::Again)),
        ("flush of a device without cache", flush(), &limits, Ok(Admitted::Done)),
    ];
    for (name, mut bio, limits, expected) in cases {
        assert_eq!(check(&mut bio, limits).map_err(|reason| Status::from(&reason)), expected, "{name}");
    }
}

#[test]
fn fua_and_preflush_mean_nothing_to_a_device_that_loses_nothing() {
    let mut bio = write(0, 8).with_flags(Flags::FUA.with(Flags::PREFLUSH));
    assert_eq!(check(&mut bio, &Limits::new(64)), Ok(Admitted::Whole));
    assert_eq!(bio.flags, Flags::NONE);
}

#[test]
fn splits_of_zone_writes_keep_to_the_write_granularity() {
    let mut limits = MockDevice::zoned(4, 64, 64, 0).limits_mut().clone();
    limits.max_sectors = Some(13);
    limits.zoned.as_mut().unwrap().write_granularity_bytes = 4096;
    assert_eq!(check(&mut write(0, 64), &limits), Ok(Admitted::Split(8)));
    assert_eq!(check(&mut read(0, 64), &limits), Ok(Admitted::Split(13)), "reads keep to the block");
    limits.max_sectors = Some(7);
    let refused = check(&mut write(0, 64), &limits);
    assert_eq!(refused, Err(Reason::CannotCut { most: 7, unit: 8 }), "a unit that the device cannot take in one");
}

#[test]
fn a_write_between_the_physical_blocks_of_a_sequential_zone_is_refused_by_that_name() {
    let mut limits = MockDevice::zoned(4, 64, 64, 1).limits_mut().clone();
    limits.zoned.as_mut().unwrap().write_granularity_bytes = 4096;
    for (sector, sectors) in [(64, 1), (65, 8), (64, 12), (127, 1), (127, 8)] {
        for op in [Op::Write, Op::WriteZeroes] {
            let refused = check(&mut data(op, sector, sectors), &limits);
            assert_eq!(refused, Err(Reason::ZoneWriteUnit { unit: 8 }), "{op:?} {sector}+{sectors}");
        }
        assert!(check(&mut read(sector, sectors), &limits).is_ok(), "reads keep to logical blocks");
    }
    limits.zoned.as_mut().unwrap().max_append = Some(64);
    assert_eq!(check(&mut data(Op::ZoneAppend, 64, 1), &limits), Err(Reason::ZoneWriteUnit { unit: 8 }));
    assert_eq!(check(&mut data(Op::ZoneAppend, 64, 8), &limits), Ok(Admitted::Whole));
    assert_eq!(check(&mut write(63, 1), &limits), Ok(Admitted::Whole), "conventional zones take logical blocks");
    assert_eq!(
        check(&mut write(64, 65), &limits),
        Ok(Admitted::Split(64)),
        "what is in the next zone is checked there"
    );
}

/// The gate in front of the check must admit nothing that the check would refuse, split or change.
#[test]
fn random_bios_meet_the_same_answer_at_the_gate_and_at_the_check() {
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let mut whole = 0;
    for round in 0..4000usize {
        let mut limits =
            if random(2) == 0 { Limits::new(512) } else { MockDevice::zoned(8, 64, 64, 1).limits_mut().clone() };
        limits.max_sectors = [None, Some(8), Some(3)][random(3) as usize];
        if let Some(zoned) = &mut limits.zoned {
            zoned.write_granularity_bytes = [512, 1024][random(2) as usize];
        }
        limits.read_only = random(4) == 0;
        limits.write_cache = random(2) == 0;
        let mut desk = MockDevice::with(limits.clone(), vec![]);
        *desk.limits_mut() = limits.clone();
        let op = [Op::Read, Op::Write, Op::Discard, Op::Flush][random(4) as usize];
        let flags = [Flags::NONE, Flags::NONE, Flags::FUA, Flags::NOWAIT][round % 4];
        let (sector, sectors) = (random(520), random(20) as u32);
        let bio = || data(op, sector, sectors).with_flags(flags);
        let mut expected = bio();
        let checked = check(&mut expected, &limits);
        let mut stack = Stack::new();
        let desk = stack.add(Box::new(desk)).unwrap();
        let port = stack.open_port();
        stack.submit(port, 0, desk, Box::new(bio()));
        stack.turn(Instant::ZERO);
        let arrived = stack.device::<MockDevice>(desk).unwrap().held();
        match checked {
            Ok(Admitted::Whole) => {
                whole += 1;
                assert_eq!(
                    (arrived.len(), arrived[0].sectors, arrived[0].flags),
                    (1, expected.sectors, expected.flags)
                );
            }
            Ok(Admitted::Split(front)) => assert_eq!(arrived[0].sectors, front),
            Ok(Admitted::Done) | Err(_) => assert!(arrived.is_empty(), "{sector}+{sectors}: {arrived:?}"),
        }
    }
    assert!(whole > 300, "the test must meet the common case: {whole}");
}

#[test]
fn suspended_devices_hold_bios_at_the_door_in_order_and_drain_what_is_inside() {
    let mut h = watched(MockDevice::regular());
    h.submit(write(0, 8));
    h.stack.suspend(h.top);
    h.submit_all([write(8, 8), write(16, 8)]);
    assert_eq!(h.held().len(), 1);
    assert!(!h.stack.is_drained(h.top));
    h.end(Status::Ok);
    assert!(h.stack.is_drained(h.top) && h.statuses().len() == 1);
    h.stack.resume(h.top);
    h.run();
    assert_eq!(at_desk(&h), ["WRITE 8+8", "WRITE 16+8"]);
}

#[test]
fn a_device_is_replaced_only_when_it_is_suspended_and_drained() {
    let mut h = watched(MockDevice::regular());
    let other = || Box::new(Watcher(Limits { read_only: true, ..Limits::new(64) }, [DeviceId(0)]));
    assert!(matches!(h.stack.replace(h.top, other()), Err(StackError::Busy { .. })));
    h.submit(write(0, 8));
    h.stack.suspend(h.top);
    assert!(matches!(h.stack.replace(h.top, other()), Err(StackError::Busy { in_flight: 1, .. })));
    let waiting = h.submit_all([read(0, 8), write(8, 8), read(64, 8)]);
    h.end(Status::Ok);
    h.stack.replace(h.top, other()).unwrap();
    h.stack.resume(h.top);
    h.run();
    h.end_all(Status::Ok);
    let mut outcomes = h.statuses();
    outcomes.sort_by_key(|(tag, _)| *tag);
    // What waited is checked against the limits of the device that it meets.
    let (ok, read_only, past_end) = (Status::Ok, Status::ReadOnly, Status::Io);
    assert_eq!(outcomes, [(0, ok), (waiting[0], ok), (waiting[1], read_only), (waiting[2], past_end)]);
}

#[test]
fn a_stack_that_is_too_deep_or_hangs_in_the_air_is_refused() {
    let mut stack = Stack::new();
    let mut top = stack.add(Box::new(MockDevice::regular())).unwrap();
    let limits = stack.limits(top).clone();
    let error = loop {
        match stack.add(Box::new(Watcher(limits.clone(), [top]))) {
            Ok(id) => top = id,
            Err(error) => break error,
        }
    };
    assert_eq!((error.clone(), stack.devices()), (StackError::TooDeep, FRAMES - 2));
    assert!(error.to_string().contains("flatter"));
    // The deepest stack that is allowed works, splits included.
    let port = stack.open_port();
    stack.submit(port, 0, top, Box::new(read(0, 8)));
    stack.turn(Instant::ZERO);
    stack.with_device(DeviceId(0), |desk: &mut MockDevice, cx| desk.end(0, Status::Ok, 0, cx));
    stack.turn(Instant::ZERO);
    assert!(stack.poll_completion(port).is_some());
    let mut stack = Stack::new();
    assert_eq!(stack.add(Box::new(Watcher(limits.clone(), [DeviceId(0)]))), Err(StackError::Unknown(DeviceId(0))));
    let limits = Limits { logical_block_bytes: 100, ..limits };
    assert!(matches!(stack.add(Box::new(Watcher(limits, [DeviceId(9)]))), Err(StackError::Limits(_))));
}

#[test]
fn trace_events_tell_the_hops_of_a_bio_in_blktrace_letters() {
    let mut desk = MockDevice::regular();
    desk.limits_mut().max_sectors = Some(4);
    let mut h = watched(desk);
    h.stack.set_trace(Some(8));
    h.submit(read(0, 6));
    h.end_all(Status::Ok);
    let events: Vec<_> = std::iter::from_fn(|| h.stack.trace().unwrap().pop()).collect();
    let text: Vec<String> =
        events.iter().map(|e| format!("{}{} {}+{}", e.action.letter(), e.device.0, e.sector, e.sectors)).collect();
    // The ring keeps the newest eight; the first events fell out and are counted.
    assert_eq!(text, ["D0 0+4", "D1 4+2", "D0 4+2", "C0 0+4", "C1 0+4", "C0 4+2", "C1 4+2", "C1 0+6"]);
    assert_eq!(h.stack.trace().unwrap().lost(), 3);
    assert_eq!(events.last().unwrap().action, Action::Complete);
    assert!(events[7].to_string().ends_with("C 0+6 READ [ok]"), "{}", events[7]);
}

#[test]
fn a_trace_knows_the_pieces_of_a_bio_by_its_number_and_the_way_in_by_the_way_out() {
    let mut desk = MockDevice::regular();
    desk.limits_mut().max_sectors = Some(4);
    let mut h = watched(desk);
    h.submit(write(0, 4));
    h.stack.set_trace(Some(64));
    h.submit_all([read(0, 6), read(8, 4)]);
    h.end_all(Status::Ok);
    let events: Vec<_> = std::iter::from_fn(|| h.stack.trace().unwrap().pop()).collect();
    let of = |number| events.iter().filter(move |event| event.number == number);
    assert_eq!(of(0).count(), 2, "a bio that was on its way before comes up twice, and has no number");
    let ways = |number, action| -> Vec<u8> {
        of(number).filter(|e| e.action == action && e.device == h.top).map(|e| e.depth).collect()
    };
    // Two pieces go in with one frame and come out with one; then the whole returns.
    assert_eq!((ways(1, Action::Dispatch), ways(1, Action::Complete)), (vec![1, 1], vec![1, 1, 1]));
    assert_eq!(of(1).filter(|event| event.returned).map(|event| event.sectors).collect::<Vec<_>>(), [6]);
    assert_eq!((ways(2, Action::Dispatch), ways(2, Action::Complete)), (vec![1], vec![1]));
}

#[test]
fn a_trace_of_one_device_has_what_happens_there_and_every_completion() {
    let mut h = watched(MockDevice::regular());
    h.stack.record(Some(Trace::new(64).only(Some(h.desk))));
    h.submit(read(0, 6));
    h.end_all(Status::Ok);
    let events: Vec<_> = std::iter::from_fn(|| h.stack.trace().unwrap().pop()).collect();
    let letters: String = events.iter().map(|e| format!("{}{}", e.action.letter(), e.device.0)).collect();
    assert_eq!(letters, "D0C0C1");
}

#[test]
fn counters_count_by_operation_and_failures_where_they_happen() {
    let mut h = watched(MockDevice::regular());
    h.submit_all([read(0, 8), read(8, 16), write(0, 4), read(1 << 30, 8)]);
    h.end(Status::Medium);
    h.end(Status::Ok);
    let top = h.stack.counters(h.top);
    assert_eq!((top.ios[Op::Read as usize], top.sectors[Op::Read as usize]), (2, 24));
    let errors = |statuses: &[Status]| statuses.iter().map(|status| top.errors[*status as usize]).collect::<Vec<_>>();
    assert_eq!((top.ios[Op::Write as usize], top.errors.iter().sum::<u64>(), top.in_flight), (1, 2, 1));
    assert_eq!(errors(&[Status::Medium, Status::Io]), [1, 1]);
    assert_eq!(h.stack.counters(h.desk).errors.iter().sum::<u64>(), 1);
}

#[test]
fn a_stack_may_crash_with_bios_in_flight() {
    let mut h = watched(MockDevice::regular());
    h.submit_all([write(0, 8), write(8, 8)]);
    drop(h);
}

/// Counts its timers.
struct Clockwork(Limits, Vec<(u64, Instant)>);

impl BlockDevice for Clockwork {
    fn limits(&self) -> &Limits {
        &self.0
    }
    fn attached(&mut self, cx: &mut Cx<'_>) {
        [30, 10, 20, 10].iter().enumerate().for_each(|(n, at)| cx.wake_at(Instant(*at), n as u64));
    }
    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        cx.complete(bio, Status::Ok);
    }
    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if let Event::Timer(word) = event {
            self.1.push((word, cx.now()));
            // A timer set for now waits for the next turn: a turn always ends.
            cx.wake_at(cx.now(), word + 100);
        }
    }
    fn describe(&self, _: &mut dyn std::fmt::Write) -> std::fmt::Result {
        Ok(())
    }
}

#[test]
fn timers_fire_in_order_of_time_then_age_and_a_turn_always_ends() {
    let mut stack = Stack::new();
    let id = stack.add(Box::new(Clockwork(Limits::new(8), vec![]))).unwrap();
    assert_eq!(stack.turn(Instant::ZERO), Some(Instant(10)));
    assert_eq!(stack.turn(Instant(9)), Some(Instant(10)));
    assert_eq!(stack.turn(Instant(25)), Some(Instant(25)), "what was set in this turn is due in the next");
    let fired: Vec<u64> = stack.device::<Clockwork>(id).unwrap().1.iter().map(|(word, _)| *word).collect();
    assert_eq!(fired, [1, 3, 2]);
    assert_eq!(Instant(25).since(Instant(30)), Duration::ZERO);
}
