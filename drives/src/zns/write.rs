//! The way of data from the host to the dies.

use super::buffer::Buffer;
use super::nand::DieOperation;
use super::timer::Timer;
use super::{Command, ZnsSsd};
use crate::service::time_of;
use shingle_core::block::{Cx, Flags, Op, Reason, Refusal, Status};
use shingle_core::zone::ZoneNo;

/// Data of a zone that comes over the host interface.
pub(super) struct Inbound {
    zone: ZoneNo,
    /// The buffer it is for.
    buffer: u64,
    sectors: u32,
}

/// A unit on its way from its buffer to its die.
pub(super) struct Unit {
    zone: ZoneNo,
    unit: u64,
    die: u32,
}

impl ZnsSsd {
    /// Takes a write or an append: from here on the write pointer is behind it.
    pub(super) fn begin_write(&mut self, id: u32, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let Command { bio, .. } = &mut self.commands[id as usize];
        let zone = match bio.op {
            Op::ZoneAppend => {
                self.config.max_append.ok_or(Reason::NotSupported)?;
                let zone = self.zones.zone_at(bio.sector)?;
                bio.sector = self.zones.begin_append(zone, bio.sectors)?;
                zone
            }
            _ => self.zones.begin_write(bio.sector, bio.sectors)?,
        };
        if let Some(medium) = &mut self.medium {
            medium.write(bio.sector, bio.sectors, &bio.payload)?;
        }
        self.zones.advance(zone, bio.sectors)?;
        let (sectors, preflush) = (bio.sectors, bio.flags.has(Flags::PREFLUSH));
        let offset = self.zones.geometry().offset_in_zone(bio.sector);
        let command = &mut self.commands[id as usize];
        (command.left, command.zone, command.end, command.held) = (sectors, zone, offset + sectors, preflush);
        if preflush {
            // Before its own zone has a buffer with its data: it does not wait for itself.
            self.begin_barrier(id, |_| true, cx);
        }
        let unit = self.config.program_unit_bytes / 512;
        let buffer = self.buffers.entry(zone).or_insert_with(|| {
            self.buffers_made += 1;
            Buffer::new(self.buffers_made, offset, unit)
        });
        buffer.waiting.push_back(id);
        self.line_up(zone, cx);
        Ok(())
    }

    /// Has the zone stand in line for the host interface, if data waits for it and there is room.
    pub(super) fn line_up(&mut self, zone: ZoneNo, cx: &mut Cx<'_>) {
        let Some(buffer) = self.buffers.get_mut(&zone) else { return };
        let ready = buffer.waiting.front().is_some_and(|id| !self.commands[*id as usize].held);
        if ready && !buffer.in_line && buffer.room(self.config.buffer_units) > 0 {
            buffer.in_line = true;
            self.work.line.push_back(zone);
            self.start_inbound(cx);
        }
    }

    fn start_inbound(&mut self, cx: &mut Cx<'_>) {
        while self.work.inbound.is_none() {
            let Some(zone) = self.work.line.pop_front() else { return };
            // A reset may have removed the buffer that stood in line.
            let Some(buffer) = self.buffers.get(&zone).filter(|buffer| buffer.in_line) else { continue };
            let Some(id) = buffer.waiting.front() else { continue };
            let sectors = self.commands[*id as usize].left.min(buffer.room(self.config.buffer_units));
            self.work.inbound = Some(Inbound { zone, buffer: buffer.number, sectors });
            self.arm(time_of(u64::from(sectors) * 512, self.config.link_rate), Timer::Inbound, cx);
        }
    }

    /// Data has come: it is in the buffer.
    pub(super) fn arrived(&mut self, cx: &mut Cx<'_>) {
        let Some(Inbound { zone, buffer: number, sectors }) = self.work.inbound.take() else { return };
        if let Some(buffer) = self.buffers.get_mut(&zone).filter(|buffer| buffer.number == number) {
            buffer.in_line = false;
            buffer.filled += sectors;
            let complete = buffer.at_unit_end() || buffer.filled == self.zones.geometry().capacity_of(zone);
            let id = *buffer.waiting.front().expect("data comes for a command");
            let command = &mut self.commands[id as usize];
            command.left -= sectors;
            let last = command.left == 0;
            if last {
                buffer.waiting.pop_front();
            }
            if complete {
                self.program(zone, true, cx);
            }
            if last {
                self.end_write(id, cx);
            }
            self.line_up(zone, cx);
        }
        self.start_inbound(cx);
    }

    fn end_write(&mut self, id: u32, cx: &mut Cx<'_>) {
        let Command { bio, zone, .. } = &self.commands[id as usize];
        let zone = *zone;
        if bio.flags.has(Flags::FUA) {
            self.begin_barrier(id, |of| of == zone, cx);
        } else {
            self.reply(id, Status::Ok, cx);
        }
    }

    /// Sends all that has come for a zone on its way to the dies.
    pub(super) fn program(&mut self, zone: ZoneNo, holds_place: bool, cx: &mut Cx<'_>) {
        let Some(buffer) = self.buffers.get_mut(&zone) else { return };
        self.units_made += 1;
        buffer.program(self.units_made, holds_place);
        let die = self.die_of(zone, self.buffers[&zone].filled - 1);
        self.work.drain.push_back(Unit { zone, unit: self.units_made, die });
        if self.work.drain.len() == 1 {
            self.start_drain(cx);
        }
    }

    fn start_drain(&mut self, cx: &mut Cx<'_>) {
        if !self.work.drain.is_empty() {
            let bytes = u64::from(self.config.program_unit_bytes);
            self.arm(time_of(bytes, self.config.drain_rate), Timer::Drain, cx);
        }
    }

    /// A unit has left the buffers' side: it waits for its die now.
    pub(super) fn drained(&mut self, cx: &mut Cx<'_>) {
        let Unit { zone, unit, die } = self.work.drain.pop_front().expect("a unit was on its way");
        self.start_drain(cx);
        self.nand.ask(die, DieOperation::Program { zone, unit });
        self.advance_nand(None, cx);
    }

    /// A unit is on its die: its place in the buffer is free.
    pub(super) fn programmed(&mut self, zone: ZoneNo, unit: u64, cx: &mut Cx<'_>) {
        let Some(buffer) = self.buffers.get_mut(&zone) else { return };
        buffer.programmed(unit);
        if buffer.is_idle() {
            self.buffers.remove(&zone);
        }
        self.settle_barriers(cx);
        self.line_up(zone, cx);
    }

    /// The die that holds the sector at `offset` of a zone: zones are striped over their dies in program units, and
    /// begin on different ones.
    pub(super) fn die_of(&self, zone: ZoneNo, offset: u32) -> u32 {
        let config = &self.config;
        let unit = offset / (config.program_unit_bytes / 512);
        let sets = config.dies() / config.dies_per_zone;
        let (set, turn) = (zone.0 % sets, zone.0 / sets);
        set * config.dies_per_zone + (unit + turn) % config.dies_per_zone
    }
}
