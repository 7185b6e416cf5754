//! A reference: a device that keeps its writes in one log, one after the other, and everything in memory as well.
//!
//! ```text
//!   sequential zones of all disks:  [ first half ........ ][ second half ....... ]
//!                                     all blocks, END, changes ...   the same of the next generation
//! ```
//!
//! The log goes on in a zone only when all before it is durable. When a half is full, and at every start, all blocks are written to
//! the other one. The last half with an END counts. Disks have to be sound.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use shingle_core::block::{
    Bio, BlockDevice, Cx, Data, DeviceId, Event, Flags, Limits, Op, Payload, Reason, Stack, Status, WordOwner,
};

use shingle_core::sector::Sector;
use shingle_core::task::{Answer, Io, Signal, Tasks};
use shingle_core::zone::{ZoneKind, ZoneNo};
use shingle_sim::Choices;
use shingle_sim::disk::CrashDisk;

const BLOCK: usize = 4096;
const MAGIC: u64 = 0x106;
/// Most blocks of a volume.
const MOST: u32 = 24;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// It goes on in the next zone without a flush. A start ends the log where something is missing.
    NoFlush,
    /// The same, and a start takes what comes behind that as well.
    OverHoles,
    /// It takes a write with FUA for one without.
    NoFua,
    /// It does not log discards.
    NoDiscards,
}

/// What a record says, behind the magic number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data = 1,
    Zeroes,
    End,
}

#[derive(Clone)]
struct Place {
    device: DeviceId,
    start: u64,
    /// Records that fit, of two blocks each; and whether a block is left over.
    records: u32,
    is_odd: bool,
    written: u32,
}

/// Blocks of a volume on disks whose zones take so many records.
fn blocks_of(records: &[u32]) -> u32 {
    let (first, second) = records.split_at(records.len() / 2);
    let least = first.iter().sum::<u32>().min(second.iter().sum());
    (least / 3).min(MOST)
}

/// As [`shingle_sim::swarm::FormatOver`]: unwritten disks are an empty log.
pub fn format(stack: &mut Stack, disks: &[DeviceId], _: &mut Choices) -> Result<u32, String> {
    let mut records = Vec::new();
    for disk in disks.iter().filter_map(|disk| stack.device::<CrashDisk>(*disk)) {
        let geometry = disk.config().geometry;
        let zones = (0..geometry.zones()).map(ZoneNo).filter(|zone| geometry.kind(*zone) == ZoneKind::Sequential);
        if disk.config().regular.is_none() {
            records.extend(zones.map(|zone| geometry.capacity_of(zone) / 16));
        }
    }
    Ok(blocks_of(&records))
}

#[derive(Default)]
struct State {
    blocks: Vec<Option<Vec<u8>>>,
    queue: VecDeque<Box<Bio>>,
    done: Vec<(Box<Bio>, Status)>,
    is_loaded: bool,
}

pub struct LogDevice {
    limits: Limits,
    below: Vec<DeviceId>,
    state: Rc<RefCell<State>>,
    changed: Signal,
    tasks: Tasks,
    /// Own flushes under way, with which it stops.
    stopping: u32,
}

/// Marks them.
const OWN: Flags = Flags::NOWAIT;

impl LogDevice {
    pub fn boxed(ids: &[DeviceId], limits: &[Limits], blocks: u32, bug: Bug) -> Box<dyn BlockDevice> {
        let sectors = blocks * 8;
        let own = Limits {
            logical_block_bytes: BLOCK as u32,
            physical_block_bytes: BLOCK as u32,
            max_write_zeroes: Some(sectors),
            max_discard: Some(sectors),
            write_cache: true,
            ..Limits::new(sectors.into())
        };
        let state = Rc::new(RefCell::new(State { blocks: vec![None; blocks as usize], ..State::default() }));
        let (changed, mut tasks) = (Signal::default(), Tasks::default());
        let disks = ids.iter().zip(limits).filter(|(_, limits)| limits.zoned.is_some());
        let log = Log {
            io: tasks.io(),
            state: state.clone(),
            disks: disks.map(|(id, limits)| (*id, limits.zones() as usize)).collect(),
            halves: [Vec::new(), Vec::new()],
            half: 1,
            zone: 0,
            generation: 0,
            under_way: Vec::new(),
            bug,
        };
        tasks.spawn(log.run(changed.clone()));
        Box::new(Self { limits: own, below: ids.to_vec(), state, changed, tasks, stopping: 0 })
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.tasks.run(cx);
        let done = std::mem::take(&mut self.state.borrow_mut().done);
        for (bio, status) in done {
            if bio.flags.has(OWN) {
                self.stopping -= 1;
                cx.recycle(bio);
            } else {
                cx.complete(bio, status);
            }
        }
    }
}

