//! Another device for a volume that nobody uses.
//!
//! The device gets all tables before a root names it. The first device of the old set that has that root puts it in force: before that the set is
//! the old one, and from then on it is the new one.

use super::finding::Findings;
use super::format::{needs_reset, wipe};
use super::media::{Disk, Media, MediaError, Progress, Spot, room_for};
use super::roots::{next_life, next_root};
use super::volume::{FindError, Volume};
use crate::dm::stl::checkpoint::{encode_root, leaves_of_piece, zones_of_piece};
use crate::dm::stl::create::{capacity, check_member, rooms};
use crate::dm::stl::format::{
    Batch, BatchKind, Checksum, Header, LeafRow, Life, MOST_MEMBERS, Member, MemberKind, MemberState, Piece, PieceKind,
    ROOT_BLOCKS, Root, ZoneRow, ZoneUse,
};
use crate::dm::stl::log::Pool;
use crate::dm::stl::map::LeafNo;
use crate::dm::stl::roots::ROOT_ZONES;
use crate::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS, CreateError, Generation, Part, Pba};
use crate::prelude::*;

/// Why no device was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddError {
    /// A disk failed.
    Media(MediaError),
    /// There is no volume, or the disks are not its members.
    Find(FindError),
    /// The volume is not in order: what is wrong.
    Volume(String),
    /// It has batches that no root covers.
    NotAtRest,
    /// A device of it leaves.
    Leaving,
    /// The device cannot be one of a volume.
    Device(CreateError),
    /// Zones of the device take so little that the volume would have less room than it has now.
    TooShort,
    /// So many devices make a set at most.
    TooMany,
    /// A root cannot name all of the tables.
    TooLarge,
    /// The device has no room for the tables behind its two zones of roots.
    TooSmall,
}

impl_error!(AddError, Media(MediaError), Find(FindError), Device(CreateError), |self, f| match self {
    Self::Media(error) => error.fmt(f),
    Self::Volume(what) => f.write_str(what),
    Self::Find(error) => error.fmt(f),
    Self::NotAtRest => f.write_str("the volume was not put away cleanly: serve it once, and stop the daemon"),
    Self::Leaving =>
        f.write_str("a disk of the volume is being removed: go on with that first, with `shingle stl remove`"),
    Self::Device(error) => error.fmt(f),
    Self::TooShort => f.write_str("its zones take so little that the volume would have less room than it has now"),
    Self::TooMany => write!(f, "at most {MOST_MEMBERS} devices make a set, with those that are gone"),
    Self::TooLarge => f.write_str("a root cannot name all tables of so large a volume"),
    Self::TooSmall => f.write_str("it is too small: the tables of the volume do not fit behind its first two zones"),
});

/// What a volume becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// Sectors of the exposed disk before.
    pub before: u64,
    /// And now.
    pub sectors: u64,
}

/// A table that is to be written.
struct Table {
    kind: PieceKind,
    number: u32,
    blocks: u32,
    /// Its zone on the new device, and the block of its batch there.
    zone: usize,
    at: u32,
}

/// A volume and its new device.
struct Adding {
    volume: Volume,
    member: Member,
    /// Blocks that each zone of the new device takes.
    rooms: Vec<u32>,
    capacity: u64,
}

/// Adds the last of the disks to the volume that the others make. What it held is lost.
///
/// # Errors
/// If that cannot be, and then nothing was changed; or if a disk fails.
pub fn add(media: &mut dyn Media, id: [u8; 16], progress: Progress<'_>) -> Result<Added, AddError> {
    let disk = media.disks().len() - 1;
    let adding = Adding::plan(media, id)?;
    let tables = adding.tables()?;
    let mut root = adding.root(&tables);
    if !root.fits() {
        return Err(AddError::TooLarge);
    }
    adding.empty(media, disk, progress)?;
    // It says which device this is, and comes before every other.
    adding.write_root(media, &root, (adding.member.first, Spot { disk, block: 0 }, 0))?;
    for table in &tables {
        let piece = adding.write_table(media, disk, table, &tables)?;
        let named = root.pieces.iter_mut().find(|it| (it.kind, it.number) == (piece.kind, piece.number));
        named.into_iter().for_each(|it| *it = piece);
    }
    media.flush()?;
    let number = adding.volume.newest.header.batch.number + 1;
    for (place, member) in root.members.iter().enumerate() {
        let spot = match adding.volume.space.disks.get(place) {
            Some(None) => continue,
            Some(Some(old)) => next_root(media, &adding.volume, (place, *old))?,
            None => Spot { disk, block: adding.second_root() },
        };
        adding.write_root(media, &root, (member.first + spot.block, spot, number))?;
        media.flush()?;
    }
    let sectors = |blocks: u64| blocks * u64::from(BLOCK_SECTORS);
    Ok(Added { before: sectors(adding.volume.newest.root.capacity), sectors: sectors(adding.capacity) })
}

/// All disks but the last one.
struct Old<'a>(&'a mut dyn Media);

