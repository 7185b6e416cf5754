//! What the target itself does for a disk that is taken out of a volume, on the shard of the tool.

use shingle_core::block::{Bio, Data, DeviceId, Event, Op, Payload};
use shingle_core::dm::stl::tools::{MediaError, Progress, Removal};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS, Leaving, Options, Stage, Step, Stl};
use shingle_core::plug::{PlugOptions, WritePolicy};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;

use super::Disks;
use crate::config::add_plug;
use crate::shard::Shard;

/// How often the progress is told.
const TOLD: Duration = Duration::from_millis(200);
/// Zones whose live blocks are known at a time: each round of so many looks at the whole map. 64 MiB of memory, where zones have 256.
const MARKED: usize = 8192;

impl Disks {
    /// Takes a step of a removal to its end.
    ///
    /// # Errors
    /// If it does not come there: the volume is what it was, or one of which the disk leaves.
    pub fn take_step(&mut self, removal: &Removal, step: Step, progress: Progress<'_>) -> Result<(), MediaError> {
        let (shard, disks) = self.below();
        let done = with_plugs(shard, &disks, |shard, tops| run(shard, tops, (removal, step), progress));
        self.look_again()?;
        done.map_err(MediaError)
    }
}

/// Puts a plug over each zoned disk for as long as `work` takes.
fn with_plugs(
    shard: &mut Shard,
    disks: &[DeviceId],
    work: impl FnOnce(&mut Shard, &[DeviceId]) -> Result<(), String>,
) -> Result<(), String> {
    let mut tops = Vec::new();
    for disk in disks {
        let policy = WritePolicy::default_for(shard.stack.limits(*disk));
        let plug = add_plug(&mut shard.stack, *disk, PlugOptions { policy, ..PlugOptions::default() })?;
        tops.push(plug.unwrap_or(*disk));
    }
    let done = work(shard, &tops);
    for plug in tops.iter().zip(disks).filter(|(top, disk)| top != disk).map(|(top, _)| top) {
        shard.stack.remove(*plug).map_err(|error| error.to_string())?;
    }
    done
}

fn run(
    shard: &mut Shard,
    tops: &[DeviceId],
    (removal, step): (&Removal, Step),
    progress: Progress<'_>,
) -> Result<(), String> {
    let limits: Vec<_> = tops.iter().map(|top| shard.stack.limits(*top).clone()).collect();
    let sectors = if step == Step::Leave { removal.sectors } else { removal.before };
    let options = Options { marked_zones: MARKED, ..Options::default() };
    let mut target = Stl::new(tops.to_vec(), &limits, sectors, options);
    target.let_go(removal.id, step);
    let device = shard.stack.add(Box::new(target)).map_err(|error| error.to_string())?;
    // It is loaded when it is used first.
    let read = Bio::new(Op::Read, Sector::ZERO, BLOCK_SECTORS, Payload::Data(Data::zeroed(BLOCK_BYTES)));
    shard.submit(device, read, |_, _, _| ());
    let result = wait(shard, device, progress).and_then(|stage| told(stage, &left(shard, device)));
    shard.stack.deliver(device, Event::Suspend { push_back: false });
    shard.hurry();
    let rest = shard.run_until(|shard| shard.stack.is_drained(device) && !shard.stack.has_arrivals());
    rest.map_err(|error| error.to_string())?;
    shard.stack.remove(device).map_err(|error| error.to_string())?;
    result
}

fn left(shard: &Shard, device: DeviceId) -> Leaving {
    shard.stack.device::<Stl>(device).map(Stl::leaving).unwrap_or_default()
}

/// Waits until the target is at the end of the step, or does not come there.
fn wait(shard: &mut Shard, device: DeviceId, progress: Progress<'_>) -> Result<Stage, String> {
    let (mut outcome, mut most, mut told) = (Ok(Stage::Working), 0, None);
    let ended = shard.run_until(|shard| {
        outcome = shard.stack.device::<Stl>(device).map_or(Ok(Stage::Over), Stl::evacuation);
        if told.is_none_or(|told| shard.now() >= told + TOLD) {
            told = Some(shard.now());
            let Leaving { zones, blocks, .. } = left(shard, device);
            let left = zones as u64 + blocks;
            most = most.max(left);
            progress(most - left, most);
        }
        outcome != Ok(Stage::Working)
    });
    ended.map_err(|error| error.to_string())?;
    outcome
}

fn told(stage: Stage, left: &Leaving) -> Result<(), String> {
    match stage {
        Stage::Over | Stage::Working => Ok(()),
        Stage::Stuck if left.spoilt > 0 => Err(format!(
            "what is in {} of its zones cannot be read: `shingle stl check --data` tells which blocks these are; write them anew, and go on \
             with the same command",
            left.spoilt
        )),
        Stage::Stuck => Err(
            "the other disks have no room for what is on it: serve the volume, discard what is not needed, and go on \
                             with the same command"
                .into(),
        ),
    }
}
