//! Why a command to a zone failed: an errno says next to nothing, the zone's state afterwards says it.
//!
//! The report that is looked at here does more than tell: since Linux 6.10 the kernel refuses every write to a zone in which one
//! has failed, also the right one, until somebody has asked for such a report (`block/blk-zoned.c:disk_zone_wplug_sync_wp_offset`).

use std::io;
use std::ops::Range;

use shingle_core::block::{Op, Status};
use shingle_core::zone::{Condition, Zone, ZoneKind};

use crate::disk::transfer::status_of;

/// `EOVERFLOW`: too many active zones.
const EOVERFLOW: i32 = 75;
/// `ETOOMANYREFS`: too many open zones.
const ETOOMANYREFS: i32 = 109;

/// What is known of a command that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What programs are told.
    pub status: Status,
    /// What people are told.
    pub text: String,
    /// Whether somebody else has changed the zone.
    pub is_touched: bool,
}

impl Verdict {
    /// That of a command that failed with `errno`, where nobody knows more.
    pub fn unknown(errno: i32) -> Self {
        let text = format!("{}; check the kernel log", io::Error::from_raw_os_error(errno));
        Self { status: medium_or_io(errno), text, is_touched: false }
    }
}

/// Why `op` to `sectors` failed with `errno`, where `zone` is like this now.
pub fn judge(op: Op, sectors: &Range<u64>, errno: i32, zone: &Zone) -> Verdict {
    let verdict = |status, text: String| Verdict { status, text, is_touched: false };
    let failed = |text: String| verdict(Status::Io, text);
    let errno_text = || io::Error::from_raw_os_error(errno).to_string();
    let untouched = zone.wp.0 == sectors.start;
    match (zone.cond, errno) {
        (Condition::Offline, _) => failed("the zone is offline: its data is lost; restore it elsewhere".into()),
        (Condition::ReadOnly, _) if op.is_write() => {
            failed("the zone is read-only for good: copy its data elsewhere".into())
        }
        // A part of it was written before: then the pointer is not where a mere refusal leaves it.
        (_, EOVERFLOW) if untouched || !op.writes_data() => {
            verdict(Status::ZoneActiveResource, "too many zones are active: finish or reset one".into())
        }
        (_, ETOOMANYREFS) if untouched || !op.writes_data() => {
            verdict(Status::ZoneOpenResource, "too many zones are open: close one".into())
        }
        _ if op.writes_data() && zone.kind == ZoneKind::Sequential => written(sectors, errno, zone),
        (cond, _) if op == Op::Read && cond.has_write_pointer() && sectors.end > zone.wp.0 => {
            let wp = zone.wp;
            failed(format!(
                "{}; nothing is written from sector {wp} on, and some disks do not read there",
                errno_text()
            ))
        }
        (cond, _) if op.is_zone_management() && op != Op::ZoneResetAll => {
            failed(format!("{}; the zone is {}", errno_text(), cond.name()))
        }
        _ => verdict(status_of(-errno), format!("{}; check the kernel log", errno_text())),
    }
}

/// Why a write to a sequential zone failed that is neither dead nor short of resources.
fn written(sectors: &Range<u64>, errno: i32, zone: &Zone) -> Verdict {
    let (wp, start) = (zone.wp.0, sectors.start);
    let text = match zone.cond {
        Condition::Full if sectors.end < zone.start.0 + zone.capacity => {
            "the zone is full, and was not before: somebody else has finished it or written to it".into()
        }
        _ if wp < start || wp > sectors.end && zone.cond != Condition::Full => format!(
            "the zone is written at sector {wp} next, not at {start}: somebody else has reset it or written to it; keep \
             other programs off the disk"
        ),
        _ => {
            let error = io::Error::from_raw_os_error(errno);
            let done = wp.min(sectors.end) - start;
            let text = format!("{error}, with {done} of {} sectors written; check the kernel log", sectors.end - start);
            return Verdict { status: medium_or_io(errno), text, is_touched: false };
        }
    };
    Verdict { status: Status::Io, text, is_touched: true }
}

