//! Disks alone, as tools see them: a volume is made of them, and what a stop has left of it is looked at by the format alone.

use shingle_core::block::{DeviceId, Stack};
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::tools as stl;
use shingle_core::dm::zoned::check::{Finding, check};
use shingle_core::dm::zoned::format as dmz;
use shingle_core::random::Rng;
use shingle_core::time::Instant;
use shingle_sim::Choices;
use shingle_sim::disk::{CrashConfig, CrashDisk, Medium};
use shingle_sim::fault::FaultPlan;
use shingle_sim::volume::BLOCK_SECTORS;
use shingle_sim::{StackMedia, StlMedia};

use super::scene::{Kind, ZONE_BLOCKS};

/// A disk as it is when its power comes.
pub fn power_on(config: &CrashConfig, left: Option<Medium>, rng: &mut Rng) -> Result<CrashDisk, String> {
    CrashDisk::restart(config.clone(), FaultPlan::none(), rng.draw(), left).map_err(|error| error.to_string())
}

/// Makes a volume of these disks. Returns its blocks, and what the disks hold then.
pub fn format(kind: Kind, configs: &[CrashConfig], rng: &mut Rng) -> Result<(u32, Vec<Medium>), String> {
    let (mut stack, disks) = bare(configs, &[], rng)?;
    let blocks = match kind {
        Kind::Plain => return Err("there is nothing to make".into()),
        Kind::Stl => {
            let mut media = StlMedia::new(&mut stack, &disks).map_err(|error| error.0)?;
            let ids = (1..=disks.len()).map(|number| [number as u8; 16]).collect();
            let options = stl::FormatOptions { set: SetId([0xaa; 16]), disks: ids, reserve: 200 };
            let made = stl::format(&mut media, &options, &mut |_, _| ()).map_err(|error| error.to_string())?;
            (made.sectors / u64::from(BLOCK_SECTORS)) as u32
        }
        Kind::DmZoned => {
            let mut media = StackMedia::new(&mut stack, &disks, Instant::ZERO).map_err(|error| error.0)?;
            let options = dmz::FormatOptions {
                version: 2,
                label: dmz::Label::new("swarm").map_err(|error| error.to_string())?,
                set_uuid: [0xaa; 16],
                device_uuids: (1..=disks.len()).map(|number| [number as u8; 16]).collect(),
                reserved: Some(3),
            };
            let made = dmz::format(&mut media, &options, &mut |_, _| ()).map_err(|error| error.to_string())?;
            made.chunks * ZONE_BLOCKS
        }
    };
    let disks = disks.iter().filter_map(|id| stack.device::<CrashDisk>(*id));
    Ok((blocks, disks.map(|disk| Choices::of(rng, |choices| disk.cut_power(choices))).collect()))
}

/// The generation of a dm-zoned set; `None` of other volumes.
pub fn version(kind: Kind, configs: &[CrashConfig], left: &[Medium], rng: &mut Rng) -> Option<u64> {
    if kind != Kind::DmZoned {
        return None;
    }
    let (mut stack, disks) = bare(configs, left, rng).ok()?;
    let sets = dmz::Sets::find(&mut StackMedia::new(&mut stack, &disks, Instant::ZERO).ok()?).ok()?;
    Some(sets.superblock.generation)
}

/// Looks at what a clean stop has left: a volume in order, of which a start has nothing to read again. Zones that a power cut has left in a dm-zoned
/// set stay as they are while its generation is still `version`.
pub fn look(
    kind: Kind,
    configs: &[CrashConfig],
    (left, version): (&[Medium], Option<u64>),
    rng: &mut Rng,
) -> Result<(), String> {
    let (mut stack, disks) = bare(configs, left, rng)?;
    let errors: Vec<String> = match kind {
        Kind::Plain => Vec::new(),
        Kind::Stl => {
            let mut media = StlMedia::new(&mut stack, &disks).map_err(|error| error.0)?;
            let depth = stl::Depth { pace: Some(&mut |_| ()) };
            let report = stl::check(&mut media, depth, &mut |_, _| ());
            if !report.volume.as_ref().is_some_and(stl::Volume::is_at_rest) {
                return Err("the volume was not put away: batches lie behind its root".into());
            }
            report.findings.all().iter().filter(|found| found.is_error()).map(ToString::to_string).collect()
        }
        Kind::DmZoned => {
            let mut media = StackMedia::new(&mut stack, &disks, Instant::ZERO).map_err(|error| error.0)?;
            let report = check(&mut media, &mut |_, _| ());
            let is_changed = report.sets.as_ref().map(|sets| sets.superblock.generation) != version;
            let is_wrong = |found: &&Finding| found.is_error() && (is_changed || !found.is_misfit());
            report.findings.iter().filter(is_wrong).map(ToString::to_string).collect()
        }
    };
    if errors.is_empty() { Ok(()) } else { Err(format!("the stop left: {}", errors.join("; "))) }
}

fn bare(configs: &[CrashConfig], left: &[Medium], rng: &mut Rng) -> Result<(Stack, Vec<DeviceId>), String> {
    let (mut stack, mut disks) = (Stack::new(), Vec::new());
    for (number, config) in configs.iter().enumerate() {
        let disk = power_on(config, left.get(number).cloned(), rng)?;
        disks.push(stack.add(Box::new(disk)).map_err(|error| error.to_string())?);
    }
    Ok((stack, disks))
}
