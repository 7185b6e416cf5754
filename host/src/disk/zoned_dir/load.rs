//! Reading a disk that is there. Strict: what is not exactly a disk is an error that names the file, and nothing is changed
//! before everything was found in order.

use std::path::Path;

use std::os::fd::OwnedFd;

use rustix::fs::{Access, OFlags, Stat};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::zone::{Zone, ZoneKind, ZoneNo, ZoneState, ZonedDisk};

use super::directory::{Directory, Lock, bytes, is_regular, parse_zone_name, zone_name};
use super::error::{ErrorKind, ZonedDirError};
use super::geometry_file::{self, FILE_NAME, MOST_BYTES};
use super::presence::{FileId, Names};
use super::shape::Shape;
use crate::disk::files::{FilesHandle, fd, machine};

/// A disk that was found in order.
pub(super) struct Loaded {
    pub directory: Directory,
    pub shape: Shape,
    pub zones: ZonedDisk,
    pub torn: Vec<Torn>,
    /// Which file each zone has.
    pub identities: Box<[FileId]>,
    pub names: Names,
}

/// A sequential zone whose file ends inside of a block: a write that a power failure or a full file system cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Torn {
    pub zone: ZoneNo,
    /// The file's size.
    pub is: u64,
    /// Its size without the partial block.
    pub keep: u64,
}

/// A disk as it lies there, for reports.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Its shape.
    pub shape: Shape,
    /// All zones. Those that are open in a running daemon are shown as closed.
    pub zones: Vec<Zone>,
    /// What the next open will mend, in words.
    pub notices: Vec<String>,
}

/// Looks at the disk in `path` without changing anything. `given` is the geometry of a disk that zloop made.
pub fn inspect(path: &Path, given: Option<&Shape>) -> Result<Inspection, ZonedDirError> {
    let loaded = load(machine(), path, given, Lock::Shared)?;
    let notices = loaded.notices();
    Ok(Inspection { shape: loaded.shape, zones: loaded.zones.zones(Sector::ZERO).collect(), notices })
}

/// Finds the disk in `path` in order, or says what is not. With a shared lock its files have to be readable alone.
pub(super) fn load(
    files: FilesHandle,
    path: &Path,
    given: Option<&Shape>,
    lock: Lock,
) -> Result<Loaded, ZonedDirError> {
    let directory = Directory::open(files, path)?;
    directory.lock(lock)?;
    let shape = find_shape(&directory, given)?;
    let names = Names::of(directory.cached_status());
    let access = match lock {
        Lock::Shared => Access::READ_OK,
        Lock::Exclusive => Access::READ_OK | Access::WRITE_OK,
    };
    let files = find_files(&directory, &shape, access)?;
    let mut torn = Vec::new();
    for (zone, size, _) in files.iter().filter(|(zone, ..)| shape.zones.kind(*zone) == ZoneKind::Sequential) {
        let keep = size - size % u64::from(shape.block_bytes);
        if keep != *size {
            torn.push(Torn { zone: *zone, is: *size, keep });
        }
    }
    let state = |zone: ZoneNo| {
        let size = files[zone.index()].1;
        let whole = size - size % u64::from(shape.block_bytes);
        ZoneState::at_rest((whole / u64::from(SECTOR_BYTES)) as u32, shape.zones.capacity_of(zone))
    };
    let limits = shape.limits.enforceable(shape.zones.sequential());
    let zones =
        ZonedDisk::restore(shape.zones, limits, state).expect("sizes were checked, and zones at rest are valid");
    let identities = files.iter().map(|(.., identity)| *identity).collect();
    Ok(Loaded { directory, shape, zones, torn, identities, names })
}

fn find_shape(directory: &Directory, given: Option<&Shape>) -> Result<Shape, ZonedDirError> {
    let here = match directory.open_file(FILE_NAME, OFlags::RDONLY | OFlags::NONBLOCK) {
        Ok(file) => Some(read_shape(directory, &file)?),
        Err(rustix::io::Errno::NOENT) => None,
        Err(rustix::io::Errno::LOOP) => return Err(directory.error(FILE_NAME, ErrorKind::NotAFile)),
        Err(errno) => return Err(directory.io_error(FILE_NAME, "opening the geometry file", errno)),
    };
    match (here, given) {
        (Some(here), None) => Ok(here),
        (Some(here), Some(given)) => match here.difference(given) {
            None => Ok(here),
            Some((field, here, given)) => {
                Err(ZonedDirError::new(&directory.path, ErrorKind::OtherGeometry { field, here, given }))
            }
        },
        (None, Some(given)) => {
            given.check().map_err(|error| ZonedDirError::new(&directory.path, ErrorKind::Shape(error)))?;
            Ok(*given)
        }
        (None, None) => Err(ZonedDirError::new(&directory.path, ErrorKind::NoGeometry)),
    }
}

