//! A host: keeps requests of all kinds in flight, most of them sound, some of them mistakes.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::base::{FLAGS, draw_flags};
use super::door::{Door, Piece, one};
use super::ledger::{Ledger, SECTOR_WORDS, Shared};
use super::scenario::Kind;
use crate::choices::{Choices, choices_by_name};
use crate::model::{DiskRequest, Extent, Intent, Trust};
use crate::stamp::stamp;
use crate::world::{Actor, Io};
use shingle_core::block::{Bio, Data, Flags, Limits, Op, Payload, Priority};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::ZoneNo;

/// How a host behaves.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    pub depth: u32,
    pub weights: [u64; Kind::ALL.len()],
    /// Longest data request, in blocks.
    pub longest: u32,
    /// Of 100 writes, so many with FUA, PREFLUSH or NOWAIT.
    pub flags: u64,
    pub trust: Trust,
    /// Priority class of its bios.
    pub class: Priority,
}

/// The host.
pub(super) struct Host {
    shared: Shared,
    door: Door,
    habits: Habits,
    choices: Choices,
    /// The recording that it follows has no further request.
    has_ended: bool,
    /// What was submitted under each number: the operation, and bytes of memory.
    pending: BTreeMap<u64, (Op, usize)>,
    /// The zone it likes at the moment.
    favourite: u32,
}

/// What a host does in a sequential zone in the place of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    /// It does write.
    Nothing,
    Wait,
    Report,
    Finish,
    Reset,
}

/// A request that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    Misplaced,
    Empty,
    BeyondEnd,
    PartOfBlock,
    NoMemory,
    AppendBesideStart,
    LongAppend,
    BesideStart,
}

choices_by_name!(Instead, Mistake);

/// A request that is about to be submitted.
struct Draft {
    request: DiskRequest,
    sector: Sector,
    sectors: u32,
    /// Bytes of memory; the promise of `sectors`, but for a mistake.
    bytes: usize,
}

impl Host {
    pub fn new(shared: Shared, door: Door, habits: Habits, choices: Choices) -> Self {
        Self { shared, door, habits, choices, has_ended: false, pending: BTreeMap::new(), favourite: 0 }
    }
}

impl Actor for Host {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        while let Some(back) = io.completion() {
            let asked = self.pending.remove(&back.tag).unwrap_or((back.bio.op, 0));
            ledger.complete(asked, &back, &self.door, (io.stack, io.now()));
        }
        ledger.excuse_host(io.stack);
        ledger.log.collect_trace(io.stack);
        self.submit_some(ledger, io);
    }

    fn is_done(&self) -> bool {
        self.pending.is_empty() && (self.has_ended || self.shared.borrow().log.left == 0)
    }
}

impl Host {
    fn submit_some(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) {
        let mut tries = 2 * self.habits.depth;
        while self.wants_more(ledger) {
            if self.choices.next_item("op").is_none() {
                self.has_ended = true;
                return ledger.log.host_has_ended();
            }
            tries = tries.saturating_sub(1);
            let wait = self
                .choices
                .decide("wait-us", (None, &[]), |rng| (tries == 0 || rng.chance(1, 16)).then(|| 1 + rng.below(2_000)));
            if let Some(wait) = wait {
                return io.wake_at(io.now() + Duration::from_micros(wait));
            }
            let limits = io.limits(self.door.device).clone();
            if let Some(draft) = self.draft(ledger, &limits) {
                self.submit(draft, ledger, io);
            }
        }
    }

    fn wants_more(&self, ledger: &Ledger) -> bool {
        let has_room = (self.pending.len() as u32) < self.habits.depth;
        has_room && !self.has_ended && ledger.log.left > 0 && !ledger.is_over()
    }