impl Media for Old<'_> {
    fn disks(&self) -> &[Disk] {
        self.0.disks().split_last().map_or(&[], |(_, old)| old)
    }

    fn read(&mut self, from: Spot, to: &mut [u8]) -> Result<(), MediaError> {
        self.0.read(from, to)
    }

    fn write(&mut self, to: Spot, from: &[u8]) -> Result<(), MediaError> {
        self.0.write(to, from)
    }

    fn reset(&mut self, start: Spot) -> Result<(), MediaError> {
        self.0.reset(start)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.0.flush()
    }
}

impl Adding {
    fn plan(media: &mut dyn Media, id: [u8; 16]) -> Result<Self, AddError> {
        let mut findings = Findings::default();
        let volume = Volume::find(&mut Old(media), &mut findings)?;
        if let Some(finding) = findings.all().iter().find(|finding| finding.is_error()) {
            return Err(AddError::Volume(format!("{finding}")));
        }
        if !volume.is_at_rest() {
            return Err(AddError::NotAtRest);
        }
        let root = &volume.newest.root;
        if root.members.iter().any(|member| member.state == MemberState::Leaving) {
            return Err(AddError::Leaving);
        }
        if root.members.len() >= MOST_MEMBERS {
            return Err(AddError::TooMany);
        }
        let Some(Disk { zones, sectors, max_active }) = media.disks().last().cloned() else {
            return Err(AddError::Device(CreateError::NoZones));
        };
        let zone_sectors = u64::from(root.zone_blocks) * u64::from(BLOCK_SECTORS);
        if let Some(zone) = zones.first().filter(|zone| zone.len != zone_sectors) {
            return Err(AddError::Device(CreateError::OtherZones(zone_sectors, zone.len)));
        }
        let kind = if zones.is_empty() { MemberKind::Regular } else { MemberKind::Zoned };
        let part = Part { id, zones, sectors, max_active };
        let rooms = rooms(&part, zone_sectors);
        check_member(root.members.len(), &part, &rooms).map_err(AddError::Device)?;
        let end = |member: &Member| member.first + u64::from(member.zones) * u64::from(root.zone_blocks);
        let first = root.members.last().map_or(Pba(0), end);
        let member = Member { id, first, zones: rooms.len() as u32, kind, state: MemberState::Used };
        let old =
            volume.space.zones().filter(|zone| volume.can_be_written(*zone)).map(|zone| volume.space.writable(zone));
        let devices = volume.space.disks.iter().flatten().count() + 1;
        let capacity = capacity(devices, old.chain(rooms.iter().copied()), root.sizing()).map_err(AddError::Device)?;
        if capacity < root.capacity {
            return Err(AddError::TooShort);
        }
        Ok(Self { volume, member, rooms, capacity })
    }

    /// The block of the new device behind its first root: in the other zone of roots if that one takes no more.
    fn second_root(&self) -> u64 {
        let has_room = self.rooms.first().is_some_and(|room| *room as usize >= 2 * ROOT_BLOCKS);
        if has_room { ROOT_BLOCKS as u64 } else { self.volume.newest.root.zone_blocks.into() }
    }

    /// Rows of all zones and of all leaves.
    fn rows(&self) -> (usize, usize) {
        (self.volume.zones.len() + self.rooms.len(), self.volume.newest.root.leaf_size.leaves(self.capacity))
    }

    /// Where each piece of the tables goes.
    fn tables(&self) -> Result<Vec<Table>, AddError> {
        let (zones, leaves) = self.rows();
        let [of_zones, of_leaves] = [zones_of_piece(zones), leaves_of_piece(leaves)];
        let pieces = |kind, rows: usize, of_piece: usize, bytes: usize| {
            let blocks = move |number: usize| (of_piece.min(rows - number * of_piece) * bytes).div_ceil(BLOCK_BYTES);
            (0..rows.div_ceil(of_piece)).map(move |number| (kind, number as u32, blocks(number) as u32))
        };
        let zones = pieces(PieceKind::Zones, zones, of_zones, ZoneRow::BYTES);
        let (mut zone, mut at, mut tables) = (ROOT_ZONES as usize, 0, Vec::new());
        for (kind, number, blocks) in zones.chain(pieces(PieceKind::Leaves, leaves, of_leaves, LeafRow::BYTES)) {
            let needed = self.header(blocks) + blocks;
            while self.rooms.get(zone).ok_or(AddError::TooSmall)? < &(at + needed) {
                (zone, at) = (zone + 1, 0);
            }
            tables.push(Table { kind, number, blocks, zone, at });
            at += needed;
        }
        Ok(tables)
    }

    /// What is in force when it is done; of the tables it has the places.
    fn root(&self, tables: &[Table]) -> Root {
        let old = &self.volume.newest.root;
        let piece = |table: &Table| Piece {
            kind: table.kind,
            number: table.number,
            place: self.payload(table),
            blocks: table.blocks,
            checksum: Checksum::default(),
            first: LeafNo(0),
        };
        let runs = old.pieces.iter().filter(|piece| piece.kind == PieceKind::Run).copied();
        Root {
            capacity: self.capacity,
            members: old.members.iter().copied().chain([self.member]).collect(),
            pieces: tables.iter().map(piece).chain(runs).collect(),
            ..old.clone()
        }
    }

