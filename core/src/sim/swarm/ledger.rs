//! What all actors of a run share: the model, what is left to do, and what was seen.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;

use crate::block::{Completion, Data, DeviceId, Op, Payload, Stack, TraceEvent};
use crate::plug::ZonePlug;
use crate::sector::Sector;
use crate::sim::disk::CrashDisk;
use crate::sim::model::{Answer, Extent, Grounds, Model, Request, Rule, Seen, Violation};
use crate::target::Faulty;
use crate::time::{Duration, Instant};
use crate::zone::{Zone, ZoneNo};

/// The longest that a bio may take, however much is in line before it.
pub(super) const PATIENCE: Duration = Duration::from_millis(120_000);
/// Trace events between two looks at the trace.
pub(super) const TRACE: usize = 1 << 16;

/// The ledger, as actors hold it.
pub(super) type Shared = Rc<RefCell<Ledger>>;

/// A device that hosts use, and the zones of the disk behind it.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub device: DeviceId,
    /// For each of its zones the disk's.
    pub zones: Vec<ZoneNo>,
    /// Whether a reset of all zones is one command.
    pub whole: bool,
    pub zone_sectors: u32,
}

impl Door {
    /// Where on the disk the sector of this device lies.
    fn extent(&self, sector: Sector, sectors: u32) -> Option<Extent> {
        let (zone, offset) = (sector.0 / u64::from(self.zone_sectors), sector.0 % u64::from(self.zone_sectors));
        self.zones.get(zone as usize).map(|zone| Extent { zone: *zone, offset: offset as u32, sectors })
    }

    /// A line of a report, as it would be on the disk.
    fn translate(&self, zone: &Zone) -> Option<(ZoneNo, Zone)> {
        let number = self.extent(zone.start, 0)?.zone;
        let start = Sector(u64::from(number.0) * u64::from(self.zone_sectors));
        let wp = start + zone.wp.0.saturating_sub(zone.start.0);
        Some((number, Zone { start, wp, ..*zone }))
    }
}

/// The ledger.
pub(super) struct Ledger {
    pub model: Model,
    pub disk: DeviceId,
    pub plug: DeviceId,
    /// The device of the table's target, which may be one that fails on purpose.
    pub layer: Option<DeviceId>,
    pub no_append: bool,
    /// Requests that may still be submitted.
    pub left: u64,
    pub submitted: u64,
    /// Number of requests after which the power goes.
    pub cut_at: Option<u64>,
    pub violation: Option<Violation>,
    pub trace: TraceSum,
}

/// The trace, as a sum, and as text if somebody wants it.
pub(super) struct TraceSum {
    pub sum: u64,
    pub events: u64,
    pub text: Option<String>,
}

impl TraceSum {
    pub fn line(&mut self, line: &str) {
        line.bytes().for_each(|byte| self.mix(byte.into()));
        if let Some(text) = &mut self.text {
            text.push_str(line);
            text.push('\n');
        }
    }

    fn event(&mut self, event: &TraceEvent) {
        let TraceEvent { at, action, device, op, sector, sectors, status, .. } = *event;
        self.events += 1;
        self.mix(at.0);
        self.mix((action as u64) << 56 | u64::from(device.0) << 40 | (op as u64) << 32 | u64::from(sectors));
        self.mix(sector.0 << 8 | status as u64);
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "{event}");
        }
    }

    fn mix(&mut self, word: u64) {
        let wide = u128::from(self.sum ^ word ^ 0xe703_7ed1_a0b4_28db) * 0xa076_1d64_78bd_642f;
        self.sum = (wide >> 64) as u64 ^ wide as u64;
    }
}

impl Ledger {
    /// Whether the run is to stop here.
    pub fn is_over(&self) -> bool {
        self.violation.is_some() || self.is_cut()
    }

    /// Whether the power goes now.
    pub fn is_cut(&self) -> bool {
        self.cut_at.is_some_and(|at| self.submitted >= at)
    }

    pub fn violate(&mut self, rule: Rule, at: Instant, what: String) {
        self.violation.get_or_insert(Violation { rule, at, what });
    }

