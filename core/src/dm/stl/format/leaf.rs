//! A leaf of the map: where the blocks of a range of the exposed disk are.

use super::Checksum;
use super::bytes::{Fields, Put};
use super::checksum::{CRC_BYTES, is_sealed, seal};
use crate::dm::stl::map::{Extent, LEAF_BLOCKS, LeafNo};
use crate::dm::stl::{BLOCK_BYTES, Pba};
use crate::prelude::*;

const MAGIC: u32 = u32::from_le_bytes(*b"leaf");
const CRC_AT: usize = 4;
const PLACE_AT: usize = 16;
const FIXED_BYTES: usize = 32;
/// Bytes of an extent in a list, without its checksums.
const EXTENT_BYTES: usize = 10;
/// Bytes of a block in an array.
const BLOCK_ENTRY_BYTES: usize = 9;

/// How blocks are listed. Whichever is shorter is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Extents, then their checksums.
    Extents = 0,
    /// Address and checksum of every block; one without data has an address beyond the last.
    Array = 1,
}

/// Invalid leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafError {
    /// No leaf, or not all of it.
    Magic,
    /// A checksum that is wrong.
    Checksum,
    /// It belongs elsewhere: of another range, or to another place.
    Misplaced(LeafNo, Pba),
    /// Contents that cannot be, though the checksum is right.
    Contents,
}

impl_error!(LeafError, |self, f| match self {
    Self::Magic => f.write_str("there is no leaf"),
    Self::Checksum => f.write_str("the checksum of the leaf is wrong"),
    Self::Misplaced(leaf, place) => write!(f, "it is leaf {} of block {place}", leaf.0),
    Self::Contents => f.write_str("the extents of the leaf cannot be"),
});

/// Most blocks that a leaf takes on disk.
pub const MOST_LEAF_BLOCKS: usize = (FIXED_BYTES + LEAF_BLOCKS as usize * BLOCK_ENTRY_BYTES).div_ceil(BLOCK_BYTES);

/// Leaf `leaf` at `place` as whole blocks. The extents have data, lie in the leaf, and are in order.
#[must_use]
pub fn encode_leaf(leaf: LeafNo, place: Pba, extents: &[Extent]) -> Vec<u8> {
    let mapped: usize = extents.iter().map(|extent| extent.blocks as usize).sum();
    let listed = extents.len() * EXTENT_BYTES + mapped * CRC_BYTES;
    let form = if listed <= LEAF_BLOCKS as usize * BLOCK_ENTRY_BYTES { Form::Extents } else { Form::Array };
    let mut bytes = Vec::with_capacity(MOST_LEAF_BLOCKS * BLOCK_BYTES);
    bytes.put_u32(MAGIC);
    bytes.put_u32(0);
    bytes.put_u32(leaf.0);
    bytes.put_u16(form as u16);
    bytes.put_u16(extents.len() as u16);
    bytes.put_u64(place.0);
    bytes.put_u64(0);
    match form {
        Form::Extents => put_extents(leaf, extents, &mut bytes),
        Form::Array => put_array(leaf, extents, &mut bytes),
    }
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    seal(&mut bytes, CRC_AT);
    bytes
}

/// Lets a leaf that was encoded lie at `place`.
pub fn place_leaf(bytes: &mut [u8], place: Pba) {
    bytes[PLACE_AT..PLACE_AT + 8].copy_from_slice(&place.0.to_le_bytes());
    seal(bytes, CRC_AT);
}

fn put_extents(leaf: LeafNo, extents: &[Extent], to: &mut Vec<u8>) {
    for extent in extents {
        let Some((place, _)) = extent.place(0) else { continue };
        to.put_u16((extent.lba - leaf.start()) as u16);
        to.put_u16((extent.blocks - 1) as u16);
        to.put_u48(place.0);
    }
    extents.iter().flat_map(Extent::checksums).for_each(|checksum| to.put_u32(checksum.0));
}

