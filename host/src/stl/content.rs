//! Content of disks: a format would destroy it, and tools for `stl` name it if it is not a volume.

use shingle_core::dm::stl::tools::{Disk, Findings, Media, MediaError, Spot, Survey, Volume};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS};
use shingle_core::zone::{Condition, ZoneKind};

use super::Disks;
use crate::dmz::content::{Content, HEAD};

/// Says what disks hold that have no `stl` volume, and which command fits, if they hold something known; `None` otherwise.
pub fn other_content(disks: &mut Disks) -> Option<String> {
    let mut findings = Findings::default();
    if Volume::find_part(disks, &mut findings).is_ok() || Survey::take(disks, &mut |_, _| ()).is_ok() {
        return None;
    }
    (0..disks.disks().len()).find_map(|number| match head(disks, number).ok()?? {
        Content::Stl => None,
        found => found.instead_of("stl volume", disks.names().nth(number)?),
    })
}

/// What one of the disks from number `first` on holds, with its path; `None` if all of them are as new.
///
/// # Errors
/// If they cannot be read.
pub fn content(disks: &mut Disks, first: usize) -> Result<Option<String>, MediaError> {
    for number in first..disks.disks().len() {
        let found = match head(disks, number)? {
            Some(found) => Some(found.to_string()),
            None => written_zone(&disks.disks()[number]),
        };
        if let Some(found) = found {
            return Ok(disks.names().nth(number).map(|name| format!("{name} holds {found}")));
        }
    }
    Ok(None)
}

/// What the start of a disk says, of what is written of its first zone that can be read: behind that some disks have other bytes than zeroes.
fn head(disks: &mut Disks, disk: usize) -> Result<Option<Content>, MediaError> {
    let Disk { sectors, zones, .. } = &disks.disks()[disk];
    let readable = zones.iter().find(|zone| zone.cond != Condition::Offline);
    let (start, sectors) = match readable {
        None if !zones.is_empty() => return Ok(None),
        None => (0, *sectors),
        Some(zone) if zone.kind == ZoneKind::Sequential => (zone.start.0, zone.written_up_to().0 - zone.start.0),
        Some(zone) => (zone.start.0, zone.capacity),
    };
    let blocks = (sectors / u64::from(BLOCK_SECTORS)).min((HEAD / BLOCK_BYTES) as u64);
    if blocks == 0 {
        return Ok(None);
    }
    let mut head = vec![0; blocks as usize * BLOCK_BYTES];
    disks.read(Spot { disk, block: start / u64::from(BLOCK_SECTORS) }, &mut head)?;
    Ok(Content::of(&head))
}

fn written_zone(disk: &Disk) -> Option<String> {
    let is_written =
        |zone: &shingle_core::zone::Zone| zone.kind == ZoneKind::Sequential && zone.written_up_to() > zone.start;
    let (number, zone) = disk.zones.iter().enumerate().find(|(_, zone)| is_written(zone))?;
    let blocks = (zone.written_up_to().0 - zone.start.0) / u64::from(BLOCK_SECTORS);
    Some(format!("data in zone {number}, of which {blocks} blocks of 4096 bytes are written"))
}