fn read_shape(directory: &Directory, file: &OwnedFd) -> Result<Shape, ZonedDirError> {
    let failed = |errno: rustix::io::Errno| directory.io_error(FILE_NAME, "reading the geometry file", errno);
    if !is_regular(&directory.files.fstat(fd(file)).map_err(failed)?) {
        return Err(directory.error(FILE_NAME, ErrorKind::NotAFile));
    }
    let text = directory.files.read(fd(file), MOST_BYTES + 1).map_err(failed)?;
    geometry_file::parse(&text).map_err(|error| directory.error(FILE_NAME, ErrorKind::GeometryFile(error)))
}

/// Every zone's file, in order, with its size and its identity. What the geometry claims costs no memory before the files are there.
fn find_files(
    directory: &Directory,
    shape: &Shape,
    access: Access,
) -> Result<Vec<(ZoneNo, u64, FileId)>, ZonedDirError> {
    let mut files = Vec::new();
    for name in directory.names()? {
        if name != FILE_NAME {
            let zone = check_name(directory, shape, &name)?;
            let (size, identity) = check_file(directory, shape, (zone, &name), access)?;
            files.push((zone, size, identity));
        }
    }
    files.sort_unstable_by_key(|(zone, ..)| *zone);
    // Each kind of name is right for one kind of zone only, so no zone can be there twice.
    let missing = u64::from(shape.zones.zones()) - files.len() as u64;
    if missing > 0 {
        let first = files.iter().zip(0..).find(|((zone, ..), index)| zone.0 != *index);
        let first = first.map_or(files.len() as u32, |(_, index)| index);
        return Err(directory.error(&zone_name(&shape.zones, ZoneNo(first)), ErrorKind::MissingZone { missing }));
    }
    Ok(files)
}

fn check_name(directory: &Directory, shape: &Shape, name: &str) -> Result<ZoneNo, ZonedDirError> {
    let (kind, zone) = parse_zone_name(name).ok_or_else(|| directory.error(name, ErrorKind::Foreign))?;
    if zone.0 >= shape.zones.zones() {
        return Err(directory.error(name, ErrorKind::Misnumbered(None)));
    }
    if shape.zones.kind(zone) != kind {
        return Err(directory.error(name, ErrorKind::Misnumbered(Some(zone_name(&shape.zones, zone)))));
    }
    Ok(zone)
}

/// Checks what a zone's file is, and returns its size and identity.
fn check_file(
    directory: &Directory,
    shape: &Shape,
    (zone, name): (ZoneNo, &str),
    access: Access,
) -> Result<(u64, FileId), ZonedDirError> {
    let stat: Stat = directory.stat(name).map_err(|errno| directory.io_error(name, "looking at it", errno))?;
    if !is_regular(&stat) {
        return Err(directory.error(name, ErrorKind::NotAFile));
    }
    if stat.st_nlink > 1 {
        #[allow(clippy::useless_conversion, reason = "it has another width on other machines")]
        return Err(directory.error(name, ErrorKind::HardLinked { names: stat.st_nlink.into() }));
    }
    let usable = directory.files.accessat(fd(&directory.fd), name, access);
    usable.map_err(|errno| directory.io_error(name, "checking the permission to use it", errno))?;
    let (is, most) = (stat.st_size as u64, bytes(shape.zones.capacity_of(zone)));
    match shape.zones.kind(zone) {
        ZoneKind::Conventional if is != most => {
            Err(directory.error(name, ErrorKind::WrongSize { is, should_be: most }))
        }
        ZoneKind::Sequential if is > most => {
            Err(directory.error(name, ErrorKind::BeyondCapacity { is, at_most: most }))
        }
        _ => Ok((is, FileId::of_stat(&stat))),
    }
}

impl Loaded {
    /// What [`Loaded::mend`] does, in words.
    pub fn notices(&self) -> Vec<String> {
        let tell = |torn: &Torn| {
            format!(
                "{}: dropped {} bytes of a block that was never completely written, {} bytes are left",
                self.directory.path_of(&zone_name(&self.shape.zones, torn.zone)).display(),
                torn.is - torn.keep,
                torn.keep
            )
        };
        self.torn.iter().map(tell).collect()
    }

    /// Cuts partial blocks off, for good.
    pub fn mend(&mut self) -> Result<(), ZonedDirError> {
        for torn in std::mem::take(&mut self.torn) {
            let name = zone_name(&self.shape.zones, torn.zone);
            let file = self.directory.open_file(&name, OFlags::RDWR);
            let files = &self.directory.files;
            file.and_then(|file| files.ftruncate(fd(&file), torn.keep).and_then(|()| files.fdatasync(fd(&file))))
                .map_err(|errno| self.directory.io_error(&name, "cutting off a partial block", errno))?;
        }
        Ok(())
    }
}
