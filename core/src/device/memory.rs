//! A medium in memory, which takes only as much of it as was written.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::ops::Range;
use core::sync::atomic::AtomicU64;

use crate::block::{Bio, Op, Payload, Reason, Status};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};

const SECTOR_WORDS: u64 = SECTOR_BYTES as u64 / 8;
const CHUNK_WORDS: u64 = 32 * SECTOR_WORDS;
const CHUNK_BYTES: u64 = CHUNK_WORDS * 8;

/// Sectors that read as one fixed byte until they are written. Memory is taken in chunks of 16 KiB.
pub struct SparseMemory {
    /// The words of each chunk up to the last that was written: those behind read as unwritten.
    chunks: BTreeMap<u64, Vec<u64>>,
    /// Empty ones for what is written next, at most as many as are in use: it takes the system longer to give a page than to fill one.
    spare: Vec<Vec<u64>>,
    unwritten: u64,
    /// Most bytes of chunks, spare ones included, if there is a limit.
    limit: Option<u64>,
}

impl SparseMemory {
    /// A medium of which every byte reads as `unwritten`.
    #[must_use]
    pub fn new(unwritten: u8) -> Self {
        let unwritten = u64::from_ne_bytes([unwritten; 8]);
        Self { chunks: BTreeMap::new(), spare: Vec::new(), unwritten, limit: None }
    }

