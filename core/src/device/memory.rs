//! A medium in memory, which takes only as much of it as was written.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::ops::Range;

use crate::block::{Bio, Op, Payload, Reason};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};

const SECTOR_WORDS: u64 = SECTOR_BYTES as u64 / 8;
const CHUNK_WORDS: u64 = 32 * SECTOR_WORDS;

/// Sectors that read as one fixed byte until they are written. Memory is taken in chunks of 16 KiB.
pub struct SparseMemory {
    chunks: BTreeMap<u64, Box<[u64]>>,
    unwritten: u64,
}

impl SparseMemory {
    /// A medium of which every byte reads as `unwritten`.
    #[must_use]
    pub fn new(unwritten: u8) -> Self {
        Self { chunks: BTreeMap::new(), unwritten: u64::from_ne_bytes([unwritten; 8]) }
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK_WORDS * 8
    }

    /// Does what `bio` asks for, as a device without zones whose discarded sectors read as zeroes.
    ///
    /// # Errors
    /// [`Reason::NotSupported`] for zone operations; [`Reason::NoMemory`] if there is no memory.
    pub fn execute(&mut self, bio: &Bio) -> Result<(), Reason> {
        match bio.op {
            Op::Read => self.read(bio.sector, bio.sectors, &bio.payload),
            Op::Write => self.try_write(bio.sector, bio.sectors, &bio.payload)?,
            Op::WriteZeroes | Op::Discard => self.zero(bio.sector, bio.sectors)?,
            Op::Flush => {}
            _ => return Err(Reason::NotSupported),
        }
        Ok(())
    }

    /// Copies `sectors` at `at` into the start of `payload`.
    pub fn read(&self, at: Sector, sectors: u32, payload: &Payload) {
        let (mut word, mut left) = words_of(at, sectors);
        for data in payload.segments() {
            let to = data.words();
            let to = &to[..to.len().min(left)];
            for piece in pieces(word, to.len()) {
                let to = &to[piece.outside];
                match self.chunks.get(&piece.chunk) {
                    Some(chunk) => shingle_mem::store(to, &chunk[piece.inside]),
                    None => shingle_mem::fill(to, self.unwritten),
                }
            }
            word += to.len() as u64;
            left -= to.len();
        }
    }

    /// Copies the start of `payload` to `sectors` at `at`: for simulated drives, which cannot go on without memory.
    ///
    /// # Panics
    /// If there is none.
    pub fn write(&mut self, at: Sector, sectors: u32, payload: &Payload) {
        self.try_write(at, sectors, payload).expect("out of memory");
    }

    /// Copies the start of `payload` to `sectors` at `at`.
    ///
    /// # Errors
    /// [`Reason::NoMemory`] if there is no memory; then some of the sectors may have been written.
    pub fn try_write(&mut self, at: Sector, sectors: u32, payload: &Payload) -> Result<(), Reason> {
        let (mut word, mut left) = words_of(at, sectors);
        for data in payload.segments() {
            let from = data.words();
            let from = &from[..from.len().min(left)];
            for piece in pieces(word, from.len()) {
                let to = &mut self.chunk(piece.chunk)?[piece.inside];
                shingle_mem::load(to, &from[piece.outside]);
            }
            word += from.len() as u64;
            left -= from.len();
        }
        Ok(())
    }

    /// Makes `sectors` at `at` read as zeroes.
    ///
    /// # Errors
    /// As [`SparseMemory::try_write`]; never if what is unwritten reads as zeroes.
    pub fn zero(&mut self, at: Sector, sectors: u32) -> Result<(), Reason> {
        if self.unwritten == 0 {
            self.discard(at, sectors);
            return Ok(());
        }
        let (word, left) = words_of(at, sectors);
        for piece in pieces(word, left) {
            self.chunk(piece.chunk)?[piece.inside].fill(0);
        }
        Ok(())
    }

    /// Makes `sectors` at `at` unwritten, and gives back the memory of every chunk among them.
    pub fn discard(&mut self, at: Sector, sectors: u32) {
        let (start, len) = words_of(at, sectors);
        let end = start + len as u64;
        let whole = start.div_ceil(CHUNK_WORDS)..end / CHUNK_WORDS;
        if whole.is_empty() {
            return self.forget(start, len);
        }
        self.forget(start, (whole.start * CHUNK_WORDS - start) as usize);
        self.forget(whole.end * CHUNK_WORDS, (end % CHUNK_WORDS) as usize);
        self.chunks.extract_if(whole, |_, _| true).for_each(drop);
    }

