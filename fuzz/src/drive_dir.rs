//! Arbitrary directories for simulated drives: nothing panics, looking changes nothing, a description says what drive it is of or why none,
//! and a drive that opens is the one that its description names.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time;

use arbitrary::Arbitrary;
use libfuzzer_sys::Corpus;
use shingle_host::backend;
use shingle_host::disk::drive_dir::DriveDir;
use shingle_host::shard::Shard;
use shingle_sys::{Completion, Request, RequestQueue, RingHandle, Token};

use crate::of_value;

const DESCRIPTION: &str = "shingle-drive.toml";

/// A directory that was made for a drive, and then whatever was done to it.
#[derive(Arbitrary, Debug)]
struct Input {
    profile: u8,
    zones: u8,
    changes: Vec<Change>,
}

#[derive(Arbitrary, Debug)]
enum Change {
    /// The description becomes these bytes.
    Text(Vec<u8>),
    /// A line of it has another value, is gone, or has another before it.
    Number(u8, i64),
    Word(u8, String),
    Gone(u8),
    Line(u8, String),
    /// A file gets a size.
    Resize(Name, u32),
    /// A word of `zones` is another one, perhaps with a checksum that is right.
    Zone(u8, u64, bool),
    Remove(Name),
    Directory(Name),
    Link(Name),
}

#[derive(Arbitrary, Debug)]
enum Name {
    Description,
    Draft,
    Data,
    Zones,
    Other,
}

impl Name {
    fn text(&self) -> &'static str {
        match self {
            Name::Description => DESCRIPTION,
            Name::Draft => "shingle-drive.toml.new",
            Name::Data => "data",
            Name::Zones => "zones",
            Name::Other => "other",
        }
    }
}

const PROFILES: [(&str, &str, u64, u64, u64); 4] = [
    ("zns-1tb", "zns", 512, 2_147_483_648, 1_129_316_352),
    ("smr-14tb", "smr", 4096, 268_435_456, 268_435_456),
    ("ssd-500gb", "ssd", 4096, 1_048_576, 0),
    ("ram", "ram", 512, 1_048_576, 0),
];

/// Makes the directory of a drive that nobody has written to.
fn make(dir: &Path, profile: u8, zones: u8) {
    let (name, model, block, unit, capacity) = PROFILES[usize::from(profile) % PROFILES.len()];
    let zones = u64::from(zones) % 64 + 1;
    let bytes = zones * unit;
    let mut text =
        format!("version = 1\nprofile = {name:?}\nmodel = {model:?}\nbytes = {bytes}\nblock_bytes = {block}\n");
    if capacity > 0 {
        let conventional = if model == "smr" { zones.div_ceil(100) } else { 0 };
        text += &format!("\n[zones]\nbytes = {unit}\ncapacity_bytes = {capacity}\nconventional = {conventional}\n");
    }
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join(DESCRIPTION), text).unwrap();
    File::create(dir.join("data")).unwrap().set_len(bytes).unwrap();
    let words = if capacity > 0 { zones } else { 0 };
    let words: Vec<u8> = (0..words).flat_map(|zone| word(zone, 0)).collect();
    fs::write(dir.join("zones"), words).unwrap();
}

/// A word of `zones` with a checksum that is right.
fn word(zone: u64, said: u64) -> [u8; 8] {
    let said = said & 0xff_ffff_ffff;
    let sum = crc32c::crc32c(&[zone.to_le_bytes(), said.to_le_bytes()].concat());
    (said | u64::from(sum & 0xff_ffff) << 40).to_le_bytes()
}

/// Lets `edit` change the line with this number, as far as there are lines.
fn edit(dir: &Path, line: u8, edit: impl FnOnce(&mut Vec<String>, usize)) {
    let path = dir.join(DESCRIPTION);
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(8192).read_to_string(&mut text));
    if read.is_err() {
        return;
    }
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    if !lines.is_empty() {
        let place = usize::from(line) % lines.len();
        edit(&mut lines, place);
    }
    let _ = fs::write(path, lines.join("\n") + "\n");
}

fn set(lines: &mut [String], place: usize, value: &str) {
    if let Some((key, _)) = lines[place].split_once(" = ") {
        lines[place] = format!("{key} = {value}");
    }
}

/// A word that names no file: what is named is read, and here that could be anything of the machine.
fn harmless(word: &str) -> String {
    word.chars().filter(|char| *char != '/' && *char != '.').collect()
}

