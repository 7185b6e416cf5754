//! The zones of a device without a stack: for tools.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use shingle_core::sector::Sector;
use shingle_core::zone::Zone;
use shingle_sys::zoned_block::{ZoneCommand, manage_zones, report_zones};

use super::error::{ErrorKind, ZonedBlkError};
use super::open::{Options, claim, look};
use super::users::user_of;
use crate::disk::files::machine;

/// A device whose zones are changed by one program alone.
pub struct Offline {
    path: PathBuf,
    file: OwnedFd,
}

impl Offline {
    /// Has the device at `path` alone.
    ///
    /// # Errors
    /// If it is none, or somebody else has it.
    pub fn open(path: &Path) -> Result<Self, ZonedBlkError> {
        let claimed = look(&*machine(), path).and_then(|(_, number)| {
            claim(&*machine(), path, &Options::default()).map_err(|kind| kind.or_user(|| user_of(number)))
        });
        let file = claimed.map_err(|kind| ZonedBlkError { path: path.into(), kind })?;
        Ok(Self { path: path.into(), file })
    }

    /// Does `command` to `zone`, which was reported.
    ///
    /// # Errors
    /// That of the disk.
    pub fn manage(&self, command: ZoneCommand, zone: &Zone) -> Result<(), ZonedBlkError> {
        manage_zones(&self.file, command, zone.start, zone.len).map_err(|source| {
            let (zone, command) = (zone.start, command.name());
            let kind = ErrorKind::Zone { zone, command, source };
            ZonedBlkError { path: self.path.clone(), kind }
        })
    }
}

/// The zones of the device at `path` as the disk has them now, whoever uses it.
///
/// # Errors
/// If it is none, or does not answer.
pub fn report(path: &Path) -> Result<Vec<Zone>, ZonedBlkError> {
    let zones = || -> Result<Vec<Zone>, ErrorKind> {
        let (attributes, _) = look(&*machine(), path)?;
        let file = open_to_look(path)?;
        let mut zones = attributes.room_for_zones();
        report_zones(&file, Sector::ZERO, &mut zones).map_err(|error| ErrorKind::io("reporting its zones", error))?;
        Ok(zones)
    };
    zones().map_err(|kind| ZonedBlkError { path: path.into(), kind })
}

fn open_to_look(path: &Path) -> Result<std::fs::File, ErrorKind> {
    std::fs::File::open(path).map_err(|error: io::Error| match rustix::io::Errno::from_io_error(&error) {
        Some(errno) => ErrorKind::at_open(errno),
        None => ErrorKind::io("opening it", error),
    })
}
