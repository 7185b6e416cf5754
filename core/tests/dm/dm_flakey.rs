//! `flakey`: when the device is down, and what happens to bios then.

use shingle_core::block::{Bio, Data, Flags, Op, Payload, Status};
use shingle_core::harness::MockDevice;

use crate::desk::{append, flush, read, report, reset, write};
use crate::mapped::{Mapped, bare, bytes, disk, filled, ms, refused, zoned_disk};

/// A flaky line over a disk with data, with `features`, that is always down.
fn down(features: &str) -> Mapped {
    Mapped::new(&format!("0 1000 flakey a 100 0 1 {features}"), vec![("a", disk(8192))])
}

/// Bytes of `bio` that are not `byte`, as `(place, byte)`.
fn others(bio: &Bio, byte: u8) -> Vec<(usize, u8)> {
    bytes(bio).into_iter().enumerate().filter(|(_, found)| *found != byte).collect()
}

#[test]
fn it_is_up_and_down_in_turns_from_its_beginning_on() {
    let mut flakey = Mapped::over_desks("0 1000 flakey a 100 3 2");
    let mut down_at = vec![];
    for tenth in 0..150 {
        flakey.rig.submit(read(0, 8));
        if flakey.at("a").is_empty() {
            assert_eq!(flakey.ended().pop().unwrap().1, Status::Io);
            down_at.push(tenth);
        } else {
            assert_eq!(flakey.at("a"), ["READ 100+8"]);
            flakey.end("a", Status::Ok);
            assert_eq!(flakey.ended().pop().unwrap().1, Status::Ok);
        }
        flakey.rig.pass(ms(100));
    }
    let expected: Vec<i32> = (30..50).chain(80..100).chain(130..150).collect();
    assert_eq!(down_at, expected);
}

#[test]
fn random_intervals_are_kept_to_the_second() {
    let mut rng = shingle_core::random::Rng::new(5);
    for _ in 0..20 {
        let (up, down) = (rng.below(5), 1 + rng.below(5));
        let mut flakey = Mapped::new(&format!("0 1000 flakey a 0 {up} {down}"), vec![("a", disk(8192))]);
        let mut elapsed = 0;
        for _ in 0..50 {
            let is_down = elapsed / 1000 % (up + down) >= up;
            assert_eq!(flakey.finish(read(0, 1)).status.is_ok(), !is_down, "{up} {down} after {elapsed} ms");
            let step = rng.below(1500);
            flakey.rig.pass(ms(step));
            elapsed += step;
        }
    }
}

#[test]
fn without_features_everything_fails_and_the_table_says_so() {
    let mut flakey = down("");
    assert_eq!(flakey.table(), "0 1000 flakey a 100 0 1 2 error_reads error_writes");
    assert_eq!([flakey.finish(read(0, 8)).status, flakey.finish(write(0, 8)).status], [Status::Io; 2]);
    assert_eq!(down("0").table(), flakey.table());
    assert_eq!(flakey.status(), "");
    let mut with_cache = Mapped::over_desks("0 1000 flakey a 0 0 1");
    assert_eq!(with_cache.finish(flush()).status, Status::Io);
}

#[test]
fn reads_alone_or_writes_alone_fail() {
    let mut flakey = down("1 error_reads");
    assert_eq!([flakey.finish(read(0, 8)).status, flakey.finish(write(0, 8)).status], [Status::Io, Status::Ok]);
    let mut flakey = down("1 error_writes");
    assert_eq!([flakey.finish(read(0, 8)).status, flakey.finish(write(0, 8)).status], [Status::Ok, Status::Io]);
}

#[test]
fn dropped_writes_and_flushes_succeed_and_do_nothing() {
    let mut flakey = Mapped::over_desks("0 1000 flakey a 0 0 1 1 drop_writes");
    for bio in [write(0, 8), flush(), bare(Op::Discard, 0, 8), bare(Op::WriteZeroes, 0, 8)] {
        let tag = flakey.rig.submit(bio);
        assert_eq!((flakey.ended(), flakey.at("a").len()), (vec![(tag, Status::Ok)], 0));
    }
    flakey.rig.submit(read(0, 8));
    assert_eq!(flakey.at("a"), ["READ 0+8"]);
}

