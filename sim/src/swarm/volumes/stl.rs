//! A log-structured device over one or several disks, with zones or without, which promises that a loss of power leaves a prefix of
//! the writes.

use alloc::string::String;
use alloc::vec::Vec;

use super::super::base::{add, between, some};
use super::super::options::Over;
use super::Media;
use super::kind::{Built, Kind};
use super::machine::bare;
use super::scenario::{Layout, Scenario, draw_dead, regular};
use crate::disk::CrashConfig;
use crate::volume::{BLOCK_SECTORS, Volume};
use shingle_core::block::{DeviceId, Limits, Stack};
use shingle_core::random::Rng;
use shingle_core::zone::{ResourceLimits, ZoneGeometry};

/// Such a device.
pub(super) struct Stl {
    pub over: Option<Over>,
}

impl Stl {
    fn over(&self) -> Result<Over, String> {
        self.over.ok_or_else(|| String::from("there is no device to put over the disks: use SwarmOptions::over"))
    }
}

impl Kind for Stl {
    fn zone_blocks(&self) -> &'static [u32] {
        &[8, 16, 16, 32, 32, 64]
    }

    fn draw(&self, zone_blocks: u32, rng: &mut Rng) -> Layout {
        let zoned = between(rng, 1, 3);
        // All zones together: as many as one disk may have, or a few more.
        let most = if zoned == 1 { 14 } else { 16 / zoned };
        let mut disks: Vec<CrashConfig> = (0..zoned).map(|_| draw_zoned((zone_blocks, most), rng)).collect();
        if rng.chance(1, 3) {
            let blocks = between(rng, u64::from(zone_blocks), 4 * u64::from(zone_blocks));
            let place = rng.below(zoned + 1) as usize;
            disks.insert(place, CrashConfig { write_cache: rng.chance(2, 3), ..regular(blocks) });
        }
        disks.iter_mut().for_each(|disk| disk.fua_alone = true);
        let dead = draw_dead(&disks, rng);
        Layout { disks, dead, is_wiped: false }
    }

    fn format(&self, scenario: &Scenario, rng: &mut Rng) -> Result<(u32, Option<Media>), String> {
        let mut drives = bare(scenario, None, rng)?;
        let blocks = (self.over()?.format)(&mut drives.stack, &drives.disks, rng)?;
        Ok((blocks, Some(drives.take(rng))))
    }

    fn build(&self, stack: &mut Stack, tops: &[DeviceId], blocks: u32) -> Result<Built, String> {
        let limits: Vec<Limits> = tops.iter().map(|top| stack.limits(*top).clone()).collect();
        let device = add(stack, (self.over()?.build)(tops, &limits, blocks)?)?;
        Ok(Built { parts: Vec::new(), device, target: Some(device) })
    }

    fn promises(&self, blocks: u32) -> Volume {
        Volume::in_order(blocks)
    }
}

/// A disk of at most so many zones: some conventional, some with zones that take less than they are long, some with limits.
fn draw_zoned((zone_blocks, most): (u32, u64), rng: &mut Rng) -> CrashConfig {
    let (zones, block) = (between(rng, 4, most), u64::from(BLOCK_SECTORS));
    let zone = u64::from(zone_blocks) * block;
    // Four sequential zones or more.
    let conventional = if rng.chance(1, 2) { rng.below((zones - 3).min(4)) } else { 0 };
    let capacity = if rng.chance(1, 4) { zone - rng.below(u64::from(zone_blocks) / 2) * block } else { zone };
    let geometry = ZoneGeometry::new(zones * zone, zone, capacity, conventional).expect("a drawn shape is a shape");
    CrashConfig {
        resources: draw_resources(geometry.sequential(), rng),
        max_sectors: some(rng, &[None, None, Some(2 * BLOCK_SECTORS), Some(8 * BLOCK_SECTORS)]),
        max_write_zeroes: some(rng, &[None, Some(zone as u32)]),
        write_cache: rng.chance(4, 5),
        ..CrashConfig::new(geometry)
    }
}

/// How many zones may be open and active: at least two, as on real disks there are always some.
fn draw_resources(sequential: u32, rng: &mut Rng) -> ResourceLimits {
    if rng.chance(1, 2) {
        return ResourceLimits::NONE;
    }
    let active = between(rng, 2, u64::from(sequential).max(2)) as u32;
    let open = between(rng, 1, active.into()) as u32;
    let limits = ResourceLimits::new(rng.chance(2, 3).then_some(open), Some(active)).expect("a drawn limit is one");
    limits.enforceable(sequential)
}
