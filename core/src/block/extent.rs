//! What lies in sectors, as far as that is known without reading them.
//!
//! A device says it of the first run of a range, or which device below knows better; [`Stack::extents`] follows that down and puts the
//! runs together. Nothing is sent for it and nothing waits: it is what a read that came now would find. To call something data is
//! always right; what is called a hole must read as zeroes.

use core::ops::Range;

use super::content::Content;
use super::id::DeviceId;
use super::stack::Stack;
use crate::prelude::*;

/// Runs that one question looks at.
const LOOKS: usize = 512;

/// Sectors in a row of which the same is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub sectors: u64,
    /// Whether they read as zeroes and nothing is kept for them; else they may hold data.
    pub is_hole: bool,
}

impl Stack {
    /// What reads of `sectors` of device `id` would find if they came now: extents in their order, of which neighbours differ. They
    /// begin with the first sector and go as far as the capacity of `out` and a bound on the work let them.
    pub fn extents(&self, id: DeviceId, sectors: Range<u64>, out: &mut Vec<Extent>) {
        let mut at = sectors.start;
        for _ in 0..LOOKS {
            if at >= sectors.end {
                break;
            }
            let (next, is_full) = (self.extent(id, at..sectors.end), out.len() == out.capacity());
            match out.last_mut() {
                Some(last) if last.is_hole == next.is_hole => last.sectors += next.sectors,
                _ if is_full => break,
                _ => out.push(next),
            }
            at += next.sectors;
        }
    }

    /// The first run of `sectors`.
    fn extent(&self, mut id: DeviceId, mut sectors: Range<u64>) -> Extent {
        loop {
            let capacity = self.limits(id).capacity;
            if sectors.start >= capacity {
                // The device may have shrunk under somebody who does not know yet.
                return Extent { sectors: sectors.end - sectors.start, is_hole: false };
            }
            let end = sectors.end.min(capacity);
            let (content, len) = self.any_device(id).content(sectors.start..end);
            debug_assert!(len > 0 && len <= end - sectors.start, "device {} tells of {len} sectors", id.0);
            match content {
                Content::Below(device, sector) => (id, sectors) = (device, sector.0..sector.0 + len),
                known => return Extent { sectors: len, is_hole: known == Content::Hole },
            }
        }
    }
}
