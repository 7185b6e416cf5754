//! What the disks of an `stl` volume say by the format alone: to the tools, which share with the target how bytes are read and what of
//! the batches behind a root counts, but neither its map in memory nor its ways.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::drives::Drives;
use crate::StlMedia;
use crate::model::{Broken, Rule};
use crate::volume::{Volume, VolumeRequest, read_stamps};
use shingle_core::block::{Data, Op, Payload};
use shingle_core::dm::stl::format::{Checksum, PieceKind, ZoneUse};
use shingle_core::dm::stl::map::{Extent, LeafNo, Pending, Span};
use shingle_core::dm::stl::tools::{self, Depth, Findings, Media as _, RootFound, Survey, Walk, Window};
use shingle_core::dm::stl::{BLOCK_BYTES, Lba, Pba, ZoneIndex};
use shingle_core::time::Instant;

/// Checks the volume, its data as well.
fn checked(media: &mut StlMedia<'_>) -> Result<tools::Volume, String> {
    let mut pace = |_| ();
    let report = tools::check(media, Depth { pace: Some(&mut pace) }, &mut |_, _| ());
    let errors = report.findings.all().iter().filter(|found| found.is_error());
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    match report.volume {
        Some(volume) if errors.is_empty() => Ok(volume),
        _ => Err(errors.join("; ")),
    }
}

/// All extents of the map.
fn extents(media: &mut StlMedia<'_>, volume: &tools::Volume) -> Vec<Extent> {
    let (mut walk, mut all) = (Walk::new(volume), Vec::new());
    for leaf in (0..volume.leaves.len() as u32).map(LeafNo) {
        let (found, _) = walk.leaf(media, leaf, &mut Findings::default());
        all.extend(found.iter().map(Span::to_extent));
    }
    all
}

/// Compares what the map leads to with what may be there.
pub(super) fn read(drives: &mut Drives, volume: &mut Volume) -> Result<(), Broken> {
    let broken = |what: String| (Rule::Metadata, what);
    let mut media = drives.stl_media().map_err(broken)?;
    let found = checked(&mut media).map_err(broken)?;
    let blocks = found.newest.root.capacity as u32;
    let mut bytes = vec![0; blocks as usize * BLOCK_BYTES];
    for extent in extents(&mut media, &found) {
        for offset in 0..extent.blocks {
            let Some((place, _)) = extent.place(offset) else { continue };
            let spot = found.space.spot(place).ok_or_else(|| broken(format!("block {place} is nowhere")))?;
            let at = (extent.lba.0 + u64::from(offset)) as usize * BLOCK_BYTES;
            media.read(spot, &mut bytes[at..at + BLOCK_BYTES]).map_err(|error| broken(error.0))?;
        }
    }
    // Hosts may use less than all of it.
    bytes.truncate(volume.blocks() as usize * BLOCK_BYTES);
    for (first, part) in (0..blocks).step_by(64).zip(bytes.chunks(64 * BLOCK_BYTES)) {
        let data = Data::zeroed(part.len());
        data.write(0, part);
        let request = VolumeRequest::new(Op::Read, first, (part.len() / BLOCK_BYTES) as u32);
        let number = volume.submit(request, Instant::ZERO);
        volume.succeed(number, read_stamps(&Payload::Data(data)))?;
    }
    Ok(())
}

/// Blocks on disk `place` that the newest root leads to, and that the copy of this disk does not have. The batches behind the root do not count, and nothing
/// does if only that disk has the newest root.
pub(super) fn lacking(right: &mut Drives, copied: &mut Drives, place: usize) -> Result<usize, String> {
    let (mut right, mut copied) = (right.stl_media()?, copied.stl_media()?);
    let mut volume = tools::Volume::find(&mut right, &mut Findings::default()).map_err(|error| error.to_string())?;
    let newest = volume.newest.header.batch.number;
    let has_newest = |root: &Option<RootFound>| root.as_ref().is_some_and(|root| root.header.batch.number == newest);
    if !volume.of_disks.iter().enumerate().any(|(disk, root)| disk != place && has_newest(root)) {
        return Ok(0);
    }
    volume.pending = Pending::default();
    let mut lacking = 0;
    for extent in extents(&mut right, &volume) {
        for (place_of_block, _) in (0..extent.blocks).filter_map(|offset| extent.place(offset)) {
            let spot = volume.space.spot(place_of_block).filter(|spot| spot.disk == place);
            let Some(spot) = spot else { continue };
            let [mut one, mut other] = [vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]];
            let is_there = right.read(spot, &mut one).is_ok();
            let is_same = copied.read(spot, &mut other).is_ok() && one == other;
            lacking += usize::from(is_there && !is_same);
        }
    }
    Ok(lacking)
}

