//! The root: what a start begins with.

use super::bytes::{Fields, Put};
use super::{Checksum, MOST_PAYLOAD_OF_ROOT};
use crate::dm::stl::map::{LeafNo, LeafSize};
use crate::dm::stl::{BatchNo, CopyNo, Generation, Pba};
use crate::prelude::*;

/// Most devices of a set.
pub const MOST_MEMBERS: usize = 64;
/// Most zones that are open for writing at one time.
pub const MOST_OPEN: usize = 256;

named_enum! {
    /// What a device of a set is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MemberKind {
        /// A zoned disk, of which some zones may be conventional.
        Zoned = 0 => "zoned",
        /// A regular device, which is cut into zones that have no pointer.
        Regular = 1 => "regular",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

named_enum! {
    /// What becomes of a device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MemberState {
        /// It is used.
        Used = 0 => "used",
        /// It gets nothing new, and what is on it is moved away.
        Leaving = 1 => "leaving",
        /// It is not there any more. Its blocks keep their numbers.
        Gone = 2 => "gone",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

/// A device of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its identity.
    pub id: [u8; 16],
    /// The first of its blocks.
    pub first: Pba,
    /// How many zones it has.
    pub zones: u32,
    /// What it is.
    pub kind: MemberKind,
    /// What becomes of it.
    pub state: MemberState,
}

/// A zone that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenZone {
    /// Its first block.
    pub start: Pba,
    /// How often it was opened.
    pub generation: Generation,
    /// Blocks written, all of which this root covers.
    pub written: u32,
    /// What is written to it.
    pub stream: u8,
}

named_enum! {
    /// What a piece of the map or of the tables is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PieceKind {
        /// Rows of the table of zones.
        Zones = 0 => "zones",
        /// Rows of the table of leaves.
        Leaves = 1 => "leaves",
        /// The index of a run.
        Run = 2 => "run",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

/// A piece that lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: PieceKind,
    /// Which piece of its table, or of which run.
    pub number: u32,
    /// Its first block.
    pub place: Pba,
    /// How many.
    pub blocks: u32,
    /// The checksum of them all.
    pub checksum: Checksum,
    /// Of a run: the first leaf of which it still tells something. Those before it have all of it.
    pub first: LeafNo,
}

/// Sizes that a volume keeps for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizing {
    /// Over-provisioning: thousandths of the space for data that no user gets.
    pub reserve: u32,
    /// Blocks of a leaf of the map.
    pub leaf_size: LeafSize,
}

impl Sizing {
    /// Default sizes with this over-provisioning, in thousandths.
    #[must_use]
    pub fn with_reserve(reserve: u32) -> Self {
        Self { reserve, leaf_size: LeafSize::default() }
    }
}

/// What a root says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The map has all batches up to this one, and no later one.
    pub cut: BatchNo,
    /// The same of copies.
    pub copies: CopyNo,
    /// Blocks of the exposed disk.
    pub capacity: u64,
    /// Blocks of a zone.
    pub zone_blocks: u32,
    /// Space that is kept back, in thousandths.
    pub reserve: u32,
    /// Blocks of a leaf of the map.
    pub leaf_size: LeafSize,
    /// The devices.
    pub members: Vec<Member>,
    /// Zones that are open.
    pub open: Vec<OpenZone>,
    /// All that lies elsewhere.
    pub pieces: Vec<Piece>,
}

const FIXED_BYTES: usize = 64;
const MEMBER_BYTES: usize = 32;
const OPEN_BYTES: usize = 24;
const PIECE_BYTES: usize = 24;

/// Invalid root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootError(&'static str);

impl_error!(RootError, |self, f| write!(f, "the root cannot be: {}", self.0));

impl Root {
    /// Whether a root has room for all of it.
    #[must_use]
    pub fn fits(&self) -> bool {
        let rows = self.members.len() * MEMBER_BYTES + self.open.len() * OPEN_BYTES + self.pieces.len() * PIECE_BYTES;
        self.members.len() <= MOST_MEMBERS && self.open.len() <= MOST_OPEN && FIXED_BYTES + rows <= MOST_PAYLOAD_OF_ROOT
    }

    /// Sizes of the volume.
    #[must_use]
    pub fn sizing(&self) -> Sizing {
        Sizing { reserve: self.reserve, leaf_size: self.leaf_size }
    }

