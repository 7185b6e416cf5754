//! What is run on what.

use serde::{Deserialize, Serialize};
use shingle_core::dm::stl::Options;
use shingle_core::dm::stl::policy::Choice;
use shingle_host::profile::{Model, Profile};

use crate::reproduce::ProfileFacts;
use crate::reproduce::model::facts;

shingle_core::named_enum! {
    /// A load on drives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Row {
        /// Two hours of files on one disk.
        Files => "files",
        /// The same with an SSD.
        FilesSsd => "files-ssd",
        /// Eight hours of that.
        FilesSsdLong => "files-ssd-long",
        /// Random writes to an empty disk.
        Random => "random",
        /// Writes and flushes in turns.
        Sync => "sync",
        /// The same with an SSD.
        SyncSsd => "sync-ssd",
        /// Random writes to an aged volume.
        Uniform => "uniform",
        /// The same where a tenth of the blocks gets most of them.
        Skewed => "skewed",
        /// Random writes to an empty ZNS SSD.
        ZnsRandom => "zns-random",
        /// Random writes to an aged one.
        ZnsUniform => "zns-uniform",
        /// The same where a tenth of the blocks gets most of them.
        ZnsSkewed => "zns-skewed",
        /// Sequential reads.
        Read => "read",
        /// A start after a crash.
        Start => "start",
        /// A device in memory, on one core of this machine.
        Ram => "ram",
    }

    /// As the command line has it.
    fn name(self) -> &'static str;
}

shingle_core::named_enum! {
    /// What is between the load and the drives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum System {
        /// The target.
        Stl => "stl",
        /// It, if it cleans what has the fewest live blocks.
        Greedy => "stl-greedy",
        /// It, with memory for the whole map.
        InMemory => "stl-in-memory",
        /// dm-zoned with the kernel's policy.
        Kernel => "dm-zoned-kernel",
        /// dm-zoned with ours.
        Shingle => "dm-zoned-shingle",
        /// Nothing: zones are written in order.
        Drive => "drive",
    }

    /// As the command line has it.
    fn name(self) -> &'static str;
}

/// A row on a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// The row.
    pub row: Row,
    /// The system.
    pub system: System,
}

shingle_core::impl_display!(Experiment, |self, f| write!(f, "{} / {}", self.row.name(), self.system.name()));

/// How large the aged volumes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A share of the drive.
    Full,
    /// The same number of zones, each a 64th.
    Quick,
    /// So little that a test has time for it.
    Tiny,
}

