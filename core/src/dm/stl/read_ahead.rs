//! Reading ahead on disks with a head. Headers lie between batches, and a head that skips one waits for the next turn of the platters: so
//! whoever reads in order gets what lies in a row, headers included, out of memory.
//!
//! ```text
//!   reads of a stream        1111  2222  3333  4444
//!   the zone               h 1111h 2222h 3333h 4444h 5555h 6666h 7777h
//!   segments, read ahead                 |---------|---------|
//! ```

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::format::ZoneUse;
use super::map::{Extent, Source};
use super::policy::{Readers, follows};
use super::read::Pinned;
use super::state::{Shared, State};
use super::{BLOCK_BYTES, BLOCK_SECTORS, Pba, ZoneIndex};
use crate::block::{Bio, Cx, Data, Status};
use crate::prelude::*;

/// Segments that may be read at one time.
pub(super) const SEGMENT_READERS: usize = 4;
/// Most segments that are read ahead of a stream.
const MOST_AHEAD: u64 = 4;
/// Most segments in memory.
const MOST_SEGMENTS: usize = 16;

/// Somebody who reads in order, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Stream {
    start: Pba,
    /// Behind what was read last.
    end: Pba,
    /// Behind what was read ahead.
    ahead: Pba,
}

/// Blocks in a row that are in memory, or on their way.
#[derive(Debug)]
struct Segment {
    end: Pba,
    data: Option<Data>,
    waiters: VecDeque<Box<Bio>>,
}

/// What is read ahead.
#[derive(Debug)]
pub(super) struct ReadAhead {
    /// Blocks of a segment. Half as many in a row make a stream.
    segment: u64,
    streams: Readers<Stream>,
    segments: BTreeMap<Pba, Segment>,
    /// Those that nobody reads yet.
    wanted: VecDeque<(Pba, u32)>,
    /// Something in these could not be read: it may be something that nobody wants.
    refused: BTreeSet<ZoneIndex>,
}

/// Where blocks in a row are.
#[derive(Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Not all of them are read ahead.
    Elsewhere,
    /// They wait for the segment that begins there.
    OnTheirWay(Pba),
    /// In memory.
    Here,
}

