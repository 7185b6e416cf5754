//! What a volume says of itself: its state in words, its space and its work in figures.

use core::fmt;

use super::disks::Disk;
use super::evacuate::Leaving;
use super::format::{ZoneRow, ZoneUse};
use super::log::{Pool, Stream};
use super::state::{Readiness, State};
use crate::block::{DeviceId, Figure};
use crate::zone::ZoneNo;

/// A volume's space, in zones and blocks.
struct Space {
    zones: usize,
    free: usize,
    /// Zones with nothing live, which are being given back.
    given_back: usize,
    /// Full zones by what they were opened for: users, copies, the map.
    full: [usize; 3],
    /// Blocks that are live as far as is known: what was written over since the last sweep still counts.
    live: u64,
}

impl State {
    fn space(&self) -> Space {
        let zones = &self.zones;
        let streams = [Pool::Users, Pool::Cleaning, Pool::Map];
        let is_data = |pool| matches!(pool, Pool::Users | Pool::Cleaning);
        let data = zones.rows().iter().filter(|row| Stream::of(row.stream).is_some_and(|it| is_data(it.pool())));
        let live: u64 = data.map(|row| u64::from(row.live)).sum();
        Space {
            zones: zones.rows().len(),
            free: zones.free(Pool::Recovery),
            given_back: zones.done_with() + zones.waiting(),
            full: streams.map(|pool| zones.full(&[pool]).count()),
            live: live.min(self.capacity),
        }
    }

    /// What a zone of a device is used for.
    pub fn zone_use(&self, device: DeviceId, zone: ZoneNo) -> Option<&'static str> {
        let of_device = |disk: &Option<Disk>| disk.as_ref().is_some_and(|disk| disk.device == device);
        let zones = self.disks.set.zones(self.disks.all.iter().position(of_device)?);
        let index = zones.start.0.checked_add(zone.0).filter(|index| *index < zones.end.0)?;
        let ZoneRow { used_for, stream, .. } = self.zones.rows().get(index as usize)?;
        match used_for {
            ZoneUse::Open | ZoneUse::Full => Some(Stream::of(*stream).map_or(used_for.name(), Stream::name)),
            ZoneUse::Free | ZoneUse::Roots | ZoneUse::Dead => Some(used_for.name()),
        }
    }

    /// What `status` shows.
    pub fn write_status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Space { zones, free, given_back, full: [data, copies, map], .. } = self.space();
        write!(out, "{zones} zones {free} free {given_back} given back {data} data {copies} copies {map} map")?;
        write!(out, " {} runs {} pending", self.map.runs.len(), self.map.pending.len())?;
        match &self.readiness {
            Readiness::Ready => Ok(()),
            Readiness::Unloaded => out.write_str(" unloaded"),
            Readiness::Loading => out.write_str(" loading"),
            Readiness::ReadOnly(why) => write!(out, " read-only: {why}"),
            Readiness::Failed(why) => write!(out, " failed: {why}"),
        }
    }

    /// What it knows of itself in figures.
    pub fn show_figures(&self, visit: &mut dyn FnMut(&'static str, Figure)) {
        let Space { zones, free, given_back, full: [data, copies, map], live } = self.space();
        self.counters.list().for_each(|(name, count)| visit(name, Figure::Count(count)));
        visit("amplification", Figure::Ratio(self.counters.amplification()));
        visit("data_amplification", Figure::Ratio(self.counters.data_amplification()));
        visit("victims_live_share", Figure::Ratio(self.pace.live_share()));
        visit("pace", Figure::Ratio(self.level().share()));
        visit("waiting_writes", Figure::Count(self.changes.len() as u64));
        visit("volume", Figure::Word(self.readiness.name()));
        visit("cleaning", Figure::Word(self.cleaning()));
        let Leaving { zones: leaving_zones, blocks: leaving_blocks, .. } = self.leaving();
        let counts = [
            ("leaving_zones", leaving_zones as u64),
            ("leaving_blocks", leaving_blocks),
            ("exposed_blocks", self.capacity),
            ("live_blocks", live),
            ("zones", zones as u64),
            ("free_zones", free as u64),
            ("wanted_free_zones", self.stock() as u64),
            ("given_back_zones", given_back as u64),
            ("data_zones", data as u64),
            ("copies_zones", copies as u64),
            ("map_zones", map as u64),
            ("slowest_write_us", self.counters.slowest_write_us),
            ("open_zones", self.lanes.all().filter(|(_, lane)| lane.cursor.is_some()).count() as u64),
            ("marked_zones", self.map.live.len() as u64),
            ("owed_blocks", self.pace.owed().max(0.0) as u64),
            ("pending_extents", self.map.pending.len() as u64),
            ("pending_bytes", self.map.pending.bytes() as u64),
            ("runs", self.map.runs.len() as u64),
            ("index_bytes", self.map.index.bytes() as u64),
            ("leaves", self.map.leaves.iter().filter(|leaf| leaf.blocks > 0).count() as u64),
            ("memory_bytes", self.map.bytes() as u64),
        ];
        counts.into_iter().for_each(|(name, count)| visit(name, Figure::Count(count)));
    }

    /// What cleaning is at: it works while free zones are too few.
    fn cleaning(&self) -> &'static str {
        match () {
            () if self.readiness != Readiness::Ready => "none",
            () if self.zones.free(Pool::Users) == 0 => "urgent",
            () if self.is_short() => "working",
            () => "resting",
        }
    }
}

impl Readiness {
    fn name(&self) -> &'static str {
        match self {
            Self::Unloaded => "unloaded",
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::ReadOnly(_) => "read-only",
            Self::Failed(_) => "failed",
        }
    }
}
