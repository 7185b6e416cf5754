//! dm-zoned: the disks that a set can have, the set made and checked, and the table that makes a volume of it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::base::{add, between};
use super::dmzoned_table::{MESSAGES, Tables};
use super::drives::Drives;
use super::kind::{Built, Kind};
use super::machine::{add_plug, bare};
use super::mapped::Tables as _;
use super::scenario::{Layout, Scenario, draw_dead, regular};
use super::{Media, mapped};
use crate::choices::Choices;
use crate::disk::{CrashConfig, CrashDisk};
use crate::model::{Broken, Rule};
use crate::volume::{BLOCK_BYTES, BLOCK_SECTORS, Volume, VolumeRequest, read_stamps};
use shingle_core::block::{BlockDevice as _, Data, DeviceId, Op, Payload, Stack};
use shingle_core::dm::build_table;
use shingle_core::dm::zoned::Block;
use shingle_core::dm::zoned::check::check;
use shingle_core::dm::zoned::format::{self, FormatOptions, Label, Media as _};
use shingle_core::plug::PlugOptions;
use shingle_core::random::Rng;
use shingle_core::time::Instant;
use shingle_core::zone::ZoneGeometry;

/// dm-zoned.
pub(super) struct DmZoned {
    pub tables: Tables,
}

impl Kind for DmZoned {
    fn draw(&self, zone_blocks: u32, rng: &mut Rng) -> Layout {
        let cached = rng.chance(1, 2);
        let zoned = if cached { between(rng, 1, 2) } else { 1 };
        let most = if zone_blocks > 32 { 14 } else { 28 };
        let sequential: Vec<u64> = (0..zoned).map(|_| between(rng, 5, most / zoned)).collect();
        let extra: Vec<u64> = (0..zoned).map(|_| if cached { rng.below(4) } else { 0 }).collect();
        let runt = cached && rng.chance(1, 3);
        // The format counts as space for data a runt zone, and those with a third superblock: as many more are needed.
        let data = u64::from(runt) + if cached { zoned } else { 0 } + between(rng, 2, 5);
        // The metadata describes its own zones, too.
        let others = sequential.iter().chain(&extra).sum::<u64>() + data;
        let meta = 2 * (0..8).fold(1, |meta, _| (2 + others + 2 * meta).div_ceil(zone_blocks.into()));
        let random = meta + data;
        let zone = u64::from(zone_blocks * BLOCK_SECTORS);
        let mut disks = Vec::new();
        if cached {
            let short = if runt { between(rng, 1, u64::from(zone_blocks) - 1) } else { 0 };
            disks.push(regular(random * u64::from(zone_blocks) - short));
        }
        for (sequential, extra) in sequential.iter().zip(&extra) {
            let conventional = if cached { *extra } else { random };
            let zones = sequential + conventional;
            let geometry = ZoneGeometry::new(zones * zone, zone, zone, conventional).expect("a drawn shape is a shape");
            disks.push(CrashConfig::new(geometry));
        }
        let dead = draw_dead(&disks, rng);
        Layout { disks, dead, is_wiped: false }
    }

    fn format(&self, scenario: &Scenario, choices: &mut Choices) -> Result<(u32, Option<Media>), String> {
        let mut drives = bare(scenario, None, choices.rng())?;
        let blocks = make_set(&mut drives, choices)?;
        Ok((blocks, Some(drives.take(choices))))
    }

    fn outlives_kills(&self) -> bool {
        true
    }

    fn build(&self, stack: &mut Stack, tops: &[DeviceId], blocks: u32) -> Result<Built, String> {
        add_table(stack, (tops, blocks), self.tables)
    }

    fn tables(&self) -> Option<Box<dyn mapped::Tables>> {
        Some(Box::new(self.tables))
    }

    fn read(&self, drives: &mut Drives, volume: &mut Volume) -> Result<(), Broken> {
        let mut media = drives.media().map_err(broken)?;
        let format = format::Volume::load(&mut media).map_err(|error| broken(error.to_string()))?;
        let zone_blocks = media.space().zone_blocks();
        for chunk in format.entries.numbers() {
            let data = Data::zeroed(zone_blocks as usize * BLOCK_BYTES);
            let mut bytes = data.to_vec();
            let found = format.chunk(&mut media, chunk).and_then(|chunk| chunk.read(&mut media, Block(0), &mut bytes));
            found.map_err(|error| broken(error.to_string()))?;
            data.write(0, &bytes);
            let number = volume.submit(VolumeRequest::new(Op::Read, chunk.0 * zone_blocks, zone_blocks), Instant::ZERO);
            volume.succeed(number, read_stamps(&Payload::Data(data)))?;
        }
        Ok(())
    }

    fn version(&self, drives: &mut Drives) -> Option<u64> {
        let sets = format::Sets::find(&mut drives.media().ok()?).ok()?;
        Some(sets.superblock.generation)
    }

