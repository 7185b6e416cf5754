//! A zoned disk at the bottom of a swarm: the simulated one, or another that is asked the same.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use super::{CrashConfig, CrashDisk, Discipline, Medium};
use crate::choices::Choices;
use crate::fault::FaultPlan;
use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits};
use shingle_core::time::Instant;
use shingle_core::zone::{Condition, ZoneGeometry, ZoneNo};

/// A disk that can lose its power and fail, and that tells how often it did.
pub trait Powered: BlockDevice {
    /// From now on fails as `plan` says, or in its own manner if `plan` is not empty.
    fn set_plan(&mut self, plan: FaultPlan);

    /// From now on watches that the host keeps to `discipline`. No command may be in flight in a zone.
    fn expect(&mut self, discipline: Discipline) {
        let _ = discipline;
    }

    /// Something was done to `zone` that its host was told has failed: it may be wrong about the pointer.
    fn excuse(&mut self, zone: ZoneNo) {
        let _ = zone;
    }

    /// The first rule that the host, or the disk's own layers, broke, and when.
    fn complaint(&self) -> Option<(Instant, String)>;

    /// All faults that happened.
    fn faults(&self) -> u64;

    /// Faults that happened to commands of `zone`.
    fn faults_in(&self, zone: ZoneNo) -> u64;

    /// Whether `zone` is read-only or offline.
    fn has_failed(&self, zone: ZoneNo) -> bool;

    /// The power goes: what is left, for [`MakeDisk`].
    fn cut_power(&self, choices: &mut Choices) -> Box<dyn Any>;

    /// The same for a disk that has to give back what is in flight. Nobody hears of it: the host's power goes, too.
    fn go_dark(&mut self, choices: &mut Choices, cx: &mut Cx<'_>) -> Box<dyn Any> {
        let _ = cx;
        self.cut_power(choices)
    }

    /// The power goes and comes back, and the host goes on; whether this disk can do that.
    fn lose_power(&mut self, choices: &mut Choices, cx: &mut Cx<'_>) -> bool {
        let _ = (choices, cx);
        false
    }

    /// The host's power goes, and the disk keeps what it has: the same. Some of `late`, which was on its way, still arrives.
    fn lose_host(&self, late: Vec<&Bio>, choices: &mut Choices) -> Box<dyn Any> {
        let _ = late;
        self.cut_power(choices)
    }
}

/// Makes a disk that behaves as it is chosen: one that was never written, or of what [`Powered::cut_power`] has left.
pub type MakeDisk = fn(&CrashConfig, Choices, Option<Box<dyn Any>>) -> Result<Box<dyn Powered>, String>;

/// What stands in the place of the simulated disk.
#[derive(Clone, Copy, Debug)]
pub enum OtherDisk {
    /// One with a write cache whose zones are files: what was not flushed may read as zeroes after a loss of power.
    Files(MakeDisk),
    /// One that loses what the simulated one does, and neither appends nor zeroes.
    Plain(MakeDisk),
    /// A model of a drive, which besides writes its zones to their ends, has no shorter one, and reads as zeroes where nothing was
    /// written. It does not fail.
    Drive(MakeDisk),
}

impl OtherDisk {
    pub(crate) const fn make(self) -> MakeDisk {
        let (Self::Files(make) | Self::Plain(make) | Self::Drive(make)) = self;
        make
    }

    pub(crate) const fn is_of_files(self) -> bool {
        matches!(self, Self::Files(_))
    }

    /// Makes of a drawn shape one that this disk can have.
    pub(crate) fn suit(self, disk: &mut CrashConfig) {
        match self {
            Self::Files(_) => disk.write_cache = true,
            Self::Plain(_) => (disk.max_append, disk.max_write_zeroes) = (None, None),
            Self::Drive(_) => {
                (disk.max_append, disk.max_write_zeroes, disk.unwritten) = (None, None, 0);
                disk.geometry = whole_zones(&disk.geometry);
            }
        }
    }
}

/// As many zones, all of one size, which can be written to their ends.
fn whole_zones(of: &ZoneGeometry) -> ZoneGeometry {
    let (zone, zones) = (u64::from(of.zone_sectors()), u64::from(of.zones()));
    ZoneGeometry::new(zones * zone, zone, zone, of.conventional().into()).expect("a drawn shape is a shape")
}

/// The simulated disk: the usual [`MakeDisk`].
pub(crate) fn crash_disk(
    config: &CrashConfig,
    choices: Choices,
    left: Option<Box<dyn Any>>,
) -> Result<Box<dyn Powered>, String> {
    let medium = left.and_then(|left| left.downcast::<Medium>().ok()).map(|medium| *medium);
    let disk = CrashDisk::power_on(config.clone(), FaultPlan::none(), choices, medium);
    Ok(Box::new(disk.map_err(|error| error.to_string())?))
}

impl Powered for CrashDisk {
    fn set_plan(&mut self, plan: FaultPlan) {
        self.plan = plan;
    }

    fn expect(&mut self, discipline: Discipline) {
        self.conduct.discipline = discipline;
    }

    fn excuse(&mut self, zone: ZoneNo) {
        self.conduct.excuse(zone);
    }

    fn complaint(&self) -> Option<(Instant, String)> {
        self.conduct.complaint.clone()
    }

    fn faults(&self) -> u64 {
        self.all_faults
    }

    fn faults_in(&self, zone: ZoneNo) -> u64 {
        self.faults[zone.index()]
    }

    fn has_failed(&self, zone: ZoneNo) -> bool {
        matches!(self.zones().state(zone).cond, Condition::ReadOnly | Condition::Offline)
    }

    fn cut_power(&self, choices: &mut Choices) -> Box<dyn Any> {
        Box::new(CrashDisk::cut_power(self, choices))
    }

    fn lose_power(&mut self, choices: &mut Choices, cx: &mut Cx<'_>) -> bool {
        CrashDisk::lose_power(self, choices, cx);
        true
    }

    fn lose_host(&self, late: Vec<&Bio>, choices: &mut Choices) -> Box<dyn Any> {
        Box::new(CrashDisk::lose_host(self, late, choices))
    }
}

/// Such a disk as a device of a stack, of one type whatever it is.
pub struct Leaf(pub Box<dyn Powered>);

impl BlockDevice for Leaf {
    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    fn below(&self) -> &[DeviceId] {
        self.0.below()
    }

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.0.attached(cx);
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.0.submit(bio, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.0.on_event(event, cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.0.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.describe(out)
    }
}
