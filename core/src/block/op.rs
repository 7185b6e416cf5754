//! What a bio asks for, and how it wants to be treated.

/// What a bio asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Read `sectors` at `sector`.
    Read,
    /// Write `sectors` at `sector`.
    Write,
    /// Write at the write pointer of the zone that starts at `sector`; on success `sector` is where the data went.
    ZoneAppend,
    /// Make `sectors` at `sector` read as zeroes. In a sequential zone it moves the write pointer, as a write does.
    WriteZeroes,
    /// Forget `sectors` at `sector`.
    Discard,
    /// Make every write that completed before durable.
    Flush,
    /// Report zones from the one that holds `sector` on, into `Payload::Zones`.
    ReportZones,
    /// Open the zone at `sector` explicitly.
    ZoneOpen,
    /// Close the zone at `sector`.
    ZoneClose,
    /// Make the zone at `sector` full.
    ZoneFinish,
    /// Make the zone at `sector` empty.
    ZoneReset,
    /// Make all sequential zones empty, but for read-only and offline ones.
    ZoneResetAll,
}

impl Op {
    /// Number of operations.
    pub const COUNT: usize = 12;

    /// All operations, in the order of their values.
    pub const ALL: [Op; Op::COUNT] = [
        Op::Read,
        Op::Write,
        Op::ZoneAppend,
        Op::WriteZeroes,
        Op::Discard,
        Op::Flush,
        Op::ReportZones,
        Op::ZoneOpen,
        Op::ZoneClose,
        Op::ZoneFinish,
        Op::ZoneReset,
        Op::ZoneResetAll,
    ];

    /// Whether the device changes: everything but reads, flushes and reports.
    #[must_use]
    pub const fn is_write(self) -> bool {
        !matches!(self, Op::Read | Op::Flush | Op::ReportZones)
    }

    /// Whether data or zeroes land in sectors that the bio names.
    #[must_use]
    pub const fn writes_data(self) -> bool {
        matches!(self, Op::Write | Op::ZoneAppend | Op::WriteZeroes)
    }

    /// Whether the bio has a length.
    #[must_use]
    pub const fn has_range(self) -> bool {
        matches!(self, Op::Read | Op::Write | Op::ZoneAppend | Op::WriteZeroes | Op::Discard)
    }

    /// Whether memory travels with the bio.
    #[must_use]
    pub const fn has_data(self) -> bool {
        matches!(self, Op::Read | Op::Write | Op::ZoneAppend)
    }

    /// Open, close, finish, reset or reset all.
    #[must_use]
    pub const fn is_zone_management(self) -> bool {
        matches!(self, Op::ZoneOpen | Op::ZoneClose | Op::ZoneFinish | Op::ZoneReset | Op::ZoneResetAll)
    }

    /// The kernel's name of the operation (`block/blk-core.c:blk_op_name`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "READ",
            Op::Write => "WRITE",
            Op::ZoneAppend => "ZONE_APPEND",
            Op::WriteZeroes => "WRITE_ZEROES",
            Op::Discard => "DISCARD",
            Op::Flush => "FLUSH",
            Op::ReportZones => "REPORT_ZONES",
            Op::ZoneOpen => "ZONE_OPEN",
            Op::ZoneClose => "ZONE_CLOSE",
            Op::ZoneFinish => "ZONE_FINISH",
            Op::ZoneReset => "ZONE_RESET",
            Op::ZoneResetAll => "ZONE_RESET_ALL",
        }
    }
}

/// How a bio wants to be treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Nothing special.
    pub const NONE: Flags = Flags(0);
    /// The data is durable when the bio completes.
    pub const FUA: Flags = Flags(1);
    /// What completed before is durable before this bio's data is.
    pub const PREFLUSH: Flags = Flags(2);
    /// Fail with `Status::Again` instead of waiting for a resource.
    pub const NOWAIT: Flags = Flags(4);
    /// `WriteZeroes` must not be slower than it saves: fail with `NotSupported` rather than writing zeroes.
    pub const FAST: Flags = Flags(8);
    /// `WriteZeroes` keeps the blocks allocated.
    pub const NO_UNMAP: Flags = Flags(16);

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and `other`.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These flags but `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The flags as a byte: FUA is bit 0, PREFLUSH 1, NOWAIT 2, FAST 3, NO_UNMAP 4.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The flags in such a byte; `None` if it has a bit that is no flag.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Flags> {
        if bits < 32 { Some(Flags(bits)) } else { None }
    }
}
