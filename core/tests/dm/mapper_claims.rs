//! Disks that a volume needs for itself: nobody else may write to them, and everybody may read.

use std::fmt;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Silence, Stack};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::parse_table;
use shingle_core::mapper::{Mapper, MapperError, MapperErrorKind};
use shingle_core::time::Instant;

const VOLUME: &str = "0 16384 zoned smr";

/// A stack with zoned disks `smr` and `other` and mapped devices.
struct Bench {
    stack: Stack,
    mapper: Mapper,
    disks: [DeviceId; 2],
}

impl Bench {
    fn new() -> Self {
        let mut stack = Stack::new();
        let zoned = Some(NullZones { conventional: 4, ..NullZones::new(1024) });
        let config = NullConfig { block_bytes: 4096, zoned, ..NullConfig::new(1 << 15) };
        let disks = [(); 2].map(|()| stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap());
        Self { stack, mapper: Mapper::new(), disks }
    }

    fn try_load(&mut self, name: &str, table: &str, read_only: bool) -> Result<(), MapperError> {
        let [smr, other] = self.disks;
        let resolver = move |name: &str| match name {
            "smr" => Ok(smr),
            "other" => Ok(other),
            _ => Err(vec![]),
        };
        if self.mapper.info_if_any(name, &self.stack).is_none() {
            self.mapper.create(name, "").unwrap();
        }
        self.mapper.load(name, parse_table(table).unwrap(), read_only, (&mut self.stack, &resolver))
    }

    #[track_caller]
    fn load(&mut self, name: &str, table: &str) {
        self.try_load(name, table, false).unwrap();
    }

    /// Loading that fails at word `word` of the line `line`.
    #[track_caller]
    fn refused(&mut self, name: &str, table: &str, (line, word): (usize, usize)) -> String {
        let error = self.try_load(name, table, false).unwrap_err();
        let at = error.table.unwrap();
        assert_eq!((error.kind, at.line, at.word), (MapperErrorKind::Table, line, Some(word)), "{}", at.message);
        at.message
    }
}

#[test]
fn a_disk_of_a_volume_takes_no_table_that_may_write_to_it() {
    let mut b = Bench::new();
    b.load("vol", VOLUME);
    let said = b.refused("part", "0 1024 linear other 0\n1024 1024 linear smr 0", (2, 3));
    assert!(said.contains("`vol` alone may write to `smr`"), "{said}");
    b.refused("second", VOLUME, (1, 3));
    b.load("part", "0 1024 linear other 0");
    b.try_load("look", "0 1024 linear smr 0", true).unwrap();
}

#[test]
fn a_volume_takes_no_disk_that_another_table_may_write_to() {
    let mut b = Bench::new();
    b.load("part", "0 1024 linear smr 0");
    let said = b.refused("vol", VOLUME, (1, 3));
    assert!(said.contains("the table of `part`"), "{said}");
    b.load("part", "0 1024 linear other 0");
    b.load("vol", VOLUME);
}

#[test]
fn two_lines_of_one_table_cannot_both_have_a_disk() {
    let mut b = Bench::new();
    b.refused("vol", "0 16384 zoned smr\n16384 1024 linear smr 0", (2, 3));
    b.refused("vol", "0 1024 linear smr 0\n1024 16384 zoned smr", (1, 3));
    b.refused("vol", "0 16384 zoned smr\n16384 16384 zoned smr", (1, 3));
    b.load("vol", "0 16384 zoned smr\n16384 16384 zoned other");
}

#[test]
fn a_volume_may_be_loaded_again_beside_itself_and_frees_its_disk_when_it_goes() {
    let mut b = Bench::new();
    b.load("vol", VOLUME);
    b.load("vol", VOLUME);
    b.mapper.clear("vol", &mut b.stack).unwrap();
    b.load("part", "0 1024 linear smr 0");
}

#[test]
fn who_writes_from_outside_and_a_volume_exclude_each_other() {
    let mut b = Bench::new();
    let [smr, other] = b.disks;
    b.mapper.begin_writing(smr).unwrap();
    b.mapper.begin_writing(smr).unwrap();
    b.mapper.end_writing(smr);
    assert!(b.refused("vol", VOLUME, (1, 3)).contains("an export"));
    b.mapper.end_writing(smr);
    b.load("vol", VOLUME);
    let error = b.mapper.begin_writing(smr).unwrap_err();
    assert_eq!(error.kind, MapperErrorKind::Busy, "{error}");
    b.mapper.begin_writing(other).unwrap();
}

