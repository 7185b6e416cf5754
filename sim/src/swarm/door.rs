//! A device that hosts use, and where on the disks what lies behind it is.

use alloc::vec::Vec;

use super::ledger::SECTOR_WORDS;
use crate::model::{Extent, Seen, ZoneLine};
use crate::stamp::read_stamps;
use shingle_core::block::{DeviceId, Payload};
use shingle_core::sector::Sector;
use shingle_core::zone::{Zone, ZoneNo};

/// A set of the model's zones: there are at most 128.
pub(super) type ZoneSet = u128;

/// The set of one zone.
pub(super) fn one(zone: ZoneNo) -> ZoneSet {
    1 << zone.0
}

/// Sectors in a row, on a device and in one of the model's zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub start: u64,
    pub len: u64,
    pub zone: ZoneNo,
    /// Where in the zone it begins.
    pub offset: u32,
    /// Whether data reads as it was written: it does not below an encryption.
    pub clear: bool,
    /// Whether it lies above one.
    pub crypt: bool,
    /// Whether reports mean what the model takes them for: they do not below a zone that is made of several.
    pub known: bool,
}

/// A device that hosts use.
#[derive(Clone, Debug)]
pub(super) struct Door {
    /// Its number in the ledger.
    pub number: usize,
    pub device: DeviceId,
    /// What lies behind it, without a gap; of a zoned device each is a zone.
    pub pieces: Vec<Piece>,
    pub zoned: bool,
    /// Whether a reset of all zones is one command.
    pub whole: bool,
    /// The sequential zones that are written through this door: others could not know the order.
    pub writes: ZoneSet,
    /// Whether tables below change, and limits perhaps with them.
    pub changes: bool,
    /// Longest append that they all take, in sectors.
    pub longest_append: u32,
}

impl Door {
    pub fn capacity(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.start + piece.len)
    }

    /// The piece that holds `sector`.
    fn piece_at(&self, sector: Sector) -> Option<&Piece> {
        let place = self.pieces.partition_point(|piece| piece.start + piece.len <= sector.0);
        self.pieces.get(place)
    }

    /// Where these sectors lie, which are in one zone.
    pub fn extent(&self, sector: Sector, sectors: u32) -> Option<Extent> {
        let piece = self.piece_at(sector)?;
        Some(Extent { zone: piece.zone, offset: piece.offset + (sector.0 - piece.start) as u32, sectors })
    }

    /// Where these sectors lie; nothing if some of them do not read as they were written.
    pub fn extents(&self, start: u64, sectors: u64) -> Vec<Extent> {
        let (mut extents, mut at, end) = (Vec::new(), start, start + sectors);
        while at < end {
            let Some(piece) = self.piece_at(Sector(at)).filter(|piece| piece.clear) else { return Vec::new() };
            let len = (piece.start + piece.len).min(end) - at;
            let offset = piece.offset + (at - piece.start) as u32;
            extents.push(Extent { zone: piece.zone, offset, sectors: len as u32 });
            at += len;
        }
        extents
    }

    /// What is seen through this door. Above an encryption, what was never written reads as anything.
    pub fn as_written(&self, payload: &Payload) -> Vec<Seen> {
        let is_anything = self.pieces.iter().any(|piece| piece.crypt);
        let as_written = |seen| if is_anything && seen == Seen::Garbage { Seen::Zeroes } else { seen };
        read_stamps::<SECTOR_WORDS>(payload).map(as_written).collect()
    }

    /// A line of a report, as the model has it: from the start of its own zone.
    pub fn translate(&self, zone: &Zone) -> Option<ZoneLine> {
        self.piece_at(zone.start).filter(|piece| piece.known)?;
        let Extent { zone: number, offset, .. } = self.extent(zone.start, 0)?;
        let start = Sector(offset.into());
        let wp = start + zone.wp.0.saturating_sub(zone.start.0);
        let is_heard = self.writes & one(number) != 0;
        Some(ZoneLine { number, zone: Zone { start, wp, ..*zone }, is_heard })
    }
}
