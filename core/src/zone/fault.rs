//! A zone's refusal with all that explains it: what a log, a client or an operator is told.

use super::{Condition, ZoneError, ZoneNo};
use crate::sector::Sector;

/// Error of an operation on a zone, with the zone's state at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFault {
    /// The rule.
    pub error: ZoneError,
    /// The zone.
    pub zone: ZoneNo,
    /// Its condition, if the one who refuses knows it: a host that only counts what it writes does not.
    pub cond: Option<Condition>,
    /// Where its next write goes, as a sector of the device; its end if it is full.
    pub pointer: Sector,
    /// Sectors that can still be written behind that.
    pub left: u32,
    /// Of a limit of open or active zones: how many are, and how many may be.
    pub held: (u32, u32),
}

impl_display!(ZoneFault, |self, f| {
    let Self { zone, pointer, left, held: (held, most), .. } = self;
    match self.error {
        ZoneError::NoSuchZone => write!(f, "there is no zone {zone}"),
        ZoneError::Conventional => {
            write!(f, "zone {zone} is conventional: it has no write pointer and no conditions")
        }
        ZoneError::NotAtWritePointer => write!(f, "zone {zone} is written at its pointer, which is at {pointer}"),
        ZoneError::BeyondCapacity => write!(f, "zone {zone} has {left} sectors left, pointer at {pointer}"),
        ZoneError::Full => write!(f, "zone {zone} is full, pointer at {pointer}"),
        ZoneError::InvalidTransition => {
            let cond = self.cond.map_or("unknown", Condition::name);
            write!(f, "zone {zone} is in condition {cond}, which does not allow it")
        }
        ZoneError::ReadOnly => write!(f, "zone {zone} has become read-only"),
        ZoneError::Offline => write!(f, "zone {zone} is offline: its data is lost"),
        ZoneError::TooManyActive => {
            write!(f, "zone {zone} cannot become active: {held} zones are, of at most {most}; finish or reset one")
        }
        ZoneError::TooManyOpen => {
            write!(f, "zone {zone} cannot be opened: {held} zones are explicitly open, of at most {most}; close one")
        }
    }
});
