//! `zero`: what is read from it, and what it does not do.

use shingle_core::block::{Data, Op, Payload, Status};

use crate::mapped::{Mapped, bare, bytes, filled, refused};

#[test]
fn reads_bring_zeroes_and_writes_vanish() {
    let mut zero = Mapped::over_desks("0 1000 zero");
    assert_eq!(zero.finish(filled(Op::Write, 8, 8, 0x55)).status, Status::Ok);
    let read = zero.finish(filled(Op::Read, 8, 8, 0xaa));
    assert_eq!((read.status, bytes(&read.bio)), (Status::Ok, vec![0; 8 * 512]));
    let (first, second) = (Data::zeroed(512), Data::zeroed(1024));
    first.fill(1);
    second.fill(2);
    let mut scattered = bare(Op::Read, 0, 3);
    scattered.payload = Payload::Segments(vec![first, second]);
    assert_eq!(bytes(&zero.finish(scattered).bio), vec![0; 3 * 512], "every segment is filled");
}

#[test]
fn discards_and_zeroing_of_any_length_succeed_and_so_does_a_flush() {
    let mut zero = Mapped::over_desks("0 4294967296 zero");
    for bio in [bare(Op::Discard, 0, u32::MAX), bare(Op::WriteZeroes, 1, u32::MAX), bare(Op::Flush, 0, 0)] {
        assert_eq!(zero.finish(bio).status, Status::Ok);
    }
    assert_eq!((zero.status(), zero.table()), (String::new(), "0 4294967296 zero".to_string()));
}

#[test]
fn zone_commands_fail_and_sectors_past_the_end_too() {
    let mut zero = Mapped::over_desks("0 1000 zero");
    assert_eq!(zero.finish(filled(Op::Read, 996, 8, 0)).status, Status::Io);
    assert!(!zero.finish(bare(Op::ZoneReset, 0, 0)).status.is_ok());
}

#[test]
fn zero_beside_zones_is_refused_as_is_a_word_too_much() {
    let error = Mapped::over_zones("0 512 linear z 0\n512 64 zero").err().unwrap();
    assert!(error.contains("table line 2") && error.contains("one table is one or the other"), "{error}");
    refused("0 8 zero a", &["argument 1", "`a` is too much", "write `zero`"]);
}
