//! Arbitrary directories for the loader of zoned disks: it never panics, changes nothing unless all is in order, and what it
//! accepts is a disk whose zones are exactly what its files say.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::Corpus;
use shingle_core::zone::{Condition, ResourceLimits, Zone, ZoneGeometry, ZoneKind};
use shingle_host::disk::zoned_dir::{FILE_NAME, Inspection, Offline, Shape, create, inspect};

use crate::of_value;

/// A directory: perhaps a disk to begin with, then whatever was done to it.
#[derive(Arbitrary, Debug)]
struct Input {
    disk: Option<Numbers>,
    given: Option<Numbers>,
    changes: Vec<Change>,
}

/// A shape, mostly a possible one.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Numbers {
    zone_shift: u8,
    zones: u8,
    runt: u8,
    capacity_cut: u8,
    conventional: u8,
    block_shift: u8,
    max_open: Option<u8>,
    max_active: Option<u8>,
    append: bool,
}

#[derive(Arbitrary, Debug)]
enum Change {
    /// A zone's file gets a size.
    Resize(Name, u32),
    Remove(Name),
    Directory(Name),
    Link(Name),
    Rename(Name, Name),
    /// The geometry file becomes these bytes.
    Geometry(Vec<u8>),
    /// A value in the geometry file changes, and its checksum with it.
    Edit(u8, u64),
    /// A line is added to the geometry file, and its checksum is right.
    Line(String),
}

#[derive(Arbitrary, Debug)]
enum Name {
    Conventional(u8),
    Sequential(u8),
    /// A number without padding.
    Short(u32),
    Geometry,
    Other(String),
}

impl Numbers {
    fn shape(self) -> Option<Shape> {
        let zone = 1u64 << (self.zone_shift % 12);
        let capacity = u64::from(self.zones % 32) * zone + u64::from(self.runt) % zone;
        let zones = ZoneGeometry::new(
            capacity,
            zone,
            zone.checked_sub(self.capacity_cut.into())?,
            (self.conventional % 8).into(),
        );
        let limits = ResourceLimits::new(self.max_open.map(u32::from), self.max_active.map(u32::from)).ok()?;
        let shape =
            Shape { zones: zones.ok()?, block_bytes: 512 << (self.block_shift % 5), limits, append: self.append };
        shape.check().ok().map(|()| shape)
    }
}

impl Name {
    /// A name that stays in the directory.
    fn text(&self) -> Option<String> {
        let name = match self {
            Name::Conventional(n) => format!("cnv-{n:06}"),
            Name::Sequential(n) => format!("seq-{n:06}"),
            Name::Short(n) => format!("seq-{n}"),
            Name::Geometry => FILE_NAME.into(),
            Name::Other(name) => name.chars().take(40).collect(),
        };
        let inside = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
        inside.then_some(name)
    }
}

/// CRC-32 as in zip.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The start of a file, which may be sparse and huge.
fn start_of(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = File::open(path).and_then(|file| file.take(8192).read_to_end(&mut bytes));
    bytes
}

/// Lets `edit` change the text before the checksum, and makes the checksum right again.
fn rewrite(disk: &Path, edit: impl FnOnce(String) -> String) {
    let path = disk.join(FILE_NAME);
    let Ok(text) = String::from_utf8(start_of(&path)) else { return };
    let body = text.split("check = ").next().unwrap_or_default().to_string();
    let body = edit(body);
    let _ = fs::write(path, format!("{body}check = \"{:08x}\"\n", crc32(body.as_bytes())));
}

/// What fails here, fails: the result is a directory in any case.
fn apply(disk: &Path, change: &Change) -> Option<()> {
    match change {
        Change::Resize(name, size) => {
            let file = File::options().create(true).truncate(false).write(true).open(disk.join(name.text()?)).ok()?;
            file.set_len(u64::from(*size)).ok()?;
        }
        Change::Remove(name) => {
            let path = disk.join(name.text()?);
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).ok()?;
        }
        Change::Directory(name) => fs::create_dir(disk.join(name.text()?)).ok()?,
        Change::Link(name) => symlink("/dev/null", disk.join(name.text()?)).ok()?,
        Change::Rename(from, to) => fs::rename(disk.join(from.text()?), disk.join(to.text()?)).ok()?,
        Change::Geometry(bytes) => fs::write(disk.join(FILE_NAME), bytes).ok()?,
        Change::Edit(line, value) => rewrite(disk, |body| {
            let mut lines: Vec<String> = body.lines().map(String::from).collect();
            let index = usize::from(*line) % lines.len().max(1);
            if let Some(line) = lines.get_mut(index)
                && let Some((key, _)) = line.split_once(" = ")
            {
                *line = format!("{key} = {value}");
            }
            lines.join("\n") + "\n"
        }),
        Change::Line(line) => rewrite(disk, |body| body + line + "\n"),
    }
    Some(())
}

