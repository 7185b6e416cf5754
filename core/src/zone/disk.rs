//! All zones of a device: their shape, their states in 8 bytes each, and the resources they hold. It moves no data.
//!
//! A device writes in two steps, so that a write that fails half-way leaves the pointer behind the good half:
//!
//! ```text
//!   begin_write / begin_append     checks, opens the zone (perhaps closing another): the data may flow
//!   advance(zone, written)         moves the pointer; at capacity the zone is full
//! ```
//!
//! When the second step happens is the device's choice. One that lets a second write of a zone in before the first is
//! done advances at once, and puts the pointer back with [`ZonedDisk::set_write_pointer`] if the first one fails. One
//! that advances when the data has arrived must not do so if the zone was reset in between.

use super::recency::Recency;
use super::{
    Action, Admission, Condition, ResourceLimits, Resources, Zone, ZoneError, ZoneFault, ZoneGeometry, ZoneKind,
    ZoneNo, ZoneState,
};
use crate::prelude::*;
use crate::sector::Sector;

/// The zones of a device.
#[derive(Clone)]
pub struct ZonedDisk {
    geometry: ZoneGeometry,
    zones: Box<[Cell]>,
    resources: Resources,
    /// Implicitly open zones in order of use. Kept only if there is an open limit: nobody is evicted without one.
    evictable: Option<Recency>,
}

/// A zone's state, and its place among the evictable zones while it is one.
#[derive(Clone, Copy)]
struct Cell {
    wp: u32,
    cond: Condition,
    slot: [u8; 3],
}

const _: () = assert!(size_of::<Cell>() == 8);

impl Cell {
    const fn new(state: ZoneState) -> Self {
        Self { wp: state.wp, cond: state.cond, slot: [0; 3] }
    }

    #[inline]
    const fn state(self) -> ZoneState {
        ZoneState { cond: self.cond, wp: self.wp }
    }

    #[inline]
    const fn slot(self) -> u32 {
        u32::from_le_bytes([self.slot[0], self.slot[1], self.slot[2], 0])
    }

    fn set_slot(&mut self, slot: u32) {
        self.slot.copy_from_slice(&slot.to_le_bytes()[..3]);
    }
}

/// Error of restoring saved zones. The message names the zone and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The write pointer lies beyond the zone's capacity (in sectors).
    BeyondCapacity(ZoneNo, u32, u32),
    /// The condition does not go with the zone's kind, or with its write pointer.
    Contradiction(ZoneNo, ZoneState),
    /// More zones are open than the limit allows.
    TooManyOpen(u32),
}

impl_error!(RestoreError, |self, f| match *self {
    Self::BeyondCapacity(zone, wp, capacity) => {
        write!(f, "zone {zone}: write pointer {wp} lies beyond the zone capacity of {capacity} sectors")
    }
    Self::Contradiction(zone, ZoneState { cond, wp }) => {
        write!(f, "zone {zone}: condition {} contradicts its kind or its write pointer {wp}", cond.name())
    }
    Self::TooManyOpen(most) => write!(f, "more zones are open than max_open, {most}, allows: close some first"),
});

/// Which zones a report shows. The conditions are ZBC's reporting options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportFilter {
    /// All.
    #[default]
    All,
    /// Those in one condition.
    Condition(Condition),
    /// Those of one kind.
    Kind(ZoneKind),
    /// Those that hold an active resource.
    Active,
}

impl ReportFilter {
    /// Whether the report shows `zone`.
    #[must_use]
    pub fn shows(self, zone: &Zone) -> bool {
        match self {
            ReportFilter::All => true,
            ReportFilter::Condition(cond) => zone.cond == cond,
            ReportFilter::Kind(kind) => zone.kind == kind,
            ReportFilter::Active => zone.cond.is_active(),
        }
    }
}

impl ZonedDisk {
    /// A device that was never written.
    #[must_use]
    pub fn new(geometry: ZoneGeometry, limits: ResourceLimits) -> Self {
        let mut zones = vec![Cell::new(ZoneState::EMPTY); geometry.zones() as usize].into_boxed_slice();
        zones[..geometry.conventional() as usize].fill(Cell::new(ZoneState::CONVENTIONAL));
        let evictable = limits.max_open().map(|_| Recency::new());
        Self { geometry, zones, resources: Resources::new(limits), evictable }
    }

