//! What a zone holds, and how much of it survives when the power goes.
//!
//! ```text
//!   durable image ── change 7 ── change 9 ── change 12 ──> what reads see
//!                  └────── the journal: volatile ──────┘
//! ```
//!
//! A flush moves changes from the journal into the image. When the power goes, a sequential zone keeps a prefix of its
//! journal, the last write of it cut at a block: never a hole, never a write without the reset before it. In a
//! conventional zone every block for itself keeps its image or any of its changes.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::choices::Choices;

/// Words of 64 bits in a sector.
pub(super) const SECTOR_WORDS: usize = 64;

/// The bytes of one sector.
pub(super) type Content = Arc<[u64; SECTOR_WORDS]>;

/// What a zone is on the medium.
#[derive(Clone)]
pub(super) struct Image {
    /// By sector; `None`: unwritten.
    pub contents: Vec<Option<Content>>,
    /// Offset of the write pointer, in sectors; the capacity in a full zone, 0 in a conventional one.
    pub wp: u32,
}

impl Image {
    pub fn unwritten(sectors: u32) -> Self {
        Self { contents: vec![None; sectors as usize], wp: 0 }
    }
}

/// One step of a zone's life.
#[derive(Clone)]
enum Change {
    Write { offset: u32, contents: Vec<Content> },
    Reset,
    Finish { wp: u32 },
}

/// The image of a zone, the changes that a loss of power can undo, and the result of both.
#[derive(Clone)]
pub(super) struct ZoneStore {
    sequential: bool,
    image: Image,
    journal: VecDeque<(u64, Change)>,
    current: Vec<Option<Content>>,
}

impl ZoneStore {
    pub fn new(sequential: bool, image: Image) -> Self {
        Self { sequential, current: image.contents.clone(), image, journal: VecDeque::new() }
    }

    /// What a read of the sector at `offset` finds.
    pub fn at(&self, offset: u32) -> Option<&Content> {
        self.current[offset as usize].as_ref()
    }

    /// Write number `serial` of the disk lands at `offset`.
    pub fn write(&mut self, serial: u64, offset: u32, contents: Vec<Content>) {
        for (place, content) in (offset as usize..).zip(&contents) {
            self.current[place] = Some(content.clone());
        }
        self.journal.push_back((serial, Change::Write { offset, contents }));
    }

    pub fn reset(&mut self, serial: u64) {
        self.current.fill(None);
        self.journal.push_back((serial, Change::Reset));
    }

    pub fn finish(&mut self, serial: u64, wp: u32) {
        self.journal.push_back((serial, Change::Finish { wp }));
    }

    /// Makes all changes up to number `serial` durable.
    pub fn commit(&mut self, serial: u64) {
        while self.journal.front().is_some_and(|(of, _)| *of <= serial) {
            if let Some((_, change)) = self.journal.pop_front() {
                apply(&mut self.image, &change, u32::MAX);
            }
        }
    }

    /// Makes change number `serial`, the last one of a conventional zone, durable, and none of those before it.
    pub fn commit_alone(&mut self, serial: u64) {
        let Some((_, change)) = self.journal.pop_back_if(|(of, _)| *of == serial) else { return };
        apply(&mut self.image, &change, u32::MAX);
        let Change::Write { offset, contents } = change else { return };
        let durable = offset..offset + contents.len() as u32;
        // What it has replaced does not come back.
        let earlier = core::mem::take(&mut self.journal).into_iter();
        self.journal =
            earlier.flat_map(|(serial, change)| outside(change, &durable).map(move |part| (serial, part))).collect();
    }

    /// What is left when the power goes now. Blocks are of `block` sectors.
    pub fn survive(mut self, block: u32, choices: &mut Choices) -> Image {
        if !self.sequential {
            return self.tear(block, choices);
        }
        let changes = self.journal.len();
        let whole = choices.decide("changes", (0, &[]), |rng| match rng.below(4) {
            0 => 0,
            1 => changes,
            _ => rng.below(changes as u64 + 1) as usize,
        });
        for (_, change) in self.journal.iter().take(whole) {
            apply(&mut self.image, change, u32::MAX);
        }
        if let Some((_, change @ Change::Write { contents, .. })) = self.journal.get(whole) {
            let blocks = contents.len() as u64 / u64::from(block);
            apply(&mut self.image, change, choices.below("blocks", blocks + 1) as u32 * block);
        }
        self.image
    }

    fn tear(mut self, block: u32, choices: &mut Choices) -> Image {
        let block = block as usize;
        for (_, change) in &self.journal {
            let Change::Write { offset, contents } = change else { continue };
            for (place, contents) in (*offset as usize..).step_by(block).zip(contents.chunks(block)) {
                if choices.chance("kept", 1, 2) {
                    let kept = &mut self.image.contents[place..place + contents.len()];
                    kept.iter_mut().zip(contents).for_each(|(to, from)| *to = Some(from.clone()));
                }
            }
        }
        self.image
    }
}

