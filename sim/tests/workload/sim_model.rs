//! The model of a disk: what it takes for a broken promise, and what not.

use std::rc::Rc;

use shingle_core::block::{Bio, DeviceId, Flags, Op, Payload, Stack, Status};
use shingle_core::dm::{OpSet, Trigger};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::{Condition, Zone, ZoneGeometry, ZoneKind, ZoneNo};
use shingle_sim::disk::{CrashConfig, CrashDisk, Leaf};
use shingle_sim::fault::{Fault, FaultPlan};
use shingle_sim::model::{
    Answer, DiskRequest, Disks, Extent, Grounds, Intent, Model, Rule, Seen, Trust, Violation, ZoneLine, ZoneShape,
};

/// A model of one sequential zone of 64 sectors, and a disk behind it at which nothing fails but flushes, and opening the zone.
struct World {
    model: Model,
    stack: Stack,
    disk: DeviceId,
    now: u64,
}

impl World {
    fn new() -> Self {
        Self::on_disks(1)
    }

    /// The same of a zone that lies on several disks, one bit each.
    fn on_disks(disks: u32) -> Self {
        let config = CrashConfig { write_cache: true, ..CrashConfig::new(ZoneGeometry::new(64, 64, 64, 0).unwrap()) };
        let on = |op| Trigger { ops: OpSet::of(&[op]), ..Trigger::default() };
        let plan = FaultPlan::none().with(on(Op::Flush), Fault::Fail(Status::Timeout));
        let plan = plan.with(on(Op::ZoneOpen), Fault::ZoneReadOnly);
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(Leaf(Box::new(CrashDisk::new(config, plan, 1).unwrap())))).unwrap();
        let zone = ZoneShape { sequential: true, len: 64, capacity: 64, write_cache: false, disks };
        Self { model: Model::new(&[zone], Trust::Stack, false), stack, disk, now: 0 }
    }

    fn grounds<'a>(stack: &'a Stack, disk: DeviceId, now: u64) -> Grounds<'a> {
        let disks = Disks { stack, all: Rc::from([disk]), parts: Rc::from([vec![(0, ZoneNo(0))]]) };
        let (plug_failed, no_append, is_late, excused) = (false, false, true, false);
        Grounds {
            disks,
            plug_failed,
            layer_faults: 0,
            no_append,
            is_late,
            doubled: 0,
            excused,
            reach: u32::MAX,
            now: Instant(now),
        }
    }

    /// A request for `sectors` of the zone; only a reset of all zones is done in steps.
    fn submit(&mut self, op: Op, offset: u32, sectors: u32) -> u64 {
        self.ask(op, (offset, sectors), op != Op::ZoneResetAll)
    }

    fn ask(&mut self, op: Op, (offset, sectors): (u32, u32), atomic: bool) -> u64 {
        self.now += 1;
        let extents = vec![Extent { zone: ZoneNo(0), offset, sectors }];
        let request = DiskRequest { op, flags: Flags::NONE, extents, intent: Intent::Sound, atomic };
        self.model.submit(request, &Self::grounds(&self.stack, self.disk, self.now))
    }

    /// The end of a request; what is wrong with it may be known only later.
    fn complete(&mut self, number: u64, status: Status) -> Result<(), Violation> {
        self.answer(number, status, &Answer::Nothing)
    }

    fn answer(&mut self, number: u64, status: Status, answer: &Answer<'_>) -> Result<(), Violation> {
        self.now += 1;
        self.model.complete(number, status, answer, &Self::grounds(&self.stack, self.disk, self.now))
    }

    /// What the model says of a read of the first sector that shows this.
    fn read(&mut self, seen: Seen) -> Result<(), Rule> {
        let read = self.submit(Op::Read, 0, 1);
        self.answer(read, Status::Ok, &Answer::Sectors(&[seen])).map_err(|violation| violation.rule)
    }

    /// What the disk answers.
    fn disk(&mut self, op: Op) -> Status {
        let port = self.stack.open_port();
        self.stack.submit(port, 0, self.disk, Box::new(Bio::new(op, Sector::ZERO, 0, Payload::None)));
        while let Some(next) = self.stack.turn(Instant(self.now)) {
            self.now = self.now.max(next.0);
        }
        self.stack.poll_completion(port).unwrap().status
    }

    /// A flush of the disk, which fails.
    fn flush(&mut self) {
        assert_eq!(self.disk(Op::Flush), Status::Timeout);
    }

    /// The zone becomes read-only.
    fn lose_zone(&mut self) {
        assert_ne!(self.disk(Op::ZoneOpen), Status::Ok);
    }

    fn verdict(&mut self) -> Result<(), Rule> {
        self.model.verdict(Instant(u64::MAX)).map_err(|violation| violation.rule)
    }
}

