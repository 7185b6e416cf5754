//! What is no disk is refused with an error that names the file and the next step, and nothing is changed.

use std::fs::{self, File};
use std::path::Path;

use shingle_core::block::{Op, Status};
use shingle_core::zone::{Condition, ZoneError, ZoneGeometry, ZoneNo};
use shingle_host::disk::zoned_dir::{self, ErrorKind, FILE_NAME, Inspection, Offline, Options, Shape, ZonedDirError};
use shingle_sys::RingHandle;

use crate::common::{Bench, Scratch, ZONE, bio, child_argument, create, run_in_child, small_shape, snapshot, write};

fn inspect(path: &Path) -> Result<Inspection, ZonedDirError> {
    zoned_dir::inspect(path, None)
}

fn open(path: &Path) -> Result<(), ZonedDirError> {
    zoned_dir::open(path, &Options::default(), RingHandle::new().unwrap()).map(drop)
}

fn set_len(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

type Break = fn(&Path);

/// How to break a disk, the file that the error names, and words of the error.
const BROKEN: [(Break, &str, &[&str]); 19] = [
    (|disk| fs::write(disk.join("notes.txt"), "x").unwrap(), "notes.txt", &["no part of the disk", "move it"]),
    (|disk| fs::write(disk.join("seq-9"), "").unwrap(), "seq-9", &["no part of the disk"]),
    (
        |disk| fs::write(disk.join("shingle-disk.toml.new"), "").unwrap(),
        "shingle-disk.toml.new",
        &["move it elsewhere"],
    ),
    (|disk| fs::create_dir(disk.join("folder")).unwrap(), "folder", &["no part of the disk"]),
    (|disk| fs::write(disk.join("seq-000008"), "").unwrap(), "seq-000008", &["no zone with this number"]),
    (|disk| fs::write(disk.join("seq-000001"), "").unwrap(), "seq-000001", &["called cnv-000001"]),
    (|disk| fs::rename(disk.join("seq-000003"), disk.join("cnv-000003")).unwrap(), "cnv-000003", &["seq-000003"]),
    (|disk| fs::remove_file(disk.join("seq-000004")).unwrap(), "seq-000004", &["missing", "the only one"]),
    (
        |disk| {
            [0, 5, 7].iter().for_each(|n| {
                drop(fs::remove_file(disk.join(format!("{}-{n:06}", if *n == 0 { "cnv" } else { "seq" }))))
            })
        },
        "cnv-000000",
        &["missing", "2 others"],
    ),
    (|disk| set_len(&disk.join("cnv-000001"), 4096), "cnv-000001", &["1048576", "4096", "truncate -s 1048576"]),
    (
        |disk| set_len(&disk.join("seq-000002"), 768 * 1024 + 1),
        "seq-000002",
        &["786432", "786433", "check the geometry"],
    ),
    (
        |disk| {
            fs::remove_file(disk.join("seq-000002")).unwrap();
            std::os::unix::fs::symlink("/dev/null", disk.join("seq-000002")).unwrap();
        },
        "seq-000002",
        &["regular file"],
    ),
    (
        |disk| {
            fs::remove_file(disk.join("seq-000003")).unwrap();
            std::os::unix::fs::symlink("seq-000002", disk.join("seq-000003")).unwrap();
        },
        "seq-000003",
        &["no link", "put the zone's file back"],
    ),
    (
        |disk| fs::hard_link(disk.join("seq-000002"), disk.with_extension("other")).unwrap(),
        "seq-000002",
        &["2 names", "another disk", "find -samefile", "copy"],
    ),
    (
        |disk| fs::hard_link(disk.join("cnv-000001"), disk.with_extension("other")).unwrap(),
        "cnv-000001",
        &["2 names", "hard links"],
    ),
    (|disk| fs::remove_file(disk.join(FILE_NAME)).unwrap(), "", &["there is no shingle-disk.toml", "interrupted"]),
    (|disk| set_len(&disk.join(FILE_NAME), 40), FILE_NAME, &["check", "backup"]),
    (|disk| fs::write(disk.join(FILE_NAME), vec![b'#'; 100_000]).unwrap(), FILE_NAME, &["4096 bytes"]),
    (
        |disk| {
            fs::remove_file(disk.join(FILE_NAME)).unwrap();
            fs::create_dir(disk.join(FILE_NAME)).unwrap();
        },
        FILE_NAME,
        &["regular file"],
    ),
];

#[test]
fn what_is_no_disk_is_refused_by_name_and_stays_as_it_is() {
    for (index, (break_it, names, words)) in BROKEN.into_iter().enumerate() {
        let scratch = Scratch::new();
        let disk = scratch.path("disk");
        create(&disk, &small_shape());
        // A torn zone would be mended, but not before everything else is in order.
        fs::write(disk.join("seq-000006"), [7; 5000]).unwrap();
        break_it(&disk);
        let before = snapshot(&disk);
        let named = if names.is_empty() { disk.clone() } else { disk.join(names) };
        for error in [inspect(&disk).unwrap_err(), open(&disk).unwrap_err(), Offline::open(&disk, None).err().unwrap()]
        {
            let message = error.to_string();
            assert_eq!(error.path, named, "case {index}: {message}");
            assert!(message.starts_with(&format!("{}: ", named.display())), "case {index}: {message}");
            words.iter().for_each(|word| assert!(message.contains(word), "case {index}: {message:?} lacks {word:?}"));
        }
        assert!(snapshot(&disk) == before, "case {index}: something changed");
    }
}

/// Either of the two could be named first: a directory has no order.
#[test]
fn two_zones_that_share_a_file_are_refused() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    create(&disk, &small_shape());
    fs::remove_file(disk.join("seq-000003")).unwrap();
    fs::hard_link(disk.join("seq-000002"), disk.join("seq-000003")).unwrap();
    for error in [inspect(&disk).unwrap_err(), open(&disk).unwrap_err(), Offline::open(&disk, None).err().unwrap()] {
        assert!(matches!(error.kind, ErrorKind::HardLinked { names: 2 }), "{error}");
        assert!(["seq-000002", "seq-000003"].iter().any(|name| error.path.ends_with(name)), "{error}");
    }
}