/// What a change of a conventional zone does before and after these sectors.
fn outside(change: Change, sectors: &Range<u32>) -> impl Iterator<Item = Change> + use<> {
    let Change::Write { offset, contents } = change else { unreachable!("only sequential zones are managed") };
    let end = offset + contents.len() as u32;
    let parts = [offset..sectors.start.clamp(offset, end), sectors.end.clamp(offset, end)..end];
    let part = move |part: Range<u32>| {
        let contents = contents[(part.start - offset) as usize..(part.end - offset) as usize].to_vec();
        Change::Write { offset: part.start, contents }
    };
    parts.into_iter().filter(|part| !part.is_empty()).map(part)
}

/// Applies a change to an image; of a write only the first `most` sectors.
fn apply(image: &mut Image, change: &Change, most: u32) {
    match change {
        Change::Write { offset, contents } => {
            for (place, content) in (*offset as usize..).zip(contents).take(most as usize) {
                image.contents[place] = Some(content.clone());
            }
            image.wp = image.wp.max(offset + (contents.len() as u32).min(most));
        }
        Change::Reset => {
            image.contents.fill(None);
            image.wp = 0;
        }
        Change::Finish { wp } => image.wp = *wp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_core::random::Rng;

    fn content(of: u64) -> Content {
        Arc::new([of; SECTOR_WORDS])
    }

    fn written(store: &mut ZoneStore, serial: u64, offset: u32, sectors: u32) {
        store.write(serial, offset, (0..sectors).map(|_| content(serial)).collect());
    }

    fn seen(image: &Image) -> Vec<u64> {
        image.contents.iter().map(|content| content.as_ref().map_or(0, |content| content[0])).collect()
    }

    fn store(sequential: bool) -> ZoneStore {
        let mut store = ZoneStore::new(sequential, Image::unwritten(8));
        written(&mut store, 1, 0, 2);
        written(&mut store, 2, 2, 2);
        store.commit(1);
        store.reset(3);
        written(&mut store, 4, 0, 4);
        store
    }

    #[test]
    fn a_sequential_zone_keeps_a_prefix_of_what_happened_and_never_less_than_was_flushed() {
        let legal: [&[u64]; 8] = [&[1, 1], &[1, 1, 2], &[1, 1, 2, 2], &[], &[4], &[4, 4], &[4, 4, 4], &[4, 4, 4, 4]];
        let mut found = [false; 8];
        for seed in 0..300 {
            let image = store(true).survive(1, &mut Choices::new(Rng::new(seed)));
            let mut kept = seen(&image);
            kept.truncate(image.wp as usize);
            let which = legal.iter().position(|legal| **legal == kept[..]);
            found[which.unwrap_or_else(|| panic!("{kept:?} is no prefix"))] = true;
            assert!(seen(&image)[image.wp as usize..].iter().all(|of| *of == 0), "data beyond the write pointer");
        }
        assert_eq!(found, [true; 8], "some outcome never happens");
    }

    #[test]
    fn a_write_is_torn_at_blocks_only() {
        for seed in 0..100 {
            let mut store = ZoneStore::new(true, Image::unwritten(8));
            written(&mut store, 1, 0, 8);
            assert!(store.survive(4, &mut Choices::new(Rng::new(seed))).wp.is_multiple_of(4));
        }
    }

    #[test]
    fn a_conventional_zone_is_torn_at_every_block() {
        let mut outcomes = alloc::collections::BTreeSet::new();
        for seed in 0..400 {
            let mut store = ZoneStore::new(false, Image::unwritten(3));
            written(&mut store, 1, 0, 2);
            store.commit(1);
            written(&mut store, 2, 1, 2);
            written(&mut store, 3, 2, 1);
            outcomes.insert(seen(&store.survive(1, &mut Choices::new(Rng::new(seed)))));
        }
        let all: Vec<[u64; 3]> = [[1, 1, 0], [1, 1, 2], [1, 1, 3], [1, 2, 0], [1, 2, 2], [1, 2, 3]].into();
        assert!(outcomes.iter().eq(all.iter().map(|o| o.as_slice())), "{outcomes:?}");
    }

    #[test]
    fn fua_alone_makes_its_own_blocks_durable_and_no_others() {
        let mut outcomes = alloc::collections::BTreeSet::new();
        for seed in 0..400 {
            let mut store = ZoneStore::new(false, Image::unwritten(4));
            written(&mut store, 1, 0, 4);
            written(&mut store, 2, 1, 2);
            store.commit_alone(2);
            written(&mut store, 3, 2, 1);
            outcomes.insert(seen(&store.survive(1, &mut Choices::new(Rng::new(seed)))));
        }
        let ends = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let all = ends.iter().flat_map(|(first, last)| [2, 3].map(|third| [*first, 2, third, *last]));
        assert!(
            outcomes.iter().map(|left| left.as_slice()).eq(sorted(all).iter().map(|o| o.as_slice())),
            "{outcomes:?}"
        );
    }

    fn sorted(all: impl Iterator<Item = [u64; 4]>) -> Vec<[u64; 4]> {
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_block_of_a_conventional_zone_is_never_torn() {
        for seed in 0..50 {
            let mut store = ZoneStore::new(false, Image::unwritten(8));
            written(&mut store, 1, 0, 8);
            let kept = seen(&store.survive(4, &mut Choices::new(Rng::new(seed))));
            assert!(kept.chunks(4).all(|block| block == [0; 4] || block == [1; 4]), "{kept:?}");
        }
    }
}