    /// The payload of its batch: as long as every root.
    ///
    /// # Panics
    /// If it does not fit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.fits(), "a root with {} pieces", self.pieces.len());
        let mut bytes = Vec::with_capacity(MOST_PAYLOAD_OF_ROOT);
        bytes.put_u64(self.cut.0);
        bytes.put_u64(self.copies.0);
        bytes.put_u64(self.capacity);
        bytes.put_u32(self.zone_blocks);
        bytes.put_u32(self.reserve);
        bytes.put_u32(self.members.len() as u32);
        bytes.put_u32(self.open.len() as u32);
        bytes.put_u32(self.pieces.len() as u32);
        bytes.put_u32(self.leaf_size.halvings());
        bytes.resize(FIXED_BYTES, 0);
        for Member { id, first, zones, kind, state } in &self.members {
            bytes.put(*id);
            bytes.put_u64(first.0);
            bytes.put_u32(*zones);
            bytes.put_u16(*kind as u16);
            bytes.put_u16(*state as u16);
        }
        for OpenZone { start, generation, written, stream } in &self.open {
            bytes.put_u64(start.0);
            bytes.put_u32(generation.0);
            bytes.put_u32(*written);
            bytes.put_u64((*stream).into());
        }
        for Piece { kind, number, place, blocks, checksum, first } in &self.pieces {
            bytes.put_u64(place.0 | (*kind as u64) << 56);
            bytes.put_u32(*number);
            bytes.put_u32(*blocks);
            bytes.put_u32(checksum.0);
            bytes.put_u32(first.0);
        }
        bytes.resize(MOST_PAYLOAD_OF_ROOT, 0);
        bytes
    }

    /// The root in the payload of a batch whose checksums are right.
    ///
    /// # Errors
    /// What of it cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, RootError> {
        let mut from = Fields(bytes);
        let (cut, copies, capacity) = (BatchNo(from.u64()), CopyNo(from.u64()), from.u64());
        let (zone_blocks, reserve) = (from.u32(), from.u32());
        let [members, open, pieces] = [from.u32(), from.u32(), from.u32()].map(|count| count as usize);
        if members > MOST_MEMBERS || open > MOST_OPEN || pieces > MOST_PAYLOAD_OF_ROOT / PIECE_BYTES {
            return Err(RootError("it counts more than it has room for"));
        }
        if FIXED_BYTES + members * MEMBER_BYTES + open * OPEN_BYTES + pieces * PIECE_BYTES > bytes.len() {
            return Err(RootError("it ends before its last row"));
        }
        let leaf_size = from.u32();
        let mut from = Fields(&bytes[FIXED_BYTES..]);
        let members = (0..members).map(|_| take_member(&mut from)).collect::<Option<_>>();
        let open = (0..open).map(|_| take_open(&mut from)).collect::<Option<_>>();
        let pieces = (0..pieces).map(|_| take_piece(&mut from)).collect::<Option<_>>();
        let leaf_size = LeafSize::halved(leaf_size).ok_or(RootError("leaves of a size that cannot be"))?;
        let root = Self {
            cut,
            copies,
            capacity,
            zone_blocks,
            reserve,
            leaf_size,
            members: members.ok_or(RootError("a device of a kind or in a state that is not known"))?,
            open: open.ok_or(RootError("an open zone beyond the last block"))?,
            pieces: pieces.ok_or(RootError("a piece of a kind that is not known, or beyond the last block"))?,
        };
        root.check()
    }

    /// Devices follow each other, and all is on them.
    fn check(self) -> Result<Self, RootError> {
        let blocks = u64::from(self.zone_blocks);
        let mut end = Pba(0);
        for Member { first, zones, .. } in &self.members {
            if blocks == 0 || *zones == 0 || *first < end || first.0 % blocks != 0 {
                return Err(RootError("devices that overlap, or without zones"));
            }
            end = Pba(first.0.saturating_add(u64::from(*zones).saturating_mul(blocks)));
        }
        let open = self.open.iter().map(|zone| (zone.start, self.zone_blocks));
        let pieces = self.pieces.iter().map(|piece| (piece.place, piece.blocks));
        let is_there = |(place, blocks): (Pba, u32)| place.0.checked_add(blocks.into()).is_some_and(|to| to <= end.0);
        // Each leaf takes memory.
        let most = if self.leaf_size == LeafSize::default() { Pba::END } else { end };
        if self.capacity > most.0 {
            return Err(RootError("more leaves than there can be"));
        }
        // The last address stands for zeroes.
        if end >= Pba::END || !open.chain(pieces).all(is_there) {
            return Err(RootError("something lies behind the last device"));
        }
        Ok(self)
    }
}

fn take_member(from: &mut Fields<'_>) -> Option<Member> {
    let (id, first, zones) = (from.id(), Pba(from.u64()), from.u32());
    let (kind, state) = (from.u16(), from.u16());
    let kind = MemberKind::ALL.into_iter().find(|known| *known as u16 == kind)?;
    let state = MemberState::ALL.into_iter().find(|known| *known as u16 == state)?;
    (first < Pba::END).then_some(Member { id, first, zones, kind, state })
}

