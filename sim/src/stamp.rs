//! Contents that say whose they are: a block or a sector that is read where it does not belong, or torn, is recognised exactly.

use core::sync::atomic::Ordering::Relaxed;

use shingle_core::block::{Data, Payload};

/// In the upper bits of a unit's first word, above its place.
const TAG: u64 = 0xb10c << 48;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a block or a sector reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Zeroes.
    Zeroes,
    /// The data of a request: its number, and for which block of the volume or sector of the request it was.
    Data(u64, u32),
    /// What nobody has written, or parts of several writes.
    Garbage,
}

/// Fills `data`, of whole units of so many words, with what request `request` writes from place `first` on.
pub(super) fn stamp<const WORDS: usize>(data: &Data, request: u64, first: u32) {
    for (place, words) in (first..).zip(data.words().as_chunks::<WORDS>().0) {
        let head = [TAG | u64::from(place), request];
        let body = filling(head);
        for (at, word) in words.iter().enumerate() {
            word.store(head.get(at).copied().unwrap_or(body.wrapping_add((at as u64).wrapping_mul(STEP))), Relaxed);
        }
    }
}

/// The block of the volume that these first words of a block were written to, if they are a stamp.
pub(super) fn place_of(head: u64) -> Option<u32> {
    u32::try_from(head ^ TAG).ok()
}

/// What each unit of a payload holds.
pub(super) fn read_stamps<const WORDS: usize>(payload: &Payload) -> impl Iterator<Item = Seen> + '_ {
    payload.segments().iter().flat_map(|data| data.words().as_chunks::<WORDS>().0).map(|words| {
        let word = |at: usize| words[at].load(Relaxed);
        let (head, mut places) = ([word(0), word(1)], 2..WORDS);
        if head == [0, 0] && places.clone().all(|at| word(at) == 0) {
            return Seen::Zeroes;
        }
        let body = filling(head);
        match u32::try_from(head[0] ^ TAG) {
            Ok(place) if places.all(|at| word(at) == body.wrapping_add((at as u64).wrapping_mul(STEP))) => {
                Seen::Data(head[1], place)
            }
            _ => Seen::Garbage,
        }
    })
}

/// What the words behind the head begin from.
fn filling([place, request]: [u64; 2]) -> u64 {
    place.wrapping_mul(0xa076_1d64_78bd_642f) ^ request.wrapping_mul(0xe703_7ed1_a0b4_28db)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{BLOCK_BYTES, read_stamps, stamp};
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn every_block_tells_where_it_was_written_and_by_whom_and_every_mix_up_is_seen() {
        let data = Data::zeroed(3 * BLOCK_BYTES);
        stamp(&data, 7, 40);
        let payload = Payload::Segments(vec![data.slice(0, BLOCK_BYTES), data.slice(BLOCK_BYTES, 2 * BLOCK_BYTES)]);
        let of = |block| Seen::Data(7, block);
        assert_eq!(read_stamps(&payload).collect::<Vec<_>>(), [of(40), of(41), of(42)]);
        // One sector of an older write is enough.
        let older = Data::zeroed(BLOCK_BYTES);
        stamp(&older, 6, 41);
        data.slice(BLOCK_BYTES + 3584, 512).copy_from_words(&older.words()[448..]);
        assert_eq!(read_stamps(&payload).collect::<Vec<_>>(), [of(40), Seen::Garbage, of(42)]);
        data.slice(0, BLOCK_BYTES).fill(0);
        assert_eq!(read_stamps(&payload).next(), Some(Seen::Zeroes));
        data.words()[511].store(1, Relaxed);
        assert_eq!(read_stamps(&payload).next(), Some(Seen::Garbage));
    }

    fn read_sectors(payload: &Payload) -> Vec<Seen> {
        super::read_stamps::<64>(payload).collect()
    }

    #[test]
    fn a_stamp_tells_request_and_sector_and_every_mix_up_is_seen() {
        let data = Data::zeroed(3 * 512);
        super::stamp::<64>(&data, 7, 4);
        let all = [Seen::Data(7, 4), Seen::Data(7, 5), Seen::Data(7, 6)];
        assert_eq!(read_sectors(&Payload::Data(data.clone())), all);
        data.words()[64 + 9].store(1, Relaxed);
        assert_eq!(read_sectors(&Payload::Data(data.clone()))[1], Seen::Garbage);
        data.fill(0);
        assert_eq!(read_sectors(&Payload::Data(data)), [Seen::Zeroes; 3]);
    }
}
