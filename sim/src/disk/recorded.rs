//! Disks and what goes wrong with them, as explicit values of a recording.

use alloc::vec::Vec;

use super::CrashConfig;
use crate::choices::Choices;
use crate::fault::{Fault, FaultPlan};
use shingle_core::dm::Trigger;
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::{ResourceLimits, ZoneGeometry};

impl CrashConfig {
    /// The disk with each value recorded, or replaced by the recorded one. The calm disk has four zones of 16 blocks, one command at a time, and a
    /// volatile write cache.
    pub(crate) fn pinned(self, choices: &mut Choices) -> Self {
        let resources = (self.resources.max_open(), self.resources.max_active());
        let resources = [("max-open", resources.0), ("max-active", resources.1)]
            .map(|(label, most)| choices.pin(label, None, most));
        let limits = ResourceLimits::new(resources[0], resources[1]).unwrap_or(ResourceLimits::NONE);
        let regular = choices.pin("regular-sectors", None, self.regular);
        let regular = regular.and_then(|sectors| Self::regular(sectors).ok());
        let geometry = regular.as_ref().map_or_else(|| pinned_geometry(&self.geometry, choices), |disk| disk.geometry);
        let pinned = Self {
            resources: limits.enforceable(geometry.sequential()),
            geometry,
            block_bytes: choices.pin("block-bytes", 4096, self.block_bytes),
            max_sectors: choices.pin("max-sectors", None, self.max_sectors),
            max_segments: choices.pin("max-segments", None, self.max_segments),
            max_append: choices.pin("max-append", None, self.max_append),
            max_write_zeroes: choices.pin("max-write-zeroes", None, self.max_write_zeroes),
            write_cache: choices.pin("write-cache", true, self.write_cache),
            fua: choices.pin("fua", true, self.fua),
            fua_alone: choices.pin("fua-alone", false, self.fua_alone),
            rotational: choices.pin("rotational", false, self.rotational),
            fastest: choices.pin("fastest-ns", Duration(1_000), self.fastest),
            slowest: choices.pin("slowest-ns", Duration(50_000), self.slowest),
            timeout: choices.pin("timeout-ns", Duration::from_millis(1_000), self.timeout),
            unwritten: choices.pin("unwritten", 0, self.unwritten),
            regular: regular.and_then(|disk| disk.regular),
        };
        if choices.is_replay() { pinned.made_whole() } else { pinned }
    }

    /// The disk with a block that divides its zones, and without limits below a block.
    fn made_whole(self) -> Self {
        let block = self.block_bytes / 512;
        let geometry = &self.geometry;
        let sizes = [
            self.regular.unwrap_or(geometry.capacity()),
            geometry.zone_sectors().into(),
            geometry.zone_capacity().into(),
        ];
        let divides_all = block.is_power_of_two() && sizes.iter().all(|size| size.is_multiple_of(block.into()));
        let block = if divides_all { block } else { 1 };
        let is_possible = |most: &u32| *most >= block;
        Self {
            block_bytes: block * 512,
            max_sectors: self.max_sectors.filter(is_possible),
            max_segments: self.max_segments.filter(|most| *most > 0),
            max_append: self.max_append.filter(is_possible),
            max_write_zeroes: self.max_write_zeroes.filter(is_possible),
            ..self
        }
    }
}

fn pinned_geometry(drawn: &ZoneGeometry, choices: &mut Choices) -> ZoneGeometry {
    let capacity = choices.pin("sectors", 4 * 128, drawn.capacity());
    let zone = choices.pin("zone-sectors", 128, u64::from(drawn.zone_sectors()));
    let zone_capacity = choices.pin("zone-capacity", 128, u64::from(drawn.zone_capacity()));
    let conventional = choices.pin("conventional", 0, u64::from(drawn.conventional()));
    ZoneGeometry::new(capacity, zone, zone_capacity, conventional).unwrap_or(*drawn)
}

impl FaultPlan {
    /// The plan with its bad sectors recorded, or replaced by the recorded ones. Of rules only is recorded that there are some: the faults
    /// that they lead to are recorded where they happen.
    pub(crate) fn pinned(mut self, choices: &mut Choices) -> Self {
        let mut sectors = Vec::new();
        while let Some(bad) = self.bad.first_in(Sector(sectors.last().copied().unwrap_or(0)), u32::MAX) {
            sectors.extend([bad.start.0, bad.end.0]);
        }
        let sectors = choices.pin("bad-sectors", Vec::new(), sectors);
        let has_rules = choices.pin("has-faults", false, !self.rules.is_empty());
        if choices.is_replay() {
            let never = Trigger { count: Some(0), ..Trigger::default() };
            self = if has_rules { Self::none().with(never, Fault::Lose) } else { Self::none() };
            sectors.chunks_exact(2).for_each(|pair| self.bad.add(Sector(pair[0])..Sector(pair[1])));
        }
        self
    }
}
