//! Changing the zones of a disk that no daemon serves.

use std::path::Path;

use rustix::fs::OFlags;
use shingle_core::zone::{ZoneError, ZoneGeometry, ZoneNo, ZonedDisk};

use super::directory::{Lock, bytes, zone_name};
use super::error::{ErrorKind, ZonedDirError};
use super::load::{Loaded, load};
use super::shape::Shape;
use crate::disk::files::{fd, machine};

/// A disk, locked for one program that changes its zones. Every change is durable when its call returns.
///
/// Open zones are not kept on disk (see `docs/zoned-disk-format.md`), so none can be opened here.
pub struct Offline {
    loaded: Loaded,
    notices: Vec<String>,
}

impl Offline {
    /// Locks and loads the disk in `path`. `given` is the geometry of a disk that zloop made.
    pub fn open(path: &Path, given: Option<&Shape>) -> Result<Self, ZonedDirError> {
        let mut loaded = load(machine(), path, given, Lock::Exclusive)?;
        let notices = loaded.notices();
        loaded.mend()?;
        Ok(Self { loaded, notices })
    }

    /// The disk's shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.loaded.shape
    }

    /// The zones as they are now.
    #[must_use]
    pub fn zones(&self) -> &ZonedDisk {
        &self.loaded.zones
    }

    /// What opening it had to mend, in words.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Closes `zone`.
    pub fn close_zone(&mut self, zone: ZoneNo) -> Result<(), ZonedDirError> {
        self.change(zone, None, ZonedDisk::close)
    }

    /// Makes `zone` full.
    pub fn finish_zone(&mut self, zone: ZoneNo) -> Result<(), ZonedDirError> {
        self.change(zone, Some(|geometry, zone| bytes(geometry.capacity_of(zone))), ZonedDisk::finish)
    }

    /// Makes `zone` empty.
    pub fn reset_zone(&mut self, zone: ZoneNo) -> Result<(), ZonedDirError> {
        self.change(zone, Some(|_, _| 0), ZonedDisk::reset)
    }

    /// Asks the state machine, then gives the file its new size.
    fn change(
        &mut self,
        zone: ZoneNo,
        size: Option<fn(&ZoneGeometry, ZoneNo) -> u64>,
        action: fn(&mut ZonedDisk, ZoneNo) -> Result<(), ZoneError>,
    ) -> Result<(), ZonedDirError> {
        let Loaded { directory, shape, zones, .. } = &mut self.loaded;
        let name = zone_name(&shape.zones, zone);
        let at = shape.zones.start(zone);
        if zone.0 >= shape.zones.zones() {
            return Err(directory.error(&name, ErrorKind::Zone(zones.fault(at, ZoneError::NoSuchZone))));
        }
        let before = zones.state(zone);
        action(zones, zone).map_err(|error| directory.error(&name, ErrorKind::Zone(zones.fault(at, error))))?;
        let Some(size) = size else { return Ok(()) };
        let file = directory.open_file(&name, OFlags::RDWR);
        let (files, len) = (&directory.files, size(&shape.zones, zone));
        let resized = file.and_then(|file| files.ftruncate(fd(&file), len).and_then(|()| files.fdatasync(fd(&file))));
        resized.map_err(|errno| {
            // As far as this program knows the file is as it was; the next one looks again.
            let _ = zones.set_write_pointer(zone, before.wp);
            directory.io_error(&name, "setting the file's size", errno)
        })
    }
}
