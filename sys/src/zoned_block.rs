//! Zones of a block device of the kernel: the ioctls of `include/uapi/linux/blkzoned.h`.
//!
//! They block, a reset of a whole disk for seconds: they are for a thread that may wait.
//!
//! Two reports: that of the disk itself, and since Linux 6.19 that of the kernel's memory of it. The second is quick, but says
//! nothing new after somebody has changed the disk behind the kernel's back, and does not tell open zones from closed ones.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use shingle_core::named_enum;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

/// `struct blk_zone_report`, and as many `struct blk_zone` as there is room for.
#[repr(C)]
struct Report {
    sector: u64,
    count: u32,
    flags: u32,
    zones: [RawZone; AT_ONCE],
}

/// `struct blk_zone`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawZone {
    start: u64,
    len: u64,
    wp: u64,
    kind: u8,
    cond: u8,
    non_seq: u8,
    reset: u8,
    reserved: [u8; 4],
    capacity: u64,
    further: [u8; 24],
}

/// `struct blk_zone_range`.
#[repr(C)]
struct Range {
    sector: u64,
    sectors: u64,
}

const _: () = assert!(mem::size_of::<RawZone>() == 64 && mem::offset_of!(Report, zones) == 16);

/// Zones that are asked for at once.
const AT_ONCE: usize = 256;
/// In the flags of an answer: zones say their capacity (`BLK_ZONE_REP_CAPACITY`, Linux 5.9).
const HAS_CAPACITY: u32 = 1;
/// In the flags of a question: the kernel may answer from memory (`BLK_ZONE_REP_CACHED`).
const CACHED: u32 = 1 << 31;
/// What a zone's condition is that is open or closed, in an answer from memory (`BLK_ZONE_COND_ACTIVE`).
const ACTIVE: u8 = 0xff;

const BLKREPORTZONE: u32 = 0xc010_1282;
const BLKRESETZONE: u32 = 0x4010_1283;
const BLKOPENZONE: u32 = 0x4010_1286;
const BLKCLOSEZONE: u32 = 0x4010_1287;
const BLKFINISHZONE: u32 = 0x4010_1288;
const BLKREPORTZONEV2: u32 = 0xc010_128e;

named_enum! {
    /// What can be done to whole zones.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ZoneCommand {
        /// Makes zones empty.
        Reset => "reset",
        /// Opens zones explicitly.
        Open => "open",
        /// Closes zones.
        Close => "close",
        /// Makes zones full.
        Finish => "finish",
    }

    /// As blkzone(8) calls it.
    fn name(self) -> &'static str;
}

/// Reports the zones of `disk` from the one that holds `from` on, until `zones` is as full as its capacity or there are no
/// more. The disk itself is asked, which also has the kernel take up again the writes to a zone in which one has failed.
///
/// # Errors
/// `ENOTTY` if it is no zoned block device; `InvalidData` if a zone is of a kind or in a condition that nobody knows.
pub fn report_zones(disk: &impl AsFd, from: Sector, zones: &mut Vec<Zone>) -> io::Result<()> {
    report((disk, BLKREPORTZONE, 0), from, zones)
}

/// The same from the kernel's memory where there is such a report: enough for what zones are, not for what is in them. A zone
/// that is open or closed is [`Condition::ImplicitOpen`] in it.
///
/// # Errors
/// As [`report_zones`].
pub fn recall_zones(disk: &impl AsFd, from: Sector, zones: &mut Vec<Zone>) -> io::Result<()> {
    match report((disk, BLKREPORTZONEV2, CACHED), from, zones) {
        // Both mean that there is none: which, depends on the driver.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
            report_zones(disk, from, zones)
        }
        done => done,
    }
}

fn report((disk, request, flags): (&impl AsFd, u32, u32), from: Sector, zones: &mut Vec<Zone>) -> io::Result<()> {
    let mut sector = from.0;
    let mut report = Box::new(Report { sector, count: 0, flags: 0, zones: [RawZone::default(); AT_ONCE] });
    while zones.len() < zones.capacity() {
        let room = (zones.capacity() - zones.len()).min(AT_ONCE);
        (report.sector, report.count, report.flags) = (sector, room as u32, flags);
        // SAFETY: The kernel reads the head and writes it and at most `count` zones, for which there is room.
        unsafe { ioctl(disk, request, (&raw mut *report).cast()) }?;
        let found = &report.zones[..room.min(report.count as usize)];
        let Some(last) = found.last() else { return Ok(()) };
        sector = last.start + last.len;
        for zone in found {
            zones.push(zone.decode(report.flags & HAS_CAPACITY != 0)?);
        }
    }
    Ok(())
}

