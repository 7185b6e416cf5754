//! Why a bio failed. [`Status`] is what programs act on, this is what people read; the one follows from the other, and
//! the only table that says how is here.
//!
//! Only what fails pays for it: a reason is put on the bio by the device that fails it, in a box, and stays there on the way up
//! (`docs/decisions/0009-a-failure-says-why.md`).

use alloc::sync::Arc;
use core::fmt;

use super::id::DeviceId;
use super::op::Op;
use super::status::Status;
use crate::prelude::*;
use crate::sector::Sector;
use crate::time::Duration;
use crate::zone::{ZoneError, ZoneFault, ZoneNo, ZonedDisk};

/// Cause of the failure of a bio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A change of a device that is read-only.
    ReadOnly,
    /// A range that ends behind the device's last sector.
    PastEnd {
        /// Sectors of the device.
        capacity: u64,
    },
    /// A range of no sectors.
    Empty,
    /// A start or length between blocks.
    Misaligned {
        /// Sectors of a block.
        block: u32,
    },
    /// A write to a sequential zone that begins or ends between blocks of the medium.
    ZoneWriteUnit {
        /// Sectors of such a block.
        unit: u32,
    },
    /// Memory that is not as long as the range.
    WrongMemory {
        /// Bytes of it.
        bytes: usize,
    },
    /// It is too long, and no front of it is what the device takes.
    CannotCut {
        /// Sectors that the device takes at once there.
        most: u32,
        /// Sectors that a piece has to be a multiple of.
        unit: u32,
    },
    /// It would have to wait and must not, and for what.
    WouldWait(&'static str),
    /// The device does not do the operation.
    NotSupported,
    /// An operation of zones on a device without any.
    NotZoned,
    /// An append that names no start of a zone.
    AppendStart,
    /// An append that is longer, or in more pieces, than the device takes.
    AppendLimit {
        /// Sectors that it takes.
        most: u32,
    },
    /// An append that nobody puts in order.
    AppendUnordered,
    /// Zone management of a sector where no zone starts.
    ZoneStart {
        /// Sectors of a zone.
        zone_sectors: u32,
    },
    /// A report without room for zones.
    NoRoom,
    /// A rule of zones.
    Zone(ZoneFault),
    /// A write to a zone whose write pointer nobody knows, and what failed before.
    PointerUnknown {
        /// The zone.
        zone: ZoneNo,
        /// The failure.
        since: Option<Arc<Why>>,
    },
    /// The zones of a device could not be learned.
    ZonesUnknown(Arc<str>),
    /// Bios wait in more zones than a plug can count.
    TooManyWaiting,
    /// There is no memory for it.
    NoMemory,
    /// Nothing is there any more.
    Removed,
    /// The medium is bad there.
    BadSector(Sector),
    /// The medium gave nothing back, or took nothing.
    Medium,
    /// What was read of a block of a volume is not what was written.
    WrongChecksum {
        /// The block of the volume.
        block: u64,
    },
    /// No answer came for so long.
    NoAnswer(Duration),
    /// The way to the device is interrupted.
    Interrupted,
    /// No path leads to the disk.
    NoPath,
    /// A path gave it up, and nobody can tell whether it is done.
    Uncertain,
    /// The device has lost its power.
    NoPower,
    /// The device has lost its power for a while, and with it perhaps what this is about.
    CacheLost,
    /// A device that fails on purpose.
    Failing(&'static str),
    /// A fault that a rule injects.
    Injected(Status),
    /// There is no key.
    NoKey,
    /// A set of disks is no volume, and why.
    VolumeFailed(Arc<str>),
    /// A volume takes no changes any more, and why.
    VolumeReadOnly(Arc<str>),
    /// A volume could not make durable what it took.
    VolumeLost(Arc<str>),
    /// A volume has no zone left for it.
    VolumeFull,
    /// The metadata of a chunk was not readable.
    BadChunk(u32),
    /// The zone that holds a chunk takes no writes any more.
    ChunkReadOnly {
        /// The chunk.
        chunk: u32,
        /// The zone.
        zone: u32,
    },
    /// Something below failed that was asked for its sake.
    Below(Arc<Why>),
    /// The data of a FUA write is written, and the flush that makes it durable failed.
    FuaFlush(Arc<Why>),
    /// The machine that this runs on refused something, which the text names.
    Host(Status, Arc<str>),
    /// Nobody has said why: a defect of the device that completed it.
    Unexplained(Status),
}

/// The only table from reasons to statuses. A host sees the limits of zones as such and every other misuse of a zone as an
/// I/O error, as from the kernel (`drivers/block/null_blk/zoned.c:null_process_zoned_cmd`). Not `Offline`: that is a whole
/// device, or one path to it.
impl From<&Reason> for Status {
    fn from(reason: &Reason) -> Self {
        match reason {
            Reason::ReadOnly | Reason::VolumeReadOnly(_) | Reason::ChunkReadOnly { .. } => Status::ReadOnly,
            Reason::WrongMemory { .. } | Reason::ZoneStart { .. } | Reason::NoRoom => Status::Invalid,
            Reason::WouldWait(_) => Status::Again,
            Reason::NotSupported | Reason::NotZoned | Reason::AppendUnordered => Status::NotSupported,
            Reason::Zone(ZoneFault { error: ZoneError::TooManyActive, .. }) => Status::ZoneActiveResource,
            Reason::Zone(ZoneFault { error: ZoneError::TooManyOpen, .. }) => Status::ZoneOpenResource,
            Reason::TooManyWaiting | Reason::NoMemory => Status::Resource,
            Reason::Removed | Reason::NoPower => Status::Offline,
            Reason::Medium | Reason::WrongChecksum { .. } => Status::Medium,
            Reason::NoAnswer(_) => Status::Timeout,
            Reason::Interrupted => Status::Transport,
            Reason::VolumeFull => Status::NoSpace,
            Reason::Below(why) => why.status(),
            Reason::Injected(status) | Reason::Host(status, _) | Reason::Unexplained(status) => *status,
            Reason::PastEnd { .. }
            | Reason::Empty
            | Reason::Misaligned { .. }
            | Reason::ZoneWriteUnit { .. }
            | Reason::CannotCut { .. }
            | Reason::AppendStart
            | Reason::AppendLimit { .. }
            | Reason::Zone(_)
            | Reason::PointerUnknown { .. }
            | Reason::NoPath
            | Reason::Uncertain
            | Reason::CacheLost
            | Reason::FuaFlush(_)
            | Reason::ZonesUnknown(_)
            | Reason::BadSector(_)
            | Reason::Failing(_)
            | Reason::NoKey
            | Reason::VolumeFailed(_)
            | Reason::VolumeLost(_)
            | Reason::BadChunk(_) => Status::Io,
        }
    }
}

impl From<ZoneFault> for Reason {
    fn from(fault: ZoneFault) -> Self {
        Reason::Zone(fault)
    }
}

/// Refusal of a bio by a zoned device: a rule of zones, to be completed with the zone, or any other cause.
#[derive(Debug)]
pub enum Refusal {
    /// A rule of zones.
    Zone(ZoneError),
    /// Anything else.
    Other(Box<Reason>),
}

impl From<ZoneError> for Refusal {
    fn from(error: ZoneError) -> Self {
        Refusal::Zone(error)
    }
}

impl From<Reason> for Refusal {
    #[cold]
    fn from(reason: Reason) -> Self {
        Refusal::Other(Box::new(reason))
    }
}

impl Refusal {
    /// The reason for a bio at sector `at` of a device with `zones`, which must not have changed since.
    #[cold]
    #[must_use]
    pub fn explain(self, zones: &ZonedDisk, at: Sector) -> Reason {
        match self {
            Refusal::Zone(error) => zones.fault(at, error).into(),
            Refusal::Other(reason) => *reason,
        }
    }
}

impl Reason {
    /// Whether it is of the same kind as `other`, whatever the numbers are: logs tell of the first and count the rest.
    #[must_use]
    pub fn is_like(&self, other: &Reason) -> bool {
        match (self, other) {
            (Reason::Zone(a), Reason::Zone(b)) => a.error == b.error,
            (Reason::Below(a), Reason::Below(b)) | (Reason::FuaFlush(a), Reason::FuaFlush(b)) => {
                a.reason.is_like(&b.reason)
            }
            _ => core::mem::discriminant(self) == core::mem::discriminant(other),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, name: Names<'_>) -> fmt::Result {
        match self {
            Reason::ReadOnly => f.write_str("the device is read-only"),
            Reason::PastEnd { capacity } => write!(f, "beyond the end of the device, which has {capacity} sectors"),
            Reason::Empty => f.write_str("it has no length"),
            Reason::Misaligned { block } => {
                write!(f, "start or length is no multiple of a block, which has {block} sectors")
            }
            Reason::ZoneWriteUnit { unit } => {
                write!(
                    f,
                    "sequential zones are written in physical blocks of {unit} sectors there: start or length is no multiple"
                )
            }
            Reason::WrongMemory { bytes } => write!(f, "the memory that came with it has {bytes} bytes"),
            Reason::CannotCut { most, unit } => {
                write!(f, "no part of it fits: {most} sectors at once are the most there, in units of {unit}")
            }
            Reason::WouldWait(what) => write!(f, "it must not wait, and {what}"),
            Reason::NotSupported => f.write_str("the device does not do this operation"),
            Reason::NotZoned => f.write_str("the device has no zones"),
            Reason::AppendStart => f.write_str("an append names the start of its zone"),
            Reason::AppendLimit { most } => write!(f, "an append has at most {most} sectors and few segments there"),
            Reason::AppendUnordered => {
                f.write_str("the policy `none` puts nothing in order: choose another one for zone appends")
            }
            Reason::ZoneStart { zone_sectors } => write!(f, "no zone starts there: zones have {zone_sectors} sectors"),
            Reason::NoRoom => f.write_str("there is no room for zones in it"),
            Reason::Zone(fault) => fmt::Display::fmt(fault, f),
            Reason::PointerUnknown { zone, since } => {
                write!(f, "zone {zone} takes no writes until a report, reset or finish tells where its pointer is")?;
                since.as_ref().map_or(Ok(()), |why| write!(f, ", since {}", why.with_names(name)))
            }
            Reason::ZonesUnknown(why) => write!(f, "the zones are not known: {why}"),
            Reason::TooManyWaiting => f.write_str("bios wait in too many zones at once"),
            Reason::NoMemory => f.write_str("there is no memory for it"),
            Reason::Removed => f.write_str("the device was removed"),
            Reason::BadSector(sector) => write!(f, "sector {sector} is bad"),
            Reason::Medium => f.write_str("the medium failed"),
            Reason::WrongChecksum { block } => {
                write!(f, "block {block} is not what was written: its checksum is wrong")
            }
            Reason::NoAnswer(time) => write!(f, "no answer for {} ms", time.as_nanos() / 1_000_000),
            Reason::Interrupted => f.write_str("the way to the device is interrupted"),
            Reason::NoPath => f.write_str("no path to the disk works"),
            Reason::Uncertain => f.write_str("a path gave it up, and it may be done or not"),
            Reason::NoPower => f.write_str("the device has lost its power"),
            Reason::CacheLost => f.write_str("the disk has lost its power, and what was not flushed may be gone"),
            Reason::Failing(what) => f.write_str(what),
            Reason::Injected(status) => write!(f, "a rule injects: {status}"),
            Reason::NoKey => f.write_str("there is no key: send it the message `key set <hexadecimal digits>`"),
            Reason::VolumeFailed(why) => write!(f, "the volume cannot be used: {why}"),
            Reason::VolumeReadOnly(why) => write!(f, "the volume has become read-only: {why}"),
            Reason::VolumeLost(why) => write!(f, "the volume could not make changes durable: {why}"),
            Reason::VolumeFull => f.write_str("the volume has no zone left that could be reclaimed"),
            Reason::BadChunk(chunk) => write!(f, "the metadata of chunk {chunk} is not readable: repair the set"),
            Reason::ChunkReadOnly { chunk, zone } => {
                write!(f, "zone {zone}, which holds chunk {chunk}, takes no writes any more")
            }
            Reason::Below(why) => why.write(f, name),
            Reason::FuaFlush(why) => {
                f.write_str("the data is written, and the flush that makes it durable failed: ")?;
                why.write(f, name)
            }
            Reason::Host(_, text) => f.write_str(text),
            Reason::Unexplained(status) => write!(f, "{status}, without a reason"),
        }
    }
}

impl_error!(Reason, |self, f| self.write(f, &number));

/// Writes the name of a device.
type Names<'a> = &'a dyn Fn(DeviceId, &mut fmt::Formatter<'_>) -> fmt::Result;

/// What stands for a name where nobody knows it.
fn number(device: DeviceId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "device {}", device.0)
}

/// What failed, where, and why. The bio as it came to the device that failed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The device; `None` until it lets the bio go.
    pub device: Option<DeviceId>,
    /// The operation.
    pub op: Op,
    /// The first sector.
    pub sector: Sector,
    /// The length.
    pub sectors: u32,
    /// The reason.
    pub reason: Reason,
}

impl Why {
    /// The status that the reason gives a bio.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from(&self.reason)
    }

    /// Whether somebody has said what the reason is.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        match &self.reason {
            Reason::Below(why) | Reason::FuaFlush(why) => why.is_explained(),
            reason => !matches!(reason, Reason::Unexplained(_)),
        }
    }

    /// The text with names of devices instead of numbers.
    pub fn with_names<'a>(&'a self, name: Names<'a>) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.write(f, name))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, name: Names<'_>) -> fmt::Result {
        if let Some(device) = self.device {
            name(device, f)?;
            f.write_str(": ")?;
        }
        write!(f, "{} {}+{}: ", self.op.name(), self.sector, self.sectors)?;
        self.reason.write(f, name)
    }
}

impl_display!(Why, |self, f| self.write(f, &number));
