//! What debugfs `zone_wplugs` shows, for our plugs.

use core::fmt::{self, Write};

use super::queue::WaitsFor;
use super::zone_plug::ZonePlug;
use super::zones::Bit;
use crate::zone::ZoneNo;

/// The two line formats of `/sys/kernel/debug/block/*/zone_wplugs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DumpFormat {
    /// `Zone no: 52, flags: 0x1, ref: 4, cond: ACTIVE, wp ofst: 2048, pending BIO: 3` (Linux 6.19 on).
    #[default]
    Named,
    /// `52 0x1 4 2048 3` (Linux 6.10 to 6.18).
    Bare,
}

/// One zone that has a plug: it is partly written, something is in flight or waits, or its write pointer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlugDump {
    /// The zone.
    pub zone: ZoneNo,
    /// A command is in flight, or bios wait for the disk (`PLUGGED`).
    pub plugged: bool,
    /// A write failed, and a report, reset or finish has to tell the write pointer (`NEED_WP_UPDATE`).
    pub needs_wp_update: bool,
    /// Who holds the plug, as the kernel would count: the table, the bios that are in it, the command in flight.
    pub refs: u32,
    /// `EMPTY`, `ACTIVE`, `FULL`, `READONLY` or `OFFLINE`.
    pub condition: &'static str,
    /// Offset of the next write, in sectors.
    pub wp_offset: u32,
    /// Bios that wait.
    pub pending: u32,
}

impl PlugDump {
    /// The kernel's flags: 0x1 `PLUGGED`, 0x2 `NEED_WP_UPDATE`.
    #[must_use]
    pub const fn flags(&self) -> u32 {
        self.plugged as u32 | (self.needs_wp_update as u32) << 1
    }

    /// Writes the line of debugfs, without its end.
    pub fn write(&self, format: DumpFormat, out: &mut dyn Write) -> fmt::Result {
        let Self { zone, refs, condition, wp_offset, pending, .. } = self;
        let flags = self.flags();
        match format {
            DumpFormat::Bare => write!(out, "{zone} 0x{flags:x} {refs} {wp_offset} {pending}"),
            DumpFormat::Named => write!(
                out,
                "Zone no: {zone}, flags: 0x{flags:x}, ref: {refs}, cond: {condition}, wp ofst: {wp_offset}, \
                 pending BIO: {pending}"
            ),
        }
    }
}

impl ZonePlug {
    /// The zones that have a plug, by number.
    pub fn dump(&self) -> impl Iterator<Item = PlugDump> {
        self.zones.iter().filter_map(|(zone, record)| {
            let partly_written = record.wp > 0 && self.zones.condition(zone) == "ACTIVE";
            let (plugged, needs_wp_update) = (record.is(Bit::Busy), record.is(Bit::Lost));
            (partly_written || plugged || needs_wp_update).then(|| {
                let (pending, inside) = self.population(zone);
                let refs = 1 + pending + inside;
                let condition = self.zones.condition(zone);
                PlugDump { zone, plugged, needs_wp_update, refs, condition, wp_offset: record.wp, pending }
            })
        })
    }

    /// The number of zones with a command in flight or in line: the kernel series' `zone_active_wplugs`.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.zones.busy
    }

    /// Bios that wait for `zone`, and holders in flight: the command, and every bio that it carries.
    fn population(&self, zone: ZoneNo) -> (u32, u32) {
        let record = self.zones.at(zone);
        let Some(slot) = record.slot().map(|slot| &self.slots[slot]) else {
            let (start, end) = (self.zones.start(zone), self.zones.start(ZoneNo(zone.0 + 1)));
            let waiting = self.lock.as_ref().map_or(0, |lock| lock.waiting_in(start, end));
            return (waiting as u32, 2 * u32::from(record.is(Bit::Busy)));
        };
        let carried = slot.riding.len().max(slot.appends).max(1);
        // In line, the line holds the plug and nothing is in flight.
        (slot.waiting.len(), if slot.waits_for == WaitsFor::InFlight { 1 + carried } else { 1 })
    }
}
