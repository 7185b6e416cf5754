//! Where on another device the sectors of recorded work lie.
//!
//! A sequential zone takes writes at its pointer only, and the pointers of the device are not those of the recording. So:
//!
//! - A recorded zone is replayed in the zone of the same number if that is of the same kind and usable, else in the first
//!   one that is, that no other recorded zone has, and that the recording does not touch.
//! - A write to a sequential zone goes where the pointer is. If it does not fit there, the zone is reset first; also if an
//!   earlier write to it failed, as then nobody knows the pointer.
//! - A read goes as far from the pointer as it was: to what was written in its stead.
//! - Zone management keeps its zone.
//! - A length is rounded up to what the device can do. What it cannot do at all is left out.

use alloc::collections::{BTreeMap, BTreeSet};

use super::player::Work;
use shingle_core::block::{Flags, Limits, Op, Status};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

/// The device that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its zone size in sectors; `None` if it was a regular one.
    pub zone_sectors: Option<u32>,
    /// What is known of its zones at the start, by number.
    pub zones: BTreeMap<u32, OriginZone>,
}

/// A zone of the device that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginZone {
    /// Conventional or sequential.
    pub kind: ZoneKind,
    /// Its write pointer at the start, in sectors from the zone's.
    pub wp: u32,
}

/// What to submit. The ticket is to be given back should it fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedIo {
    /// What for.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// First sector on this device.
    pub sector: Sector,
    /// Length in sectors.
    pub sectors: u32,
    /// What moved the pointer of which zone.
    pub ticket: Ticket,
}

/// The recorded zone that a request moves the pointer of, and how often that zone was emptied before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket(Option<(u32, u32)>);

/// Recorded work as it can be done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjusted {
    /// The device cannot do it.
    Skip,
    /// This.
    Io(PlacedIo),
    /// First this reset, then the other.
    AfterReset(PlacedIo, PlacedIo),
}

/// A zone here, for a recorded one.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: Sector,
    capacity: u32,
    kind: ZoneKind,
    /// The pointer here once all that was sent is done, in sectors from the zone's start.
    wp: u32,
    /// The pointer that the recording had by then.
    recorded: u32,
    /// How much further on than in the recording the last write went.
    shift: i64,
    /// Whether nobody knows the pointer.
    lost: bool,
    emptied: u32,
}

/// How work fits to a device.
#[derive(Clone, Debug)]
pub struct Fit {
    origin: Origin,
    places: BTreeMap<u32, Place>,
    limits: Limits,
    /// Sectors that every range begins and ends on; of writes to sequential zones, and of all others.
    units: [u32; 2],
    /// Sectors of the longest request with data.
    pub(super) longest: u32,
    /// Zones that are replayed under another number.
    pub moved_zones: u32,
    /// Resets that the recording does not have.
    pub added_resets: u64,
    /// Bios that had to become longer.
    pub rounded: u64,
}

/// Longest bio that is replayed, in sectors: 1 GiB.
const LONGEST: u32 = 1 << 21;

impl Fit {
    /// `work` of `origin` on a device with `limits` and zones as in `report`.
    pub fn new(origin: Origin, work: &[Work], limits: &Limits, report: &[Zone]) -> Result<Self, FitError> {
        let zoned = limits.zoned.as_ref();
        let block = limits.block_sectors();
        let write_unit = zoned.map_or(block, |zoned| (zoned.write_granularity_bytes / 512).max(block));
        let data = work.iter().filter(|work| work.op.has_data());
        let longest = data.map(|work| work.sectors).max().unwrap_or(0);
        if longest > LONGEST {
            return Err(FitError::TooLong(longest));
        }
        let mut fit = Self {
            origin,
            places: BTreeMap::new(),
            limits: limits.clone(),
            units: [write_unit, block],
            // A range that is neither aligned at its start nor at its end grows by less than two blocks.
            longest: longest + 2 * write_unit,
            moved_zones: 0,
            added_resets: 0,
            rounded: 0,
        };
        match fit.origin.zone_sectors {
            Some(sectors) if zoned.is_some() => fit.take_zones(work, sectors, report)?,
            _ => fit.check_regular(work, report)?,
        }
        Ok(fit)
    }

