//! The state machine of one zone, as a pure function.
//!
//! [`ZoneState::apply`] answers what an action turns a zone into; for a write that is the condition in which the data may
//! flow, and [`ZoneState::advance`] then moves the pointer by what really was written. What a transition costs follows
//! from the conditions before and after it: see [`super::Resources`].
//!
//! | action         | EMPTY | IMP_OPEN | EXP_OPEN | CLOSED | FULL | READONLY | OFFLINE | NOT_WP |
//! |----------------|-------|----------|----------|--------|------|----------|---------|--------|
//! | write, append  | I     | I        | X        | I      | err  | err      | err     | write  |
//! | ... to the end | F     | F        | F        | F      | err  | err      | err     | write  |
//! | open           | X     | X        | X        | X      | err  | err      | err     | err    |
//! | close          | err   | C or E   | C or E   | C      | err  | err      | err     | err    |
//! | finish         | F     | F        | F        | F      | F    | err      | err     | err    |
//! | reset          | E     | E        | E        | E      | E    | err      | err     | err    |
//!
//! Close gives EMPTY if nothing was written. Devices differ in three places; the choices here are:
//!
//! - Open of a FULL zone, and close of an EMPTY or FULL one, are errors, as on an NVMe zoned namespace (ZNS 1.1, status
//!   Invalid Zone State Transition). ZBC-2 lets them pass without effect; a host that relies on that works on
//!   fewer disks than it believes.
//! - Finish of an EMPTY or CLOSED zone needs no open resource: nothing is left to write afterwards. (`null_blk` asks for
//!   one.) So a host that ran out of resources can always get some back.
//! - A write that fills an EMPTY zone in one go needs the same resources as any other first write.

use super::Condition;

/// Condition and write pointer of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ZoneState {
    /// The condition.
    pub cond: Condition,
    /// Sectors from the start of the zone to its write pointer. `capacity` in a FULL zone; in a READONLY or OFFLINE zone
    /// where it was before; 0 in a conventional one.
    pub wp: u32,
}

/// What a host asks of a zone. Offsets and lengths are sectors, offsets count from the start of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Write at an offset that it names.
    Write {
        /// Where.
        offset: u32,
        /// How much.
        sectors: u32,
    },
    /// Write wherever the pointer is.
    Append {
        /// How much.
        sectors: u32,
    },
    /// Open explicitly.
    Open,
    /// Give the open resource back.
    Close,
    /// Make full.
    Finish,
    /// Make empty.
    Reset,
}

/// Error of an operation on a zone, which changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneError {
    /// The address lies past the last zone.
    NoSuchZone,
    /// An append, or zone management, of a conventional zone.
    Conventional,
    /// A write that does not start at the write pointer.
    NotAtWritePointer,
    /// A write or an append that is longer than the rest of the zone.
    BeyondCapacity,
    /// A write or an append to a full zone.
    Full,
    /// Opening a full zone, or closing one that is empty or full.
    InvalidTransition,
    /// A change of a read-only zone.
    ReadOnly,
    /// Any access to an offline zone.
    Offline,
    /// One active zone more than the device has resources for.
    TooManyActive,
    /// One open zone more than the device has resources for, and none that it may close by itself.
    TooManyOpen,
}

impl_error!(ZoneError, |self, f| f.write_str(match self {
    ZoneError::NoSuchZone => "there is no such zone",
    ZoneError::Conventional => "conventional zones have no write pointer and no conditions",
    ZoneError::NotAtWritePointer => "writes have to start at the write pointer",
    ZoneError::BeyondCapacity => "the rest of the zone is too short for the write",
    ZoneError::Full => "the zone is full: reset it first",
    ZoneError::InvalidTransition => "the zone's condition does not allow that: report zones first",
    ZoneError::ReadOnly => "the zone has become read-only: copy its data elsewhere",
    ZoneError::Offline => "the zone is offline: its data is lost",
    ZoneError::TooManyActive => "too many active zones: finish or reset one first",
    ZoneError::TooManyOpen => "too many explicitly open zones: close one first",
}));

