//! Two daemons that serve one `stl` volume in one directory, as on a network file system on which locks have no effect.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::FlockOperation;
use shingle_core::block::{Bio, BlockDevice, DeviceId, Op, Payload, Status};
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::{self, Part, Sizing, Stl};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, ZoneGeometry};
use shingle_host::disk::files::Files;
use shingle_host::disk::zoned_dir::{self, Options, Shape};
use shingle_host::shard::Shard;

use crate::common::{Bench, Scratch, ZONE, bio, create, write};

/// The machine's files, but all locks succeed.
struct NoLocks;

impl Files for NoLocks {
    fn flock(&self, _: BorrowedFd<'_>, _: FlockOperation) -> rustix::io::Result<()> {
        Ok(())
    }
}

fn open_disk(path: &Path) -> Bench {
    Bench::new(|shard| zoned_dir::open_on(Rc::new(NoLocks), path, &Options::default(), shard.ring()))
}

/// Makes a volume; returns its sectors.
fn format(path: &Path, conventional: u64) -> u64 {
    create(path, &Shape::new(ZoneGeometry::new(64 * ZONE, ZONE, ZONE, conventional).unwrap()));
    let mut bench = open_disk(path);
    let part = Part { id: [1; 16], zones: bench.report(), sectors: 64 * ZONE, max_active: None };
    let created = stl::create(SetId([7; 16]), &[part], Sizing::with_reserve(200)).unwrap();
    let (sector, bytes) = &created.roots[0];
    let root = bio(Op::Write, sector.0, (bytes.len() / 512) as u32);
    root.payload.segments().iter().for_each(|data| data.write(0, bytes));
    assert_eq!((bench.status(root), bench.flush()), (Status::Ok, Status::Ok));
    created.sectors
}

/// A daemon's stack on the directory: a plug and the volume.
fn daemon(path: &Path, sectors: u64) -> Bench {
    let mut bench = open_disk(path);
    let limits = bench.shard.stack.limits(bench.disk).clone();
    let plug = ZonePlug::new(bench.disk, &limits, PlugOptions::default()).unwrap();
    let plug = bench.shard.stack.add(Box::new(plug)).unwrap();
    let limits = [bench.shard.stack.limits(plug).clone()];
    let volume: Box<dyn BlockDevice> = Box::new(Stl::new(vec![plug], &limits, sectors, stl::Options::default()));
    bench.disk = bench.shard.stack.add(volume).unwrap();
    bench
}

fn reason(bench: &mut Bench, op: Op) -> String {
    let (status, bio) = bench.run(bio(op, 0, if op == Op::Flush { 0 } else { 8 }));
    bio.why().map(ToString::to_string).unwrap_or_else(|| status.to_string())
}

fn status(shard: &Shard, volume: DeviceId) -> String {
    let mut text = String::new();
    shard.stack.status(volume, &mut text).unwrap();
    text
}

const FOUND: &str = "another daemon has opened this volume (its root ";

#[test]
fn a_checkpoint_finds_a_second_daemon_in_the_directory() {
    for conventional in [0, 1, 2] {
        let scratch = Scratch::new();
        let sectors = format(&scratch.path("disk"), conventional);
        let mut first = daemon(&scratch.path("disk"), sectors);
        assert_eq!((first.status(write(0, 8, 1)), first.flush()), (Status::Ok, Status::Ok));
        let mut second = daemon(&scratch.path("disk"), sectors);
        assert_eq!((second.status(write(8, 8, 2)), second.flush()), (Status::Ok, Status::Ok));
        first.shard.stack.message(first.disk, &["checkpoint"]).unwrap();
        let volume = first.disk;
        first.shard.run_until(|shard| status(shard, volume).contains("read-only")).unwrap();
        let why = reason(&mut first, Op::Write);
        assert!(why.contains(FOUND), "{conventional} conventional zones: {why}");
        assert_eq!((second.status(write(16, 8, 3)), second.flush()), (Status::Ok, Status::Ok));
        (0..8).for_each(|_| assert_eq!(second.shard.stack.message(second.disk, &["checkpoint"]).unwrap(), ""));
        drop((first, second));
        let mut third = daemon(&scratch.path("disk"), sectors);
        let bytes = third.read(0, 24);
        assert_eq!([bytes[0], bytes[4096], bytes[8192]], [1, 2, 3], "{conventional} conventional zones");
    }
}

#[test]
fn a_failed_flush_names_the_second_daemon() {
    let scratch = Scratch::new();
    let sectors = format(&scratch.path("disk"), 0);
    let mut first = daemon(&scratch.path("disk"), sectors);
    assert_eq!((first.status(write(0, 8, 1)), first.flush()), (Status::Ok, Status::Ok));
    let mut second = daemon(&scratch.path("disk"), sectors);
    assert_eq!((second.status(write(8, 8, 2)), second.flush()), (Status::Ok, Status::Ok));
    let _ = first.status(write(16, 8, 3));
    let why = reason(&mut first, Op::Flush);
    assert!(why.contains(FOUND), "{why}");
}

#[test]
fn a_report_of_one_zone_finds_what_another_machine_appended() {
    let scratch = Scratch::new();
    create(&scratch.path("disk"), &Shape::new(ZoneGeometry::new(8 * ZONE, ZONE, ZONE, 1).unwrap()));
    let (mut first, mut second) = (open_disk(&scratch.path("disk")), open_disk(&scratch.path("disk")));
    let one = |bench: &mut Bench, zone: u64| {
        let report = Bio::new(Op::ReportZones, Sector(zone * ZONE), 0, Payload::Zones(Vec::with_capacity(1)));
        let (status, bio) = bench.run(report);
        let Payload::Zones(zones) = &bio.payload else { panic!("a report without zones") };
        assert_eq!((status, zones.len()), (Status::Ok, 1));
        (zones[0].cond, zones[0].wp - zones[0].start)
    };
    assert_eq!(first.status(write(2 * ZONE, 8, 1)), Status::Ok);
    assert_eq!(one(&mut first, 2), (Condition::ImplicitOpen, 8), "its own writes are no surprise");
    assert_eq!(second.status(write(3 * ZONE, 16, 2)), Status::Ok);
    assert_eq!(first.zone(3), (Condition::Empty, 0), "a report of all zones looks at no file");
    assert_eq!(one(&mut first, 3), (Condition::ReadOnly, 0), "a read-only zone has no pointer");
    assert_eq!(first.read(3 * ZONE, 16), vec![2; 16 * 512]);
    assert_eq!(first.flush(), Status::Io, "the disk is not this daemon's alone");
    let notices = first.notices();
    assert!(notices.len() == 1 && notices[0].contains("it has 8192 bytes instead of 0"), "{notices:?}");
    assert_eq!(one(&mut first, 0).0, Condition::NotWp);
}
