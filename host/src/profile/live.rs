//! From a profile to a drive that is really there, of the size that is asked for.

use shingle_drives::live::Model as LiveModel;
use shingle_drives::{DriveError, RamConfig, RamDisk, SmrConfig, SmrDisk, Ssd, SsdConfig, ZnsConfig, ZnsSsd};

use super::Model;

/// How much of a profile's drive there is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The first zones.
    Zones(u32),
    /// So many bytes.
    Bytes(u64),
}

/// Why there can be no such part, or no such limit: the words behind the key that asked for it.
pub type Refusal = &'static str;

impl Model {
    /// Whether it can run as a live drive: those that only tests of software need cannot.
    #[must_use]
    pub fn is_drive(&self) -> bool {
        matches!(self, Self::Smr(_) | Self::Zns(_) | Self::Ssd(_) | Self::Ram(_))
    }

    /// True if a power cut may lose writes that were acknowledged and not flushed, false if it loses none; `None` for models that
    /// cannot run as a live drive.
    #[must_use]
    pub fn loses_unflushed_writes(&self) -> Option<bool> {
        match self {
            Self::Smr(config) => Some(config.cache.write_back),
            Self::Zns(config) => Some(config.write_cache),
            Self::Ssd(_) => Some(true),
            Self::Ram(_) => Some(false),
            Self::Link(..) | Self::Null(_) => None,
        }
    }

    /// Its name, as it stands behind `model =`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Smr(_) => "smr",
            Self::Zns(_) => "zns",
            Self::Ssd(_) => "ssd",
            Self::Ram(_) => "ram",
            Self::Link(..) => "link",
            Self::Null(_) => "null",
        }
    }

    /// Sectors of a zone, if it has zones.
    #[must_use]
    pub fn zone_sectors(&self) -> Option<u64> {
        match self {
            Self::Smr(config) => Some(config.zone_sectors),
            Self::Zns(config) => Some(config.zone_sectors),
            _ => None,
        }
    }

    fn capacity(&mut self) -> Option<&mut u64> {
        match self {
            Self::Smr(config) => Some(&mut config.capacity),
            Self::Zns(config) => Some(&mut config.capacity),
            Self::Ssd(config) => Some(&mut config.capacity),
            Self::Ram(config) => Some(&mut config.capacity),
            Self::Link(..) | Self::Null(_) => None,
        }
    }

    /// Makes it smaller. It stays as fast, and an SMR disk's head goes from edge to edge over what is left: a small disk is the
    /// large one with fewer zones on the same platters. Of its conventional zones it keeps the same share, rounded up.
    ///
    /// # Errors
    /// If there can be no such part.
    pub fn shrink(&mut self, part: Part) -> Result<(), Refusal> {
        let zone = self.zone_sectors();
        let sectors = match (part, zone) {
            (Part::Whole, _) => return Ok(()),
            (Part::Zones(zones), Some(zone)) => zone.saturating_mul(zones.into()),
            (Part::Zones(_), None) => return Err("is of zones, which this drive does not have: use `size`"),
            (Part::Bytes(bytes), Some(zone)) if !bytes.is_multiple_of(zone * 512) => {
                return Err("is not a multiple of the zone size");
            }
            (Part::Bytes(bytes), _) if !bytes.is_multiple_of(4096) => return Err("is not a multiple of 4096 bytes"),
            (Part::Bytes(bytes), _) => bytes / 512,
        };
        let Some(capacity) = self.capacity() else { return Err("cannot be set for this model") };
        if sectors == 0 || sectors > *capacity {
            return Err("is not between one zone or block, and the size of the profile's drive");
        }
        let whole = std::mem::replace(capacity, sectors);
        if let Self::Smr(config) = self {
            let share = u64::from(config.conventional) * sectors;
            config.conventional = u32::try_from(share.div_ceil(whole)).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// Sets how many zones may be open.
    ///
    /// # Errors
    /// If it is not zoned.
    pub fn limit_open(&mut self, most: u32) -> Result<(), Refusal> {
        match self {
            Self::Smr(config) => config.max_open = Some(most),
            Self::Zns(config) => config.max_open = Some(most),
            _ => return Err("is of zones, which this drive does not have"),
        }
        Ok(())
    }

    /// Sets how many zones may be open or closed.
    ///
    /// # Errors
    /// If such drives have no such limit.
    pub fn limit_active(&mut self, most: u32) -> Result<(), Refusal> {
        match self {
            Self::Zns(config) => config.max_active = Some(most),
            Self::Smr(_) => return Err("is a limit that SMR disks do not have: use `max-open`"),
            _ => return Err("is of zones, which this drive does not have"),
        }
        Ok(())
    }

    /// A live drive of this kind; `None` if it is no drive.
    ///
    /// # Errors
    /// If its parameters do not go together.
    pub fn to_live(&self, keep_data: bool) -> Option<Result<Box<dyn LiveModel>, DriveError>> {
        Some(match self {
            Self::Smr(config) => boxed(SmrDisk::new(&SmrConfig { keep_data, ..config.clone() })),
            Self::Zns(config) => boxed(ZnsSsd::new(ZnsConfig { memory_backed: keep_data, ..config.clone() })),
            Self::Ssd(config) => boxed(Ssd::new(&SsdConfig { memory_backed: keep_data, ..config.clone() })),
            Self::Ram(config) => boxed(RamDisk::new(&RamConfig { memory_backed: keep_data, ..config.clone() })),
            Self::Link(..) | Self::Null(_) => return None,
        })
    }
}

fn boxed<M: LiveModel>(made: Result<M, DriveError>) -> Result<Box<dyn LiveModel>, DriveError> {
    made.map(|model| Box::new(model) as _)
}
