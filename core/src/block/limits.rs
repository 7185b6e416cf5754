//! What a device accepts, and how limits stack.
//!
//! Limits are values, computed when a stack is built. `None` means "no limit" or "absent", never 0: 0 is rejected.

use core::ops::Range;

use crate::prelude::*;
use crate::sector::SECTOR_BYTES;

/// What a device accepts. Sizes are in sectors unless the name says bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the device.
    pub capacity: u64,
    /// Smallest unit of I/O, in bytes: a power of two from 512 up.
    pub logical_block_bytes: u32,
    /// Unit that the medium writes without a read first, in bytes.
    pub physical_block_bytes: u32,
    /// Longest read or write.
    pub max_sectors: Option<u32>,
    /// Most segments of memory in one bio.
    pub max_segments: Option<u32>,
    /// Longest `WriteZeroes`; `None`: the device does not do it.
    pub max_write_zeroes: Option<u32>,
    /// Longest `Discard`; `None`: the device does not do it.
    pub max_discard: Option<u32>,
    /// True if completed writes can be lost until a flush. The device then also honours PREFLUSH, and FUA if it has `fua`.
    pub write_cache: bool,
    /// True if no device below lacks FUA. For a device that lacks it the stack makes a write and a flush of a FUA write.
    pub fua: bool,
    /// Whether the medium turns.
    pub rotational: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Present on a host-managed zoned device.
    pub zoned: Option<ZonedLimits>,
}

/// What a zoned device accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonedLimits {
    /// Zone size: a power of two. No read or write crosses a zone.
    pub zone_sectors: u32,
    /// Numbers of the conventional zones: runs in rising order, with others between them.
    pub conventional: Vec<Range<u32>>,
    /// Most zones open at once.
    pub max_open: Option<u32>,
    /// Most zones active at once.
    pub max_active: Option<u32>,
    /// Longest native zone append; `None`: the device has none and a plug emulates it.
    pub max_append: Option<u32>,
    /// Unit of writes in sequential zones, in bytes.
    pub write_granularity_bytes: u32,
}

