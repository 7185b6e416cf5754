//! The way of data from the dies to the host.

use super::ZnsSsd;
use super::nand::{DieOperation, Reader};
use super::timer::Timer;
use crate::service::time_of;
use shingle_core::block::{Cx, Refusal, Status};
use shingle_core::zone::ZoneNo;

impl ZnsSsd {
    /// Takes a read. What is in a write buffer or was never written needs no die.
    pub(super) fn begin_read(&mut self, id: u32, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let bio = &self.commands[id as usize].bio;
        let zone = self.zones.check_read(bio.sector)?;
        if let Some(medium) = &self.medium {
            medium.read(bio.sector, bio.sectors, &bio.payload)?;
        }
        let offset = self.zones.geometry().offset_in_zone(bio.sector);
        let (part, on_dies) = (offset..offset + bio.sectors, self.on_dies(zone));
        if !self.read_stream(id, zone, part.clone(), on_dies) {
            self.ask_dies(id, zone, part.start..part.end.min(on_dies));
        }
        if self.commands[id as usize].left == 0 {
            self.send(id, cx);
        }
        self.advance_nand(None, cx);
        Ok(())
    }

    /// Where the part of a zone ends that is on the dies.
    fn on_dies(&self, zone: ZoneNo) -> u32 {
        self.buffers.get(&zone).map_or_else(|| self.zones.state(zone).wp, |buffer| buffer.durable)
    }

    fn ask_dies(&mut self, id: u32, zone: ZoneNo, part: core::ops::Range<u32>) {
        let unit = self.config.program_unit_bytes / 512;
        let mut at = part.start;
        while at < part.end {
            let next = (at - at % unit + unit).min(part.end);
            let die = self.die_of(zone, at);
            self.nand.ask(die, DieOperation::Read { reader: Reader::Command(id), bytes: (next - at) * 512 });
            self.commands[id as usize].left += 1;
            at = next;
        }
    }

    /// A die has read its part.
    pub(super) fn page_read(&mut self, id: u32, cx: &mut Cx<'_>) {
        self.commands[id as usize].left -= 1;
        if self.commands[id as usize].left == 0 {
            self.send(id, cx);
        }
    }

    fn send(&mut self, id: u32, cx: &mut Cx<'_>) {
        self.work.outbound.push_back(id);
        if self.work.outbound.len() == 1 {
            self.start_outbound(cx);
        }
    }

    fn start_outbound(&mut self, cx: &mut Cx<'_>) {
        let Some(id) = self.work.outbound.front() else { return };
        let bytes = u64::from(self.commands[*id as usize].bio.sectors) * 512;
        self.arm(time_of(bytes, self.config.link_rate), Timer::Outbound, cx);
    }

    /// The data of a read is at the host.
    pub(super) fn sent(&mut self, cx: &mut Cx<'_>) {
        let id = self.work.outbound.pop_front().expect("data was on its way");
        self.start_outbound(cx);
        self.reply(id, Status::Ok, cx);
    }
}
