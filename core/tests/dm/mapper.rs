//! Mapped devices: two tables, swapped while bios come and go.

use shingle_core::block::{Bio, Completion, Data, DeviceId, Flags, Op, Payload, PortId, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::parse_table;
use shingle_core::harness::MockDevice;
use shingle_core::mapper::stats::DmStats;
use shingle_core::mapper::{Mapper, MapperError, MapperErrorKind, StateName};
use shingle_core::multipath::{Head, HeadOptions, PathConfig, PolicyKind};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

/// A stack with disks of memory, `a` and `cached`, and others that end nothing by themselves, `desk` and the zoned `smr`; and
/// mapped devices.
struct Bench {
    stack: Stack,
    mapper: Mapper,
    a: DeviceId,
    cached: DeviceId,
    desk: DeviceId,
    smr: DeviceId,
    port: PortId,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let mut stack = Stack::new();
        let config = NullConfig { memory_backed: true, ..NullConfig::new(1 << 16) };
        let a = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        let config = NullConfig { write_cache: true, ..config };
        let cached = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        let desk = stack.add(Box::new(MockDevice::regular())).unwrap();
        let mut smr = MockDevice::zoned(4, 64, 64, 0);
        smr.limits_mut().zoned.as_mut().unwrap().max_append = Some(64);
        let smr = stack.add(Box::new(smr)).unwrap();
        let port = stack.open_port();
        Self { stack, mapper: Mapper::new(), a, cached, desk, smr, port, now: 0 }
    }

    fn load(&mut self, name: &str, table: &str) -> Result<(), MapperError> {
        let (a, cached, desk, smr) = (self.a, self.cached, self.desk, self.smr);
        let resolver = move |name: &str| match name {
            "a" => Ok(a),
            "smr" => Ok(smr),
            "cached" => Ok(cached),
            "desk" => Ok(desk),
            _ => Err(vec!["a".to_owned(), "desk".to_owned()]),
        };
        self.mapper.load(name, parse_table(table).unwrap(), false, (&mut self.stack, &resolver))
    }

    fn turn(&mut self) {
        self.now += 1000;
        self.stack.turn(Instant(self.now));
        let none = |_: &str| Err(vec![]);
        self.mapper.poll(Instant(self.now), (&mut self.stack, &none));
        self.stack.turn(Instant(self.now));
    }

    /// Resumes and expects it to be done at once.
    fn resume(&mut self, name: &str) -> Result<(), MapperError> {
        let ticket = self.mapper.resume(name, false, &mut self.stack)?;
        self.turn();
        self.mapper.outcome(ticket).expect("nothing was in flight")
    }

    fn make(&mut self, name: &str, table: &str) -> DeviceId {
        self.mapper.create(name, "").unwrap();
        self.load(name, table).unwrap();
        self.resume(name).unwrap();
        self.mapper.device(name).unwrap()
    }

    fn message(&mut self, name: &str, sector: u64, words: &[&str]) -> Result<String, MapperError> {
        self.mapper.message(name, sector, words, (&mut self.stack, Instant(self.now)))
    }

    fn read(&mut self, tag: u64, device: DeviceId, sector: u64) {
        let bio = Bio::new(Op::Read, Sector(sector), 1, Payload::Data(Data::zeroed(512)));
        self.stack.submit(self.port, tag, device, Box::new(bio));
    }

    fn done(&mut self) -> Vec<(u64, Status)> {
        std::iter::from_fn(|| self.stack.poll_completion(self.port))
            .map(|Completion { tag, status, .. }| (tag, status))
            .collect()
    }

    fn at_desk(&self) -> Vec<u64> {
        self.stack.device::<MockDevice>(self.desk).unwrap().held().iter().map(|held| held.sector.0).collect()
    }

    fn end_desk(&mut self) {
        for held in self.stack.device::<MockDevice>(self.desk).unwrap().held() {
            self.stack.with_device(self.desk, |desk: &mut MockDevice, cx| desk.end(held.number, Status::Ok, 0, cx));
        }
    }

    fn kind(result: Result<(), MapperError>) -> MapperErrorKind {
        result.unwrap_err().kind
    }
}