impl Limits {
    /// A regular device of `capacity` sectors with 512-byte blocks, no write cache and no other limit.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            logical_block_bytes: SECTOR_BYTES,
            physical_block_bytes: SECTOR_BYTES,
            max_sectors: None,
            max_segments: None,
            max_write_zeroes: None,
            max_discard: None,
            write_cache: false,
            fua: true,
            rotational: false,
            read_only: false,
            zoned: None,
        }
    }

    /// Sectors in a logical block.
    #[must_use]
    pub const fn block_sectors(&self) -> u32 {
        self.logical_block_bytes / SECTOR_BYTES
    }

    /// Number of zones; 0 for a regular device.
    #[must_use]
    pub fn zones(&self) -> u32 {
        self.zoned.as_ref().map_or(0, |z| self.capacity.div_ceil(u64::from(z.zone_sectors)) as u32)
    }

    /// Most active zones, if the device has a limit.
    #[must_use]
    pub fn max_active(&self) -> Option<u32> {
        self.zoned.as_ref().and_then(|zoned| zoned.max_active)
    }

    /// Whether writes to some of its zones have to keep an order.
    #[must_use]
    pub fn has_sequential_zones(&self) -> bool {
        self.zoned.as_ref().is_some_and(|zoned| zoned.sequential_in(0..self.zones()) > 0)
    }

    /// Checks that the values make sense together.
    pub fn validate(&self) -> Result<(), LimitsError> {
        let block = self.logical_block_bytes;
        let bad = |field, value: u64, needs| Err(LimitsError::Value { field, value, needs });
        if !block.is_power_of_two() || !(SECTOR_BYTES..=1 << 20).contains(&block) {
            return bad("logical block size", block.into(), "a power of two between 512 bytes and 1 MiB");
        }
        if self.physical_block_bytes < block || !self.physical_block_bytes.is_power_of_two() {
            return bad(
                "physical block size",
                self.physical_block_bytes.into(),
                "a power of two, at least the logical one",
            );
        }
        if self.capacity == 0 || !self.capacity.is_multiple_of(self.block_sectors().into()) {
            return bad("capacity", self.capacity, "a positive multiple of the logical block size (in sectors)");
        }
        let counted = [
            ("max_sectors", self.max_sectors, self.block_sectors()),
            ("max_segments", self.max_segments, 1),
            ("max_write_zeroes", self.max_write_zeroes, self.block_sectors()),
            ("max_discard", self.max_discard, self.block_sectors()),
        ];
        for (field, value, least) in counted {
            if value.is_some_and(|v| v < least) {
                return bad(field, value.unwrap_or(0).into(), "at least one logical block, or to be left out");
            }
        }
        self.zoned.as_ref().map_or(Ok(()), |zoned| zoned.validate(self))
    }

    /// Whether a device with these limits takes every bio that one with limits `old` takes.
    ///
    /// # Errors
    /// The first field in which it does not, with both values.
    pub fn serves(&self, old: &Limits) -> Result<(), LimitsError> {
        let fewer = |new: Option<u32>, old: Option<u32>| new.is_some_and(|new| old.is_none_or(|old| new < old));
        let lost = |new: Option<u32>, old: Option<u32>| old.is_some_and(|old| new.is_none_or(|new| new < old));
        let numbers = [
            ("capacity", self.capacity < old.capacity, self.capacity, old.capacity),
            (
                "logical block size",
                self.logical_block_bytes > old.logical_block_bytes,
                self.logical_block_bytes.into(),
                old.logical_block_bytes.into(),
            ),
        ];
        if let Some((field, _, new, old)) = numbers.into_iter().find(|(_, is_worse, ..)| *is_worse) {
            return Err(conflict(field, old.to_string(), new.to_string()));
        }
        let show = |value: Option<u32>| value.map_or("none".to_string(), |value| value.to_string());
        let options = [
            ("max_sectors", fewer(self.max_sectors, old.max_sectors), self.max_sectors, old.max_sectors),
            ("max_segments", fewer(self.max_segments, old.max_segments), self.max_segments, old.max_segments),
            (
                "max_write_zeroes",
                lost(self.max_write_zeroes, old.max_write_zeroes),
                self.max_write_zeroes,
                old.max_write_zeroes,
            ),
            ("max_discard", lost(self.max_discard, old.max_discard), self.max_discard, old.max_discard),
        ];
        if let Some((field, _, new, old)) = options.into_iter().find(|(_, is_worse, ..)| *is_worse) {
            return Err(conflict(field, show(old), show(new)));
        }
        if self.read_only && !old.read_only {
            return Err(conflict("read-only", "no".to_string(), "yes".to_string()));
        }
        if self.write_cache && !old.write_cache {
            return Err(conflict("write cache", "no".to_string(), "yes".to_string()));
        }
        if self.zoned != old.zoned {
            return Err(conflict("zones", alloc::format!("{:?}", old.zoned), alloc::format!("{:?}", self.zoned)));
        }
        Ok(())
    }

    /// The limits of a device that passes bios on to one with limits `below`: for each field the stricter of the two.
    ///
    /// Capacity stays our own. Two different zone sizes, or a zoned and a regular device, do not stack.
    pub fn stack(&self, below: &Limits) -> Result<Limits, LimitsError> {
        Ok(Limits {
            capacity: self.capacity,
            logical_block_bytes: self.logical_block_bytes.max(below.logical_block_bytes),
            physical_block_bytes: self.physical_block_bytes.max(below.physical_block_bytes),
            max_sectors: least(self.max_sectors, below.max_sectors),
            max_segments: least(self.max_segments, below.max_segments),
            max_write_zeroes: both(self.max_write_zeroes, below.max_write_zeroes),
            max_discard: both(self.max_discard, below.max_discard),
            write_cache: self.write_cache || below.write_cache,
            fua: self.fua && below.fua,
            rotational: self.rotational || below.rotational,
            read_only: self.read_only || below.read_only,
            zoned: match (&self.zoned, &below.zoned) {
                (None, None) => None,
                (Some(above), Some(below)) => Some(above.stack(below)?),
                _ => return Err(conflict("zoned model", model(self), model(below))),
            },
        })
    }
}

impl ZonedLimits {
    /// Zones of `zone_sectors` and nothing else.
    #[must_use]
    pub fn new(zone_sectors: u32) -> Self {
        Self {
            zone_sectors,
            conventional: Vec::new(),
            max_open: None,
            max_active: None,
            max_append: None,
            write_granularity_bytes: SECTOR_BYTES,
        }
    }

    /// The same with the first `count` zones conventional.
    #[must_use]
    pub fn with_conventional(self, count: u32) -> Self {
        let conventional = core::iter::once(0..count).filter(|run| !run.is_empty()).collect();
        Self { conventional, ..self }
    }

    /// How many of `zones` are sequential.
    #[must_use]
    pub fn sequential_in(&self, zones: Range<u32>) -> u32 {
        let inside = |run: &Range<u32>| run.end.min(zones.end).saturating_sub(run.start.max(zones.start));
        zones.end - zones.start - self.conventional.iter().map(inside).sum::<u32>()
    }

    /// Sectors that writes in sequential zones are multiples of.
    #[must_use]
    pub const fn write_unit(&self) -> u32 {
        self.write_granularity_bytes / SECTOR_BYTES
    }