/// Does `command` to the zones of `sectors` sectors from `first` on: whole zones, or all of the disk.
///
/// # Errors
/// That of the disk, or `EINVAL` if these are no whole zones.
pub fn manage_zones(disk: &impl AsFd, command: ZoneCommand, first: Sector, sectors: u64) -> io::Result<()> {
    let request = match command {
        ZoneCommand::Reset => BLKRESETZONE,
        ZoneCommand::Open => BLKOPENZONE,
        ZoneCommand::Close => BLKCLOSEZONE,
        ZoneCommand::Finish => BLKFINISHZONE,
    };
    let mut range = Range { sector: first.0, sectors };
    // SAFETY: The kernel reads this structure and nothing else.
    unsafe { ioctl(disk, request, (&raw mut range).cast()) }
}

impl RawZone {
    fn decode(&self, has_capacity: bool) -> io::Result<Zone> {
        let kind = match self.kind {
            1 => Some(ZoneKind::Conventional),
            2 => Some(ZoneKind::Sequential),
            _ => None,
        };
        let cond = if self.cond == ACTIVE { Some(Condition::ImplicitOpen) } else { Condition::from_abi(self.cond) };
        let (Some(kind), Some(cond)) = (kind, cond) else {
            let Self { start, kind, cond, .. } = self;
            let what =
                format!("the zone at sector {start} is of kind {kind} and in condition {cond}, which nobody knows");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        };
        let capacity = if has_capacity { self.capacity } else { self.len };
        // Of conditions without a pointer drivers tell different ones.
        let wp = match cond {
            Condition::Full => self.start + self.len,
            cond if cond.has_write_pointer() => self.wp,
            _ => self.start,
        };
        Ok(Zone { start: Sector(self.start), len: self.len, capacity, wp: Sector(wp), kind, cond })
    }
}

/// # Safety
/// `data` is what the kernel reads and writes for `request`.
unsafe fn ioctl(disk: &impl AsFd, request: u32, data: *mut libc::c_void) -> io::Result<()> {
    loop {
        // SAFETY: The caller's promise; the descriptor is open while `disk` is borrowed.
        if unsafe { libc::ioctl(disk.as_fd().as_raw_fd(), request as _, data) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(kind: u8, cond: u8, wp: u64) -> RawZone {
        RawZone { start: 1024, len: 512, wp, kind, cond, capacity: 400, ..RawZone::default() }
    }

    #[test]
    fn a_full_zone_has_its_pointer_at_its_end_whatever_the_driver_says() {
        for wp in [u64::MAX, 1024 + 400, 1024 + 512] {
            let zone = raw(2, Condition::Full as u8, wp).decode(true).unwrap();
            assert_eq!((zone.wp, zone.capacity), (Sector(1536), 400));
        }
        assert_eq!(raw(2, Condition::Offline as u8, u64::MAX).decode(true).unwrap().wp, Sector(1024));
        assert_eq!(raw(2, Condition::Closed as u8, 1100).decode(false).unwrap().capacity, 512, "before Linux 5.9");
    }

    #[test]
    fn a_zone_of_an_unknown_kind_or_condition_is_an_error() {
        for (kind, cond) in [(0, 1), (3, 1), (2, 5), (2, 0xfe)] {
            assert_eq!(raw(kind, cond, 0).decode(true).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn what_is_no_zoned_block_device_has_no_zones() {
        let file = std::fs::File::open("/dev/null").unwrap();
        for report in [report_zones, recall_zones] {
            let report = report(&file, Sector::ZERO, &mut Vec::with_capacity(1));
            assert_eq!(report.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        }
        let reset = manage_zones(&file, ZoneCommand::Reset, Sector::ZERO, 1);
        assert_eq!(reset.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
