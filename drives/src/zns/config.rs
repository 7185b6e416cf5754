//! What a zoned SSD is asked to be.

use alloc::format;

use shingle_core::block::{Limits, ZonedLimits};
use shingle_core::time::Duration;
use shingle_core::zone::{ResourceLimits, ZoneGeometry};

use crate::error::{Fault, check};

/// Parameters of a zoned SSD. Lengths are in sectors unless the name says bytes; rates are in bytes per second. The default, all
/// zero, is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZnsConfig {
    /// Size of the device, a multiple of the zone size.
    pub capacity: u64,
    /// Logical and physical block size, in bytes.
    pub block_bytes: u32,
    /// Zone size, a power of two.
    pub zone_sectors: u64,
    /// Writable sectors of a zone.
    pub zone_capacity: u64,
    /// Most open zones; `None`: any number.
    pub max_open: Option<u32>,
    /// Most active zones; `None`: any number.
    pub max_active: Option<u32>,
    /// Longest read or write (NVMe's MDTS); `None`: any length.
    pub max_sectors: Option<u32>,
    /// Longest append (NVMe's ZASL); `None`: it does not append.
    pub max_append: Option<u32>,
    /// Whether what is in the write buffers is lost with the power. If not, capacitors save it.
    pub write_cache: bool,
    /// Whether it keeps what is written. If not, reads leave the memory of the bio as it is.
    pub memory_backed: bool,

    /// Time of the front end for a read; it handles one command at a time.
    pub read_command: Duration,
    /// Time of the front end for a write or a command that manages zones.
    pub write_command: Duration,
    /// Time of the front end for an append.
    pub append_command: Duration,
    /// Time that a write or append takes the front end in addition if the one before was for another zone.
    pub zone_switch: Duration,
    /// Time from the last step of a command until the host sees its completion.
    pub completion: Duration,
    /// More of that for an append: others do not wait for it.
    pub append_completion: Duration,
    /// Rate of the host interface, in each direction.
    pub link_rate: u64,

    /// Channels; each carries data to and from one die at a time.
    pub channels: u32,
    /// Dies on a channel; each does one thing at a time.
    pub dies_per_channel: u32,
    /// Dies that a zone is striped over, in program units.
    pub dies_per_zone: u32,
    /// Rate of a channel.
    pub channel_rate: u64,
    /// Rate at which full program units leave the write buffers of all zones together (encoding, parity, power).
    pub drain_rate: u64,
    /// What a die programs at once, in bytes.
    pub program_unit_bytes: u32,
    /// Time that a die takes to program a unit.
    pub program: Duration,
    /// Write buffer of a zone, in program units. A write is acknowledged when it is in there.
    pub buffer_units: u32,
    /// What a die reads at once, in bytes.
    pub page_bytes: u32,
    /// Time that a die takes to read a page.
    pub read: Duration,
    /// How far the dies read ahead of a reader that goes forward through a zone, in bytes; 0: not at all.
    pub read_ahead_bytes: u32,
    /// Time of a reset beside the erasing, unless the zone is empty.
    pub reset: Duration,
    /// Time to erase a block; the dies of a zone erase side by side.
    pub erase: Duration,
    /// Size of an erase block of one die, in bytes. A reset erases those blocks that were written.
    pub erase_block_bytes: u64,
    /// Rate at which a finish fills the unwritten rest of a zone.
    pub finish_rate: u64,
}

impl ZnsConfig {
    /// A drive of `zones` zones of 1 MiB with 4 KiB blocks that takes no time for anything: a start for one's own.
    #[must_use]
    pub fn new(zones: u32) -> Self {
        const NO_BOUND: u64 = 1 << 60;
        Self {
            capacity: u64::from(zones) * 2048,
            block_bytes: 4096,
            zone_sectors: 2048,
            zone_capacity: 2048,
            max_append: Some(2048),
            link_rate: NO_BOUND,
            channels: 1,
            dies_per_channel: 1,
            dies_per_zone: 1,
            channel_rate: NO_BOUND,
            drain_rate: NO_BOUND,
            program_unit_bytes: 4096,
            buffer_units: 2,
            page_bytes: 4096,
            erase_block_bytes: 1 << 20,
            finish_rate: NO_BOUND,
            ..Self::default()
        }
    }

