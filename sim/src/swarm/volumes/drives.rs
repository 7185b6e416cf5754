//! The disks of a set as tools see them, which wait for each command: to format them, and to check what is on them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Media;
use crate::StackMedia;
use crate::disk::CrashDisk;
use shingle_core::block::{DeviceId, Stack};
use shingle_core::dm::zoned::check::check;
use shingle_core::dm::zoned::format::{FormatOptions, Label, Layout, Media as _, format};
use shingle_core::random::Rng;
use shingle_core::time::Instant;

/// Disks, alone in a stack.
pub(super) struct Drives {
    pub stack: Stack,
    pub disks: Vec<DeviceId>,
}

impl Drives {
    /// The disks as those see them who read and write a set directly.
    pub fn media(&mut self) -> Result<StackMedia<'_>, String> {
        StackMedia::new(&mut self.stack, &self.disks, Instant::ZERO).map_err(|error| error.0)
    }

    /// Makes a set of the disks. Returns the blocks of its volume.
    pub fn format(&mut self, rng: &mut Rng) -> Result<u32, String> {
        let disks = self.disks.len();
        let mut media = self.media()?;
        let chosen = Layout::choose(media.space(), None).map_err(|error| error.to_string())?;
        let (least, most) = (chosen.least_reserved(media.space()), chosen.most_reserved(media.space()));
        let reserved = least + rng.below(u64::from(most.saturating_sub(least)).min(3) + 1) as u32;
        let version = if disks == 1 && rng.chance(1, 4) { 1 } else { 2 };
        let label = if version == 1 { Ok(Label::default()) } else { Label::new("swarm") };
        let mut options = FormatOptions {
            version,
            label: label.map_err(|error| error.to_string())?,
            set_uuid: [0xaa; 16],
            device_uuids: (0..disks).map(|n| [n as u8 + 1; 16]).collect(),
            reserved: Some(reserved),
        };
        let first = format(&mut media, &options, &mut |_, _| ());
        let layout = first.or_else(|_| {
            // The bounds move with the size of the metadata.
            options.reserved = None;
            format(&mut media, &options, &mut |_, _| ())
        });
        let layout = layout.map_err(|error| error.to_string())?;
        Ok(layout.chunks * media.space().zone_blocks())
    }

    /// Checks the metadata of a volume that was stopped.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&mut self) -> Result<(), String> {
        let report = check(&mut self.media()?, &mut |_, _| ());
        let errors = report.findings.iter().filter(|found| found.is_error());
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// What the disks hold.
    pub fn take(&self, rng: &mut Rng) -> Media {
        let disks = self.disks.iter().filter_map(|id| self.stack.device::<CrashDisk>(*id));
        disks.map(|disk| disk.cut_power(rng)).collect()
    }
}
