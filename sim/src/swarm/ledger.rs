//! What all actors of a run share: the model, what is left to do, and what was seen.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use super::base::{Log, TraceSum};
use super::door::{Door, ZoneSet, one};
use super::paths::{self, Heads};
use crate::disk::Leaf;
use crate::model::{Answer, DiskRequest, Disks, Grounds, Model, Rule, SchedulerWatch};
use shingle_core::block::{Completion, DeviceId, Flags, Op, Payload, Stack};
use shingle_core::dm::Faulty;
use shingle_core::plug::ZonePlug;
use shingle_core::scheduler::MqDeadline;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::ZoneNo;

/// The ledger, as actors hold it.
pub(super) type Shared = Rc<RefCell<Ledger>>;

/// The ledger.
#[derive(Default)]
pub(super) struct Ledger {
    pub model: Model,
    /// The disks; the first is zoned.
    pub disks: Rc<[DeviceId]>,
    /// For each of the model's zones what it is made of.
    pub parts: Rc<[Vec<(usize, ZoneNo)>]>,
    /// The plugs; the first lies on the first disk.
    pub plugs: Vec<DeviceId>,
    /// Checkers of the disks' schedulers.
    pub schedulers: BTreeMap<DeviceId, SchedulerWatch>,
    /// The head over the first disk, if there is one.
    pub heads: Option<Heads>,
    /// Zones in which paths have failed something that may be done.
    pub unsaid: ZoneSet,
    /// Losses of the disk's cache that the head has heard of, and whether there is one that it has not.
    pub losses: u64,
    pub is_loss_unheard: bool,
    /// What is possible behind each door.
    pub doors: Vec<Behind>,
    /// Requests that are under way.
    pub open: BTreeMap<u64, Open>,
    /// Mapped devices that are suspended and drained: nothing may go in.
    pub suspended: Vec<DeviceId>,
    pub swaps: u64,
    pub longest_swap: Duration,
    /// The device of the table's target, which may be one that fails on purpose.
    pub layer: Option<DeviceId>,
    pub no_append: bool,
    /// Whether tables may keep completions back.
    pub is_late: bool,
    /// Number of requests after which the power goes, and whether that is now.
    pub cut_at: Option<u64>,
    pub is_cut: bool,
    pub log: Log,
}

/// What tables make possible behind a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Behind {
    /// Zones for which an error needs no reason.
    pub failing: ZoneSet,
    /// Disks that a flush surely reaches, one bit each.
    pub reach: u32,
}

/// A request that is under way.
pub(super) struct Open {
    door: usize,
    zones: ZoneSet,
    excused: bool,
    reach: u32,
}

impl Open {
    /// What is behind its door has changed, and it may have met either.
    fn meets(&mut self, behind: Behind) {
        self.excused |= behind.failing & self.zones != 0;
        self.reach &= behind.reach;
    }
}

impl Ledger {
    /// Whether the run is to stop here.
    pub fn is_over(&self) -> bool {
        self.log.violation.is_some() || self.is_cut
    }

    /// Whether there were as many requests as the scenario has before its power goes.
    pub fn is_cut_due(&self) -> bool {
        self.cut_at.is_some_and(|at| self.log.submitted >= at)
    }

    /// A ledger of `model`, of which `left` requests are to be asked.
    pub fn new(model: Model, left: u64, trace: TraceSum) -> Self {
        Self { model, log: Log { left, trace, ..Log::default() }, ..Self::default() }
    }

