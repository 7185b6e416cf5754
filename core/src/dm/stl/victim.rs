//! What is in a zone that is to be cleaned: batches in a row, in long reads.

use super::format::{BatchKind, Checksum, Header, Written};
use super::headers::{self, Chain, Found, chain};
use super::log::Stream;
use super::state::{Shared, State};
use super::{BLOCK_BYTES, BatchNo, Generation, Lba, Pba, ZoneIndex};
use crate::block::{Data, Payload, Reason};
use crate::prelude::*;

/// A block of a victim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub lba: Lba,
    pub place: Pba,
    pub checksum: Checksum,
    /// The batch with which a user wrote it.
    pub written: BatchNo,
}

/// A victim that is read from its start to its end.
pub(super) struct Victim {
    pub zone: ZoneIndex,
    pub generation: Generation,
    pub stream: Stream,
    /// The block of it that is read next, and that at which its batches end.
    next: u32,
    end: u32,
}

impl Victim {
    pub fn new(zone: ZoneIndex, state: &State) -> Self {
        let row = state.zones.rows()[zone.0 as usize];
        let stream = Stream::of(row.stream).unwrap_or(Stream::Users);
        Self { zone, generation: row.generation, stream, next: 0, end: row.written }
    }

    /// Whether all of it was read.
    pub fn is_over(&self) -> bool {
        self.next >= self.end
    }

    /// Blocks that were read of it.
    pub fn read(&self) -> u32 {
        self.next
    }

    /// Its next blocks that are live, with their data.
    ///
    /// # Errors
    /// If a header or a live block cannot be read.
    pub async fn next_turn(&mut self, shared: &Shared) -> Result<Vec<(Block, Data)>, Reason> {
        let left = self.end - self.next;
        let mut blocks = shared.borrow().options.turn_blocks.min(left);
        let start = shared.borrow().disks.set.start(self.zone) + u64::from(self.next);
        loop {
            // Something in it that cannot be read may be nothing that matters.
            let Ok(data) = headers::read(shared, start, blocks).await else { return self.rest_by_batch(shared).await };
            match self.take(shared, start, &data)? {
                Some(live) => return Ok(live),
                // Batches may be longer than a turn: both are knobs.
                None if blocks < left => blocks = blocks.saturating_mul(2).min(left),
                None => return Err(Reason::Medium),
            }
        }
    }

    /// The live blocks of batches that were read; `None`: of no batch all was.
    fn take(&mut self, shared: &Shared, start: Pba, data: &Data) -> Result<Option<Vec<(Block, Data)>>, Reason> {
        let state = shared.borrow();
        let (mut live, mut at, all) = (Vec::new(), 0, data.len() / BLOCK_BYTES);
        while let Some(header) = header_in(data, at, &state, start, self)? {
            let payload = at + Header::blocks_of(header.kind.record_bytes(), header.checksums.len());
            if payload + header.checksums.len() > all {
                break;
            }
            for block in blocks_of(&header, start + payload as u64) {
                if state.is_live(&block) {
                    let data = data.slice((block.place - start) as usize * BLOCK_BYTES, BLOCK_BYTES);
                    check(&block, &data)?;
                    live.push((block, data));
                }
            }
            at = payload + header.checksums.len();
        }
        self.next += at as u32;
        Ok((at > 0).then_some(live))
    }

    /// All live blocks from where it is on, with as little as possible of what is not.
    async fn rest_by_batch(&mut self, shared: &Shared) -> Result<Vec<(Block, Data)>, Reason> {
        let Chain { found, .. } = chain(shared, self.zone, None).await?;
        if found.last().map_or(0, |last| last.end) < self.end {
            // A header is damaged. What comes behind it may be live.
            return Err(Reason::Medium);
        }
        let mut live = Vec::new();
        for Found { header, payload, .. } in found.into_iter().filter(|found| found.end > self.next) {
            for block in blocks_of(&header, payload) {
                if shared.borrow().is_live(&block) {
                    let data = headers::read(shared, block.place, 1).await?;
                    check(&block, &data)?;
                    live.push((block, data));
                }
            }
        }
        self.next = self.end;
        Ok(live)
    }
}

/// The header of a batch that begins at block `at` of what was read, if all of it is there.
fn header_in(data: &Data, at: usize, state: &State, start: Pba, victim: &Victim) -> Result<Option<Header>, Reason> {
    let all = data.len() / BLOCK_BYTES;
    let mut blocks = 1;
    while at + blocks <= all {
        match Header::decode(&data.slice(at * BLOCK_BYTES, blocks * BLOCK_BYTES).to_vec()) {
            Ok((header, _)) => {
                let batch = &header.batch;
                let belongs =
                    batch.set == state.id && batch.place == start + at as u64 && batch.generation == victim.generation;
                return if belongs { Ok(Some(header)) } else { Err(Reason::Medium) };
            }
            Err(super::format::HeaderError::Short(needed)) if usize::from(needed) > blocks => blocks = needed.into(),
            Err(_) => return Err(Reason::Medium),
        }
    }
    Ok(None)
}

/// The blocks of users in a batch whose payload begins at `payload`.
fn blocks_of(header: &Header, payload: Pba) -> Vec<Block> {
    let at = |number: usize| (payload + number as u64, header.checksums[number]);
    match &header.kind {
        BatchKind::User(records) => {
            let of = |record: &'_ Written| {
                let first = record.lba;
                (0..u64::from(record.blocks)).map(move |offset| first + offset)
            };
            let lbas = records.iter().filter(|record| record.has_data).flat_map(of);
            let block = |(number, lba)| {
                let (place, checksum) = at(number);
                Block { lba, place, checksum, written: BatchNo(header.batch.number) }
            };
            lbas.enumerate().map(block).collect()
        }
        BatchKind::Copies(records) => {
            let block = |(number, record): (usize, &super::format::Copied)| {
                let (place, checksum) = at(number);
                Block { lba: record.lba, place, checksum, written: record.written }
            };
            records.iter().enumerate().map(block).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether the data of a block is what was written.
fn check(block: &Block, data: &Data) -> Result<(), Reason> {
    let found = super::log::checksums_of(block.lba, &Payload::Data(data.clone()));
    if found == [block.checksum] { Ok(()) } else { Err(Reason::WrongChecksum { block: block.lba.0 }) }
}

impl State {
    /// Whether the map says that a block is there. Its zone has a bitmap, which is exact for leaves; what is above them is in memory.
    pub fn is_live(&self, block: &Block) -> bool {
        let (zone, at) = self.disks.set.zone_of(block.place);
        let is_named = self.map.live.of(zone).is_some_and(|bitmap| bitmap.has(at));
        is_named && !self.map.is_above_leaves(block.lba)
    }
}
