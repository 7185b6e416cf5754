//! Which stripe holds a sector, and how the stripes have fared.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::super::mapping::Place;
use crate::block::{Bio, DeviceId, Payload, Status};
use crate::sector::Sector;

/// Events that the errors of one device may raise (`drivers/md/dm-stripe.c:DM_IO_ERROR_THRESHOLD`).
const MOST_EVENTS: u32 = 14;

/// One of the parts that chunks go to in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripe {
    pub device: DeviceId,
    /// The first of its sectors.
    pub start: u64,
    /// Whether the device can lose completed writes.
    pub write_cache: bool,
}

/// The stripes of a striped line. Both who routes bios to them and who tells how they fare have it.
#[derive(Debug)]
pub(crate) struct Stripes {
    stripes: Box<[Stripe]>,
    chunk: Divisor,
    count: Divisor,
    /// Errors of each stripe's device. Atomic only because it is shared: one thread counts.
    errors: Box<[AtomicU32]>,
    events: AtomicU32,
}

impl Stripes {
    /// Chunks of `chunk` sectors that go to `stripes` in turn.
    pub fn new(chunk: u32, stripes: impl Iterator<Item = Stripe>) -> Self {
        let stripes: Box<[Stripe]> = stripes.collect();
        Self {
            chunk: Divisor::new(chunk.into()),
            count: Divisor::new(stripes.len() as u64),
            errors: stripes.iter().map(|_| AtomicU32::new(0)).collect(),
            events: AtomicU32::new(0),
            stripes,
        }
    }

    /// The stripes, in their order.
    pub fn all(&self) -> &[Stripe] {
        &self.stripes
    }

    /// Sectors of a chunk.
    pub fn chunk(&self) -> u64 {
        self.chunk.by
    }

    /// The stripe that holds sector `offset` of the line.
    pub fn owner(&self, offset: u64) -> usize {
        let (chunk, _) = self.chunk.divide(offset);
        self.count.divide(chunk).1 as usize
    }

    /// Where sector `offset` of the line lies (`drivers/md/dm-stripe.c:stripe_map_sector`), and the rest of its chunk.
    #[inline]
    pub fn place(&self, offset: u64) -> Place {
        let (number, within) = self.chunk.divide(offset);
        let (row, owner) = self.count.divide(number);
        let stripe = &self.stripes[owner as usize];
        let sector = Sector(stripe.start + row * self.chunk.by + within);
        Place { device: stripe.device, sector, room: self.chunk.by - within }
    }

    /// How many sectors of stripe `number` lie before sector `offset` of the line.
    pub fn before(&self, offset: u64, number: usize) -> u64 {
        let (chunks, within) = self.chunk.divide(offset);
        let (rows, owner) = self.count.divide(chunks);
        let rest = match (number as u64).cmp(&owner) {
            core::cmp::Ordering::Less => self.chunk.by,
            core::cmp::Ordering::Equal => within,
            core::cmp::Ordering::Greater => 0,
        };
        rows * self.chunk.by + rest
    }

    /// The sector of the line that is sector `at` of stripe `number`.
    fn offset(&self, at: u64, number: usize) -> u64 {
        let (row, within) = self.chunk.divide(at);
        (row * self.count.by + number as u64) * self.chunk.by + within
    }

    /// What stripe `number` has of the memory of `bio`, in its own order.
    pub fn gather(&self, bio: &Bio, number: usize) -> Payload {
        let (mut at, end) = (self.before(bio.sector.0, number), self.before(bio.end().0, number));
        let mut segments = Vec::new();
        while at < end {
            let (_, within) = self.chunk.divide(at);
            // Chunks of an only stripe lie in a row.
            let len = if self.stripes.len() == 1 { end - at } else { (self.chunk.by - within).min(end - at) };
            let from = self.offset(at, number) - bio.sector.0;
            segments.extend_from_slice(bio.payload.slice(from as u32, len as u32).segments());
            at += len;
        }
        match segments.len() {
            0 => Payload::None,
            1 => Payload::Data(segments.remove(0)),
            _ => Payload::Segments(segments),
        }
    }

