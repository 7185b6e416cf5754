//! A leaf of the map: where the blocks of a range of the exposed disk are.

use super::Checksum;
use super::bytes::{Fields, Put};
use super::checksum::{CRC_BYTES, is_sealed, seal};
use crate::dm::stl::map::{Extent, LeafImage, LeafNo, LeafSize};
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
pub const MOST_LEAF_BLOCKS: usize =
    (FIXED_BYTES + LeafSize::MAX_BLOCKS as usize * BLOCK_ENTRY_BYTES).div_ceil(BLOCK_BYTES);

/// A leaf that lies at `place`, as whole blocks.
#[must_use]
pub fn encode_leaf(image: &LeafImage, place: Pba) -> Vec<u8> {
    let (extents, mapped) = image.rows().fold((0, 0), |(rows, blocks), row| (rows + 1, blocks + row.blocks.len()));
    let listed = extents * EXTENT_BYTES + mapped * CRC_BYTES;
    let form = if listed <= image.blocks().len() * BLOCK_ENTRY_BYTES { Form::Extents } else { Form::Array };
    let mut bytes = Vec::with_capacity(MOST_LEAF_BLOCKS * BLOCK_BYTES);
    bytes.put_u32(MAGIC);
    bytes.put_u32(0);
    bytes.put_u32(image.leaf().0);
    bytes.put_u16(form as u16);
    bytes.put_u16(extents as u16);
    bytes.put_u64(place.0);
    bytes.put_u64(0);
    match form {
        Form::Extents => put_extents(image, &mut bytes),
        Form::Array => put_array(image, &mut bytes),
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

fn put_extents(image: &LeafImage, to: &mut Vec<u8>) {
    for row in image.rows() {
        to.put_u16(row.first as u16);
        to.put_u16((row.blocks.len() - 1) as u16);
        to.put_u48(row.place().0);
    }
    image.rows().flat_map(|row| row.blocks).for_each(|(_, checksum)| to.put_u32(checksum.0));
}

fn put_array(image: &LeafImage, to: &mut Vec<u8>) {
    for (place, checksum) in image.blocks() {
        // The address beyond the last does not fit, and all ones is no block of a set.
        to.put_u40(if *place == Pba::END { place.0 - 1 } else { place.0 });
        to.put_u32(checksum.0);
    }
}

/// The extents of a leaf of this size, which was read from `place`.
///
/// # Errors
/// If it is not there.
pub fn decode_leaf((size, leaf): (LeafSize, LeafNo), place: Pba, bytes: &[u8]) -> Result<Vec<Extent>, LeafError> {
    let mut extents = Vec::new();
    visit((size, leaf), place, bytes, &mut |first, place, checksums: &[Checksum]| {
        extents.push(Extent::at(size.start(leaf) + u64::from(first), place, checksums));
    })?;
    Ok(extents)
}

/// Puts a leaf that was read from `place` into its image, which is clear.
///
/// # Errors
/// If it is not there; then some of it may have been put.
pub fn decode_into(image: &mut LeafImage, place: Pba, bytes: &[u8]) -> Result<(), LeafError> {
    visit((image.size(), image.leaf()), place, bytes, &mut |first, place, checksums: &[Checksum]| {
        image.put_row(first, place, checksums)
    })
}

/// Tells each extent: its first block in the leaf, where it is, and its checksums.
fn visit(
    (size, leaf): (LeafSize, LeafNo),
    place: Pba,
    bytes: &[u8],
    each: &mut impl FnMut(u32, Pba, &[Checksum]),
) -> Result<(), LeafError> {
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
    let visited = match form {
        0 => visit_extents((count.into(), size), &mut from, each),
        1 => visit_array(size, &mut from, each),
        _ => None,
    };
    visited.ok_or(LeafError::Contents)
}

fn visit_extents(
    (count, size): (usize, LeafSize),
    from: &mut Fields<'_>,
    each: &mut impl FnMut(u32, Pba, &[Checksum]),
) -> Option<()> {
    let mut heads = Fields(from.0.get(..count * EXTENT_BYTES)?);
    from.0 = &from.0[count * EXTENT_BYTES..];
    let (mut end, mut checksums) = (0, Vec::new());
    for _ in 0..count {
        let (first, blocks, place) = (heads.u16().into(), u32::from(heads.u16()) + 1, Pba(heads.u48()));
        let is_beyond = first + blocks > size.blocks() || place.0 + u64::from(blocks) > Pba::END.0;
        if first < end || is_beyond || blocks as usize * CRC_BYTES > from.0.len() {
            return None;
        }
        checksums.clear();
        checksums.extend((0..blocks).map(|_| Checksum(from.u32())));
        each(first, place, &checksums);
        end = first + blocks;
    }
    Some(())
}

/// Neighbours that follow each other on the disk are one extent again.
fn visit_array(size: LeafSize, from: &mut Fields<'_>, each: &mut impl FnMut(u32, Pba, &[Checksum])) -> Option<()> {
    if from.0.len() < size.blocks() as usize * BLOCK_ENTRY_BYTES {
        return None;
    }
    let (mut first, mut start, mut checksums) = (0, Pba(0), Vec::new());
    for offset in 0..size.blocks() {
        let (place, checksum) = (Pba(from.u40()), Checksum(from.u32()));
        if place.0 == Pba::END.0 - 1 {
            continue;
        }
        let goes_on = first + checksums.len() as u32 == offset && start + checksums.len() as u64 == place;
        if !goes_on && !checksums.is_empty() {
            each(first, start, &checksums);
            checksums.clear();
        }
        if checksums.is_empty() {
            (first, start) = (offset, place);
        }
        checksums.push(checksum);
    }
    if !checksums.is_empty() {
        each(first, start, &checksums);
    }
    Some(())
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
        while at < LeafSize::MAX_BLOCKS {
            let blocks = (1 + rng.below(most) as u32).min(LeafSize::MAX_BLOCKS - at);
            let sums: Vec<Checksum> = (0..blocks).map(|_| Checksum(rng.below(1 << 32) as u32)).collect();
            // Far from each other, so that neighbours are not one.
            extents.push(Extent::at(LeafSize::default().start(LEAF) + u64::from(at), Pba(rng.below(1 << 39)), &sums));
            at += blocks + rng.below(gap + 1) as u32;
        }
        extents
    }

    fn encoded(extents: &[Extent], place: Pba) -> Vec<u8> {
        encode_leaf(&LeafImage::of(LeafSize::default(), LEAF, extents), place)
    }

    #[test]
    fn a_leaf_is_read_as_it_was_written_in_order_or_at_random() {
        let mut rng = Rng::new(3);
        for (most, gap, longest) in [(8192, 0, 9), (8192, 9000, 9), (100, 10, 11), (3, 2, 19), (1, 0, 19), (1, 50, 3)] {
            let extents = drawn(&mut rng, most, gap);
            let bytes = encoded(&extents, PLACE);
            let blocks = bytes.len() / BLOCK_BYTES;
            assert!(blocks <= longest && longest <= MOST_LEAF_BLOCKS, "{blocks} blocks for {most} and {gap}");
            let mut image = LeafImage::new(LeafSize::default(), LEAF);
            decode_into(&mut image, PLACE, &bytes).unwrap();
            assert_eq!(image.blocks(), LeafImage::of(LeafSize::default(), LEAF, &extents).blocks());
            assert_eq!(decode_leaf((LeafSize::default(), LEAF), PLACE, &bytes), Ok(extents));
        }
        assert_eq!(decode_leaf((LeafSize::default(), LEAF), PLACE, &encoded(&[], PLACE)), Ok(vec![]));
    }

    #[test]
    fn a_leaf_that_is_given_its_place_later_is_as_if_it_had_had_it_from_the_start() {
        let extents = drawn(&mut Rng::new(8), 4, 4);
        let mut bytes = encoded(&extents, Pba(0));
        place_leaf(&mut bytes, PLACE);
        assert_eq!(bytes, encoded(&extents, PLACE));
    }

    #[test]
    fn a_leaf_that_is_damaged_or_of_another_place_is_none() {
        let mut rng = Rng::new(4);
        let bytes = encoded(&drawn(&mut rng, 4, 4), PLACE);
        for _ in 0..500 {
            let mut other = bytes.clone();
            let at = rng.below(other.len() as u64) as usize;
            other[at] ^= 1 << rng.below(8);
            assert!(decode_leaf((LeafSize::default(), LEAF), PLACE, &other).is_err(), "byte {at}");
        }
        assert_eq!(
            decode_leaf((LeafSize::default(), LeafNo(1)), PLACE, &bytes),
            Err(LeafError::Misplaced(LEAF, PLACE))
        );
        assert_eq!(decode_leaf((LeafSize::default(), LEAF), Pba(1), &bytes), Err(LeafError::Misplaced(LEAF, PLACE)));
        assert_eq!(decode_leaf((LeafSize::default(), LEAF), PLACE, &bytes[..100]), Err(LeafError::Magic));
        assert_eq!(decode_leaf((LeafSize::default(), LEAF), PLACE, &[]), Err(LeafError::Magic));
    }

    #[test]
    fn a_leaf_whose_extents_cannot_be_is_refused_though_its_checksum_is_right() {
        let one = |offset: u64, blocks| {
            Extent::at(LeafSize::default().start(LEAF) + offset, Pba(5), &vec![Checksum(1); blocks])
        };
        let bytes = encoded(&[one(0, 4), one(4, 2)], PLACE);
        let forged = |at: usize, field: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + field.len()].copy_from_slice(field);
            seal(&mut bytes, CRC_AT);
            decode_leaf((LeafSize::default(), LEAF), PLACE, &bytes)
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
