//! A log-structured device over one or several disks, with zones or without, which promises that a loss of power leaves a prefix of
//! the writes.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::base::{add, between, some};
use super::super::options::{BuildOver, Over};
use super::drives::Drives;
use super::kind::{Built, Kind};
use super::machine::bare;
use super::older_copies::Start;
use super::scenario::{LONG_ZONE, Layout, Scenario, draw_dead, regular};
use super::stl_table::{OPTIONS, Tables};
use super::{Media, mapped, stl_reader};
use crate::choices::Choices;
use crate::disk::CrashConfig;
use crate::model::Broken;
use crate::volume::{BLOCK_SECTORS, Volume};
use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Limits, Op, Payload, Stack};
use shingle_core::dm::stl as target;
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::map::LeafSize;
use shingle_core::dm::stl::{Part, Sizing, create};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::{ResourceLimits, ZoneGeometry};

/// Such a device.
pub(super) struct Stl {
    pub over: Option<Over>,
    /// Guards of the target that are taken away.
    #[cfg(feature = "sabotage")]
    pub sabotage: target::Sabotage,
}

/// Bytes of a sector.
const SECTOR: usize = shingle_core::sector::SECTOR_BYTES as usize;

/// Makes the target's volume of disks that are alone in a stack, with smaller leaves if there is room for their map. Returns its blocks.
fn format(drives: &mut Drives, scenario: &Scenario, choices: &mut Choices) -> Result<u32, String> {
    let Drives { stack, disks, .. } = drives;
    let mut parts = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        parts.push(Part { id: [number as u8 + 1; 16], ..look(stack, *disk)? });
    }
    // The capacity counts on batches of 256 copies in long zones; tables of the swarm have batches of 12.
    let least = if scenario.zone_blocks == LONG_ZONE { 120 } else { 0 };
    let reserve = (choices.between("extra-per-mille", 30, 300) as u32).max(least);
    let leaf_size = LeafSize::halved(scenario.leaf_halvings).unwrap_or_default();
    let created = create(SetId([0xaa; 16]), &parts, Sizing { reserve, leaf_size })
        .or_else(|_| create(SetId([0xaa; 16]), &parts, Sizing::with_reserve(reserve)))
        .map_err(|error| error.to_string())?;
    for (disk, (sector, bytes)) in disks.iter().zip(&created.roots) {
        let most = stack.limits(*disk).max_sectors.map_or(bytes.len(), |most| most as usize * SECTOR);
        for (number, piece) in bytes.chunks(most).enumerate() {
            let data = Data::zeroed(piece.len());
            data.write(0, piece);
            let sector = *sector + (number * most / SECTOR) as u64;
            finish(stack, *disk, Bio::new(Op::Write, sector, (piece.len() / SECTOR) as u32, Payload::Data(data)))?;
        }
        finish(stack, *disk, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None))?;
    }
    Ok((created.sectors / u64::from(BLOCK_SECTORS)) as u32)
}

/// The zones of a disk.
fn look(stack: &mut Stack, disk: DeviceId) -> Result<Part, String> {
    let limits = stack.limits(disk).clone();
    let mut zones = Vec::new();
    if limits.zoned.is_some() {
        let room = Payload::Zones(Vec::with_capacity(limits.zones() as usize));
        let mut report = finish(stack, disk, Bio::new(Op::ReportZones, Sector::ZERO, 0, room))?;
        if let Payload::Zones(found) = core::mem::take(&mut report.payload) {
            zones = found;
        }
    }
    Ok(Part { id: [0; 16], zones, sectors: limits.capacity, max_active: limits.max_active() })
}

/// Sends a bio, in pieces that the disk takes, and lets time pass until they are back.
fn finish(stack: &mut Stack, to: DeviceId, bio: Bio) -> Result<Box<Bio>, String> {
    let (port, mut now) = (stack.open_port(), Instant::ZERO);
    let what = format!("{bio:?}");
    stack.submit(port, 0, to, Box::new(bio));
    loop {
        let next = stack.turn(now);
        if let Some(done) = stack.poll_completion(port) {
            return if done.status.is_ok() { Ok(done.bio) } else { Err(format!("{what}: {}", done.status)) };
        }
        now = now.max(next.ok_or_else(|| format!("{what}: no answer"))?);
    }
}

/// The target itself.
fn build(ids: &[DeviceId], limits: &[Limits], blocks: u32) -> Result<Box<dyn BlockDevice>, String> {
    let sectors = u64::from(blocks) * u64::from(BLOCK_SECTORS);
    Ok(Box::new(target::Stl::new(ids.to_vec(), limits, sectors, OPTIONS)))
}

