//! What of a drive outlives a loss of power: its data, and how far its zones are written. Both are in memory, or in a store that
//! outlives the program as well.
//!
//! ```text
//!   write:  data ──> store      then pointer ──> store      then the pointer moves
//!   reset:                           pointer ──> store      then the pointer moves      then data is discarded
//! ```
//!
//! In this order: the program may end between any two steps, and what the store holds then is a state that a loss of power may
//! leave. What lies behind a pointer is no data, and is discarded when the store is loaded.
//!
//! A drive in memory alone pays nothing for that but a comparison.

use alloc::format;
use alloc::rc::Rc;
use core::ops::Deref;

use shingle_core::block::{Bio, Op, Payload, Reason, Refusal};
use shingle_core::device::memory::SparseMemory;
use shingle_core::sector::Sector;
use shingle_core::zone::{Action, Condition, ZoneError, ZoneNo, ZoneState, ZonedDisk};

/// Where data and zones are kept beside the program. What a call has done is there for the next program, however this one ends; a
/// write that the end catches has any of its blocks done, each as a whole.
pub trait Store {
    /// Reads into all of `payload`; what was never written reads as zeroes.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, at: Sector, payload: &Payload) -> Result<(), Reason>;

    /// Writes all of `payload`.
    ///
    /// # Errors
    /// If it cannot be written; then any of its blocks may be.
    fn write(&self, at: Sector, payload: &Payload) -> Result<(), Reason>;

    /// Makes sectors read as zeroes, and gives back their room.
    ///
    /// # Errors
    /// If that cannot be done; a part of it may be.
    fn discard(&self, at: Sector, sectors: u64) -> Result<(), Reason>;

    /// How far a zone is written, as it was kept.
    ///
    /// # Errors
    /// If it is not known.
    fn zone(&self, zone: ZoneNo) -> Result<ZoneState, Reason>;

    /// Keeps how far a sequential zone is written. Whether it is open does not outlive power.
    ///
    /// # Errors
    /// If it cannot be kept; then it is as before.
    fn keep_zone(&self, zone: ZoneNo, state: ZoneState) -> Result<(), Reason>;

    /// Bytes that it takes.
    fn bytes(&self) -> u64;

    /// Where it is, for people.
    fn place(&self) -> &str;
}

/// Where the data of a drive is.
pub enum Medium {
    /// In memory of the program.
    Memory(SparseMemory),
    /// In a store.
    Stored(Rc<dyn Store>),
}

impl Default for Medium {
    fn default() -> Self {
        Self::Memory(SparseMemory::new(0))
    }
}

impl Medium {
    /// Bytes that data takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.bytes(),
            Self::Stored(store) => store.bytes(),
        }
    }

    /// Most bytes that data may take in memory, if there is a limit.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        match self {
            Self::Memory(memory) => memory.limit(),
            Self::Stored(_) => None,
        }
    }

    /// The store, if there is one.
    #[must_use]
    pub fn store(&self) -> Option<&dyn Store> {
        match self {
            Self::Memory(_) => None,
            Self::Stored(store) => Some(&**store),
        }
    }

    /// Copies `sectors` at `at` into `payload`, which is as long.
    ///
    /// # Errors
    /// The store's.
    pub fn read(&self, at: Sector, sectors: u32, payload: &Payload) -> Result<(), Reason> {
        match self {
            Self::Memory(memory) => memory.read(at, sectors, payload),
            Self::Stored(store) => store.read(at, payload)?,
        }
        Ok(())
    }

    /// Copies `payload` to `sectors` at `at`, which are as long.
    ///
    /// # Errors
    /// [`SparseMemory::try_write`]'s, or the store's.
    pub fn write(&mut self, at: Sector, sectors: u32, payload: &Payload) -> Result<(), Reason> {
        match self {
            Self::Memory(memory) => memory.try_write(at, sectors, payload),
            Self::Stored(store) => store.write(at, payload),
        }
    }

    /// Makes `sectors` at `at` read as zeroes.
    ///
    /// # Errors
    /// The store's.
    pub fn discard(&mut self, at: Sector, sectors: u32) -> Result<(), Reason> {
        match self {
            Self::Memory(memory) => memory.discard(at, sectors),
            Self::Stored(store) => store.discard(at, sectors.into())?,
        }
        Ok(())
    }

    /// Does what `bio` asks for, as a disk without zones.
    ///
    /// # Errors
    /// [`Reason::NotSupported`] for zone operations; else those of the other methods.
    pub fn execute(&mut self, bio: &Bio) -> Result<(), Reason> {
        match bio.op {
            Op::Read => self.read(bio.sector, bio.sectors, &bio.payload),
            Op::Write => self.write(bio.sector, bio.sectors, &bio.payload),
            Op::WriteZeroes | Op::Discard => self.discard(bio.sector, bio.sectors),
            Op::Flush => Ok(()),
            _ => Err(Reason::NotSupported),
        }
    }
}

