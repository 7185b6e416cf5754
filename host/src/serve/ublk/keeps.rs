//! What a daemon that is killed leaves for the next one, beside the device.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shingle_core::block::{Memory, Survival};
use shingle_core::frontend::ublk::{RecordsShape, Session, SessionShape, Unflushed, ZoneRecords, log_bytes};
use shingle_sys::SharedMemory;

use super::fnv;
use super::record::Records;
use crate::serve::Export;

/// Where it is: gone when the machine is.
pub(super) const FOLDER: &str = "/run/shingle/ublk";
/// Data of writes that are remembered until a flush; one is sent when half of that is taken.
const LOG_BYTES: usize = 64 << 20;

/// What is kept of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// Its data is gone with the daemon: no other one can take it over.
    NoDevice,
    /// All of its data is below, and twice is harmless.
    Nothing,
    /// Writes that are not flushed.
    Unflushed,
    /// What was done to its zones.
    Zones { zones: u32, zone_sectors: u32 },
}

impl Keeps {
    /// For an export of whose data so much survives.
    pub fn of(export: &Export, survival: Survival) -> Self {
        let limits = &export.limits;
        match (&limits.zoned, survival) {
            _ if export.is_read_only() && survival != Survival::Nothing => Keeps::Nothing,
            (_, Survival::Nothing) | (Some(_), Survival::Flushed) => Keeps::NoDevice,
            (Some(zoned), Survival::All) => Keeps::Zones { zones: limits.zones(), zone_sectors: zoned.zone_sectors },
            (None, Survival::Flushed) => Keeps::Unflushed,
            (None, Survival::All) => Keeps::Nothing,
        }
    }

    /// The memory for it: `is_new` if nothing was left in it.
    ///
    /// # Errors
    /// If there is none to be had.
    pub fn memory(self, mark: u64, shape: SessionShape, is_new: bool) -> io::Result<Option<Arc<dyn Memory>>> {
        let bytes = match self {
            Keeps::NoDevice | Keeps::Nothing => return Ok(None),
            Keeps::Unflushed => log_bytes(LOG_BYTES.max(4 * shape.io_bytes as usize)),
            Keeps::Zones { zones, zone_sectors } => RecordsShape { zones, zone_sectors, tags: shape.tags }.bytes(),
        };
        DirBuilder::new().recursive(true).mode(0o700).create(FOLDER)?;
        if is_new {
            // If it is not there, that is as well.
            let _ = fs::remove_file(path(mark));
        }
        Ok(Some(Arc::new(SharedMemory::open(&path(mark), bytes)?)))
    }

    /// `session` with what is kept in `memory`; `None` if it does not fit.
    pub fn furnish(self, session: Session, memory: Option<Arc<dyn Memory>>, mark: u64) -> Option<Session> {
        let Some(memory) = memory else { return Some(session) };
        let owner = mark ^ boot();
        match self {
            Keeps::Zones { zones, zone_sectors } => {
                let shape = RecordsShape { zones, zone_sectors, tags: session.shape().tags };
                Some(session.with_records(ZoneRecords::open(memory, owner, shape)))
            }
            _ => session.with_unflushed(Unflushed::open(memory, owner)),
        }
    }
}

/// Forgets what is kept of a device that is gone.
pub(super) fn remove(mark: u64) {
    // If it is not there, that is as well.
    let _ = fs::remove_file(path(mark));
    Records::of_machine().remove(mark);
}

fn path(mark: u64) -> PathBuf {
    Path::new(FOLDER).join(format!("{mark:016x}"))
}

/// The boot of the machine: what another one left means nothing.
fn boot() -> u64 {
    fnv(&fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default())
}