    fn submit(&mut self, draft: Draft, ledger: &mut Ledger, io: &mut Io<'_>) {
        let Draft { request, sector, sectors, bytes } = draft;
        let (op, flags) = (request.op, request.flags);
        // Who keeps the order himself, or hopes for a refusal, sends what goes in one piece.
        let whole = op.is_write() && (self.habits.trust != Trust::Stack || request.intent != Intent::Sound);
        let number = ledger.submit(request, &self.door, (io.stack, io.now()));
        ledger.is_cut = self.choices.pin("power-cut", false, ledger.is_cut_due());
        let payload = match op {
            Op::ReportZones => Payload::Zones(Vec::with_capacity(self.choices.between("room", 1, 40) as usize)),
            Op::Write | Op::ZoneAppend | Op::Read if bytes > 0 => {
                self.memory((op, whole), number, (bytes, io.limits(self.door.device).logical_block_bytes as usize))
            }
            _ => Payload::None,
        };
        self.pending.insert(number, (op, bytes));
        let bio = Bio::new(op, sector, sectors, payload).with_flags(flags).with_priority(self.habits.class);
        io.submit(number, self.door.device, Box::new(bio));
    }

    /// Memory in one piece, or in three.
    fn memory(&mut self, (op, whole): (Op, bool), number: u64, (bytes, block): (usize, usize)) -> Payload {
        let piece = |first: usize, bytes: usize| {
            let data = Data::zeroed(bytes);
            if op == Op::Read {
                data.fill(0xa5)
            } else {
                stamp::<SECTOR_WORDS>(&data, number, (first / 512) as u32)
            }
            data
        };
        // Cut at blocks: a device that takes one segment at a time has no use for less.
        let blocks = (bytes / block) as u64;
        if blocks < 3 || bytes % block != 0 || whole || op == Op::ZoneAppend {
            return Payload::Data(piece(0, bytes));
        }
        let first = self.choices.decide("first-segment", (0, &[]), |rng| match rng.chance(3, 4) {
            true => 0,
            false => 1 + rng.below(blocks - 2),
        });
        if first == 0 {
            return Payload::Data(piece(0, bytes));
        }
        let (a, b) = (first.min(blocks - 2) as usize * block, (blocks - 1) as usize * block);
        Payload::Segments(vec![piece(0, a), piece(a, b - a), piece(b, block)])
    }

    fn draft(&mut self, ledger: &Ledger, limits: &Limits) -> Option<Draft> {
        let kind = self.choices.weighted("kind", &Kind::ALL, &self.habits.weights);
        let zone = self.pick_zone();
        let changes = !matches!(kind, Kind::Read | Kind::Report | Kind::ResetAll | Kind::Flush);
        if changes && !self.may_write(zone, ledger) {
            return Some(self.read(limits));
        }
        match kind {
            Kind::Report | Kind::Reset | Kind::Finish | Kind::Open | Kind::Close | Kind::ResetAll
                if !self.door.zoned =>
            {
                Some(self.read(limits))
            }
            Kind::Write => self.write(Op::Write, zone, ledger, limits),
            Kind::Zeroes if limits.max_write_zeroes.is_some() => self.write(Op::WriteZeroes, zone, ledger, limits),
            Kind::Append => self.append(zone, ledger, limits),
            Kind::Reset => self.manage(Op::ZoneReset, Intent::Sound, zone, ledger),
            Kind::Finish => self.manage(Op::ZoneFinish, Intent::Sound, zone, ledger),
            Kind::Open => self.manage(Op::ZoneOpen, Intent::Risky, zone, ledger),
            Kind::Close => self.manage(Op::ZoneClose, Intent::Risky, zone, ledger),
            Kind::Report => Some(self.report()),
            Kind::ResetAll => self.reset_all(ledger),
            Kind::Flush => Some(self.placeless(Op::Flush, Vec::new())),
            Kind::Mistake => self.mistake(zone, ledger, limits),
            Kind::Read | Kind::Zeroes => Some(self.read(limits)),
        }
    }

