//! `error`: everything fails, but for what a device has to say about its zones.

use shingle_core::block::{Op, Status};

use crate::desk::{append, finish, flush, read, report, reset, reset_all, write};
use crate::mapped::{Mapped, bare, refused};

#[test]
fn everything_fails_with_an_io_error_and_a_flush_has_nothing_to_do() {
    let mut error = Mapped::over_desks("0 4294967296 error");
    for bio in [
        read(0, 8),
        write(0, 8),
        bare(Op::Discard, 0, u32::MAX),
        bare(Op::WriteZeroes, 1, u32::MAX),
        bare(Op::Discard, 0, 1),
    ] {
        let name = bio.op.name();
        assert_eq!(error.finish(bio).status, Status::Io, "{name}: it is not called unsupported");
    }
    assert_eq!(error.finish(flush()).status, Status::Ok);
    assert_eq!((error.status(), error.table()), (String::new(), "0 4294967296 error".to_string()));
}

#[test]
fn with_a_device_it_has_its_zones_and_nothing_but_reports_reaches_them() {
    let mut error = Mapped::over_zones("0 256 error z 64").unwrap();
    for bio in [read(0, 8), write(0, 8), append(1, 8), reset(1), finish(1), reset_all()] {
        let name = bio.op.name();
        assert_eq!(error.finish(bio).status, Status::Io, "{name}");
    }
    assert!(error.at("z").is_empty());
    error.rig.submit(report());
    assert_eq!(error.at("z"), ["REPORT_ZONES 64+0"]);
    error.end_all("z");
    assert_eq!(error.ended().last().unwrap().1, Status::Ok);
    let limits = error.rig.stack.limits(error.rig.top);
    assert_eq!((limits.zones(), limits.zoned.as_ref().map(|zoned| zoned.zone_sectors)), (4, Some(64)));
}

#[test]
fn the_table_keeps_the_device_so_that_it_can_be_loaded_again() {
    assert_eq!(Mapped::over_zones("0 256 error z 64").unwrap().table(), "0 256 error z 64");
}

#[test]
fn a_wrong_line_is_refused_with_its_argument() {
    refused("0 8 error a", &["the start on the device is missing", "error [<device> <start sector>]"]);
    refused("0 8 error a b", &["argument 2", "`b`"]);
    refused("0 8 error c 0", &["argument 1", "known devices are: a, b"]);
    refused("0 8 error a 0 1", &["argument 3", "too much"]);
    let error = Mapped::over_zones("0 100 error z 64").err().unwrap();
    assert!(error.contains("argument 2") && error.contains("whole zones"), "{error}");
}
