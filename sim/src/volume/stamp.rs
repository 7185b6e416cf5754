//! Contents that say whose they are: a block that is read where it does not belong, or torn, is recognised exactly.

use core::sync::atomic::Ordering::Relaxed;

use shingle_core::block::{Data, Payload};

/// Bytes of a block of a volume.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors of a block of a volume.
pub const BLOCK_SECTORS: u32 = 8;

const BLOCK_WORDS: usize = BLOCK_BYTES / 8;
/// In the upper bits of a block's first word, above its number.
const TAG: u64 = 0xb10c << 48;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a block reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Zeroes.
    Zeroes,
    /// What a request has written to a block, perhaps another one.
    Data {
        /// The block that it was written to.
        block: u32,
        /// The request's number.
        request: u64,
    },
    /// What nobody has written, or parts of several writes.
    Garbage,
}

/// Fills `data`, of whole blocks, with what request `request` writes from block `first` on.
pub fn stamp(data: &Data, request: u64, first: u32) {
    for (block, words) in (first..).zip(data.words().chunks_exact(BLOCK_WORDS)) {
        let head = [TAG | u64::from(block), request];
        let body = filling(head);
        for (place, word) in words.iter().enumerate() {
            word.store(
                head.get(place).copied().unwrap_or(body.wrapping_add((place as u64).wrapping_mul(STEP))),
                Relaxed,
            );
        }
    }
}

/// What each block of a payload holds.
pub fn read_stamps(payload: &Payload) -> impl Iterator<Item = Seen> + '_ {
    payload.segments().iter().flat_map(|data| data.words().chunks_exact(BLOCK_WORDS)).map(|words| {
        let word = |place: usize| words[place].load(Relaxed);
        let (head, places) = ([word(0), word(1)], 2..BLOCK_WORDS);
        if head == [0, 0] && places.clone().all(|place| word(place) == 0) {
            return Seen::Zeroes;
        }
        let body = filling(head);
        let whole = |place: usize| word(place) == body.wrapping_add((place as u64).wrapping_mul(STEP));
        match u32::try_from(head[0] ^ TAG) {
            Ok(block) if places.clone().all(whole) => Seen::Data { block, request: head[1] },
            _ => Seen::Garbage,
        }
    })
}

/// What the words behind the head begin from.
fn filling([block, request]: [u64; 2]) -> u64 {
    block.wrapping_mul(0xa076_1d64_78bd_642f) ^ request.wrapping_mul(0xe703_7ed1_a0b4_28db)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn every_block_tells_where_it_was_written_and_by_whom_and_every_mix_up_is_seen() {
        let data = Data::zeroed(3 * BLOCK_BYTES);
        stamp(&data, 7, 40);
        let payload = Payload::Segments(vec![data.slice(0, BLOCK_BYTES), data.slice(BLOCK_BYTES, 2 * BLOCK_BYTES)]);
        let of = |block| Seen::Data { block, request: 7 };
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
}