#[test]
fn a_device_gets_its_table_at_its_first_resume_and_keeps_its_place_when_it_changes() {
    let mut b = Bench::new();
    b.mapper.create("x", "uuid-1").unwrap();
    assert_eq!(Bench::kind(b.resume("x")), MapperErrorKind::NoTable);
    b.load("x", "0 100 linear a 0\n100 50 error").unwrap();
    let info = b.mapper.info("x", &b.stack).unwrap();
    assert_eq!((info.has_live, info.has_inactive, info.state), (false, true, StateName::Suspended));
    b.resume("uuid-1").unwrap();
    let first = b.mapper.device("x").unwrap();
    assert_eq!(b.mapper.table("x", false, false, &b.stack).unwrap(), "0 100 linear a 0\n100 50 error\n");
    assert_eq!(b.mapper.status("x", false, &b.stack).unwrap(), "0 100 linear \n100 50 error \n");

    b.load("x", "0 200 linear a 8").unwrap();
    assert_eq!(b.mapper.table("x", true, false, &b.stack).unwrap(), "0 200 linear a 8\n");
    assert_eq!(b.stack.limits(first).capacity, 150, "the old table is live until the resume");
    b.resume("x").unwrap();
    assert_eq!((b.mapper.device("x").unwrap(), b.stack.limits(first).capacity), (first, 200));
    let info = b.mapper.info("x", &b.stack).unwrap();
    assert_eq!((info.has_live, info.has_inactive, info.targets, info.events), (true, false, 1, 2));
}

#[test]
fn bios_wait_at_the_door_in_order_while_a_table_is_swapped_and_none_is_lost() {
    let mut b = Bench::new();
    let x = b.make("x", "0 100 linear desk 0");
    (0..3).for_each(|n| b.read(n, x, n));
    b.turn();
    assert_eq!(b.at_desk(), [0, 1, 2]);
    b.load("x", "0 100 linear desk 1000").unwrap();
    let ticket = b.mapper.resume("x", false, &mut b.stack).unwrap();
    (3..6).for_each(|n| b.read(n, x, n));
    b.turn();
    assert_eq!(b.mapper.outcome(ticket), None, "the old table is still in use");
    assert_eq!(b.at_desk(), [0, 1, 2]);
    b.end_desk();
    b.turn();
    assert_eq!(b.mapper.outcome(ticket), Some(Ok(())));
    assert_eq!(b.at_desk(), [1003, 1004, 1005]);
    b.end_desk();
    b.turn();
    assert_eq!(b.done(), (0..6).map(|n| (n, Status::Ok)).collect::<Vec<_>>());
    assert!(b.mapper.info("x", &b.stack).unwrap().longest_swap.0 > 0);
}

#[test]
fn a_suspended_device_keeps_bios_until_it_is_resumed() {
    let mut b = Bench::new();
    let x = b.make("x", "0 100 linear a 0");
    let ticket = b.mapper.suspend("x", false, &mut b.stack).unwrap();
    b.turn();
    assert_eq!(b.mapper.outcome(ticket), Some(Ok(())));
    b.read(1, x, 0);
    b.turn();
    assert_eq!(b.done(), []);
    assert_eq!(b.mapper.info("x", &b.stack).unwrap().state, StateName::Suspended);
    b.resume("x").unwrap();
    b.turn();
    assert_eq!(b.done(), [(1, Status::Ok)]);
}

#[test]
fn a_table_that_does_not_fit_leaves_the_old_one_live_and_running() {
    let mut b = Bench::new();
    let low = b.make("low", "0 100 linear a 0");
    b.make("high", "0 100 linear low 0");
    // `high` relies on 100 sectors of `low`.
    let error = b.load("low", "0 50 linear a 0").unwrap_err();
    assert!(error.kind == MapperErrorKind::Table && error.message.contains("`high` lies on it"), "{error}");
    let error = b.load("low", "0 100 linear high 0").unwrap_err();
    assert!(error.kind == MapperErrorKind::Table && error.message.contains("leads back to `low`"), "{error}");
    let error = b.load("low", "0 50 error\n50 50 linear low 0").unwrap_err();
    assert!(error.message.contains("line 2, argument 1") && error.message.contains("the device itself"), "{error}");
    assert_eq!(Bench::kind(b.load("low", "0 100 linear nosuch 0")), MapperErrorKind::Table);

    // It fitted when it was loaded, and no longer does when it is resumed.
    let mid = b.make("mid", "0 100 linear a 0");
    b.load("low", "0 100 linear mid 0").unwrap();
    b.load("mid", "0 100 linear low 0").unwrap();
    b.resume("low").unwrap();
    assert_eq!(Bench::kind(b.resume("mid")), MapperErrorKind::Table);
    assert_eq!(b.mapper.info("mid", &b.stack).unwrap().state, StateName::Active);
    b.read(1, mid, 0);
    b.read(2, low, 0);
    b.turn();
    assert_eq!(b.done(), [(1, Status::Ok), (2, Status::Ok)]);
}