impl Kind for Stl {
    fn zone_blocks(&self) -> &'static [u32] {
        &[16, 16, 32, 64]
    }

    fn draw(&self, zone_blocks: u32, rng: &mut Rng) -> Layout {
        let zoned = between(rng, 1, 3);
        // All zones together: as many as one disk may have, or some more.
        let most = if zoned == 1 { 32 } else { 48 / zoned };
        let mut disks: Vec<CrashConfig> = (0..zoned).map(|_| draw_zoned((zone_blocks, most), rng)).collect();
        if rng.chance(1, 3) {
            let blocks = between(rng, 3 * u64::from(zone_blocks), 6 * u64::from(zone_blocks));
            let place = rng.below(zoned + 1) as usize;
            disks.insert(place, CrashConfig { write_cache: rng.chance(2, 3), ..regular(blocks) });
        }
        disks.iter_mut().for_each(|disk| disk.fua_alone = true);
        let mut dead = draw_dead(&disks, rng);
        // A device whose zones of roots are dead is refused.
        dead.retain(|(_, zone, _)| zone.0 >= 2);
        Layout { disks, dead, is_wiped: false }
    }

    fn format(&self, scenario: &Scenario, choices: &mut Choices) -> Result<(u32, Option<Media>), String> {
        let mut drives = bare(scenario, None, choices.rng())?;
        let blocks = match self.over {
            Some(over) => (over.format)(&mut drives.stack, &drives.disks, choices),
            None => format(&mut drives, scenario, choices),
        }?;
        Ok((blocks, Some(drives.take(choices))))
    }

    fn build(&self, stack: &mut Stack, tops: &[DeviceId], blocks: u32) -> Result<Built, String> {
        let limits: Vec<Limits> = tops.iter().map(|top| stack.limits(*top).clone()).collect();
        let device = add(stack, self.over.map_or(build as BuildOver, |over| over.build)(tops, &limits, blocks)?)?;
        #[cfg(feature = "sabotage")]
        stack.with_device(device, |volume: &mut target::Stl, _| volume.sabotage(self.sabotage));
        Ok(Built { parts: Vec::new(), device, target: Some(device) })
    }

    fn promises(&self, blocks: u32) -> Volume {
        Volume::in_order(blocks)
    }

    fn outlives_kills(&self) -> bool {
        self.over.is_none()
    }

    fn tables(&self) -> Option<Box<dyn mapped::Tables>> {
        let tables = Tables {
            #[cfg(feature = "sabotage")]
            sabotage: self.sabotage,
        };
        self.over.is_none().then(|| Box::new(tables) as _)
    }

    fn is_removable(&self) -> bool {
        self.over.is_none()
    }

    fn read(&self, drives: &mut Drives, volume: &mut Volume) -> Result<(), Broken> {
        if self.over.is_some() { Ok(()) } else { stl_reader::read(drives, volume) }
    }

    fn start_with_older_copy(
        &self,
        right: &mut Drives,
        copied: &mut Drives,
        (place, blocks): (usize, u32),
    ) -> Result<Option<Start>, String> {
        if self.over.is_some() {
            return Ok(None);
        }
        let lacking = stl_reader::lacking(right, copied, place)?;
        let disks = copied.disks.clone();
        let Built { device, .. } = self.build(&mut copied.stack, &disks, blocks)?;
        let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        let refused = finish(&mut copied.stack, device, flush).err();
        Ok(Some(Start { refused, lacking }))
    }

    fn conditions(&self, drives: &mut Drives) -> Vec<&'static str> {
        if self.over.is_some() { Vec::new() } else { stl_reader::conditions(drives) }
    }

    fn is_settled(&self, drives: &mut Drives) -> bool {
        self.over.is_none() && stl_reader::is_settled(drives)
    }

    fn check(&self, drives: &mut Drives, _: Option<u64>) -> Result<(), String> {
        if self.over.is_some() { Ok(()) } else { stl_reader::check_and_salvage(drives) }
    }
}

/// A disk of at most so many zones: some conventional, some with zones that take less than they are long, some with limits.
fn draw_zoned((zone_blocks, most): (u32, u64), rng: &mut Rng) -> CrashConfig {
    let (zones, block) = (between(rng, most / 2 + 4, most), u64::from(BLOCK_SECTORS));
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
        rotational: zones % 2 == 0,
        ..CrashConfig::new(geometry)
    }
}

/// How many zones may be open and active: those of roots, of each stream, and of one that failed, at least.
fn draw_resources(sequential: u32, rng: &mut Rng) -> ResourceLimits {
    if rng.chance(1, 2) {
        return ResourceLimits::NONE;
    }
    let active = between(rng, 7, u64::from(sequential).max(7)) as u32;
    let open = between(rng, 1, active.into()) as u32;
    let limits = ResourceLimits::new(rng.chance(2, 3).then_some(open), Some(active)).expect("a drawn limit is one");
    limits.enforceable(sequential)
}