    fn grounds<'a>(&self, stack: &'a Stack, now: Instant) -> Grounds<'a> {
        Grounds {
            disks: Disks { stack, all: self.disks.clone(), parts: self.parts.clone() },
            plug_failed: has_failed_plug(stack),
            layer_faults: self.layer.and_then(|layer| stack.device::<Faulty>(layer)).map_or(0, Faulty::injected),
            no_append: self.no_append,
            is_late: self.is_late,
            doubled: self.heads.as_ref().map_or(0, |heads| heads.doubled(stack)),
            excused: false,
            reach: u32::MAX,
            now,
        }
    }

    /// Takes note of a request that goes in now.
    pub fn submit(&mut self, request: DiskRequest, door: &Door, at: (&Stack, Instant)) -> u64 {
        self.log.count();
        self.audit(request, door, at)
    }

    /// The same for a request that is not counted.
    pub fn audit(&mut self, request: DiskRequest, door: &Door, (stack, now): (&Stack, Instant)) -> u64 {
        let grounds = self.grounds(stack, now);
        let named = request.extents.iter().fold(0, |zones, extent| zones | one(extent.zone));
        let zones = if named == 0 || request.flags.has(Flags::PREFLUSH) { ZoneSet::MAX } else { named };
        let mut open = Open { door: door.number, zones, excused: false, reach: u32::MAX };
        open.meets(self.doors[door.number]);
        let number = self.model.submit(request, &grounds);
        self.open.insert(number, open);
        number
    }

    /// Something else is behind `door` from now on.
    pub fn change_door(&mut self, door: usize, behind: Behind) {
        self.doors[door] = behind;
        self.open.values_mut().filter(|open| open.door == door).for_each(|open| open.meets(behind));
    }

    /// Tables may go now, and plugs with them: what one of these has refused may be told when it is gone.
    pub fn before_swaps(&mut self, stack: &Stack) {
        if has_failed_plug(stack) {
            self.open.values_mut().for_each(|open| open.excused = true);
        }
    }

    /// The power goes; `of_host`: not that of the disks.
    pub fn power_cut(&mut self, of_host: bool) {
        if core::mem::take(&mut self.is_loss_unheard) {
            self.model.cache_lost();
        }
        if of_host {
            self.model.host_cut()
        } else {
            self.model.power_cut()
        }
        self.open.clear();
        self.suspended.clear();
        self.losses = 0;
    }

    /// Judges a completion.
    pub fn complete(&mut self, (op, bytes): (Op, usize), back: &Completion, door: &Door, at: (&Stack, Instant)) {
        let (stack, now) = at;
        // Also between turns, where it was told of a path that was added.
        self.hear(stack);
        let Completion { tag, bio, status } = back;
        if bio.op != op || bio.payload.bytes() != bytes {
            let what =
                format!("request {tag}: {} of {bytes} bytes came back as {bio:?}, {}", op.name(), bio.payload.bytes());
            self.log.violate(Rule::Completion, now, what);
        }
        let asked = format_args!("{bio:?}");
        self.log.judge_time(&asked, back, now);
        let (mut grounds, mut zones_of) = (self.grounds(stack, now), 0);
        if let Some(open) = self.open.remove(tag) {
            (grounds.excused, grounds.reach, zones_of) = (open.excused, open.reach, open.zones);
        }
        if self.heads.as_ref().is_some_and(|heads| heads.excuse(op, back.why(), self.losses > 0)) {
            grounds.excused = true;
            self.unsaid |= zones_of;
        }
        let (sectors, zones);
        let answer = match (op, &bio.payload) {
            (Op::Read, payload) if status.is_ok() => {
                sectors = door.as_written(payload);
                Answer::Sectors(&sectors)
            }
            (Op::ReportZones, Payload::Zones(list)) => {
                zones = list.iter().filter_map(|zone| door.translate(zone)).collect::<Vec<_>>();
                Answer::Zones(&zones)
            }
            (Op::ZoneAppend, _) => door.extent(bio.sector, bio.sectors).map_or(Answer::Nothing, Answer::Landed),
            _ => Answer::Nothing,
        };
        if let Err(violation) = self.model.complete(*tag, *status, &answer, &grounds) {
            self.log.violation.get_or_insert(violation);
        }
        self.log.judge_reason(&asked, back, now);
    }

    /// Tells the first disk in which zones its host may be wrong because of paths.
    pub fn excuse_host(&mut self, stack: &mut Stack) {
        let (unsaid, disk) = (core::mem::take(&mut self.unsaid), self.disks[0]);
        let zones = (0..self.parts.len() as u32).map(ZoneNo).filter(|zone| unsaid & one(*zone) != 0);
        zones.for_each(|zone| _ = stack.with_device(disk, |disk: &mut Leaf, _| disk.0.excuse(zone)));
    }

    /// Whether the head has heard of a loss of power: then the model hears of it, too.
    pub fn hear(&mut self, stack: &Stack) {
        let losses = self.heads.as_ref().map_or(0, |heads| heads.losses(stack));
        if losses > self.losses {
            (self.losses, self.is_loss_unheard) = (losses, false);
            self.model.cache_lost();
        }
    }

    /// Looks at the devices: after every hop.
    pub fn inspect(&mut self, stack: &Stack) {
        self.hear(stack);
        let verify = |plug: &DeviceId| stack.device::<ZonePlug>(*plug)?.verify().err();
        if let Some(what) = self.plugs.iter().find_map(verify) {
            self.log.violate(Rule::Plug, Instant::ZERO, what);
        }
        self.inspect_schedulers(stack);
        if let Some(device) = self.suspended.iter().find(|device| !stack.is_drained(**device)) {
            self.log.violate(Rule::Table, Instant::ZERO, format!("a bio went into the suspended device {}", device.0));
        }
    }

    fn inspect_schedulers(&mut self, stack: &Stack) {
        for disk in self.disks.iter() {
            let Some(scheduler) = stack.scheduler_as::<MqDeadline>(*disk) else { continue };
            if let Err((rule, what)) = self.schedulers.entry(*disk).or_default().look(scheduler) {
                self.log.violate(rule, Instant::ZERO, what);
            }
        }
    }

    /// Looks for rules that the disk saw broken.
    pub fn ask_disk(&mut self, stack: &Stack) {
        let complaint = |disk: &DeviceId| stack.device::<Leaf>(*disk)?.0.complaint();
        if let Some((at, what)) = self.disks.clone().iter().find_map(complaint) {
            self.log.violate(Rule::Order, at, what);
        }
        if let Some(broken) = self.heads.as_ref().and_then(|heads| heads.complaint(stack)) {
            self.log.violation.get_or_insert(paths::violation(broken));
        }
    }
}