impl Row {
    /// In words, above a section.
    pub fn title(self) -> &'static str {
        match self {
            Row::Files => "Two hours of files on one disk",
            Row::FilesSsd => "Two hours of files, with an SSD in front",
            Row::FilesSsdLong => "Eight hours of files, with an SSD in front",
            Row::Random => "4 KiB random writes over 4 TB of an empty disk",
            Row::Sync => "4 KiB writes and flushes in turns",
            Row::SyncSsd => "4 KiB writes and flushes in turns, with an SSD",
            Row::Uniform => "4 KiB random writes to an aged disk, 80 % used",
            Row::Skewed => "90 % of the writes to 10 % of an aged disk; then the hot set moves",
            Row::ZnsRandom => "4 KiB random writes to an empty ZNS SSD",
            Row::ZnsUniform => "4 KiB random writes to an aged ZNS SSD, 80 % used",
            Row::ZnsSkewed => "90 % of the writes to 10 % of an aged ZNS SSD; then the hot set moves",
            Row::Read => "Sequential reads of what was written in order, and at random",
            Row::Start => "A start after a crash at full load",
            Row::Ram => "A device in memory, one core of this machine",
        }
    }

    /// What it is run on.
    pub fn systems(self) -> &'static [System] {
        use System::{Drive, Greedy, InMemory, Kernel, Shingle, Stl};
        match self {
            Row::FilesSsd | Row::FilesSsdLong => &[Stl, Kernel, Shingle],
            Row::Files | Row::Random | Row::Sync | Row::SyncSsd | Row::Read => &[Stl, Kernel, Shingle, Drive],
            Row::Uniform => &[Stl, InMemory, Kernel, Shingle],
            Row::Skewed => &[Stl, Greedy, Kernel, Shingle],
            Row::ZnsRandom => &[Stl, Kernel, Drive],
            Row::ZnsUniform => &[Stl, InMemory],
            Row::ZnsSkewed => &[Stl, Greedy],
            Row::Start => &[Stl],
            Row::Ram => &[Stl, Drive],
        }
    }

    /// Minutes that it takes at most, or a phase of it; a test has less time.
    pub fn minutes(self, size: Size) -> u32 {
        match (self, size) {
            (_, Size::Tiny) => 1,
            (Row::Uniform | Row::Skewed | Row::ZnsUniform | Row::ZnsSkewed, Size::Full) => 24 * 60,
            (Row::Uniform | Row::Skewed | Row::ZnsUniform | Row::ZnsSkewed, Size::Quick) => 10,
            (Row::Sync | Row::SyncSsd | Row::ZnsRandom | Row::Read | Row::Ram, _) => 2,
            (_, Size::Quick) => 5,
            (Row::Files | Row::FilesSsd, _) => 120,
            (Row::FilesSsdLong, _) => 480,
            (Row::Random, _) => 30,
            (Row::Start, _) => 20,
        }
    }

    /// Seconds between two looks.
    pub fn interval_s(self) -> u32 {
        match self {
            Row::Sync | Row::SyncSsd | Row::ZnsRandom | Row::Read | Row::Start | Row::Ram => 1,
            _ => 10,
        }
    }

    fn is_zns(self) -> bool {
        matches!(self, Row::ZnsRandom | Row::ZnsUniform | Row::ZnsSkewed)
    }

    /// Whether it is about a volume of which most was written more than once.
    pub fn is_aged(self) -> bool {
        matches!(self, Row::Uniform | Row::Skewed | Row::ZnsUniform | Row::ZnsSkewed)
    }

    /// The part of the drive that it takes.
    fn share(self) -> u64 {
        match self {
            Row::Uniform | Row::Skewed => 64,
            Row::ZnsUniform | Row::ZnsSkewed => 4,
            _ => 1,
        }
    }
}

/// The drives.
#[derive(Clone, Debug)]
pub struct Garage {
    disk: Profile,
    front: Profile,
    zns: Profile,
    /// Whether one of them is a user's own.
    pub has_own: bool,
}

impl Garage {
    /// Those that ship, and in place of one of them the user's own.
    ///
    /// # Errors
    /// If a profile cannot be read, or is none of a drive that there is a load for.
    pub fn new(own: Option<&str>) -> Result<Self, String> {
        let find = |name: &str| Profile::find(name).map_err(|error| error.to_string());
        let mut it =
            Self { disk: find("smr-15tb")?, front: find("ssd-500gb")?, zns: find("zns-1tb")?, has_own: own.is_some() };
        let Some(own) = own.map(find).transpose()? else { return Ok(it) };
        match &own.model {
            Model::Smr(_) => it.disk = own,
            Model::Ssd(_) => it.front = own,
            Model::Zns(_) => it.zns = own,
            _ => return Err(format!("profile `{}` is no SMR disk, no SSD and no ZNS SSD", own.name)),
        }
        Ok(it)
    }

    /// What models are made from.
    pub fn facts(&self) -> Vec<ProfileFacts> {
        [&self.disk, &self.front, &self.zns].map(facts).into()
    }

    /// The drives of a row: the SSD first, if there is one.
    pub fn drives(&self, row: Row, size: Size) -> Vec<Model> {
        let (front, zoned) = (&self.front.model, if row.is_zns() { &self.zns.model } else { &self.disk.model });
        let zoned = shrunk(zoned, row, size);
        match row {
            Row::FilesSsd | Row::FilesSsdLong | Row::SyncSsd => vec![front.clone(), zoned],
            _ => vec![zoned],
        }
    }
}