    /// Bytes of memory that what was written takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK_BYTES
    }

    /// Most bytes that it takes, if there is a limit.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// From now on takes no more than so many bytes: a write that would need more does nothing, and fails.
    pub fn set_limit(&mut self, bytes: u64) {
        self.limit = Some(bytes);
    }

    /// Whether something can be written to `sectors` at `at` within the limit. Spare chunks never add to it: they were in use.
    fn check_room(&self, at: Sector, sectors: u32) -> Result<(), Reason> {
        let Some(limit) = self.limit else { return Ok(()) };
        let (start, len) = words_of(at, sectors);
        let needed = start / CHUNK_WORDS..(start + len as u64).div_ceil(CHUNK_WORDS);
        let with = |more: u64| self.bytes() + more * CHUNK_BYTES;
        let most = needed.end - needed.start;
        // Which of them are there is looked at only near the limit.
        if with(most) <= limit || with(most - self.chunks.range(needed).count() as u64) <= limit {
            return Ok(());
        }
        let message = format!(
            "{limit} bytes of data is all that may be kept in memory: raise `memory` of the disk, or reset or discard"
        );
        Err(Reason::Host(Status::NoSpace, message.into()))
    }

    /// Does what `bio` asks for, as a device without zones whose discarded sectors read as zeroes.
    ///
    /// # Errors
    /// [`Reason::NotSupported`] for zone operations; else as [`SparseMemory::try_write`].
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
                let chunk = self.chunks.get(&piece.chunk).map_or(&[][..], |chunk| chunk);
                let from = &chunk[piece.inside.start.min(chunk.len())..piece.inside.end.min(chunk.len())];
                let (written, behind) = to[piece.outside].split_at(from.len());
                shingle_mem::store(written, from);
                shingle_mem::fill(behind, self.unwritten);
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
    /// [`Reason::NoMemory`] if there is no memory; then some of the sectors may have been written. [`Reason::Host`] with
    /// [`Status::NoSpace`] beyond the limit; then none was.
    pub fn try_write(&mut self, at: Sector, sectors: u32, payload: &Payload) -> Result<(), Reason> {
        self.check_room(at, sectors)?;
        let (mut word, mut left) = words_of(at, sectors);
        let (unwritten, mut last) = (self.unwritten, None);
        for data in payload.segments() {
            let from = data.words();
            let from = &from[..from.len().min(left)];
            for piece in pieces(word, from.len()) {
                // Of many short segments several lie in one chunk, which is looked for once.
                let chunk = match last {
                    Some((number, chunk)) if number == piece.chunk => chunk,
                    _ => self.chunk(piece.chunk)?,
                };
                put(chunk, piece.inside.start, &from[piece.outside], unwritten);
                last = Some((piece.chunk, chunk));
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
        self.check_room(at, sectors)?;
        let (word, left) = words_of(at, sectors);
        for piece in pieces(word, left) {
            let unwritten = self.unwritten;
            let chunk = self.chunk(piece.chunk)?;
            reach(chunk, piece.inside.end, unwritten);
            chunk[piece.inside].fill(0);
        }
        Ok(())
    }

    /// Makes `sectors` at `at` unwritten, and gives back the memory of every chunk among them, or keeps it for what is written next.
    pub fn discard(&mut self, at: Sector, sectors: u32) {
        let (start, len) = words_of(at, sectors);
        let end = start + len as u64;
        let whole = start.div_ceil(CHUNK_WORDS)..end / CHUNK_WORDS;
        if whole.is_empty() {
            return self.forget(start, len);
        }
        self.forget(start, (whole.start * CHUNK_WORDS - start) as usize);
        self.forget(whole.end * CHUNK_WORDS, (end % CHUNK_WORDS) as usize);
        for (_, mut chunk) in self.chunks.extract_if(whole, |_, _| true) {
            chunk.clear();
            self.spare.push(chunk);
        }
        self.spare.truncate(self.chunks.len());
    }

    /// Makes words of chunks that stay unwritten.
    fn forget(&mut self, start: u64, len: usize) {
        for piece in pieces(start, len) {
            let Some(chunk) = self.chunks.get_mut(&piece.chunk).filter(|chunk| chunk.len() > piece.inside.start) else {
                continue;
            };
            if piece.inside.end < chunk.len() {
                chunk[piece.inside].fill(self.unwritten);
            } else {
                chunk.truncate(piece.inside.start);
            }
        }
    }

    /// A chunk that something is written to.
    fn chunk(&mut self, number: u64) -> Result<&mut Vec<u64>, Reason> {
        match self.chunks.entry(number) {
            Entry::Occupied(chunk) => Ok(chunk.into_mut()),
            Entry::Vacant(place) => {
                let mut words = self.spare.pop().unwrap_or_default();
                words.try_reserve_exact(CHUNK_WORDS as usize).map_err(|_| Reason::NoMemory)?;
                Ok(place.insert(words))
            }
        }
    }
}

/// Makes a chunk have at least so many words.
fn reach(chunk: &mut Vec<u64>, len: usize, unwritten: u64) {
    if chunk.len() < len {
        chunk.resize(len, unwritten);
    }
}

/// Writes words to a chunk: over those that it has, and behind them.
fn put(chunk: &mut Vec<u64>, at: usize, from: &[AtomicU64], unwritten: u64) {
    reach(chunk, at, unwritten);
    let (over, behind) = from.split_at(from.len().min(chunk.len() - at));
    shingle_mem::load(&mut chunk[at..at + over.len()], over);
    shingle_mem::append(chunk, behind);
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
    fn what_is_written_behind_before_and_over_what_is_there_reads_back_and_what_was_discarded_does_not() {
        let mut rng = crate::random::Rng::new(5);
        for unwritten in [0, 0xee] {
            let (mut memory, mut plain) = (SparseMemory::new(unwritten), [unwritten; 100]);
            for byte in 1..=200 {
                let at = rng.below(100);
                let count = 1 + rng.below(100 - at).min(rng.below(60));
                let range = at as usize..(at + count) as usize;
                match rng.below(4) {
                    0 => {
                        memory.discard(Sector(at), count as u32);
                        plain[range].fill(unwritten);
                    }
                    1 => {
                        memory.zero(Sector(at), count as u32).unwrap();
                        plain[range].fill(0);
                    }
                    _ => {
                        memory.write(Sector(at), count as u32, &filled(&[(count as usize * 512, byte)]));
                        plain[range].fill(byte);
                    }
                }
                let expected: Vec<u8> = plain.iter().flat_map(|byte| [*byte; 512]).collect();
                assert!(sectors(&memory, 0, 100) == expected, "after step {byte}");
            }
        }
    }

    #[test]
    fn of_what_was_discarded_as_much_is_kept_as_is_in_use_and_nothing_of_it_reads_back() {
        let mut memory = SparseMemory::new(0);
        memory.write(Sector(0), 32 * 10, &filled(&[(512 * 32 * 10, 1)]));
        let after = |memory: &mut SparseMemory, at: u64, count: u32| {
            memory.discard(Sector(at * 32), count * 32);
            (memory.chunks.len(), memory.spare.len())
        };
        assert_eq!(after(&mut memory, 7, 3), (7, 3));
        assert_eq!(after(&mut memory, 3, 4), (3, 3));
        memory.write(Sector(33 * 32), 1, &filled(&[(512, 2)]));
        assert_eq!((memory.chunks.len(), memory.spare.len(), memory.bytes()), (4, 2, 4 * 16384));
        assert_eq!(sectors(&memory, 33 * 32, 2), [[2; 512], [0; 512]].concat());
        assert_eq!(after(&mut memory, 0, 34), (0, 0));
    }

    #[test]
    fn beyond_the_limit_nothing_is_written_and_what_was_discarded_can_be_written_again() {
        let mut memory = SparseMemory::new(0);
        memory.set_limit(2 * 16384);
        memory.write(Sector(31), 2, &filled(&[(1024, 1)]));
        let full = memory.try_write(Sector(63), 2, &filled(&[(1024, 2)])).unwrap_err();
        assert_eq!(Status::from(&full), Status::NoSpace);
        assert!(full.to_string().contains("32768 bytes"), "{full}");
        assert_eq!(sectors(&memory, 63, 2), [0; 1024], "not even the part for which there is room");
        memory.try_write(Sector(0), 64, &filled(&[(32768, 3)])).unwrap();
        memory.discard(Sector(0), 32);
        memory.try_write(Sector(64), 1, &filled(&[(512, 4)])).unwrap();
        assert_eq!((memory.bytes(), memory.spare.len()), (2 * 16384, 0));
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