    /// One of the door's zones, mostly the favourite.
    fn pick_zone(&mut self) -> u32 {
        let (favourite, zones) = (&mut self.favourite, self.door.pieces.len() as u64);
        let zone = self.choices.decide("zone", (0, &[]), |rng| {
            if rng.chance(1, 12) {
                *favourite = rng.below(zones) as u32;
            }
            if rng.chance(1, 2) { *favourite } else { rng.below(zones) as u32 }
        });
        zone.min(zones as u32 - 1)
    }

    fn piece(&self, zone: u32) -> &Piece {
        &self.door.pieces[zone as usize]
    }

    fn on_disk(&self, zone: u32) -> ZoneNo {
        self.piece(zone).zone
    }

    fn is_sequential(&self, zone: u32, ledger: &Ledger) -> bool {
        ledger.model.zone(self.on_disk(zone)).sequential
    }

    /// Whether the host may change the zone: it must be able to read it again, and to know the order of writes.
    fn may_write(&self, zone: u32, ledger: &Ledger) -> bool {
        let piece = self.piece(zone);
        piece.clear && (!ledger.model.zone(piece.zone).sequential || self.door.writes & one(piece.zone) != 0)
    }

    /// Whether the host keeps its hands off the zone for now, because it is the one who has to keep the order.
    fn must_wait(&self, zone: u32, ledger: &Ledger) -> bool {
        self.habits.trust == Trust::Host && ledger.model.zone(self.on_disk(zone)).in_flight > 0
    }

    fn blocks(&mut self, limits: &Limits) -> u32 {
        let block = limits.block_sectors();
        let longest = self.habits.longest.into();
        let sectors = self.choices.decide("blocks", (1, &[]), |rng| 1 + rng.below(longest) as u32) * block;
        if self.habits.trust == Trust::Stack { sectors } else { sectors.min(longest_piece(limits)) }
    }

    fn flags(&mut self) -> Flags {
        let of_100 = self.habits.flags;
        self.choices.decide("flags", (Flags::NONE, &[]), |rng| draw_flags(rng, of_100, &FLAGS))
    }

    fn at(&self, op: Op, (zone, offset): (u32, u32), sectors: u32, intent: Intent) -> Draft {
        let piece = self.piece(zone);
        let extent = Extent { zone: piece.zone, offset: piece.offset + offset, sectors };
        let request = DiskRequest { op, flags: Flags::NONE, extents: vec![extent], intent, atomic: true };
        let sector = Sector(piece.start + u64::from(offset));
        let bytes = if op.has_data() { sectors as usize * 512 } else { 0 };
        Draft { request, sector, sectors, bytes }
    }

    fn placeless(&self, op: Op, extents: Vec<Extent>) -> Draft {
        let request = DiskRequest { op, flags: Flags::NONE, extents, intent: Intent::Sound, atomic: true };
        Draft { request, sector: Sector::ZERO, sectors: 0, bytes: 0 }
    }

    fn write(&mut self, op: Op, zone: u32, ledger: &Ledger, limits: &Limits) -> Option<Draft> {
        let known = ledger.model.zone(self.on_disk(zone));
        if !known.sequential {
            return self.write_anywhere(op, zone, limits);
        }
        // The table that it goes through may be one that does not zero, and the write behind it must not fail.
        let op = if self.door.changes { Op::Write } else { op };
        let sectors = self.blocks(limits);
        if let Some(other) = self.instead_of_writing(zone, ledger) {
            return other;
        }
        let offset = known.planned;
        let mut draft = self.at(op, (zone, offset), sectors.min(known.capacity - offset), Intent::Sound);
        draft.request.flags = self.flags();
        Some(draft)
    }