fn put_array(leaf: LeafNo, extents: &[Extent], to: &mut Vec<u8>) {
    let mut entries = vec![(Pba::END.0, Checksum::default()); LEAF_BLOCKS as usize];
    for extent in extents {
        let first = (extent.lba - leaf.start()) as u32;
        for (offset, entry) in (0..extent.blocks).zip(&mut entries[first as usize..]) {
            *entry = extent.place(offset).map_or(*entry, |(place, checksum)| (place.0, checksum));
        }
    }
    for (place, checksum) in entries {
        // The address beyond the last does not fit, and all ones is no block of a set.
        to.put_u40(if place == Pba::END.0 { place - 1 } else { place });
        to.put_u32(checksum.0);
    }
}

/// The extents of leaf `leaf`, which was read from `place`.
///
/// # Errors
/// If it is not there.
pub fn decode_leaf(leaf: LeafNo, place: Pba, bytes: &[u8]) -> Result<Vec<Extent>, LeafError> {
    let mut from = Fields(bytes);
    if from.u32() != MAGIC || !bytes.len().is_multiple_of(BLOCK_BYTES) {
        return Err(LeafError::Magic);
    }
    let _ = from.u32();
    if !is_sealed(bytes, CRC_AT) {
        return Err(LeafError::Checksum);
    }
    let (its, form, count, there) = (LeafNo(from.u32()), from.u16(), from.u16(), Pba(from.u64()));
    if (its, there) != (leaf, place) {
        return Err(LeafError::Misplaced(its, there));
    }
    let mut from = Fields(&bytes[FIXED_BYTES..]);
    let extents = match form {
        0 => take_extents(leaf, count.into(), &mut from),
        1 if from.0.len() >= LEAF_BLOCKS as usize * BLOCK_ENTRY_BYTES => Some(take_array(leaf, &mut from)),
        _ => None,
    };
    extents.ok_or(LeafError::Contents)
}

fn take_extents(leaf: LeafNo, count: usize, from: &mut Fields<'_>) -> Option<Vec<Extent>> {
    if count * EXTENT_BYTES > from.0.len() {
        return None;
    }
    let heads: Vec<(u16, u16, u64)> = (0..count).map(|_| (from.u16(), from.u16(), from.u48())).collect();
    let (mut extents, mut end, mut checksums) = (Vec::with_capacity(count), 0, Vec::new());
    for (offset, more, place) in heads {
        let (offset, blocks) = (u32::from(offset), u32::from(more) + 1);
        if offset < end || offset + blocks > LEAF_BLOCKS || blocks as usize * CRC_BYTES > from.0.len() {
            return None;
        }
        checksums.clear();
        checksums.extend((0..blocks).map(|_| Checksum(from.u32())));
        extents.push(Extent::at(leaf.start() + u64::from(offset), Pba(place), &checksums));
        end = offset + blocks;
    }
    extents
        .iter()
        .all(|extent| extent.place(extent.blocks - 1).is_some_and(|(last, _)| last < Pba::END))
        .then_some(extents)
}