    /// Dies of the device.
    #[must_use]
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// The limits of the device, if its parameters go together.
    pub(super) fn limits(&self) -> Result<Limits, Fault> {
        self.check_counts()?;
        let geometry = self.geometry()?;
        let resources = self.resources(&geometry)?;
        let zoned = ZonedLimits {
            max_open: resources.max_open(),
            max_active: resources.max_active(),
            max_append: self.max_append,
            write_granularity_bytes: self.block_bytes,
            ..ZonedLimits::new(geometry.zone_sectors()).with_conventional(geometry.conventional())
        };
        let limits = Limits {
            logical_block_bytes: self.block_bytes,
            physical_block_bytes: self.block_bytes,
            max_sectors: self.max_sectors,
            write_cache: self.write_cache,
            zoned: Some(zoned),
            ..Limits::new(self.capacity)
        };
        limits.validate()?;
        self.check_units(limits.block_sectors())?;
        Ok(limits)
    }

    pub(super) fn geometry(&self) -> Result<ZoneGeometry, Fault> {
        let is_whole = self.capacity.is_multiple_of(self.zone_sectors.max(1));
        check_values([(is_whole, "capacity", self.capacity, "a multiple of the zone size (in sectors)")])?;
        Ok(ZoneGeometry::new(self.capacity, self.zone_sectors, self.zone_capacity, 0)?)
    }

    pub(super) fn resources(&self, geometry: &ZoneGeometry) -> Result<ResourceLimits, Fault> {
        Ok(ResourceLimits::new(self.max_open, self.max_active)?.enforceable(geometry.sequential()))
    }

    fn check_counts(&self) -> Result<(), Fault> {
        let positive = [
            ("link_rate", self.link_rate),
            ("channel_rate", self.channel_rate),
            ("drain_rate", self.drain_rate),
            ("finish_rate", self.finish_rate),
            ("erase_block_bytes", self.erase_block_bytes),
            ("page_bytes", self.page_bytes.into()),
        ];
        check_values(positive.map(|(name, value)| (value > 0, name, value, "above 0")))?;
        let counts = [
            ("channels", self.channels),
            ("dies_per_channel", self.dies_per_channel),
            ("dies_per_zone", self.dies_per_zone),
            ("buffer_units", self.buffer_units),
        ];
        let in_bounds = |count: u32| (1..=1024).contains(&count);
        check_values(counts.map(|(name, count)| (in_bounds(count), name, count.into(), "between 1 and 1024")))?;
        let (set, needs) = (self.dies_per_zone, "a divisor of channels times dies_per_channel");
        check_values([(self.dies().is_multiple_of(set), "dies_per_zone", set.into(), needs)])
    }

    fn check_units(&self, block: u32) -> Result<(), Fault> {
        let (unit, capacity, append) = (self.program_unit_bytes, self.zone_capacity, self.max_append.unwrap_or(0));
        let unit_fits = unit > 0 && unit.is_multiple_of(self.block_bytes);
        let append_fits = append.is_multiple_of(block) && u64::from(append) <= capacity;
        let needs = "a multiple of the block size, at most the zone capacity (in sectors), or left out";
        check_values([
            (unit_fits, "program_unit_bytes", unit.into(), "a positive multiple of the block size"),
            (
                capacity.is_multiple_of(block.into()),
                "zone_capacity",
                capacity,
                "a multiple of the block size (in sectors)",
            ),
            (append_fits, "max_append", append.into(), needs),
        ])
    }
}

/// The first of these parameters that is not fine: whether each is, its name and value, and what it has to be.
fn check_values<const N: usize>(all: [(bool, &'static str, u64, &str); N]) -> Result<(), Fault> {
    check(all.map(|(fine, name, value, needs)| (fine, name, format!("is {value}; it has to be {needs}"))))
}
