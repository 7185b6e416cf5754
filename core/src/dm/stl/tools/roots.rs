//! The next root of a volume that nobody uses: where it goes, and of which life it is.

use super::media::{Media, MediaError, Spot};
use super::volume::Volume;
use crate::dm::stl::ZoneIndex;
use crate::dm::stl::format::{Batch, ROOT_BLOCKS};

/// Of another life than the last one, so that nothing that is left of that counts.
pub(super) fn next_life(volume: &Volume) -> Batch {
    let last = &volume.newest.header.batch;
    let since = volume.newest.root.cut;
    Batch { set: last.set, epoch: last.epoch + 1, since, root: last.place, ..Batch::default() }
}

/// Where the next root of a device goes: behind its last one, or to the start of its other zone.
pub(super) fn next_root(
    media: &mut dyn Media,
    volume: &Volume,
    (member, disk): (usize, usize),
) -> Result<Spot, MediaError> {
    let (space, zone_blocks) = (&volume.space, u64::from(volume.newest.root.zone_blocks));
    let last = volume.of_disks[disk].as_ref().map_or(0, |found| found.spot.block);
    let (at, behind) = (last / zone_blocks, (last % zone_blocks) as u32 + ROOT_BLOCKS as u32);
    let zone = |at: u64| ZoneIndex(space.set.zones(member).start.0 + at as u32);
    let is_clean = !space.is_sequential(zone(at)) || space.pointer(zone(at)) == behind;
    if is_clean && behind + ROOT_BLOCKS as u32 <= space.room(zone(at)) {
        return Ok(Spot { disk, block: last + ROOT_BLOCKS as u64 });
    }
    let start = Spot { disk, block: (1 - at) * zone_blocks };
    if space.is_sequential(zone(1 - at)) && space.pointer(zone(1 - at)) > 0 {
        media.reset(start)?;
    }
    Ok(start)
}