impl BlockDevice for LogDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.pump(cx);
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.state.borrow_mut().queue.push_back(bio);
        self.changed.notify();
        self.pump(cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        self.tasks.end_io(bio, status, word, cx);
        self.pump(cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(word) if WordOwner::Task.owns(word) => self.tasks.on_timer(word),
            Event::Suspend { .. } if self.stopping == 0 => {
                self.stopping += 1;
                let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None).with_flags(OWN);
                let flush = cx.own_bio(flush);
                return self.submit(flush, cx);
            }
            _ => {}
        }
        self.pump(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.state.borrow().queue.iter().for_each(|bio| visit(bio));
    }

    fn is_ready(&self) -> Result<(), String> {
        if self.state.borrow().is_loaded { Ok(()) } else { Err("its log is not read yet".into()) }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("a log")
    }
}

/// A record: its kind, its first block, how many, and the data.
type Record = (u64, u32, u32, Vec<u8>);

struct Log {
    io: Io,
    state: Rc<RefCell<State>>,
    /// Those with zones, and how many.
    disks: Vec<(DeviceId, usize)>,
    halves: [Vec<Place>; 2],
    /// Where the log goes on.
    half: usize,
    zone: usize,
    generation: u64,
    under_way: Vec<Answer>,
    bug: Bug,
}

impl Log {
    async fn run(mut self, changed: Signal) {
        self.load().await.expect("disks are sound");
        self.state.borrow_mut().is_loaded = true;
        loop {
            let state = self.state.clone();
            let bio = changed.until(|| state.borrow_mut().queue.pop_front()).await;
            self.serve(&bio).await.expect("disks are sound");
            self.state.borrow_mut().done.push((bio, Status::Ok));
        }
    }

    async fn serve(&mut self, bio: &Bio) -> Result<(), Reason> {
        let (first, count) = ((bio.sector.0 / 8) as u32, bio.sectors / 8);
        if bio.op == Op::Flush || bio.flags.has(Flags::PREFLUSH) {
            self.flush().await?;
        }
        match bio.op {
            Op::Read => self.read(bio, first),
            Op::Write => {
                let whole = Data::zeroed(count as usize * BLOCK);
                bio.payload.copy_to(&whole);
                let bytes = whole.to_vec();
                self.make_room(count).await?;
                for (block, bytes) in (first..).zip(bytes.chunks(BLOCK)) {
                    self.append(Kind::Data, (block, 1), bytes).await?;
                }
                self.settle().await?;
                let blocks = &mut self.state.borrow_mut().blocks[first as usize..];
                blocks.iter_mut().zip(bytes.chunks(BLOCK)).for_each(|(block, bytes)| *block = Some(bytes.to_vec()));
            }
            Op::WriteZeroes | Op::Discard => {
                self.make_room(1).await?;
                if bio.op == Op::WriteZeroes || self.bug != Bug::NoDiscards {
                    self.append(Kind::Zeroes, (first, count), &[]).await?;
                }
                self.settle().await?;
                self.state.borrow_mut().blocks[first as usize..(first + count) as usize].fill(None);
            }
            _ => {}
        }
        if bio.flags.has(Flags::FUA) && self.bug != Bug::NoFua {
            self.flush().await?;
        }
        Ok(())
    }

    fn read(&self, bio: &Bio, first: u32) {
        let whole = Data::zeroed(bio.sectors as usize * 512);
        for (place, block) in
            self.state.borrow().blocks[first as usize..].iter().take(bio.sectors as usize / 8).enumerate()
        {
            if let Some(bytes) = block {
                whole.write(place * BLOCK, bytes);
            }
        }
        bio.payload.copy_from(&whole);
    }

    /// Zones before this one were flushed when the log left them.
    async fn flush(&mut self) -> Result<(), Reason> {
        self.io.flush(self.halves[self.half][self.zone].device).ok().await
    }

    async fn settle(&mut self) -> Result<(), Reason> {
        for answer in std::mem::take(&mut self.under_way) {
            answer.ok().await?;
        }
        Ok(())
    }

    async fn make_room(&mut self, records: u32) -> Result<(), Reason> {
        let left: u32 = self.halves[self.half][self.zone..].iter().map(|place| place.records - place.written).sum();
        if left < records { self.turn_over().await } else { Ok(()) }
    }