#[test]
fn a_device_in_use_is_not_removed_and_a_deferred_one_goes_with_its_last_user() {
    let mut b = Bench::new();
    b.make("low", "0 100 linear a 0");
    b.make("high", "0 100 linear low 0");
    let high = b.mapper.open("high").unwrap();
    assert_eq!(Bench::kind(b.mapper.remove("low", false, &mut b.stack)), MapperErrorKind::Busy);
    assert_eq!(Bench::kind(b.mapper.remove("high", false, &mut b.stack)), MapperErrorKind::Busy);
    assert_eq!(Bench::kind(b.mapper.rename("low", "lower")), MapperErrorKind::Busy);
    b.mapper.remove("low", true, &mut b.stack).unwrap();
    b.mapper.remove("high", true, &mut b.stack).unwrap();
    assert_eq!(b.mapper.names().count(), 2);
    b.mapper.close(high);
    b.turn();
    b.turn();
    assert_eq!(b.mapper.names().count(), 0);
    assert!(b.stack.above(b.a).is_none(), "nothing is left on the disk");
}

#[test]
fn a_thousand_swaps_use_no_more_places_than_one() {
    let mut b = Bench::new();
    b.make("x", "0 100 faulty a 8 error,op=discard");
    let devices = b.stack.devices();
    for n in 0..1000 {
        b.load("x", &format!("0 100 faulty a {} error,op=discard", n % 7 * 8)).unwrap();
        b.resume("x").unwrap();
    }
    assert!(b.stack.devices() <= devices + 3, "{} places", b.stack.devices());
}

#[test]
fn a_change_that_does_not_come_to_an_end_can_be_given_up() {
    let mut b = Bench::new();
    let x = b.make("x", "0 100 linear desk 0");
    b.read(1, x, 5);
    b.turn();
    b.load("x", "0 100 linear a 0").unwrap();
    let ticket = b.mapper.resume("x", false, &mut b.stack).unwrap();
    b.read(2, x, 6);
    b.turn();
    assert_eq!(Bench::kind(b.mapper.suspend("x", false, &mut b.stack).map(|_| ())), MapperErrorKind::Busy);
    b.mapper.cancel(ticket, &mut b.stack);
    b.turn();
    assert_eq!(b.at_desk(), [5, 6], "the old table goes on");
    b.end_desk();
    b.turn();
    assert_eq!(b.done(), [(1, Status::Ok), (2, Status::Ok)]);
    b.resume("x").unwrap();
    assert_eq!(b.mapper.table("x", false, false, &b.stack).unwrap(), "0 100 linear a 0\n");
}

#[test]
fn what_was_built_for_a_table_is_known_by_the_device_that_has_it() {
    let mut b = Bench::new();
    let x = b.make("x", "0 100 faulty a 8 error,op=discard");
    let parts: Vec<DeviceId> = (0..b.stack.devices()).map(|id| DeviceId(id as u16)).collect();
    let owners: Vec<_> = parts.iter().filter_map(|id| b.mapper.owner_of(*id)).collect();
    assert_eq!(owners, [("x", 0), ("x", 1)]);
    assert_eq!((b.mapper.owner_of(x), b.mapper.owner_of(b.a)), (None, None));
}

#[test]
fn names_and_uuids_are_unique_and_a_uuid_is_given_once() {
    let mut b = Bench::new();
    b.mapper.create("x", "u").unwrap();
    for (name, uuid) in [("x", ""), ("y", "u"), ("", ""), ("a/b", ""), ("y", "a b")] {
        assert!(b.mapper.create(name, uuid).is_err(), "{name} {uuid}");
    }
    assert!(b.mapper.create(&"n".repeat(128), "").is_err() && b.mapper.create(&"n".repeat(127), "").is_ok());
    assert!(b.mapper.set_uuid("x", "v").is_err());
    b.mapper.rename("x", "z").unwrap();
    assert_eq!(b.mapper.info("u", &b.stack).unwrap().name, "z");
    let error = b.message("z", 0, &["hello"]).unwrap_err();
    assert_eq!(error.kind, MapperErrorKind::NoTable);
    b.load("z", "0 8 linear a 0").unwrap();
    b.resume("z").unwrap();
    let error = b.message("z", 0, &["hello"]).unwrap_err();
    assert!(error.message.contains("takes no messages"), "{error}");
    assert_eq!(b.message("z", 8, &["hello"]).unwrap_err().kind, MapperErrorKind::Invalid);
}

