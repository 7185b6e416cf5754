//! Open and active accounting: what a device can hold at once, and who has to make room.
//!
//! open = IMP_OPEN + EXP_OPEN; active = open + CLOSED. A device may close an implicitly open zone by itself to open
//! another one, never an explicitly open one. Nothing makes room for an active zone but the host.

use super::{Condition, ZoneError};

/// How many zones may be open and active at once; the default is any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    max_open: Option<u32>,
    max_active: Option<u32>,
}

/// Invalid limits of open and active zones. The message names the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceLimitsError {
    /// A limit of 0 zones.
    Zero(&'static str),
    /// More open (first) than active (second) zones.
    OpenAboveActive(u32, u32),
    /// More open zones than can be kept in order of use.
    TooManyOpen(u32),
}

impl_error!(ResourceLimitsError, |self, f| match *self {
    Self::Zero(field) => write!(f, "{field} is 0; leave it out for no limit"),
    Self::OpenAboveActive(open, active) => {
        write!(f, "max_open is {open}; it has to be at most max_active, which is {active}")
    }
    Self::TooManyOpen(open) => {
        write!(f, "max_open is {open}; it has to be at most {}, or left out", ResourceLimits::MOST_OPEN)
    }
});

impl ResourceLimits {
    /// No limits.
    pub const NONE: ResourceLimits = ResourceLimits { max_open: None, max_active: None };
    /// The highest limit of open zones.
    pub const MOST_OPEN: u32 = (1 << 24) - 1;

    /// At most `max_open` zones open and `max_active` active.
    pub fn new(max_open: Option<u32>, max_active: Option<u32>) -> Result<Self, ResourceLimitsError> {
        match (max_open, max_active) {
            (Some(0), _) => Err(ResourceLimitsError::Zero("max_open")),
            (_, Some(0)) => Err(ResourceLimitsError::Zero("max_active")),
            (Some(open), Some(active)) if open > active => Err(ResourceLimitsError::OpenAboveActive(open, active)),
            (Some(open), _) if open > Self::MOST_OPEN => Err(ResourceLimitsError::TooManyOpen(open)),
            _ => Ok(Self { max_open, max_active }),
        }
    }

    /// Most open zones.
    #[must_use]
    pub const fn max_open(&self) -> Option<u32> {
        self.max_open
    }

    /// Most active zones.
    #[must_use]
    pub const fn max_active(&self) -> Option<u32> {
        self.max_active
    }

    /// The limits that can bind on a device with `sequential` zones; one that covers all of them is no limit
    /// (`block/blk-zoned.c:disk_update_zone_resources`).
    #[must_use]
    pub fn enforceable(self, sequential: u32) -> Self {
        let binds = |limit: &u32| *limit < sequential;
        Self { max_open: self.max_open.filter(binds), max_active: self.max_active.filter(binds) }
    }
}

/// What a transition needs beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Nothing.
    Granted,
    /// An implicitly open zone has to be closed first.
    Evict,
}

/// The zones that hold a resource, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    limits: ResourceLimits,
    implicit: u32,
    explicit: u32,
    closed: u32,
}

impl Resources {
    /// No zone holds anything.
    #[must_use]
    pub const fn new(limits: ResourceLimits) -> Self {
        Self { limits, implicit: 0, explicit: 0, closed: 0 }
    }

    /// What may be held.
    #[must_use]
    pub const fn limits(&self) -> ResourceLimits {
        self.limits
    }

    /// Zones that are open.
    #[must_use]
    pub const fn open(&self) -> u32 {
        self.implicit + self.explicit
    }

    /// Zones that are active: open or closed.
    #[must_use]
    pub const fn active(&self) -> u32 {
        self.open() + self.closed
    }

    /// Whether a zone may go from one condition to another. The active limit is asked first: both can be exhausted, and
    /// the host has to learn of the one that it alone can mend.
    pub fn admit(&self, from: Condition, to: Condition) -> Result<Admission, ZoneError> {
        let reached = |limit: Option<u32>, count| limit.is_some_and(|most| count >= most);
        if to.is_active() && !from.is_active() && reached(self.limits.max_active, self.active()) {
            return Err(ZoneError::TooManyActive);
        }
        if !to.is_open() || from.is_open() || !reached(self.limits.max_open, self.open()) {
            return Ok(Admission::Granted);
        }
        if self.implicit > 0 { Ok(Admission::Evict) } else { Err(ZoneError::TooManyOpen) }
    }

    /// Counts a zone that went from one condition to another.
    pub fn transfer(&mut self, from: Condition, to: Condition) {
        if let Some(count) = self.count(from) {
            *count -= 1;
        }
        if let Some(count) = self.count(to) {
            *count += 1;
        }
    }

    fn count(&mut self, cond: Condition) -> Option<&mut u32> {
        match cond {
            Condition::ImplicitOpen => Some(&mut self.implicit),
            Condition::ExplicitOpen => Some(&mut self.explicit),
            Condition::Closed => Some(&mut self.closed),
            _ => None,
        }
    }
}
