//! Roots on devices: where they are, and which is the newest. The first zones of each have them, one after the other and in turn.

use super::disks::{self, Disk};
use super::format::{BatchKind, Checksum, Header, ROOT_BLOCKS, Root};
use super::{BLOCK_BYTES, BLOCK_SECTORS};
use crate::block::{DeviceId, Flags, Limits, Reason};
use crate::prelude::*;
use crate::sector::Sector;
use crate::task::Io;
use crate::zone::{Condition, Zone, ZoneKind};

/// A device that the volume was given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub device: DeviceId,
    pub limits: Limits,
}

/// A root that was found, and where.
#[derive(Clone, Debug)]
pub(super) struct FoundRoot {
    pub header: Header,
    pub root: Root,
    /// The block of its device that it begins at.
    pub block: u64,
}

/// What was found on a device.
pub(super) struct Seen {
    pub given: Given,
    /// Which of the set it is, when that is known.
    pub member: usize,
    pub zones: Vec<Zone>,
    /// Its roots that are whole, in whichever zone.
    pub roots: Vec<FoundRoot>,
    /// The blocks at which there may be others, which cannot be read.
    unreadable: Vec<u64>,
    /// The blocks at which there are parts of one, in zones without a pointer.
    torn: Vec<u64>,
    /// The version of one that is of another than is known.
    unknown: Option<u16>,
}

/// Zones of each device that have roots: the first ones.
pub const ROOT_ZONES: u64 = 2;

/// Reads zones and roots of a device. A regular one is cut into zones as long as those of the others.
pub(super) async fn look(io: &Io, given: Given, zone_blocks: u64) -> Result<Seen, Reason> {
    let count = given.limits.zones() as usize;
    let zones = if count == 0 { Vec::new() } else { io.report(given.device, Sector::ZERO, count).await? };
    let (roots, unreadable, torn) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = Seen { given, member: 0, zones, roots, unreadable, torn, unknown: None };
    for number in 0..ROOT_ZONES {
        read_roots(io, &mut seen, number, zone_blocks).await;
    }
    match seen.doubt(zone_blocks) {
        Some(block) => {
            Err(hurt(format!("the root at block {block} of a device cannot be read, and may be the newest")))
        }
        None => Ok(seen),
    }
}

/// Most roots that are read at once, and among which the newest is looked for one after the other.
const ROOTS_AT_ONCE: u64 = 64;

/// Places for roots in a zone, one after the other.
struct RootZone<'a> {
    io: &'a Io,
    device: DeviceId,
    first: u64,
    places: u64,
    /// Places that a read takes.
    at_once: u64,
}

impl RootZone<'_> {
    /// The block at which a place begins.
    fn block(&self, place: u64) -> u64 {
        self.first + place * ROOT_BLOCKS as u64
    }

    /// What lies at so many places.
    async fn read(&self, place: u64, count: u64) -> Result<Vec<u8>, Reason> {
        let data = disks::memory(count as usize * ROOT_BLOCKS)?;
        let sector = Sector(self.block(place) * u64::from(BLOCK_SECTORS));
        self.io.read(self.device, sector, data.clone()).ok().await?;
        Ok(data.to_vec())
    }

    /// What lies at each of so many places, if it can be read.
    async fn read_each(&self, place: u64, count: u64) -> Vec<Option<Vec<u8>>> {
        if let Ok(bytes) = self.read(place, count).await {
            return bytes.chunks(ROOT_BLOCKS * BLOCK_BYTES).map(|root| Some(root.to_vec())).collect();
        }
        let mut each = Vec::new();
        for place in place..place + count {
            each.push(self.read(place, 1).await.ok());
        }
        each
    }

    /// The number of the root at a place, if a whole one can be read there.
    async fn number(&self, place: u64) -> Option<u64> {
        let bytes = self.read(place, 1).await.ok()?;
        decode_root(&bytes, self.block(place)).map(|found| found.header.batch.number)
    }

    /// A place with a root that was written after the first of the zone, and not long before the newest: they are looked through from there on. A zone may
    /// have thousands, and a head loses a turn for each that is read by itself.
    async fn near_newest(&self) -> u64 {
        let (mut near, mut behind) = (0, self.places.div_ceil(ROOTS_AT_ONCE));
        let oldest = if behind > 1 { self.number(0).await } else { None };
        while oldest.is_some() && behind - near > 1 {
            let middle = u64::midpoint(near, behind);
            if self.number(middle * ROOTS_AT_ONCE).await >= oldest {
                near = middle;
            } else {
                behind = middle;
            }
        }
        near * ROOTS_AT_ONCE
    }
}

/// Reads the newest roots of a zone.
async fn read_roots(io: &Io, seen: &mut Seen, number: u64, zone_blocks: u64) {
    let zone = seen.zones.get(number as usize).copied();
    if zone.is_some_and(|zone| zone.cond == Condition::Offline) {
        return;
    }
    let Given { device, limits } = &seen.given;
    let at_once = u64::from(Disk::new(*device, limits).most_blocks()) / ROOT_BLOCKS as u64;
    let places = room_for_roots(zone.as_ref(), zone_blocks) / ROOT_BLOCKS as u64;
    let (first, at_once) = (number * zone_blocks, at_once.clamp(1, ROOTS_AT_ONCE));
    let roots = RootZone { io, device: *device, first, places, at_once };
    let mut place = roots.near_newest().await;
    while place < places {
        let count = roots.at_once.min(places - place);
        for (bytes, place) in roots.read_each(place, count).await.into_iter().zip(place..) {
            if seen.take_root(bytes, roots.block(place), zone_blocks).is_none() {
                return;
            }
        }
        place += count;
    }
}