    /// A device whose zones are in the states that `state` tells, which is asked for each sequential zone in order.
    ///
    /// More active zones than the limit are taken as they are: the limit binds those to come.
    pub fn restore(
        geometry: ZoneGeometry,
        limits: ResourceLimits,
        mut state: impl FnMut(ZoneNo) -> ZoneState,
    ) -> Result<Self, RestoreError> {
        let mut disk = Self::new(geometry, limits);
        for zone in (geometry.conventional()..geometry.zones()).map(ZoneNo) {
            let state = state(zone);
            disk.check_restored(zone, state)?;
            disk.settle(zone, state);
            if let Some(most) = limits.max_open()
                && disk.open_zones() > most
            {
                return Err(RestoreError::TooManyOpen(most));
            }
        }
        Ok(disk)
    }

    fn check_restored(&self, zone: ZoneNo, state: ZoneState) -> Result<(), RestoreError> {
        let ZoneState { cond, wp } = state;
        let capacity = self.geometry.capacity_of(zone);
        if wp > capacity {
            return Err(RestoreError::BeyondCapacity(zone, wp, capacity));
        }
        let agrees = match cond {
            Condition::NotWp => false,
            Condition::Empty => wp == 0,
            Condition::ImplicitOpen | Condition::ExplicitOpen => wp < capacity,
            Condition::Closed => wp > 0 && wp < capacity,
            Condition::Full => wp == capacity,
            Condition::ReadOnly | Condition::Offline => true,
        };
        if agrees { Ok(()) } else { Err(RestoreError::Contradiction(zone, state)) }
    }
}

/// What a host may ask.
impl ZonedDisk {
    /// What is kept of each zone, in bytes.
    pub const BYTES_PER_ZONE: usize = size_of::<Cell>();

    /// Checks a write of `sectors` at `at` and opens its zone for it; returns the zone. Data may then go to exactly these
    /// sectors.
    #[inline]
    pub fn begin_write(&mut self, at: Sector, sectors: u32) -> Result<ZoneNo, ZoneError> {
        let zone = self.zone_at(at)?;
        self.perform(zone, Action::Write { offset: self.geometry.offset_in_zone(at), sectors })?;
        Ok(zone)
    }

    /// A whole write at the pointer of an open zone that stays open: `begin_write` and `advance` in one, for the case that is
    /// met most. False: it is another case, and nothing was done.
    #[inline]
    pub fn extend(&mut self, at: Sector, sectors: u32) -> bool {
        let (zone, offset) = (self.geometry.zone_of(at), self.geometry.offset_in_zone(at));
        // The last zone may have another capacity, and zones that can be evicted keep an order of use.
        let special = zone.index() + 1 >= self.zones.len() || self.evictable.is_some();
        let room = self.geometry.zone_capacity().saturating_sub(offset);
        match self.zones.get_mut(zone.index()) {
            Some(cell) if !special && cell.cond.is_open() && cell.wp == offset && sectors < room => {
                cell.wp += sectors;
                true
            }
            _ => false,
        }
    }

    /// Checks an append of `sectors` to `zone` and opens it; returns where the data goes.
    #[inline]
    pub fn begin_append(&mut self, zone: ZoneNo, sectors: u32) -> Result<Sector, ZoneError> {
        let state = self.perform(zone, Action::Append { sectors })?;
        Ok(self.geometry.start(zone) + u64::from(state.wp))
    }

    /// Moves the pointer of a zone that was opened by `begin_write` or `begin_append` by the sectors that were written. It
    /// is no error if the zone was closed, finished or failed in between: see [`ZoneState::advance`].
    #[inline]
    pub fn advance(&mut self, zone: ZoneNo, sectors: u32) {
        let now = self.zones[zone.index()].state();
        let next = now.advance(self.geometry.capacity_of(zone), sectors);
        if next.cond == now.cond {
            self.zones[zone.index()].wp = next.wp;
        } else {
            self.settle(zone, next);
        }
    }

    /// The zone that a read at `at` touches, if it may; offline zones are not readable.
    #[inline]
    pub fn check_read(&self, at: Sector) -> Result<ZoneNo, ZoneError> {
        let zone = self.zone_at(at)?;
        match self.zones[zone.index()].cond {
            Condition::Offline => Err(ZoneError::Offline),
            _ => Ok(zone),
        }
    }

