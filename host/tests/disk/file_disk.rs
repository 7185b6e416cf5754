//! A file as a disk: data, zeroes, durability flags, locks and everything that is no disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use shingle_core::block::{Bio, Data, Flags, Op, Payload, Status};
use shingle_core::sector::Sector;
use shingle_host::disk::file::{self, FileDiskError, FileErrorKind, Options};
use shingle_sys::RingHandle;

use crate::common::{Bench, Random, Scratch, bio, child_argument, fua, run_in_child, write};

const SECTORS: u64 = 8192;

fn buffered() -> Options {
    Options { direct: false, ..Options::default() }
}

fn new_file(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("disk.img");
    File::create(&path).unwrap().set_len(SECTORS * 512).unwrap();
    path
}

fn bench(path: &Path, options: Options) -> Bench {
    Bench::new(|shard| file::open(path, &options, shard.ring()))
}

fn open(path: &Path, options: Options) -> Result<(), FileDiskError> {
    file::open(path, &options, RingHandle::new().unwrap()).map(drop)
}

#[test]
fn the_disk_is_the_file_byte_for_byte() {
    for options in [buffered(), Options::default(), Options { block_bytes: Some(4096), ..Options::default() }] {
        let scratch = Scratch::new();
        let path = new_file(&scratch);
        let mut bench = bench(&path, options);
        let block = u64::from(bench.shard.stack.limits(bench.disk).block_sectors());
        let (mut random, mut model) = (Random(5), vec![0u8; SECTORS as usize * 512]);
        for _ in 0..60 {
            let sectors = (1 + random.below(64 / block)) * block;
            let at = random.below((SECTORS - sectors) / block) * block;
            let fill = random.below(255) as u8 + 1;
            let flags = [Flags::NONE, Flags::FUA, Flags::PREFLUSH, Flags::NO_UNMAP][random.below(4) as usize];
            let bio = match random.below(4) {
                0 => bio(Op::WriteZeroes, at, sectors as u32),
                1 => bio(Op::Discard, at, sectors as u32),
                _ => write(at, sectors as u32, fill),
            };
            let fill = if bio.op == Op::Write { fill } else { 0 };
            assert_eq!(bench.status(bio.with_flags(flags)), Status::Ok);
            model[at as usize * 512..(at + sectors) as usize * 512].fill(fill);
            assert!(bench.read(at, sectors as u32).iter().all(|b| *b == fill));
        }
        assert_eq!(bench.flush(), Status::Ok);
        drop(bench);
        assert!(fs::read(&path).unwrap() == model);
    }
}

#[test]
fn many_requests_at_once_and_many_segments_arrive() {
    let scratch = Scratch::new();
    let mut bench = bench(&new_file(&scratch), Options::default());
    let outcomes = bench.run_all((0..512).map(|n| write(n * 16, 16, n as u8)).collect());
    assert!(outcomes.iter().all(|(status, _)| *status == Status::Ok));
    let segments = (0..64).map(|_| Data::zeroed(8192)).collect();
    let (status, read) = bench.run(Bio::new(Op::Read, Sector(1024), 1024, Payload::Segments(segments)));
    assert_eq!(status, Status::Ok);
    for (n, data) in read.payload.segments().iter().enumerate() {
        assert!(data.to_vec().iter().all(|b| *b == n as u8 + 64), "segment {n}");
    }
}

#[test]
fn memory_of_any_alignment_is_as_good() {
    let scratch = Scratch::new();
    let mut bench = bench(&new_file(&scratch), Options::default());
    let data = Data::zeroed(8192).slice(24, 4096);
    data.fill(9);
    assert_eq!(bench.status(Bio::new(Op::Write, Sector(8), 8, Payload::Data(data))), Status::Ok);
    assert_eq!(bench.read(8, 8), vec![9; 4096]);
}

#[test]
fn a_read_of_what_somebody_cut_off_the_file_is_an_error_and_not_zeroes() {
    let scratch = Scratch::new();
    let path = new_file(&scratch);
    let mut bench = bench(&path, buffered());
    assert_eq!(bench.status(write(0, 16, 3)), Status::Ok);
    File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    for _ in 0..2 {
        assert_eq!(bench.status(bio(Op::Read, 0, 16)), Status::Io);
        assert_eq!(bench.read(0, 8), vec![3; 4096], "what is there still can be read");
    }
}

#[test]
fn a_read_only_disk_refuses_writes_and_two_may_read_it() {
    let scratch = Scratch::new();
    let path = new_file(&scratch);
    let options = Options { read_only: true, ..Options::default() };
    let (mut one, mut two) = (bench(&path, options), bench(&path, options));
    assert_eq!((one.status(write(0, 8, 1)), two.status(bio(Op::Discard, 0, 8))), (Status::ReadOnly, Status::ReadOnly));
    assert_eq!(one.read(0, 8), two.read(0, 8));
    assert!(matches!(open(&path, Options::default()).unwrap_err().kind, FileErrorKind::InUse(Some(_))));
}

#[test]
fn what_is_no_disk_is_refused_by_name_with_the_next_step() {
    let scratch = Scratch::new();
    fs::write(scratch.path("empty"), "").unwrap();
    fs::write(scratch.path("odd"), vec![0; 1000]).unwrap();
    let path = new_file(&scratch);
    let _user = bench(&path, Options::default());
    let strange = Options { block_bytes: Some(768), ..Options::default() };
    let large = Options { block_bytes: Some(8192), ..buffered() };
    File::create(scratch.path("4k")).unwrap().set_len(4096).unwrap();
    let cases = [
        ("absent", Options::default(), "truncate"),
        ("", Options::default(), "zoned-dir"),
        ("empty", Options::default(), "it is empty"),
        ("odd", Options::default(), "1000 bytes"),
        ("disk.img", Options::default(), "in use"),
        ("4k", strange, "768"),
        ("4k", large, "8192"),
    ];
    for (name, options, word) in cases {
        let error = open(&scratch.path(name), options).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with(scratch.path(name).to_str().unwrap()) && message.contains(word), "{message}");
    }
    let message = open(Path::new("/dev/null"), Options::default()).unwrap_err().to_string();
    assert!(message.contains("neither a regular file nor a block device"), "{message}");
}

#[test]
fn a_full_file_system_is_no_space_for_that_write_only() {
    let Some(path) = child_argument() else {
        let scratch = Scratch::new();
        return run_in_child("file_disk::a_full_file_system_is_no_space_for_that_write_only", &new_file(&scratch));
    };
    shingle_sys::unix::ignore_file_size_signal();
    let mut bench = bench(&path, buffered());
    let limit = rustix::process::Rlimit { current: Some(65536), maximum: None };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    assert_eq!(bench.status(write(120, 16, 1)), Status::NoSpace);
    assert_eq!(bench.status(fua(write(128, 8, 1))), Status::NoSpace);
    assert_eq!(bench.status(write(112, 16, 2)), Status::Ok);
    assert_eq!(bench.flush(), Status::Ok);
}
