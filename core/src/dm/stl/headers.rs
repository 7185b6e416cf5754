//! Headers in zones, followed from one to the next.

use super::format::{BatchKind, Checksum, Header, HeaderError, SetId, ZoneUse};
use super::state::Shared;
use super::{BLOCK_BYTES, Epoch, Generation, Pba, Since, ZoneIndex};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// A batch that was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub header: Header,
    /// The first block of its payload.
    pub payload: Pba,
    /// The block behind it, in its zone.
    pub end: u32,
}

/// Blocks that are read at once to look for a header.
const PROBE: u32 = 4;
/// Blocks that are read at once where there are headers: 16 MiB.
const READ_AHEAD: u32 = 4096;

/// What a header has to say of itself to count.
struct Expected {
    set: SetId,
    generation: Option<Generation>,
    epoch: Option<Epoch>,
    is_unchecked: bool,
}

/// What was found in a zone.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// Its batches, from its start on.
    pub found: Vec<Found>,
    /// The generation of what lies at its start, whether it counts or not.
    pub generation: Generation,
    /// Whether a batch was torn.
    pub is_torn: bool,
}

/// The batches of a zone. With a root, `since`: those of its life, in whatever generation the first is, and none behind it that was torn.
pub(super) async fn chain(shared: &Shared, zone: ZoneIndex, since: Option<&Since>) -> Result<Chain, Reason> {
    let epoch = since.map(|since| since.epoch);
    let (start, room, row, mut expected) = {
        let state = shared.borrow();
        let row = state.zones.rows()[zone.0 as usize];
        // Of a zone that was free in the root any later generation may be found.
        let is_known = row.used_for != ZoneUse::Free;
        let generation = is_known.then_some(row.generation);
        let is_unchecked = state.guards.gone().headers_unchecked;
        let expected = Expected { set: state.id, generation, epoch, is_unchecked };
        (state.disks.set.start(zone), state.disks.shape(zone).room, row, expected)
    };
    let (mut found, mut at, mut first) = (Vec::new(), 0, None);
    let room = if epoch.is_none() { row.written.min(room) } else { room };
    let mut ahead = Ahead { start, room, ..Ahead::default() };
    while at < room {
        let Some(header) = header_at(shared, &mut ahead, at).await? else { break };
        first = first.or((header.batch.set == expected.set).then_some(header.batch.generation));
        let blocks = Header::blocks_of(header.kind.record_bytes(), header.checksums.len()) as u32;
        let payload = start + u64::from(at + blocks);
        at += blocks + header.checksums.len() as u32;
        let is_new = expected.generation.is_some() || header.batch.generation > row.generation;
        expected.refuse_later(&header, payload, blocks)?;
        if at > room || !is_new || !expected.admits(&header, payload, blocks) {
            break;
        }
        expected.generation = Some(header.batch.generation);
        found.push(Found { header, payload, end: at });
    }
    let is_torn = match since {
        Some(since) => drop_torn(shared, (zone, since), &mut found).await?,
        None => false,
    };
    Ok(Chain { found, generation: first.unwrap_or_default(), is_torn })
}

impl Expected {
    fn admits(&self, header: &Header, payload: Pba, blocks: u32) -> bool {
        let batch = &header.batch;
        let belongs = batch.set == self.set
            && batch.place + u64::from(blocks) == payload
            && self.generation.is_none_or(|generation| generation == batch.generation)
            && self.epoch.is_none_or(|epoch| epoch == batch.epoch);
        belongs || self.is_unchecked
    }

    /// Data of a later life than that of the newest root that could be read: there was a newer one, and what it says is lost.
    fn refuse_later(&self, header: &Header, payload: Pba, blocks: u32) -> Result<(), Reason> {
        let batch = &header.batch;
        let is_data = matches!(header.kind, BatchKind::User(_) | BatchKind::Copies(_));
        let is_here = batch.set == self.set && batch.place + u64::from(blocks) == payload;
        if is_data && is_here && self.epoch.is_some_and(|epoch| epoch < batch.epoch) && !self.is_unchecked {
            let why =
                format!("block {} was written after all roots that can be read: a newer one is lost", batch.place);
            return Err(Reason::VolumeFailed(why.into()));
        }
        Ok(())
    }
}