    /// What stripe `number` has of the sectors of `bio`: one range of its own sectors, which may be empty
    /// (`drivers/md/dm-stripe.c:stripe_map_range`).
    pub fn range(&self, bio: &Bio, number: usize) -> Range<u64> {
        let edge = |sector: Sector| self.stripes[number].start + self.before(sector.0, number);
        edge(bio.sector)..edge(bio.end())
    }

    /// Notes that a bio failed on `device` (`drivers/md/dm-stripe.c:stripe_end_io`).
    #[cold]
    pub fn note(&self, device: DeviceId, status: Status) {
        // Neither says anything about the device: it does not do that, or the submitter would not wait.
        if matches!(status, Status::Ok | Status::NotSupported | Status::Again) {
            return;
        }
        let mut errors = 0;
        let of_device = self.devices().zip(&self.errors).filter(|(own, _)| *own == device);
        for (_, count) in of_device {
            errors = count.load(Relaxed).saturating_add(1);
            count.store(errors, Relaxed);
        }
        if (1..=MOST_EVENTS).contains(&errors) {
            self.events.fetch_add(1, Relaxed);
        }
    }

    /// For each stripe whether its device has failed at something.
    pub fn health(&self) -> impl Iterator<Item = bool> {
        self.errors.iter().map(|count| count.load(Relaxed) == 0)
    }

    /// How many events the errors have raised.
    pub fn events(&self) -> u64 {
        self.events.load(Relaxed).into()
    }

    /// The devices that a flush has to reach.
    pub fn flushed(&self) -> impl Iterator<Item = DeviceId> {
        self.stripes.iter().filter(|stripe| stripe.write_cache).map(|stripe| stripe.device)
    }

    /// The devices, one for each stripe.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> {
        self.stripes.iter().map(|stripe| stripe.device)
    }
}

/// A divisor that shifts if it is a power of two.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    by: u64,
    shift: Option<u32>,
}

impl Divisor {
    fn new(by: u64) -> Self {
        Self { by, shift: by.is_power_of_two().then(|| by.trailing_zeros()) }
    }

    /// Quotient and remainder.
    #[inline]
    fn divide(self, number: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (number >> shift, number & (self.by - 1)),
            None => (number / self.by, number % self.by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sector by itself, as the manual describes it: chunks go to the stripes in turn.
    #[test]
    fn places_edges_and_ranges_agree_with_counting_sector_by_sector() {
        for (count, chunk) in [(1, 4), (2, 4), (3, 4), (4, 1), (3, 5), (5, 7)] {
            let stripe = |n: u16| Stripe { device: DeviceId(n), start: 1000 * u64::from(n), write_cache: false };
            let stripes = Stripes::new(chunk, (0..count).map(stripe));
            let mut used = alloc::vec![0; count.into()];
            for sector in 0..u64::from(chunk) * u64::from(count) * 4 {
                let (number, owner) = (sector / u64::from(chunk), sector / u64::from(chunk) % u64::from(count));
                for (n, used) in used.iter().enumerate() {
                    assert_eq!(stripes.before(sector, n), *used, "sector {sector}, stripe {n} of {count} by {chunk}");
                }
                let place = stripes.place(sector);
                assert_eq!(place.device.0, owner as u16);
                assert_eq!(place.sector.0, 1000 * owner + used[owner as usize]);
                assert_eq!(stripes.offset(used[owner as usize], owner as usize), sector);
                assert_eq!(place.room, (number + 1) * u64::from(chunk) - sector);
                used[owner as usize] += 1;
            }
        }
    }

    #[test]
    fn errors_of_a_device_count_for_all_of_its_stripes_and_raise_fourteen_events() {
        let stripe = |n: u16| Stripe { device: DeviceId(n % 2), start: 0, write_cache: false };
        let stripes = Stripes::new(8, (0..3).map(stripe));
        stripes.note(DeviceId(1), Status::NotSupported);
        assert!(stripes.health().all(|is_good| is_good));
        (0..20).for_each(|_| stripes.note(DeviceId(0), Status::Medium));
        assert_eq!((stripes.health().collect::<Vec<_>>(), stripes.events()), ([false, true, false].to_vec(), 14));
        stripes.note(DeviceId(1), Status::Io);
        assert_eq!(stripes.events(), 15);
    }
}