/// The zones of a drive. A store hears how far one is written before anybody else does.
pub struct KeptZones {
    zones: ZonedDisk,
    store: Option<Rc<dyn Store>>,
}

impl From<ZonedDisk> for KeptZones {
    fn from(zones: ZonedDisk) -> Self {
        Self { zones, store: None }
    }
}

impl Deref for KeptZones {
    type Target = ZonedDisk;

    fn deref(&self) -> &ZonedDisk {
        &self.zones
    }
}

/// What does not outlive power: see [`ZonedDisk`].
impl KeptZones {
    pub(crate) fn begin_write(&mut self, at: Sector, sectors: u32) -> Result<ZoneNo, ZoneError> {
        self.zones.begin_write(at, sectors)
    }

    pub(crate) fn begin_append(&mut self, zone: ZoneNo, sectors: u32) -> Result<Sector, ZoneError> {
        self.zones.begin_append(zone, sectors)
    }

    pub(crate) fn open(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.zones.open(zone)
    }

    pub(crate) fn close(&mut self, zone: ZoneNo) -> Result<(), ZoneError> {
        self.zones.close(zone)
    }
}

/// What does.
impl KeptZones {
    /// Takes the zones of a store instead of its own, and keeps them there from now on. What lies behind their pointers is
    /// discarded: the data of writes that the end of the last program caught.
    ///
    /// # Errors
    /// If they cannot be read, or make no zones of this drive.
    pub(crate) fn adopt(&mut self, store: Rc<dyn Store>) -> Result<(), Reason> {
        let geometry = *self.zones.geometry();
        let mut failed = Ok(());
        let state = |zone| {
            let found = if failed.is_ok() { store.zone(zone) } else { Ok(ZoneState::EMPTY) };
            found.unwrap_or_else(|reason| {
                failed = Err(reason);
                ZoneState::EMPTY
            })
        };
        let zones = ZonedDisk::restore(geometry, self.zones.limits(), state);
        failed?;
        self.zones = zones.map_err(|error| Reason::ZonesUnknown(format!("{error}").into()))?;
        for zone in (geometry.conventional()..geometry.zones()).map(ZoneNo) {
            let ZoneState { cond, wp } = self.zones.state(zone);
            if cond != Condition::Full && !cond.is_dead() {
                store.discard(geometry.start(zone) + u64::from(wp), (geometry.len(zone) - wp).into())?;
            }
        }
        self.store = Some(store);
        Ok(())
    }

    pub(crate) fn advance(&mut self, zone: ZoneNo, sectors: u32) -> Result<(), Reason> {
        if self.store.is_some() {
            self.keep(zone, self.state(zone).advance(self.geometry().capacity_of(zone), sectors))?;
        }
        self.zones.advance(zone, sectors);
        Ok(())
    }

    pub(crate) fn finish(&mut self, zone: ZoneNo) -> Result<(), Refusal> {
        self.keep_after(zone, Action::Finish)?;
        Ok(self.zones.finish(zone)?)
    }

    pub(crate) fn reset(&mut self, zone: ZoneNo) -> Result<(), Refusal> {
        self.keep_after(zone, Action::Reset)?;
        Ok(self.zones.reset(zone)?)
    }

    /// Those that were reset were, also if one after them could not be.
    pub(crate) fn reset_all(&mut self, mut was_reset: impl FnMut(ZoneNo)) -> Result<(), Refusal> {
        for zone in (self.geometry().conventional()..self.geometry().zones()).map(ZoneNo) {
            let cond = self.state(zone).cond;
            if cond.is_active() || cond == Condition::Full {
                self.reset(zone)?;
                was_reset(zone);
            }
        }
        Ok(())
    }

    pub(crate) fn set_write_pointer(&mut self, zone: ZoneNo, wp: u32) -> Result<(), Refusal> {
        let next = ZoneState::at_rest(wp, self.geometry().capacity_of(zone));
        if !self.state(zone).cond.is_dead() {
            self.keep(zone, next)?;
        }
        Ok(self.zones.set_write_pointer(zone, wp)?)
    }

    fn keep_after(&self, zone: ZoneNo, action: Action) -> Result<(), Refusal> {
        let next = self.state(zone).apply(self.geometry().capacity_of(zone), action)?;
        Ok(self.keep(zone, next)?)
    }

    fn keep(&self, zone: ZoneNo, next: ZoneState) -> Result<(), Reason> {
        let Some(store) = &self.store else { return Ok(()) };
        let at_rest = ZoneState::at_rest(next.wp, self.geometry().capacity_of(zone));
        match next.cond {
            Condition::NotWp => Ok(()),
            cond if cond.is_dead() => store.keep_zone(zone, next),
            _ => store.keep_zone(zone, at_rest),
        }
    }
}