    async fn append(&mut self, kind: Kind, (block, count): (u32, u32), bytes: &[u8]) -> Result<(), Reason> {
        if self.halves[self.half][self.zone].written == self.halves[self.half][self.zone].records {
            self.settle().await?;
            if !matches!(self.bug, Bug::NoFlush | Bug::OverHoles) {
                self.flush().await?;
            }
            self.zone += 1;
        }
        let data = Data::zeroed(2 * BLOCK);
        let head = [MAGIC, self.generation, kind as u64, block.into(), count.into()];
        head.iter().enumerate().for_each(|(at, word)| data.write(at * 8, &word.to_le_bytes()));
        data.write(BLOCK, bytes);
        let place = &mut self.halves[self.half][self.zone];
        let (device, at) = (place.device, Sector(place.start + u64::from(place.written) * 16));
        self.under_way.push(self.io.write(device, at, data, Flags::NONE));
        place.written += 1;
        if place.written == place.records && place.is_odd {
            // So the zone is full, and counts as active no more.
            self.under_way.push(self.io.write(device, Sector(at.0 + 16), Data::zeroed(BLOCK), Flags::NONE));
        }
        Ok(())
    }

    /// Writes everything to the other half, and goes on there.
    async fn turn_over(&mut self) -> Result<(), Reason> {
        self.settle().await?;
        self.half = 1 - self.half;
        for place in &mut self.halves[self.half] {
            self.io.reset(place.device, Sector(place.start)).ok().await?;
            place.written = 0;
        }
        for (disk, _) in self.disks.clone() {
            self.io.flush(disk).ok().await?;
        }
        (self.zone, self.generation) = (0, self.generation + 1);
        let blocks = self.state.borrow().blocks.clone();
        for (block, bytes) in (0..).zip(&blocks) {
            if let Some(bytes) = bytes {
                self.append(Kind::Data, (block, 1), bytes).await?;
            }
        }
        self.append(Kind::End, (0, 0), &[]).await?;
        self.settle().await?;
        self.flush().await
    }

    async fn load(&mut self) -> Result<(), Reason> {
        let mut places = Vec::new();
        for (device, zones) in self.disks.clone() {
            let report = self.io.report(device, Sector::ZERO, zones).await?;
            places.extend(report.iter().filter(|zone| zone.kind == ZoneKind::Sequential).map(|zone| Place {
                device,
                start: zone.start.0,
                records: (zone.capacity / 16) as u32,
                is_odd: zone.capacity % 16 != 0,
                written: ((zone.wp.0 - zone.start.0).min(zone.capacity) / 16) as u32,
            }));
        }
        let second = places.split_off(places.len() / 2);
        self.halves = [places, second];
        for half in 0..2 {
            let (generation, records) = self.read_half(half).await?;
            let is_whole = records.iter().any(|record| record.0 == Kind::End as u64);
            if is_whole && generation > self.generation {
                (self.generation, self.half) = (generation, half);
                self.replay(&records);
            }
            self.clear(half, is_whole).await?;
        }
        self.turn_over().await
    }

    /// Empties what is of no log, so that no more zones are active than the log needs: only a bug leaves that.
    async fn clear(&mut self, half: usize, is_whole: bool) -> Result<(), Reason> {
        let places = &self.halves[half];
        let used = places.iter().take_while(|place| is_whole && place.written == place.records).count();
        for place in places[used..].iter().skip(usize::from(is_whole)) {
            self.io.reset(place.device, Sector(place.start)).ok().await?;
        }
        Ok(())
    }

    fn replay(&self, records: &[Record]) {
        let blocks = &mut self.state.borrow_mut().blocks;
        blocks.fill(None);
        for (kind, block, count, bytes) in records {
            let range = *block as usize..(block + count) as usize;
            blocks[range].fill((*kind == Kind::Data as u64).then(|| bytes.clone()));
        }
    }

    /// The records of a half, up to the end of its log, and their generation.
    async fn read_half(&mut self, half: usize) -> Result<(u64, Vec<Record>), Reason> {
        let (mut generation, mut records) = (0, Vec::new());
        for place in self.halves[half].clone() {
            let at = |record: u32| Sector(place.start + u64::from(record) * 16);
            let read = |record| self.io.read(place.device, at(record), Data::zeroed(2 * BLOCK));
            let answers: Vec<Answer> = (0..place.written).map(read).collect();
            for answer in answers {
                let (result, payload) = answer.await;
                result?;
                let Payload::Data(data) = payload else { return Err(Reason::NoRoom) };
                let bytes = data.to_vec();
                let word = |at: usize| bytes[at * 8..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                assert_eq!(word(0), MAGIC, "the log has a hole");
                generation = word(1);
                records.push((word(2), word(3) as u32, word(4) as u32, bytes[BLOCK..].to_vec()));
            }
            if place.written < place.records && self.bug != Bug::OverHoles {
                break;
            }
        }
        Ok((generation, records))
    }
}