#[test]
fn one_byte_of_each_read_is_another_wherever_the_segment() {
    let mut flakey = down("5 corrupt_bio_byte 600 r 7 0");
    assert_eq!(flakey.finish(filled(Op::Write, 0, 8, 0x11)).status, Status::Ok);
    assert_eq!(others(&flakey.finish(read(0, 8)).bio, 0x11), [(599, 7)]);
    assert_eq!(others(&flakey.finish(read(0, 1)).bio, 0x11), [], "a read that is too short has no such byte");
    let mut scattered = bare(Op::Read, 0, 3);
    scattered.payload = Payload::Segments(vec![Data::zeroed(512), Data::zeroed(1024)]);
    assert_eq!(others(&flakey.finish(scattered).bio, 0x11), [(599, 7)]);
}

#[test]
fn one_byte_of_each_write_is_another_on_the_disk_and_the_submitters_memory_is_untouched() {
    let mut flakey = down("5 corrupt_bio_byte 600 w 7 0");
    let written = flakey.finish(filled(Op::Write, 0, 8, 0x11));
    assert_eq!((written.status, others(&written.bio, 0x11)), (Status::Ok, vec![]));
    assert_eq!(others(&flakey.finish(read(0, 8)).bio, 0x11), [(599, 7)]);
    let mut scattered = filled(Op::Write, 16, 3, 0x11);
    let (first, second) = (Data::zeroed(512), Data::zeroed(1024));
    first.fill(0x22);
    second.fill(0x22);
    scattered.payload = Payload::Segments(vec![first, second]);
    let written = flakey.finish(scattered);
    assert_eq!((written.bio.payload.segments().len(), others(&written.bio, 0x22)), (2, vec![]));
    assert_eq!(others(&flakey.finish(read(16, 3)).bio, 0x22), [(599, 7)]);
}

#[test]
fn only_bios_with_all_flags_of_the_mask_are_changed() {
    let fua = 1 << 17;
    let mut flakey = Mapped::over_desks(&format!("0 1000 flakey a 0 0 1 5 corrupt_bio_byte 1 w 9 {fua}"));
    for (flags, first) in [(Flags::NONE, 0x11), (Flags::FUA, 9), (Flags::FUA.with(Flags::PREFLUSH), 9)] {
        flakey.rig.submit(filled(Op::Write, 0, 1, 0x11).with_flags(flags));
        assert_eq!(flakey.bytes_at("a")[0], first, "{flags:?}");
        flakey.end_all("a");
    }
    refused("0 8 flakey a 0 0 1 5 corrupt_bio_byte 1 w 9 32", &["argument 10", "the mask 32", "0x2600"]);
}

#[test]
fn random_bytes_are_changed_as_often_as_asked_for_and_the_same_ones_by_the_same_line() {
    let run = |features: &str| -> Vec<Vec<(usize, u8)>> {
        let mut flakey = down(features);
        (0..400)
            .map(|_| {
                let written = flakey.finish(filled(Op::Write, 0, 8, 0x11));
                assert_eq!(others(&written.bio, 0x11), [], "the submitter's memory");
                others(&flakey.finish(read(0, 8)).bio, 0x11)
            })
            .collect()
    };
    for features in ["2 random_write_corrupt 250000000", "2 random_read_corrupt 250000000"] {
        let found = run(features);
        let changed = found.iter().filter(|others| !others.is_empty()).count();
        assert!((60..140).contains(&changed), "{features}: {changed} of 400");
        assert!(found.iter().all(|others| others.len() <= 1));
        assert_eq!(found, run(features));
        assert_ne!(found, run(&features.replace("250000000", "250000001")));
    }
    assert!(run("2 random_read_corrupt 1000000000").iter().filter(|others| !others.is_empty()).count() > 380);
}

#[test]
fn memory_of_copies_is_used_again() {
    let mut flakey = Mapped::over_desks("0 1000 flakey a 0 0 1 5 corrupt_bio_byte 1 w 9 0");
    flakey.rig.submit(filled(Op::Write, 0, 1, 1));
    flakey.rig.submit(filled(Op::Write, 1, 1, 2));
    flakey.end_all("a");
    flakey.rig.submit(filled(Op::Write, 2, 1, 3));
    assert_eq!(flakey.bytes_at("a")[..3], [9, 3, 3]);
}

