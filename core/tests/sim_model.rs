//! The model of a disk: what it takes for a broken promise, and what not.

use std::rc::Rc;

use shingle_core::block::{Bio, DeviceId, Flags, Op, Payload, Stack, Status};
use shingle_core::sector::Sector;
use shingle_core::sim::disk::{CrashConfig, CrashDisk, Leaf};
use shingle_core::sim::fault::{Fault, FaultPlan};
use shingle_core::sim::model::{
    Answer, Disks, Extent, Grounds, Intent, Model, Request, Rule, Trust, Violation, ZoneShape,
};
use shingle_core::target::{OpSet, Trigger};
use shingle_core::time::Instant;
use shingle_core::zone::{ZoneGeometry, ZoneNo};

/// A model of one sequential zone of 64 sectors, and a disk behind it at which nothing fails but flushes.
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
        let flushes = Trigger { ops: OpSet::of(&[Op::Flush]), ..Trigger::default() };
        let plan = FaultPlan::none().with(flushes, Fault::Fail(Status::Timeout));
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(Leaf(Box::new(CrashDisk::new(config, plan, 1).unwrap())))).unwrap();
        let zone = ZoneShape { sequential: true, len: 64, capacity: 64, write_cache: false, disks };
        Self { model: Model::new(&[zone], Trust::Stack, false), stack, disk, now: 0 }
    }

    fn grounds<'a>(stack: &'a Stack, disk: DeviceId, now: u64) -> Grounds<'a> {
        let disks = Disks { stack, all: Rc::from([disk]), parts: Rc::from([vec![(0, ZoneNo(0))]]) };
        let (plug_failed, no_append, is_late, excused) = (false, false, true, false);
        Grounds { disks, plug_failed, layer_faults: 0, no_append, is_late, excused, reach: u32::MAX, now: Instant(now) }
    }

    /// A request that changes `sectors` of the zone; only a reset of all zones is done in steps.
    fn submit(&mut self, op: Op, offset: u32, sectors: u32) -> u64 {
        self.now += 1;
        let extents = vec![Extent { zone: ZoneNo(0), offset, sectors }];
        let atomic = op != Op::ZoneResetAll;
        let request = Request { op, flags: Flags::NONE, extents, intent: Intent::Sound, atomic };
        self.model.submit(request, &Self::grounds(&self.stack, self.disk, self.now))
    }

    /// The end of a request; what is wrong with it may be known only later.
    fn complete(&mut self, number: u64, status: Status) -> Result<(), Violation> {
        self.now += 1;
        self.model.complete(number, status, &Answer::Nothing, &Self::grounds(&self.stack, self.disk, self.now))
    }

    /// A flush of the disk, which fails.
    fn flush(&mut self) {
        let port = self.stack.open_port();
        let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        self.stack.submit(port, 0, self.disk, Box::new(flush));
        while let Some(next) = self.stack.turn(Instant(self.now)) {
            self.now = self.now.max(next.0);
        }
        assert_eq!(self.stack.poll_completion(port).unwrap().status, Status::Timeout);
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