/// What fails here, fails: the result is a directory in any case.
fn apply(dir: &Path, change: &Change) -> io::Result<()> {
    match change {
        Change::Text(bytes) => {
            let text: Vec<u8> = bytes.iter().copied().filter(|byte| !matches!(byte, b'/' | b'.' | b'\\')).collect();
            fs::write(dir.join(DESCRIPTION), text)?;
        }
        Change::Number(line, value) => edit(dir, *line, |lines, place| set(lines, place, &value.to_string())),
        Change::Word(line, word) => {
            edit(dir, *line, |lines, place| set(lines, place, &format!("{:?}", harmless(word))))
        }
        Change::Gone(line) => edit(dir, *line, |lines, place| _ = lines.remove(place)),
        Change::Line(line, text) => edit(dir, *line, |lines, place| lines.insert(place, harmless(text))),
        Change::Resize(name, size) => {
            let file = File::options().create(true).truncate(false).write(true).open(dir.join(name.text()))?;
            file.set_len(u64::from(*size))?;
        }
        Change::Zone(zone, said, is_right) => {
            let (path, at) = (dir.join("zones"), usize::from(*zone) * 8);
            // It may be sparse and huge.
            let mut words = Vec::new();
            File::open(&path)?.take(4096).read_to_end(&mut words)?;
            let new = if *is_right { word((*zone).into(), *said) } else { said.to_le_bytes() };
            if let Some(place) = words.get_mut(at..at + 8) {
                place.copy_from_slice(&new);
            }
            fs::write(path, words)?;
        }
        Change::Remove(name) => {
            let path = dir.join(name.text());
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path))?;
        }
        Change::Directory(name) => fs::create_dir(dir.join(name.text()))?,
        Change::Link(name) => symlink("/dev/null", dir.join(name.text()))?,
    }
    Ok(())
}

/// Names, kinds and sizes, and the bytes of what is small.
fn snapshot(dir: &Path) -> Vec<(String, String, u64, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let (name, stat) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap());
        let is_small = stat.is_file() && name != "data" && stat.len() < 8192;
        let bytes = if is_small { fs::read(entry.path()).unwrap() } else { Vec::new() };
        let size = if stat.is_file() { stat.len() } else { 0 };
        (name, format!("{:?}", stat.file_type()), size, bytes)
    });
    let mut seen: Vec<_> = entries.collect();
    seen.sort();
    seen
}

/// A drive asks the ring for nothing.
struct Nothing;

impl RequestQueue for Nothing {
    fn submit(&mut self, _: Token, request: Request) -> Result<(), Request> {
        if matches!(request, Request::Readable { .. }) { Ok(()) } else { Err(request) }
    }

    fn cancel(&mut self, _: Token) {}

    fn wait(&mut self, _: Option<time::Duration>) -> io::Result<()> {
        Ok(())
    }

    fn pop(&mut self) -> Option<Completion> {
        None
    }

    fn in_flight(&self) -> usize {
        0
    }
}

thread_local! {
    static SHARD: RefCell<Shard> =
        RefCell::new(Shard::simulated(RingHandle::over(Nothing), Rc::new(Cell::default())).unwrap());
}

fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() { shm.into() } else { std::env::temp_dir() };
        base.join(format!("shingle-fuzz-drive-{}", std::process::id()))
    })
}

/// Runs one input.
pub fn run(bytes: &[u8]) -> Corpus {
    of_value(bytes, fuzz)
}

fn fuzz(input: Input) {
    let dir = place();
    let _ = fs::remove_dir_all(dir);
    make(dir, input.profile, input.zones);
    input.changes.iter().take(16).for_each(|change| _ = apply(dir, change));
    let before = snapshot(dir);
    let described = DriveDir::describe(dir);
    let found = backend::at(dir, true);
    let drive = found.as_ref().filter(|(kind, _)| kind.name == "profile").map(|(_, drive)| drive);
    assert!(described.is_some() == drive.is_some() || found.is_some(), "a drive that nobody finds");
    if let Some(drive) = drive {
        let _ = drive.inspect();
        let _ = drive.is_zoned();
        assert_eq!(before, snapshot(dir), "looking has changed something");
        let opened = SHARD.with_borrow_mut(|shard| drive.open(shard));
        match (opened, described) {
            (Ok(device), Some(Ok(description))) => assert_eq!(device.limits().capacity * 512, description.bytes),
            (Ok(_), _) => panic!("a drive without a description"),
            (Err(error), _) => assert!(!error.message.is_empty()),
        }
        let now = snapshot(dir);
        let text = |seen: &[(String, String, u64, Vec<u8>)]| seen.iter().find(|file| file.0 == DESCRIPTION).cloned();
        assert_eq!(text(&before), text(&now), "the description has changed");
        let sizes = |seen: &[(String, String, u64, Vec<u8>)]| {
            seen.iter().map(|file| (file.0.clone(), file.2)).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&before), sizes(&now), "a file has another size");
    }
    let _ = fs::remove_dir_all(dir);
}