impl Seen {
    /// Takes what may be a root. None if no newer one is behind it in its zone.
    fn take_root(&mut self, bytes: Option<Vec<u8>>, block: u64, zone_blocks: u64) -> Option<()> {
        let Some(bytes) = bytes else {
            self.unreadable.push(block);
            return Some(());
        };
        let Some(found) = decode_root(&bytes, block) else {
            let zone = self.zones.get((block / zone_blocks) as usize);
            let has_no_pointer = zone.is_none_or(|zone| zone.kind == ZoneKind::Conventional);
            self.unknown = self.unknown.or(Header::unknown_version(&bytes));
            let has_header = Header::decode(&bytes).is_ok_and(|(header, _)| matches!(header.kind, BatchKind::Root(_)));
            self.torn.extend((has_header && has_no_pointer).then_some(block));
            return None;
        };
        // Behind the newest root of a zone without a pointer lie older ones.
        let is_older = self.roots.last().is_some_and(|last| {
            last.block / zone_blocks == block / zone_blocks && last.header.batch.number > found.header.batch.number
        });
        self.roots.extend((!is_older).then_some(found));
        (!is_older).then_some(())
    }
}

/// Erases what is left of roots that were torn: parts of the next one could make one of them whole when it is torn itself, and what that
/// names is not there any more.
pub(super) async fn erase_torn(io: &Io, seen: &[Seen]) {
    for (device, block) in seen.iter().flat_map(|seen| seen.torn.iter().map(|block| (seen.given.device, *block))) {
        let Ok(zeroes) = disks::memory(1) else { return };
        // If it fails the next root will as well, or is whole.
        let _ = io.write(device, Sector(block * u64::from(BLOCK_SECTORS)), zeroes, Flags::NONE).ok().await;
    }
}

/// Blocks of a zone that may have roots.
pub(super) fn room_for_roots(zone: Option<&Zone>, zone_blocks: u64) -> u64 {
    let unit = u64::from(BLOCK_SECTORS);
    match zone {
        None => zone_blocks,
        Some(zone) if zone.kind == ZoneKind::Conventional || zone.cond == Condition::ReadOnly => zone.capacity / unit,
        Some(zone) => (zone.written_up_to().0 - zone.start.0) / unit,
    }
}

impl Seen {
    /// A root that cannot be read, and that may be newer than all that can: in its zone none comes behind it, and the other zone was not
    /// begun after it.
    fn doubt(&self, zone_blocks: u64) -> Option<u64> {
        let is_settled = |block: u64| {
            let of_zone = |found: &&FoundRoot| found.block / zone_blocks == block / zone_blocks;
            let before = self.roots.iter().filter(of_zone).find(|found| found.block < block);
            let is_newer =
                |found: &FoundRoot| before.is_some_and(|it| it.header.batch.number < found.header.batch.number);
            self.roots.iter().any(|found| if of_zone(&found) { found.block > block } else { is_newer(found) })
        };
        self.unreadable.iter().copied().find(|block| !is_settled(*block))
    }
}

/// Why such a volume is refused.
pub(super) fn of_unknown_version(version: u16) -> String {
    format!("the volume is of version {version} of the format, and this program knows version 1")
}

pub(super) fn decode_root(bytes: &[u8], block: u64) -> Option<FoundRoot> {
    let (header, blocks) = Header::decode(bytes).ok()?;
    let payload = &bytes[blocks * BLOCK_BYTES..];
    let is_whole = payload.chunks(BLOCK_BYTES).map(Checksum::of).eq(header.checksums.iter().copied());
    let root = Root::decode(payload).ok().filter(|_| matches!(header.kind, BatchKind::Root(_)) && is_whole)?;
    Some(FoundRoot { header, root, block })
}

/// The newest root of all.
pub(super) fn newest(seen: &[Seen]) -> Result<FoundRoot, Reason> {
    if let Some(version) = seen.iter().find_map(|seen| seen.unknown) {
        return Err(failed(of_unknown_version(version)));
    }
    let all = seen.iter().flat_map(|seen| &seen.roots);
    let newest = all.max_by_key(|found| found.header.batch.number).cloned();
    newest.ok_or_else(|| failed(NO_ROOT))
}

/// Error of disks on which no root was found, with the next step.
pub(super) const NO_ROOT: &str = "no root was found: the disks hold no stl volume (`shingle stl format` makes one), or all its roots are lost (`shingle stl salvage` finds what is left)";

/// Why a volume cannot be used.
pub(super) fn failed(what: impl Into<String>) -> Reason {
    Reason::VolumeFailed(what.into().into())
}

/// Why a volume cannot be used of which something is lost, and what helps.
pub(super) fn hurt(what: impl core::fmt::Display) -> Reason {
    failed(format!("{what}: `shingle stl salvage` finds what is left"))
}
