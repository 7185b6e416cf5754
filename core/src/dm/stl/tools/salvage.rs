//! The newest of every block by the headers alone.
//!
//! Of the batches that tell of a block the one with the highest number has it; a copy has the number of the batch that it is of. What was made
//! zeroes is zeroes only while the batch that says so is there: such a batch has nothing that is live, so its zone may have been
//! reset, and then a block may come back with what it was before.

use core::ops::Range;

use super::chain::Found;
use super::media::{Media, MediaError, Progress};
use super::survey::{Stream, Survey};
use crate::dm::stl::format::{BatchKind, Checksum};
use crate::dm::stl::map::Extent;
use crate::dm::stl::{BLOCK_BYTES, BatchNo, Lba, Pba};
use crate::prelude::*;

/// The newest that is known of a block: with which batch it was written, and where it is.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    number: u64,
    rank: Rank,
    checksum: Checksum,
    /// One more than its place; 0: zeroes.
    place: u64,
}

/// Which of several that tell of a block with one number is the newest: the record that comes last in the batch, of the last attempt at it that is
/// whole. An attempt that is torn has earlier records that are whole, and they say nothing that an attempt before it did not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u32);

impl Rank {
    /// A copy of a block goes before all that the batch says of it.
    const COPY: Self = Self(u32::MAX);

    /// A batch has fewer than 2^24 records, and few attempts.
    fn of(record: usize, attempt: u32) -> Self {
        Self((record as u32) << 8 | attempt.min(255))
    }

    /// Of all attempts.
    fn record(self) -> u32 {
        self.0 >> 8
    }
}

/// The newest of a range of blocks of the exposed disk.
#[derive(Clone, Debug)]
pub struct Window {
    first: Lba,
    blocks: Vec<Newest>,
    /// Blocks whose data is not what their header says, where that can be because the power was lost.
    torn: Vec<(Lba, Newest)>,
}

impl Window {
    /// Memory for a block of the exposed disk, in bytes.
    pub const BYTES_OF_BLOCK: usize = size_of::<Newest>();

    /// Finds the newest data of `blocks`. Goes over the headers of all zones.
    pub fn gather(media: &mut dyn Media, survey: &Survey, blocks: Range<Lba>, progress: Progress<'_>) -> Self {
        let count = blocks.end.0.saturating_sub(blocks.start.0) as usize;
        let mut window = Self { first: blocks.start, blocks: vec![Newest::default(); count], torn: Vec::new() };
        let is_of_data = |stream| matches!(stream, Stream::Users | Stream::Copies);
        for zone in survey.space.zones() {
            if is_of_data(survey.zones[zone.0 as usize].stream) {
                let chain = survey.chain(media, zone);
                let torn = survey.torn(media, zone, &chain);
                chain.found.iter().for_each(|found| window.take(survey, found, &torn));
            }
            progress(u64::from(zone.0) + 1, survey.zones.len() as u64);
        }
        window
    }

    fn take(&mut self, survey: &Survey, found: &Found, torn: &[Pba]) {
        let batch = &found.header.batch;
        match &found.header.kind {
            BatchKind::User(_) if survey.is_void(batch.epoch, BatchNo(batch.number)) || survey.is_refused(batch) => {}
            BatchKind::User(records) => {
                let (number, mut at) = (batch.number, 0);
                for (record, of_batch) in records.iter().zip(0..) {
                    let rank = Rank::of(of_batch, batch.attempt);
                    if record.has_data {
                        let blocks = (0..u64::from(record.blocks)).map(|n| (record.lba + n, at + n));
                        for (lba, at) in blocks {
                            let (place, checksum) = (found.payload + at, found.header.checksums[at as usize]);
                            self.offer(lba, Newest { number, rank, checksum, place: place.0 + 1 }, torn);
                        }
                        at += u64::from(record.blocks);
                    } else {
                        self.put_zeroes(record.lba..record.lba + u64::from(record.blocks), number, rank);
                    }
                }
            }
            BatchKind::Copies(records) => {
                let all = records.iter().zip(&found.header.checksums).zip(0..);
                for ((record, checksum), at) in
                    all.filter(|((record, _), _)| !survey.is_void(batch.epoch, record.written))
                {
                    let place = found.payload + at;
                    let (number, rank) = (record.written.0, Rank::COPY);
                    self.offer(record.lba, Newest { number, rank, checksum: *checksum, place: place.0 + 1 }, torn);
                }
            }
            _ => {}
        }
    }