    /// Opens `zone` explicitly.
    pub fn open(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.perform(zone, Action::Open).map(drop)
    }

    /// Closes `zone`.
    pub fn close(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.perform(zone, Action::Close).map(drop)
    }

    /// Makes `zone` full.
    pub fn finish(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.perform(zone, Action::Finish).map(drop)
    }

    /// Makes `zone` empty.
    pub fn reset(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.perform(zone, Action::Reset).map(drop)
    }

    /// Resets every zone that is active or full and calls `was_reset` with it. Empty, read-only, offline and conventional
    /// zones stay as they are, without an error.
    pub fn reset_all(&mut self, mut was_reset: impl FnMut(ZoneNo)) {
        for zone in (self.geometry.conventional()..self.geometry.zones()).map(ZoneNo) {
            let cond = self.zones[zone.index()].cond;
            if cond.is_active() || cond == Condition::Full {
                self.settle(zone, ZoneState::EMPTY);
                was_reset(zone);
            }
        }
    }
}

/// What happens to a device by itself.
impl ZonedDisk {
    /// The medium under `zone` failed: it can only be read from now on.
    pub fn set_read_only(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.fail(zone, Condition::ReadOnly)
    }

    /// The medium under `zone` failed: its data is lost.
    pub fn set_offline(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.fail(zone, Condition::Offline)
    }

    /// Makes a read-only or offline zone empty again, which no real device does.
    pub fn revive(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        match self.sequential(zone)?.cond {
            Condition::ReadOnly | Condition::Offline => {
                self.settle(zone, ZoneState::EMPTY);
                Ok(())
            }
            _ => Err(ZoneError::InvalidTransition),
        }
    }

    /// Sets the pointer to what the medium holds, after a write failed and left that unknown. An open zone that is not
    /// full stays open; any other becomes empty, closed or full, whatever the limits say: it is a fact.
    pub fn set_write_pointer(&mut self, zone: ZoneNo, wp: u32) -> Result<(), ZoneError> {
        let capacity = self.geometry.capacity_of(self.exists(zone)?);
        if wp > capacity {
            return Err(ZoneError::BeyondCapacity);
        }
        let state = match self.sequential(zone)?.cond {
            Condition::ReadOnly => return Err(ZoneError::ReadOnly),
            Condition::Offline => return Err(ZoneError::Offline),
            cond if cond.is_open() && wp < capacity => ZoneState { cond, wp },
            _ => ZoneState::at_rest(wp, capacity),
        };
        self.settle(zone, state);
        Ok(())
    }

    fn fail(&mut self, zone: ZoneNo, cond: Condition) -> Result<(), ZoneError> {
        let wp = self.sequential(zone)?.wp;
        self.settle(zone, ZoneState { cond, wp });
        Ok(())
    }

    fn sequential(&self, zone: ZoneNo) -> Result<ZoneState, ZoneError> {
        match self.zones[self.exists(zone)?.index()].state() {
            ZoneState::CONVENTIONAL => Err(ZoneError::Conventional),
            state => Ok(state),
        }
    }
}

/// What can be seen.
impl ZonedDisk {
    /// The shape of the device.
    #[must_use]
    pub const fn geometry(&self) -> &ZoneGeometry {
        &self.geometry
    }

    /// The limits of open and active zones.
    #[must_use]
    pub const fn limits(&self) -> ResourceLimits {
        self.resources.limits()
    }

    /// Zones that are open.
    #[must_use]
    pub const fn open_zones(&self) -> u32 {
        self.resources.open()
    }

    /// Zones that are active.
    #[must_use]
    pub const fn active_zones(&self) -> u32 {
        self.resources.active()
    }

    /// The zone that holds `sector`.
    #[inline]
    pub fn zone_at(&self, sector: Sector) -> Result<ZoneNo, ZoneError> {
        if sector.0 < self.geometry.capacity() { Ok(self.geometry.zone_of(sector)) } else { Err(ZoneError::NoSuchZone) }
    }

    /// Condition and write pointer of `zone`, which must exist.
    ///
    /// # Panics
    /// If it does not: [`ZonedDisk::zone_at`] is for addresses that came from outside.
    #[must_use]
    pub fn state(&self, zone: ZoneNo) -> ZoneState {
        self.zones[zone.index()].state()
    }