/// What of a drive's length is left.
fn shrunk(drive: &Model, row: Row, size: Size) -> Model {
    let (share, of_zone) = divisors(row, size);
    let mut drive = drive.clone();
    match &mut drive {
        Model::Smr(disk) => {
            disk.capacity = disk.capacity / disk.zone_sectors / share * (disk.zone_sectors / of_zone);
            disk.zone_sectors /= of_zone;
            disk.conventional = (u64::from(disk.conventional) / share) as u32;
            disk.manage.reset.0 /= of_zone;
            disk.manage.finish.0 /= of_zone;
        }
        Model::Zns(ssd) => {
            ssd.capacity = ssd.capacity / ssd.zone_sectors / share * (ssd.zone_sectors / of_zone);
            ssd.zone_sectors /= of_zone;
            ssd.zone_capacity = ssd.zone_capacity / of_zone / 8 * 8;
            let most = ssd.zone_capacity as u32;
            ssd.max_append = ssd.max_append.map(|append| append.min(most));
        }
        _ => {}
    }
    drive
}

/// By how much the number of zones and their length is less.
fn divisors(row: Row, size: Size) -> (u64, u64) {
    match (row.is_aged(), size, row.is_zns()) {
        (false, ..) => (1, 1),
        (true, Size::Full, _) => (row.share(), 1),
        (true, Size::Quick, _) => (row.share(), 64),
        (true, Size::Tiny, false) => (512, 256),
        (true, Size::Tiny, true) => (8, 2048),
    }
}

/// No share of a target's memory is less, or it does nothing but keep its books.
const LEAST_BYTES: usize = 128 << 10;

/// How the target is told to be on that: with so much less memory for its map as there is less of the drive. What it reads and writes at a time stays as
/// long as it is, and so does what a start may have to read: heads and platters are no faster.
pub fn options(experiment: Experiment, size: Size) -> Options {
    let (share, of_zone) = divisors(experiment.row, size);
    let (share, whole) = ((share * of_zone) as usize, Options::default());
    let options = Options {
        pending_bytes: (whole.pending_bytes / share).max(LEAST_BYTES),
        index_bytes: (whole.index_bytes / share).max(LEAST_BYTES),
        cached_extents: (whole.cached_extents / share).max(LEAST_BYTES / 64),
        ..whole
    };
    match experiment.system {
        // Of so few blocks users would take all that is left for copies.
        System::Greedy => Options { choice: Choice::Greedy, one_stream: size != Size::Tiny, ..options },
        // No bound makes it write what it knows before it has to.
        System::InMemory => {
            let all = usize::MAX / 4;
            Options { pending_bytes: all, index_bytes: all, cached_extents: all, ..whole }
        }
        _ => options,
    }
}

/// The experiments that `only` names: that one, those of the row of that name, or all that have it in theirs.
pub fn experiments(only: Option<&str>) -> Vec<Experiment> {
    let wanted = only.unwrap_or_default().to_lowercase();
    let of_row = |row: Row| row.systems().iter().map(move |system| Experiment { row, system: *system });
    let all: Vec<Experiment> = Row::ALL.into_iter().flat_map(of_row).collect();
    let pick = |fits: &dyn Fn(&Experiment) -> bool| all.iter().copied().filter(fits).collect::<Vec<_>>();
    let exact = pick(&|one| one.row.name() == wanted || one.to_string() == wanted);
    if exact.is_empty() { pick(&|one| one.to_string().contains(&wanted)) } else { exact }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_row_picks_that_row_and_another_word_all_that_have_it() {
        let names = |only| experiments(only).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(Some("sync")).len(), 4);
        assert_eq!(names(Some("Uniform / stl")), ["uniform / stl"]);
        assert_eq!(names(Some("m / stl"))[..2], ["random / stl", "uniform / stl"]);
        assert_eq!(names(Some("greedy")), ["skewed / stl-greedy", "zns-skewed / stl-greedy"]);
        assert!(names(Some("floppy")).is_empty());
    }

    #[test]
    fn a_smaller_drive_has_less_memory_for_its_map_in_the_same_proportion() {
        let garage = Garage::new(None).unwrap();
        let experiment = Experiment { row: Row::Uniform, system: System::Stl };
        let drives = garage.drives(Row::Uniform, Size::Full);
        let Model::Smr(disk) = &drives[0] else { panic!("{drives:?}") };
        assert_eq!((disk.capacity / disk.zone_sectors, disk.conventional), (55_880 / 64, 524 / 64));
        assert_eq!(options(experiment, Size::Full).index_bytes, Options::default().index_bytes / 64);
    }
}