/// The status of a write that the disk has begun: none after which a host may believe that nothing has happened.
fn medium_or_io(errno: i32) -> Status {
    match status_of(-errno) {
        Status::Medium => Status::Medium,
        _ => Status::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_core::sector::Sector;

    const EIO: i32 = 5;
    const ENODATA: i32 = 61;

    /// Zone 1 of zones of 1024 sectors, of which 1000 can be written.
    fn zone(cond: Condition, offset: u64) -> Zone {
        let wp = if cond == Condition::Full { 2048 } else { 1024 + offset };
        Zone { start: Sector(1024), len: 1024, capacity: 1000, wp: Sector(wp), kind: ZoneKind::Sequential, cond }
    }

    fn write(errno: i32, zone: &Zone) -> Verdict {
        judge(Op::Write, &(1124..1132), errno, zone)
    }

    #[test]
    fn a_pointer_that_is_neither_before_nor_in_the_write_was_moved_by_somebody_else() {
        use Condition::{Closed, Empty, Full, ImplicitOpen};
        for moved in [zone(Empty, 0), zone(Closed, 99), zone(ImplicitOpen, 109), zone(Full, 0)] {
            let verdict = write(EIO, &moved);
            assert!(verdict.is_touched && verdict.text.contains("somebody else"), "{moved:?}: {}", verdict.text);
        }
        for (offset, done) in [(100, "0 of 8"), (104, "4 of 8"), (108, "8 of 8")] {
            let verdict = write(EIO, &zone(ImplicitOpen, offset));
            assert!(!verdict.is_touched && verdict.text.contains(done), "{}", verdict.text);
        }
        let filled = judge(Op::Write, &(2016..2024), EIO, &zone(Full, 0));
        assert!(
            !filled.is_touched && filled.text.contains("8 of 8"),
            "it may have filled the zone itself: {}",
            filled.text
        );
    }

    #[test]
    fn a_zone_that_is_dead_says_so_whatever_the_errno_is() {
        for errno in [EIO, EOVERFLOW, 121] {
            assert!(write(errno, &zone(Condition::Offline, 0)).text.contains("offline"));
            assert!(write(errno, &zone(Condition::ReadOnly, 0)).text.contains("read-only"));
        }
        assert!(judge(Op::Read, &(1024..1032), EIO, &zone(Condition::Offline, 0)).text.contains("offline"));
        let read = judge(Op::Read, &(1024..1032), EIO, &zone(Condition::ReadOnly, 0));
        assert!(!read.text.contains("read-only"), "such a zone can be read: {}", read.text);
    }

    #[test]
    fn a_lack_of_resources_is_one_only_if_the_pointer_has_not_moved() {
        let at = |offset| zone(Condition::ImplicitOpen, offset);
        assert_eq!(write(EOVERFLOW, &at(100)).status, Status::ZoneActiveResource);
        assert_eq!(write(ETOOMANYREFS, &at(100)).status, Status::ZoneOpenResource);
        assert_eq!(
            write(EOVERFLOW, &at(104)).status,
            Status::Io,
            "who believes that nothing was written loses the order"
        );
        let open = judge(Op::ZoneOpen, &(1024..2048), ETOOMANYREFS, &zone(Condition::Closed, 4));
        assert_eq!(open.status, Status::ZoneOpenResource);
    }

    #[test]
    fn no_failed_write_gets_a_status_that_says_that_nothing_happened() {
        for errno in [1, 11, 22, 28, 30, 95, 121] {
            assert_eq!(write(errno, &zone(Condition::ImplicitOpen, 100)).status, Status::Io, "errno {errno}");
        }
        assert_eq!(write(ENODATA, &zone(Condition::ImplicitOpen, 100)).status, Status::Medium);
    }
}
