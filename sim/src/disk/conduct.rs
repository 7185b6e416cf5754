//! How the host treats the disk: the rules of a policy, seen from below.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use shingle_core::block::{Bio, Op, Status};
use shingle_core::time::Instant;
use shingle_core::zone::{ZoneGeometry, ZoneKind, ZoneNo};

/// What a disk may expect of its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// Nothing.
    #[default]
    None,
    /// One write at a time in a zone.
    OneWrite,
    /// One command at a time in a zone, reads and native appends excepted; writes at the pointer; none after one failed,
    /// until something told where the pointer is.
    InOrder,
    /// As `InOrder`, and one write at a time in all sequential zones together.
    OneOfDisk,
}

impl Discipline {
    /// Whether writes of a zone come at its pointer, one after the other.
    const fn orders(self) -> bool {
        matches!(self, Self::InOrder | Self::OneOfDisk)
    }
}

/// What is known of the host's commands to one zone.
#[derive(Clone, Copy, Default)]
struct Watched {
    writes: u32,
    appends: u32,
    managed: u32,
    /// A write failed, and no report, reset or finish came since.
    lost: bool,
    /// The disk did something that it did not say, so the host may be wrong about the pointer.
    excused: bool,
}

/// A watch over the host.
pub(super) struct Conduct {
    pub discipline: Discipline,
    zones: Vec<Watched>,
    /// Writes in flight in all zones.
    writes: u32,
    /// The first rule that the host broke, and when.
    pub complaint: Option<(Instant, String)>,
}

impl Conduct {
    pub fn new(zones: u32) -> Self {
        let zones = vec![Watched::default(); zones as usize];
        Self { discipline: Discipline::None, zones, writes: 0, complaint: None }
    }

    fn complain(&mut self, now: Instant, zone: ZoneNo, bio: &Bio, what: &str) {
        self.complaint.get_or_insert_with(|| (now, format!("zone {zone}: {bio:?} {what}")));
    }

    /// The zones in which the order of commands like this one matters.
    fn concerned(&self, bio: &Bio, geometry: &ZoneGeometry) -> impl Iterator<Item = ZoneNo> + use<> {
        let zone = geometry.zone_of(bio.sector);
        let zones = match bio.op {
            Op::ZoneResetAll => 0..self.zones.len() as u32,
            Op::Read | Op::Flush | Op::Discard | Op::ReportZones => 0..0,
            _ if geometry.kind(zone) == ZoneKind::Sequential => zone.0..zone.0 + 1,
            _ => 0..0,
        };
        zones.map(ZoneNo)
    }

    /// A command comes.
    pub fn arrives(&mut self, bio: &Bio, geometry: &ZoneGeometry, now: Instant) {
        self.concerned(bio, geometry).for_each(|zone| self.enters(zone, bio, now));
    }

    fn enters(&mut self, zone: ZoneNo, bio: &Bio, now: Instant) {
        let was = self.zones[zone.index()];
        let is_write = matches!(bio.op, Op::Write | Op::WriteZeroes);
        let crowded = match (self.discipline, bio.op) {
            (Discipline::None, _) => false,
            (Discipline::OneWrite, _) => is_write && was.writes > 0,
            (_, Op::ZoneAppend) => was.writes + was.managed > 0,
            (Discipline::InOrder | Discipline::OneOfDisk, _) => was.writes + was.appends + was.managed > 0,
        };
        if crowded {
            self.complain(now, zone, bio, "came while another command was in flight there");
        }
        if self.discipline == Discipline::OneOfDisk && is_write && self.writes > 0 {
            self.complain(now, zone, bio, "came while the disk had another zone write");
        }
        if self.discipline.orders() && is_write && was.lost {
            self.complain(now, zone, bio, "came after a failed write, and nothing told where the pointer is");
        }
        self.writes += u32::from(is_write);
        *self.zones[zone.index()].count(bio.op) += 1;
    }

    /// A command goes.
    pub fn leaves(&mut self, bio: &Bio, geometry: &ZoneGeometry, status: Status) {
        self.concerned(bio, geometry).for_each(|zone| self.exits(zone, bio.op, status));
        if bio.op == Op::ReportZones {
            self.reported(status);
        }
    }

    fn exits(&mut self, zone: ZoneNo, op: Op, status: Status) {
        let watched = &mut self.zones[zone.index()];
        *watched.count(op) -= 1;
        self.writes -= u32::from(matches!(op, Op::Write | Op::WriteZeroes));
        match op {
            Op::Write | Op::WriteZeroes => watched.lost |= !status.is_ok() && !leaves_pointer_alone(status),
            Op::ZoneReset | Op::ZoneFinish | Op::ZoneResetAll if status.is_ok() => {
                (watched.lost, watched.excused) = (false, false);
            }
            _ => {}
        }
    }

    /// The host may learn its pointers from this, and need not: more may be waiting for the zone than the disk can see. So it
    /// may write again, and an excuse holds.
    fn reported(&mut self, status: Status) {
        if status.is_ok() {
            self.zones.iter_mut().for_each(|watched| watched.lost = false);
        }
    }

    /// The disk does not say what it did in `zone`.
    pub fn excuse(&mut self, zone: ZoneNo) {
        self.zones[zone.index()].excused = true;
    }

    /// Pointers have gone back, and no command is in flight.
    pub fn lose_all(&mut self) {
        self.zones.iter_mut().for_each(|watched| watched.lost = true);
    }

    /// A write did not start at the pointer.
    pub fn misplaced(&mut self, zone: ZoneNo, bio: &Bio, now: Instant) {
        if self.discipline.orders() && !self.zones[zone.index()].excused {
            self.complain(now, zone, bio, "did not fit the write pointer");
        }
    }
}

impl Watched {
    fn count(&mut self, op: Op) -> &mut u32 {
        match op {
            Op::Write | Op::WriteZeroes => &mut self.writes,
            Op::ZoneAppend => &mut self.appends,
            _ => &mut self.managed,
        }
    }
}

/// Refusals after which the pointer is where it was.
fn leaves_pointer_alone(status: Status) -> bool {
    matches!(status, Status::NotSupported | Status::ReadOnly | Status::ZoneOpenResource | Status::ZoneActiveResource)
}
