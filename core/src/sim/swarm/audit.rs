//! The auditor: reads everything back, after a loss of power and at the end.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::ledger::{Door, Ledger, Shared};
use crate::block::{Bio, Completion, Data, Flags, Op, Payload, Status};
use crate::sector::Sector;
use crate::sim::model::{Extent, Intent, Request, Rule};
use crate::sim::world::{Actor, Io};
use crate::zone::{Zone, ZoneGeometry, ZoneKind};

/// What it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Report,
    Read(u32),
    Done,
}

/// The auditor. It works through the plug, one request at a time, on a disk that has been told not to fail.
pub(super) struct Auditor {
    shared: Shared,
    door: Door,
    geometry: ZoneGeometry,
    /// Whether the power was gone, so that what is found is what was kept.
    after_cut: bool,
    step: Step,
    report: Vec<Zone>,
}

impl Auditor {
    pub fn new(shared: Shared, door: Door, geometry: ZoneGeometry, after_cut: bool) -> Self {
        Self { shared, door, geometry, after_cut, step: Step::Report, report: Vec::new() }
    }
}

impl Actor for Auditor {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        while let Some(back) = io.completion() {
            self.take_back(ledger, &back, io);
        }
        ledger.collect_trace(io.stack);
        if io.outstanding() == 0 && !ledger.is_over() {
            self.go_on(ledger, io);
        }
    }

    fn is_done(&self) -> bool {
        self.step == Step::Done
    }
}

impl Auditor {
    fn take_back(&mut self, ledger: &mut Ledger, back: &Completion, io: &mut Io<'_>) {
        let bytes = back.bio.payload.bytes();
        ledger.complete((back.bio.op, bytes), back, &self.door, (io.stack, io.now()));
        if let (Payload::Zones(zones), Status::Ok) = (&back.bio.payload, back.status) {
            self.report = zones.clone();
            if zones.len() as u32 != self.geometry.zones() {
                ledger.violate(Rule::Condition, io.now(), "the report does not have all zones".into());
            }
        }
        if back.bio.op == Op::Read && back.status.is_ok() && self.after_cut {
            self.pin(ledger, &back.bio, io);
        }
    }

    fn go_on(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) {
        match self.step {
            Step::Report => {
                self.step = Step::Read(0);
                let room = Payload::Zones(Vec::with_capacity(self.geometry.zones() as usize));
                self.submit((Op::ReportZones, Vec::new()), (Sector::ZERO, 0), room, (ledger, io));
            }
            Step::Read(zone) => match self.report.get(zone as usize).copied() {
                Some(found) => {
                    self.step = Step::Read(zone + 1);
                    let sectors = found.len as u32;
                    let extent = Extent { zone: self.door.zones[zone as usize], offset: 0, sectors };
                    let memory = Payload::Data(Data::zeroed(sectors as usize * 512));
                    self.submit((Op::Read, vec![extent]), (found.start, sectors), memory, (ledger, io));
                }
                None => {
                    self.step = Step::Done;
                    if self.after_cut {
                        ledger.model.recovered();
                    }
                }
            },
            Step::Done => {}
        }
    }

    fn submit(
        &mut self,
        (op, extents): (Op, Vec<Extent>),
        (sector, sectors): (Sector, u32),
        payload: Payload,
        (ledger, io): (&mut Ledger, &mut Io<'_>),
    ) {
        let request = Request { op, flags: Flags::NONE, extents, intent: Intent::Sound, atomic: true };
        let number = ledger.audit(request, io.stack, io.now());
        io.submit(number, self.door.device, Box::new(Bio::new(op, sector, sectors, payload)));
    }

    /// What was read is what was kept. Data of two lives of a zone cannot be in it together.
    fn pin(&self, ledger: &mut Ledger, bio: &Bio, io: &Io<'_>) {
        let number = self.geometry.zone_of(bio.sector);
        let (mut oldest, mut newest) = (u64::MAX, 0);
        for (offset, seen) in super::ledger::read_stamps(&bio.payload).into_iter().enumerate() {
            if let Some(origin) = ledger.model.pin(number, offset as u32, seen) {
                (oldest, newest) = (oldest.min(origin), newest.max(origin));
            }
        }
        if oldest < newest
            && self.geometry.kind(number) == ZoneKind::Sequential
            && let Err(what) = ledger.model.check_generation(number, oldest, newest)
        {
            ledger.violate(Rule::Durability, io.now(), what);
        }
    }
}