impl ZoneState {
    /// A conventional zone.
    pub const CONVENTIONAL: ZoneState = ZoneState { cond: Condition::NotWp, wp: 0 };
    /// A sequential zone after a reset.
    pub const EMPTY: ZoneState = ZoneState { cond: Condition::Empty, wp: 0 };

    /// A sequential zone that nobody has open, with `wp` of its `capacity` sectors written: empty, closed or full.
    #[must_use]
    pub const fn at_rest(wp: u32, capacity: u32) -> Self {
        match wp {
            0 => Self::EMPTY,
            _ if wp >= capacity => Self::full(capacity),
            _ => ZoneState { cond: Condition::Closed, wp },
        }
    }

    /// A full zone.
    #[must_use]
    pub const fn full(capacity: u32) -> Self {
        ZoneState { cond: Condition::Full, wp: capacity }
    }

    /// What `action` turns a zone of `capacity` sectors into. For a write or an append that is the zone opened for it,
    /// with the pointer still where the data is to go.
    #[inline]
    pub fn apply(self, capacity: u32, action: Action) -> Result<ZoneState, ZoneError> {
        match self.cond {
            Condition::NotWp => self.apply_conventional(capacity, action),
            Condition::ReadOnly => Err(ZoneError::ReadOnly),
            Condition::Offline => Err(ZoneError::Offline),
            _ => match action {
                Action::Write { offset, sectors } => self.write(capacity, offset, sectors),
                Action::Append { sectors } => self.write(capacity, self.wp, sectors),
                Action::Open => self.open(),
                Action::Close => self.close(),
                Action::Finish => Ok(Self::full(capacity)),
                Action::Reset => Ok(Self::EMPTY),
            },
        }
    }

    /// The state after `sectors` more were written: full at `capacity`. A zone that was closed while the data was on its
    /// way stays closed; one without a write pointer does not change.
    #[inline]
    #[must_use]
    pub const fn advance(self, capacity: u32, sectors: u32) -> ZoneState {
        let wp = self.wp.saturating_add(sectors);
        match self.cond {
            Condition::NotWp | Condition::Full | Condition::ReadOnly | Condition::Offline => self,
            _ if wp >= capacity => Self::full(capacity),
            Condition::Empty => Self::at_rest(wp, capacity),
            cond => ZoneState { cond, wp },
        }
    }

    fn apply_conventional(self, capacity: u32, action: Action) -> Result<ZoneState, ZoneError> {
        match action {
            Action::Write { offset, sectors } if sectors > capacity.saturating_sub(offset) => {
                Err(ZoneError::BeyondCapacity)
            }
            Action::Write { .. } => Ok(self),
            _ => Err(ZoneError::Conventional),
        }
    }

    #[inline]
    fn write(self, capacity: u32, offset: u32, sectors: u32) -> Result<ZoneState, ZoneError> {
        if self.cond == Condition::Full {
            return Err(ZoneError::Full);
        }
        if offset != self.wp {
            return Err(ZoneError::NotAtWritePointer);
        }
        if sectors > capacity.saturating_sub(offset) {
            return Err(ZoneError::BeyondCapacity);
        }
        let cond = if self.cond.is_open() { self.cond } else { Condition::ImplicitOpen };
        Ok(ZoneState { cond, ..self })
    }

    fn open(self) -> Result<ZoneState, ZoneError> {
        match self.cond {
            Condition::Full => Err(ZoneError::InvalidTransition),
            _ => Ok(ZoneState { cond: Condition::ExplicitOpen, ..self }),
        }
    }

    fn close(self) -> Result<ZoneState, ZoneError> {
        match self.cond {
            Condition::Empty | Condition::Full => Err(ZoneError::InvalidTransition),
            _ if self.wp == 0 => Ok(Self::EMPTY),
            _ => Ok(ZoneState { cond: Condition::Closed, ..self }),
        }
    }
}