    fn lives(&self) -> &[Life] {
        self.volume.newest.header.lives()
    }

    /// Blocks of the header of a table.
    fn header(&self, blocks: u32) -> u32 {
        Header::blocks_of(self.lives().len() * Life::BYTES, blocks as usize) as u32
    }

    fn place(&self, table: &Table) -> Pba {
        self.member.first + table.zone as u64 * u64::from(self.volume.newest.root.zone_blocks) + u64::from(table.at)
    }

    fn payload(&self, table: &Table) -> Pba {
        self.place(table) + u64::from(self.header(table.blocks))
    }

    /// Takes everything from the new device that could be read for something of the volume.
    fn empty(&self, media: &mut dyn Media, disk: usize, progress: Progress<'_>) -> Result<(), MediaError> {
        let zone_blocks = self.volume.newest.root.zone_blocks;
        wipe(media, disk, zone_blocks)?;
        for number in (0..self.rooms.len()).skip(ROOT_ZONES as usize) {
            let start = Spot { disk, block: number as u64 * u64::from(zone_blocks) };
            let zone = media.disks()[disk].zones.get(number).copied();
            match zone {
                Some(zone) if needs_reset(&zone) => media.reset(start)?,
                _ if !self.is_sequential(media, disk, number) && self.rooms[number] > 0 => {
                    media.write(start, &room_for(1))?;
                }
                _ => {}
            }
            progress(number as u64, self.rooms.len() as u64);
        }
        media.flush()
    }

    fn is_sequential(&self, media: &dyn Media, disk: usize, number: usize) -> bool {
        media.disks()[disk].zones.get(number).is_some_and(|zone| zone.kind == crate::zone::ZoneKind::Sequential)
    }

    /// What a zone of the new device is when the tables are written.
    fn row(&self, number: usize, tables: &[Table]) -> ZoneRow {
        let end = |table: &Table| table.at + self.header(table.blocks) + table.blocks;
        let written = tables.iter().filter(|table| table.zone == number).map(end).max();
        match written {
            Some(written) => ZoneRow {
                generation: Generation(1),
                used_for: ZoneUse::Full,
                stream: Pool::Map as u8,
                written,
                ..ZoneRow::default()
            },
            None if number < ROOT_ZONES as usize => ZoneRow { used_for: ZoneUse::Roots, ..ZoneRow::default() },
            None if self.rooms[number] == 0 => ZoneRow { used_for: ZoneUse::Dead, ..ZoneRow::default() },
            None => ZoneRow::default(),
        }
    }

    fn encode(&self, table: &Table, tables: &[Table]) -> Vec<u8> {
        let ((zones, leaves), mut bytes, number) = (self.rows(), Vec::new(), table.number as usize);
        let range = |of_piece: usize, all: usize| number * of_piece..((number + 1) * of_piece).min(all);
        match table.kind {
            PieceKind::Zones => range(zones_of_piece(zones), zones).for_each(|zone| {
                let old = self.volume.zones.get(zone).copied().flatten();
                let row = old.unwrap_or_else(|| self.row(zone - self.volume.zones.len(), tables));
                row.encode(&mut bytes);
            }),
            PieceKind::Leaves => range(leaves_of_piece(leaves), leaves).for_each(|leaf| {
                self.volume.leaves.get(leaf).copied().flatten().unwrap_or_default().encode(&mut bytes);
            }),
            PieceKind::Run => {}
        }
        bytes.resize(table.blocks as usize * BLOCK_BYTES, 0);
        bytes
    }

    fn write_table(
        &self,
        media: &mut dyn Media,
        disk: usize,
        table: &Table,
        tables: &[Table],
    ) -> Result<Piece, AddError> {
        let bytes = self.encode(table, tables);
        let place = self.place(table);
        let batch = Batch { place, generation: Generation(1), number: table.number.into(), ..next_life(&self.volume) };
        let checksums = bytes.chunks(BLOCK_BYTES).map(Checksum::of).collect();
        let checksum = Checksum::of(&bytes);
        let mut all = Header { batch, kind: BatchKind::Map(self.lives().to_vec()), checksums }.encode();
        all.extend(bytes);
        media.write(Spot { disk, block: place - self.member.first }, &all)?;
        let Table { kind, number, blocks, .. } = *table;
        Ok(Piece { kind, number, place: self.payload(table), blocks, checksum, first: LeafNo(0) })
    }

    fn write_root(
        &self,
        media: &mut dyn Media,
        root: &Root,
        (place, spot, number): (Pba, Spot, u64),
    ) -> Result<(), AddError> {
        let batch = Batch { place, number, ..next_life(&self.volume) };
        let bytes = encode_root(root, self.lives(), &batch).map_err(|_| AddError::TooLarge)?;
        Ok(media.write(spot, &bytes)?)
    }
}
