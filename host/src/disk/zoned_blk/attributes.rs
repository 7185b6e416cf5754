//! What sysfs says of a block device of the kernel (`Documentation/ABI/stable/sysfs-block`).

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use shingle_core::block::{Limits, LimitsError, ZonedLimits};
use shingle_core::named_enum;
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{Zone, ZoneKind};

use crate::disk::transfer::MOST_SEGMENTS;

named_enum! {
    /// Whether a disk has zones.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Model {
        /// It has none.
        None => "none",
        /// It takes random writes all the same. Kernels since Linux 6.9 call such a disk one without zones.
        HostAware => "host-aware",
        /// Sequential zones are written at their pointer only.
        HostManaged => "host-managed",
    }

    /// As sysfs has it.
    fn name(self) -> &'static str;
}

/// The attributes of a block device that matter for zones. Lengths are sectors of 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The kernel's name, as `sda`.
    pub name: String,
    /// What the vendor calls it; empty if it has no name.
    pub product: String,
    /// Its serial number; empty if the kernel does not tell.
    pub serial: String,
    /// How long it is.
    pub sectors: u64,
    /// Whether it has zones.
    pub model: Model,
    /// Length of a zone.
    pub zone_sectors: u64,
    /// Most zones that may be open, if there is a limit.
    pub max_open: Option<u32>,
    /// Most zones that may be active, if there is a limit.
    pub max_active: Option<u32>,
    /// Unit of reads and of writes to conventional zones, in bytes.
    pub logical_block_bytes: u32,
    /// Unit in which the medium is written, in bytes.
    pub physical_block_bytes: u32,
    /// Unit of writes to sequential zones, in bytes.
    pub write_granularity: u32,
    /// Longest command that the kernel does not cut.
    pub max_sectors: u32,
    /// Whether completed writes can be lost.
    pub write_cache: bool,
    /// Whether the disk itself makes single writes durable.
    pub fua: bool,
    /// Whether the medium turns.
    pub rotational: bool,
    /// The I/O scheduler in use; empty if it has none.
    pub scheduler: String,
    /// Whether the kernel has one zone write in flight for the whole disk; `None`: it cannot.
    pub one_write_at_a_time: Option<bool>,
}

/// The folder of the device with this number (`st_rdev`).
pub fn folder_of(device: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device)).into()
}

impl Attributes {
    /// Those of a disk of which nothing is known but its name.
    #[must_use]
    pub fn unknown(name: &str) -> Self {
        Self {
            name: name.into(),
            product: String::new(),
            serial: String::new(),
            sectors: 0,
            model: Model::None,
            zone_sectors: 0,
            max_open: None,
            max_active: None,
            logical_block_bytes: SECTOR_BYTES,
            physical_block_bytes: SECTOR_BYTES,
            write_granularity: SECTOR_BYTES,
            max_sectors: 0,
            write_cache: false,
            fua: false,
            rotational: false,
            scheduler: String::new(),
            one_write_at_a_time: None,
        }
    }

    /// Those of the block device at `path`.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(path: &Path) -> io::Result<Self> {
        Self::read(&folder_of(fs::metadata(path)?.rdev()))
    }

    /// Reads them from `folder`, which is that of a disk or of a link to it.
    ///
    /// # Errors
    /// If there is no such folder. What a kernel does not have is as its absence means.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let folder = fs::canonicalize(folder)?;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let text = |name: &str| fs::read_to_string(folder.join(name)).map(|text| text.trim().to_owned()).ok();
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
        let bytes = |name: &str| number(name).and_then(|bytes| u32::try_from(bytes).ok());
        let limit = |name: &str| bytes(name).filter(|limit| *limit > 0);
        let logical = limit("queue/logical_block_size").unwrap_or(SECTOR_BYTES);
        let physical = limit("queue/physical_block_size").unwrap_or(logical);
        let model = text("queue/zoned").unwrap_or_default();
        Ok(Self {
            product: text("device/model").unwrap_or_default(),
            serial: text("device/serial").or_else(|| text("serial")).unwrap_or_default(),
            sectors: number("size").unwrap_or(0),
            model: Model::ALL.into_iter().find(|known| known.name() == model).unwrap_or(Model::None),
            zone_sectors: number("queue/chunk_sectors").unwrap_or(0),
            max_open: limit("queue/max_open_zones"),
            max_active: limit("queue/max_active_zones"),
            logical_block_bytes: logical,
            physical_block_bytes: physical,
            write_granularity: limit("queue/zone_write_granularity").unwrap_or(physical),
            max_sectors: bytes("queue/max_sectors_kb").unwrap_or(0).saturating_mul(2),
            write_cache: text("queue/write_cache").is_some_and(|cache| cache == "write back"),
            fua: number("queue/fua") == Some(1),
            rotational: number("queue/rotational") == Some(1),
            scheduler: text("queue/scheduler").map(|all| chosen(&all)).unwrap_or_default(),
            one_write_at_a_time: number("queue/zoned_qd1_writes").map(|is_on| is_on == 1),
            ..Self::unknown(&name)
        })
    }

    /// How many zones it has, the last one perhaps short.
    #[must_use]
    pub fn zones(&self) -> u64 {
        if self.zone_sectors > 0 { self.sectors.div_ceil(self.zone_sectors) } else { 0 }
    }

    /// Room for a report of all zones.
    pub(super) fn room_for_zones(&self) -> Vec<Zone> {
        Vec::with_capacity(self.zones().min(u64::from(u32::MAX)) as usize)
    }

    /// The limits of a device over a disk of so many sectors, with these zones. Only their kinds count: in a report from the kernel's
    /// memory a short last zone is as long as all (Linux 7.2).
    ///
    /// # Errors
    /// What of it is no disk that can be used.
    pub fn limits(&self, sectors: u64, zones: &[Zone]) -> Result<Limits, LimitsError> {
        let limits = Limits {
            logical_block_bytes: self.logical_block_bytes,
            physical_block_bytes: self.physical_block_bytes,
            max_sectors: Some(self.max_sectors).filter(|sectors| *sectors > 0),
            max_segments: Some(MOST_SEGMENTS),
            write_cache: self.write_cache,
            rotational: self.rotational,
            zoned: Some(ZonedLimits {
                zone_sectors: u32::try_from(self.zone_sectors).unwrap_or(0),
                conventional: conventional(zones),
                max_open: self.max_open,
                max_active: self.max_active,
                max_append: None,
                write_granularity_bytes: self.write_granularity,
            }),
            ..Limits::new(sectors)
        };
        limits.validate()?;
        Ok(limits)
    }
}

