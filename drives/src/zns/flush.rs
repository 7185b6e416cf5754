//! Waiting until what has come is on the dies: for flushes, FUA and finish.

use alloc::vec::Vec;

use super::ZnsSsd;
use shingle_core::block::{Cx, Refusal, Status};
use shingle_core::zone::ZoneNo;

/// A command that waits until data of some zones is on the dies.
pub(super) struct Barrier {
    /// The command.
    pub command: u32,
    until: Vec<Mark>,
}

/// A place in a zone.
struct Mark {
    zone: ZoneNo,
    buffer: u64,
    offset: u32,
}

impl ZnsSsd {
    /// Takes a flush.
    pub(super) fn begin_flush(&mut self, id: u32, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        self.begin_barrier(id, |_| true, cx);
        Ok(())
    }

    /// Has command `id` wait until all that has come for the zones of `concerns` is on the dies. A program unit that is
    /// not complete is programmed as it is.
    pub(super) fn begin_barrier(&mut self, id: u32, concerns: impl Fn(ZoneNo) -> bool, cx: &mut Cx<'_>) {
        let all = self.buffers.iter().filter(|(zone, buffer)| concerns(**zone) && buffer.durable < buffer.filled);
        let mark = |(zone, buffer): (&ZoneNo, &super::Buffer)| Mark {
            zone: *zone,
            buffer: buffer.number,
            offset: buffer.filled,
        };
        let until: Vec<Mark> = all.map(mark).collect();
        for mark in &until {
            if !self.buffers[&mark.zone].is_covered() {
                self.program(mark.zone, false, cx);
            }
        }
        self.work.barriers.push(Barrier { command: id, until });
        self.settle_barriers(cx);
    }

    /// Lets the commands go on whose data is on the dies.
    pub(super) fn settle_barriers(&mut self, cx: &mut Cx<'_>) {
        let buffers = &self.buffers;
        let open = |mark: &Mark| {
            let buffer = buffers.get(&mark.zone).filter(|buffer| buffer.number == mark.buffer);
            buffer.is_some_and(|buffer| buffer.durable < mark.offset)
        };
        self.work.barriers.iter_mut().for_each(|barrier| barrier.until.retain(open));
        while let Some(at) = self.work.barriers.iter().position(|barrier| barrier.until.is_empty()) {
            let Barrier { command, .. } = self.work.barriers.remove(at);
            self.pass(command, cx);
        }
    }

    fn pass(&mut self, id: u32, cx: &mut Cx<'_>) {
        let command = &mut self.commands[id as usize];
        if command.held {
            command.held = false;
            let zone = command.zone;
            self.line_up(zone, cx);
        } else {
            self.reply(id, Status::Ok, cx);
        }
    }
}
