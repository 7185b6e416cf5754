//! The header of a batch.

use super::bytes::{Fields, Put};
use super::checksum::{CRC_BYTES, is_sealed, seal};
use super::record::{Copied, Life, Written};
use super::{Checksum, SetId};

use crate::dm::stl::{BLOCK_BYTES, BatchNo, Epoch, Generation, Lba, Pba};
use crate::prelude::*;

const MAGIC: u64 = u64::from_le_bytes(*b"stlBatch");
const VERSION: u16 = 1;
const CRC_AT: usize = 8;
/// Where its blocks are counted.
const BLOCKS_AT: usize = 80;
/// Where the last batch before this life is named.
const SINCE_AT: usize = 88;
/// Where records begin.
const FIXED_BYTES: usize = 96;
/// Most blocks of a header: a batch is read in one piece where it is replayed.
const MOST_HEADER_BLOCKS: u16 = 64;

/// What a batch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// Changes of users, in their order.
    User(Vec<Written>),
    /// Blocks that the cleaner has moved.
    Copies(Vec<Copied>),
    /// A piece of the map, and the lives that are remembered.
    Map(Vec<Life>),
    /// A root, and the same.
    Root(Vec<Life>),
    /// The headers of all batches of the zone. Its payload lies before it.
    Footer,
    /// Nothing: it fills a gap.
    Filler,
}

impl BatchKind {
    fn code(&self) -> u16 {
        match self {
            Self::User(_) => 1,
            Self::Copies(_) => 2,
            Self::Map(_) => 3,
            Self::Root(_) => 4,
            Self::Footer => 5,
            Self::Filler => 6,
        }
    }

    fn records(&self) -> usize {
        match self {
            Self::User(records) => records.len(),
            Self::Copies(records) => records.len(),
            Self::Map(lives) | Self::Root(lives) => lives.len(),
            Self::Footer | Self::Filler => 0,
        }
    }

    /// Bytes of its records.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        match self {
            Self::User(records) => records.len() * Written::BYTES,
            Self::Copies(records) => records.len() * Copied::BYTES,
            Self::Map(lives) | Self::Root(lives) => lives.len() * Life::BYTES,
            Self::Footer | Self::Filler => 0,
        }
    }

    /// Blocks of payload that its records ask for; `None`: they say nothing of it.
    fn payload(&self) -> Option<u64> {
        match self {
            Self::User(records) => {
                Some(records.iter().filter(|record| record.has_data).map(|record| u64::from(record.blocks)).sum())
            }
            Self::Copies(records) => Some(records.len() as u64),
            Self::Map(_) | Self::Root(_) | Self::Footer | Self::Filler => None,
        }
    }

    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::User(records) => records.iter().for_each(|record| record.encode(to)),
            Self::Copies(records) => records.iter().for_each(|record| record.encode(to)),
            Self::Map(lives) | Self::Root(lives) => lives.iter().for_each(|life| life.encode(to)),
            Self::Footer | Self::Filler => {}
        }
    }
}

/// Where a header belongs, so that one that lies elsewhere, or is left of an earlier life, is known for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The set.
    pub set: SetId,
    /// The first block of the header.
    pub place: Pba,
    /// How often its zone was opened.
    pub generation: Generation,
    /// The life of the volume.
    pub epoch: Epoch,
    /// Its number: of users' batches and of copies, a sequence each.
    pub number: u64,
    /// How often its number was written before, because the device failed.
    pub attempt: u32,
    /// The newest root when it was written: where to begin if all roots that can be found are older.
    pub root: Pba,
    /// The last batch of users that counted when this life began: later ones of earlier lives count for nothing.
    pub since: BatchNo,
}

/// A header: all that a recovery has to know of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where it belongs.
    pub batch: Batch,
    /// What it is of.
    pub kind: BatchKind,
    /// A checksum for each block of the payload.
    pub checksums: Vec<Checksum>,
}

/// Invalid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// No header at all.
    Magic,
    /// A version that is not known.
    Version(u16),
    /// It is longer than what there is of it; so many blocks.
    Short(u16),
    /// A checksum that is wrong.
    Checksum,
    /// A kind that is not known.
    Kind(u16),
    /// Records that cannot be, though their checksum is right.
    Records,
}