/// Conditions of the map that large volumes have.
pub(super) fn conditions(drives: &mut Drives) -> Vec<&'static str> {
    let Ok(mut media) = drives.stl_media() else { return Vec::new() };
    let Ok(volume) = tools::Volume::find(&mut media, &mut Findings::default()) else { return Vec::new() };
    let pieces = &volume.newest.root.pieces;
    let written = volume.leaves.iter().flatten().filter(|row| row.blocks > 0).count();
    let tables = pieces.iter().filter(|piece| piece.kind == PieceKind::Leaves).count();
    let is_partly_merged = pieces.iter().any(|piece| piece.kind == PieceKind::Run && piece.first > LeafNo(0));
    let conditions = [
        ("several leaves", written > 1),
        ("several tables of leaves", tables > 1),
        ("a run merged in part", is_partly_merged),
    ];
    conditions.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| name).collect()
}

/// True if the newest root that can be read covers all that is there: nothing is behind it, and no zone that may have something has anything but
/// batches up to its pointer.
pub(super) fn is_settled(drives: &mut Drives) -> bool {
    let Ok(mut media) = drives.stl_media() else { return false };
    let mut findings = Findings::default();
    let Ok(volume) = tools::Volume::find(&mut media, &mut findings) else { return false };
    let space = &volume.space;
    let open = volume.newest.root.open.iter().map(|open| space.set.zone_of(open.start).0).collect::<Vec<_>>();
    let is_open = |zone: &ZoneIndex| {
        let is_free = volume.zones[zone.0 as usize].is_some_and(|row| row.used_for == ZoneUse::Free);
        open.contains(zone) || is_free
    };
    // A start takes a batch behind the root for torn if one of its blocks is damaged, so the root has to cover all headers.
    let since = volume.since();
    let mut ends = |zone| {
        let pointer = space.pointer(zone);
        let chain = (pointer > 0).then(|| tools::follow(&mut media, &volume, zone).0);
        chain
            .is_none_or(|chain| chain.end == pointer && !chain.found.iter().any(|found| since.is_before(&found.header)))
    };
    let sequential = space.zones().filter(|zone| space.is_sequential(*zone));
    volume.is_at_rest() && findings.is_clean() && sequential.filter(is_open).all(&mut ends)
}

/// Checks what a clean stop has left, and that the headers alone lead to each block that the map leads to.
pub(super) fn check_and_salvage(drives: &mut Drives) -> Result<(), String> {
    let mut media = drives.stl_media()?;
    let volume = checked(&mut media)?;
    let survey = Survey::take(&mut media, &mut |_, _| ())?;
    let blocks = Lba(0)..Lba(volume.newest.root.capacity);
    let window = Window::gather(&mut media, &survey, blocks.clone(), &mut |_, _| ());
    let mut salvaged = vec![None; volume.newest.root.capacity as usize];
    let each = |extent: &Extent| -> Vec<_> {
        (0..extent.blocks).map(|n| (extent.lba + u64::from(n), extent.place(n))).collect()
    };
    window.extents(blocks).iter().flat_map(each).for_each(|(lba, place)| salvaged[lba.0 as usize] = place);
    let known = extents(&mut media, &volume);
    let sum = |place: Option<(Pba, Checksum)>| place.map(|(_, sum)| sum);
    for (lba, known) in known.iter().flat_map(each).filter(|(_, place)| place.is_some()) {
        let found = salvaged[lba.0 as usize];
        if sum(found) == sum(known) {
            continue;
        }
        // The batch that voids a failed write may be gone.
        if !found.is_some_and(|(place, _)| survey.is_of_partial_batch(&mut media, place)) {
            return Err(format!("by the headers alone block {lba} is another than by the map"));
        }
    }
    Ok(())
}
