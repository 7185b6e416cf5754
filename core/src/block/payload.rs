//! What a bio carries: memory, in one or more segments, or a zone list.
//!
//! Memory is a slice of relaxed 64-bit atomics. That costs nothing (a relaxed access is a plain move) and makes every
//! sharing that a block stack needs sound without a line of unsafe here: split pieces over one buffer, a kernel or a
//! guest that writes into it, a bio on another thread. See `docs/decisions/0002-memory-is-words.md`.

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::AtomicU64;

use super::remote::Remote;
use crate::prelude::*;
use crate::sector::SECTOR_BYTES;
use crate::zone::Zone;

const WORD_BYTES: usize = size_of::<u64>();
const PAGE_WORDS: usize = 4096 / WORD_BYTES;

/// Memory that bios point into. It stays valid until its last owner drops it.
pub trait Memory: Send + Sync {
    /// The memory itself, as words in the machine's byte order.
    fn words(&self) -> &[AtomicU64];

    /// What others know this memory as, if they do.
    fn region(&self) -> Option<Region> {
        None
    }
}

/// The number of memory that others know too: a kernel with which it is registered, a guest whose it is. Who moves data may
/// name the place there in the place of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(pub u32);

/// Zeroed memory from the heap, aligned to 4096 bytes so that it suits direct I/O.
pub struct Buffer {
    words: Box<[AtomicU64]>,
    skip: usize,
    len: usize,
}

impl Buffer {
    /// `bytes` of zeroes, rounded up to whole words of 8 bytes; `None` if there is no memory.
    #[must_use]
    pub fn try_new(bytes: usize) -> Option<Self> {
        let len = bytes.div_ceil(WORD_BYTES);
        let words = shingle_mem::zeroed(len.checked_add(PAGE_WORDS)?)?;
        let past_page = words.as_ptr().addr() % 4096 / WORD_BYTES;
        Some(Self { words, skip: (PAGE_WORDS - past_page) % PAGE_WORDS, len })
    }
}

impl Memory for Buffer {
    fn words(&self) -> &[AtomicU64] {
        &self.words[self.skip..self.skip + self.len]
    }
}

/// One segment: a range of some memory. Start and length are multiples of 8 bytes; a bio's data is whole sectors. Bytes at other
/// places, as a guest's headers and statuses, are read and written within a range that has them.
#[derive(Clone)]
pub struct Data {
    memory: Arc<dyn Memory>,
    start: usize,
    len: usize,
}

impl Data {
    /// Bytes `start..start + len` of `memory`.
    ///
    /// # Panics
    /// If the range is not inside the memory or not a multiple of 8 bytes: the caller made both.
    #[must_use]
    pub fn new(memory: Arc<dyn Memory>, start: usize, len: usize) -> Self {
        assert!(start.is_multiple_of(WORD_BYTES) && len.is_multiple_of(WORD_BYTES), "data is whole words");
        let end = start.checked_add(len).expect("data range overflows");
        assert!(end <= memory.words().len() * WORD_BYTES, "data lies outside of its memory");
        Self { memory, start, len }
    }

    /// Fresh zeroed memory of `bytes`, all of it: for those who cannot go on without.
    ///
    /// # Panics
    /// If there is none. What serves requests asks with [`Data::try_zeroed`].
    #[must_use]
    pub fn zeroed(bytes: usize) -> Self {
        Self::try_zeroed(bytes).expect("out of memory")
    }

    /// Fresh zeroed memory of `bytes`, all of it; `None` if there is none.
    #[must_use]
    pub fn try_zeroed(bytes: usize) -> Option<Self> {
        let bytes = bytes.next_multiple_of(WORD_BYTES);
        Some(Self::new(Arc::new(Buffer::try_new(bytes)?), 0, bytes))
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The words of this range.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        let start = self.start / WORD_BYTES;
        &self.memory.words()[start..start + self.len / WORD_BYTES]
    }

    /// The region that it lies in and its first byte there, if others know its memory.
    #[must_use]
    pub fn region(&self) -> Option<(Region, usize)> {
        Some((self.memory.region()?, self.start))
    }

