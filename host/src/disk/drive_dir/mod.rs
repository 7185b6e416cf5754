//! The data and zones of a simulated drive in a directory, so that they outlive the daemon. The bytes are described in
//! `docs/drive-directory-format.md`.
//!
//! ```text
//!   shingle-drive.toml   what drive it is      written once, last of all: without it the directory is not made yet
//!   data                 its sectors           sparse; what is discarded is a hole
//!   zones                a word per zone       how far it is written
//! ```
//!
//! Files are written by system calls that return when the page cache has it. So whatever ends the process, all is there that a call
//! has done, no block of at most a page is there by half, and a full file system or a bad disk below is an error of that call. A
//! crash of the machine is another matter: nothing here waits for its disk.

mod description;
mod error;
mod store;

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat, renameat};
use rustix::io::Errno;
use shingle_core::zone::{ZoneGeometry, ZoneNo, ZonedDisk};

use super::Holder;
use crate::patience::patiently;
use store::{WORD_BYTES, word_of};

pub use description::Description;
pub use error::{DriveDirError, ErrorKind};

const DESCRIPTION: &str = "shingle-drive.toml";
/// The description, before it is whole.
const DRAFT: &str = "shingle-drive.toml.new";
const DATA: &str = "data";
const ZONES: &str = "zones";
/// No description is longer, in bytes.
const MOST_BYTES: u64 = 4096;

/// A drive's directory, which nobody else has as long as this lives.
#[derive(Debug)]
pub struct DriveDir {
    /// Its path, for people.
    place: String,
    data: PartFile,
    zones: PartFile,
    geometry: Option<ZoneGeometry>,
    _lock: File,
}

/// A file in the directory, and its path for messages.
#[derive(Debug)]
struct PartFile {
    file: File,
    path: PathBuf,
}

impl DriveDir {
    /// Opens the directory at `path`, which is the drive `wanted`; makes it if there is none, or an empty one, with `zones` as they are
    /// in a new drive.
    ///
    /// # Errors
    /// If it is another's, or cannot be made, locked, opened or read.
    pub fn open(path: &Path, wanted: &Description, zones: Option<&ZonedDisk>) -> Result<Self, DriveDirError> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ErrorKind::NoParent.of(path)),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(DriveDirError::io(path, "creating the directory", error));
            }
            _ => {}
        }
        let folder = Folder::open(path)?;
        folder.lock()?;
        if !folder.is_made()? {
            folder.make(wanted, zones)?;
        }
        folder.check(wanted)?;
        let data = folder.part(DATA, wanted.bytes)?;
        let geometry = zones.map(|zones| *zones.geometry());
        let zones = folder.part(ZONES, geometry.map_or(0, |geometry| u64::from(geometry.zones()) * WORD_BYTES))?;
        let place = path.canonicalize().unwrap_or_else(|_| path.into()).display().to_string();
        Ok(Self { place, data, zones, geometry, _lock: folder.file })
    }

    /// What the directory at `path` says of itself; `None` if it is no drive's.
    #[must_use]
    pub fn describe(path: &Path) -> Option<Result<Description, DriveDirError>> {
        path.join(DESCRIPTION).is_file().then(|| Folder::open(path)?.description())
    }

    /// Looks whether [`DriveDir::open`] would work, without changing anything. That somebody has it is no mistake.
    ///
    /// # Errors
    /// As [`DriveDir::open`].
    pub fn inspect(path: &Path, wanted: &Description) -> Result<(), DriveDirError> {
        match Folder::open(path) {
            Ok(folder) if folder.is_made()? => folder.check(wanted),
            Ok(_) => Ok(()),
            Err(DriveDirError { kind: ErrorKind::Io { source, .. }, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let is_there = parent.is_none_or(Path::is_dir);
                if is_there { Ok(()) } else { Err(ErrorKind::NoParent.of(path)) }
            }
            Err(error) => Err(error),
        }
    }
}

/// The directory itself, open.
struct Folder {
    file: File,
    path: PathBuf,
}

