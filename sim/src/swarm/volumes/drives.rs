//! The disks of a set as tools see them, which wait for each command: to format them, and to check what is on them.

use alloc::string::String;
use alloc::vec::Vec;

use super::Media;
use crate::choices::Choices;
use crate::disk::CrashDisk;
use crate::{StackMedia, StlMedia};
use shingle_core::block::{DeviceId, Stack};
use shingle_core::time::Instant;

/// Disks, alone in a stack.
pub(super) struct Drives {
    pub stack: Stack,
    pub disks: Vec<DeviceId>,
    /// Those of them that the volume has.
    pub used: Vec<usize>,
}

impl Drives {
    /// The disks as those see them who read and write a set directly.
    pub fn media(&mut self) -> Result<StackMedia<'_>, String> {
        StackMedia::new(&mut self.stack, &self.disks, Instant::ZERO).map_err(|error| error.0)
    }

    /// The same for a volume of `stl`.
    pub fn stl_media(&mut self) -> Result<StlMedia<'_>, String> {
        let disks: Vec<DeviceId> = self.used.iter().map(|disk| self.disks[*disk]).collect();
        self.media_of(&disks)
    }

    /// The same of these disks.
    pub fn media_of(&mut self, disks: &[DeviceId]) -> Result<StlMedia<'_>, String> {
        StlMedia::new(&mut self.stack, disks).map_err(|error| error.0)
    }

    /// What the disks hold.
    pub fn take(&self, choices: &mut Choices) -> Media {
        let disks = self.disks.iter().filter_map(|id| self.stack.device::<CrashDisk>(*id));
        let cut = |(number, disk): (u64, &CrashDisk)| choices.scoped("disk", number, |choices| disk.cut_power(choices));
        (1..).zip(disks).map(cut).collect()
    }
}
