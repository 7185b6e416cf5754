//! A page of a run: extents in order, in one block.

use super::Checksum;
use super::bytes::{Fields, Put};
use super::checksum::{CRC_BYTES, is_sealed, seal};
use crate::dm::stl::map::{Extent, Span};
use crate::dm::stl::{BLOCK_BYTES, Lba, Pba};
use crate::prelude::*;

const MAGIC: u32 = u32::from_le_bytes(*b"run ");
const CRC_AT: usize = 4;
const PLACE_AT: usize = 8;
const FIXED_BYTES: usize = 24;
/// Bytes of an extent without checksums: address, length, place.
const EXTENT_BYTES: usize = 5 + 2 + 5;
/// The place of zeroes.
const ZEROES: u64 = Pba::END.0 - 1;

/// Invalid page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// No page.
    Magic,
    /// A checksum that is wrong.
    Checksum,
    /// It belongs to this place.
    Misplaced(Pba),
    /// Contents that cannot be, though the checksum is right.
    Contents,
}

impl_error!(PageError, |self, f| match self {
    Self::Magic => f.write_str("there is no page of a run"),
    Self::Checksum => f.write_str("the checksum of the page is wrong"),
    Self::Misplaced(place) => write!(f, "it is a page of block {place}"),
    Self::Contents => f.write_str("the extents of the page cannot be"),
});

/// A page that is filled with extents in order.
pub struct PageWriter {
    bytes: Vec<u8>,
    first: Option<Lba>,
    extents: u32,
}

impl Default for PageWriter {
    fn default() -> Self {
        Self { bytes: vec![0; FIXED_BYTES], first: None, extents: 0 }
    }
}

impl PageWriter {
    /// The first block that it says something about.
    #[must_use]
    pub fn first(&self) -> Option<Lba> {
        self.first
    }

    /// Takes as much of `extent` as there is room for; what is left of it.
    pub fn put<'a>(&mut self, extent: Span<'a>) -> Option<Span<'a>> {
        let room = (BLOCK_BYTES - self.bytes.len()).saturating_sub(EXTENT_BYTES);
        let most = match extent.place {
            // A length has 16 bits.
            None if self.bytes.len() + EXTENT_BYTES <= BLOCK_BYTES => u16::MAX.into(),
            None => 0,
            Some(_) => room / CRC_BYTES,
        };
        let blocks = extent.blocks.min(most as u32);
        let middle = extent.lba + u64::from(blocks);
        if blocks > 0 {
            self.add(extent.part(extent.lba, middle));
        }
        (blocks < extent.blocks).then(|| extent.part(middle, extent.end()))
    }

    fn add(&mut self, extent: Span<'_>) {
        self.first.get_or_insert(extent.lba);
        self.extents += 1;
        self.bytes.put_u40(extent.lba.0);
        self.bytes.put_u16(extent.blocks as u16);
        self.bytes.put_u40(extent.place.map_or(ZEROES, |place| place.0));
        extent.checksums.iter().for_each(|checksum| self.bytes.put_u32(checksum.0));
    }

    /// The page, for no place yet. Then it is empty again.
    pub fn finish(&mut self) -> Vec<u8> {
        let Self { mut bytes, extents, .. } = core::mem::take(self);
        let mut fixed = Vec::with_capacity(FIXED_BYTES);
        fixed.put_u32(MAGIC);
        fixed.put_u32(0);
        fixed.put_u64(0);
        fixed.put_u32(extents);
        fixed.put_u32(0);
        bytes[..FIXED_BYTES].copy_from_slice(&fixed);
        bytes.resize(BLOCK_BYTES, 0);
        bytes
    }
}

/// Makes a page one of this place.
pub fn place_page(bytes: &mut [u8], place: Pba) {
    bytes[PLACE_AT..PLACE_AT + 8].copy_from_slice(&place.0.to_le_bytes());
    seal(bytes, CRC_AT);
}

/// The extents of a page that was read from `place`.
///
/// # Errors
/// If there is none of it there.
pub fn decode_page(place: Pba, bytes: &[u8]) -> Result<Vec<Extent>, PageError> {
    let mut from = Fields(bytes);
    if from.u32() != MAGIC || bytes.len() != BLOCK_BYTES {
        return Err(PageError::Magic);
    }
    let _ = from.u32();
    if !is_sealed(bytes, CRC_AT) {
        return Err(PageError::Checksum);
    }
    let (there, extents) = (Pba(from.u64()), from.u32());
    if there != place {
        return Err(PageError::Misplaced(there));
    }
    let mut from = Fields(&bytes[FIXED_BYTES..]);
    let (mut end, mut checksums) = (Lba(0), Vec::new());
    let next = |_| {
        let extent = take(&mut from, &mut checksums).filter(|extent| extent.lba >= end && extent.end() <= Lba::END)?;
        end = extent.end();
        Some(extent)
    };
    (0..extents).map(next).collect::<Option<_>>().ok_or(PageError::Contents)
}

