//! Volumes on drives that were just formatted, in worlds.
//!
//! ```text
//!  load ──> probe ──> stl ──> door ──> keeper ──> drive
//!                        └──> door ──> keeper ──> drive
//! ```

use std::cell::Cell;
use std::{env, io};

use shingle_core::block::{Bio, Completion, Data, DeviceId, Flags, Limits, Op, Payload, Stack};
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::{BLOCK_SECTORS, Options, Part, Sizing, Stl, create};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::Instant;
use shingle_core::zone::Zone;
use shingle_host::profile::Model;
use shingle_sim::{Actor, Io, World};

use super::door::Door;
use super::keeper::Keeper;
use super::plan::System;
use super::probe::Probe;
use crate::reproduce::dmzoned::volume as dm_zoned;

/// A volume in its world.
pub struct Volume {
    /// The world.
    pub world: World,
    /// The probe, where bios go in.
    pub top: DeviceId,
    /// The target below it.
    pub target: DeviceId,
    /// The drives.
    pub drives: Vec<DeviceId>,
    /// What is directly above the drives, if they are of `stl`.
    pub keepers: Vec<DeviceId>,
    /// What is between them and the target.
    pub doors: Vec<DeviceId>,
    /// Sectors of a zone that can be written, if that is not all of it.
    pub room: Option<u64>,
}

/// Thousandths of the space that are kept back.
pub const RESERVE: u32 = 70;

impl Volume {
    /// A new volume of `system` on `drives`.
    ///
    /// # Errors
    /// If there can be no such volume, in words.
    pub fn new(system: System, drives: &[Model], options: Options) -> Result<Self, String> {
        match system {
            System::Stl | System::Greedy | System::InMemory => Self::stl(drives, options),
            System::Kernel => Self::dm_zoned(drives, "kernel"),
            System::Shingle => Self::dm_zoned(drives, "shingle"),
            System::Drive => Self::bare(drives),
        }
    }

    fn stl(drives: &[Model], options: Options) -> Result<Self, String> {
        let mut stack = Stack::new();
        let mut ids = Vec::new();
        for drive in drives {
            ids.push(drive.add_to(&mut stack, false).map_err(text)?);
        }
        let (mut keepers, mut doors) = (Vec::new(), Vec::new());
        for id in &ids {
            let limits = stack.limits(*id).clone();
            let keeper =
                stack.add(Box::new(Keeper::new(*id, &limits).map_err(|error| no_room(&error))?)).map_err(text)?;
            keepers.push(keeper);
            doors.push(stack.add(Box::new(Door::new(keeper, &limits))).map_err(text)?);
        }
        let mut world = World::new(stack);
        let sectors = form(&mut world, &doors)?;
        let (target, top) = attach(&mut world, &doors, sectors, options)?;
        // It is found on its disks at the first bio.
        ask(&mut world, top, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None))?;
        Ok(Self { world, top, target, drives: ids, keepers, doors, room: None })
    }

    fn dm_zoned(drives: &[Model], policy: &str) -> Result<Self, String> {
        let (ssd, smr) = match drives {
            [Model::Smr(smr)] => (None, smr),
            [Model::Ssd(ssd), Model::Smr(smr)] => (Some(ssd.clone()), smr),
            _ => return Err("dm-zoned needs zones that can be written whole, and conventional ones or an SSD".into()),
        };
        let mut volume = dm_zoned::Volume::new(&dm_zoned::Drives { smr: smr.clone(), ssd })?;
        volume.set("policy", policy)?;
        let dm_zoned::Volume { stack, top, target, drives } = volume;
        Self::of(stack, target, drives, top)
    }

    fn bare(drives: &[Model]) -> Result<Self, String> {
        let mut stack = Stack::new();
        // An SSD is what matters, where there is one.
        let drive = drives.first().ok_or("there is no drive")?;
        let id = drive.add_to(&mut stack, false).map_err(text)?;
        let room = if let Model::Zns(ssd) = drive { Some(ssd.zone_capacity) } else { None };
        Ok(Self { room, ..Self::of(stack, id, vec![id], id)? })
    }

    /// Puts the probe over what `stack` has on top.
    fn of(mut stack: Stack, target: DeviceId, drives: Vec<DeviceId>, top: DeviceId) -> Result<Self, String> {
        let probe = Probe::new(top, stack.limits(top));
        let top = stack.add(Box::new(probe)).map_err(text)?;
        let (keepers, doors) = (Vec::new(), Vec::new());
        Ok(Self { world: World::new(stack), top, target, keepers, doors, drives, room: None })
    }

    /// Blocks of the exposed disk.
    pub fn blocks(&self) -> u64 {
        self.world.stack.limits(self.top).capacity / u64::from(BLOCK_SECTORS)
    }
}

