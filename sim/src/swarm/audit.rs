//! The auditor: reads everything back, after a loss of power and at the end.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::door::{Door, Piece, one};
use super::ledger::{Ledger, Shared};
use crate::model::{DiskRequest, Extent, Intent, Rule, Seen};
use crate::world::{Actor, Io};
use shingle_core::block::{Bio, Completion, Data, Flags, Op, Payload};
use shingle_core::sector::Sector;

/// One request of the auditor, through one door.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A report of everything.
    Report(usize),
    /// A look at one piece.
    Read(usize, Piece),
}

/// The auditor. It asks for one thing at a time, of disks that have been told not to fail.
pub(super) struct Auditor {
    shared: Shared,
    doors: Vec<Door>,
    /// Whether the power was gone, so that what is found is what was kept.
    after_cut: bool,
    steps: Vec<Step>,
    next: usize,
    is_done: bool,
}

impl Auditor {
    /// Looks at every zone through the first of `doors` at which its data can be read.
    pub fn new(shared: Shared, doors: Vec<Door>, after_cut: bool) -> Self {
        let (mut steps, mut seen) = (Vec::new(), 0);
        for (number, door) in doors.iter().enumerate() {
            let fresh = |piece: &&Piece| piece.clear && seen & one(piece.zone) == 0;
            let pieces: Vec<Piece> = door.pieces.iter().filter(fresh).copied().collect();
            if door.zoned && !pieces.is_empty() {
                steps.push(Step::Report(number));
            }
            pieces.iter().for_each(|piece| seen |= one(piece.zone));
            steps.extend(pieces.into_iter().map(|piece| Step::Read(number, piece)));
        }
        Self { shared, doors, after_cut, steps, next: 0, is_done: false }
    }
}

impl Actor for Auditor {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        while let Some(back) = io.completion() {
            self.take_back(ledger, &back, io);
        }
        ledger.log.collect_trace(io.stack);
        if io.outstanding() == 0 && !ledger.is_over() {
            self.go_on(ledger, io);
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Auditor {
    fn take_back(&mut self, ledger: &mut Ledger, back: &Completion, io: &mut Io<'_>) {
        let bytes = back.bio.payload.bytes();
        let asked = self.steps[self.next - 1];
        let (Step::Report(door) | Step::Read(door, _)) = asked;
        let door = &self.doors[door];
        ledger.complete((back.bio.op, bytes), back, door, (io.stack, io.now()));
        match (asked, &back.bio.payload) {
            (Step::Report(_), Payload::Zones(zones)) if zones.len() != door.pieces.len() => {
                ledger.log.violate(Rule::Condition, io.now(), "the report does not have all zones".into());
            }
            (Step::Read(_, piece), payload) if back.status.is_ok() && self.after_cut => {
                pin(ledger, piece, door.as_written(payload), io);
            }
            _ => {}
        }
    }

    fn go_on(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) {
        let Some(step) = self.steps.get(self.next).copied() else {
            self.is_done = true;
            if self.after_cut {
                ledger.model.recovered();
            }
            return;
        };
        self.next += 1;
        let (extents, door, bio) = match step {
            Step::Report(door) => {
                let room = Payload::Zones(Vec::with_capacity(self.doors[door].pieces.len()));
                (Vec::new(), door, Bio::new(Op::ReportZones, Sector::ZERO, 0, room))
            }
            Step::Read(door, Piece { start, len, zone, offset, .. }) => {
                let sectors = len as u32;
                let memory = Payload::Data(Data::zeroed(sectors as usize * 512));
                (vec![Extent { zone, offset, sectors }], door, Bio::new(Op::Read, Sector(start), sectors, memory))
            }
        };
        let request = DiskRequest { op: bio.op, flags: Flags::NONE, extents, intent: Intent::Sound, atomic: true };
        let door = &self.doors[door];
        let number = ledger.audit(request, door, (io.stack, io.now()));
        io.submit(number, door.device, Box::new(bio));
    }
}

/// What was read is what was kept. Data of two lives of a zone cannot be in it together.
fn pin(ledger: &mut Ledger, piece: Piece, seen: Vec<Seen>, io: &Io<'_>) {
    let (mut oldest, mut newest) = (u64::MAX, 0);
    for (place, seen) in (piece.offset..).zip(seen) {
        if let Some(origin) = ledger.model.pin(piece.zone, place, seen) {
            (oldest, newest) = (oldest.min(origin), newest.max(origin));
        }
    }
    if oldest < newest
        && ledger.model.zone(piece.zone).sequential
        && let Err(what) = ledger.model.check_generation(piece.zone, oldest, newest)
    {
        ledger.log.violate(Rule::Durability, io.now(), what);
    }
}