/// The next extent. `checksums`: memory for its checksums, as most have few and pages have many.
fn take(from: &mut Fields<'_>, checksums: &mut Vec<Checksum>) -> Option<Extent> {
    if from.0.len() < EXTENT_BYTES {
        return None;
    }
    let (lba, blocks, place) = (Lba(from.u40()), u32::from(from.u16()), from.u40());
    if blocks == 0 {
        return None;
    }
    if place == ZEROES {
        return Some(Extent::zeroes(lba, blocks));
    }
    let fits = blocks as usize * CRC_BYTES <= from.0.len() && place + u64::from(blocks) <= ZEROES;
    if !fits {
        return None;
    }
    checksums.clear();
    checksums.extend((0..blocks).map(|_| Checksum(from.u32())));
    Some(Extent::at(lba, Pba(place), checksums))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    /// Extents in order.
    fn drawn(rng: &mut Rng, count: usize, most: u64) -> Vec<Extent> {
        let mut at = 0;
        let mut next = || {
            let (lba, blocks) = (Lba(at + rng.below(50)), 1 + rng.below(most) as u32);
            at = lba.0 + u64::from(blocks);
            if rng.chance(1, 5) {
                return Extent::zeroes(lba, blocks);
            }
            let sums: Vec<Checksum> = (0..blocks).map(|_| Checksum(rng.below(1 << 32) as u32)).collect();
            Extent::at(lba, Pba(rng.below(1 << 39)), &sums)
        };
        (0..count).map(|_| next()).collect()
    }

    /// Extents as pages, from block 100 on.
    fn pages(extents: &[Extent]) -> Vec<Vec<u8>> {
        let (mut pages, mut page) = (Vec::new(), PageWriter::default());
        for extent in extents {
            let mut left = page.put(extent.span());
            while let Some(rest) = left {
                pages.push(page.finish());
                left = page.put(rest);
            }
        }
        pages.push(page.finish());
        pages.iter_mut().zip(100..).for_each(|(page, place)| place_page(page, Pba(place)));
        pages
    }

    /// Each block by itself.
    fn blocks(extents: &[Extent]) -> Vec<(Lba, Option<(Pba, Checksum)>)> {
        let of = |extent: &Extent| {
            let extent = extent.clone();
            (0..extent.blocks).map(move |n| (extent.lba + u64::from(n), extent.place(n))).collect::<Vec<_>>()
        };
        extents.iter().flat_map(of).collect()
    }

    #[test]
    fn a_run_is_read_as_it_was_written_whatever_extents_cross_the_edges_of_pages() {
        let mut rng = Rng::new(2);
        for (count, most) in [(2000, 1), (500, 30), (5, 5000), (3, 200_000)] {
            let extents = drawn(&mut rng, count, most);
            let pages = pages(&extents);
            let read = |(n, page): (usize, &Vec<u8>)| decode_page(Pba(100 + n as u64), page).unwrap();
            let found: Vec<Extent> = pages.iter().enumerate().flat_map(read).collect();
            assert_eq!(blocks(&found), blocks(&extents));
        }
    }

    #[test]
    fn a_page_has_room_for_254_blocks_that_were_written_at_random() {
        let mut page = PageWriter::default();
        let one = |n: u64| Span::at(Lba(n * 7), Pba(n), &[Checksum(1)]);
        assert_eq!((0..).find(|n| page.put(one(*n)).is_some()), Some(254));
        assert_eq!(page.first(), Some(Lba(0)));
        page.finish();
        assert_eq!(page.first(), None);
    }

    #[test]
    fn a_page_that_is_damaged_or_of_another_place_is_none() {
        let mut rng = Rng::new(9);
        let page = pages(&drawn(&mut rng, 50, 3)).remove(0);
        for _ in 0..500 {
            let mut other = page.clone();
            let at = rng.below(other.len() as u64) as usize;
            other[at] ^= 1 << rng.below(8);
            assert!(decode_page(Pba(100), &other).is_err(), "byte {at}");
        }
        assert_eq!(decode_page(Pba(101), &page), Err(PageError::Misplaced(Pba(100))));
        assert_eq!(decode_page(Pba(100), &page[..4000]), Err(PageError::Magic));
    }

    #[test]
    fn a_page_whose_extents_cannot_be_is_refused_though_its_checksum_is_right() {
        let page = pages(&[Extent::at(Lba(10), Pba(5), &[Checksum(1); 2]), Extent::zeroes(Lba(12), 3)]).remove(0);
        let second = FIXED_BYTES + EXTENT_BYTES + 2 * CRC_BYTES;
        let cases: [(usize, &[u8]); 6] = [
            (second, &[11]),
            (second, &[0xff; 5]),
            (second + 5, &[0, 0]),
            (FIXED_BYTES + 5, &[0xff, 0xff]),
            (FIXED_BYTES + 7, &[0xfe, 0xff, 0xff, 0xff, 0xff]),
            (16, &[0xff, 0xff]),
        ];
        for (at, field) in cases {
            let mut bytes = page.clone();
            bytes[at..at + field.len()].copy_from_slice(field);
            seal(&mut bytes, CRC_AT);
            assert_eq!(decode_page(Pba(100), &bytes), Err(PageError::Contents), "{field:?} at {at}");
        }
    }
}