#[test]
fn statistics_belong_to_the_device_and_outlive_its_tables() {
    let mut b = Bench::new();
    let device = b.make("x", "0 64 linear a 0");
    assert_eq!(b.message("x", 0, &["@stats_create", "-", "32"]).unwrap(), "0");
    b.turn();
    b.read(1, device, 40);
    b.turn();
    b.load("x", "0 128 linear desk 0").unwrap();
    b.resume("x").unwrap();
    b.read(2, device, 3);
    b.turn();
    assert_eq!(b.at_desk(), [3]);
    let counted = "0+32 0 0 0 0 0 0 0 0 1 0 0 0 0\n32+32 1 0 1 0 0 0 0 0 0 0 0 0 0\n";
    assert_eq!(b.message("x", 0, &["@stats_print", "0"]).unwrap(), counted);
    assert_eq!(b.message("x", 1000, &["@stats_list"]).unwrap(), "0: 0+64 32 - -\n", "the sector does not matter");
}

#[test]
fn nobody_looks_at_the_bios_of_a_device_without_regions() {
    let mut b = Bench::new();
    let device = b.make("x", "0 64 linear desk 0");
    let is_observed = |b: &mut Bench| b.stack.observer::<DmStats>(device).is_some();
    assert_eq!(b.message("x", 0, &["@stats_list"]).unwrap(), "");
    b.message("x", 0, &["@stats_create", "-", "0"]).unwrap_err();
    assert!(!is_observed(&mut b));
    b.message("x", 0, &["@stats_create", "-", "/1"]).unwrap();
    b.turn();
    b.read(1, device, 0);
    b.turn();
    b.message("x", 0, &["@stats_create", "-", "/2"]).unwrap();
    b.message("x", 0, &["@stats_delete", "0"]).unwrap();
    assert!(is_observed(&mut b));
    b.message("x", 0, &["@stats_delete", "1"]).unwrap();
    assert!(!is_observed(&mut b));
    b.message("x", 0, &["@stats_create", "-", "/1"]).unwrap();
    b.end_desk();
    b.turn();
    assert_eq!(b.done(), [(1, Status::Ok)]);
    let nothing = "0+64 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    assert_eq!(b.message("x", 0, &["@stats_print", "0"]).unwrap(), nothing, "it came in before the region");
}

#[test]
fn what_is_said_to_a_device_itself_is_checked_there() {
    let mut b = Bench::new();
    b.mapper.create("x", "").unwrap();
    assert_eq!(b.message("x", 0, &["@stats_list"]).unwrap_err().kind, MapperErrorKind::NoTable);
    let device = b.make("y", "0 64 linear a 0");
    let error = b.message("y", 0, &["@stats_print", "3"]).unwrap_err();
    assert_eq!(error.message, "`y`: there is no region 3: @stats_list prints those that there are");
    assert!(b.message("y", 0, &["@hello"]).unwrap_err().message.starts_with("`y`: unknown message `@hello`; "));
    b.mapper.open("y").unwrap();
    b.mapper.remove("y", true, &mut b.stack).unwrap();
    assert_eq!(b.message("y", 0, &["@cancel_deferred_remove"]).unwrap(), "");
    b.mapper.close(device);
    b.turn();
    assert!(b.mapper.device("y").is_ok(), "it was not removed after all");
}

#[test]
fn a_device_on_which_others_lie_can_fail_for_a_while_and_gets_back_what_it_was() {
    let mut b = Bench::new();
    b.make("low", "0 100 linear cached 0");
    let high = b.make("high", "0 100 linear low 0");
    for _ in 0..2 {
        // Wiping takes the write cache away, and that must not keep the old table out.
        b.load("low", "0 100 error").unwrap();
        b.resume("low").unwrap();
        b.read(1, high, 0);
        b.turn();
        assert_eq!(b.done(), [(1, Status::Io)]);
        b.load("low", "0 100 linear cached 0").unwrap();
        b.resume("low").unwrap();
        b.read(2, high, 0);
        b.turn();
        assert_eq!(b.done(), [(2, Status::Ok)]);
    }
}

