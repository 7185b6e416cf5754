//! Reading ahead: who goes forward through a zone finds the next data in a read buffer.
//!
//! A read that begins where an earlier one of its zone ended makes a stream. From then on the dies read pages of it before
//! they are asked for, as far ahead as the window goes; a read of the stream only waits for what they have not brought yet.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use super::ZnsSsd;
use super::nand::{DieOperation, Reader};
use shingle_core::block::Cx;
use shingle_core::zone::ZoneNo;

/// Most streams that are told apart.
const STREAMS: usize = 16;

/// A reader that may go forward through a zone. Offsets are in sectors from the start of the zone.
#[derive(Default)]
struct Stream {
    /// Absent once the zone was reset.
    zone: Option<ZoneNo>,
    /// Where its next read would begin.
    next: u32,
    /// End of what the dies were asked for.
    asked: u32,
    /// Where the pages begin that are being read, in order, and whether they are there.
    pages: VecDeque<(u32, bool)>,
    /// Reads whose data is not there, in order, with where it ends.
    waiting: VecDeque<(u32, u32)>,
    /// When it was used last, by number.
    used: u64,
}

/// All streams.
pub(super) struct ReadAhead {
    streams: Vec<Stream>,
    window: u32,
    uses: u64,
}

impl Stream {
    /// End of what is there without a gap.
    fn have(&self) -> u32 {
        self.pages.front().map_or(self.asked, |(start, _)| *start)
    }

    fn is_idle(&self) -> bool {
        self.pages.is_empty() && self.waiting.is_empty()
    }
}

impl ReadAhead {
    /// No streams yet. Without a window there are never any.
    pub fn new(window_bytes: u32) -> Self {
        let streams = if window_bytes > 0 { STREAMS } else { 0 };
        Self { streams: (0..streams).map(|_| Stream::default()).collect(), window: window_bytes / 512, uses: 0 }
    }

    /// The stream that a read of `part` goes on with. If there is none, the read may be the first of one.
    fn follow(&mut self, zone: ZoneNo, part: &Range<u32>) -> Option<usize> {
        self.uses += 1;
        let goes_on = |stream: &Stream| stream.zone == Some(zone) && stream.next == part.start;
        let found = self.streams.iter().position(goes_on);
        let idle = || self.streams.iter().enumerate().filter(|(_, stream)| stream.is_idle());
        let place = found.or_else(|| idle().min_by_key(|(_, stream)| stream.used).map(|(place, _)| place))?;
        let stream = &mut self.streams[place];
        (stream.next, stream.used) = (part.end, self.uses);
        if found.is_none() {
            (stream.zone, stream.asked) = (Some(zone), part.end);
        }
        found
    }

    /// `zone` was reset: whoever reads it next reads something else.
    pub fn forget(&mut self, zone: ZoneNo) {
        self.streams.iter_mut().filter(|stream| stream.zone == Some(zone)).for_each(|stream| stream.zone = None);
    }

    /// Forgets everything.
    pub fn stop(&mut self) {
        self.streams.iter_mut().for_each(|stream| *stream = Stream::default());
    }
}

impl ZnsSsd {
    /// Lets read `id` of `part` go on with a stream, if there is one; the dies hold what is before `on_dies`. If there is
    /// none, the read has to ask them itself.
    pub(super) fn read_stream(&mut self, id: u32, zone: ZoneNo, part: Range<u32>, on_dies: u32) -> bool {
        let Some(place) = self.ahead.follow(zone, &part) else { return false };
        let until = (part.end + self.ahead.window).min(on_dies);
        let mut at = self.ahead.streams[place].asked.max(part.start);
        while at < until {
            let next = self.page_end(at).min(on_dies);
            let die = self.die_of(zone, at);
            self.ahead.streams[place].pages.push_back((at, false));
            let reader = Reader::Ahead { stream: place as u32, start: at };
            self.nand.ask(die, DieOperation::Read { reader, bytes: (next - at) * 512 });
            at = next;
        }
        let stream = &mut self.ahead.streams[place];
        stream.asked = at;
        let needed = part.end.min(on_dies);
        if needed > stream.have() {
            stream.waiting.push_back((id, needed));
            self.commands[id as usize].left = 1;
        }
        true
    }

    /// Where the page of a die ends that holds the sector at `at`.
    fn page_end(&self, at: u32) -> u32 {
        let (page, unit) = ((self.config.page_bytes / 512).max(1), self.config.program_unit_bytes / 512);
        let in_unit = at % unit;
        at - in_unit + (in_unit - in_unit % page + page).min(unit)
    }

    /// A die has brought the page at `start`.
    pub(super) fn page_ahead(&mut self, place: usize, start: u32, cx: &mut Cx<'_>) {
        let pages = &mut self.ahead.streams[place].pages;
        pages.iter_mut().filter(|(page, _)| *page == start).for_each(|(_, there)| *there = true);
        while pages.pop_front_if(|(_, there)| *there).is_some() {}
        let have = self.ahead.streams[place].have();
        while let Some((id, _)) = self.ahead.streams[place].waiting.pop_front_if(|(_, needed)| *needed <= have) {
            self.page_read(id, cx);
        }
    }
}