    /// Finds a zone for each that the work touches.
    fn take_zones(&mut self, work: &[Work], zone_sectors: u32, report: &[Zone]) -> Result<(), FitError> {
        let addressed = work.iter().filter(|work| !matches!(work.op, Op::Flush | Op::ZoneResetAll));
        let touched: BTreeSet<u32> = addressed.map(|work| zone_number(work.sector, zone_sectors)).collect();
        let usable = |zone: &&Zone| !matches!(zone.cond, Condition::ReadOnly | Condition::Offline);
        let same = |number: u32| report.get(number as usize).filter(usable);
        let kind_of = |number: u32| {
            let known = self.origin.zones.get(&number).map(|zone| zone.kind);
            known.unwrap_or_else(|| same(number).map_or(ZoneKind::Sequential, |zone| zone.kind))
        };
        let mut places = BTreeMap::new();
        let mut spare = [ZoneKind::Conventional, ZoneKind::Sequential].map(|kind| {
            let free = report.iter().enumerate().filter(|(place, _)| !touched.contains(&(*place as u32)));
            free.map(|(_, zone)| zone).filter(usable).filter(move |zone| zone.kind == kind)
        });
        for number in &touched {
            let kind = kind_of(*number);
            let same = same(*number).filter(|zone| zone.kind == kind);
            let zone = same.or_else(|| spare[usize::from(kind == ZoneKind::Sequential)].next());
            let needed = || touched.iter().filter(|number| kind_of(**number) == kind).count() as u32;
            let zone = zone.ok_or_else(|| FitError::TooFewZones { kind, needed: needed() })?;
            self.moved_zones += u32::from(same.is_none());
            let recorded = self.origin.zones.get(number).map_or(0, |zone| zone.wp);
            places.insert(*number, Place::new(zone, recorded));
        }
        self.places = places;
        Ok(())
    }

    /// Work of a regular device keeps its addresses.
    fn check_regular(&self, work: &[Work], report: &[Zone]) -> Result<(), FitError> {
        let ranges = work.iter().filter(|work| work.op.has_range());
        let end = ranges.map(|work| work.sector.0.saturating_add(work.sectors.into())).max().unwrap_or(0);
        if end > self.limits.capacity {
            return Err(FitError::TooSmall { end, capacity: self.limits.capacity });
        }
        let conventional =
            report.iter().take_while(|zone| zone.kind == ZoneKind::Conventional).map(|zone| zone.len).sum();
        if self.limits.zoned.is_some() && end > conventional {
            Err(FitError::NeedsRegular { end, conventional })
        } else {
            Ok(())
        }
    }

    /// How `work` can be done here. The pointers move on as if it were done.
    pub fn place(&mut self, work: &Work) -> Adjusted {
        match work.op {
            Op::ReportZones => Adjusted::Skip,
            Op::Flush => Adjusted::Io(plain(work, Sector::ZERO, 0)),
            Op::ZoneResetAll if self.limits.zoned.is_some() => {
                self.places.values_mut().for_each(Place::empty);
                Adjusted::Io(plain(work, Sector::ZERO, 0))
            }
            Op::Discard if self.limits.max_discard.is_none() => Adjusted::Skip,
            Op::WriteZeroes if self.limits.max_write_zeroes.is_none() => Adjusted::Skip,
            op => match self.origin.zone_sectors {
                Some(zone_sectors) if self.limits.zoned.is_some() => self.place_in_zone(work, zone_sectors),
                _ if op.is_zone_management() => Adjusted::Skip,
                zone_sectors => self.place_regular(work, zone_sectors),
            },
        }
    }