    /// Bytes `start..start + len` of this range, sharing the memory.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len(), "slice outside of the data");
        Self::new(self.memory.clone(), self.start + start, len)
    }

    /// The same memory, `len` bytes from the range's own start: how a pooled buffer is cut to its next request.
    ///
    /// # Panics
    /// If the memory is shorter.
    #[must_use]
    pub fn with_len(self, len: usize) -> Self {
        Self::new(self.memory, self.start, len)
    }

    /// Copies out `to.len()` bytes from byte `at` of the range; any alignment.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        shingle_mem::read(self.words(), at, to);
    }

    /// Copies `from` in at byte `at` of the range; any alignment. What others write to bytes beside it stays.
    pub fn write(&self, at: usize, from: &[u8]) {
        shingle_mem::write(self.words(), at, from);
    }

    /// Sets every byte to `byte`.
    pub fn fill(&self, byte: u8) {
        shingle_mem::fill(self.words(), u64::from_ne_bytes([byte; WORD_BYTES]));
    }

    /// Copies `words` over the start of the range.
    pub fn copy_from_words(&self, words: &[AtomicU64]) {
        shingle_mem::copy(&self.words()[..words.len()], words);
    }

    /// All bytes of the range, copied: for tests and small messages.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = alloc::vec![0; self.len()];
        self.read(0, &mut bytes);
        bytes
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// What a bio carries.
#[derive(Debug, Default)]
pub enum Payload {
    /// Nothing.
    #[default]
    None,
    /// One segment of memory.
    Data(Data),
    /// Several segments of memory, in device order.
    Segments(Vec<Data>),
    /// Memory that cannot be looked at here: only for devices that do not ([`takes_remote`](super::BlockDevice::takes_remote)).
    Remote(Remote),
    /// The answer to a zone report: the device appends zones up to the vector's capacity, which the sender reserved.
    Zones(Vec<Zone>),
}

