//! The one place a bio is validated: on entry. Layers assert what holds here, they do not test it again.
//!
//! Errors are the kernel's where a kernel would see the same misuse (`block/blk-core.c:submit_bio_noacct`).

use super::bio::Bio;
use super::limits::{Limits, ZonedLimits};
use super::op::{Flags, Op};
use super::payload::Payload;
use super::reason::Reason;

/// What becomes of a bio that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It goes in as it is.
    Whole,
    /// It is too long: its first sectors go in, the rest follows.
    Split(u32),
    /// Nothing is to be done: a flush of a device that loses nothing.
    Done,
}

/// Checks `bio` against `limits` and strips what means nothing there: flags, and the length of what has none.
pub fn check(bio: &mut Bio, limits: &Limits) -> Result<Admitted, Reason> {
    if limits.read_only && bio.op.is_write() {
        return Err(Reason::ReadOnly);
    }
    if !limits.write_cache {
        bio.flags = bio.flags.without(Flags::FUA).without(Flags::PREFLUSH);
    }
    if !bio.op.has_range() {
        bio.sectors = 0;
    }
    match bio.op {
        Op::Read | Op::Write | Op::WriteZeroes | Op::Discard => check_range(bio, limits),
        Op::ZoneAppend => check_append(bio, limits),
        Op::Flush if !limits.write_cache => Ok(Admitted::Done),
        Op::Flush => Ok(Admitted::Whole),
        Op::ReportZones => check_report(bio, limits),
        Op::ZoneOpen | Op::ZoneClose | Op::ZoneFinish | Op::ZoneReset => check_zone_management(bio, limits),
        Op::ZoneResetAll => zoned(limits).map(|_| Admitted::Whole),
    }
}

/// The common case of [`check`] in a few comparisons: a plain read or write that goes in as it is. What it does not admit
/// is not thereby wrong.
pub(super) struct FastCheck {
    capacity: u64,
    /// Bits that neither a start nor a length may have; for writes, those of the larger unit of sequential zones.
    misaligned: u64,
    misaligned_write: u64,
    longest: u32,
    zone_mask: u32,
    zone_sectors: u32,
    read_only: bool,
}

impl FastCheck {
    pub(super) fn new(limits: &Limits) -> Self {
        // A regular device is one zone without end.
        let zone_sectors = limits.zoned.as_ref().map(|zoned| zoned.zone_sectors);
        Self {
            capacity: limits.capacity,
            misaligned: u64::from(limits.block_sectors() - 1),
            misaligned_write: u64::from(
                limits.zoned.as_ref().map_or(limits.block_sectors(), ZonedLimits::write_unit) - 1,
            ),
            longest: limits.max_sectors.unwrap_or(u32::MAX),
            zone_mask: zone_sectors.map_or(0, |sectors| sectors - 1),
            zone_sectors: zone_sectors.unwrap_or(u32::MAX),
            read_only: limits.read_only,
        }
    }

    #[inline]
    pub(super) fn admits(&self, bio: &Bio) -> bool {
        let bytes = match &bio.payload {
            Payload::Data(data) => data.len(),
            Payload::Remote(remote) => remote.len(),
            _ => return false,
        };
        let (sector, sectors) = (bio.sector.0, bio.sectors);
        let offset = sector as u32 & self.zone_mask;
        let misaligned = if bio.op == Op::Read { self.misaligned } else { self.misaligned_write };
        let plain = bio.flags == Flags::NONE && (bio.op == Op::Read || bio.op == Op::Write && !self.read_only);
        plain
            && sectors != 0
            && bytes == sectors as usize * 512
            && (sector | u64::from(sectors)) & misaligned == 0
            && sectors <= self.longest
            && u64::from(offset) + u64::from(sectors) <= u64::from(self.zone_sectors)
            && sector < self.capacity
            && u64::from(sectors) <= self.capacity - sector
    }
}

fn check_range(bio: &Bio, limits: &Limits) -> Result<Admitted, Reason> {
    let longest = match bio.op {
        Op::WriteZeroes => limits.max_write_zeroes.ok_or(Reason::NotSupported)?,
        Op::Discard => limits.max_discard.ok_or(Reason::NotSupported)?,
        _ => limits.max_sectors.unwrap_or(u32::MAX),
    };
    check_extent(bio, limits)?;
    let to_zone_end = limits
        .zoned
        .as_ref()
        .map_or(u32::MAX, |z| z.zone_sectors - (bio.sector.0 & u64::from(z.zone_sectors - 1)) as u32);
    let fits = longest.min(to_zone_end);
    if bio.sectors <= fits && segments(bio) <= limits.max_segments.unwrap_or(u32::MAX) {
        return Ok(Admitted::Whole);
    }
    if bio.flags.has(Flags::NOWAIT) {
        return Err(Reason::WouldWait("it is longer than the device takes at once"));
    }
    split_at(bio, limits, fits)
}

