//! The rules for the validity bits, and for zones that hold no data.

use super::Finding;
use super::copies::{Asked, Copies};
use crate::dm::zoned::format::{
    Bitmap, MapEntry, Media, NO_ZONE, bitmap_blocks, bitmap_start, is_tertiary, pieces, read_run,
};
use crate::dm::zoned::{BLOCK_BYTES, Block, ChunkNo, Number, Rows, SetZone, ZoneClass, ZoneHealth, ZoneSpace};
use crate::prelude::*;

/// Zones that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Zones that no chunk has, those of metadata included, but not those of third superblocks.
    pub free: u32,
    /// Zones of chunks.
    pub used: u32,
}

/// Looks at the bitmap of every zone; where one cannot be read, that of the other set stands in for it.
pub(super) fn check(
    media: &mut dyn Media,
    (copies, entries): (&Copies, &Rows<ChunkNo, MapEntry>),
    findings: &mut Vec<Finding>,
    step: &mut dyn FnMut(u64),
) -> Counts {
    let space = media.space().clone();
    let used = used_zones(entries, &space);
    let mut counts = Counts::default();
    let mut unreadable = Vec::new();
    let visit = &mut |zone: SetZone, bitmap: &Bitmap| {
        let is_metadata = copies.layout.is_metadata(&space, zone);
        if used[zone] && !is_metadata {
            counts.used += 1;
            check_used(&space, zone, bitmap, findings);
        } else {
            counts.free += u32::from(!is_tertiary(&space, zone));
            let count = bitmap.weight();
            findings.extend((count > 0).then_some(Finding::FreeBits { zone, count }));
            // A free zone has to be empty. What is read-only stays as it is, and is never used.
            let is_left = !is_metadata && needs_reset(&space, zone);
            findings.extend(is_left.then(|| Finding::NotReset { zone, wp: space.zones()[zone].wp }));
        }
        step(u64::from(bitmap_blocks(space.zone_blocks())));
    };
    for_each_bitmap(media, copies, visit, &mut unreadable);
    findings.extend(unreadable);
    check_buffered(media, (copies, entries), findings);
    counts
}

/// Whether any chunk has the zone.
fn used_zones(entries: &Rows<ChunkNo, MapEntry>, space: &ZoneSpace) -> Rows<SetZone, bool> {
    let mut used = Rows::filled(false, space.zones().len());
    for zone in entries.iter().flat_map(|entry| [entry.dzone, entry.bzone]) {
        if let Some(used) = used.get_mut(zone) {
            *used = true;
        }
    }
    used
}

/// Reads the bitmaps of all zones, many at a time.
fn for_each_bitmap(
    media: &mut dyn Media,
    copies: &Copies,
    visit: &mut dyn FnMut(SetZone, &Bitmap),
    unreadable: &mut Vec<Finding>,
) {
    let zone_blocks = media.space().zone_blocks();
    let own_bytes = bitmap_blocks(zone_blocks) as usize * BLOCK_BYTES;
    let first = bitmap_start(media.space(), copies.starts[0], &copies.layout, SetZone(0));
    let (mut zone, mut pending) = (SetZone(0), Vec::new());
    for (block, len) in pieces(zone_blocks, first, u64::from(copies.layout.bitmap_blocks)) {
        let kept = pending.len();
        pending.resize(kept + len * BLOCK_BYTES, 0);
        let mut bad = Vec::new();
        read_run(media, block, &mut pending[kept..], &mut |at, error| {
            bad.push(at);
            unreadable.push(Finding::Unreadable { what: "bitmaps", error });
        });
        for at in bad {
            let to = &mut pending[kept + at as usize * BLOCK_BYTES..][..BLOCK_BYTES];
            if copies.either(media, block - copies.starts[0] + u64::from(at), to).is_err() {
                to.fill(0);
            }
        }
        let whole = pending.len() / own_bytes * own_bytes;
        for bytes in pending[..whole].chunks(own_bytes) {
            visit(zone, &Bitmap::decode(bytes.to_vec()));
            zone = zone + 1;
        }
        pending.drain(..whole);
    }
}

fn check_used(space: &ZoneSpace, zone: SetZone, bitmap: &Bitmap, findings: &mut Vec<Finding>) {
    let (info, len) = (space.zones()[zone], Block(space.zone_len(zone)));
    let count = bitmap.blocks(len).count() as u32;
    if count > 0 {
        findings.push(Finding::PastEnd { zone, count });
    }
    let is_offline = info.health == ZoneHealth::Offline && !info.is_runt;
    if info.class != ZoneClass::Sequential || is_offline {
        return;
    }
    let count = bitmap.blocks(info.wp).filter(|block| *block < len).count() as u32;
    if count > 0 {
        findings.push(Finding::PastWp { zone, count, wp: info.wp });
    }
}

/// Whether `zone` would have to be empty if no chunk has it, and is not.
pub(super) fn needs_reset(space: &ZoneSpace, zone: SetZone) -> bool {
    let info = space.zones()[zone];
    info.class == ZoneClass::Sequential && info.health != ZoneHealth::ReadOnly && info.wp > Block::FIRST
}

/// A block of a chunk is valid in one of its zones.
fn check_buffered(
    media: &mut dyn Media,
    (copies, entries): (&Copies, &Rows<ChunkNo, MapEntry>),
    findings: &mut Vec<Finding>,
) {
    let zones = media.space().zones().len();
    for (chunk, MapEntry { dzone, bzone }) in entries.numbered() {
        if *bzone == NO_ZONE || dzone.index() >= zones || bzone.index() >= zones || dzone == bzone {
            continue;
        }
        let [data, buffer] = [*dzone, *bzone]
            .map(|zone| copies.bitmaps(media, Asked { zone, otherwise: false, may_stand_in: true }, &mut |_, _| ()));
        let count = data[0].common(&buffer[0]).weight();
        if count > 0 {
            findings.push(Finding::Both { chunk, count });
        }
    }
}