    /// Makes words of chunks that stay unwritten.
    fn forget(&mut self, start: u64, len: usize) {
        for piece in pieces(start, len) {
            if let Some(chunk) = self.chunks.get_mut(&piece.chunk) {
                chunk[piece.inside].fill(self.unwritten);
            }
        }
    }

    fn chunk(&mut self, number: u64) -> Result<&mut [u64], Reason> {
        match self.chunks.entry(number) {
            Entry::Occupied(chunk) => Ok(chunk.into_mut()),
            Entry::Vacant(place) => {
                let mut words = Vec::new();
                words.try_reserve_exact(CHUNK_WORDS as usize).map_err(|_| Reason::NoMemory)?;
                words.resize(CHUNK_WORDS as usize, self.unwritten);
                Ok(place.insert(words.into_boxed_slice()))
            }
        }
    }
}

/// The part of a range of words that lies in one chunk.
struct Piece {
    chunk: u64,
    /// Where in the chunk.
    inside: Range<usize>,
    /// Where in the range.
    outside: Range<usize>,
}

fn words_of(at: Sector, sectors: u32) -> (u64, usize) {
    (at.0 * SECTOR_WORDS, sectors as usize * SECTOR_WORDS as usize)
}

fn pieces(start: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let (chunk, first) = ((start + done as u64) / CHUNK_WORDS, ((start + done as u64) % CHUNK_WORDS) as usize);
        let n = (len - done).min(CHUNK_WORDS as usize - first);
        let piece = Piece { chunk, inside: first..first + n, outside: done..done + n };
        done += n;
        (n > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Data;

    fn filled(bytes: &[(usize, u8)]) -> Payload {
        let segment = |(len, byte): &(usize, u8)| {
            let data = Data::zeroed(*len);
            data.fill(*byte);
            data
        };
        Payload::Segments(bytes.iter().map(segment).collect())
    }

    fn sectors(memory: &SparseMemory, at: u64, count: u32) -> Vec<u8> {
        let data = Data::zeroed(count as usize * 512);
        memory.read(Sector(at), count, &Payload::Data(data.clone()));
        data.to_vec()
    }

    #[test]
    fn what_was_written_reads_back_across_chunks_and_odd_segments_and_the_rest_reads_as_unwritten() {
        let mut memory = SparseMemory::new(0xee);
        memory.write(Sector(30), 4, &filled(&[(8, 1), (1000, 2), (1040, 3)]));
        let back = sectors(&memory, 29, 6);
        let runs = [(512, 0xee), (8, 1), (1000, 2), (1040, 3), (512, 0xee)];
        let expected: Vec<u8> = runs.iter().flat_map(|(n, byte)| vec![*byte; *n]).collect();
        assert!(back == expected);
        assert_eq!(memory.bytes(), 2 * 16384);
    }

    #[test]
    fn a_short_write_takes_only_the_start_of_the_payload() {
        let mut memory = SparseMemory::new(0);
        memory.write(Sector(0), 1, &filled(&[(256, 1), (1024, 2)]));
        let expected: Vec<u8> = [(256, 1), (256, 2), (512, 0)].iter().flat_map(|(n, byte)| vec![*byte; *n]).collect();
        assert!(sectors(&memory, 0, 2) == expected);
    }

    #[test]
    fn discarding_gives_memory_back_and_touches_nothing_beside_the_range() {
        for (at, count) in [(0, 128), (1, 126), (31, 2), (40, 3), (32, 32), (33, 95), (5, 0)] {
            let mut memory = SparseMemory::new(9);
            memory.write(Sector(0), 128, &filled(&[(128 * 512, 1)]));
            memory.discard(Sector(at), count);
            let expected = |n: u64| if (at..at + u64::from(count)).contains(&n) { 9 } else { 1 };
            for n in 0..128 {
                assert!(sectors(&memory, n, 1) == [expected(n); 512], "sector {n} after {count} at {at}");
            }
            memory.zero(Sector(at), count).unwrap();
            assert!(sectors(&memory, at, count).iter().all(|byte| *byte == 0));
        }
        let mut memory = SparseMemory::new(0);
        memory.write(Sector(0), 128, &filled(&[(128 * 512, 1)]));
        memory.zero(Sector(0), 128).unwrap();
        assert_eq!(memory.bytes(), 0);
    }
}