/// Whether some plug refuses everything that needs an order; also one that a table has brought along, which asks for zones once.
fn has_failed_plug(stack: &Stack) -> bool {
    let mut plugs = (0..stack.devices()).filter_map(|place| stack.device::<ZonePlug>(DeviceId(place as u16)));
    plugs.any(|plug| plug.failure().is_some())
}

/// Words of a sector.
pub(super) const SECTOR_WORDS: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::super::layout::Layouts;
    use super::*;
    use crate::disk::{CrashConfig, CrashDisk};
    use crate::fault::{Fault, FaultPlan};
    use crate::model::{Extent, Intent, Trust};
    use shingle_core::block::{Bio, Data, Reason, Status};
    use shingle_core::dm::{OpSet, Trigger};
    use shingle_core::plug::PlugOptions;
    use shingle_core::sector::Sector;
    use shingle_core::zone::ZoneGeometry;

    /// A disk of one zone that fails reports, and a plug on it that has asked for its zones in vain.
    fn failed_plug(config: &CrashConfig) -> (Stack, [DeviceId; 2]) {
        let reports = Trigger { ops: OpSet::of(&[Op::ReportZones]), ..Trigger::default() };
        let plan = FaultPlan::none().with(reports, Fault::Fail(Status::Io));
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(Leaf(Box::new(CrashDisk::new(config.clone(), plan, 1).unwrap())))).unwrap();
        let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
        let plug = stack.add(Box::new(plug)).unwrap();
        let mut now = Instant::ZERO;
        while let Some(next) = stack.turn(now) {
            now = next.max(now);
        }
        assert!(has_failed_plug(&stack));
        (stack, [disk, plug])
    }

    /// Found by the swarm (mapper 141011778), a mistake of the checkers: a write failed at a plug that did not know its zones, and
    /// was told late, when the table that had brought that plug along was gone.
    #[test]
    fn what_a_failed_plug_refused_has_a_reason_also_when_it_is_told_after_the_plug_is_gone() {
        let config = CrashConfig::new(ZoneGeometry::new(64, 64, 64, 0).unwrap());
        for (is_noted, expected) in [(true, None), (false, Some(Rule::Unexplained))] {
            let (mut stack, [disk, plug]) = failed_plug(&config);
            let layouts = Layouts::of_disk(&config);
            let model = Model::new(&layouts.shapes, Trust::Stack, false);
            let mut ledger = Ledger::new(model, 1, TraceSum::default());
            (ledger.disks, ledger.parts) = (Rc::from([disk]), layouts.parts.into());
            ledger.doors.push(Behind { failing: 0, reach: 1 });
            let pieces = layouts.disk_pieces[0].clone();
            let (number, zoned, whole, changes) = (0, true, true, true);
            let door = Door { number, device: plug, pieces, zoned, whole, writes: 1, changes, longest_append: 1 };
            let extents = Vec::from([Extent { zone: ZoneNo(0), offset: 0, sectors: 1 }]);
            let request =
                DiskRequest { op: Op::Write, flags: Flags::NONE, extents, intent: Intent::Sound, atomic: true };
            let tag = ledger.submit(request, &door, (&stack, Instant::ZERO));
            if is_noted {
                ledger.before_swaps(&stack);
            }
            stack.remove(plug).unwrap();
            let mut bio = Box::new(Bio::new(Op::Write, Sector::ZERO, 1, Payload::Data(Data::zeroed(512))));
            let status = bio.blame(Reason::ZonesUnknown("the report failed".into()));
            ledger.complete((Op::Write, 512), &Completion { tag, bio, status }, &door, (&stack, Instant::ZERO));
            assert_eq!(ledger.log.violation, None, "what ends at the same time may still be the reason");
            let verdict = ledger.model.verdict(Instant(u64::MAX));
            assert_eq!(verdict.err().map(|violation| violation.rule), expected);
        }
    }
}
