//! What a device has done, in plain numbers: one thread owns a stack.

use super::bio::Bio;
use super::op::Op;
use super::status::Status;

/// What a device has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Bios that arrived, by [`Op`].
    pub ios: [u64; Op::COUNT],
    /// Their sectors, by [`Op`].
    pub sectors: [u64; Op::COUNT],
    /// Bios that ended in this device with a failure, by [`Status`].
    pub errors: [u64; Status::COUNT],
    /// Bios that this device merged into others.
    pub merges: u64,
    /// Bios that it holds, or has sent on and wants back or counts until they are done.
    pub in_flight: u64,
}

/// [`Counters`] as the hop loop keeps them.
#[derive(Default)]
pub(super) struct Meter {
    /// Bios and their sectors that arrived, by operation.
    pub arrived: [(u64, u64); Op::COUNT],
    /// Bios that came to be here: own ones, and second pieces.
    pub made: u64,
    /// Bios that ended here, or went on for good and uncounted.
    pub left: u64,
    pub errors: [u64; Status::COUNT],
    pub merges: u64,
}

impl Meter {
    /// Counts a bio that arrives.
    #[inline]
    pub fn arrive(&mut self, bio: &Bio) {
        let (bios, sectors) = &mut self.arrived[bio.op as usize];
        *bios += 1;
        *sectors += u64::from(bio.sectors);
    }

    /// Bios that the device holds, wants back or has ever passed on: what came of these its door counts.
    pub fn custody(&self) -> u64 {
        let arrived: u64 = self.arrived.iter().map(|(bios, _)| bios).sum();
        arrived + self.made - self.left
    }

    /// The same for reports.
    pub fn counters(&self) -> Counters {
        let Meter { arrived, errors, merges, .. } = *self;
        let (ios, sectors) = (arrived.map(|(bios, _)| bios), arrived.map(|(_, sectors)| sectors));
        Counters { ios, sectors, errors, merges, in_flight: self.custody() }
    }
}