    fn place_in_zone(&mut self, work: &Work, zone_sectors: u32) -> Adjusted {
        let (number, offset) =
            (zone_number(work.sector, zone_sectors), (work.sector.0 % u64::from(zone_sectors)) as u32);
        let [write_unit, block] = self.units;
        let Some(place) = self.places.get_mut(&number) else { return Adjusted::Skip };
        let sequential = place.kind == ZoneKind::Sequential;
        match work.op {
            op if op.is_zone_management() => {
                let (start, ticket) = (place.start, place.ticket(number));
                place.manage(op, zone_sectors);
                let moves = matches!(op, Op::ZoneReset | Op::ZoneFinish);
                let request = plain(work, start, 0);
                if !sequential {
                    return Adjusted::Skip;
                }
                Adjusted::Io(if moves { PlacedIo { ticket, ..request } } else { request })
            }
            op if sequential && op.writes_data() => {
                let sectors = work.sectors.min(place.capacity).next_multiple_of(write_unit).min(place.capacity);
                self.rounded += u64::from(sectors != work.sectors);
                let reset = place.lost || u64::from(place.wp) + u64::from(sectors) > u64::from(place.capacity);
                if reset {
                    self.added_resets += 1;
                    place.empty_here();
                }
                let recorded = if op == Op::ZoneAppend { place.recorded } else { offset };
                place.shift = i64::from(place.wp) - i64::from(recorded);
                let (at, ticket) = (place.start + u64::from(place.wp), place.ticket(number));
                (place.wp, place.recorded) = (place.wp + sectors, recorded.saturating_add(work.sectors));
                let longest_append = self.limits.zoned.as_ref().and_then(|zoned| zoned.max_append);
                let append = op == Op::ZoneAppend && longest_append.is_some_and(|most| sectors <= most);
                let request = match (op, append) {
                    (_, true) => PlacedIo { op, sector: place.start, ..plain(work, at, sectors) },
                    (Op::ZoneAppend, false) => PlacedIo { op: Op::Write, ..plain(work, at, sectors) },
                    _ => plain(work, at, sectors),
                };
                let request = PlacedIo { ticket, ..request };
                if !reset {
                    return Adjusted::Io(request);
                }
                let reset = PlacedIo { op: Op::ZoneReset, flags: Flags::NONE, ..plain(work, place.start, 0) };
                Adjusted::AfterReset(PlacedIo { ticket, ..reset }, request)
            }
            _ => {
                let shift = if sequential { place.shift } else { 0 };
                let offset = (i64::from(offset) + shift).rem_euclid(place.capacity.into()) as u32;
                let (mut from, mut sectors) = widen(offset, work.sectors, block);
                self.rounded += u64::from(sectors != work.sectors);
                sectors = sectors.min(place.capacity - place.capacity % block);
                from = from.min(place.capacity - sectors);
                Adjusted::Io(plain(work, place.start + u64::from(from - from % block), sectors))
            }
        }
    }

    /// On a device without zones, or for work of one.
    fn place_regular(&mut self, work: &Work, zone_sectors: Option<u32>) -> Adjusted {
        let mut work = *work;
        if let (Op::ZoneAppend, Some(zone_sectors)) = (work.op, zone_sectors) {
            let zone = zone_number(work.sector, zone_sectors);
            let origin = self.origin.zones.entry(zone).or_insert(OriginZone { kind: ZoneKind::Sequential, wp: 0 });
            // The zone starts over if the recording lost a reset.
            let fits = u64::from(origin.wp) + u64::from(work.sectors) <= u64::from(zone_sectors);
            let wp = if fits { origin.wp } else { 0 };
            origin.wp = wp.saturating_add(work.sectors);
            (work.op, work.sector) = (Op::Write, work.sector + u64::from(wp));
        }
        let block = u64::from(self.units[1]);
        let from = work.sector.0 - work.sector.0 % block;
        let end = work.sector.0.saturating_add(work.sectors.into()).next_multiple_of(block).min(self.limits.capacity);
        let sectors = end.saturating_sub(from) as u32;
        self.rounded += u64::from(sectors != work.sectors);
        Adjusted::Io(plain(&work, Sector(from), sectors))
    }

