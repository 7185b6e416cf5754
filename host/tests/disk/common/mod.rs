//! What the tests of disks share: a scratch directory, a stack with one disk, and a child process of the same test.

pub mod power;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Flags, Op, Payload, Status};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneGeometry};
use shingle_host::disk::zoned_dir::{self, Options, Shape, ZonedDir};
use shingle_host::shard::Shard;

/// A directory that is gone when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shingle-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A shard with one disk.
pub struct Bench {
    pub shard: Shard,
    pub disk: DeviceId,
}

pub type Outcome = (Status, Box<Bio>);

impl Bench {
    pub fn new<D: BlockDevice, E: std::fmt::Display>(open: impl FnOnce(&Shard) -> Result<D, E>) -> Self {
        let mut shard = Shard::new().unwrap();
        let disk = open(&shard).unwrap_or_else(|error| panic!("{error}"));
        let disk = shard.stack.add(Box::new(disk)).unwrap();
        Self { shard, disk }
    }

    pub fn zoned(path: &Path, options: Options) -> Self {
        Self::new(|shard| zoned_dir::open(path, &options, shard.ring()))
    }

    /// Submits all bios at once and waits for all.
    pub fn run_all(&mut self, bios: Vec<Bio>) -> Vec<Outcome> {
        let done = Rc::new(RefCell::new(Vec::new()));
        done.borrow_mut().resize_with(bios.len(), || None);
        for (index, bio) in bios.into_iter().enumerate() {
            let done = done.clone();
            self.shard.submit(self.disk, bio, move |_, bio, status| done.borrow_mut()[index] = Some((status, bio)));
        }
        self.shard.run_until(|_| done.borrow().iter().all(Option::is_some)).unwrap();
        done.take().into_iter().flatten().collect()
    }

    pub fn run(&mut self, bio: Bio) -> Outcome {
        self.run_all(vec![bio]).remove(0)
    }

    pub fn status(&mut self, bio: Bio) -> Status {
        self.run(bio).0
    }

    pub fn flush(&mut self) -> Status {
        self.status(bio(Op::Flush, 0, 0))
    }

    pub fn read(&mut self, sector: u64, sectors: u32) -> Vec<u8> {
        let (status, bio) = self.run(bio(Op::Read, sector, sectors));
        assert_eq!(status, Status::Ok, "read of {sectors} at {sector}");
        bio.payload.segments().iter().flat_map(Data::to_vec).collect()
    }

    pub fn report(&mut self) -> Vec<Zone> {
        let zones = Payload::Zones(Vec::with_capacity(self.shard.stack.limits(self.disk).zones() as usize));
        let (status, bio) = self.run(Bio::new(Op::ReportZones, Sector::ZERO, 0, zones));
        assert_eq!(status, Status::Ok);
        match &bio.payload {
            Payload::Zones(zones) => zones.clone(),
            other => panic!("a report carries {other:?}"),
        }
    }

    /// Condition and sectors written of one zone.
    pub fn zone(&mut self, zone: usize) -> (Condition, u64) {
        let zone = self.report()[zone];
        (zone.cond, zone.wp - zone.start)
    }

    pub fn notices(&mut self) -> Vec<String> {
        self.shard.stack.with_device(self.disk, |disk: &mut ZonedDir, _| disk.take_notices()).unwrap()
    }
}

/// A bio with zeroed memory, if it needs any.
pub fn bio(op: Op, sector: u64, sectors: u32) -> Bio {
    let payload = if op.has_data() { Payload::Data(Data::zeroed(sectors as usize * 512)) } else { Payload::None };
    Bio::new(op, Sector(sector), sectors, payload)
}

/// A write or an append of sectors that all are `fill`.
pub fn filled(op: Op, sector: u64, sectors: u32, fill: u8) -> Bio {
    let bio = bio(op, sector, sectors);
    bio.payload.segments().iter().for_each(|data| data.fill(fill));
    bio
}

pub fn write(sector: u64, sectors: u32, fill: u8) -> Bio {
    filled(Op::Write, sector, sectors, fill)
}

pub fn fua(bio: Bio) -> Bio {
    bio.with_flags(Flags::FUA)
}

/// Zones of 1 MiB with 768 KiB of capacity, 8 of them, the first 2 conventional, blocks of 4096 bytes.
pub fn small_shape() -> Shape {
    Shape::new(ZoneGeometry::new(8 * ZONE, ZONE, 1536, 2).unwrap())
}

/// Sectors of a zone of [`small_shape`].
pub const ZONE: u64 = 2048;

pub fn create(path: &Path, shape: &Shape) {
    zoned_dir::create(path, shape, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
}

/// Random numbers that are the same in every run (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Runs the test `name` (with its module) of this program in a process of its own, which finds `argument` in [`child_argument`].
pub fn spawn_child(name: &str, argument: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, argument)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

const CHILD: &str = "SHINGLE_TEST_CHILD";

/// What the parent gave, if this is a child.
pub fn child_argument() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Runs the test `name` in a child and passes its failure on.
pub fn run_in_child(name: &str, argument: &Path) {
    let output = spawn_child(name, argument).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the child failed:\n{text}");
    assert!(text.contains("1 passed"), "the child did not run the test:\n{text}");
}

/// Names, sizes and contents of a directory.
pub fn snapshot(path: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            let content =
                if entry.file_type().unwrap().is_file() { std::fs::read(entry.path()).unwrap() } else { vec![] };
            (entry.file_name().into_string().unwrap(), content)
        })
        .collect();
    files.sort();
    files
}