/// The numbers of the conventional ones among `zones`.
fn conventional(zones: &[Zone]) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for (number, _) in (0..).zip(zones).filter(|(_, zone)| zone.kind == ZoneKind::Conventional) {
        match runs.last_mut() {
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}

/// Of `none [mq-deadline] kyber` the one in brackets.
fn chosen(schedulers: &str) -> String {
    let is_chosen = |word: &&str| word.starts_with('[') && word.ends_with(']');
    schedulers.split(' ').find(is_chosen).map(|word| word[1..word.len() - 1].to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_core::sector::Sector;
    use shingle_core::zone::Condition;

    /// What is read of a disk called `sdz` that has these files in sysfs.
    fn read(name: &str, files: &[(&str, &str)]) -> Attributes {
        let top = std::env::temp_dir().join(format!("shingle-attributes-{name}-{}", std::process::id()));
        for (name, text) in files {
            let file = top.join("sdz").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        assert!(Attributes::read(&top.join("sdy")).is_err(), "there is no such disk");
        let attributes = Attributes::read(&top.join("sdz")).unwrap();
        fs::remove_dir_all(top).unwrap();
        attributes
    }

    const SMR: [(&str, &str); 12] = [
        ("device/model", "HSH721414ALN6M0 "),
        ("queue/zoned", "host-managed"),
        ("queue/chunk_sectors", "524288"),
        ("queue/max_open_zones", "128"),
        ("queue/max_active_zones", "0"),
        ("queue/logical_block_size", "512"),
        ("queue/physical_block_size", "4096"),
        ("queue/zone_write_granularity", "4096"),
        ("queue/max_sectors_kb", "1280"),
        ("queue/write_cache", "write back"),
        ("queue/rotational", "1"),
        ("queue/scheduler", "none [mq-deadline] kyber"),
    ];

    fn zone(number: u64, kind: ZoneKind) -> Zone {
        let (start, len) = (Sector(number * 524_288), 524_288);
        Zone { start, len, capacity: len, wp: start, kind, cond: Condition::Empty }
    }

    #[test]
    fn a_disk_of_512_byte_blocks_is_written_in_units_of_its_granularity() {
        let disk = read("smr", &SMR);
        assert_eq!((&*disk.name, &*disk.product, &*disk.scheduler), ("sdz", "HSH721414ALN6M0", "mq-deadline"));
        assert_eq!((disk.model, disk.one_write_at_a_time, disk.fua), (Model::HostManaged, None, false));
        use ZoneKind::{Conventional as C, Sequential as S};
        let zones: Vec<Zone> = (0..).zip([C, C, S, S, C, S]).map(|(number, kind)| zone(number, kind)).collect();
        let limits = disk.limits(6 * 524_288 - 8, &zones).unwrap();
        let zoned = limits.zoned.unwrap();
        assert_eq!((limits.logical_block_bytes, zoned.write_granularity_bytes), (512, 4096));
        assert_eq!((zoned.conventional, zoned.max_open, zoned.max_active), (vec![0..2, 4..5], Some(128), None));
        assert_eq!((limits.capacity, limits.max_sectors), (6 * 524_288 - 8, Some(2560)));
    }

    #[test]
    fn what_a_kernel_does_not_say_is_as_its_absence_means() {
        let disk = read("old", &[("queue/logical_block_size", "4096")]);
        assert_eq!((disk.model, disk.physical_block_bytes, disk.write_granularity), (Model::None, 4096, 4096));
        assert!(!disk.write_cache && disk.scheduler.is_empty());
    }
}