    fn offer(&mut self, lba: Lba, new: Newest, torn: &[Pba]) {
        let is_here = lba >= self.first && lba - self.first < self.blocks.len() as u64;
        match torn.contains(&Pba(new.place - 1)) {
            true if is_here => self.torn.push((lba, new)),
            true => {}
            false => self.put(lba, new),
        }
    }

    /// Blocks that would have been the newest, but are not what was written: what was there before stands in for them. They are lost, or
    /// were torn by a loss of power and never acknowledged as durable.
    pub fn torn(&self) -> impl Iterator<Item = Loss> {
        let known = |lba: Lba| self.blocks[(lba - self.first) as usize];
        let order = |newest: &Newest| (newest.number, newest.rank.record());
        let is_newer = move |(lba, torn): &&(Lba, Newest)| order(torn) > order(&known(*lba));
        let loss = |(lba, torn): &(Lba, Newest)| Loss { lba: *lba, place: Pba(torn.place - 1), why: Lost::Torn };
        self.torn.iter().filter(is_newer).map(loss)
    }

    fn put_zeroes(&mut self, blocks: Range<Lba>, number: u64, rank: Rank) {
        let end = self.first + self.blocks.len() as u64;
        let (from, to) = (blocks.start.max(self.first), blocks.end.min(end));
        let zeroes = Newest { number, rank, ..Newest::default() };
        (from.0..to.0).for_each(|lba| self.put(Lba(lba), zeroes));
    }

    fn put(&mut self, lba: Lba, new: Newest) {
        let Some(at) = lba.0.checked_sub(self.first.0) else { return };
        if let Some(known) = self.blocks.get_mut(at as usize)
            && (new.number, new.rank) >= (known.number, known.rank)
        {
            *known = new;
        }
    }

    /// Extents with data in `blocks`, as far as this window goes.
    #[must_use]
    pub fn extents(&self, blocks: Range<Lba>) -> Vec<Extent> {
        let end = ((blocks.end - self.first) as usize).min(self.blocks.len());
        let (mut extents, mut at) = (Vec::new(), 0);
        for run in self.blocks[(blocks.start - self.first) as usize..end]
            .chunk_by(|one, next| one.place > 0 && one.place + 1 == next.place)
        {
            if run[0].place > 0 {
                let checksums: Vec<Checksum> = run.iter().map(|block| block.checksum).collect();
                extents.push(Extent::at(blocks.start + at as u64, Pba(run[0].place - 1), &checksums));
            }
            at += run.len();
        }
        extents
    }
}

/// A block that cannot be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The block of the exposed disk.
    pub lba: Lba,
    /// Where it is.
    pub place: Pba,
    /// Why not.
    pub why: Lost,
}

/// Why a block cannot be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It cannot be read.
    Unreadable(MediaError),
    /// Its data is not what was written.
    Checksum,
    /// The same of a block that a loss of power may have torn. What was there before stands in for it.
    Torn,
}

impl_display!(Loss, |self, f| match &self.why {
    Lost::Unreadable(error) => write!(f, "block {} at block {}: {error}", self.lba, self.place),
    Lost::Checksum => write!(f, "block {} at block {}: the data is not what was written", self.lba, self.place),
    Lost::Torn => write!(
        f,
        "block {} at block {}: the data is not what was written, perhaps because the power was lost; it has what was there before",
        self.lba, self.place
    ),
});

/// Reads extents into `to`, which begins with block `first` of the exposed disk. What cannot be read stays zeroes, and is passed to `lost`.
pub fn read_extents(
    media: &mut dyn Media,
    survey: &Survey,
    (first, extents): (Lba, &[Extent]),
    to: &mut [u8],
    lost: &mut dyn FnMut(Loss),
) {
    to.fill(0);
    for extent in extents {
        let Some((place, _)) = extent.place(0) else { continue };
        let whole = survey.space.read(media, place, extent.blocks);
        for (offset, (lba, place, checksum)) in extent.span().data().enumerate() {
            let block = match &whole {
                Ok(bytes) => Ok(bytes[offset * BLOCK_BYTES..][..BLOCK_BYTES].to_vec()),
                Err(_) => survey.space.read(media, place, 1),
            };
            match block {
                Ok(block) if Checksum::of_block(lba, &block) == checksum => {
                    to[(lba - first) as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&block);
                }
                Ok(_) => lost(Loss { lba, place, why: Lost::Checksum }),
                Err(error) => lost(Loss { lba, place, why: Lost::Unreadable(error) }),
            }
        }
    }
}
