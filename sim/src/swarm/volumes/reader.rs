//! Another reader of the disks: what the format alone says is on them, before a start of ours has mended anything. So the kernel
//! reads them, which starts with what a crash has left as it is.

use alloc::string::{String, ToString};

use super::drives::Drives;
use super::machine::bare;
use super::{Judged, Media, Run, Shared, branch_rng};
use crate::model::{Broken, Rule, Violation};
use crate::volume::{BLOCK_BYTES, Volume, VolumeRequest, read_stamps};
use shingle_core::block::{Data, Op, Payload};
use shingle_core::dm::zoned::Block;
use shingle_core::dm::zoned::format::{Media as _, Volume as Format};
use shingle_core::time::Instant;

impl Run<'_> {
    /// Compares what `media` hold by the format with what may be there.
    pub(super) fn read_by_format(&self, number: u64, media: &Media, shared: &Shared) -> Judged {
        let has_faults = self.scenario.faults.iter().any(|plan| !plan.rules.is_empty() || !plan.bad.is_empty());
        if has_faults || !self.scenario.dead.is_empty() || self.options.volume.is_some() {
            return Ok(());
        }
        let drives = bare(self.scenario, Some(media.clone()), &mut branch_rng(self.seed, number, 0));
        // What is found here binds nobody: the model goes on without it.
        let mut volume = shared.borrow().volume.clone();
        let read = drives.map_err(broken).and_then(|mut drives| read(&mut drives, &mut volume));
        read.map_err(|(rule, what)| Violation { rule, at: Instant::ZERO, what: "by the format: ".to_string() + &what })
    }
}

fn read(drives: &mut Drives, volume: &mut Volume) -> Result<(), Broken> {
    let mut media = drives.media().map_err(broken)?;
    let format = Format::load(&mut media).map_err(|error| broken(error.to_string()))?;
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

fn broken(what: String) -> Broken {
    (Rule::Metadata, what)
}
