//! What must be true of a plug after every hop, whatever came in: the inner half of the invariants (I3, I4, I6 to I8, I15 of
//! the kernel's design); the outer half is what a device below sees.

use super::queue::{Slot, WaitsFor};
use super::zone_plug::ZonePlug;
use super::zones::Bit;
use crate::block::Bio;
use crate::prelude::*;

impl ZonePlug {
    /// Checks the plug against itself; the error names the zone and what is wrong with it.
    pub fn verify(&self) -> Result<(), String> {
        let mut busy = 0;
        let mut slots = 0;
        for (zone, record) in self.zones.iter() {
            busy += u32::from(record.is(Bit::Busy));
            let must = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("zone {zone}: {what}")) };
            // Until the zones are learned anew, a policy that checks pointers has those of one that did not.
            let bound = self.policy().orders() && self.is_ready();
            must(record.wp <= self.zones.capacity_of(zone) || !bound, "offset past capacity")?;
            must(!record.is(Bit::Append) || record.is(Bit::Busy), "an append in flight in a free zone")?;
            must(!record.is(Bit::Merged) || record.slot().is_some(), "a merged write without its riders")?;
            let Some(slot) = record.slot() else { continue };
            slots += 1;
            let Some(slot) = self.slots.get(slot) else { return must(false, "its slot is gone") };
            must(slot.zone == zone, "its slot is another zone's")?;
            must(record.is(Bit::Busy), "a free zone keeps a slot: what waits in it is lost")?;
            must(slot.riding.is_empty() != record.is(Bit::Merged), "riders and merged write disagree")?;
            let empty = slot.waiting.is_empty();
            match slot.waits_for {
                WaitsFor::InFlight => (),
                WaitsFor::Listed => {
                    must(self.is_settled(slot) && !empty, "in line with a command in flight, or without need")?
                }
                WaitsFor::Held { .. } => must(self.is_settled(slot), "held with a command in flight, or for nothing")?,
            }
            let sectors: u64 = self.nodes.iter(&slot.waiting).map(|bio| u64::from(bio.sectors)).sum();
            must(slot.sectors == sectors, "what waits was not added up")?;
        }
        self.verify_turns()?;
        if (busy, slots) == (self.active(), self.slots.len()) {
            return Ok(());
        }
        Err(format!("{busy} busy zones, {} counted; {slots} slots in use, {} kept", self.active(), self.slots.len()))
    }

    /// Whether a zone that is in line or held has nothing in flight, and would write if it could.
    fn is_settled(&self, slot: &Slot) -> bool {
        let would_write = |bio: &Bio| bio.op.writes_data() && !self.is_native_append(bio);
        slot.appends == 0 && slot.riding.is_empty() && self.nodes.front(&slot.waiting).is_none_or(would_write)
    }

    /// One write in flight for the whole disk (I1 under `qd1`), and everybody in line will be called (I4).
    fn verify_turns(&self) -> Result<(), String> {
        let turns = &self.disk_queue;
        if turns.in_flight + u32::from(turns.reserved) > 1 {
            return Err(format!("{} zone writes in flight at a disk that takes one", turns.in_flight));
        }
        if !turns.is_taken() && !turns.line.is_empty() {
            return Err(format!("{} zones wait for a disk that nobody has", turns.line.len()));
        }
        let held = self.slots.iter().filter(|(_, slot)| matches!(slot.waits_for, WaitsFor::Held { .. })).count();
        if turns.wanted && held != usize::from(turns.reserved) {
            return Err(format!("{held} zones are held, reserved: {}", turns.reserved));
        }
        let listed = self.slots.iter().filter(|(_, slot)| slot.waits_for == WaitsFor::Listed).count();
        let in_line = |(index, _): (usize, &Slot)| turns.line.contains(&(index as u32));
        if listed == turns.line.len()
            && self.slots.iter().filter(|(_, slot)| slot.waits_for == WaitsFor::Listed).all(in_line)
        {
            return Ok(());
        }
        Err(format!("{listed} zones believe to be in a line of {}", turns.line.len()))
    }
}
