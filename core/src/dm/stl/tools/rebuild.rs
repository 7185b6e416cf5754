//! A new map and new roots for a set that has lost them, in zones that are empty.
//!
//! Nothing is changed but empty zones before all of the map is durable; then the zones of roots are emptied and get the new ones. If no root
//! is left, no old map can be read either, and its zones are empty ones, too. A rebuild that was interrupted before its first root begins anew;
//! one that was interrupted behind it has only the roots of other disks left to write.

use super::format::wipe;
use super::media::{Media, MediaError, Progress, Spot};
use super::salvage::{Loss, Window};
use super::survey::{Stream, Survey, ZoneSeen};
use super::volume::{RootFound, Volume};
use crate::dm::stl::checkpoint::{encode_root, leaves_of_piece, zones_of_piece};
use crate::dm::stl::format::{
    Batch, BatchKind, Checksum, Header, LeafRow, Life, OpenZone, Piece, PieceKind, Root, ZoneRow, ZoneUse, encode_leaf,
};
use crate::dm::stl::log::Stream as Written;
use crate::dm::stl::map::{LeafImage, LeafNo, LeafSize};
use crate::dm::stl::{BLOCK_BYTES, Epoch, Generation, Lba, Pba, ZoneIndex};
use crate::prelude::*;

/// What a volume becomes.
#[derive(Clone, Copy, Debug)]
pub struct RebuildOptions {
    /// Blocks of the exposed disk.
    pub capacity: u64,
    /// Space that is kept back, in thousandths.
    pub reserve: u32,
    /// Blocks of the exposed disk that are gathered at a time: each takes [`Window::BYTES_OF_BLOCK`].
    pub blocks_at_once: u64,
}

/// Why a volume was not rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebuildError {
    /// A disk failed.
    Media(MediaError),
    /// There are too few empty zones for the map.
    NoRoom,
    /// There are more pieces of the map than a root can name.
    TooLarge,
}

impl_error!(RebuildError, Media(MediaError), |self, f| match self {
    Self::Media(error) => error.fmt(f),
    Self::NoRoom => f.write_str("too few zones are empty for a new map: salvage it into an image"),
    Self::TooLarge => f.write_str("a root cannot name all of the map: salvage it into an image"),
});

/// Most blocks of payload of a batch.
const MOST_BLOCKS: usize = 256;

/// Zones without a pointer that a new root names.
const MOST_NAMED: usize = 64;

/// Zones that are filled with the new map.
struct Filling<'a> {
    survey: &'a Survey,
    /// Empty zones that are left.
    empty: Vec<ZoneIndex>,
    /// The zone that is filled, and its next block.
    open: Option<(ZoneIndex, u32)>,
    used: Vec<ZoneIndex>,
    generation: Generation,
    epoch: Epoch,
    lives: Vec<Life>,
    number: u64,
}

/// What became of a volume.
#[derive(Clone, Debug, Default)]
pub struct Rebuilt {
    /// Blocks that the new map has.
    pub live: u64,
    /// Blocks that are lost, as far as that is known without reading all data.
    pub lost: Vec<Loss>,
}