    fn validate(&self, device: &Limits) -> Result<(), LimitsError> {
        let bad = |field, value: u32, needs| Err(LimitsError::Value { field, value: value.into(), needs });
        if !self.zone_sectors.is_power_of_two() || self.zone_sectors < device.block_sectors() {
            return bad("zone size", self.zone_sectors, "a power of two of at least one logical block (in sectors)");
        }
        let mut end = 0;
        for run in &self.conventional {
            if run.is_empty() || run.start < end || run.end > device.zones() {
                return bad("end of a run of conventional zones", run.end, "runs in rising order on the device");
            }
            end = run.end + 1;
        }
        if self.max_open == Some(0) || self.max_active == Some(0) || self.max_append == Some(0) {
            return bad("zone resource limit", 0, "to be left out when there is none");
        }
        if let (Some(open), Some(active)) = (self.max_open, self.max_active)
            && open > active
        {
            return bad("max_open", open, "at most max_active");
        }
        let granularity = self.write_granularity_bytes;
        let most = u64::from(self.zone_sectors) * u64::from(SECTOR_BYTES);
        if !granularity.is_power_of_two() || granularity < device.logical_block_bytes || u64::from(granularity) > most {
            return bad("zone write granularity", granularity, "a power of two from the logical block size to a zone");
        }
        Ok(())
    }

    fn stack(&self, below: &ZonedLimits) -> Result<ZonedLimits, LimitsError> {
        if self.zone_sectors != below.zone_sectors {
            return Err(conflict(
                "zone size in sectors",
                self.zone_sectors.to_string(),
                below.zone_sectors.to_string(),
            ));
        }
        Ok(ZonedLimits {
            zone_sectors: self.zone_sectors,
            conventional: self.conventional.clone(),
            max_open: least(self.max_open, below.max_open),
            max_active: least(self.max_active, below.max_active),
            max_append: both(self.max_append, below.max_append),
            write_granularity_bytes: self.write_granularity_bytes.max(below.write_granularity_bytes),
        })
    }
}

/// The stricter of two bounds, where absent means unbounded.
pub(crate) fn least(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The stricter of two bounds, where absent means that the operation is.
fn both(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    a.zip(b).map(|(a, b)| a.min(b))
}

fn model(limits: &Limits) -> String {
    if limits.zoned.is_some() { "host-managed" } else { "none" }.to_string()
}

fn conflict(field: &'static str, above: String, below: String) -> LimitsError {
    LimitsError::Conflict { field, above, below }
}

/// Invalid device limits, alone or in combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitsError {
    /// One value is out of its range.
    Value {
        /// Which.
        field: &'static str,
        /// What it is.
        value: u64,
        /// What it would have to be.
        needs: &'static str,
    },
    /// Two devices that should stack disagree.
    Conflict {
        /// About what.
        field: &'static str,
        /// The value above.
        above: String,
        /// The value below.
        below: String,
    },
}

impl_error!(LimitsError, |self, f| match self {
    Self::Value { field, value, needs } => write!(f, "{field} is {value}; it has to be {needs}"),
    Self::Conflict { field, above, below } => {
        write!(f, "{field} differs: {above} above, {below} below; devices that stack must agree on it")
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    fn zoned(zone_sectors: u32) -> Limits {
        Limits { zoned: Some(ZonedLimits::new(zone_sectors)), ..Limits::new(1 << 20) }
    }

    #[test]
    fn stacking_takes_the_stricter_value_of_every_field() {
        let above = Limits { max_sectors: Some(64), max_discard: Some(8), ..Limits::new(100) };
        let below = Limits {
            logical_block_bytes: 4096,
            physical_block_bytes: 4096,
            max_sectors: Some(32),
            max_segments: Some(7),
            write_cache: true,
            fua: false,
            read_only: true,
            ..Limits::new(1 << 20)
        };
        let stacked = above.stack(&below).unwrap();
        assert_eq!((stacked.capacity, stacked.logical_block_bytes), (100, 4096));
        assert_eq!((stacked.max_sectors, stacked.max_segments, stacked.max_discard), (Some(32), Some(7), None));
        assert!(stacked.write_cache && !stacked.fua && stacked.read_only && !stacked.rotational);
    }

    #[test]
    fn a_conflict_names_the_field_and_both_values() {
        let error = zoned(1024).stack(&zoned(2048)).unwrap_err().to_string();
        assert!(error.contains("zone size") && error.contains("1024") && error.contains("2048"), "{error}");
        let error = zoned(1024).stack(&Limits::new(8)).unwrap_err().to_string();
        assert!(error.contains("host-managed") && error.contains("none"), "{error}");
    }

    #[test]
    fn zero_is_never_a_limit() {
        for break_it in [
            (|l| l.max_sectors = Some(0)) as fn(&mut Limits),
            |l| l.max_segments = Some(0),
            |l| l.capacity = 0,
            |l| l.logical_block_bytes = 768,
            |l| l.physical_block_bytes = 256,
            |l| l.zoned.as_mut().unwrap().max_open = Some(0),
            |l| l.zoned.as_mut().unwrap().zone_sectors = 0,
        ] {
            let mut limits = zoned(1024);
            assert_eq!(limits.validate(), Ok(()));
            break_it(&mut limits);
            assert!(limits.validate().is_err(), "{limits:?}");
        }
    }

    #[test]
    fn more_open_than_active_zones_is_refused() {
        let mut limits = zoned(1024);
        limits.zoned.as_mut().unwrap().max_open = Some(5);
        limits.zoned.as_mut().unwrap().max_active = Some(4);
        assert!(limits.validate().unwrap_err().to_string().contains("max_open"));
    }
}
