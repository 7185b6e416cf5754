//! Making a new disk.

use std::path::Path;

use rustix::io::Errno;
use shingle_core::zone::{ZoneKind, ZoneNo};

use super::directory::{Directory, Lock, bytes, zone_name};
use super::error::{ErrorKind, ZonedDirError};
use super::geometry_file::{self, FILE_NAME};
use super::load::load;
use super::shape::Shape;
use crate::disk::files::{FilesHandle, fd, machine};

/// The geometry file until it is complete.
const NEW_FILE_NAME: &str = "shingle-disk.toml.new";

/// Makes a disk of `shape` in `path`: in a new directory or in an empty one. The zone files come first and the geometry
/// file last, so an interrupted creation is never mistaken for a disk; after a failure everything is removed again.
///
/// `progress` is called with the number of zones that are done, now and then.
pub fn create(path: &Path, shape: &Shape, progress: &mut dyn FnMut(u32)) -> Result<(), ZonedDirError> {
    create_on(machine(), path, shape, progress)
}

/// The same on other files than the machine's.
pub fn create_on(
    files: FilesHandle,
    path: &Path,
    shape: &Shape,
    progress: &mut dyn FnMut(u32),
) -> Result<(), ZonedDirError> {
    shape.check().map_err(|error| ZonedDirError::new(path, ErrorKind::Shape(error)))?;
    let made_directory = match files.mkdir(path) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(ZonedDirError::io(path, "creating the directory", error)),
    };
    let directory = Directory::open(files, path)?;
    directory.lock(Lock::Exclusive)?;
    refuse_if_not_empty(&directory)?;
    let mut zones_made = 0;
    let made = fill(&directory, shape, &mut |zones| {
        zones_made = zones;
        if zones.is_multiple_of(512) || zones == shape.zones.zones() {
            progress(zones);
        }
    });
    if made.is_err() {
        clean_up(&directory, shape, zones_made, made_directory);
    }
    made
}

/// Makes a disk of the zone files that lie in `path`, such as zloop's: checks that they are those of a disk of `shape`, and
/// writes that down beside them. Nothing else is changed, and nothing at all if a file does not fit.
pub fn adopt(path: &Path, shape: &Shape) -> Result<(), ZonedDirError> {
    let directory = load(machine(), path, Some(shape), Lock::Exclusive)?.directory;
    let written = write_geometry(&directory, shape);
    if written.is_err() {
        let _ = directory.files.unlinkat(fd(&directory.fd), NEW_FILE_NAME);
    }
    written
}

fn refuse_if_not_empty(directory: &Directory) -> Result<(), ZonedDirError> {
    let mut names = directory.names()?;
    if names.is_empty() {
        return Ok(());
    }
    names.sort();
    if names.len() > 3 {
        let others = names.split_off(3).len();
        names.push(format!("{others} more"));
    }
    Err(ZonedDirError::new(&directory.path, ErrorKind::NotEmpty(names)))
}

fn fill(directory: &Directory, shape: &Shape, made: &mut dyn FnMut(u32)) -> Result<(), ZonedDirError> {
    for zone in (0..shape.zones.zones()).map(ZoneNo) {
        let name = zone_name(&shape.zones, zone);
        let file = directory.create_file(&name)?;
        made(zone.0 + 1);
        if shape.zones.kind(zone) == ZoneKind::Conventional {
            let size = bytes(shape.zones.len(zone));
            directory
                .files
                .ftruncate(fd(&file), size)
                .map_err(|errno| directory.io_error(&name, "setting the file's size", errno))?;
        }
    }
    directory.sync()?;
    write_geometry(directory, shape)
}

/// Writes the geometry file so that it is there in full or not at all, whatever happens.
fn write_geometry(directory: &Directory, shape: &Shape) -> Result<(), ZonedDirError> {
    let failed = |doing| move |errno: Errno| directory.io_error(FILE_NAME, doing, errno);
    let (files, itself) = (&directory.files, fd(&directory.fd));
    let file = directory.create_file(NEW_FILE_NAME)?;
    files.write(fd(&file), geometry_file::print(shape).as_bytes()).map_err(failed("writing the file"))?;
    files.fsync(fd(&file)).map_err(failed("syncing the file"))?;
    files.renameat(itself, NEW_FILE_NAME, FILE_NAME).map_err(failed("renaming the file"))?;
    files.fsync(itself).map_err(failed("syncing the directory"))
}

/// Removes what this creation made. What cannot be removed stays: the first error is the one to report.
fn clean_up(directory: &Directory, shape: &Shape, zones_made: u32, made_directory: bool) {
    let (files, itself) = (&directory.files, fd(&directory.fd));
    // First, and durably, what makes it a disk: the power may go before its zones are gone.
    let _ = files.unlinkat(itself, FILE_NAME).and_then(|()| files.fsync(itself));
    let zones = (0..zones_made).map(|zone| zone_name(&shape.zones, ZoneNo(zone)));
    for name in zones.chain([NEW_FILE_NAME.into()]) {
        let _ = files.unlinkat(itself, &name);
    }
    if made_directory {
        let _ = directory.files.rmdir(&directory.path);
    }
}