#[test]
fn what_is_not_there_or_no_directory_is_told_apart() {
    let scratch = Scratch::new();
    let error = inspect(&scratch.path("nothing")).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Absent) && error.to_string().contains("shingle create"), "{error}");
    fs::write(scratch.path("file"), "").unwrap();
    let error = inspect(&scratch.path("file")).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::NotADirectory), "{error}");
}

#[test]
fn a_disk_is_open_once_and_may_be_looked_at_by_many() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    create(&disk, &small_shape());
    let bench = Bench::zoned(&disk, Options::default());
    for error in [open(&disk).unwrap_err(), inspect(&disk).unwrap_err(), Offline::open(&disk, None).err().unwrap()] {
        assert!(
            matches!(error.kind, ErrorKind::InUse(Some(_))) && error.to_string().contains("another process"),
            "{error}"
        );
    }
    drop(bench);
    open(&disk).unwrap();
    assert!(inspect(&disk).is_ok());
}

#[test]
fn a_partial_block_is_cut_off_with_a_notice_by_an_open_but_not_by_a_look() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    create(&disk, &small_shape());
    fs::write(disk.join("seq-000003"), [3; 4096 + 100]).unwrap();
    let seen = inspect(&disk).unwrap();
    assert!(seen.notices[0].contains("seq-000003: dropped 100 bytes"), "{:?}", seen.notices);
    assert_eq!((seen.zones[3].cond, seen.zones[3].wp - seen.zones[3].start), (Condition::Closed, 8));
    assert_eq!(fs::metadata(disk.join("seq-000003")).unwrap().len(), 4196);
    let mut bench = Bench::zoned(&disk, Options::default());
    assert!(bench.notices()[0].contains("seq-000003: dropped 100 bytes"));
    assert_eq!(fs::metadata(disk.join("seq-000003")).unwrap().len(), 4096);
    assert_eq!(bench.status(write(3 * ZONE + 8, 8, 4)), Status::Ok);
    drop(bench);
    assert!(inspect(&disk).unwrap().notices.is_empty());
}

#[test]
fn what_file_systems_put_into_a_directory_is_ignored() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    for name in ["lost+found", ".snapshot"] {
        fs::create_dir_all(disk.join(name)).unwrap();
    }
    create(&disk, &small_shape());
    assert_eq!(open(&disk).map_err(|error| error.to_string()), Ok(()));
}

#[test]
fn a_read_only_disk_refuses_every_change_mends_nothing_and_may_be_open_twice() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    create(&disk, &small_shape());
    fs::write(disk.join("seq-000003"), [3; 4096 + 100]).unwrap();
    let before = snapshot(&disk);
    let options = Options { read_only: true, ..Options::default() };
    let (mut one, mut two) = (Bench::zoned(&disk, options), Bench::zoned(&disk, options));
    assert!(matches!(open(&disk).unwrap_err().kind, ErrorKind::InUse(_)), "a writer has to wait");
    for op in [Op::ZoneReset, Op::ZoneFinish, Op::ZoneOpen] {
        assert_eq!(one.status(bio(op, 3 * ZONE, 0)), Status::ReadOnly);
    }
    assert_eq!(
        (one.status(write(0, 8, 1)), two.status(write(3 * ZONE + 8, 8, 4))),
        (Status::ReadOnly, Status::ReadOnly)
    );
    assert_eq!((one.read(3 * ZONE, 8), two.zone(3)), (vec![3; 4096], (Condition::Closed, 8)));
    assert_eq!((one.status(bio(Op::Flush, 0, 0)), snapshot(&disk)), (Status::Ok, before));
}

