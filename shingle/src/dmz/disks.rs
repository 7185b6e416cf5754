//! The disks of a set, opened for a tool.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Limits, Op, Payload, PortId};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::target::zoned::format::{Media, MediaError};
use shingle_core::target::zoned::{BLOCK_BYTES, BLOCK_SECTORS, SpaceError, ZoneClass, ZoneSpace};
use shingle_core::zone::Zone;

use crate::disk::{file, zoned_dir};
use crate::shard::Shard;

/// What a tool is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look. Others may look as well.
    Read,
    /// Change it, alone.
    Write,
}

/// Open disks in the order of a table line. What they are asked is done when the call returns, and durable after a flush.
pub struct Disks {
    shard: Shard,
    port: PortId,
    disks: Vec<Disk>,
    space: ZoneSpace,
    /// What is lent to the kernel.
    buffer: Data,
}

struct Disk {
    path: PathBuf,
    device: DeviceId,
}

/// Bytes that move at once.
const PIECE: usize = 4 << 20;

impl Disks {
    /// Opens and locks the disks in `paths`: directories of zoned disks, the first may also be a regular file or block device.
    ///
    /// # Errors
    /// If one cannot be opened, or they are no set.
    pub fn open(paths: &[PathBuf], access: Access) -> Result<Self, MediaError> {
        let mut shard = Shard::new().map_err(|error| MediaError(error.to_string()))?;
        let (mut disks, mut limits) = (Vec::new(), Vec::new());
        for path in paths {
            if disks.iter().any(|disk: &Disk| is_same(&disk.path, path)) {
                return Err(about(path, &"it is named twice: a disk is in a set once"));
            }
            let device = shard.stack.add(open_one(path, access, &shard)?).map_err(|error| about(path, &error))?;
            limits.push(shard.stack.limits(device).clone());
            check_blocks(path, &limits[limits.len() - 1])?;
            disks.push(Disk { path: path.clone(), device });
        }
        let space = ZoneSpace::new(&limits.iter().collect::<Vec<_>>()).map_err(|error| no_set(paths, &error))?;
        let port = shard.stack.open_port();
        let mut disks = Self { shard, port, disks, space, buffer: Data::zeroed(PIECE) };
        for (place, limits) in limits.iter().enumerate().filter(|(_, limits)| limits.zoned.is_some()) {
            let report = disks.report((place, Sector::ZERO), limits.zones())?;
            disks.space.learn(place, &report).map_err(|error| no_set(paths, &error))?;
        }
        Ok(disks)
    }

    /// Where the disks are.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.disks.iter().map(|disk| disk.path.as_path())
    }

    /// What a disk accepts.
    #[must_use]
    pub fn limits(&self, place: usize) -> &Limits {
        self.shard.stack.limits(self.disks[place].device)
    }

    /// Has a disk do something, and waits for it.
    fn run(&mut self, place: usize, bio: Bio) -> Result<Box<Bio>, MediaError> {
        let (op, sector, sectors) = (bio.op, bio.sector, bio.sectors);
        let Disk { path, device } = &self.disks[place];
        let failed = |why: &dyn Display| about(path, &format_args!("{} {sector}+{sectors} failed: {why}", op.name()));
        self.shard.stack.submit(self.port, 0, *device, Box::new(bio));
        loop {
            self.shard.round().map_err(|error| failed(&error))?;
            let Some(done) = self.shard.stack.poll_completion(self.port) else { continue };
            return if done.status.is_ok() { Ok(done.bio) } else { Err(failed(&done.status)) };
        }
    }

    fn transfer(&mut self, op: Op, (place, sector): (usize, Sector), data: &Data) -> Result<(), MediaError> {
        let sectors = (data.len() / SECTOR_BYTES as usize) as u32;
        self.run(place, Bio::new(op, sector, sectors, Payload::Data(data.clone()))).map(drop)
    }

    fn report(&mut self, (place, from): (usize, Sector), zones: u32) -> Result<Vec<Zone>, MediaError> {
        let room = Payload::Zones(Vec::with_capacity(zones as usize));
        let mut bio = self.run(place, Bio::new(Op::ReportZones, from, 0, room))?;
        match std::mem::take(&mut bio.payload) {
            Payload::Zones(zones) => Ok(zones),
            _ => Ok(Vec::new()),
        }
    }

    /// Learns from its disk where the pointer of `zone` is now.
    fn look_at(&mut self, zone: u32) -> Result<(), MediaError> {
        if self.space.zones()[zone as usize].class != ZoneClass::Sequential {
            return Ok(());
        }
        let (place, start) = self.space.place(self.space.start(zone));
        let report = self.report((place, start), 1)?;
        self.space.learn(place, &report).map_err(|error| about(&self.disks[place].path, &error))
    }
}

/// Where piece number `piece` of what begins at `block` lies.
fn place_of(space: &ZoneSpace, block: u64, piece: usize) -> (usize, Sector) {
    space.place(block + (piece * PIECE / BLOCK_BYTES) as u64)
}

impl Media for Disks {
    fn space(&self) -> &ZoneSpace {
        &self.space
    }

    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        for (piece, part) in to.chunks_mut(PIECE).enumerate() {
            let data = self.buffer.slice(0, part.len());
            self.transfer(Op::Read, place_of(&self.space, block, piece), &data)?;
            data.read(0, part);
        }
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError> {
        let write_all = |disks: &mut Self| {
            from.chunks(PIECE).enumerate().try_for_each(|(piece, part)| {
                let data = disks.buffer.slice(0, part.len());
                data.write(0, part);
                disks.transfer(Op::Write, place_of(&disks.space, block, piece), &data)
            })
        };
        // Of a write that failed only the disk knows how far it came.
        let written = write_all(self);
        self.look_at(self.space.zone_of(block)).and(written)
    }

    fn reset(&mut self, zone: u32) -> Result<(), MediaError> {
        let (place, start) = self.space.place(self.space.start(zone));
        self.run(place, Bio::new(Op::ZoneReset, start, 0, Payload::None))?;
        self.look_at(zone)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        let flush = || Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
        (0..self.disks.len()).try_for_each(|place| self.run(place, flush()).map(drop))
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn about(path: &Path, what: &dyn Display) -> MediaError {
    MediaError(format!("{}: {what}", path.display()))
}

fn no_set(paths: &[PathBuf], error: &SpaceError) -> MediaError {
    error.member.map_or_else(|| MediaError(error.message.clone()), |place| about(&paths[place], error))
}

fn open_one(path: &Path, access: Access, shard: &Shard) -> Result<Box<dyn BlockDevice>, MediaError> {
    let read_only = access == Access::Read;
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
        let options = file::Options { read_only, direct: false, ..file::Options::default() };
        let opened = file::open(path, &options, shard.ring());
        return opened.map(|disk| Box::new(disk) as _).map_err(|error| MediaError(error.to_string()));
    }
    let options = zoned_dir::Options { read_only, ..zoned_dir::Options::default() };
    let opened = zoned_dir::open(path, &options, shard.ring());
    opened.map(|disk| Box::new(disk) as _).map_err(|error| MediaError(error.to_string()))
}

/// A block of dm-zoned has to be a whole number of the disk's.
fn check_blocks(path: &Path, limits: &Limits) -> Result<(), MediaError> {
    if BLOCK_SECTORS.is_multiple_of(limits.block_sectors()) {
        return Ok(());
    }
    let own = limits.logical_block_bytes;
    Err(about(path, &format_args!("its blocks of {own} bytes are larger than those of dm-zoned, which have 4096")))
}