impl Payload {
    /// The segments of memory that can be looked at, if any.
    #[must_use]
    pub fn segments(&self) -> &[Data] {
        match self {
            Payload::Data(data) => core::slice::from_ref(data),
            Payload::Segments(segments) => segments,
            Payload::None | Payload::Remote(_) | Payload::Zones(_) => &[],
        }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Payload::Data(data) => data.len(),
            Payload::Remote(remote) => remote.len(),
            _ => self.segments().iter().map(Data::len).sum(),
        }
    }

    /// Sectors `start..start + sectors` of the carried memory, sharing it. A payload without memory stays without.
    #[must_use]
    pub fn slice(&self, start: u32, sectors: u32) -> Payload {
        let bytes = |sectors: u32| sectors as usize * SECTOR_BYTES as usize;
        let (mut skip, mut want) = (bytes(start), bytes(sectors));
        if let Payload::Remote(remote) = self {
            return Payload::Remote(remote.slice(skip, want));
        }
        if let Payload::Data(data) = self {
            return Payload::Data(data.slice(skip, want));
        }
        let mut parts = Vec::new();
        for data in self.segments() {
            let from = skip.min(data.len());
            let len = want.min(data.len() - from);
            if len > 0 {
                parts.push(data.slice(from, len));
            }
            skip -= from;
            want -= len;
        }
        match parts.len() {
            0 => Payload::None,
            1 => Payload::Data(parts.remove(0)),
            _ => Payload::Segments(parts),
        }
    }

    /// Copies the memory into one segment of as many bytes. Memory that cannot be looked at stays where it is.
    pub fn copy_to(&self, whole: &Data) {
        self.for_each_part(whole, |segment, part| part.copy_from_words(segment.words()));
    }

    /// Copies one segment of as many bytes into the memory.
    pub fn copy_from(&self, whole: &Data) {
        self.for_each_part(whole, |segment, part| segment.copy_from_words(part.words()));
    }

    /// Segment by segment with the part of `whole` that stands for it.
    fn for_each_part(&self, whole: &Data, visit: impl Fn(&Data, &Data)) {
        let mut at = 0;
        for segment in self.segments() {
            visit(segment, &whole.slice(at, segment.len()));
            at += segment.len();
        }
    }

    /// Calls `visit` with the words of each segment and the sector offset at which the segment begins.
    pub fn for_each_segment(&self, mut visit: impl FnMut(u64, &Data)) {
        let mut at = 0;
        for data in self.segments() {
            visit(at, data);
            at += data.len() as u64 / u64::from(SECTOR_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_copied_to_one_and_back_in_their_order() {
        let filled = |byte: u8, bytes: usize| {
            let data = Data::zeroed(bytes);
            data.fill(byte);
            data
        };
        let whole = Data::zeroed(1536);
        Payload::Segments(vec![filled(1, 512), filled(2, 1024)]).copy_to(&whole);
        assert_eq!(whole.to_vec(), [vec![1; 512], vec![2; 1024]].concat());
        let other = [filled(9, 1024), filled(9, 512)];
        Payload::Segments(other.to_vec()).copy_from(&whole);
        assert_eq!([other[0].to_vec(), other[1].to_vec()].concat(), whole.to_vec());
    }

    #[test]
    fn a_buffer_is_aligned_for_direct_io() {
        for bytes in [8, 512, 4096, 100_000] {
            assert_eq!(Buffer::try_new(bytes).unwrap().words().as_ptr().addr() % 4096, 0, "{bytes} bytes");
        }
    }

    #[test]
    fn bytes_come_back_as_they_went_in_at_any_alignment() {
        let data = Data::zeroed(64);
        for at in 0..20 {
            for len in 0..30 {
                let pattern: Vec<u8> = (0..len as u8).map(|n| n ^ at as u8 | 0x80).collect();
                data.fill(0);
                data.write(at, &pattern);
                let mut back = alloc::vec![0; len];
                data.read(at, &mut back);
                assert_eq!(back, pattern, "{len} bytes at {at}");
                assert_eq!(data.to_vec().iter().filter(|b| **b != 0).count(), len, "a byte beside the range changed");
            }
        }
    }

    /// A guest's memory of 5 GiB, of which nobody touches more than a few pages.
    struct Guest(Box<[AtomicU64]>);

    impl Memory for Guest {
        fn words(&self) -> &[AtomicU64] {
            &self.0
        }

        fn region(&self) -> Option<Region> {
            Some(Region(7))
        }
    }

    #[test]
    fn a_segment_lies_anywhere_in_a_guests_memory_and_says_where() {
        const GIB: usize = 1 << 30;
        let memory = Arc::new(Guest(shingle_mem::zeroed(5 * GIB / WORD_BYTES).expect("address space")));
        let last = Data::new(memory.clone(), 5 * GIB - 4096, 4096);
        last.fill(3);
        let piece = last.slice(1024, 512);
        assert_eq!((piece.region(), piece.to_vec()), (Some((Region(7), 5 * GIB - 3072)), alloc::vec![3; 512]));
        let all = Data::new(memory, 0, 5 * GIB);
        all.write(5 * GIB - 5, &[1, 2, 4]);
        let mut end = [0; 6];
        all.read(5 * GIB - 6, &mut end);
        assert_eq!((all.len(), end), (5 * GIB, [3, 1, 2, 4, 3, 3]));
        assert_eq!(Data::zeroed(8).region(), None);
    }

    #[test]
    fn slicing_segments_shares_exactly_the_wanted_sectors() {
        let whole = Data::zeroed(6 * 512);
        (0..6).for_each(|n| whole.slice(n * 512, 512).fill(n as u8 + 1));
        let parts =
            Payload::Segments(alloc::vec![whole.slice(0, 512), whole.slice(512, 1024), whole.slice(1536, 1536)]);
        for start in 0..6 {
            for sectors in 1..=6 - start {
                let piece = parts.slice(start, sectors);
                let bytes: Vec<u8> = piece.segments().iter().flat_map(|d| d.to_vec()).collect();
                let expected: Vec<u8> = (start..start + sectors).flat_map(|n| [n as u8 + 1; 512]).collect();
                assert_eq!(bytes, expected, "{sectors} sectors at {start}");
            }
        }
    }
}