fn take_open(from: &mut Fields<'_>) -> Option<OpenZone> {
    let (start, generation, written) = (Pba(from.u64()), Generation(from.u32()), from.u32());
    let stream = u8::try_from(from.u64()).ok()?;
    (start < Pba::END).then_some(OpenZone { start, generation, written, stream })
}

fn take_piece(from: &mut Fields<'_>) -> Option<Piece> {
    let (word, number, blocks) = (from.u64(), from.u32(), from.u32());
    let (checksum, first) = (Checksum(from.u32()), LeafNo(from.u32()));
    let kind = PieceKind::ALL.into_iter().find(|known| *known as u64 == word >> 56)?;
    let place = Pba(word & ((1 << 56) - 1));
    (place < Pba::END).then_some(Piece { kind, number, place, blocks, checksum, first })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Root {
        let member = |n: u8| Member {
            id: [n; 16],
            first: Pba(u64::from(n) * 1000),
            zones: 2,
            kind: MemberKind::ALL[usize::from(n) % 2],
            state: MemberState::ALL[usize::from(n)],
        };
        let piece = |n: u32| Piece {
            kind: PieceKind::ALL[n as usize % 3],
            number: n,
            place: Pba(n.into()),
            blocks: 3,
            checksum: Checksum(n * 7),
            first: LeafNo(n * 3),
        };
        Root {
            cut: BatchNo(1 << 45),
            copies: CopyNo(9),
            capacity: 2500,
            zone_blocks: 500,
            reserve: 70,
            leaf_size: LeafSize::default(),
            members: (0..3).map(member).collect(),
            open: vec![OpenZone { start: Pba(200), generation: Generation(4), written: 50, stream: 2 }],
            pieces: (0..400).map(piece).collect(),
        }
    }

    #[test]
    fn a_root_is_read_as_it_was_written_and_every_one_has_the_same_length() {
        for root in [some(), Root { zone_blocks: 1, ..Root::default() }] {
            let bytes = root.encode();
            assert_eq!(bytes.len(), MOST_PAYLOAD_OF_ROOT);
            assert_eq!(Root::decode(&bytes), Ok(root));
        }
    }

    #[test]
    fn a_set_of_240_tb_fits_into_a_root_and_one_that_does_not_is_told() {
        let mut root = some();
        root.members = vec![root.members[0]; 8];
        root.open = vec![root.open[0]; 48];
        // Pieces of 256 KiB: leaves of 8 bytes, zones of 16 bytes, 100 runs.
        let (leaves, zones) = (240_000_000_000_000_u64 >> 25, 240_000_000_000_000_u64 >> 28);
        let pieces = (leaves * 8 + zones * 16) >> 18;
        root.pieces = vec![root.pieces[0]; pieces as usize + 200];
        assert!(root.fits(), "{} pieces", root.pieces.len());
        root.pieces = vec![root.pieces[0]; 1200];
        assert!(!root.fits());
    }

    #[test]
    fn a_root_that_cannot_be_is_refused() {
        type Change = fn(&mut Root);
        let cases: [(Change, &str); 6] = [
            (|root| root.members[1].first = Pba(900), "overlap"),
            (|root| root.members[1].first = Pba(1050), "overlap"),
            (|root| root.members[2].zones = 0, "without zones"),
            (|root| (root.zone_blocks, root.members[2].zones) = (500, u32::MAX), "behind the last"),
            (|root| root.open[0].start = Pba(2950), "behind the last"),
            (|root| root.pieces[9].place = Pba(2998), "behind the last"),
        ];
        for (change, says) in cases {
            let mut root = some();
            change(&mut root);
            let error = Root::decode(&root.encode()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let forged = |at: usize, byte| {
            let mut bytes = some().encode();
            bytes[at] = byte;
            Root::decode(&bytes).unwrap_err().to_string()
        };
        assert!(forged(44, 11).contains("leaves of a size that cannot be"));
        let small = |capacity| Root { capacity, leaf_size: LeafSize::halved(10).unwrap(), ..some() };
        assert!(Root::decode(&small(2500).encode()).is_ok());
        let error = Root::decode(&small(u64::MAX).encode()).unwrap_err();
        assert!(error.to_string().contains("more leaves"), "memory for leaves has a bound: {error}");
        let error = Root::decode(&Root { capacity: u64::MAX, ..some() }.encode()).unwrap_err();
        assert!(error.to_string().contains("more leaves"), "{error}");
        assert!(forged(33, 1).contains("more than it has room for"));
        assert!(forged(FIXED_BYTES + 28, 7).contains("a kind or in a state"));
        assert!(Root::decode(&some().encode()[..100]).unwrap_err().to_string().contains("before its last row"));
    }
}