/// Writes a map of what a survey found, and roots that name it.
///
/// # Errors
/// If there is no room, or a disk fails. As long as no root was written, all that could be salvaged still can be.
pub fn rebuild(
    media: &mut dyn Media,
    survey: &Survey,
    options: &RebuildOptions,
    progress: Progress<'_>,
) -> Result<Rebuilt, RebuildError> {
    let size = leaf_size(survey);
    let leaves = size.leaves(options.capacity) as u32;
    let survey = &without_old_map(media, survey)?;
    let (mut filling, mut lost) = (Filling::new(survey), Vec::new());
    let (mut rows, mut live) = (Vec::with_capacity(leaves as usize), vec![0_u32; survey.zones.len()]);
    let at_once = (options.blocks_at_once / u64::from(size.blocks())).clamp(1, leaves.max(1).into()) as u32;
    for first in (0..leaves).step_by(at_once as usize) {
        let end = leaves.min(first + at_once);
        let blocks = size.start(LeafNo(first))..size.start(LeafNo(end)).min(Lba(options.capacity));
        let window = Window::gather(media, survey, blocks, &mut |_, _| ());
        lost.extend(window.torn());
        for leaf in (first..end).map(LeafNo) {
            let extents = window.extents(size.range(leaf));
            for extent in &extents {
                let place = extent.place(0).map_or(Pba(0), |(place, _)| place);
                live[survey.space.set.zone_of(place).0.0 as usize] += extent.blocks;
            }
            let image = LeafImage::of(size, leaf, &extents);
            let blocks = if extents.is_empty() { 0 } else { encode_leaf(&image, Pba(0)).len() / BLOCK_BYTES };
            let place = match blocks {
                0 => Pba(0),
                _ => filling.write(media, blocks, |place| encode_leaf(&image, place))?,
            };
            rows.push(LeafRow { place, blocks: blocks as u8 });
            progress(leaf.0.into(), leaves.into());
        }
    }
    let mut pieces = Vec::new();
    for (number, rows) in (0..).zip(rows.chunks(leaves_of_piece(rows.len()))) {
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| row.encode(&mut bytes));
        pieces.push(filling.write_piece(media, PieceKind::Leaves, number, bytes)?);
    }
    pieces.extend(filling.write_zones(media, &live)?);
    let root = filling.root(options, pieces);
    if !root.fits() {
        return Err(RebuildError::TooLarge);
    }
    media.flush()?;
    write_roots(media, &filling, &root)?;
    Ok(Rebuilt { live: live.iter().map(|live| u64::from(*live)).sum(), lost })
}

/// Empties zones of a map that no root names.
fn without_old_map(media: &mut dyn Media, survey: &Survey) -> Result<Survey, MediaError> {
    let mut survey = survey.clone();
    let is_named = survey.root.is_some();
    let old = survey.space.zones().filter(|zone| !is_named && survey.zones[zone.0 as usize].stream == Stream::Map);
    for zone in old.collect::<Vec<_>>() {
        if survey.space.is_sequential(zone)
            && let Some(start) = survey.space.spot(survey.space.set.start(zone))
        {
            media.reset(start)?;
        }
        let seen = &mut survey.zones[zone.0 as usize];
        *seen = ZoneSeen { generation: seen.generation, ..ZoneSeen::default() };
    }
    Ok(survey)
}

impl<'a> Filling<'a> {
    fn new(survey: &'a Survey) -> Self {
        let is_empty = |zone: &ZoneIndex| {
            let ZoneSeen { stream, pointer, .. } = survey.zones[zone.0 as usize];
            stream == Stream::Unknown && pointer == 0 && survey.space.writable(*zone) > 0
        };
        let generations = survey.zones.iter().filter_map(|zone| zone.generation);
        let generation = generations.max().unwrap_or_default() + 1;
        let mut empty: Vec<ZoneIndex> = survey.space.zones().filter(is_empty).collect();
        empty.reverse();
        let epoch = survey.epoch + 1;
        Self { survey, empty, open: None, used: Vec::new(), generation, epoch, lives: survey.lives(), number: 0 }
    }

    /// Writes blocks that say of themselves where they are. Where they are.
    fn write(
        &mut self,
        media: &mut dyn Media,
        blocks: usize,
        encode: impl FnOnce(Pba) -> Vec<u8>,
    ) -> Result<Pba, RebuildError> {
        if blocks > MOST_BLOCKS {
            return Err(RebuildError::TooLarge);
        }
        let (zone, at) = self.room_for(1 + blocks as u32)?;
        let place = self.survey.space.set.start(zone) + u64::from(at);
        let bytes = encode(place + 1);
        self.number += 1;
        let batch = Batch {
            set: self.survey.set,
            place,
            generation: self.generation,
            epoch: self.epoch,
            number: self.number,
            since: self.survey.user,
            ..Batch::default()
        };
        let checksums = bytes.chunks(BLOCK_BYTES).map(Checksum::of).collect();
        let mut all = Header { batch, kind: BatchKind::Map(self.lives.clone()), checksums }.encode();
        all.extend(bytes);
        let spot = self.survey.space.spot(place).ok_or(RebuildError::NoRoom)?;
        media.write(spot, &all)?;
        self.open = Some((zone, at + 1 + blocks as u32));
        Ok(place + 1)
    }