#[test]
fn a_device_that_was_given_to_one_takes_no_other_writer() {
    let mut b = Bench::new();
    let [smr, other] = b.disks;
    b.mapper.reserve(smr, "head", &b.stack).unwrap();
    assert!(b.mapper.begin_writing(smr).unwrap_err().message.contains("`head` alone may write to it"));
    assert!(b.refused("part", "0 1024 linear smr 0", (1, 3)).contains("`head` alone may write to `smr`"));
    assert!(b.refused("vol", VOLUME, (1, 3)).contains("written to by `head`"));
    b.try_load("look", "0 1024 linear smr 0", true).unwrap();
    assert!(b.mapper.reserve(smr, "second", &b.stack).unwrap_err().message.contains("used by the table of `look`"));

    b.mapper.begin_writing(other).unwrap();
    assert!(b.mapper.reserve(other, "head", &b.stack).unwrap_err().message.contains("used by clients of an export"));
    b.mapper.end_writing(other);
    b.mapper.reserve(other, "head", &b.stack).unwrap();
    assert!(b.mapper.reserve(other, "second", &b.stack).unwrap_err().message.contains("used by `head`"));
}

/// A way to a disk that gives commands up, some of which land later.
struct Late(Limits);

impl BlockDevice for Late {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn submit(&mut self, bio: Box<Bio>, _: &mut Cx<'_>) {
        unreachable!("{bio:?} was sent")
    }

    fn silence(&self) -> Option<Silence> {
        Some(Silence::Told)
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("late")
    }
}

/// Whoever stands above paths would take for settled what may still land.
#[test]
fn a_device_that_was_given_to_one_gets_no_table_below_which_commands_land_later_than_before() {
    let mut b = Bench::new();
    let late = b.stack.add(Box::new(Late(b.stack.limits(b.disks[0]).clone()))).unwrap();
    let disks = b.disks;
    let resolver = move |name: &str| Ok(if name == "late" { late } else { disks[0] });
    let mut load = |b: &mut Bench, name: &str, table: &str| {
        if b.mapper.info_if_any(name, &b.stack).is_none() {
            b.mapper.create(name, "").unwrap();
        }
        b.mapper.load(name, parse_table(table).unwrap(), false, (&mut b.stack, &resolver))
    };
    let resume = |b: &mut Bench, name: &str| {
        let ticket = b.mapper.resume(name, false, &mut b.stack).unwrap();
        b.stack.turn(Instant::ZERO);
        b.mapper.poll(Instant::ZERO, (&mut b.stack, &resolver));
        b.mapper.outcome(ticket).unwrap()
    };
    let made = |b: &mut Bench, load: &mut dyn FnMut(&mut Bench, &str, &str) -> Result<(), MapperError>, name| {
        load(b, name, "0 1024 linear smr 0").unwrap();
        resume(b, name).unwrap();
        b.mapper.device(name).unwrap()
    };
    let free = made(&mut b, &mut load, "free");
    let path = made(&mut b, &mut load, "path");
    b.mapper.reserve(path, "head", &b.stack).unwrap();
    let said = load(&mut b, "path", "0 1024 linear late 0").unwrap_err().message;
    assert!(said.contains("land later than those of what it leads to now, and `head` counts on that"), "{said}");
    load(&mut b, "path", "0 1024 linear smr 0").unwrap();
    resume(&mut b, "path").unwrap();

    // One that came after the table was loaded.
    load(&mut b, "free", "0 1024 linear late 0").unwrap();
    b.mapper.reserve(free, "second", &b.stack).unwrap();
    assert!(resume(&mut b, "free").unwrap_err().message.contains("`second` counts on that"));
    assert_eq!(b.stack.silence(free), Silence::AtOnce);
    b.mapper.release(free);
    load(&mut b, "free", "0 1024 linear late 0").unwrap();
    resume(&mut b, "free").unwrap();
    assert_eq!(b.stack.silence(free), Silence::Told);
}

#[test]
fn a_path_of_a_multipath_line_takes_no_other_table_that_may_write_to_it() {
    let mut b = Bench::new();
    let both = "0 32768 multipath 0 0 1 1 round-robin 0 2 1 smr 1 other 1";
    b.load("both", both);
    let said = b.refused("part", "0 1024 linear other 0", (1, 3));
    assert!(said.contains("`both` alone may write to `other`"), "{said}");
    b.refused("second", both, (1, 11));
    b.load("both", both);
    b.load("both", "0 32768 multipath 0 0 1 1 round-robin 0 1 1 smr 1");
}
