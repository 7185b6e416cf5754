//! Reads: what the map says, part by part, and every block checked.

use super::disks;
use super::map::{Extent, Found, Node, Source};
use super::state::{Reading, Shared, State};
use super::{BLOCK_SECTORS, Lba, Pba, ZoneIndex};
use crate::block::{Bio, Cx, Data, Reason, Status};
use crate::prelude::*;

impl State {
    /// Routes a read of a volume that became read-only. It fails if one of its blocks is in doubt.
    pub fn route_read_in_doubt(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let lba = Lba(bio.sector.0 / u64::from(BLOCK_SECTORS));
        match self.doubts.find(&(lba..lba + u64::from(bio.sectors / BLOCK_SECTORS))) {
            Some(block) => cx.fail(bio, in_doubt(block)),
            None => self.route_read(bio, cx),
        }
    }

    /// Sends a read on to where its blocks are.
    pub fn route_read(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let mut left = Some(bio);
        while let Some(bio) = left.take() {
            let lba = Lba(bio.sector.0 / u64::from(BLOCK_SECTORS));
            let end = lba + u64::from(bio.sectors / BLOCK_SECTORS);
            let (found, until) = self.map.find(lba, end);
            if let Found::Missing(node) = found {
                return self.want(node, bio);
            }
            if until == end {
                return self.answer(bio, found, cx);
            }
            let (front, rest) = cx.split(bio, (until - lba) as u32 * BLOCK_SECTORS);
            self.answer(front, found, cx);
            left = Some(rest);
        }
    }

    /// Answers a read of blocks of which the map says one thing.
    fn answer(&mut self, bio: Box<Bio>, found: Found, cx: &mut Cx<'_>) {
        let bio_block = bio.sector.0 / u64::from(BLOCK_SECTORS);
        match found {
            Found::Data(extent) => self.read_data(bio, extent, cx),
            Found::Zeroes => {
                bio.payload.for_each_segment(|_, data| data.fill(0));
                cx.complete(bio, Status::Ok);
            }
            Found::Damaged | Found::Missing(_) => cx.fail(bio, no_part_has(bio_block)),
        }
    }

    /// Reads blocks that lie in a row.
    fn read_data(&mut self, bio: Box<Bio>, extent: Extent, cx: &mut Cx<'_>) {
        let Some(mut bio) = self.read_from_ahead(bio, &extent, cx) else { return };
        let Source::At(place, checksums) = extent.source else { return cx.complete(bio, Status::Ok) };
        let (device, sector) = match self.disks.spot(place) {
            Ok((disk, sector)) => (disk.device, sector),
            Err(reason) => return cx.fail(bio, reason),
        };
        let (zone, _) = self.disks.set.zone_of(place);
        self.pin(zone);
        let key = self.readings.insert(Reading { lba: extent.lba, zone, checksums });
        bio.sector = sector;
        cx.submit(device, bio, key as u64);
    }

    /// A read has come back: is it what was written?
    pub fn read_done(&mut self, bio: Box<Bio>, status: Status, key: usize, cx: &mut Cx<'_>) {
        let Reading { lba, zone, checksums } = self.readings.remove(key);
        self.unpin(zone);
        let expected = checksums.all().iter().copied();
        let is_checked = status.is_ok() && !self.guards.gone().reads_unchecked;
        if is_checked && !self.checker.checksums(lba, &bio.payload).eq(expected) {
            self.counters.wrong_checksums += 1;
            return cx.fail(bio, Reason::WrongChecksum { block: lba.0 });
        }
        cx.complete(bio, status);
    }

    /// A node has to be in memory before a read can go on.
    fn want(&mut self, node: Node, bio: Box<Bio>) {
        let waiters = self.node_waiters.entry(node.place()).or_default();
        waiters.push_back(bio);
        if waiters.len() == 1 {
            self.wanted_nodes.push_back(node);
            self.notify(|signals| &signals.nodes);
        }
    }

    pub fn pin(&mut self, zone: super::ZoneIndex) {
        if self.guards.gone().readers_unpinned {
            return;
        }
        self.zones.pin(zone);
    }

    pub fn unpin(&mut self, zone: super::ZoneIndex) {
        if self.guards.gone().readers_unpinned {
            return;
        }
        // Others can only be reset when they are done with, and whoever says so tells it.
        if self.zones.unpin(zone) {
            self.notify(|signals| &signals.progress);
        }
    }
}

/// A read below that keeps its zone: that is reset behind it only.
pub(super) struct Pinned {
    zone: ZoneIndex,
    reading: Result<disks::Reading, Reason>,
}

impl Pinned {
    pub fn begin(state: &mut State, place: Pba, blocks: u32) -> Self {
        let (zone, _) = state.disks.set.zone_of(place);
        state.pin(zone);
        Self { zone, reading: state.disks.read(&state.io, place, blocks) }
    }

    pub async fn data(self, shared: &Shared) -> Result<Data, Reason> {
        let data = match self.reading {
            Ok(reading) => reading.data().await,
            Err(reason) => Err(reason),
        };
        shared.borrow_mut().unpin(self.zone);
        data
    }
}

/// Returns the reason for which reads of a block in doubt fail until the next start.
fn in_doubt(block: Lba) -> Reason {
    let what = format!("a write of block {block} failed and may be found done when the volume is started again");
    Reason::VolumeFailed(what.into())
}

/// Why a block cannot be found that some part of the map should have.
fn no_part_has(block: u64) -> Reason {
    Reason::VolumeFailed(format!("no part of the map says where block {block} is").into())
}