    /// The zone that has room for so many blocks, and where in it.
    fn room_for(&mut self, blocks: u32) -> Result<(ZoneIndex, u32), RebuildError> {
        if let Some((zone, at)) = self.open.filter(|(zone, at)| at + blocks <= self.survey.space.room(*zone)) {
            return Ok((zone, at));
        }
        // The first checkpoint of a start needs some, too.
        let fits = |zone: &ZoneIndex| self.survey.space.room(*zone) >= blocks;
        let zone = self.empty.pop_if(|zone| fits(zone)).filter(|_| self.empty.len() >= 2);
        let zone = zone.ok_or(RebuildError::NoRoom)?;
        self.used.push(zone);
        Ok((zone, 0))
    }

    fn write_piece(
        &mut self,
        media: &mut dyn Media,
        kind: PieceKind,
        number: u32,
        mut bytes: Vec<u8>,
    ) -> Result<Piece, RebuildError> {
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        let (blocks, checksum) = (bytes.len() / BLOCK_BYTES, Checksum::of(&bytes));
        let place = self.write(media, blocks, |_| bytes)?;
        Ok(Piece { kind, number, place, blocks: blocks as u32, checksum, first: LeafNo(0) })
    }

    /// Writes the table of zones, which says of the zones that it lies in itself that they are full.
    fn write_zones(&mut self, media: &mut dyn Media, live: &[u32]) -> Result<Vec<Piece>, RebuildError> {
        let of_piece = zones_of_piece(live.len());
        let blocks = (of_piece * ZoneRow::BYTES).div_ceil(BLOCK_BYTES) as u32 + 1;
        let count = live.len().div_ceil(of_piece);
        let mut pieces = Vec::new();
        // As many zones as it can take, from the next one on.
        let mut taken = self.used.clone();
        let needed = (count as u32 * blocks).div_ceil(self.survey.space.set.zone_blocks() / 2) as usize + 1;
        taken.extend(self.empty.iter().rev().take(needed));
        let rows: Vec<ZoneRow> = self.survey.space.zones().map(|zone| self.row(zone, live, &taken)).collect();
        for (number, rows) in (0..).zip(rows.chunks(of_piece)) {
            let mut bytes = Vec::new();
            rows.iter().for_each(|row| row.encode(&mut bytes));
            pieces.push(self.write_piece(media, PieceKind::Zones, number, bytes)?);
        }
        debug_assert!(self.used.iter().all(|zone| taken.contains(zone)), "a zone that the table calls free");
        Ok(pieces)
    }

    fn row(&self, zone: ZoneIndex, live: &[u32], taken: &[ZoneIndex]) -> ZoneRow {
        let ZoneSeen { generation, stream, end, pointer, .. } = &self.survey.zones[zone.0 as usize];
        let room = self.survey.space.writable(zone);
        let full = |stream: Written| ZoneRow {
            generation: generation.filter(|_| !taken.contains(&zone)).unwrap_or(self.generation),
            live: live[zone.0 as usize],
            closed_at: 0,
            used_for: ZoneUse::Full,
            stream: stream as u8,
            written: *end,
        };
        let unused = |used_for| ZoneRow { generation: self.generation, used_for, ..ZoneRow::default() };
        match stream {
            Stream::Roots => unused(ZoneUse::Roots),
            Stream::Users => full(Written::Users),
            Stream::Copies => full(Written::Copies),
            Stream::Map => full(Written::Map),
            // Where its batches end is not settled before the last of them is written: a start finds it.
            Stream::Unknown if taken.contains(&zone) => {
                ZoneRow { used_for: ZoneUse::Open, written: 0, ..full(Written::Map) }
            }
            // Whatever is in it, nobody empties it.
            Stream::Unknown if *pointer > 0 || room == 0 => unused(ZoneUse::Dead),
            Stream::Unknown => unused(ZoneUse::Free),
        }
    }

