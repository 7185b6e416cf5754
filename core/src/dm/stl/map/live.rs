//! Which blocks of some zones the leaves name: the zones that are worth cleaning.

use alloc::collections::BTreeMap;

use crate::dm::stl::ZoneIndex;
use crate::prelude::*;

/// A bit for each block of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Box<[u64]>,
    set: u32,
}

impl Bitmap {
    /// One of so many blocks, of which none is named.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        Self { words: vec![0; blocks.div_ceil(64) as usize].into(), set: 0 }
    }

    /// How many blocks are named.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.set
    }

    /// Whether a block is named.
    #[must_use]
    pub fn has(&self, block: u32) -> bool {
        self.words[block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// Whether a block from `first` on is named.
    #[must_use]
    pub fn has_any_from(&self, first: u32) -> bool {
        let blocks = self.words.len() as u32 * 64;
        (first..blocks).any(|block| self.has(block))
    }

    /// Says whether a block is named.
    pub fn mark(&mut self, block: u32, is_named: bool) {
        if self.has(block) != is_named {
            self.words[block as usize / 64] ^= 1 << (block % 64);
            self.set = if is_named { self.set + 1 } else { self.set - 1 };
        }
    }
}

/// The bitmaps that there are.
///
/// Each was made by a sweep over all leaves, of a zone of which all batches were in runs or leaves by then. Whoever changes a leaf afterwards
/// says so, so a bitmap stays exact until its zone is reset.
#[derive(Clone, Debug, Default)]
pub struct Live(BTreeMap<ZoneIndex, Bitmap>);

impl Live {
    /// That of a zone, if it has one.
    #[must_use]
    pub fn of(&self, zone: ZoneIndex) -> Option<&Bitmap> {
        self.0.get(&zone)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Memory that they take, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.values().map(|bitmap| bitmap.words.len() * size_of::<u64>()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The zones that have one, and how many blocks of each are named.
    pub fn zones(&self) -> impl Iterator<Item = (ZoneIndex, u32)> {
        self.0.iter().map(|(zone, bitmap)| (*zone, bitmap.count()))
    }

    /// Leaves name this block no more.
    pub fn clear(&mut self, zone: ZoneIndex, block: u32) {
        if let Some(bitmap) = self.0.get_mut(&zone) {
            bitmap.mark(block, false);
        }
    }

    /// Leaves name this block of a zone that has a bitmap.
    pub fn set(&mut self, zone: ZoneIndex, block: u32) {
        if let Some(bitmap) = self.0.get_mut(&zone) {
            bitmap.mark(block, true);
        }
    }

    /// Begins a bitmap.
    pub fn begin(&mut self, zone: ZoneIndex, blocks: u32) {
        self.0.insert(zone, Bitmap::new(blocks));
    }

    /// Takes over those of a sweep that is over.
    pub fn adopt(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// A zone was cleaned, or is no zone of data any more.
    pub fn forget(&mut self, zone: ZoneIndex) {
        self.0.remove(&zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_counted_once_however_often_it_is_said() {
        let mut live = Live::default();
        live.begin(ZoneIndex(3), 100);
        [5, 64, 5, 99].into_iter().for_each(|block| live.set(ZoneIndex(3), block));
        live.set(ZoneIndex(4), 1);
        assert_eq!(live.zones().collect::<Vec<_>>(), [(ZoneIndex(3), 3)]);
        [64, 64, 0].into_iter().for_each(|block| live.clear(ZoneIndex(3), block));
        let bitmap = live.of(ZoneIndex(3)).unwrap();
        assert_eq!((bitmap.count(), [5, 64, 99, 0].map(|block| bitmap.has(block))), (2, [true, false, true, false]));
        assert_eq!(live.bytes(), 2 * 8, "100 blocks are two words");
        assert!(bitmap.has_any_from(99) && !bitmap.has_any_from(100), "99 is the last one");
        live.forget(ZoneIndex(3));
        assert!(live.is_empty() && live.of(ZoneIndex(3)).is_none());
    }
}