    /// A write where no order is asked for; on a device without zones it may reach beyond its piece.
    fn write_anywhere(&mut self, op: Op, zone: u32, limits: &Limits) -> Option<Draft> {
        let sectors = self.blocks(limits);
        let (piece, block) = (*self.piece(zone), limits.block_sectors());
        let offset = self.choices.below("block", piece.len / u64::from(block)) as u32 * block;
        let start = piece.start + u64::from(offset);
        let end = if self.door.zoned { piece.start + piece.len } else { self.door.capacity() };
        let sectors = sectors.min((end - start) as u32);
        let mut draft = self.at(op, (zone, offset), sectors, Intent::Sound);
        draft.request.extents = self.door.extents(start, sectors.into());
        draft.request.flags = self.flags();
        if op == Op::WriteZeroes && self.door.changes {
            // The table that it goes through may be one that does not zero.
            draft.request.intent = Intent::Risky;
        }
        (!draft.request.extents.is_empty()).then_some(draft)
    }

    /// What to do in a sequential zone that is full, in doubt, or to be left alone.
    fn instead_of_writing(&mut self, zone: u32, ledger: &Ledger) -> Option<Option<Draft>> {
        if self.must_wait(zone, ledger) {
            return Some(None);
        }
        let known = ledger.model.zone(self.on_disk(zone));
        let (full, failed, is_doubted) = (known.planned >= known.capacity, known.failed, known.is_doubted());
        let among = [Instead::Nothing, Instead::Wait, Instead::Report, Instead::Finish, Instead::Reset];
        let instead = self.choices.decide("instead", (Instead::Nothing, &among), |rng| {
            if failed && rng.chance(9, 10) {
                return Instead::Wait;
            }
            let doubt = is_doubted && rng.chance(3, 4);
            match rng.below(10) {
                0..=5 if doubt => Instead::Report,
                6 if doubt => Instead::Finish,
                _ if doubt || full => Instead::Reset,
                _ => Instead::Nothing,
            }
        });
        match instead {
            Instead::Nothing if !full => None,
            Instead::Nothing | Instead::Wait => Some(None),
            Instead::Report => Some(Some(self.report())),
            Instead::Finish => Some(self.manage(Op::ZoneFinish, Intent::Sound, zone, ledger)),
            Instead::Reset => Some(self.manage(Op::ZoneReset, Intent::Sound, zone, ledger)),
        }
    }

    fn append(&mut self, zone: u32, ledger: &Ledger, limits: &Limits) -> Option<Draft> {
        if !self.is_sequential(zone, ledger) {
            return None;
        }
        if let Some(other) = self.instead_of_writing(zone, ledger) {
            return other;
        }
        let known = ledger.model.zone(self.on_disk(zone));
        let room = known.capacity - known.planned;
        let longest = longest_append(limits).min(self.door.longest_append);
        let sectors = self.blocks(limits).min(room).min(longest - longest % limits.block_sectors());
        let mut draft = self.at(Op::ZoneAppend, (zone, 0), sectors, Intent::Sound);
        draft.request.flags = self.flags();
        Some(draft)
    }

    fn manage(&mut self, op: Op, intent: Intent, zone: u32, ledger: &Ledger) -> Option<Draft> {
        let possible = self.is_sequential(zone, ledger) && !self.must_wait(zone, ledger);
        possible.then(|| self.at(op, (zone, 0), 0, intent))
    }

    fn report(&mut self) -> Draft {
        let zones = self.door.pieces.len() as u64;
        let from =
            self.choices.decide("from-zone", (0, &[]), |rng| if rng.chance(1, 2) { 0 } else { rng.below(zones) });
        let from = from.min(zones - 1);
        let mut draft = self.placeless(Op::ReportZones, Vec::new());
        draft.sector = Sector(self.piece(from as u32).start);
        draft
    }

    fn reset_all(&mut self, ledger: &Ledger) -> Option<Draft> {
        let zones = 0..self.door.pieces.len() as u32;
        if zones.clone().any(|zone| self.must_wait(zone, ledger) || !self.may_write(zone, ledger)) {
            return None;
        }
        let sequential = zones.filter(|zone| self.is_sequential(*zone, ledger));
        let extents = sequential.map(|zone| Extent { zone: self.on_disk(zone), offset: 0, sectors: 0 }).collect();
        let mut draft = self.placeless(Op::ZoneResetAll, extents);
        draft.request.atomic = self.door.whole;
        Some(draft)
    }