#[test]
fn zone_management_and_reports_never_fail_and_appends_come_back_with_their_sector() {
    let mut flakey = Mapped::over_zones("0 256 flakey z 64 0 1").unwrap();
    flakey.end_all("z");
    for (bio, arrives) in [(reset(0), "ZONE_RESET 64+0"), (report(), "REPORT_ZONES 64+0")] {
        flakey.rig.submit(bio);
        assert_eq!(flakey.at("z"), [arrives]);
        flakey.end_all("z");
    }
    let mut desk = MockDevice::zoned(8, 64, 64, 1);
    desk.limits_mut().zoned.as_mut().unwrap().max_append = Some(64);
    let table = "0 256 flakey z 64 0 1 5 corrupt_bio_byte 1 w 9 0";
    let mut flakey = Mapped::new(table, vec![("z", Box::new(desk))]);
    flakey.rig.submit(append(1, 8));
    flakey.rig.submit(append(1, 8));
    assert_eq!(flakey.bytes_at("z")[..2], [9, 64]);
    flakey.end_all("z");
    let sectors: Vec<u64> = flakey.rig.done().iter().map(|done| done.bio.sector.0).collect();
    assert_eq!(sectors, [64, 72]);
}

#[test]
fn a_zone_whose_write_was_dropped_takes_none_until_its_pointer_is_known_again() {
    let table = "0 1024 flakey z 0 1 1 1 drop_writes";
    let mut flakey = Mapped::new(table, vec![("z", zoned_disk(1024, 256))]);
    assert_eq!(flakey.finish(write(0, 8)).status, Status::Ok);
    flakey.rig.pass(ms(1000));
    assert_eq!(flakey.finish(write(8, 8)).status, Status::Ok, "dropped");
    flakey.rig.pass(ms(1000));
    assert!(!flakey.finish(write(16, 8)).status.is_ok(), "the disk's pointer is still at sector 8");
    assert_eq!(flakey.finish(reset(0)).status, Status::Ok);
    assert_eq!(flakey.finish(write(0, 8)).status, Status::Ok);
}

#[test]
fn a_table_is_printed_as_the_kernel_prints_it() {
    for (features, printed) in [
        ("1 DROP_WRITES", "1 drop_writes"),
        ("2 error_writes error_reads", "2 error_reads error_writes"),
        (
            "9 random_write_corrupt 5 random_read_corrupt 7 CORRUPT_BIO_BYTE 3 W 255 393216",
            "9 corrupt_bio_byte 3 w 255 393216 random_read_corrupt 7 random_write_corrupt 5",
        ),
        ("6 error_reads corrupt_bio_byte 3 w 255 0", "6 error_reads corrupt_bio_byte 3 w 255 0"),
        ("2 random_read_corrupt 0", "2 error_reads error_writes"),
    ] {
        let table = down(features).table();
        assert_eq!(table, format!("0 1000 flakey a 100 0 1 {printed}"));
        assert_eq!(Mapped::new(&table, vec![("a", disk(8192))]).table(), table, "it can be read again");
    }
}

#[test]
fn a_wrong_line_is_refused_with_its_argument() {
    let wrong = |rest: &str, words: &[&str]| refused(&format!("0 8 flakey a 0 {rest}"), words);
    wrong("1", &["the down interval is missing", "write `flakey <device>"]);
    wrong("0 0", &["argument 4", "together are 0 seconds"]);
    wrong("4294967295 1", &["argument 4", "4294967296 seconds"]);
    wrong("-1 1", &["argument 3", "`-1`"]);
    wrong("1 1 12", &["argument 5", "at most 0"]);
    wrong("1 1 2 drop_writes", &["argument 5", "is 2: at most 1"]);
    wrong("1 1 1 drop_reads", &["argument 6", "unknown feature `drop_reads`; features are error_reads"]);
    wrong("1 1 2 drop_writes drop_writes", &["argument 7", "stands twice"]);
    wrong("1 1 2 drop_writes error_writes", &["exclude each other"]);
    wrong("1 1 3 drop_writes random_write_corrupt 1", &["cannot be corrupted"]);
    wrong("1 1 6 error_writes corrupt_bio_byte 1 w 1 0", &["cannot be corrupted"]);
    wrong("1 1 6 error_reads corrupt_bio_byte 1 r 1 0", &["reads that fail cannot be corrupted"]);
    wrong("1 1 4 corrupt_bio_byte 1 w 1", &["the mask of flags is missing"]);
    wrong("1 1 5 corrupt_bio_byte 0 w 1 0", &["argument 7", "from 1 to 4294967295"]);
    wrong("1 1 5 corrupt_bio_byte 1 x 1 0", &["argument 8", "r for reads or w for writes"]);
    wrong("1 1 5 corrupt_bio_byte 1 w 256 0", &["argument 9", "from 0 to 255"]);
    wrong("1 1 2 random_read_corrupt 1000000001", &["argument 7", "from 0 to 1000000000"]);
    wrong("1 1 0 more", &["argument 6", "too much"]);
    refused("0 8 flakey c 0 1 1", &["argument 1", "known devices are: a, b"]);
}