/// Neighbours that follow each other on the disk are one extent again.
fn take_array(leaf: LeafNo, from: &mut Fields<'_>) -> Vec<Extent> {
    let (mut extents, mut first, mut start, mut checksums) = (Vec::new(), 0, Pba(0), Vec::new());
    let extent =
        |first: u32, start, checksums: &[Checksum]| Extent::at(leaf.start() + u64::from(first), start, checksums);
    for offset in 0..LEAF_BLOCKS {
        let (place, checksum) = (Pba(from.u40()), Checksum(from.u32()));
        if place.0 == Pba::END.0 - 1 {
            continue;
        }
        let goes_on = first + checksums.len() as u32 == offset && start + checksums.len() as u64 == place;
        if !goes_on && !checksums.is_empty() {
            extents.push(extent(first, start, &checksums));
            checksums.clear();
        }
        if checksums.is_empty() {
            (first, start) = (offset, place);
        }
        checksums.push(checksum);
    }
    if !checksums.is_empty() {
        extents.push(extent(first, start, &checksums));
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    const LEAF: LeafNo = LeafNo(77);
    const PLACE: Pba = Pba(0xff_0000_1234);

    /// Extents of up to `most` blocks with gaps of up to `gap`.
    fn drawn(rng: &mut Rng, most: u64, gap: u64) -> Vec<Extent> {
        let (mut extents, mut at) = (Vec::new(), rng.below(gap + 1) as u32);
        while at < LEAF_BLOCKS {
            let blocks = (1 + rng.below(most) as u32).min(LEAF_BLOCKS - at);
            let sums: Vec<Checksum> = (0..blocks).map(|_| Checksum(rng.below(1 << 32) as u32)).collect();
            // Far from each other, so that neighbours are not one.
            extents.push(Extent::at(LEAF.start() + u64::from(at), Pba(rng.below(1 << 39)), &sums));
            at += blocks + rng.below(gap + 1) as u32;
        }
        extents
    }

    #[test]
    fn a_leaf_is_read_as_it_was_written_in_order_or_at_random() {
        let mut rng = Rng::new(3);
        for (most, gap, longest) in [(8192, 0, 9), (8192, 9000, 9), (100, 10, 11), (3, 2, 19), (1, 0, 19), (1, 50, 3)] {
            let extents = drawn(&mut rng, most, gap);
            let bytes = encode_leaf(LEAF, PLACE, &extents);
            let blocks = bytes.len() / BLOCK_BYTES;
            assert!(blocks <= longest && longest <= MOST_LEAF_BLOCKS, "{blocks} blocks for {most} and {gap}");
            assert_eq!(decode_leaf(LEAF, PLACE, &bytes), Ok(extents));
        }
        assert_eq!(decode_leaf(LEAF, PLACE, &encode_leaf(LEAF, PLACE, &[])), Ok(vec![]));
    }

    #[test]
    fn a_leaf_that_is_given_its_place_later_is_as_if_it_had_had_it_from_the_start() {
        let extents = drawn(&mut Rng::new(8), 4, 4);
        let mut bytes = encode_leaf(LEAF, Pba(0), &extents);
        place_leaf(&mut bytes, PLACE);
        assert_eq!(bytes, encode_leaf(LEAF, PLACE, &extents));
    }

    #[test]
    fn a_leaf_that_is_damaged_or_of_another_place_is_none() {
        let mut rng = Rng::new(4);
        let bytes = encode_leaf(LEAF, PLACE, &drawn(&mut rng, 4, 4));
        for _ in 0..500 {
            let mut other = bytes.clone();
            let at = rng.below(other.len() as u64) as usize;
            other[at] ^= 1 << rng.below(8);
            assert!(decode_leaf(LEAF, PLACE, &other).is_err(), "byte {at}");
        }
        assert_eq!(decode_leaf(LeafNo(1), PLACE, &bytes), Err(LeafError::Misplaced(LEAF, PLACE)));
        assert_eq!(decode_leaf(LEAF, Pba(1), &bytes), Err(LeafError::Misplaced(LEAF, PLACE)));
        assert_eq!(decode_leaf(LEAF, PLACE, &bytes[..100]), Err(LeafError::Magic));
        assert_eq!(decode_leaf(LEAF, PLACE, &[]), Err(LeafError::Magic));
    }

    #[test]
    fn a_leaf_whose_extents_cannot_be_is_refused_though_its_checksum_is_right() {
        let one = |offset: u64, blocks| Extent::at(LEAF.start() + offset, Pba(5), &vec![Checksum(1); blocks]);
        let bytes = encode_leaf(LEAF, PLACE, &[one(0, 4), one(4, 2)]);
        let forged = |at: usize, field: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + field.len()].copy_from_slice(field);
            seal(&mut bytes, CRC_AT);
            decode_leaf(LEAF, PLACE, &bytes)
        };
        assert!(forged(FIXED_BYTES, &[0]).is_ok());
        let second = FIXED_BYTES + EXTENT_BYTES;
        for (at, field) in [
            (second, &[3, 0][..]),
            (second, &[0xff, 0x1f]),
            (second + 2, &[0xff, 0xff]),
            (second + 4, &[0xff; 6]),
            (12, &[1]),
            (12, &[2]),
            (14, &[0xff, 0xff]),
        ] {
            assert_eq!(forged(at, field), Err(LeafError::Contents), "{field:?} at {at}");
        }
    }
}
