//! The words of a zone report.

use crate::sector::Sector;

/// A zone's index on its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneNo(pub u32);

impl ZoneNo {
    /// The number as an index into a per-zone array.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl_display!(ZoneNo, |self, f| self.0.fmt(f));

/// Whether a zone takes random writes. The values are those of `enum blk_zone_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ZoneKind {
    /// Random writes, no write pointer.
    Conventional = 1,
    /// Writes at the write pointer only (`SEQWRITE_REQ`).
    Sequential = 2,
}

named_enum! {
    /// A zone's condition. The values are those of `enum blk_zone_cond`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Condition {
        /// A conventional zone: there is no write pointer.
        NotWp = 0x0 => "NOT_WP",
        /// Nothing written since the last reset.
        Empty = 0x1 => "EMPTY",
        /// Opened by a write; the device may close it to open another.
        ImplicitOpen = 0x2 => "IMP_OPEN",
        /// Opened by the open operation; only the host closes it.
        ExplicitOpen = 0x3 => "EXP_OPEN",
        /// Partly written, holding no open resource.
        Closed = 0x4 => "CLOSED",
        /// Failed so that it can only be read.
        ReadOnly = 0xd => "READONLY",
        /// Written to capacity, or finished.
        Full = 0xe => "FULL",
        /// Failed so that it cannot be accessed.
        Offline = 0xf => "OFFLINE",
    }

    /// The kernel's name of the condition (`block/blk-zoned.c:blk_zone_cond_str`).
    fn name(self) -> &'static str;
}

impl Condition {
    /// The condition with this ABI value; `None` for a reserved one.
    #[must_use]
    pub fn from_abi(value: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|c| *c as u8 == value)
    }

    /// Whether the zone holds an open resource.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Condition::ImplicitOpen | Condition::ExplicitOpen)
    }

    /// Whether the zone holds an active resource: open or closed.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Condition::ImplicitOpen | Condition::ExplicitOpen | Condition::Closed)
    }

    /// Whether the zone has failed, for writes at least.
    #[must_use]
    pub const fn is_dead(self) -> bool {
        matches!(self, Condition::ReadOnly | Condition::Offline)
    }

    /// Whether a report's write pointer means anything.
    #[must_use]
    pub const fn has_write_pointer(self) -> bool {
        matches!(self, Condition::Empty | Condition::ImplicitOpen | Condition::ExplicitOpen | Condition::Closed)
    }

    /// How many of `all` there are of each, in the order of [`Condition::ALL`].
    #[must_use]
    pub fn count(all: impl Iterator<Item = Self>) -> [u32; Self::ALL.len()] {
        // By the values of the ABI, which are below 16.
        let mut counts = [0; 16];
        all.for_each(|condition| counts[usize::from(condition as u8)] += 1);
        Self::ALL.map(|condition| counts[usize::from(condition as u8)])
    }
}

/// One line of a zone report (`struct blk_zone`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zone {
    /// First sector.
    pub start: Sector,
    /// Length in sectors; the address space the zone takes.
    pub len: u64,
    /// Sectors that can be written, at most `len`.
    pub capacity: u64,
    /// Write pointer, an absolute sector: `start + len` when full, `start` where the condition has none.
    pub wp: Sector,
    /// Conventional or sequential.
    pub kind: ZoneKind,
    /// Condition.
    pub cond: Condition,
}

impl Zone {
    /// Up to where a sequential zone is written; its start if that is not known, and of a conventional one.
    #[must_use]
    pub fn written_up_to(&self) -> Sector {
        match self.cond {
            _ if self.kind == ZoneKind::Conventional => self.start,
            Condition::Full => self.start + self.capacity,
            cond if cond.has_write_pointer() => self.wp,
            _ => self.start,
        }
    }
}