/// In range, aligned, with the memory that its length promises.
fn check_extent(bio: &Bio, limits: &Limits) -> Result<(), Reason> {
    let past_end = bio.sector.0.checked_add(bio.sectors.into()).is_none_or(|end| end > limits.capacity);
    if bio.sectors == 0 {
        return Err(Reason::Empty);
    }
    if past_end {
        return Err(Reason::PastEnd { capacity: limits.capacity });
    }
    if (bio.sector.0 | u64::from(bio.sectors)) & u64::from(limits.block_sectors() - 1) != 0 {
        return Err(Reason::Misaligned { block: limits.block_sectors() });
    }
    if bio.op.writes_data()
        && let Some(zoned) = &limits.zoned
    {
        check_write_unit(bio, zoned)?;
    }
    let memory_fits = !bio.op.has_data() || bio.payload.bytes() == bio.sectors as usize * 512;
    if memory_fits { Ok(()) } else { Err(Reason::WrongMemory { bytes: bio.payload.bytes() }) }
}

/// A host-managed disk of 512-byte blocks on a medium of larger ones changes none of these in part: it refuses such a write in a
/// sequential zone, and the zone would be stopped for the mistake of one host.
fn check_write_unit(bio: &Bio, zoned: &ZonedLimits) -> Result<(), Reason> {
    let unit = zoned.write_unit();
    let (zone, offset) = (bio.sector.0 / u64::from(zoned.zone_sectors), bio.sector.0 as u32 & (zoned.zone_sectors - 1));
    // What is behind the end of the zone comes here as a bio of its own.
    let here = bio.sectors.min(zoned.zone_sectors - offset);
    let is_whole = (offset | here) & (unit - 1) == 0;
    let is_sequential = || zoned.sequential_in(zone as u32..zone as u32 + 1) > 0;
    if !is_whole && is_sequential() { Err(Reason::ZoneWriteUnit { unit }) } else { Ok(()) }
}

/// Where to cut a bio of which at most `fits` sectors go in one piece: on a block, for zone writes on a write unit.
fn split_at(bio: &Bio, limits: &Limits, fits: u32) -> Result<Admitted, Reason> {
    let in_segments = limits.max_segments.map_or(u32::MAX, |most| {
        let bytes: usize = bio.payload.segments().iter().take(most as usize).map(|d| d.len()).sum();
        if bio.payload.segments().is_empty() { u32::MAX } else { (bytes / 512) as u32 }
    });
    let unit = match &limits.zoned {
        Some(zoned) if bio.op.is_write() => zoned.write_unit(),
        _ => limits.block_sectors(),
    };
    let front = fits.min(in_segments).min(bio.sectors);
    let front = if front < bio.sectors { front - front % unit } else { front };
    match front {
        // One write unit is longer than the device takes, or its segments are smaller than a block.
        0 => Err(Reason::CannotCut { most: fits.min(in_segments), unit }),
        n if n == bio.sectors => Ok(Admitted::Whole),
        n => Ok(Admitted::Split(n)),
    }
}

fn check_append(bio: &Bio, limits: &Limits) -> Result<Admitted, Reason> {
    let zoned = zoned(limits)?;
    check_extent(bio, limits)?;
    let longest = zoned.max_append.unwrap_or(limits.max_sectors.unwrap_or(u32::MAX)).min(zoned.zone_sectors);
    let at_zone_start = bio.sector.0.is_multiple_of(zoned.zone_sectors.into());
    if !at_zone_start {
        return Err(Reason::AppendStart);
    }
    let fits = bio.sectors <= longest && segments(bio) <= limits.max_segments.unwrap_or(u32::MAX);
    if fits { Ok(Admitted::Whole) } else { Err(Reason::AppendLimit { most: longest }) }
}

fn check_report(bio: &Bio, limits: &Limits) -> Result<Admitted, Reason> {
    zoned(limits)?;
    if matches!(bio.payload, Payload::Zones(_)) { Ok(Admitted::Whole) } else { Err(Reason::NoRoom) }
}

fn check_zone_management(bio: &Bio, limits: &Limits) -> Result<Admitted, Reason> {
    let zoned = zoned(limits)?;
    let names_a_zone = bio.sector.0.is_multiple_of(zoned.zone_sectors.into()) && bio.sector.0 < limits.capacity;
    if names_a_zone { Ok(Admitted::Whole) } else { Err(Reason::ZoneStart { zone_sectors: zoned.zone_sectors }) }
}

fn zoned(limits: &Limits) -> Result<&ZonedLimits, Reason> {
    limits.zoned.as_ref().ok_or(Reason::NotZoned)
}

fn segments(bio: &Bio) -> u32 {
    bio.payload.segments().len() as u32
}