impl_error!(HeaderError, |self, f| match self {
    Self::Magic => f.write_str("there is no header"),
    Self::Version(found) => write!(f, "the header has version {found}, {VERSION} is known"),
    Self::Short(blocks) => write!(f, "the header has {blocks} blocks, of which some are missing"),
    Self::Checksum => f.write_str("the checksum of the header is wrong"),
    Self::Kind(found) => write!(f, "a batch of kind {found} is not known"),
    Self::Records => f.write_str("the records of the header contradict its lengths"),
});

impl Header {
    /// Blocks of a header with such records and so many blocks of payload.
    #[must_use]
    pub fn blocks_of(record_bytes: usize, payload: usize) -> usize {
        (FIXED_BYTES + record_bytes + payload * CRC_BYTES).div_ceil(BLOCK_BYTES)
    }

    /// Whether all that it is a copy of was written with batches up to `cut`.
    #[must_use]
    pub fn is_of_batches_up_to(&self, cut: BatchNo) -> bool {
        match &self.kind {
            BatchKind::Copies(records) => records.iter().all(|record| record.written <= cut),
            _ => true,
        }
    }

    /// The lives that it remembers.
    #[must_use]
    pub fn lives(&self) -> &[Life] {
        match &self.kind {
            BatchKind::Map(lives) | BatchKind::Root(lives) => lives,
            BatchKind::User(_) | BatchKind::Copies(_) | BatchKind::Footer | BatchKind::Filler => &[],
        }
    }

    /// The block of the exposed disk for each block of its payload; none of what is not of users.
    #[must_use]
    pub fn lbas(&self) -> Vec<Lba> {
        match &self.kind {
            BatchKind::User(records) => {
                let with_data = records.iter().filter(|record| record.has_data);
                with_data.flat_map(|record| (0..record.blocks).map(|offset| record.lba + u64::from(offset))).collect()
            }
            BatchKind::Copies(records) => records.iter().map(|record| record.lba).collect(),
            BatchKind::Map(_) | BatchKind::Root(_) | BatchKind::Footer | BatchKind::Filler => Vec::new(),
        }
    }

    /// Its blocks.
    ///
    /// # Panics
    /// If it is longer than a header may be.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        Self::encode_parts(&self.batch, &self.kind, &self.checksums)
    }

    /// The blocks of one that is made of these.
    ///
    /// # Panics
    /// As [`Header::encode`].
    #[must_use]
    pub fn encode_parts(batch: &Batch, kind: &BatchKind, checksums: &[Checksum]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        bytes.put_u64(MAGIC);
        bytes.put_u32(0);
        bytes.put_u16(VERSION);
        bytes.put_u16(kind.code());
        bytes.put(batch.set.0);
        bytes.put_u64(batch.place.0);
        bytes.put_u64(batch.epoch.0);
        bytes.put_u64(batch.number);
        bytes.put_u64(batch.root.0);
        bytes.put_u32(batch.generation.0);
        bytes.put_u32(batch.attempt);
        bytes.put_u32(kind.records() as u32);
        bytes.put_u32(checksums.len() as u32);
        bytes.resize(SINCE_AT, 0);
        bytes.put_u64(batch.since.0);
        bytes.resize(FIXED_BYTES, 0);
        kind.encode(&mut bytes);
        checksums.iter().for_each(|checksum| bytes.put_u32(checksum.0));
        let blocks = bytes.len().div_ceil(BLOCK_BYTES) as u16;
        assert!(blocks <= MOST_HEADER_BLOCKS, "a header of {blocks} blocks");
        bytes.resize(usize::from(blocks) * BLOCK_BYTES, 0);
        bytes[BLOCKS_AT..BLOCKS_AT + 2].copy_from_slice(&blocks.to_le_bytes());
        seal(&mut bytes, CRC_AT);
        bytes
    }

    /// The version of a header that is whole and of another than is known. In all versions magic, checksum, version and blocks are
    /// where they are in this one.
    #[must_use]
    pub fn unknown_version(bytes: &[u8]) -> Option<u16> {
        let Err(HeaderError::Version(version)) = Self::decode(bytes) else { return None };
        let blocks = Fields(&bytes[BLOCKS_AT..]).u16();
        let whole = bytes.get(..usize::from(blocks) * BLOCK_BYTES).filter(|bytes| !bytes.is_empty())?;
        is_sealed(whole, CRC_AT).then_some(version)
    }

    /// The header at the start of `bytes`, which may go on behind it, and its blocks.
    ///
    /// # Errors
    /// If there is none, or not all of it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), HeaderError> {
        let mut from = Fields(bytes);
        if from.u64() != MAGIC {
            return Err(HeaderError::Magic);
        }
        let (_, version, code) = (from.u32(), from.u16(), from.u16());
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        let mut batch = Batch { set: SetId(from.id()), place: Pba(from.u64()), ..Batch::default() };
        (batch.epoch, batch.number, batch.root) = (Epoch(from.u64()), from.u64(), Pba(from.u64()));
        (batch.generation, batch.attempt) = (Generation(from.u32()), from.u32());
        let (records, payload, blocks) = (from.u32() as usize, from.u32() as usize, from.u16());
        let Some(bytes) = bytes.get(..usize::from(blocks) * BLOCK_BYTES).filter(|bytes| !bytes.is_empty()) else {
            return Err(HeaderError::Short(blocks));
        };
        if blocks > MOST_HEADER_BLOCKS || !is_sealed(bytes, CRC_AT) {
            return Err(HeaderError::Checksum);
        }
        batch.since = BatchNo(Fields(&bytes[SINCE_AT..]).u64());
        let kind = decode_kind(code, records, &mut Fields(&bytes[FIXED_BYTES..]))?;
        let end = FIXED_BYTES + kind.record_bytes();
        let is_sound = kind.payload().is_none_or(|needed| needed == payload as u64)
            && Self::blocks_of(kind.record_bytes(), payload) == usize::from(blocks);
        if !is_sound {
            return Err(HeaderError::Records);
        }
        let mut from = Fields(&bytes[end..]);
        let checksums = (0..payload).map(|_| Checksum(from.u32())).collect();
        Ok((Self { batch, kind, checksums }, blocks.into()))
    }
}

