//! The kinds of volumes: what each of them is made of, and what it promises.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::options::SwarmOptions;
use super::dmzoned::DmZoned;
use super::drives::Drives;
use super::mapped::Tables;
use super::older_copies::Start;
use super::scenario::{Layout, Scenario};
use super::stand_in::StandIn;
use super::stl::Stl;
use super::{Media, dmzoned_table};
use crate::choices::Choices;
use crate::model::Broken;
use crate::profile::Profile;
use crate::volume::Volume;
use shingle_core::block::{DeviceId, Stack};
use shingle_core::random::Rng;

/// What makes a volume of disks.
pub(super) trait Kind {
    /// Blocks that a zone can have.
    fn zone_blocks(&self) -> &'static [u32] {
        &[16, 16, 32, 32, 64, 128]
    }

    /// Draws the disks.
    fn draw(&self, zone_blocks: u32, rng: &mut Rng) -> Layout;

    /// Makes a volume of the disks. Returns its blocks, and what is on the disks then; nothing if they were not touched.
    fn format(&self, scenario: &Scenario, choices: &mut Choices) -> Result<(u32, Option<Media>), String>;

    /// Puts a device of so many blocks on what is on top of each disk.
    fn build(&self, stack: &mut Stack, tops: &[DeviceId], blocks: u32) -> Result<Built, String>;

    /// What a volume of so many blocks promises, new and full of zeroes.
    fn promises(&self, blocks: u32) -> Volume {
        Volume::new(blocks)
    }

    /// Compares what the disks hold by the format alone with what may be there.
    fn read(&self, drives: &mut Drives, volume: &mut Volume) -> Result<(), Broken> {
        let _ = (drives, volume);
        Ok(())
    }

    /// Starts a volume of so many blocks on `copied` disks, of which `place` is an older copy of that of `right`. Returns `None` for a volume that makes no
    /// claims about older copies.
    ///
    /// # Errors
    /// If the right disks cannot be read.
    fn start_with_older_copy(
        &self,
        right: &mut Drives,
        copied: &mut Drives,
        (place, blocks): (usize, u32),
    ) -> Result<Option<Start>, String> {
        let _ = (right, copied, place, blocks);
        Ok(None)
    }

    /// Conditions of the metadata that a report counts. Tests assert that they occur.
    fn conditions(&self, drives: &mut Drives) -> Vec<&'static str> {
        let _ = drives;
        Vec::new()
    }

    /// A number that rises with each change of the volume's metadata; `None` if nothing depends on it.
    fn version(&self, drives: &mut Drives) -> Option<u64> {
        let _ = drives;
        None
    }

    /// Looks at what a clean stop has left, where a life began with `version`.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, drives: &mut Drives, version: Option<u64>) -> Result<(), String> {
        let _ = (drives, version);
        Ok(())
    }

    /// True if the metadata can be read, and a start will find nothing behind it.
    fn is_settled(&self, drives: &mut Drives) -> bool {
        let _ = drives;
        false
    }

    /// Whether what is found after a kill is durable as soon as hosts are let in.
    fn outlives_kills(&self) -> bool {
        false
    }

    /// Source of the tables of such a volume, or `None` if no scenario swaps tables.
    fn tables(&self) -> Option<Box<dyn Tables>> {
        None
    }

    /// True if some scenarios remove a member of the volume, have zoned disks with a short last zone, or hosts that refuse writes.
    fn is_removable(&self) -> bool {
        false
    }

    /// True if no damage of data is read without an error.
    fn has_checksums(&self) -> bool {
        true
    }

    /// Damages metadata after a clean stop, as far as the format can tell: a start loses nothing because of it.
    fn damage(&self, drives: &mut Drives, choices: &mut Choices) -> Result<(), String> {
        let _ = (drives, choices);
        Ok(())
    }

    /// Things that an operator may say to it while it is used.
    fn messages(&self) -> &'static str {
        ""
    }
}

/// A device that was put on the disks.
pub(super) struct Built {
    /// What it is made of, but for itself.
    pub parts: Vec<DeviceId>,
    pub device: DeviceId,
    /// What speaks for it.
    pub target: Option<DeviceId>,
}

/// The kind of which a run is.
pub(super) fn of(options: &SwarmOptions) -> Box<dyn Kind> {
    let in_order = options.profile == Profile::Stl;
    match options.volume {
        Some(wrap) => Box::new(StandIn { wrap, in_order }),
        None if in_order => Box::new(Stl {
            over: options.over,
            #[cfg(feature = "sabotage")]
            sabotage: options.stl_sabotage,
        }),
        None => Box::new(DmZoned {
            tables: dmzoned_table::Tables {
                #[cfg(feature = "sabotage")]
                sabotage: options.sabotage,
            },
        }),
    }
}