    /// Zones that a start may use for its first root: it looks only into those without a pointer that a root names.
    fn without_pointer(&self) -> impl Iterator<Item = OpenZone> {
        let space = &self.survey.space;
        let zones = self.empty.iter().rev().copied().filter(|zone| !space.is_sequential(*zone)).take(MOST_NAMED);
        zones.map(|zone| OpenZone { start: space.set.start(zone), generation: self.generation, written: 0, stream: 0 })
    }

    fn root(&self, options: &RebuildOptions, pieces: Vec<Piece>) -> Root {
        Root {
            cut: self.survey.user,
            copies: self.survey.copy,
            capacity: options.capacity,
            zone_blocks: self.survey.space.set.zone_blocks(),
            reserve: options.reserve,
            leaf_size: leaf_size(self.survey),
            members: self.survey.members.clone(),
            open: self.without_pointer().collect(),
            pieces,
        }
    }
}

/// Blocks of a leaf by the newest root that is left.
fn leaf_size(survey: &Survey) -> LeafSize {
    survey.root.as_ref().map_or_else(LeafSize::default, |found| found.root.leaf_size)
}

fn write_roots(media: &mut dyn Media, filling: &Filling<'_>, root: &Root) -> Result<(), RebuildError> {
    let survey = filling.survey;
    let number = survey.root.as_ref().map_or(0, |found| found.header.batch.number) + 1;
    let batch = Batch { set: survey.set, epoch: filling.epoch, number, since: survey.user, ..Batch::default() };
    for (member, disk) in survey.members.iter().zip(&survey.space.disks) {
        let Some(disk) = *disk else { continue };
        let batch = Batch { place: member.first, ..batch };
        write_root(media, disk, (root, &filling.lives, &batch))?;
    }
    Ok(())
}

/// Makes a root the only one of a disk.
fn write_root(
    media: &mut dyn Media,
    disk: usize,
    (root, lives, batch): (&Root, &[Life], &Batch),
) -> Result<(), RebuildError> {
    wipe(media, disk, root.zone_blocks)?;
    let bytes = encode_root(root, lives, batch).map_err(|_| RebuildError::TooLarge)?;
    media.write(Spot { disk, block: 0 }, &bytes)?;
    Ok(media.flush()?)
}

/// True if the newest root is that of a rebuild of a volume without roots, and no start has come since: it has number 1, and covers batches.
#[must_use]
pub fn is_rebuilt(volume: &Volume) -> bool {
    let RootFound { header, root, .. } = &volume.newest;
    header.batch.number == 1 && (root.cut.0 > 0 || root.copies.0 > 0)
}

/// Completes a rebuild that was interrupted after its first root: writes that root to the disks that have none. Nothing else is written.
///
/// # Errors
/// If a disk fails.
pub fn finish_rebuild(
    media: &mut dyn Media,
    (volume, survey): (&Volume, &Survey),
    blocks_at_once: u64,
) -> Result<Rebuilt, RebuildError> {
    let (RootFound { header, root, .. }, mut rebuilt) = (&volume.newest, Rebuilt::default());
    for first in (0..root.capacity).step_by(blocks_at_once.max(1) as usize) {
        let blocks = Lba(first)..Lba(root.capacity.min(first.saturating_add(blocks_at_once.max(1))));
        let window = Window::gather(media, survey, blocks.clone(), &mut |_, _| ());
        rebuilt.lost.extend(window.torn());
        rebuilt.live += window.extents(blocks).iter().map(|extent| u64::from(extent.blocks)).sum::<u64>();
    }
    for (member, disk) in root.members.iter().zip(&volume.space.disks) {
        let Some(disk) = disk.filter(|disk| volume.of_disks[*disk].is_none()) else { continue };
        let batch = Batch { place: member.first, ..header.batch };
        write_root(media, disk, (root, header.lives(), &batch))?;
    }
    Ok(rebuilt)
}
