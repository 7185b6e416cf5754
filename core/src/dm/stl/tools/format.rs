//! Making a volume of disks.

use super::media::{Disk, Media, MediaError, PIECE, Progress, Spot, room_for};
use crate::dm::stl::format::{SetId, Sizing};
use crate::dm::stl::roots::ROOT_ZONES;
use crate::dm::stl::{BLOCK_SECTORS, CreateError, Created, Part, create};
use crate::prelude::*;
use crate::zone::{Condition, Zone, ZoneKind};

/// How a volume is made.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Its identity: drawn for it.
    pub set: SetId,
    /// The identities of its disks: drawn for them.
    pub disks: Vec<[u8; 16]>,
    /// Space that is kept back, in thousandths.
    pub reserve: u32,
}

/// Why no volume was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// There can be none.
    Create(CreateError),
    /// A disk failed.
    Media(MediaError),
}

impl_error!(FormatError, Create(CreateError), Media(MediaError), |self, f| match self {
    Self::Create(error) => error.fmt(f),
    Self::Media(error) => error.fmt(f),
});

/// What a volume of these disks would be.
///
/// # Errors
/// Why there can be none.
pub fn plan(disks: &[Disk], options: &FormatOptions) -> Result<Created, CreateError> {
    let part = |(disk, id): (&Disk, &[u8; 16])| Part {
        id: *id,
        zones: disk.zones.clone(),
        sectors: disk.sectors,
        max_active: disk.max_active,
    };
    let parts: Vec<Part> = disks.iter().zip(&options.disks).map(part).collect();
    create(options.set, &parts, Sizing::with_reserve(options.reserve))
}

/// Makes the disks a volume. What they held is lost: sequential zones are emptied.
///
/// Old roots go first and the new ones come last, each durable before the next step: one that is cut off leaves no volume, or the whole
/// new one.
///
/// # Errors
/// If there can be no such volume, and then nothing was changed; or if a disk fails.
pub fn format(media: &mut dyn Media, options: &FormatOptions, progress: Progress<'_>) -> Result<Created, FormatError> {
    let created = plan(media.disks(), options)?;
    let zone_blocks = media.disks().iter().find_map(Disk::zone_blocks).unwrap_or(1);
    let resets = to_reset(media.disks());
    let total = (resets.len() + created.roots.len() * 2) as u64;
    let mut done = 0;
    let mut step = || {
        done += 1;
        progress(done, total);
    };
    for disk in 0..created.roots.len() {
        wipe(media, disk, zone_blocks)?;
        step();
    }
    media.flush()?;
    for spot in resets {
        media.reset(spot)?;
        step();
    }
    media.flush()?;
    for (disk, (sector, bytes)) in created.roots.iter().enumerate() {
        media.write(Spot { disk, block: sector.0 / u64::from(BLOCK_SECTORS) }, bytes)?;
        step();
    }
    media.flush()?;
    Ok(created)
}

/// Takes the roots of a disk away.
pub(super) fn wipe(media: &mut dyn Media, disk: usize, zone_blocks: u32) -> Result<(), MediaError> {
    for number in 0..ROOT_ZONES {
        let start = Spot { disk, block: number * u64::from(zone_blocks) };
        match media.disks()[disk].zones.get(number as usize).copied() {
            Some(zone) if zone.kind == ZoneKind::Sequential => {
                if needs_reset(&zone) {
                    media.reset(start)?;
                }
            }
            _ => zero(media, start, zone_blocks)?,
        }
    }
    Ok(())
}

/// Zeroes, also where an old root would lie behind the new ones.
fn zero(media: &mut dyn Media, start: Spot, blocks: u32) -> Result<(), MediaError> {
    let zeroes = room_for(PIECE.min(blocks));
    for at in (0..blocks).step_by(PIECE as usize) {
        let len = PIECE.min(blocks - at) as usize * super::BLOCK_BYTES;
        media.write(Spot { block: start.block + u64::from(at), ..start }, &zeroes[..len])?;
    }
    Ok(())
}

/// The starts of all zones that have something in them and no roots.
fn to_reset(disks: &[Disk]) -> Vec<Spot> {
    let of = |(disk, it): (usize, &Disk)| {
        let zones = it.zones.iter().skip(ROOT_ZONES as usize).filter(|zone| needs_reset(zone));
        zones.map(|zone| Spot { disk, block: zone.start.0 / u64::from(BLOCK_SECTORS) }).collect::<Vec<_>>()
    };
    disks.iter().enumerate().flat_map(of).collect()
}

pub(super) fn needs_reset(zone: &Zone) -> bool {
    let can_be = !matches!(zone.cond, Condition::Empty | Condition::ReadOnly | Condition::Offline);
    zone.kind == ZoneKind::Sequential && can_be
}