#[test]
fn a_directory_of_zloop_opens_when_its_geometry_is_given_and_no_other() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    for n in 0..8 {
        let file = File::create(disk.join(format!("{}-{n:06}", if n < 2 { "cnv" } else { "seq" }))).unwrap();
        file.set_len(if n < 2 { ZONE * 512 } else { (n - 2) * 4096 }).unwrap();
    }
    let before = snapshot(&disk);
    assert!(matches!(inspect(&disk).unwrap_err().kind, ErrorKind::NoGeometry));
    let wrong = Shape::new(ZoneGeometry::new(8 * ZONE, ZONE, ZONE, 3).unwrap());
    assert!(zoned_dir::inspect(&disk, Some(&wrong)).is_err());
    let seen = zoned_dir::inspect(&disk, Some(&small_shape())).unwrap();
    assert_eq!((seen.zones[2].cond, seen.zones[7].wp - seen.zones[7].start), (Condition::Empty, 40));
    let mut bench = Bench::zoned(&disk, Options { geometry: Some(small_shape()), ..Options::default() });
    assert_eq!(bench.status(bio(Op::ZoneFinish, 7 * ZONE, 0)), Status::Ok);
    assert_eq!(bench.flush(), Status::Ok);
    drop(bench);
    let after = snapshot(&disk);
    assert_eq!(after.len(), before.len(), "no file of ours was left among those of zloop");
    assert_eq!(after[7].1.len(), 768 * 1024);
}

#[test]
fn a_geometry_that_differs_from_the_file_is_named_with_both_values() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    create(&disk, &small_shape());
    assert!(zoned_dir::inspect(&disk, Some(&small_shape())).is_ok());
    let other = Shape { block_bytes: 512, ..small_shape() };
    let message = zoned_dir::inspect(&disk, Some(&other)).unwrap_err().to_string();
    assert!(message.contains("block size in bytes is 4096") && message.contains("512 was given"), "{message}");
}

#[test]
fn a_new_disk_needs_an_empty_directory_and_says_what_is_there() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    ["a", "b", "c", "d", "e"].iter().for_each(|name| fs::write(disk.join(name), "").unwrap());
    let before = snapshot(&disk);
    let error = zoned_dir::create(&disk, &small_shape(), &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("holds a, b, c, 2 more"), "{error}");
    assert!(snapshot(&disk) == before);
    let error = zoned_dir::create(&scratch.path("no/such/parent"), &small_shape(), &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("no/such/parent: creating the directory failed"), "{error}");
    let odd = Shape { block_bytes: 1000, ..small_shape() };
    let error = zoned_dir::create(&scratch.path("odd"), &odd, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("1000"), "{error}");
    assert!(!scratch.path("odd").exists());
}

/// The file size limit makes the third file fail, whoever runs the test.
#[test]
fn a_creation_that_fails_leaves_nothing_behind() {
    let Some(path) = child_argument() else {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("there")).unwrap();
        return run_in_child("zoned_dir_loader::a_creation_that_fails_leaves_nothing_behind", &scratch.path(""));
    };
    shingle_sys::unix::ignore_file_size_signal();
    let limit = rustix::process::Rlimit { current: Some(ZONE * 512 - 1), maximum: None };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    for name in ["there", "new"] {
        let error = zoned_dir::create(&path.join(name), &small_shape(), &mut |_| ()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("cnv-000000: setting the file's size failed") && message.contains("ulimit -f"),
            "{message}"
        );
    }
    assert_eq!(fs::read_dir(path.join("there")).unwrap().count(), 0);
    assert!(!path.join("new").exists());
}

#[test]
fn many_zones_are_made_and_loaded() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    let shape = Shape::new(ZoneGeometry::new(20_000 * 8, 8, 8, 10).unwrap());
    let mut seen = Vec::new();
    zoned_dir::create(&disk, &shape, &mut |zones| seen.push(zones)).unwrap();
    assert!(seen.is_sorted() && seen.last() == Some(&20_000));
    let loaded = inspect(&disk).unwrap();
    assert_eq!((loaded.zones.len(), loaded.shape), (20_000, shape));
}

#[test]
fn zones_are_changed_without_a_daemon_by_the_same_rules() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    create(&disk, &small_shape());
    let mut offline = Offline::open(&disk, None).unwrap();
    offline.finish_zone(ZoneNo(3)).unwrap();
    offline.finish_zone(ZoneNo(4)).unwrap();
    offline.reset_zone(ZoneNo(4)).unwrap();
    for (result, name, error) in [
        (offline.reset_zone(ZoneNo(0)), "cnv-000000", ZoneError::Conventional),
        (offline.close_zone(ZoneNo(3)), "seq-000003", ZoneError::InvalidTransition),
        (offline.finish_zone(ZoneNo(8)), "seq-000008", ZoneError::NoSuchZone),
    ] {
        let found = result.unwrap_err();
        assert!(
            found.path.ends_with(name) && matches!(found.kind, ErrorKind::Zone(fault) if fault.error == error),
            "{found}"
        );
    }
    drop(offline);
    let seen = inspect(&disk).unwrap();
    assert_eq!((seen.zones[3].cond, seen.zones[4].cond), (Condition::Full, Condition::Empty));
}
