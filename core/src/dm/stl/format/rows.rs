//! Rows of the tables that a root names: zones, leaves, pages of runs.

use super::bytes::{Fields, Put};
use crate::dm::stl::{Generation, Lba, Pba};
use crate::prelude::*;

named_enum! {
    /// What a zone is used for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ZoneUse {
        /// Nothing. It may be opened.
        #[default]
        Free = 0 => "free",
        /// It takes batches.
        Open = 1 => "open",
        /// It has as many as it can.
        Full = 2 => "full",
        /// Roots.
        Roots = 3 => "roots",
        /// Nothing any more: it cannot be written. What is live in it is still read if that can be.
        Dead = 4 => "dead",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

/// A zone, as a root knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneRow {
    /// How often it was opened.
    pub generation: Generation,
    /// Blocks that are live, as far as was known: only a hint.
    pub live: u32,
    /// Blocks that the volume had written when it became full.
    pub closed_at: u64,
    /// What it is used for.
    pub used_for: ZoneUse,
    /// What was written to it.
    pub stream: u8,
    /// Blocks written, if it takes no more: its batches end there.
    pub written: u32,
}

impl ZoneRow {
    /// Bytes of a row.
    pub const BYTES: usize = 20;

    /// Appends it.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.put_u32(self.generation.0);
        to.put_u32(self.live);
        to.put_u48(self.closed_at);
        to.put([self.used_for as u8, self.stream]);
        to.put_u32(self.written);
    }

    /// The rows of a piece; `None` if they cannot be.
    #[must_use]
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let row = |bytes: &[u8]| {
            let mut from = Fields(bytes);
            let (generation, live, closed_at) = (Generation(from.u32()), from.u32(), from.u48());
            let [used_for, stream] = from.u16().to_le_bytes();
            let used_for = ZoneUse::ALL.into_iter().find(|known| *known as u8 == used_for)?;
            Some(Self { generation, live, closed_at, used_for, stream, written: from.u32() })
        };
        bytes.chunks_exact(Self::BYTES).map(row).collect()
    }
}

/// Where a leaf is, and how many blocks it has; 0 if nothing of it was ever written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafRow {
    /// The first of its blocks.
    pub place: Pba,
    /// How many.
    pub blocks: u8,
}

impl LeafRow {
    /// Bytes of a row.
    pub const BYTES: usize = 8;

    /// Appends it.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.put_u64(self.place.0 | u64::from(self.blocks) << 40);
    }

    /// The rows of a piece; `None` if they cannot be.
    #[must_use]
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let row = |bytes: &[u8]| {
            let word = Fields(bytes).u64();
            let (place, blocks) = (Pba(word % Pba::END.0), (word >> 40) as u8);
            (word >> 48 == 0 && usize::from(blocks) <= super::MOST_LEAF_BLOCKS).then_some(Self { place, blocks })
        };
        bytes.chunks_exact(Self::BYTES).map(row).collect()
    }
}

/// A page of a run, and the first block that it says something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRow {
    /// The block of the exposed disk.
    pub first: Lba,
    /// Where the page is.
    pub place: Pba,
}

impl PageRow {
    /// Bytes of a row.
    pub const BYTES: usize = 10;

    /// The list of these pages: how many there are, and then each.
    #[must_use]
    pub fn encode_all(rows: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + rows.len() * Self::BYTES);
        bytes.put_u32(rows.len() as u32);
        for row in rows {
            bytes.put_u40(row.first.0);
            bytes.put_u40(row.place.0);
        }
        bytes
    }

    /// The pages of a list, which may have anything behind it; `None` if they are not all there, or not in order.
    #[must_use]
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let mut from = Fields(bytes);
        let count = from.u32() as usize;
        let bytes = from.0.get(..count.checked_mul(Self::BYTES)?)?;
        let row = |bytes: &[u8]| {
            let mut from = Fields(bytes);
            Self { first: Lba(from.u40()), place: Pba(from.u40()) }
        };
        let rows: Vec<Self> = bytes.chunks_exact(Self::BYTES).map(row).collect();
        rows.is_sorted_by(|one, next| one.first <= next.first).then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let zones: Vec<ZoneRow> = (0..5_u8)
            .map(|n| ZoneRow {
                generation: Generation(u32::MAX - u32::from(n)),
                live: 65_536 + u32::from(n),
                closed_at: (1 << 48) - 1 - u64::from(n),
                used_for: ZoneUse::ALL[usize::from(n)],
                stream: 250 + n,
                written: 1000 + u32::from(n),
            })
            .collect();
        let leaves = [LeafRow::default(), LeafRow { place: Pba(Pba::END.0 - 2), blocks: 19 }];
        let pages = [0, 7, 7].map(|n| PageRow { first: Lba(n), place: Pba(Pba::END.0 - 2 - n) });
        let (mut a, mut b, c) = (Vec::new(), Vec::new(), PageRow::encode_all(&pages));
        zones.iter().for_each(|row| row.encode(&mut a));
        leaves.iter().for_each(|row| row.encode(&mut b));
        assert_eq!((a.len(), b.len(), c.len()), (5 * ZoneRow::BYTES, 2 * LeafRow::BYTES, 4 + 3 * PageRow::BYTES));
        assert_eq!(ZoneRow::decode_all(&a), Some(zones));
        assert_eq!(LeafRow::decode_all(&b), Some(leaves.to_vec()));
        assert_eq!(PageRow::decode_all(&[&c[..], &[0; 99]].concat()), Some(pages.to_vec()));
        assert_eq!(PageRow::decode_all(&c[..c.len() - 1]), None);
    }

    #[test]
    fn rows_that_cannot_be_are_refused() {
        let mut zone = Vec::new();
        ZoneRow::default().encode(&mut zone);
        zone[14] = 9;
        assert_eq!(ZoneRow::decode_all(&zone), None, "a use that is not known");
        assert_eq!(LeafRow::decode_all(&(20_u64 << 40).to_le_bytes()), None, "a leaf that is too long");
        assert_eq!(LeafRow::decode_all(&(1_u64 << 50).to_le_bytes()), None);
        let pages = PageRow::encode_all(&[2, 1].map(|n| PageRow { first: Lba(n), place: Pba(0) }));
        assert_eq!(PageRow::decode_all(&pages), None, "pages out of order");
    }
}