impl ReadAhead {
    /// Segments of so many blocks.
    pub fn new(segment: u32) -> Self {
        Self {
            segment: segment.max(1).into(),
            streams: Readers::default(),
            segments: BTreeMap::new(),
            wanted: VecDeque::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Most blocks that are read ahead of a stream.
    fn most_ahead(&self) -> u64 {
        self.segment * MOST_AHEAD
    }

    /// Somebody reads blocks in a row. If that is a stream, what comes behind them is wanted, up to `limit`. False if they were read just before: the
    /// read comes back from waiting.
    fn follow(&mut self, place: Pba, blocks: u64, limit: Pba) -> bool {
        let end = place + blocks;
        let most = self.most_ahead();
        let has_just_read = |stream: &Stream| stream.start <= place && end <= stream.end && stream.end - end < most;
        if self.streams.iter().any(has_just_read) {
            return false;
        }
        let Some(mut stream) = self.streams.take(|stream| follows(stream.end, place)) else {
            self.streams.put(Stream { start: place, end, ahead: place });
            return true;
        };
        (stream.end, stream.ahead) = (end, stream.ahead.max(place));
        let run = end - stream.start;
        if run >= self.segment / 2 {
            self.extend(&mut stream, (end + run.min(most)).min(limit), limit);
        }
        self.streams.put(stream);
        true
    }

    /// Wants segments of a stream until they reach `target`.
    fn extend(&mut self, stream: &mut Stream, target: Pba, limit: Pba) {
        while stream.ahead < target {
            if let Some((_, segment)) = self.with(stream.ahead) {
                stream.ahead = segment.end;
                continue;
            }
            if self.segments.len() >= MOST_SEGMENTS && !self.drop_passed(stream) {
                return;
            }
            let next = self.segments.range(stream.ahead..).next().map_or(limit, |(start, _)| *start);
            let end = (stream.ahead + self.segment).min(limit).min(next);
            self.segments.insert(stream.ahead, Segment { end, data: None, waiters: VecDeque::new() });
            self.wanted.push_back((stream.ahead, (end - stream.ahead) as u32));
            stream.ahead = end;
        }
    }

    /// The segment with a block, and where it begins.
    fn with(&self, place: Pba) -> Option<(Pba, &Segment)> {
        let (start, segment) = self.segments.range(..=place).next_back()?;
        (place < segment.end).then_some((*start, segment))
    }

    /// Gives up a segment that no stream will come to; false if there is none.
    fn drop_passed(&mut self, stream: &Stream) -> bool {
        let others = self.streams.iter().chain([stream]);
        let coming: Vec<(Pba, Pba)> = others.map(|stream| (stream.start, stream.ahead)).collect();
        let is_passed = |(start, segment): &(&Pba, &Segment)| {
            segment.data.is_some() && !coming.iter().any(|(from, to)| from <= *start && *start < to)
        };
        let passed = self.segments.iter().find(is_passed).map(|(start, _)| *start);
        passed.is_some_and(|start| self.segments.remove(&start).is_some())
    }

    fn find(&self, place: Pba, blocks: u64) -> Whereabouts {
        let (mut at, mut found) = (place, Whereabouts::Here);
        while at < place + blocks {
            let Some((start, segment)) = self.with(at) else { return Whereabouts::Elsewhere };
            if segment.data.is_none() && found == Whereabouts::Here {
                found = Whereabouts::OnTheirWay(start);
            }
            at = segment.end;
        }
        found
    }

    /// Copies blocks that are here.
    fn copy(&self, place: Pba, bio: &Bio) {
        let (mut at, end) = (place, place + u64::from(bio.sectors / BLOCK_SECTORS));
        while at < end {
            let Some((start, Segment { end: behind, data: Some(data), .. })) = self.with(at) else { return };
            let until = end.min(*behind);
            let part = data.slice((at - start) as usize * BLOCK_BYTES, (until - at) as usize * BLOCK_BYTES);
            let (skip, sectors) = ((at - place) as u32 * BLOCK_SECTORS, (until - at) as u32 * BLOCK_SECTORS);
            bio.payload.slice(skip, sectors).copy_from(&part);
            at = until;
        }
    }

    /// A stream has read up to `end`: what it got out of memory up to there it does not need any more.
    fn passed(&mut self, place: Pba, end: Pba) {
        let Some(stream) = self.streams.iter().find(|stream| stream.start <= place && end <= stream.end) else {
            return;
        };
        let range = self.segments.range(stream.start..end);
        let passed = range.filter(|(_, segment)| segment.data.is_some() && segment.end <= end).map(|(start, _)| *start);
        for start in passed.collect::<Vec<_>>() {
            self.segments.remove(&start);
        }
    }

    /// A segment is read, or cannot be. Who waits for it.
    fn arrived(&mut self, start: Pba, data: Option<Data>) -> VecDeque<Box<Bio>> {
        let Some(segment) = self.segments.get_mut(&start) else { return VecDeque::new() };
        let waiters = core::mem::take(&mut segment.waiters);
        match data {
            Some(data) => segment.data = Some(data),
            None => drop(self.segments.remove(&start)),
        }
        waiters
    }

    /// What lies in `from..to`, which is a zone, means something else from now on.
    pub fn forget(&mut self, zone: ZoneIndex, from: Pba, to: Pba) {
        self.segments.retain(|start, segment| segment.data.is_none() || !(from..to).contains(start));
        self.refused.remove(&zone);
    }

    /// Bios that wait.
    pub fn held(&self) -> impl Iterator<Item = &Box<Bio>> {
        self.segments.values().flat_map(|segment| &segment.waiters)
    }
}

impl State {
    /// Answers a read of blocks in a row out of what was read ahead, now or later. Gives it back if it has to be sent.
    pub fn read_from_ahead(&mut self, bio: Box<Bio>, extent: &Extent, cx: &mut Cx<'_>) -> Option<Box<Bio>> {
        let Source::At(place, checksums) = &extent.source else { return Some(bio) };
        let (place, blocks) = (*place, u64::from(extent.blocks));
        if !self.disks.spot(place).is_ok_and(|(disk, _)| disk.is_rotational) {
            return Some(bio);
        }
        let (zone, _) = self.disks.set.zone_of(place);
        let limit = self.end_of_reading(zone).unwrap_or(place);
        if self.ahead.follow(place, blocks, limit) {
            self.scattered.note(extent.lba, extent.blocks, place);
        }
        if !self.ahead.wanted.is_empty() {
            self.notify(|signals| &signals.ahead);
        }
        match self.ahead.find(place, blocks) {
            Whereabouts::Elsewhere => return Some(bio),
            Whereabouts::OnTheirWay(start) => {
                self.ahead.segments.entry(start).and_modify(|segment| segment.waiters.push_back(bio));
                return None;
            }
            Whereabouts::Here => self.ahead.copy(place, &bio),
        }
        self.ahead.passed(place, place + blocks);
        if !self.checker.checksums(extent.lba, &bio.payload).eq(checksums.all().iter().copied()) {
            // It is asked for by itself before anybody is told so.
            self.ahead.refused.insert(zone);
            return Some(bio);
        }
        self.counters.ahead_blocks += blocks;
        cx.complete(bio, Status::Ok);
        None
    }

    /// Up to where a zone is read ahead: only where nothing in it is on its way, and nothing will be.
    fn end_of_reading(&self, zone: ZoneIndex) -> Option<Pba> {
        let row = &self.zones.rows()[zone.0 as usize];
        let (cut, copies) = self.map_cut;
        let is_settled = row.used_for == ZoneUse::Full && self.zones.is_covered(zone, cut, copies);
        let is_read = is_settled && !self.ahead.refused.contains(&zone);
        is_read.then(|| self.disks.set.start(zone) + u64::from(row.written))
    }
}

/// Reads segments ahead.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        let (start, blocks) = signals.ahead.until(|| shared.borrow_mut().ahead.wanted.pop_front()).await;
        // What was read of a zone that is reset behind it is forgotten then.
        let reading = Pinned::begin(&mut shared.borrow_mut(), start, blocks);
        let data = reading.data(&shared).await;
        let mut state = shared.borrow_mut();
        if data.is_err() {
            let (zone, _) = state.disks.set.zone_of(start);
            state.ahead.refused.insert(zone);
        }
        let waiters = state.ahead.arrived(start, data.ok());
        state.back.extend(waiters);
        state.is_notified = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::stl::policy::READERS;

    const LIMIT: Pba = Pba(100_000);

    fn reads(ahead: &mut ReadAhead, from: u64, count: u64) {
        (0..count).for_each(|number| _ = ahead.follow(Pba(from + number * 257), 256, LIMIT));
    }

    fn arrive(ahead: &mut ReadAhead) {
        while let Some((start, blocks)) = ahead.wanted.pop_front() {
            ahead.arrived(start, Some(Data::zeroed(blocks as usize * BLOCK_BYTES)));
        }
    }

    #[test]
    fn who_reads_in_order_with_headers_between_finds_it_in_memory_and_who_does_not_changes_nothing() {
        let mut ahead = ReadAhead::new(512);
        [7, 90_000, 4_000, 50_000].into_iter().for_each(|place| _ = ahead.follow(Pba(place), 256, LIMIT));
        assert!(ahead.wanted.is_empty());
        reads(&mut ahead, 10_000, 2);
        assert_eq!(ahead.wanted.front(), Some(&(Pba(10_257), 512)), "from the second read on, in whole segments");
        assert_eq!(ahead.find(Pba(10_257), 256), Whereabouts::OnTheirWay(Pba(10_257)));
        arrive(&mut ahead);
        assert_eq!(
            (ahead.find(Pba(10_257), 256), ahead.find(Pba(10_000), 256)),
            (Whereabouts::Here, Whereabouts::Elsewhere)
        );
    }

    #[test]
    fn memory_is_bounded_however_many_read_in_order() {
        let mut ahead = ReadAhead::new(512);
        for step in 0..40 {
            for reader in 0..9 {
                ahead.follow(Pba(reader * 11_000 + step * 257), 256, LIMIT);
                assert!(ahead.segments.len() <= MOST_SEGMENTS && ahead.streams.iter().count() <= READERS);
            }
            arrive(&mut ahead);
        }
    }

    #[test]
    fn what_a_stream_has_passed_is_given_up_and_it_always_finds_what_comes() {
        let mut ahead = ReadAhead::new(512);
        reads(&mut ahead, 0, 2);
        for number in 2..300 {
            arrive(&mut ahead);
            let place = Pba(number * 257);
            ahead.follow(place, 256, LIMIT);
            arrive(&mut ahead);
            assert_eq!(ahead.find(place, 256), Whereabouts::Here, "read {number}");
            ahead.passed(place, place + 256);
            assert!(ahead.segments.len() <= 6, "{} segments", ahead.segments.len());
        }
    }

    #[test]
    fn nothing_is_read_behind_the_end_of_a_zone_and_a_zone_that_was_reset_is_forgotten() {
        let mut ahead = ReadAhead::new(512);
        (0..4).for_each(|number| _ = ahead.follow(Pba(number * 257), 256, Pba(1_100)));
        assert!(ahead.wanted.iter().all(|(start, blocks)| *start + u64::from(*blocks) <= Pba(1_100)));
        arrive(&mut ahead);
        assert_eq!(ahead.find(Pba(771), 256), Whereabouts::Here);
        ahead.forget(ZoneIndex(0), Pba(0), Pba(2_000));
        assert_eq!(ahead.find(Pba(771), 256), Whereabouts::Elsewhere);
    }
}