#[test]
fn a_doubt_that_a_later_reset_ends_still_is_the_reason_of_an_error_that_is_told_late() {
    let mut world = World::new();
    let reset_all = world.submit(Op::ZoneResetAll, 0, 0);
    world.complete(reset_all, Status::Ok).unwrap();
    let write = world.submit(Op::Write, 8, 8);
    let reset = world.submit(Op::ZoneReset, 0, 0);
    world.complete(reset, Status::Ok).unwrap();
    let next = world.submit(Op::Write, 0, 8);
    world.complete(write, Status::Io).unwrap();
    assert_eq!(world.verdict(), Ok(()), "nobody knew the pointer when it was sent");
    world.complete(next, Status::Io).unwrap();
    assert_eq!(world.verdict(), Err(Rule::Unexplained), "this one was sent when the pointer was known again");
}

/// A part of a wide zone is flushed before the next one changes (`docs/targets/striped.md`), so it fails with that. Found by the
/// swarm (mapper 55001335).
#[test]
fn a_flush_that_fails_is_a_reason_for_a_reset_or_finish_of_a_zone_on_several_disks_and_for_nothing_else() {
    for (disks, op, explained) in [
        (0b11, Op::ZoneReset, true),
        (0b11, Op::ZoneFinish, true),
        (0b11, Op::Write, false),
        (0b1, Op::ZoneReset, false),
        (0b1, Op::ZoneFinish, false),
    ] {
        let mut world = World::on_disks(disks);
        let change = world.submit(op, 0, if op == Op::Write { 8 } else { 0 });
        world.flush();
        world.complete(change, Status::Timeout).unwrap();
        let expected = if explained { Ok(()) } else { Err(Rule::Unexplained) };
        assert_eq!(world.verdict(), expected, "{} of a zone on disks {disks:b}", op.name());
    }
    let mut world = World::on_disks(0b11);
    world.flush();
    let late = world.submit(Op::ZoneReset, 0, 0);
    world.complete(late, Status::Timeout).unwrap();
    assert_eq!(world.verdict(), Err(Rule::Unexplained), "it had failed before");
}

/// Found on the real zoned disk (append 70203): the zone was reset, and failed before the reset of all zones was answered.
#[test]
fn a_zone_that_fails_during_a_reset_of_all_zones_was_reset_or_left_out_and_nobody_can_tell() {
    for shows_data in [true, false] {
        let mut world = World::new();
        let write = world.submit(Op::Write, 0, 8);
        world.complete(write, Status::Ok).unwrap();
        let reset_all = world.ask(Op::ZoneResetAll, (0, 0), true);
        world.lose_zone();
        world.complete(reset_all, Status::Ok).unwrap();
        let seen = if shows_data { Seen::Data(write, 0) } else { Seen::Zeroes };
        assert_eq!(world.read(seen), Ok(()), "{seen:?}");
    }
}

#[test]
fn a_zone_that_failed_before_a_reset_of_all_zones_is_left_out() {
    let mut world = World::new();
    let write = world.submit(Op::Write, 0, 8);
    world.complete(write, Status::Ok).unwrap();
    world.lose_zone();
    let reset_all = world.ask(Op::ZoneResetAll, (0, 0), true);
    world.complete(reset_all, Status::Ok).unwrap();
    assert_eq!(world.read(Seen::Data(write, 0)), Ok(()));
    assert_eq!(world.read(Seen::Zeroes), Err(Rule::Data));
}

#[test]
fn a_zone_that_failed_before_a_reset_of_all_zones_is_a_reason_for_it_to_fail() {
    for has_failed in [true, false] {
        let mut world = World::new();
        if has_failed {
            world.lose_zone();
        }
        let reset_all = world.ask(Op::ZoneResetAll, (0, 0), true);
        let _ = world.complete(reset_all, Status::Io);
        assert_eq!(world.verdict(), if has_failed { Ok(()) } else { Err(Rule::Unexplained) });
    }
}

/// Found by fresh seeds of `mapper`: an auditor asked the disk where the pointer is, and the plug above an encryption went on
/// refusing writes, as it has to.
#[test]
fn a_report_that_a_plug_above_has_not_heard_cures_no_doubt_of_that_plug() {
    for is_heard in [true, false] {
        let mut world = World::new();
        let reset_all = world.submit(Op::ZoneResetAll, 0, 0);
        world.complete(reset_all, Status::Ok).unwrap();
        let report = world.submit(Op::ReportZones, 0, 0);
        let start = Sector::ZERO;
        let (kind, cond) = (ZoneKind::Sequential, Condition::Empty);
        let zone = Zone { start, len: 64, capacity: 64, wp: start, kind, cond };
        let lines = [ZoneLine { number: ZoneNo(0), zone, is_heard }];
        world.answer(report, Status::Ok, &Answer::Zones(&lines)).unwrap();
        let write = world.submit(Op::Write, 0, 8);
        let _ = world.complete(write, Status::Io);
        assert_eq!(world.verdict(), if is_heard { Err(Rule::Unexplained) } else { Ok(()) });
    }
}