impl Folder {
    fn open(path: &Path) -> Result<Self, DriveDirError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { file: fd.into(), path: path.into() }),
            Err(Errno::NOTDIR) => Err(ErrorKind::NotADirectory.of(path)),
            Err(errno) => Err(DriveDirError::io(path, "opening the directory", errno.into())),
        }
    }

    fn lock(&self) -> Result<(), DriveDirError> {
        let lock = || flock(&self.file, FlockOperation::NonBlockingLockExclusive);
        patiently(|errno| *errno == Errno::WOULDBLOCK, lock).map_err(|errno| match errno {
            Errno::WOULDBLOCK => ErrorKind::InUse(Holder::of(&self.file)).of(&self.path),
            errno => DriveDirError::io(&self.path, "locking the directory", errno.into()),
        })
    }

    /// Whether it is a drive's; not if it is empty, or was being made when that was interrupted.
    fn is_made(&self) -> Result<bool, DriveDirError> {
        let names = std::fs::read_dir(&self.path).and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
        });
        let names = names.map_err(|error| DriveDirError::io(&self.path, "reading the directory", error))?;
        let is_ours = |name: &&String| [DESCRIPTION, DRAFT, DATA, ZONES].contains(&name.as_str());
        let foreign: Vec<String> = names.iter().filter(|name| !is_ours(name)).take(5).cloned().collect();
        if !foreign.is_empty() {
            return Err(ErrorKind::Foreign(foreign).of(&self.path));
        }
        if names.iter().any(|name| name == DESCRIPTION) {
            return Ok(true);
        }
        // Nothing is written to `data` before there is a description.
        let holds_data = self.path.join(DATA).symlink_metadata().is_ok_and(|data| data.blocks() > 0);
        if holds_data { Err(ErrorKind::NoDescription.of(&self.path)) } else { Ok(false) }
    }

    /// Makes a drive that was never written. The description comes last.
    fn make(&self, wanted: &Description, zones: Option<&ZonedDisk>) -> Result<(), DriveDirError> {
        let words = |disk: &ZonedDisk| -> Vec<u8> {
            (0..disk.geometry().zones()).map(ZoneNo).flat_map(|zone| word_of(zone, disk.state(zone))).collect()
        };
        let words = zones.map_or(Vec::new(), words);
        self.write(ZONES, |file| file.write_all(&words))?;
        self.write(DATA, |file| file.set_len(wanted.bytes))?;
        self.write(DRAFT, |file| file.write_all(wanted.to_text().as_bytes()))?;
        renameat(&self.file, DRAFT, &self.file, DESCRIPTION)
            .map_err(|errno| DriveDirError::io(&self.path.join(DRAFT), "renaming the file", errno.into()))
    }

    fn write(&self, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), DriveDirError> {
        let mut file = self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        write(&mut file).map_err(|error| DriveDirError::io(&self.path.join(name), "writing the file", error))
    }

    /// Opens a file in it. A link is refused.
    fn file(&self, name: &str, flags: OFlags) -> Result<File, DriveDirError> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = openat(&self.file, name, flags, Mode::RUSR | Mode::WUSR);
        opened.map(File::from).map_err(|errno| match errno {
            Errno::NOENT => ErrorKind::Missing.of(&self.path.join(name)),
            errno => DriveDirError::io(&self.path.join(name), "opening the file", errno.into()),
        })
    }

    /// Checks that it is the drive that is wanted.
    fn check(&self, wanted: &Description) -> Result<(), DriveDirError> {
        self.description()?.difference(wanted).map_or(Ok(()), |kind| Err(kind.of(&self.path)))
    }

    fn description(&self) -> Result<Description, DriveDirError> {
        let path = self.path.join(DESCRIPTION);
        let mut text = Vec::new();
        let read = self.file(DESCRIPTION, OFlags::RDONLY)?.take(MOST_BYTES + 1).read_to_end(&mut text);
        read.map_err(|error| DriveDirError::io(&path, "reading the file", error))?;
        let text = std::str::from_utf8(&text).ok().filter(|text| text.len() as u64 <= MOST_BYTES);
        let text = text.ok_or_else(|| ErrorKind::Unreadable("it is no short text".into()).of(&path))?;
        Description::parse(text).map_err(|kind| kind.of(&path))
    }

    /// Opens one of its large files, which has so many bytes.
    fn part(&self, name: &str, bytes: u64) -> Result<PartFile, DriveDirError> {
        let (file, path) = (self.file(name, OFlags::RDWR)?, self.path.join(name));
        let metadata = file.metadata().map_err(|error| DriveDirError::io(&path, "looking at the file", error))?;
        match metadata.len() {
            _ if !metadata.is_file() => Err(ErrorKind::NotAFile.of(&path)),
            len if len == bytes => Ok(PartFile { file, path }),
            is => Err(ErrorKind::WrongSize { is, should_be: bytes }.of(&path)),
        }
    }
}

#[cfg(test)]
mod tests;