    /// What explains `error`, which something was answered with that was to happen at sector `at`.
    #[cold]
    #[must_use]
    pub fn fault(&self, at: Sector, error: ZoneError) -> ZoneFault {
        let zone = self.geometry.zone_of(at);
        let limits = self.resources.limits();
        let held = match error {
            ZoneError::TooManyActive => (self.active_zones(), limits.max_active().unwrap_or(0)),
            _ => (self.open_zones(), limits.max_open().unwrap_or(0)),
        };
        let known = self.zones.get(zone.index()).map_or(ZoneState::EMPTY, |cell| cell.state());
        let (start, capacity) = (self.geometry.start(zone), self.geometry.capacity_of(zone));
        let left = capacity.saturating_sub(known.wp);
        ZoneFault { error, zone, cond: Some(known.cond), pointer: start + u64::from(known.wp), left, held }
    }

    /// The report's line for `zone`, which must exist.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    pub fn zone(&self, zone: ZoneNo) -> Zone {
        let ZoneState { cond, wp } = self.state(zone);
        let (start, len) = (self.geometry.start(zone), u64::from(self.geometry.len(zone)));
        let wp = match cond {
            Condition::Full => start + len,
            cond if cond.has_write_pointer() => start + u64::from(wp),
            _ => start,
        };
        Zone { start, len, capacity: self.geometry.capacity_of(zone).into(), wp, kind: self.geometry.kind(zone), cond }
    }

    /// The zones from the one that holds `from` on; none if that is past the end.
    pub fn zones(&self, from: Sector) -> impl Iterator<Item = Zone> + '_ {
        let first = self.zone_at(from).map_or(self.geometry.zones(), |zone| zone.0);
        (first..self.geometry.zones()).map(|zone| self.zone(ZoneNo(zone)))
    }

    /// Those zones from the one that holds `from` on that `filter` shows.
    pub fn report(&self, from: Sector, filter: ReportFilter) -> impl Iterator<Item = Zone> + '_ {
        self.zones(from).filter(move |zone| filter.shows(zone))
    }
}

impl ZonedDisk {
    fn exists(&self, zone: ZoneNo) -> Result<ZoneNo, ZoneError> {
        if zone.index() < self.zones.len() { Ok(zone) } else { Err(ZoneError::NoSuchZone) }
    }

    /// Does `action` if the state machine and the resources allow it; returns the zone's new state. Most writes change
    /// nothing but the pointer, later: that way is short and goes where it is used.
    #[inline(always)]
    fn perform(&mut self, zone: ZoneNo, action: Action) -> Result<ZoneState, ZoneError> {
        let cell = *self.zones.get(zone.index()).ok_or(ZoneError::NoSuchZone)?;
        let next = cell.state().apply(self.geometry.capacity_of(zone), action)?;
        if next != cell.state() {
            self.change(zone, next)?;
        } else if let (Some(list), Condition::ImplicitOpen) = (&mut self.evictable, cell.cond) {
            list.touch(cell.slot());
        }
        Ok(next)
    }

    /// Puts `zone` in its next state if the resources allow it.
    #[inline(never)]
    fn change(&mut self, zone: ZoneNo, next: ZoneState) -> Result<(), ZoneError> {
        if self.resources.admit(self.state(zone).cond, next.cond)? == Admission::Evict {
            self.evict();
        }
        self.settle(zone, next);
        Ok(())
    }

    /// Closes the implicitly open zone that was written the longest time ago.
    fn evict(&mut self) {
        let victim = self.evictable.as_ref().and_then(Recency::oldest).expect("an implicitly open zone was counted");
        let closed = ZoneState::at_rest(self.state(victim).wp, self.geometry.capacity_of(victim));
        self.settle(victim, closed);
    }

    /// Puts `zone` in a state, and accounts for it.
    #[inline(never)]
    fn settle(&mut self, zone: ZoneNo, next: ZoneState) {
        let cell = &mut self.zones[zone.index()];
        let before = cell.cond;
        (cell.cond, cell.wp) = (next.cond, next.wp);
        if before == next.cond {
            return;
        }
        self.resources.transfer(before, next.cond);
        let Some(list) = &mut self.evictable else { return };
        if before == Condition::ImplicitOpen {
            list.remove(cell.slot());
        }
        if next.cond == Condition::ImplicitOpen {
            cell.set_slot(list.add(zone));
        }
    }
}
