//! What reads would find, as far as memory knows.

use core::ops::Range;

use super::map::Found;
use super::state::{Readiness, State};
use super::{BLOCK_SECTORS, Lba};
use crate::block::Content;

impl State {
    /// What a read of the first of `sectors` would find now, and of how many of them that is so. A part of the map that is not in
    /// memory is not read for it: what that would say counts as data. A write that is under way does not count until it is done.
    pub fn content(&self, sectors: Range<u64>) -> (Content, u64) {
        if !matches!(self.readiness, Readiness::Ready | Readiness::ReadOnly(_)) {
            return (Content::Data, sectors.end - sectors.start);
        }
        let of_block = u64::from(BLOCK_SECTORS);
        let (from, to) = (Lba(sectors.start / of_block), Lba(sectors.end.div_ceil(of_block)));
        let (content, until) = match self.doubts.first_of(&(from..to)) {
            (true, until) => (Content::Data, until),
            (false, to) => {
                let (found, until) = self.map.find(from, to);
                (if found == Found::Zeroes { Content::Hole } else { Content::Data }, until)
            }
        };
        (content, (until.0 * of_block).min(sectors.end) - sectors.start)
    }
}