/// What was read of a zone ahead of what was looked at: a disk that skips from header to header loses a turn at each.
#[derive(Default)]
struct Ahead {
    start: Pba,
    /// Blocks of the zone that can be read.
    room: u32,
    /// The block of the zone at which `data` begins.
    first: u32,
    data: Option<Data>,
    /// A long read has failed: something behind may be unreadable that is no concern.
    is_short: bool,
}

impl Ahead {
    /// So many blocks from `at` on.
    async fn get(&mut self, shared: &Shared, at: u32, blocks: u32) -> Result<Data, Reason> {
        let offset = at.wrapping_sub(self.first) as usize * BLOCK_BYTES;
        let bytes = blocks as usize * BLOCK_BYTES;
        if let Some(data) = self.data.as_ref().filter(|data| at >= self.first && offset + bytes <= data.len()) {
            return Ok(data.slice(offset, bytes));
        }
        // The first read shows whether there is anything.
        let most = if at == 0 || self.is_short { blocks } else { READ_AHEAD.max(blocks) };
        let place = self.start + u64::from(at);
        let data = match read(shared, place, most.min(self.room - at)).await {
            Err(_) if most > blocks => {
                self.is_short = true;
                read(shared, place, blocks).await?
            }
            result => result?,
        };
        (self.first, self.data) = (at, Some(data.clone()));
        Ok(data.slice(0, bytes))
    }
}

/// The header at a block of a zone, if there is one.
async fn header_at(shared: &Shared, ahead: &mut Ahead, at: u32) -> Result<Option<Header>, Reason> {
    let (place, room) = (ahead.start + u64::from(at), ahead.room - at);
    let mut blocks = PROBE.min(room);
    loop {
        let data = ahead.get(shared, at, blocks).await?;
        match Header::decode(&data.to_vec()) {
            Ok((header, _)) => return Ok(Some(header)),
            Err(HeaderError::Short(needed)) if u32::from(needed) > blocks && u32::from(needed) <= room => {
                blocks = needed.into();
            }
            Err(HeaderError::Version(version)) => {
                let why = format!("block {place} has a header of version {version}, which is not known");
                return Err(Reason::VolumeFailed(why.into()));
            }
            Err(_) => return Ok(None),
        }
    }
}

pub(super) async fn read(shared: &Shared, place: Pba, blocks: u32) -> Result<Data, Reason> {
    let reading = {
        let state = shared.borrow();
        state.disks.read(&state.io, place, blocks)?
    };
    reading.data().await
}

/// Only the last batch of a sequential zone can be torn, and any of a zone without a pointer: they count if their payload is whole. Nodes of
/// the map say that of themselves. What the root covers was flushed before it: wrong data there is damage, and the rest of the batch is live.
/// True if there was one.
async fn drop_torn(
    shared: &Shared,
    (zone, since): (ZoneIndex, &Since),
    found: &mut Vec<Found>,
) -> Result<bool, Reason> {
    if shared.borrow().guards.gone().torn_batches_count {
        return Ok(false);
    }
    let is_sequential = shared.borrow().disks.shape(zone).is_sequential;
    let first = if is_sequential { found.len().saturating_sub(1) } else { 0 };
    for at in first..found.len() {
        let Found { header, payload, .. } = &found[at];
        let is_of_log = matches!(header.kind, BatchKind::User(_) | BatchKind::Copies(_));
        if is_of_log && !is_whole(shared, header, *payload).await? && since.is_before(header) {
            found.truncate(at);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the payload of a batch is what its header says.
async fn is_whole(shared: &Shared, header: &Header, payload: Pba) -> Result<bool, Reason> {
    let count = header.checksums.len();
    if count == 0 {
        return Ok(true);
    }
    let data = read(shared, payload, count as u32).await.map_err(|reason| {
        let number = header.batch.number;
        Reason::VolumeFailed(format!("{count} blocks at {payload}, of batch {number}, cannot be read: {reason}").into())
    })?;
    let bytes = data.to_vec();
    let lbas = header.lbas();
    let checksum = |number: usize, block: &[u8]| match lbas.get(number) {
        Some(lba) => Checksum::of_block(*lba, block),
        None => Checksum::of(block),
    };
    let mut blocks = bytes.chunks(BLOCK_BYTES).enumerate();
    Ok(blocks.all(|(number, block)| checksum(number, block) == header.checksums[number]))
}
