//! An ordinary SSD, in virtual time: a rate for each direction, a latency, and a cache that a flush empties.
//!
//! ```text
//!  bios ──> flash, one transfer at a time, in order of arrival ──> latency ──> done
//! ```
//!
//! Reads and writes share the flash: a disk that is read while it is written does each of them more slowly. A bio takes effect
//! when its transfer ends.
//!
//! A loss of power takes any blocks of the writes since the last flush, and of those in flight: an SSD may lose a later write and keep
//! an earlier one. Discards and zeroes are durable at once, which is one of the things that a drive may do.
//!
//! Not modelled: garbage collection, a fast first part of the flash (SLC), how far dies work side by side for small commands.

use alloc::boxed::Box;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;
use core::ops::Range;

use shingle_core::block::{Bio, BlockDevice, Cx, Data, Event, Flags, Limits, Op, Payload, Reason};
use shingle_core::random::Rng;
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::{Duration, Instant};

use crate::error::{DriveError, Fault, check};
use crate::live::Model;
use crate::medium::Medium;
use crate::ram::{execute, land_some, place_of, timer};
use crate::service::time_of;

/// Parameters of an SSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdConfig {
    /// Size of the device, in sectors.
    pub capacity: u64,
    /// Logical and physical block size, in bytes.
    pub block_bytes: u32,
    /// Longest command, in sectors.
    pub max_sectors: u32,
    /// Sustained rate of reads, in bytes per second.
    pub read_rate: u64,
    /// Sustained rate of writes, in bytes per second.
    pub write_rate: u64,
    /// Time of a read beside its transfer.
    pub read: Duration,
    /// Time of anything else beside its transfer.
    pub write: Duration,
    /// Time until what is in the cache is on the flash.
    pub flush: Duration,
    /// Whether it keeps what is written. If not, reads leave the memory of the bio as it is.
    pub memory_backed: bool,
}

/// The disk.
pub struct Ssd {
    limits: Limits,
    config: SsdConfig,
    medium: Option<Medium>,
    /// When the flash is done with all transfers so far.
    free_at: Instant,
    /// Bios in transfer, with the end of that, and then those that only wait for their latency.
    transfers: VecDeque<(Instant, Box<Bio>)>,
    slow: slab::Slab<Box<Bio>>,
    /// Losses of power so far: a timer of before one is none.
    lifetime: u32,
    /// What was in the place of blocks that were written since the last flush, by their first sectors; `None` as long as the power
    /// stays on, since it takes as much memory as they do.
    replaced: Option<BTreeMap<Sector, Data>>,
}

/// The timer of the next transfer's end; others are of bios in `slow`.
const TRANSFER: u64 = u64::MAX;

impl Ssd {
    /// A disk of zeroes.
    ///
    /// # Errors
    /// If the parameters do not go together.
    pub fn new(config: &SsdConfig) -> Result<Self, DriveError> {
        Self::build(config).map_err(DriveError::of("SSD"))
    }

    fn build(config: &SsdConfig) -> Result<Self, Fault> {
        let limits = Limits {
            logical_block_bytes: config.block_bytes,
            physical_block_bytes: config.block_bytes,
            max_sectors: Some(config.max_sectors),
            max_write_zeroes: Some(u32::MAX),
            max_discard: Some(u32::MAX),
            write_cache: true,
            ..Limits::new(config.capacity)
        };
        limits.validate()?;
        let rates = [("read rate", config.read_rate), ("write rate", config.write_rate)];
        check(rates.map(|(name, rate)| (rate > 0, name, "is 0 bytes per second; it has to be above 0")))?;
        let medium = config.memory_backed.then(Medium::default);
        Ok(Self {
            limits,
            config: config.clone(),
            medium,
            free_at: Instant::ZERO,
            transfers: VecDeque::new(),
            slow: slab::Slab::new(),
            lifetime: 0,
            replaced: None,
        })
    }

    /// Time on the flash.
    fn transfer(&self, bio: &Bio) -> Duration {
        let rate = match bio.op {
            Op::Read => self.config.read_rate,
            Op::Write => self.config.write_rate,
            _ => return Duration::ZERO,
        };
        time_of(u64::from(bio.sectors) * u64::from(SECTOR_BYTES), rate)
    }

    /// Time from the end of the transfer until the bio is done.
    fn latency(&self, bio: &Bio) -> Duration {
        let own = if bio.op == Op::Read { self.config.read } else { self.config.write };
        let flushes = |flag| u64::from(bio.flags.has(flag));
        let flushes = flushes(Flags::FUA) + flushes(Flags::PREFLUSH) + u64::from(bio.op == Op::Flush);
        Duration(own.0 + flushes * self.config.flush.0)
    }

    fn end_transfers(&mut self, cx: &mut Cx<'_>) {
        while let Some((_, bio)) = self.transfers.pop_front_if(|(at, _)| *at <= cx.now()) {
            let at = cx.now() + self.latency(&bio);
            let place = self.slow.insert(bio);
            cx.wake_at(at, timer(self.lifetime, place));
        }
        self.wait(cx);
    }

    /// Before a bio takes effect: what of that can be lost, and what cannot be lost any more.
    fn remember(&mut self, bio: &Bio) -> Result<(), Reason> {
        let (Some(medium), Some(replaced)) = (&self.medium, &mut self.replaced) else { return Ok(()) };
        if bio.op == Op::Flush || bio.flags.has(Flags::PREFLUSH) {
            replaced.clear();
        }
        match bio.op {
            Op::Write if !bio.flags.has(Flags::FUA) => {
                let block = self.limits.block_sectors();
                for at in (0..bio.sectors).step_by(block as usize).map(|at| bio.sector + u64::from(at)) {
                    if let Entry::Vacant(place) = replaced.entry(at) {
                        let before = Data::zeroed(block as usize * SECTOR_BYTES as usize);
                        medium.read(at, block, &Payload::Data(before.clone()))?;
                        place.insert(before);
                    }
                }
            }
            Op::Write | Op::WriteZeroes | Op::Discard => forget(replaced, bio.sector..bio.end()),
            _ => {}
        }
        Ok(())
    }

