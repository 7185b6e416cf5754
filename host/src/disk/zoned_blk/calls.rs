//! The calls of a zoned block device that block.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::SeekFrom;
use shingle_core::block::Payload;
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::zone::Zone;
use shingle_sys::write_at;
use shingle_sys::zoned_block::{ZoneCommand, manage_zones, report_zones};

/// What is asked of the disk on a thread that may wait. A simulated kernel has its own.
#[expect(clippy::missing_errors_doc, reason = "the errors are the kernel's")]
pub trait Calls: Send + Sync {
    /// The zones from the one at `from` on, as many as there is room for, by the disk itself.
    fn report(&self, from: Sector, zones: &mut Vec<Zone>) -> io::Result<()>;

    /// Does something to the zones of `sectors` from `first` on.
    fn manage(&self, command: ZoneCommand, first: Sector, sectors: u64) -> io::Result<()>;

    /// Writes to byte `at` what `memory` has from its byte `skip` on, and waits for it; the number of bytes that were written.
    fn write(&self, at: u64, memory: (&Payload, usize), durable: bool) -> io::Result<usize>;

    /// How long the disk is; 0 once it is gone.
    fn sectors(&self) -> io::Result<u64>;
}

/// A block device of this machine.
pub(super) struct Machine(pub OwnedFd);

impl Calls for Machine {
    fn report(&self, from: Sector, zones: &mut Vec<Zone>) -> io::Result<()> {
        report_zones(&self.0, from, zones)
    }

    fn manage(&self, command: ZoneCommand, first: Sector, sectors: u64) -> io::Result<()> {
        manage_zones(&self.0, command, first, sectors)
    }

    fn write(&self, at: u64, memory: (&Payload, usize), durable: bool) -> io::Result<usize> {
        write_at(&self.0, at, memory, durable)
    }

    fn sectors(&self) -> io::Result<u64> {
        Ok(rustix::fs::seek(&self.0, SeekFrom::End(0))? / u64::from(SECTOR_BYTES))
    }
}
