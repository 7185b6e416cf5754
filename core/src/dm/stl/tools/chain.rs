//! The headers of a zone, followed from one to the next.

use super::media::Media;
use super::space::Space;
use crate::dm::stl::format::{Checksum, Header, HeaderError, SetId};
use crate::dm::stl::{BLOCK_BYTES, Epoch, Generation, Lba, Pba, Since, ZoneIndex};
use crate::prelude::*;

/// A batch that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its header.
    pub header: Header,
    /// The first block of its payload.
    pub payload: Pba,
    /// The block behind it, in its zone.
    pub end: u32,
}

/// A block of users that a header tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub lba: Lba,
    pub place: Pba,
    pub checksum: Checksum,
}

/// What headers have to say of themselves to count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// The set; any, if it is not known.
    pub set: Option<SetId>,
    /// The generation of the zone; that of its first header if it is not known.
    pub generation: Option<Generation>,
    /// The generation that it has to be above.
    pub above: Option<Generation>,
    /// The life.
    pub epoch: Option<Epoch>,
}

/// The batches of a zone.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// In their order.
    pub found: Vec<Found>,
    /// The block behind the last one.
    pub end: u32,
    /// Why there is no further one; `None`: the zone ends there.
    pub why: Option<String>,
}

/// Blocks that are read at once to look for a header.
const PROBE: u32 = 4;

/// Follows the headers of a zone up to a block.
pub fn chain(media: &mut dyn Media, space: &Space, (zone, up_to): (ZoneIndex, u32), expected: Expected) -> Chain {
    let (mut chain, start, mut expected) = (Chain::default(), space.set.start(zone), expected);
    while chain.end < up_to {
        let place = start + u64::from(chain.end);
        let header = match header_at(media, space, place, up_to - chain.end) {
            Ok(header) => header,
            Err(why) => {
                chain.why = Some(why);
                break;
            }
        };
        let blocks = Header::blocks_of(header.kind.record_bytes(), header.checksums.len()) as u32;
        let end = chain.end.saturating_add(blocks).saturating_add(header.checksums.len() as u32);
        if let Err(why) = expected.check(&header, place, end <= up_to) {
            chain.why = Some(why);
            break;
        }
        expected.generation = Some(header.batch.generation);
        chain.end = end;
        chain.found.push(Found { header, payload: place + u64::from(blocks), end });
    }
    chain
}

impl Expected {
    fn check(&self, header: &Header, place: Pba, fits: bool) -> Result<(), String> {
        let batch = &header.batch;
        let of = |what: &str| Err(format!("there is a header of {what}"));
        match () {
            () if self.set.is_some_and(|set| set != batch.set) => of("another set"),
            () if batch.place != place => of(&format!("block {}", batch.place)),
            () if self.generation.is_some_and(|it| it != batch.generation) => {
                of(&format!("generation {}", batch.generation))
            }
            () if self.above.is_some_and(|above| above >= batch.generation) => {
                of(&format!("generation {}", batch.generation))
            }
            () if self.epoch.is_some_and(|epoch| epoch != batch.epoch) => of(&format!("life {}", batch.epoch)),
            () if !fits => Err("a batch is longer than what is written".into()),
            () => Ok(()),
        }
    }
}

fn header_at(media: &mut dyn Media, space: &Space, place: Pba, room: u32) -> Result<Header, String> {
    let mut blocks = PROBE.min(room);
    loop {
        let bytes = space.read(media, place, blocks).or_else(|_| space.read(media, place, 1));
        let bytes = bytes.map_err(|error| error.to_string())?;
        match Header::decode(&bytes) {
            Ok((header, _)) => return Ok(header),
            Err(HeaderError::Short(needed)) if u32::from(needed) > blocks && u32::from(needed) <= room => {
                blocks = needed.into();
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

impl Found {
    /// The blocks of users that it has, in their order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        let lbas = self.header.lbas().into_iter().zip(&self.header.checksums).enumerate();
        lbas.map(|(at, (lba, checksum))| Entry { lba, place: self.payload + at as u64, checksum: *checksum })
    }

    /// Whether its payload is what its header says.
    pub(super) fn is_whole(&self, media: &mut dyn Media, space: &Space) -> bool {
        let (checksums, lbas) = (&self.header.checksums, self.header.lbas());
        if checksums.is_empty() {
            return true;
        }
        let Ok(bytes) = space.read(media, self.payload, checksums.len() as u32) else { return false };
        let checksum = |(number, block): (usize, &[u8])| match lbas.get(number) {
            Some(lba) => Checksum::of_block(*lba, block),
            None => Checksum::of(block),
        };
        bytes.chunks(BLOCK_BYTES).enumerate().map(checksum).eq(checksums.iter().copied())
    }
}

impl Chain {
    /// Takes batches off that were torn, and what comes behind: the last one of a zone with a pointer, any of another. A root was
    /// written when what it covers was durable, so wrong data in such a batch is damage.
    pub(super) fn drop_torn(&mut self, media: &mut dyn Media, space: &Space, (zone, root): (ZoneIndex, &Since)) {
        let first = if space.is_sequential(zone) { self.found.len().saturating_sub(1) } else { 0 };
        let is_torn =
            |found: &Found, media: &mut dyn Media| root.is_before(&found.header) && !found.is_whole(media, space);
        let torn = (first..self.found.len()).find(|at| is_torn(&self.found[*at], media));
        if let Some(at) = torn {
            self.found.truncate(at);
            self.end = self.found.last().map_or(0, |last| last.end);
            self.why = Some("a batch is not whole".into());
        }
    }
}