    /// A read anywhere, also across zones.
    fn read(&mut self, limits: &Limits) -> Draft {
        let block = limits.block_sectors();
        let blocks = limits.capacity / u64::from(block);
        let start = self.choices.below("block", blocks) * u64::from(block);
        let sectors = u64::from(2 * self.blocks(limits)).min(limits.capacity - start);
        let extents = self.door.extents(start, sectors);
        let of_400 = self.habits.flags;
        let nowait = self.choices.chance("nowait", of_400, 400);
        let flags = if nowait { Flags::NOWAIT } else { Flags::NONE };
        let request = DiskRequest { op: Op::Read, flags, extents, intent: Intent::Sound, atomic: true };
        Draft { request, sector: Sector(start), sectors: sectors as u32, bytes: sectors as usize * 512 }
    }

    /// A request that breaks a rule.
    fn mistake(&mut self, zone: u32, ledger: &Ledger, limits: &Limits) -> Option<Draft> {
        let sequential = self.is_sequential(zone, ledger);
        let block = limits.block_sectors();
        if sequential && self.must_wait(zone, ledger) {
            return None;
        }
        use Mistake::*;
        let mistakes =
            [Misplaced, Misplaced, Empty, BeyondEnd, PartOfBlock, NoMemory, AppendBesideStart, LongAppend, BesideStart];
        let which = self.choices.one("mistake", &mistakes);
        let hopeless = |op: Op, sectors: u32| self.at(op, (zone, 0), sectors, Intent::Hopeless);
        Some(match which {
            Misplaced if sequential => return self.misplaced_write(zone, ledger, limits),
            Empty => hopeless(Op::Write, 0),
            BeyondEnd => Draft { sector: Sector(limits.capacity), ..hopeless(Op::Read, block) },
            PartOfBlock if block > 1 => hopeless(Op::Write, 1),
            NoMemory => Draft { bytes: 0, ..hopeless(Op::Write, block) },
            AppendBesideStart => Draft { sector: Sector(u64::from(block)), ..hopeless(Op::ZoneAppend, block) },
            // Where limits change it may be one that is accepted.
            LongAppend if !self.door.changes => {
                hopeless(Op::ZoneAppend, longest_append(limits) / block * block + block)
            }
            _ if sequential => Draft { sector: Sector(1), ..hopeless(Op::ZoneReset, 0) },
            _ => hopeless(Op::ZoneFinish, 0),
        })
    }

    /// A write beside the pointer, or past the capacity, in one piece.
    fn misplaced_write(&mut self, zone: u32, ledger: &Ledger, limits: &Limits) -> Option<Draft> {
        let (disk_zone, block) = (self.on_disk(zone), limits.block_sectors());
        let longest = longest_piece(limits);
        let len = ledger.model.zone(disk_zone).cells.len() as u32;
        let offset = self.choices.below("block", u64::from(len / block)) as u32 * block;
        let sectors = self.blocks(limits).min(longest).min(len - offset);
        let lucky = offset == ledger.model.zone(disk_zone).planned;
        (!lucky).then(|| self.at(Op::Write, (zone, offset), sectors, Intent::Risky))
    }
}

fn longest_piece(limits: &Limits) -> u32 {
    limits.max_sectors.map_or(u32::MAX, |most| most - most % limits.block_sectors())
}

fn longest_append(limits: &Limits) -> u32 {
    let zoned = limits.zoned.as_ref();
    let most = zoned.and_then(|zoned| zoned.max_append).or(limits.max_sectors).unwrap_or(u32::MAX);
    most.min(zoned.map_or(0, |zoned| zoned.zone_sectors))
}