    fn check(&self, drives: &mut Drives, version: Option<u64>) -> Result<(), String> {
        let report = check(&mut drives.media()?, &mut |_, _| ());
        // What a power cut leaves stays as it is until something changes.
        let is_changed = report.sets.as_ref().map(|sets| sets.superblock.generation) != version;
        let errors = report.findings.iter().filter(|found| found.is_error() && (is_changed || !found.is_misfit()));
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// False: data blocks of dm-zoned have no checksum, and of the metadata only superblocks have one.
    fn has_checksums(&self) -> bool {
        false
    }

    /// Changes bits of the set that is not in force, or of all of a set with its superblock, so that the other one is.
    fn damage(&self, drives: &mut Drives, choices: &mut Choices) -> Result<(), String> {
        let mut media = drives.media()?;
        let found = format::Sets::find(&mut media).map_err(|error| error.to_string())?;
        let set = choices.below("set", 2) as usize;
        let start = found.layout.set_start(media.space(), set);
        let mut blocks: Vec<u64> = (0..choices.below("blocks", 8))
            .map(|_| 1 + choices.below("block", u64::from(found.layout.metadata_blocks) - 1))
            .collect();
        if set == 0 || choices.chance("superblock", 1, 2) {
            blocks.push(0);
        }
        for block in blocks {
            let mut bytes = [0; BLOCK_BYTES];
            media.read(start + block, &mut bytes).map_err(|error| error.to_string())?;
            // Behind these bytes most tables and bitmaps are empty.
            let used = if block == 0 { BLOCK_BYTES as u64 } else { 16 };
            bytes[choices.below("byte", used) as usize] ^= 1 << choices.below("bit", 8);
            media.write(start + block, &bytes).map_err(|error| error.to_string())?;
        }
        media.flush().map_err(|error| error.to_string())
    }

    fn messages(&self) -> &'static str {
        MESSAGES
    }
}

/// Makes a set of the disks. Returns the blocks of its volume.
fn make_set(drives: &mut Drives, choices: &mut Choices) -> Result<u32, String> {
    let disks = drives.disks.len();
    let mut media = drives.media()?;
    let chosen = format::Layout::choose(media.space(), None).map_err(|error| error.to_string())?;
    let (least, most) = (chosen.least_reserved(media.space()), chosen.most_reserved(media.space()));
    let reserved = least + choices.below("reserved", u64::from(most.saturating_sub(least)).min(3) + 1) as u32;
    let version = if disks == 1 && choices.chance("version-1", 1, 4) { 1 } else { 2 };
    let label = if version == 1 { Ok(Label::default()) } else { Label::new("swarm") };
    let mut options = FormatOptions {
        version,
        label: label.map_err(|error| error.to_string())?,
        set_uuid: [0xaa; 16],
        device_uuids: (0..disks).map(|n| [n as u8 + 1; 16]).collect(),
        reserved: Some(reserved),
    };
    let first = format::format(&mut media, &options, &mut |_, _| ());
    let layout = first.or_else(|_| {
        // The bounds move with the size of the metadata.
        options.reserved = None;
        format::format(&mut media, &options, &mut |_, _| ())
    });
    let layout = layout.map_err(|error| error.to_string())?;
    Ok(layout.chunks * media.space().zone_blocks())
}

/// A volume on disks that are in use; returns them, and the parts that have to be ready, the last of which users use.
pub(crate) fn assemble(
    stack: &mut Stack,
    disks: Vec<CrashDisk>,
    plug: PlugOptions,
    blocks: u32,
) -> Result<(Vec<DeviceId>, Vec<DeviceId>), String> {
    let (mut ids, mut tops) = (Vec::new(), Vec::new());
    for disk in disks {
        let is_zoned = disk.limits().zoned.is_some();
        let id = add(stack, Box::new(disk))?;
        ids.push(id);
        tops.push(if is_zoned { add_plug(stack, id, plug)? } else { id });
    }
    let Built { mut parts, device, .. } = add_table(stack, (&tops, blocks), Tables::default())?;
    parts.push(device);
    Ok((ids, parts))
}

/// Adds the table of the volume.
fn add_table(stack: &mut Stack, (disks, blocks): (&[DeviceId], u32), tables: Tables) -> Result<Built, String> {
    let names: Vec<String> = (0..disks.len()).map(|disk| format!("d{disk}")).collect();
    let lines = tables.table(blocks, &names, None, None)?;
    let resolver = |name: &str| {
        let place = names.iter().position(|known| known == name);
        place.map(|place| disks[place]).ok_or_else(|| names.clone())
    };
    let built = build_table(stack, &lines, &resolver).map_err(|error| error.to_string())?;
    let device = add(stack, Box::new(built.table))?;
    Ok(Built { parts: built.parts, device, target: built.targets[0] })
}

fn broken(what: String) -> Broken {
    (Rule::Metadata, what)
}