    pub fn grounds<'a>(&self, stack: &'a Stack, now: Instant) -> Grounds<'a> {
        Grounds {
            disk: stack.device::<CrashDisk>(self.disk).expect("the disk is where it was put"),
            plug_failed: stack.device::<ZonePlug>(self.plug).is_some_and(|plug| plug.failure().is_some()),
            layer_faults: self.layer.and_then(|layer| stack.device::<Faulty>(layer)).map_or(0, Faulty::injected),
            no_append: self.no_append,
            now,
        }
    }

    /// Takes note of a request that goes in now.
    pub fn submit(&mut self, request: Request, stack: &Stack, now: Instant) -> u64 {
        self.submitted += 1;
        self.left = self.left.saturating_sub(1);
        let grounds = self.grounds(stack, now);
        self.model.submit(request, &grounds)
    }

    /// The same for a request that is not counted.
    pub fn audit(&mut self, request: Request, stack: &Stack, now: Instant) -> u64 {
        let grounds = self.grounds(stack, now);
        self.model.submit(request, &grounds)
    }

    /// Judges a completion.
    pub fn complete(&mut self, (op, bytes): (Op, usize), back: &Completion, door: &Door, at: (&Stack, Instant)) {
        let (stack, now) = at;
        let Completion { tag, bio, status } = back;
        if bio.op != op || bio.payload.bytes() != bytes {
            let what =
                format!("request {tag}: {} of {bytes} bytes came back as {bio:?}, {}", op.name(), bio.payload.bytes());
            self.violate(Rule::Completion, now, what);
        }
        let took = now.since(bio.since);
        if took > PATIENCE {
            self.violate(Rule::Stuck, now, format!("request {tag}: {bio:?} took {} ms", took.0 / 1_000_000));
        }
        let grounds = self.grounds(stack, now);
        let (sectors, zones);
        let answer = match (op, &bio.payload) {
            (Op::Read, payload) if status.is_ok() => {
                sectors = read_stamps(payload);
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
            self.violation.get_or_insert(violation);
        }
    }

    /// Takes the trace out of the stack.
    pub fn collect_trace(&mut self, stack: &mut Stack) {
        let Some(trace) = stack.trace() else { return };
        while let Some(event) = trace.pop() {
            self.trace.event(&event);
        }
    }

    /// Looks at the devices: after every hop.
    pub fn inspect(&mut self, stack: &Stack) {
        if let Some(Err(what)) = stack.device::<ZonePlug>(self.plug).map(ZonePlug::verify) {
            self.violate(Rule::Plug, Instant::ZERO, what);
        }
    }

    /// Looks for rules that the disk saw broken.
    pub fn ask_disk(&mut self, stack: &Stack) {
        let complaint = stack.device::<CrashDisk>(self.disk).and_then(CrashDisk::complaint);
        if let Some((at, what)) = complaint {
            self.violate(Rule::Order, *at, what.clone());
        }
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const SECTOR_WORDS: usize = 64;

/// Fills memory so that every word of it tells whose it is: the request, the sector in it, and the place in that.
pub(super) fn stamp(data: &Data, request: u64, first_sector: u32) {
    for (place, word) in data.words().iter().enumerate() {
        let sector = u64::from(first_sector) + (place / SECTOR_WORDS) as u64;
        word.store((request << 16 | sector).wrapping_add(((place % SECTOR_WORDS) as u64).wrapping_mul(STEP)), Relaxed);
    }
}

pub(super) fn read_stamps(payload: &Payload) -> Vec<Seen> {
    let mut words = payload.segments().iter().flat_map(|data| data.words()).map(|word| word.load(Relaxed));
    let mut seen = Vec::with_capacity(payload.bytes() / 512);
    while let Some(first) = words.next() {
        let rest = || (1..SECTOR_WORDS as u64).map(|place| place.wrapping_mul(STEP));
        let (mut stamped, mut zero) = (true, first == 0);
        for (step, word) in rest().zip(words.by_ref().take(SECTOR_WORDS - 1)) {
            stamped &= word == first.wrapping_add(step);
            zero &= word == 0;
        }
        seen.push(match (zero, stamped) {
            (true, _) => Seen::Zeroes,
            (_, true) => Seen::Data(first >> 16, (first & 0xffff) as u32),
            _ => Seen::Garbage,
        });
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_tells_request_and_sector_and_every_mix_up_is_seen() {
        let data = Data::zeroed(3 * 512);
        stamp(&data, 7, 4);
        let all = [Seen::Data(7, 4), Seen::Data(7, 5), Seen::Data(7, 6)];
        assert_eq!(read_stamps(&Payload::Data(data.clone())), all);
        data.words()[64 + 9].store(1, Relaxed);
        assert_eq!(read_stamps(&Payload::Data(data.clone()))[1], Seen::Garbage);
        data.fill(0);
        assert_eq!(read_stamps(&Payload::Data(data)), [Seen::Zeroes; 3]);
    }
}
