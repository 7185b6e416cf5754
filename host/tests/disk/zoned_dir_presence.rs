//! A lock does not bind who does not ask for it: what others do to the zones' files is noticed, and no flush passes over it.

use std::fs::{self, File};
use std::path::Path;

use shingle_core::block::{Flags, Op, Status};
use shingle_core::zone::Condition;
use shingle_host::disk::zoned_dir::{Options, ZonedDir};
use shingle_host::shard::Shard;

use crate::common::{Bench, Scratch, ZONE, bio, create, filled, small_shape, write};

fn zone(number: u64) -> u64 {
    number * ZONE
}

/// A disk whose zones 0 and 2 to 4 hold 64 sectors that were flushed.
fn written() -> (Scratch, Bench) {
    let scratch = Scratch::new();
    create(&scratch.path("disk"), &small_shape());
    let mut bench = Bench::zoned(&scratch.path("disk"), Options::default());
    for number in [0, 2, 3, 4] {
        assert_eq!(bench.status(write(zone(number), 64, number as u8 + 1)), Status::Ok);
    }
    assert_eq!(bench.flush(), Status::Ok);
    assert!(bench.notices().is_empty());
    (scratch, bench)
}

fn set_len(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// The zone is given up and named, its neighbours live on, and no flush succeeds until the disk is opened again.
fn assert_lost(bench: &mut Bench, file: &str, word: &str) {
    let notices = bench.notices();
    assert_eq!(notices.len(), 1, "told once: {notices:?}");
    let words = [file, word, "opened again", "copy what can still be read"];
    assert!(words.iter().all(|word| notices[0].contains(word)), "{notices:?}");
    let number = file[file.len() - 1..].parse::<u64>().unwrap();
    assert_ne!(bench.status(write(zone(number) + 256, 8, 1)), Status::Ok, "{file}");
    assert_eq!(bench.status(write(zone(5), 8, 1)), Status::Ok, "its neighbours live on");
    assert_eq!(bench.flush(), Status::Io);
    assert_eq!(bench.status(bio(Op::ZoneReset, zone(5), 0)), Status::Ok);
    assert!(bench.notices().is_empty(), "told once");
}

type Harm = fn(&Path);

const HARMS: [(Harm, &str, &str); 8] = [
    (|disk| fs::remove_file(disk.join("seq-000002")).unwrap(), "seq-000002", "was removed"),
    (|disk| fs::remove_file(disk.join("cnv-000000")).unwrap(), "cnv-000000", "was removed"),
    (|disk| fs::rename(disk.join("seq-000003"), disk.with_extension("x")).unwrap(), "seq-000003", "was removed"),
    (
        |disk| {
            fs::copy(disk.join("seq-000002"), disk.join("new")).unwrap();
            fs::rename(disk.join("new"), disk.join("seq-000002")).unwrap();
        },
        "seq-000002",
        "another file",
    ),
    (|disk| set_len(&disk.join("seq-000002"), 0), "seq-000002", "bytes instead of"),
    (|disk| set_len(&disk.join("seq-000004"), 4096), "seq-000004", "bytes instead of"),
    (|disk| set_len(&disk.join("seq-000004"), 400_000), "seq-000004", "bytes instead of"),
    (|disk| set_len(&disk.join("cnv-000000"), 4096), "cnv-000000", "bytes instead of"),
];

#[test]
fn a_file_that_is_harmed_before_or_after_writes_fails_the_flush_of_these_writes() {
    for (harm, file, word) in HARMS {
        for writes_before in [0, 1, 3] {
            for writes_after in [0, 1, 5] {
                if writes_before + writes_after == 0 {
                    continue;
                }
                let (scratch, mut bench) = written();
                let number = file[file.len() - 1..].parse::<u64>().unwrap();
                let writes =
                    |from: u64, count: u64| (from..from + count).map(move |n| write(zone(number) + 64 + n * 8, 8, 9));
                assert!(bench.run_all(writes(0, writes_before).collect()).iter().all(|(status, _)| status.is_ok()));
                harm(&scratch.path("disk"));
                // They may fail or not: nobody looks at every write.
                bench.run_all(writes(writes_before, writes_after).collect());
                assert_eq!(bench.flush(), Status::Io, "{file}, {writes_before} writes before, {writes_after} after");
                assert_lost(&mut bench, file, word);
            }
        }
    }
}

#[test]
fn a_file_that_loses_its_name_fails_the_next_flush_though_nothing_was_written_since_the_last() {
    for (harm, file, word) in &HARMS[..4] {
        let (scratch, mut bench) = written();
        harm(&scratch.path("disk"));
        assert_eq!(bench.flush(), Status::Io, "{file}");
        assert_lost(&mut bench, file, word);
    }
}

#[test]
fn a_disk_that_is_looked_at_now_and_then_refuses_writes_without_a_flush() {
    let (scratch, mut bench) = written();
    let disk = bench.disk;
    let check =
        |shard: &mut Shard| shard.stack.with_device(disk, |disk: &mut ZonedDir, cx| disk.check(cx.now(), cx)).unwrap();
    assert!(check(&mut bench.shard).is_empty());
    fs::remove_file(scratch.path("disk/seq-000002")).unwrap();
    // The file system is asked beside the shard.
    let mut told = Vec::new();
    let is_told = |shard: &mut Shard| {
        told.extend(check(shard));
        !told.is_empty()
    };
    bench.shard.run_until(is_told).unwrap();
    assert!(told.len() == 1 && told[0].contains("seq-000002"), "{told:?}");
    assert_eq!(bench.status(write(zone(2) + 64, 8, 1)), Status::Io);
    assert_eq!(bench.zone(2).0, Condition::ReadOnly);
}

#[test]
fn a_durable_write_and_a_preflush_promise_no_less_than_a_flush() {
    let preflush = Flags::FUA.with(Flags::PREFLUSH);
    for (op, number, flags) in [
        (Op::Write, 2, Flags::FUA),
        (Op::ZoneAppend, 2, Flags::FUA),
        (Op::WriteZeroes, 2, Flags::FUA),
        (Op::Write, 3, preflush),
    ] {
        for harm in [|path: &Path| fs::remove_file(path).unwrap(), |path: &Path| set_len(path, 8192)] {
            let (scratch, mut bench) = written();
            harm(&scratch.path("disk/seq-000002"));
            if number != 2 {
                bench.status(write(zone(2) + 64, 8, 1));
            }
            let at = if op == Op::ZoneAppend { zone(number) } else { zone(number) + 64 };
            assert_eq!(bench.status(filled(op, at, 8, 1).with_flags(flags)), Status::Io, "{op:?} {flags:?}");
        }
    }
}

/// Both set the file's size, and so would make the hole look like data.
#[test]
fn zeroes_a_finish_or_a_reset_of_a_cut_file_do_not_hide_the_cut() {
    for command in
        [bio(Op::WriteZeroes, zone(2) + 64, 8), bio(Op::ZoneFinish, zone(2), 0), bio(Op::ZoneReset, zone(2), 0)]
    {
        let (scratch, mut bench) = written();
        set_len(&scratch.path("disk/seq-000002"), 4096);
        let what = format!("{command:?}");
        assert_eq!(bench.status(command), Status::Io, "{what}");
        assert_eq!(bench.flush(), Status::Io, "{what}");
        assert_lost(&mut bench, "seq-000002", "4096 bytes instead of 32768");
    }
}

#[test]
fn a_read_of_what_was_cut_off_is_an_error_and_not_zeroes() {
    for (file, number) in [("cnv-000000", 0), ("seq-000002", 2)] {
        let (scratch, mut bench) = written();
        set_len(&scratch.path("disk").join(file), 4096);
        assert_eq!(bench.read(zone(number), 8), vec![number as u8 + 1; 4096], "what is there can be read");
        assert_eq!(bench.status(bio(Op::Read, zone(number), 64)), Status::Io, "{file}");
        assert_eq!(bench.flush(), Status::Io);
        assert_lost(&mut bench, file, "4096 bytes instead of");
        assert_eq!(bench.status(bio(Op::Read, zone(number), 64)), Status::Io, "{file}, which is known to be cut");
        assert_eq!(bench.read(zone(number), 8), vec![number as u8 + 1; 4096], "what is there still can be read");
    }
}

#[test]
fn a_file_that_was_replaced_while_it_was_closed_is_not_written() {
    let scratch = Scratch::new();
    create(&scratch.path("disk"), &small_shape());
    let mut bench = Bench::zoned(&scratch.path("disk"), Options { most_files: 1, ..Options::default() });
    for number in [2, 3] {
        assert_eq!(bench.status(write(zone(number), 8, 1)), Status::Ok);
    }
    assert_eq!(bench.flush(), Status::Ok);
    let path = scratch.path("disk/seq-000002");
    fs::copy(&path, scratch.path("copy")).unwrap();
    fs::rename(scratch.path("copy"), &path).unwrap();
    assert_eq!(bench.status(write(zone(2) + 8, 8, 2)), Status::Io);
    assert_eq!(fs::read(path).unwrap(), vec![1; 4096], "the other file is as it was");
    assert_lost(&mut bench, "seq-000002", "another file");
}

#[test]
fn a_directory_that_is_moved_or_looked_through_takes_nothing_away() {
    let (scratch, mut bench) = written();
    fs::rename(scratch.path("disk"), scratch.path("moved")).unwrap();
    fs::write(scratch.path("moved/notes"), "x").unwrap();
    fs::remove_file(scratch.path("moved/notes")).unwrap();
    assert_eq!(bench.status(write(zone(2) + 64, 8, 1)), Status::Ok);
    assert_eq!((bench.flush(), bench.notices()), (Status::Ok, vec![]));
}

/// Found by the swarm on a simulated kernel: each part that failed at once called the whole to its turn, and it had ended at the first.
#[test]
fn a_reset_of_all_zones_whose_files_are_gone_fails_once() {
    let (scratch, mut bench) = written();
    (2..5).for_each(|number| fs::remove_file(scratch.path(&format!("disk/seq-00000{number}"))).unwrap());
    assert_eq!(bench.status(bio(Op::ZoneResetAll, 0, 0)), Status::Io);
    assert_eq!(bench.status(write(zone(5), 8, 1)), Status::Ok, "its neighbours live on");
}