/// Names, kinds, sizes, and the bytes of the geometry file.
fn snapshot(disk: &Path) -> Vec<(String, String, u64, Vec<u8>)> {
    let mut seen: Vec<_> = fs::read_dir(disk)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let (name, stat) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap());
            let geometry = if name == FILE_NAME && stat.is_file() { start_of(&entry.path()) } else { Vec::new() };
            let size = if stat.is_file() { stat.len() } else { 0 };
            (name, format!("{:?}", stat.file_type()), size, geometry)
        })
        .collect();
    seen.sort();
    seen
}

/// Checks that an accepted disk is what its files say.
fn check(disk: &Path, seen: &Inspection) {
    let zones = &seen.shape.zones;
    assert_eq!(seen.zones.len(), zones.zones() as usize);
    let mut end = 0;
    for (number, zone) in seen.zones.iter().enumerate() {
        let Zone { start, len, capacity, wp, kind, cond } = *zone;
        assert!(start.0 == end && len > 0 && capacity <= len && wp.0 >= start.0 && wp.0 <= start.0 + len, "{zone:?}");
        end = start.0 + len;
        let prefix = if kind == ZoneKind::Conventional { "cnv" } else { "seq" };
        let size = fs::symlink_metadata(disk.join(format!("{prefix}-{number:06}"))).unwrap().len();
        let whole = (size - size % u64::from(seen.shape.block_bytes)) / 512;
        let expected = match kind {
            ZoneKind::Conventional => Condition::NotWp,
            _ if whole == 0 => Condition::Empty,
            _ if whole == capacity => Condition::Full,
            _ => Condition::Closed,
        };
        assert_eq!(cond, expected, "{zone:?} has {size} bytes");
        assert!(cond != Condition::Closed || wp.0 == start.0 + whole, "{zone:?} has {size} bytes");
    }
    assert_eq!(end, zones.capacity());
    // Our own file, at least one zone, and nothing else.
    let files = fs::read_dir(disk).unwrap().count() - usize::from(disk.join(FILE_NAME).exists());
    assert_eq!(files, seen.zones.len());
}

fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() { shm.into() } else { std::env::temp_dir() };
        base.join(format!("shingle-fuzz-{}", std::process::id()))
    })
}

/// Runs one input.
pub fn run(bytes: &[u8]) -> Corpus {
    of_value(bytes, fuzz)
}

fn fuzz(input: Input) {
    let disk = place();
    let _ = fs::remove_dir_all(disk);
    match input.disk.and_then(Numbers::shape) {
        Some(shape) => create(disk, &shape, &mut |_| ()).unwrap(),
        None => fs::create_dir(disk).unwrap(),
    }
    for change in input.changes.iter().take(64) {
        let _ = apply(disk, change);
    }
    let given = input.given.and_then(Numbers::shape);
    let before = snapshot(disk);
    let first = inspect(disk, given.as_ref());
    assert_eq!(snapshot(disk), before, "looking changed something");
    match (first, Offline::open(disk, given.as_ref())) {
        (Ok(seen), Ok(offline)) => {
            check(disk, &seen);
            assert_eq!(offline.notices(), seen.notices);
            drop(offline);
            let again = inspect(disk, given.as_ref()).expect("what was opened can be looked at");
            assert_eq!((again.zones, again.notices), (seen.zones, Vec::new()), "mending changed a zone");
        }
        (Err(_), Err(error)) => {
            assert!(error.to_string().starts_with(&disk.display().to_string()), "{error}");
            assert_eq!(snapshot(disk), before, "a refused disk was changed");
        }
        (first, second) => panic!("looking says {:?}, opening says {:?}", first.map(drop), second.map(drop)),
    }
    let _ = fs::remove_dir_all(disk);
}