#[test]
fn a_write_that_waits_at_a_door_is_checked_by_the_table_that_it_goes_through() {
    let mut b = Bench::new();
    b.stack.with_device(b.desk, |desk: &mut MockDevice, _| desk.limits_mut().write_cache = true);
    b.stack.suspend(b.desk);
    b.stack.resume(b.desk);
    let x = b.make("x", "0 100 error");
    let ticket = b.mapper.suspend("x", false, &mut b.stack).unwrap();
    b.turn();
    assert_eq!(b.mapper.outcome(ticket), Some(Ok(())));
    // The table that goes out loses nothing, so to it FUA means nothing, and a flush is done at once.
    let write = Bio::new(Op::Write, Sector(0), 1, Payload::Data(Data::zeroed(512))).with_flags(Flags::FUA);
    b.stack.submit(b.port, 1, x, Box::new(write));
    b.stack.submit(b.port, 2, x, Box::new(Bio::new(Op::Flush, Sector(0), 0, Payload::None)));
    b.turn();
    assert_eq!(b.done(), []);
    b.load("x", "0 100 linear desk 0").unwrap();
    b.resume("x").unwrap();
    let held = b.stack.device::<MockDevice>(b.desk).unwrap().held();
    let seen: Vec<(Op, Flags)> = held.iter().map(|held| (held.op, held.flags)).collect();
    assert_eq!(seen, [(Op::Write, Flags::FUA), (Op::Flush, Flags::NONE)]);
    b.end_desk();
    b.turn();
    assert_eq!(b.done(), [(1, Status::Ok), (2, Status::Ok)]);
}

#[test]
fn zone_writes_do_not_turn_round_when_a_device_is_suspended_without_a_flush() {
    // Where some of a zone's writes could not, they would pass those that did.
    for (table, waits) in [("0 256 delay smr 0 5", false), ("0 256 delay desk 0 5", true)] {
        let mut b = Bench::new();
        let x = b.make("x", table);
        let write = Bio::new(Op::Write, Sector(0), 1, Payload::Data(Data::zeroed(512)));
        b.stack.submit(b.port, 1, x, Box::new(write));
        b.turn();
        b.mapper.suspend("x", true, &mut b.stack).unwrap();
        b.turn();
        let at = |id| b.stack.device::<MockDevice>(id).unwrap().held().len();
        assert_eq!((at(b.smr), at(b.desk)), (usize::from(!waits), 0), "{table}");
    }
}

/// A table whose first line asks for the zones below as soon as it is made, and whose second line does not go with it.
const REFUSED: &str = "0 128 striped 1 64 below 0\n128 64 linear a 0";

#[test]
fn what_a_refused_table_has_under_way_keeps_nothing_below_from_another_table() {
    let mut b = Bench::new();
    b.make("below", "0 256 linear smr 0");
    b.mapper.create("above", "").unwrap();
    assert_eq!(Bench::kind(b.load("above", REFUSED)), MapperErrorKind::Table);
    // At once, and with a table that has no zones.
    let none = |_: &str| Err(vec![]);
    b.mapper.load_error("below", (&mut b.stack, &none)).unwrap();
}

#[test]
fn a_refused_table_leaves_nothing_behind_that_lies_on_a_device() {
    let mut b = Bench::new();
    let below = b.make("below", "0 256 linear smr 0");
    let places = b.stack.devices();
    b.mapper.create("above", "").unwrap();
    for _ in 0..3 {
        assert_eq!(Bench::kind(b.load("above", REFUSED)), MapperErrorKind::Table);
        b.turn();
        for held in b.stack.device::<MockDevice>(b.smr).unwrap().held() {
            b.stack.with_device(b.smr, |desk: &mut MockDevice, cx| desk.end(held.number, Status::Ok, 0, cx));
        }
        b.turn();
        assert_eq!(b.stack.above(below), None);
    }
    assert!(b.stack.devices() <= places + 3, "the places are used again");
    b.mapper.remove("below", false, &mut b.stack).unwrap();
}

#[test]
fn what_lies_on_paths_is_suspended_before_them() {
    let mut b = Bench::new();
    let path = b.make("path", "0 64 linear a 0");
    let paths = [(PathConfig::new(path), b.stack.limits(path))];
    let head = Head::new(&paths, PolicyKind::Numa, HeadOptions::default()).unwrap();
    let head = b.stack.add(Box::new(head)).unwrap();
    let resolver = move |_: &str| Ok(head);
    b.mapper.create("top", "").unwrap();
    let lines = parse_table("0 64 linear head 0").unwrap();
    b.mapper.load("top", lines, false, (&mut b.stack, &resolver)).unwrap();
    b.resume("top").unwrap();
    for (step, suspended) in ["top", "path"].into_iter().enumerate() {
        assert_eq!(b.mapper.suspend_highest(&mut b.stack), 1);
        b.turn();
        let states = b.mapper.states().filter(|(_, state)| *state == StateName::Suspended);
        assert_eq!(states.count(), step + 1, "{suspended}");
        assert_eq!(b.mapper.info(suspended, &b.stack).unwrap().state, StateName::Suspended);
    }
}
