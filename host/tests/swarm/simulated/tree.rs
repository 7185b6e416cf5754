//! Files and directories in memory, and how much of them survives when the power goes.
//!
//! ```text
//!   durable image ── write ── resize ── write ──> what calls see
//!                 └────── the journal: volatile ──┘
//! ```
//!
//! `fsync` and `fdatasync` of a file move its journal into the image, of a directory its names. When the power goes, sizes and
//! holes happened up to some point, since file systems log them in order; of the data written before that point each block
//! is there or not, since nothing orders it; and a file that has grown may end at any byte of what it has grown by.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use shingle_core::random::Rng;

/// A file or a directory, by number.
pub type Node = usize;

/// One step of a file's life.
#[derive(Clone, Debug)]
enum Change {
    /// `lost`: a sync failed for it, and no later one writes it.
    Write {
        at: usize,
        bytes: Vec<u8>,
        lost: bool,
    },
    Resize(usize),
    Zero(Range<usize>),
}

/// A regular file.
#[derive(Clone, Debug, Default)]
pub struct File {
    image: Vec<u8>,
    pub now: Vec<u8>,
    journal: VecDeque<(u64, Change)>,
}

/// A change of names: one that goes, and one that comes.
#[derive(Clone, Debug)]
struct Renamed {
    gone: Option<String>,
    new: Option<(String, Node)>,
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    image: BTreeMap<String, Node>,
    pub now: BTreeMap<String, Node>,
    journal: Vec<Renamed>,
}

/// All of them; the first is the root.
#[derive(Clone, Debug)]
pub struct Tree {
    files: BTreeMap<Node, File>,
    directories: BTreeMap<Node, Directory>,
    /// Changes so far.
    pub serial: u64,
    /// Bytes that are written whole or not at all.
    unit: usize,
}

pub const ROOT: Node = 0;

fn put(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    bytes.resize(bytes.len().max(at + new.len()), 0);
    bytes[at..at + new.len()].copy_from_slice(new);
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { at, bytes: new, lost: false } => put(bytes, *at, new),
        Change::Write { at, bytes: new, lost: true } => bytes.resize(bytes.len().max(at + new.len()), 0),
        Change::Resize(len) => bytes.resize(*len, 0),
        Change::Zero(range) => {
            let end = range.end.min(bytes.len());
            bytes[range.start.min(end)..end].fill(0);
        }
    }
}

impl File {
    fn change(&mut self, serial: u64, change: Change) {
        apply(&mut self.now, &change);
        self.journal.push_back((serial, change));
    }

    fn commit(&mut self, serial: u64) {
        while self.journal.front().is_some_and(|(of, _)| *of <= serial) {
            if let Some((_, change)) = self.journal.pop_front() {
                apply(&mut self.image, &change);
            }
        }
    }

    /// Takes `range` out of all writes: something else is there.
    fn forget(&mut self, range: &Range<usize>) {
        for (serial, change) in std::mem::take(&mut self.journal) {
            let Change::Write { at, bytes, lost } = change else {
                self.journal.push_back((serial, change));
                continue;
            };
            let (before, after) = (range.start.clamp(at, at + bytes.len()), range.end.clamp(at, at + bytes.len()));
            for (from, to) in [(at, before), (after.max(before), at + bytes.len())] {
                if from < to {
                    let bytes = bytes[from - at..to - at].to_vec();
                    self.journal.push_back((serial, Change::Write { at: from, bytes, lost }));
                }
            }
        }
    }

    /// Makes this write durable, and what the file system logs with it; older data need not be.
    fn write_durably(&mut self, serial: u64, at: usize, bytes: &[u8]) {
        for (serial, change) in std::mem::take(&mut self.journal) {
            match &change {
                Change::Write { .. } => self.journal.push_back((serial, change)),
                Change::Resize(len) => {
                    let beyond = *len..usize::MAX;
                    apply(&mut self.image, &change);
                    self.forget(&beyond);
                }
                Change::Zero(range) => {
                    let range = range.clone();
                    apply(&mut self.image, &change);
                    self.forget(&range);
                }
            }
        }
        self.forget(&(at..at + bytes.len()));
        put(&mut self.image, at, bytes);
        self.change(serial, Change::Write { at, bytes: bytes.to_vec(), lost: false });
    }

    fn lose(&mut self, serial: u64, rng: &mut Rng) {
        for (_, change) in self.journal.iter_mut().filter(|(of, _)| *of <= serial) {
            if let Change::Write { lost, .. } = change {
                *lost |= rng.chance(1, 2);
            }
        }
    }

    /// What is left of it.
    fn survive(&self, unit: usize, rng: &mut Rng) -> Vec<u8> {
        let mut left = self.image.clone();
        let steps = self.journal.iter().filter(|(_, change)| !matches!(change, Change::Write { .. })).count();
        let (mut steps, kept) = (rng.below(steps as u64 + 1), rng.below(5));
        let mut floor = left.len();
        for (_, change) in &self.journal {
            let Change::Write { at, bytes, lost } = change else {
                if steps == 0 {
                    break;
                }
                steps -= 1;
                apply(&mut left, change);
                floor = left.len();
                continue;
            };
            for (place, piece) in pieces(*at, bytes, unit) {
                // Some cuts keep everything, some nothing.
                if !lost && rng.below(4) < kept {
                    put(&mut left, place, piece);
                } else if rng.chance(1, 4) {
                    left.resize(left.len().max(place + piece.len()), 0);
                }
            }
        }
        if left.len() > floor && rng.chance(1, 3) {
            left.truncate(floor + rng.below((left.len() - floor) as u64 + 1) as usize);
        }
        left
    }
}

