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

/// The bios that are spread at the moment.
#[derive(Default)]
pub(super) struct Fan {
    spread: Slab<Spread>,
}

/// The bit of words of frames that belong to a [`Fan`].
const FANNED: u64 = 1 << 63;

impl Fan {
    /// Sends `part` of the original to each device that it returns one for. With nothing to send the original is done.
    pub fn spread(
        &mut self,
        bio: Box<Bio>,
        parts: impl Iterator<Item = (DeviceId, Bio)>,
        cx: &mut Cx<'_>,
    ) -> Option<(Box<Bio>, Status)> {
        let key = self.spread.insert(Spread { bio, pending: 1, status: Status::Ok });
        for (to, part) in parts {
            self.spread[key].pending += 1;
            let own = cx.own_bio(part);
            cx.submit(to, own, FANNED | key as u64);
        }
        self.count(key, Status::Ok)
    }

    /// Whether a bio that comes back with `word` was sent here.
    pub fn is_own(word: u64) -> bool {
        word & FANNED != 0
    }

    /// Takes back one of its bios; returns the original if it was the last.
    pub fn end_io(&mut self, own: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) -> Option<(Box<Bio>, Status)> {
        cx.recycle(own);
        self.count((word & !FANNED) as usize, status)
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
