//! Both copies of the metadata, block by block, whatever of them can be read.

use alloc::collections::BTreeMap;

use crate::dm::zoned::format::{
    Bitmap, ENTRIES, Layout, MapEntry, Media, MediaError, NO_ZONE, Other, Sets, Superblock, bitmap_blocks,
    bitmap_start, pieces, read_run, validate_superblock,
};
use crate::dm::zoned::{BLOCK_BYTES, ChunkNo, Rows, SetZone, ZoneSpace};

/// What the copy that is not in force is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twin {
    /// Of the same generation: what it has and the one in force lacks is right.
    Equal,
    /// Perhaps an older one: it stands in for what is wrong or unreadable.
    Perhaps,
    /// Of another set: nothing.
    Nothing,
}

/// Where both copies are, and what they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    pub layout: Layout,
    /// Where they start, that in force first.
    pub starts: [u64; 2],
    pub twin: Twin,
}

/// Of which zone the bits are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub zone: SetZone,
    /// What bits are taken to be that neither copy can tell.
    pub otherwise: bool,
    /// Whether the other copy may tell what the one in force cannot.
    pub may_stand_in: bool,
}

/// The mapping table of one copy.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// The entries; `None` where it cannot be read.
    pub entries: Rows<ChunkNo, Option<MapEntry>>,
    /// The blocks of it that cannot be read.
    pub unreadable: BTreeMap<u32, MediaError>,
}

impl Copies {
    pub fn of(sets: &Sets, space: &ZoneSpace) -> Self {
        let twin = match sets.choice.other {
            Other::InStep => Twin::Equal,
            Other::Behind | Other::Invalid => Twin::Perhaps,
            Other::Foreign => Twin::Nothing,
        };
        let starts = [sets.choice.set, 1 - sets.choice.set].map(|set| sets.layout.set_start(space, set));
        Self { layout: sets.layout, starts, twin }
    }

    /// The mapping tables, that in force first. One of another set has no entries.
    pub fn tables(&self, media: &mut dyn Media) -> [Table; 2] {
        let mut tables = self.starts.map(|start| self.table(media, start));
        if self.twin == Twin::Nothing {
            tables[1].entries.as_mut_slice().fill(None);
        }
        tables
    }

    fn table(&self, media: &mut dyn Media, start: u64) -> Table {
        let mut bytes = vec![0; self.layout.map_blocks as usize * BLOCK_BYTES];
        let mut unreadable = BTreeMap::new();
        for (block, len) in pieces(media.space().zone_blocks(), start + 1, self.layout.map_blocks.into()) {
            let at = (block - start - 1) as usize;
            let to = &mut bytes[at * BLOCK_BYTES..][..len * BLOCK_BYTES];
            read_run(media, block, to, &mut |own, error| drop(unreadable.insert(at as u32 + own, error)));
        }
        let is_read = |at: usize| !unreadable.contains_key(&((at / ENTRIES) as u32));
        let entries = bytes.as_chunks().0.iter().enumerate();
        let entries = entries.map(|(at, bytes)| is_read(at).then(|| MapEntry::decode(*bytes)));
        let entries = entries.take(self.layout.chunks as usize).collect();
        Table { entries, unreadable }
    }

    /// Reads block `block` of the copy that is in force, or else of the other one.
    ///
    /// # Errors
    /// That of the one in force, if neither can be read.
    pub fn either(&self, media: &mut dyn Media, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        let own = media.read(self.starts[0] + block, to);
        own.or_else(|error| match self.twin {
            Twin::Nothing => Err(error),
            Twin::Equal | Twin::Perhaps => media.read(self.starts[1] + block, to).map_err(|_| error),
        })
    }

    /// The bits of `zone` in each copy, that in force first. What one copy cannot tell the other one does, if that may stand
    /// in. Each block that the copy in force lacks is told to `lack`, and whether it is
    /// known from the other one.
    pub fn bitmaps(&self, media: &mut dyn Media, asked: Asked, lack: &mut dyn FnMut(MediaError, bool)) -> [Bitmap; 2] {
        let (Asked { zone, otherwise, may_stand_in }, zone_blocks) = (asked, media.space().zone_blocks());
        let mut bits = [Bitmap::empty(zone_blocks), Bitmap::empty(zone_blocks)];
        if zone == NO_ZONE {
            return bits;
        }
        let first = bitmap_start(media.space(), 0, &self.layout, zone);
        for (block, at) in (first..).zip((0..bitmap_blocks(zone_blocks) as usize).map(|at| at * BLOCK_BYTES)) {
            let [own, other] = bits.each_mut().map(|bits| &mut bits.bytes_mut()[at..at + BLOCK_BYTES]);
            let own_read = media.read(self.starts[0] + block, own);
            let has_other = self.twin != Twin::Nothing && media.read(self.starts[1] + block, other).is_ok();
            match own_read {
                Ok(()) if has_other => {}
                Ok(()) => other.copy_from_slice(own),
                Err(error) => {
                    let is_known = has_other && may_stand_in;
                    if !is_known {
                        other.fill(if otherwise { 0xff } else { 0 });
                    }
                    own.copy_from_slice(other);
                    lack(error, is_known);
                }
            }
        }
        bits
    }
}

/// The sets with the numbers of the other one if both are of the same generation and only those are exact.
pub(super) fn exact(space: &ZoneSpace, sets: Sets) -> Sets {
    let other = sets.found[1 - sets.choice.set].as_ref().ok();
    let other = other.filter(|_| sets.choice.other == Other::InStep && !is_exact(&sets.superblock, space));
    let Some(superblock) = other.filter(|other| is_exact(other, space)).copied() else { return sets };
    match validate_superblock(&superblock, space, superblock.block) {
        Ok((layout, _)) => Sets { superblock, layout, ..sets },
        Err(_) => sets,
    }
}

/// Whether these devices, made a set with the same reserve, would have as many chunks.
pub(super) fn is_exact(superblock: &Superblock, space: &ZoneSpace) -> bool {
    let Superblock { chunks, reserved, .. } = *superblock;
    Layout::compute(space, reserved).is_ok_and(|layout| (layout.chunks, layout.reserved) == (chunks, reserved))
}
