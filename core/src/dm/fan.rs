//! One bio for several devices at once: each gets a bio of our own, and the original ends, with the first failure, when
//! all of them have.

use alloc::boxed::Box;

use slab::Slab;

use crate::block::{Bio, Cx, DeviceId, Status};

/// The original and how many of its own bios are out.
struct Spread {
    bio: Box<Bio>,
    pending: u32,
    status: Status,
}

/// The bios that a device has spread at the moment. A device with several fans gives each a number.
#[derive(Default)]
pub(super) struct Fan {
    number: u16,
    spread: Slab<Spread>,
}

/// The bit of words of frames that belong to a fan; below it lie the fan's number in 15 bits, the number of the part in 16
/// and the key of the original in 32.
const FANNED: u64 = 1 << 63;

impl Fan {
    /// A fan with this number, of 15 bits.
    pub fn numbered(number: u16) -> Self {
        Self { number, spread: Slab::new() }
    }

    /// Sends each part, with its number, to its device. With nothing to send the original is done.
    pub fn spread(
        &mut self,
        bio: Box<Bio>,
        parts: impl Iterator<Item = (u16, DeviceId, Bio)>,
        cx: &mut Cx<'_>,
    ) -> Option<(Box<Bio>, Status)> {
        let key = self.spread.insert(Spread { bio, pending: 1, status: Status::Ok });
        for (number, to, part) in parts {
            self.spread[key].pending += 1;
            let own = cx.own_bio(part);
            cx.submit(to, own, self.tag() | u64::from(number) << 32 | key as u64);
        }
        self.count(key, Status::Ok)
    }

    fn tag(&self) -> u64 {
        FANNED | u64::from(self.number) << 48
    }

    /// Whether a bio that comes back with `word` was sent here.
    pub fn is_own(&self, word: u64) -> bool {
        word >> 48 == self.tag() >> 48
    }

    /// The number of the part that comes back with `word`.
    pub fn part(word: u64) -> u16 {
        (word >> 32) as u16
    }

    /// What tells apart the originals that are spread at the moment.
    pub fn key(word: u64) -> usize {
        word as u32 as usize
    }

    /// The original of a bio that comes back with `word`.
    pub fn original(&self, word: u64) -> &Bio {
        &self.spread[Self::key(word)].bio
    }

    /// Takes back one of its bios; returns the original if it was the last.
    pub fn end_io(
        &mut self,
        mut own: Box<Bio>,
        status: Status,
        word: u64,
        cx: &mut Cx<'_>,
    ) -> Option<(Box<Bio>, Status)> {
        let spread = &mut self.spread[Self::key(word)];
        if !status.is_ok() && spread.status.is_ok() {
            spread.bio.inherit(&mut own);
        }
        cx.recycle(own);
        self.count(Self::key(word), status)
    }

    fn count(&mut self, key: usize, status: Status) -> Option<(Box<Bio>, Status)> {
        let spread = &mut self.spread[key];
        spread.pending -= 1;
        spread.status = spread.status.and(status);
        (spread.pending == 0).then(|| {
            let Spread { bio, status, .. } = self.spread.remove(key);
            (bio, status)
        })
    }

    /// Shows the originals.
    pub fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.spread.iter().for_each(|(_, spread)| visit(&spread.bio));
    }
}