/// A target over these disks, and a probe over that.
pub fn attach(
    world: &mut World,
    keepers: &[DeviceId],
    sectors: u64,
    options: Options,
) -> Result<(DeviceId, DeviceId), String> {
    let limits: Vec<Limits> = keepers.iter().map(|id| world.stack.limits(*id).clone()).collect();
    let target = Stl::new(keepers.to_vec(), &limits, sectors, options);
    let target = world.stack.add(Box::new(target)).map_err(text)?;
    let probe = Probe::new(target, world.stack.limits(target));
    let top = world.stack.add(Box::new(probe)).map_err(text)?;
    Ok((target, top))
}

/// Writes the first roots; the sectors of the volume.
fn form(world: &mut World, keepers: &[DeviceId]) -> Result<u64, String> {
    let mut parts = Vec::new();
    for (number, disk) in (1..).zip(keepers) {
        let limits = world.stack.limits(*disk);
        let (sectors, max_active) = (limits.capacity, limits.max_active());
        parts.push(Part { id: [number; 16], zones: zones(world, *disk)?, sectors, max_active });
    }
    let created = create(SetId([0x51; 16]), &parts, Sizing::with_reserve(RESERVE)).map_err(text)?;
    for (disk, (sector, bytes)) in keepers.iter().zip(&created.roots) {
        let most = world.stack.limits(*disk).max_sectors.map_or(bytes.len(), |most| (most * SECTOR_BYTES) as usize);
        for (number, piece) in bytes.chunks(most).enumerate() {
            let data = Data::zeroed(piece.len());
            data.write(0, piece);
            let sector = *sector + (number * most) as u64 / u64::from(SECTOR_BYTES);
            let write = Bio::new(Op::Write, sector, piece.len() as u32 / SECTOR_BYTES, Payload::Data(data));
            ask(world, *disk, write.with_flags(Flags::FUA))?;
        }
    }
    Ok(created.sectors)
}

/// The zones of a disk; none of one without.
fn zones(world: &mut World, disk: DeviceId) -> Result<Vec<Zone>, String> {
    let limits = world.stack.limits(disk);
    if limits.zoned.is_none() {
        return Ok(Vec::new());
    }
    let room = Payload::Zones(Vec::with_capacity(limits.zones() as usize));
    match ask(world, disk, Bio::new(Op::ReportZones, Sector::ZERO, 0, room))? {
        Payload::Zones(zones) => Ok(zones),
        other => Err(format!("the answer to a report of zones is {other:?}")),
    }
}

/// Sends a bio and waits for it; what it brings back.
pub fn ask(world: &mut World, to: DeviceId, bio: Bio) -> Result<Payload, String> {
    let what = format!("{bio:?}");
    let asker = world.add(Box::new(Asker { to, bio: Some(Box::new(bio)), answer: Cell::new(None), is_done: false }));
    let stop = world.run(Instant(u64::MAX));
    let asker: &Asker = world.actor(asker).ok_or("the actor that was added is gone")?;
    match asker.answer.take() {
        Some(mut answer) if answer.status.is_ok() => Ok(std::mem::take(&mut answer.bio.payload)),
        Some(answer) => Err(format!("{what}: {}", answer.status)),
        None => Err(format!("{what}: no answer, {stop:?}")),
    }
}

struct Asker {
    to: DeviceId,
    bio: Option<Box<Bio>>,
    answer: Cell<Option<Completion>>,
    is_done: bool,
}

impl Actor for Asker {
    fn act(&mut self, io: &mut Io<'_>) {
        if let Some(bio) = self.bio.take() {
            io.submit(0, self.to, bio);
        }
        if let Some(answer) = io.completion() {
            (self.answer, self.is_done) = (Cell::new(Some(answer)), true);
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// That the file in which drives keep what is written cannot be used.
pub fn no_room(error: &io::Error) -> String {
    format!(
        "the file for what drives keep, in {}: {error}; another folder can be set as TMPDIR",
        env::temp_dir().display()
    )
}

pub fn text(error: impl ToString) -> String {
    error.to_string()
}