/// The parts of a write that end where a multiple of `unit` does.
fn pieces(mut at: usize, mut bytes: &[u8], unit: usize) -> Vec<(usize, &[u8])> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at((unit - at % unit).min(bytes.len()));
        pieces.push((at, piece));
        (at, bytes) = (at + piece.len(), rest);
    }
    pieces
}

impl Tree {
    pub fn new(unit: usize) -> Self {
        let directories = BTreeMap::from([(ROOT, Directory::default())]);
        Self { files: BTreeMap::new(), directories, serial: 0, unit }
    }

    /// Makes a file what it was before its last sync.
    pub fn undo_sync(&mut self, node: Node, before: File) {
        if self.file(node).is_some_and(|file| file.now == before.now) {
            self.files.insert(node, before);
        }
    }

    pub fn file(&self, node: Node) -> Option<&File> {
        self.files.get(&node)
    }

    pub fn directory(&self, node: Node) -> Option<&Directory> {
        self.directories.get(&node)
    }

    /// What is called `name` in a directory.
    pub fn find(&self, directory: Node, name: &str) -> Option<Node> {
        self.directories[&directory].now.get(name).copied()
    }

    pub fn make(&mut self, directory: Node, name: &str, is_directory: bool) -> Node {
        self.serial += 1;
        let node = self.serial as Node;
        if is_directory {
            self.directories.insert(node, Directory::default());
        } else {
            self.files.insert(node, File::default());
        }
        self.rename(directory, None, Some((name.into(), node)));
        node
    }

    pub fn rename(&mut self, directory: Node, gone: Option<String>, new: Option<(String, Node)>) {
        let directory = self.directories.get_mut(&directory).expect("a directory");
        let renamed = Renamed { gone, new };
        name(&mut directory.now, &renamed);
        directory.journal.push(renamed);
    }

    fn change(&mut self, node: Node, change: Change) {
        self.serial += 1;
        self.files.get_mut(&node).expect("a file").change(self.serial, change);
    }

    pub fn write(&mut self, node: Node, at: usize, bytes: &[u8]) {
        self.change(node, Change::Write { at, bytes: bytes.to_vec(), lost: false });
    }

    pub fn write_durably(&mut self, node: Node, at: usize, bytes: &[u8]) {
        self.serial += 1;
        self.files.get_mut(&node).expect("a file").write_durably(self.serial, at, bytes);
    }

    pub fn resize(&mut self, node: Node, len: usize) {
        self.change(node, Change::Resize(len));
    }

    pub fn zero(&mut self, node: Node, range: Range<usize>) {
        self.change(node, Change::Zero(range));
    }

    /// Makes durable what changed up to number `serial`.
    pub fn sync(&mut self, node: Node, serial: u64) {
        if let Some(file) = self.files.get_mut(&node) {
            file.commit(serial);
        } else if let Some(directory) = self.directories.get_mut(&node) {
            directory.image = directory.now.clone();
            directory.journal.clear();
        }
    }

    pub fn sync_all(&mut self) {
        let nodes: Vec<Node> = self.files.keys().chain(self.directories.keys()).copied().collect();
        nodes.into_iter().for_each(|node| self.sync(node, u64::MAX));
    }

    /// A sync failed: some of the data will never be written, and no later sync says so.
    pub fn lose(&mut self, node: Node, serial: u64, rng: &mut Rng) {
        if let Some(file) = self.files.get_mut(&node) {
            file.lose(serial, rng);
        }
    }

    /// Whether the last change of a file is that it was emptied, and that is volatile.
    pub fn was_just_emptied(&self, node: Node) -> bool {
        let last = self.files.get(&node).and_then(|file| file.journal.back());
        matches!(last, Some((_, Change::Resize(0))))
    }

    /// Whether the last change of a file is that a range was zeroed, and that is volatile.
    pub fn was_just_zeroed(&self, node: Node) -> bool {
        let last = self.files.get(&node).and_then(|file| file.journal.back());
        matches!(last, Some((_, Change::Zero(_))))
    }

    /// What is left when the power goes now.
    pub fn survive(&self, rng: &mut Rng) -> Self {
        let mut left = Self { serial: self.serial, ..Self::new(self.unit) };
        for (node, file) in &self.files {
            let image = file.survive(self.unit, rng);
            left.files.insert(*node, File { now: image.clone(), image, journal: VecDeque::new() });
        }
        for (node, directory) in &self.directories {
            let mut image = directory.image.clone();
            let kept = rng.below(5);
            directory.journal.iter().filter(|_| rng.below(4) < kept).for_each(|renamed| name(&mut image, renamed));
            left.directories.insert(*node, Directory { now: image.clone(), image, journal: Vec::new() });
        }
        left
    }
}

fn name(names: &mut BTreeMap<String, Node>, Renamed { gone, new }: &Renamed) {
    if let Some(gone) = gone {
        names.remove(gone);
    }
    names.extend(new.clone());
}