    fn wait(&self, cx: &mut Cx<'_>) {
        if let Some((at, _)) = self.transfers.front() {
            cx.wake_at(*at, TRANSFER);
        }
    }
}

/// What is in these sectors is durable.
fn forget(replaced: &mut BTreeMap<Sector, Data>, sectors: Range<Sector>) {
    replaced.extract_if(sectors, |_, _| true).for_each(drop);
}

impl Model for Ssd {
    fn go_live(&mut self) {
        self.replaced = Some(BTreeMap::new());
    }

    fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    fn medium_mut(&mut self) -> Option<&mut Medium> {
        self.medium.as_mut()
    }

    fn lose_power(&mut self, rng: &mut Rng, cx: &mut Cx<'_>) {
        (self.lifetime, self.free_at) = (self.lifetime.wrapping_add(1), cx.now());
        let block = self.limits.block_sectors();
        for (at, before) in self.replaced.iter_mut().flat_map(core::mem::take) {
            if let Some(medium) = self.medium.as_mut().filter(|_| rng.chance(1, 2)) {
                // There is room, unless the write had none either: then the block still is what it was before. What a store does
                // not take got through.
                let _ = medium.write(at, block, &Payload::Data(before));
            }
        }
        let waiting = self.transfers.drain(..).map(|(_, bio)| bio);
        for bio in self.slow.drain().chain(waiting) {
            self.medium.iter_mut().for_each(|medium| land_some(medium, &bio, block, rng));
            cx.fail(bio, Reason::NoPower);
        }
    }
}

impl BlockDevice for Ssd {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.free_at = self.free_at.max(cx.now()) + self.transfer(&bio);
        self.transfers.push_back((self.free_at, bio));
        if self.transfers.len() == 1 {
            self.wait(cx);
        }
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(TRANSFER) => self.end_transfers(cx),
            Event::Timer(word) => {
                let place = place_of(word, self.lifetime);
                let Some(mut bio) = place.and_then(|place| self.slow.try_remove(place)) else { return };
                let status = match self.remember(&bio) {
                    Ok(()) => execute(&mut self.medium, &mut bio),
                    Err(reason) => bio.blame(reason),
                };
                cx.complete(bio, status);
            }
            _ => {}
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.transfers.iter().for_each(|(_, bio)| visit(bio));
        self.slow.iter().for_each(|(_, bio)| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let SsdConfig { capacity, read_rate, write_rate, .. } = self.config;
        write!(out, "ssd: {capacity} sectors, reads {read_rate} and writes {write_rate} bytes per second")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use shingle_core::block::{Data, DeviceId, Payload, Stack, Status};
    use shingle_core::sector::Sector;

    const MIB: u32 = (1 << 20) / SECTOR_BYTES;

    fn config() -> SsdConfig {
        SsdConfig {
            capacity: 1 << 20,
            block_bytes: 4096,
            max_sectors: MIB,
            read_rate: 2 << 20,
            write_rate: 1 << 20,
            read: Duration::from_millis(10),
            write: Duration::from_millis(20),
            flush: Duration::from_millis(300),
            memory_backed: true,
        }
    }

    /// When bios that are submitted at once are done, in ms, by their numbers.
    fn ends(bios: Vec<Bio>) -> Vec<u64> {
        let mut stack = Stack::new();
        let disk: DeviceId = stack.add(Box::new(Ssd::new(&config()).unwrap())).unwrap();
        let port = stack.open_port();
        let mut ends = alloc::vec![0; bios.len()];
        for (tag, bio) in bios.into_iter().enumerate() {
            stack.submit(port, tag as u64, disk, Box::new(bio));
        }
        let mut now = Some(Instant::ZERO);
        while let Some(at) = now {
            now = stack.turn(at);
            while let Some(done) = stack.poll_completion(port) {
                assert_eq!(done.status, Status::Ok);
                ends[done.tag as usize] = at.0 / 1_000_000;
            }
        }
        ends
    }

    fn bio(op: Op, sectors: u32) -> Bio {
        let payload = if op.has_data() { Payload::Data(Data::zeroed(sectors as usize * 512)) } else { Payload::None };
        Bio::new(op, Sector(0), sectors, payload)
    }

    #[test]
    fn transfers_of_both_directions_share_the_flash_and_latencies_overlap() {
        let bios = [bio(Op::Write, MIB), bio(Op::Read, MIB), bio(Op::Write, MIB)];
        assert_eq!(ends(bios.into()), [1020, 1510, 2520]);
    }

    #[test]
    fn a_flush_and_fua_wait_for_the_cache() {
        let fua = bio(Op::Write, MIB).with_flags(Flags::FUA);
        assert_eq!(ends([bio(Op::Write, MIB), bio(Op::Flush, 0)].into()), [1020, 1320]);
        assert_eq!(ends([fua].into()), [1320]);
    }

    #[test]
    fn a_disk_without_a_rate_is_refused_by_name() {
        let error = Ssd::new(&SsdConfig { write_rate: 0, ..config() }).err().unwrap();
        assert_eq!(alloc::format!("{error}"), "SSD: write rate is 0 bytes per second; it has to be above 0");
    }
}
