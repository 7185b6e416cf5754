//! How a seed is run.

use alloc::boxed::Box;
use alloc::string::String;

use super::tables::Meddle;
use crate::choices::Choices;
use crate::disk::OtherDisk;
use crate::profile::Profile;
#[cfg(feature = "sabotage")]
use shingle_core::block;
use shingle_core::block::{BlockDevice, DeviceId, Limits, Stack};
#[cfg(feature = "sabotage")]
use shingle_core::dm::stl;
#[cfg(feature = "sabotage")]
use shingle_core::dm::zoned::Sabotage;
#[cfg(feature = "sabotage")]
use shingle_core::frontend::ublk;
#[cfg(feature = "sabotage")]
use shingle_core::multipath;
use shingle_core::plug::PlugOptions;
#[cfg(feature = "sabotage")]
use shingle_core::scheduler;

/// Puts a device over another one.
pub type Wrap = fn(DeviceId, &Limits) -> Box<dyn BlockDevice>;
/// Makes what stands in the plug's place.
pub type MakePlug = fn(DeviceId, &Limits, PlugOptions) -> Box<dyn BlockDevice>;

/// Makes a volume of disks that are alone in a stack. Returns its blocks.
pub type FormatOver = fn(&mut Stack, &[DeviceId], &mut Choices) -> Result<u32, String>;
/// Makes the device of so many blocks over disks, or over the plugs on them, which have these limits.
pub type BuildOver = fn(&[DeviceId], &[Limits], u32) -> Result<Box<dyn BlockDevice>, String>;

/// A device over all disks of a set.
#[derive(Clone, Copy, Debug)]
pub struct Over {
    /// Makes the volume, once.
    pub format: FormatOver,
    /// Makes the device, at every start.
    pub build: BuildOver,
}

/// How a seed is run.
#[derive(Clone, Debug, Default)]
pub struct SwarmOptions {
    /// What is looked at most.
    pub profile: Profile,
    /// Most requests, if that is fewer than the seed draws: a run is cut short, not changed.
    pub ops: Option<u64>,
    /// Of the power cuts that a seed of [`Profile::DmZoned`] or [`Profile::Stl`] looks at, one out of so many is: the run stays the same.
    pub one_cut_of: Option<u64>,
    /// Whether the whole trace is kept as text.
    pub trace: bool,
    /// A device between disk and plug: bugs are planted with it.
    pub below_plug: Option<Wrap>,
    /// Another zoned disk. Not for worlds of mapped devices or volumes.
    pub disk: Option<OtherDisk>,
    /// A device right above the plug.
    pub above_plug: Option<Wrap>,
    /// Another plug.
    pub plug: Option<MakePlug>,
    /// A device above each mapped device, which hosts use in its place.
    pub above_tables: Option<Wrap>,
    /// A device over one regular disk, in the place of dm-zoned or another device over several.
    pub volume: Option<Wrap>,
    /// What [`Profile::Stl`] puts over its disks.
    pub over: Option<Over>,
    /// Whether nothing is wrong with the disks of a volume.
    pub sound: bool,
    /// Whether the disks of a volume have write caches, if that is not left to the seed.
    pub write_cache: Option<bool>,
    /// Guards of dm-zoned that are taken away.
    #[cfg(feature = "sabotage")]
    pub sabotage: Sabotage,
    /// Guards of `stl` that are taken away.
    #[cfg(feature = "sabotage")]
    pub stl_sabotage: stl::Sabotage,
    /// Guards of the server of a ublk device that are taken away.
    #[cfg(feature = "sabotage")]
    pub sabotage_ublk: ublk::Sabotage,
    /// Guards of the head over several paths that are taken away.
    #[cfg(feature = "sabotage")]
    pub sabotage_paths: multipath::Sabotage,
    /// Guards of the scheduler that are taken away.
    #[cfg(feature = "sabotage")]
    pub sabotage_scheduler: scheduler::Sabotage,
    /// Guards of emulated FUA that are taken away.
    #[cfg(feature = "sabotage")]
    pub sabotage_fua: block::Sabotage,
    /// Somebody who interferes with swaps.
    pub meddle: Option<Meddle>,
    /// Hosts go on until so many tables were swapped, however many requests that takes.
    pub swaps: Option<u64>,
}