fn decode_kind(code: u16, records: usize, from: &mut Fields<'_>) -> Result<BatchKind, HeaderError> {
    // A length that is wrong must not ask for memory.
    let fits = |bytes: usize| records.checked_mul(bytes).is_some_and(|all| all <= from.0.len());
    let kind = match code {
        1 if fits(Written::BYTES) => {
            (0..records).map(|_| Written::decode(from)).collect::<Option<_>>().map(BatchKind::User)
        }
        2 if fits(Copied::BYTES) => {
            (0..records).map(|_| Copied::decode(from)).collect::<Option<_>>().map(BatchKind::Copies)
        }
        3 if fits(Life::BYTES) => Some(BatchKind::Map(lives(records, from))),
        4 if fits(Life::BYTES) => Some(BatchKind::Root(lives(records, from))),
        5 => Some(BatchKind::Footer),
        6 => Some(BatchKind::Filler),
        1..=4 => None,
        _ => return Err(HeaderError::Kind(code)),
    };
    kind.filter(|kind| kind.records() == records).ok_or(HeaderError::Records)
}

fn lives(records: usize, from: &mut Fields<'_>) -> Vec<Life> {
    (0..records).map(|_| Life::decode(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::Lba;
    use crate::random::Rng;

    fn batch() -> Batch {
        Batch {
            set: SetId(*b"set of two disks"),
            place: Pba(0x12_3456_7890),
            generation: Generation(7),
            epoch: Epoch(3),
            number: 0x1122_3344_5566,
            attempt: 1,
            root: Pba(9),
            since: BatchNo(0x99_8877),
        }
    }

    fn user(records: Vec<Written>) -> Header {
        let payload = BatchKind::User(records.clone()).payload().unwrap();
        let checksums = (0..payload as u32).map(|n| Checksum(n.wrapping_mul(0x9e37_79b9))).collect();
        Header { batch: batch(), kind: BatchKind::User(records), checksums }
    }

    fn copies(count: u64) -> Header {
        let copied = |n| Copied { lba: Lba(n), from: Pba(n * 3), generation: Generation(2), written: BatchNo(n + 5) };
        let checksums = (0..count as u32).map(Checksum).collect();
        Header { batch: batch(), kind: BatchKind::Copies((0..count).map(copied).collect()), checksums }
    }

    fn lives(count: usize) -> Vec<Life> {
        (1..=count as u64).map(|n| Life { epoch: Epoch(n), since: BatchNo(n * 3) }).collect()
    }

    fn some() -> Vec<Header> {
        let one = Written { lba: Lba(0), blocks: 1, has_data: true };
        let most = Written { lba: Lba(Lba::END.0 - u64::from(Written::MOST)), blocks: Written::MOST, has_data: false };
        let plain = |kind, payload| Header { batch: batch(), kind, checksums: vec![Checksum(1); payload] };
        vec![
            user(vec![]),
            user(vec![one, most, one]),
            user(vec![one; 2000]),
            copies(1),
            copies(300),
            plain(BatchKind::Map(vec![]), 256),
            plain(BatchKind::Map(lives(3)), 256),
            plain(BatchKind::Root(lives(Life::MOST)), 7),
            plain(BatchKind::Footer, 0),
            plain(BatchKind::Filler, 10),
        ]
    }

    #[test]
    fn a_header_is_read_as_it_was_written_whatever_follows_it() {
        for header in some() {
            let mut bytes = header.encode();
            let blocks = bytes.len() / BLOCK_BYTES;
            assert_eq!(blocks, Header::blocks_of(header.kind.record_bytes(), header.checksums.len()));
            bytes.extend_from_slice(&[0xaa; 100]);
            assert_eq!(Header::decode(&bytes).unwrap(), (header, blocks));
        }
    }

    #[test]
    fn a_header_in_which_any_byte_is_another_is_none() {
        let mut rng = Rng::new(1);
        for header in some() {
            let bytes = header.encode();
            for _ in 0..200 {
                let mut other = bytes.clone();
                let at = rng.below(other.len() as u64) as usize;
                other[at] ^= 1 << rng.below(8);
                assert!(Header::decode(&other).is_err(), "byte {at} of {header:?}");
            }
        }
    }

    #[test]
    fn a_header_of_which_a_piece_is_missing_is_none() {
        let bytes = copies(300).encode();
        assert!(bytes.len() > 2 * BLOCK_BYTES);
        assert_eq!(
            Header::decode(&bytes[..2 * BLOCK_BYTES]),
            Err(HeaderError::Short((bytes.len() / BLOCK_BYTES) as u16))
        );
        assert_eq!(Header::decode(&bytes[..20]), Err(HeaderError::Short(0)));
        assert_eq!(Header::decode(&[]), Err(HeaderError::Magic));
    }

    /// A header with other fields, and a checksum that is right.
    fn forged(header: &Header, at: usize, field: &[u8]) -> Result<(Header, usize), HeaderError> {
        let mut bytes = header.encode();
        bytes[at..at + field.len()].copy_from_slice(field);
        seal(&mut bytes, CRC_AT);
        Header::decode(&bytes)
    }

    #[test]
    fn a_header_that_contradicts_itself_is_refused_though_its_checksum_is_right() {
        let one = user(vec![Written { lba: Lba(5), blocks: 2, has_data: true }]);
        assert_eq!(forged(&one, 12, &[2]), Err(HeaderError::Version(2)));
        assert_eq!(forged(&one, 14, &[9]), Err(HeaderError::Kind(9)));
        for records in [0_u32, 2, u32::MAX] {
            assert_eq!(forged(&one, 72, &records.to_le_bytes()), Err(HeaderError::Records), "{records} records");
        }
        for payload in [1_u32, 3, u32::MAX] {
            assert_eq!(forged(&one, 76, &payload.to_le_bytes()), Err(HeaderError::Records), "{payload} blocks");
        }
        let none = u64::to_le_bytes(5);
        let beyond = u64::to_le_bytes(((1 << 40) - 1) | 2 << 40);
        let unknown = u64::to_le_bytes(5 | 2 << 40 | 1 << 63);
        for record in [none, beyond, unknown] {
            assert_eq!(forged(&one, FIXED_BYTES, &record), Err(HeaderError::Records), "{record:?}");
        }
        let root = Header { batch: batch(), kind: BatchKind::Root(lives(2)), checksums: vec![Checksum(1); 7] };
        for records in [300_u32, u32::MAX] {
            assert_eq!(forged(&root, 72, &records.to_le_bytes()), Err(HeaderError::Records), "{records} lives");
        }
        assert_eq!(forged(&copies(1), FIXED_BYTES + 5, &[1]), Err(HeaderError::Records), "an address of 41 bits");
    }

    #[test]
    fn a_checksum_of_a_block_knows_where_the_block_belongs() {
        let data = [7; BLOCK_BYTES];
        assert_ne!(Checksum::of_block(Lba(1), &data), Checksum::of_block(Lba(2), &data));
        // The check value of the catalogue of CRCs.
        assert_eq!(Checksum::of(b"123456789"), Checksum(0xe306_9283));
    }
}