    /// A request failed: nobody knows the pointer of its zone, unless it was emptied since.
    pub fn failed(&mut self, ticket: Ticket) {
        if let Some((zone, emptied)) = ticket.0
            && let Some(place) = self.places.get_mut(&zone)
        {
            place.lost |= place.emptied == emptied;
        }
    }
}

impl Place {
    fn new(zone: &Zone, recorded: u32) -> Self {
        let capacity = zone.capacity as u32;
        let wp = match zone.cond {
            Condition::Full => capacity,
            cond if cond.has_write_pointer() => ((zone.wp - zone.start) as u32).min(capacity),
            _ => 0,
        };
        let shift = i64::from(wp) - i64::from(recorded);
        Self { start: zone.start, capacity, kind: zone.kind, wp, recorded, shift, lost: false, emptied: 0 }
    }

    fn ticket(&self, number: u32) -> Ticket {
        Ticket((self.kind == ZoneKind::Sequential).then_some((number, self.emptied)))
    }

    fn manage(&mut self, op: Op, zone_sectors: u32) {
        match op {
            Op::ZoneReset => self.empty(),
            Op::ZoneFinish => (self.wp, self.recorded) = (self.capacity, zone_sectors),
            _ => {}
        }
    }

    fn empty(&mut self) {
        self.empty_here();
        (self.recorded, self.shift) = (0, 0);
    }

    /// Empty here, and not in the recording.
    fn empty_here(&mut self) {
        (self.wp, self.lost) = (0, false);
        self.emptied = self.emptied.wrapping_add(1);
    }
}

fn plain(work: &Work, sector: Sector, sectors: u32) -> PlacedIo {
    PlacedIo { op: work.op, flags: work.flags, sector, sectors, ticket: Ticket::default() }
}

fn zone_number(sector: Sector, zone_sectors: u32) -> u32 {
    u32::try_from(sector.0 / u64::from(zone_sectors.max(1))).unwrap_or(u32::MAX)
}

/// The range on whole blocks that holds a range.
fn widen(offset: u32, sectors: u32, block: u32) -> (u32, u32) {
    let from = offset - offset % block;
    let sectors = (u64::from(offset - from) + u64::from(sectors)).next_multiple_of(block.into());
    (from, u32::try_from(sectors).unwrap_or(u32::MAX))
}

/// Mismatch between recorded work and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitError {
    /// The device has too few zones of a kind that the work touches.
    TooFewZones {
        /// The kind.
        kind: ZoneKind,
        /// How many it touches.
        needed: u32,
    },
    /// The work reaches beyond the end of the device.
    TooSmall {
        /// Where it ends.
        end: u64,
        /// Sectors of the device.
        capacity: u64,
    },
    /// The work writes anywhere, and the device takes that only in its conventional zones.
    NeedsRegular {
        /// Where the work ends.
        end: u64,
        /// Where they end.
        conventional: u64,
    },
    /// The work has a bio of so many sectors.
    TooLong(u32),
    /// The device does not report its zones.
    NoReport(Status),
}

shingle_core::impl_error!(FitError, |self, f| match self {
    Self::TooFewZones { kind, needed } => {
        let kind = if *kind == ZoneKind::Sequential { "sequential" } else { "conventional" };
        write!(f, "the recording touches {needed} {kind} zones, and the device does not have as many: use a larger one")
    }
    Self::TooSmall { end, capacity } =>
        write!(f, "the recording reaches up to sector {end}, and the device has {capacity} sectors: use a larger one"),
    Self::NeedsRegular { end, conventional } => write!(
        f,
        "the recording is of a regular device and reaches up to sector {end}, but this device takes such writes \
         only below sector {conventional}: use a device without zones, or record on a zoned one"
    ),
    Self::TooLong(sectors) => {
        write!(f, "the recording has a bio of {sectors} sectors; those of more than {LONGEST} are not replayed")
    }
    Self::NoReport(status) => write!(f, "the device did not report its zones: {status}"),
});
