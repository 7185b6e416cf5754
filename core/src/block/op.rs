//! What a bio asks for, and how it wants to be treated.

named_enum! {
    /// What a bio asks for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum Op {
        /// Read `sectors` at `sector`.
        Read => "READ",
        /// Write `sectors` at `sector`.
        Write => "WRITE",
        /// Write at the write pointer of the zone that starts at `sector`; on success `sector` is where the data went.
        ZoneAppend => "ZONE_APPEND",
        /// Make `sectors` at `sector` read as zeroes. In a sequential zone it moves the write pointer, as a write does.
        WriteZeroes => "WRITE_ZEROES",
        /// Forget `sectors` at `sector`.
        Discard => "DISCARD",
        /// Make every write that completed before durable.
        Flush => "FLUSH",
        /// Report zones from the one that holds `sector` on, into `Payload::Zones`.
        ReportZones => "REPORT_ZONES",
        /// Open the zone at `sector` explicitly.
        ZoneOpen => "ZONE_OPEN",
        /// Close the zone at `sector`.
        ZoneClose => "ZONE_CLOSE",
        /// Make the zone at `sector` full.
        ZoneFinish => "ZONE_FINISH",
        /// Make the zone at `sector` empty.
        ZoneReset => "ZONE_RESET",
        /// Make all sequential zones empty, but for read-only and offline ones.
        ZoneResetAll => "ZONE_RESET_ALL",
    }

    /// The kernel's name of the operation (`block/blk-core.c:blk_op_name`).
    fn name(self) -> &'static str;
}

impl Op {
    /// Number of operations.
    pub const COUNT: usize = Op::ALL.len();

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
}

named_enum! {
    /// I/O priority class of a bio, as in Linux: schedulers serve a higher class first. Ordered from the highest.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum Priority {
        /// Real-time I/O: served before the other classes (`IOPRIO_CLASS_RT`).
        RealTime => "rt",
        /// Best-effort I/O, the default (`IOPRIO_CLASS_BE`).
        #[default]
        BestEffort => "be",
        /// Background I/O: served when no bio of another class waits (`IOPRIO_CLASS_IDLE`).
        Idle => "idle",
    }

    /// Name of the class.
    fn name(self) -> &'static str;
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
