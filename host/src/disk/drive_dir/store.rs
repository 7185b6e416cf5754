//! The files as the store of a drive.

use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use shingle_core::block::{Payload, Reason, Status};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, ZoneNo, ZoneState};
use shingle_drives::medium::Store;
use shingle_sys::{read_at, write_at};

use super::{DriveDir, PartFile};
use crate::disk::transfer::reason_of;

/// Bytes that `zones` has of each zone.
pub(super) const WORD_BYTES: u64 = 8;
/// Bits of the checksum, above those that it is of.
const SUM_SHIFT: u32 = 40;
/// How much is zeroed at once where no holes can be made.
const ZEROES: usize = 64 << 10;

/// What is kept of a zone: the write pointer, the condition if it is none that follows from that, and a checksum.
pub(super) fn word_of(zone: ZoneNo, state: ZoneState) -> [u8; WORD_BYTES as usize] {
    let cond = if state.cond.is_dead() { state.cond as u64 } else { 0 };
    let said = u64::from(state.wp) | cond << 32;
    (said | checksum(zone, said) << SUM_SHIFT).to_le_bytes()
}

/// 24 bits that say that the word is of this zone, and whole.
fn checksum(zone: ZoneNo, said: u64) -> u64 {
    let bytes = [&u64::from(zone.0).to_le_bytes()[..], &said.to_le_bytes()].concat();
    u64::from(crc32c::crc32c(&bytes)) & 0xff_ffff
}

/// `None` if the word is damaged.
fn state_of(zone: ZoneNo, word: [u8; WORD_BYTES as usize], capacity: u32) -> Option<ZoneState> {
    let word = u64::from_le_bytes(word);
    let said = word & ((1 << SUM_SHIFT) - 1);
    let wp = said as u32;
    let cond = match said >> 32 {
        0 => ZoneState::at_rest(wp, capacity).cond,
        cond => [Condition::ReadOnly, Condition::Offline].into_iter().find(|dead| *dead as u64 == cond)?,
    };
    (word >> SUM_SHIFT == checksum(zone, said) && wp <= capacity).then_some(ZoneState { cond, wp })
}

impl PartFile {
    fn reason(&self, doing: &str, error: &io::Error) -> Reason {
        reason_of(-error.raw_os_error().unwrap_or(0), doing, &self.path)
    }

    fn is_short(&self) -> Reason {
        let text = format!("{}: the file ends early: stop the daemon, and restore it", self.path.display());
        Reason::Host(Status::Io, text.into())
    }
}

/// Goes on until all of `payload` is moved; false: it went no further.
fn whole(payload: &Payload, mut part: impl FnMut(usize) -> io::Result<usize>) -> io::Result<bool> {
    let mut done = 0;
    while done < payload.bytes() {
        match part(done) {
            Ok(0) => return Ok(false),
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

impl Store for DriveDir {
    fn read(&self, at: Sector, payload: &Payload) -> Result<(), Reason> {
        let read = whole(payload, |done| read_at(&self.data.file, at.0 * 512, (payload, done)));
        if read.map_err(|error| self.data.reason("reading", &error))? { Ok(()) } else { Err(self.data.is_short()) }
    }

    fn write(&self, at: Sector, payload: &Payload) -> Result<(), Reason> {
        let written = whole(payload, |done| write_at(&self.data.file, at.0 * 512, (payload, done), false));
        let all = written.map_err(|error| self.data.reason("writing", &error))?;
        if all { Ok(()) } else { Err(reason_of(0, "writing", &self.data.path)) }
    }

    fn discard(&self, at: Sector, sectors: u64) -> Result<(), Reason> {
        let (start, len) = (at.0 * 512, sectors * 512);
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let done = match rustix::io::retry_on_intr(|| fallocate(&self.data.file, flags, start, len)) {
            Err(Errno::OPNOTSUPP) => {
                let zeroes = [0; ZEROES];
                let mut pieces = (start..start + len).step_by(ZEROES);
                pieces.try_for_each(|at| {
                    let bytes = (start + len - at).min(ZEROES as u64) as usize;
                    self.data.file.write_all_at(&zeroes[..bytes], at)
                })
            }
            done => done.map_err(io::Error::from),
        };
        done.map_err(|error| self.data.reason("discarding in", &error))
    }

    fn zone(&self, zone: ZoneNo) -> Result<ZoneState, Reason> {
        let mut word = [0; WORD_BYTES as usize];
        let read = self.zones.file.read_exact_at(&mut word, u64::from(zone.0) * WORD_BYTES);
        read.map_err(|error| self.zones.reason("reading", &error))?;
        let capacity = self.geometry.map_or(0, |geometry| geometry.capacity_of(zone));
        state_of(zone, word, capacity).ok_or_else(|| {
            let text = format!("{}: what it says of zone {zone} is damaged: restore it", self.zones.path.display());
            Reason::Host(Status::Io, text.into())
        })
    }

    fn keep_zone(&self, zone: ZoneNo, state: ZoneState) -> Result<(), Reason> {
        let kept = self.zones.file.write_all_at(&word_of(zone, state), u64::from(zone.0) * WORD_BYTES);
        kept.map_err(|error| self.zones.reason("writing", &error))
    }

    fn bytes(&self) -> u64 {
        self.data.file.metadata().map_or(0, |metadata| metadata.blocks() * 512)
    }

    fn place(&self) -> &str {
        &self.place
    }
}
