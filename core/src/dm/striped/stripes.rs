//! The stripes of a striped line, and how they have fared.

use alloc::sync::Arc;
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::block::{Bio, Chunks, DeviceId, Part, Payload, Status};
use crate::prelude::*;
use crate::sector::Sector;

/// Events that the errors of one device may raise (`drivers/md/dm-stripe.c:DM_IO_ERROR_THRESHOLD`).
const MOST_EVENTS: u32 = 14;

/// Where the chunks of a striped line are, and how their devices fare. Both who routes bios and who tells of it have it.
#[derive(Debug)]
pub(crate) struct Stripes {
    chunks: Arc<Chunks>,
    /// The devices that can lose completed writes.
    flushed: Vec<DeviceId>,
    /// Errors of each stripe's device. Atomic only because it is shared: one thread counts.
    errors: Box<[AtomicU32]>,
    events: AtomicU32,
}

impl Deref for Stripes {
    type Target = Chunks;

    fn deref(&self) -> &Chunks {
        &self.chunks
    }
}

impl Stripes {
    /// Chunks of `chunk` sectors that go to `parts` in turn, of which `flushed` can lose completed writes.
    pub fn new(chunk: u32, parts: impl Iterator<Item = Part>, flushed: Vec<DeviceId>) -> Self {
        let chunks = Arc::new(Chunks::new(chunk, parts.collect()));
        let errors = chunks.parts().iter().map(|_| AtomicU32::new(0)).collect();
        Self { chunks, flushed, errors, events: AtomicU32::new(0) }
    }

    /// Where the chunks are.
    pub fn chunks(&self) -> Arc<Chunks> {
        self.chunks.clone()
    }

    /// What stripe `number` has of the memory of `bio`, in its own order.
    pub fn gather(&self, bio: &Bio, number: usize) -> Payload {
        let (mut at, end) = (self.before(bio.sector.0, number), self.before(bio.end().0, number));
        let mut segments = Vec::new();
        while at < end {
            let (sector, run) = self.above(at, number);
            let len = run.min(end - at);
            segments.extend_from_slice(bio.payload.slice((sector - bio.sector.0) as u32, len as u32).segments());
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
        let edge = |sector: Sector| self.parts()[number].start + self.before(sector.0, number);
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
        self.flushed.iter().copied()
    }

    /// The devices, one for each stripe.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> {
        self.parts().iter().map(|part| part.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_device_count_for_all_of_its_stripes_and_raise_fourteen_events() {
        let part = |n: u16| Part { device: DeviceId(n % 2), start: 0 };
        let stripes = Stripes::new(8, (0..3).map(part), Vec::new());
        stripes.note(DeviceId(1), Status::NotSupported);
        assert!(stripes.health().all(|is_good| is_good));
        (0..20).for_each(|_| stripes.note(DeviceId(0), Status::Medium));
        assert_eq!((stripes.health().collect::<Vec<_>>(), stripes.events()), ([false, true, false].to_vec(), 14));
        stripes.note(DeviceId(1), Status::Io);
        assert_eq!(stripes.events(), 15);
    }
}
