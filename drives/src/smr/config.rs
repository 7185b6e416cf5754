//! What an SMR disk is asked to be: every number that a profile sets, in the units of the core.

use alloc::format;

use shingle_core::block::{Limits, ZonedLimits};
use shingle_core::time::Duration;
use shingle_core::zone::{ResourceLimits, ZoneGeometry};

use crate::error::{DriveError, Fault, check};

/// What errors call it.
pub(super) const DRIVE: &str = "SMR disk";

/// Parameters of an SMR disk. Lengths are in sectors unless the name says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct SmrConfig {
    /// Size of the device.
    pub capacity: u64,
    /// Zone size, a power of two.
    pub zone_sectors: u64,
    /// Conventional zones; their addresses come first.
    pub conventional: u32,
    /// Where the conventional zones lie on the platters: the share of the capacity that lies outside of them, 0 to 1.
    pub conventional_at: f64,
    /// Most zones open at once; `None`: no limit.
    pub max_open: Option<u32>,
    /// Logical block size in bytes.
    pub logical_block_bytes: u32,
    /// Physical block size in bytes: the unit of writes to sequential zones.
    pub physical_block_bytes: u32,
    /// Longest command.
    pub max_sectors: u32,
    /// How the platters turn and what passes under the head.
    pub media: Media,
    /// How the head moves.
    pub seek: Seek,
    /// How commands and data come in.
    pub link: Link,
    /// What is kept until the head gets to it.
    pub cache: Cache,
    /// What zone management takes.
    pub manage: ZoneTimes,
    /// Whether data is kept. If not, reads leave the memory of the bio as it is, and memory does not grow with what was
    /// written.
    pub keep_data: bool,
    /// Whether sequential zones start full.
    pub zones_full: bool,
}

/// How the platters turn and what passes under the head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Media {
    /// Time of one turn.
    pub turn: Duration,
    /// Sustained rate at the outer edge, bytes per second, head and track switches included.
    pub outer_rate: f64,
    /// Rate at the inner edge, as a share of the outer one.
    pub inner_ratio: f64,
    /// Rate in conventional zones, as a share of what sequential ones would have in their place.
    pub conventional_ratio: f64,
}

/// How long the head takes to another place, settled and ready to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seek {
    /// To the neighbouring track.
    pub track: Duration,
    /// Mean over random pairs of places: as if over a third of the stroke.
    pub average: Duration,
    /// From edge to edge.
    pub full: Duration,
}

/// How commands and data come in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes per second.
    pub rate: f64,
    /// Time the controller spends on a command beside its data.
    pub command: Duration,
    /// Commands at the disk at once (NCQ); more wait outside.
    pub depth: u32,
}

/// What is kept until the head gets to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// Whether the volatile write cache is enabled: writes are acknowledged when they are in the cache, and a power loss takes
    /// those that were not flushed.
    pub write_back: bool,
    /// Size of the non-volatile cache in bytes; `None`: the disk has none. With `write_back` off, writes are acknowledged when
    /// they are in it, a power loss takes none of them, and they wait for the medium while it is full. Without it they are
    /// acknowledged when they are on the medium. With `write_back` on it is not used.
    pub non_volatile_bytes: Option<u64>,
    /// Unwritten data that is kept, in bytes. The zones that are being written share it equally.
    pub bytes: u64,
    /// The unit in which long writes come in, in bytes; also the least share of a zone.
    pub segment_bytes: u64,
    /// Unwritten commands, or segments of them, that are kept.
    pub entries: u32,
    /// Most bytes written at one place while another one has waited longer.
    pub run_bytes: u64,
    /// Whether the head then goes to what it reaches first, not to what has waited longest.
    pub nearest: bool,
    /// Most bytes of a long write that come in before the next one has its turn; `None`: its zone's share of the cache.
    pub turn_bytes: Option<u64>,
    /// How far the head goes on reading behind a read while nothing else is to be done, in bytes.
    pub look_ahead_bytes: u64,
}

impl Cache {
    /// True if what is in the cache survives a power loss.
    pub(super) fn is_durable(&self) -> bool {
        !self.write_back && self.non_volatile_bytes.is_some()
    }

    /// True if a write is acknowledged when it is in the cache, whether that is volatile or not.
    pub(super) fn acknowledges(&self) -> bool {
        self.write_back || self.is_durable()
    }

    /// The cache as it is used: of a durable one only the part that is non-volatile.
    pub(super) fn in_use(self) -> Self {
        let durable = self.non_volatile_bytes.filter(|_| self.is_durable());
        Self { bytes: durable.map_or(self.bytes, |bytes| bytes.min(self.bytes)), ..self }
    }

    /// Sectors of a write that come in before the next one has its turn, while `zones` are written.
    pub(super) fn share(&self, zones: usize) -> u32 {
        let share = self.bytes / zones.max(1) as u64;
        let turn = self.turn_bytes.filter(|_| zones > 1).map_or(share, |turn| turn.min(share));
        (turn / 512).min(u64::from(u32::MAX)) as u32
    }

    /// The unit in which long writes come in: whole 4 KiB.
    pub(super) fn segment_sectors(&self) -> u32 {
        (self.segment_bytes / 4096 * 8).min(u64::from(u32::MAX)) as u32
    }

    /// Whether a head that has been reading ahead for `time`, at `rate`, has not stopped yet.
    pub(super) fn look_ahead_covers(&self, time: Duration, rate: f64) -> bool {
        time.0 as f64 * rate <= self.look_ahead_bytes as f64 * 1e9
    }
}

/// What zone management takes, beside the command's own overhead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneTimes {
    /// A zone that is not empty becomes empty.
    pub reset: Duration,
    /// A zone becomes full.
    pub finish: Duration,
    /// A zone is opened explicitly, or closed.
    pub open_close: Duration,
}

impl SmrConfig {
    /// A disk with the mechanics of a 7200 rpm drive, `zones` zones of 256 MiB, one in a hundred of them conventional.
    #[must_use]
    pub fn new(zones: u32) -> Self {
        Self {
            capacity: u64::from(zones) * 524_288,
            zone_sectors: 524_288,
            conventional: zones / 100,
            conventional_at: 0.0,
            max_open: Some(128),
            logical_block_bytes: 4096,
            physical_block_bytes: 4096,
            max_sectors: 8192,
            media: Media {
                turn: Duration::from_nanos(8_333_333),
                outer_rate: 250e6,
                inner_ratio: 0.5,
                conventional_ratio: 1.0,
            },
            seek: Seek {
                track: Duration::from_micros(320),
                average: Duration::from_micros(8_200),
                full: Duration::from_micros(16_000),
            },
            link: Link { rate: 560e6, command: Duration::from_micros(20), depth: 32 },
            cache: Cache {
                write_back: true,
                non_volatile_bytes: None,
                bytes: 8 << 20,
                segment_bytes: 512 << 10,
                entries: 1024,
                run_bytes: 2 << 20,
                nearest: false,
                turn_bytes: None,
                look_ahead_bytes: 1 << 20,
            },
            manage: ZoneTimes {
                reset: Duration::from_millis(1),
                finish: Duration::from_millis(1),
                open_close: Duration::ZERO,
            },
            keep_data: true,
            zones_full: false,
        }
    }

    /// Checks that the parameters go together.
    pub fn validate(&self) -> Result<(), DriveError> {
        self.limits().map(drop).map_err(DriveError::of(DRIVE))
    }

    /// The limits of the device, if its parameters go together.
    pub(super) fn limits(&self) -> Result<Limits, Fault> {
        let geometry = self.geometry()?;
        let resources = self.resources(&geometry)?;
        self.check_mechanics()?;
        let limits = Limits {
            logical_block_bytes: self.logical_block_bytes,
            physical_block_bytes: self.physical_block_bytes,
            max_sectors: Some(self.max_sectors),
            write_cache: self.cache.write_back,
            rotational: true,
            zoned: Some(ZonedLimits {
                max_open: resources.max_open(),
                write_granularity_bytes: self.physical_block_bytes,
                ..ZonedLimits::new(geometry.zone_sectors()).with_conventional(geometry.conventional())
            }),
            ..Limits::new(self.capacity)
        };
        limits.validate()?;
        Ok(limits)
    }

    pub(super) fn geometry(&self) -> Result<ZoneGeometry, Fault> {
        Ok(ZoneGeometry::new(self.capacity, self.zone_sectors, self.zone_sectors, self.conventional.into())?)
    }

    pub(super) fn resources(&self, geometry: &ZoneGeometry) -> Result<ResourceLimits, Fault> {
        Ok(ResourceLimits::new(self.max_open, None)?.enforceable(geometry.sequential()))
    }

    fn check_mechanics(&self) -> Result<(), Fault> {
        let Seek { track, average, full } = self.seek;
        let positive = |rate: f64| rate.is_finite() && rate > 0.0;
        let share = |value: f64| value > 0.0 && value <= 1.0;
        let checks = [
            ((0.0..=1.0).contains(&self.conventional_at), "conventional_at", "between 0 and 1"),
            (self.media.turn > Duration::ZERO, "turn", "more than 0"),
            (positive(self.media.outer_rate), "outer_rate", "more than 0"),
            (share(self.media.inner_ratio), "inner_ratio", "above 0 and at most 1"),
            (share(self.media.conventional_ratio), "conventional_ratio", "above 0 and at most 1"),
            (track <= average && average <= full, "seek times", "in order: track, average, full stroke"),
            (positive(self.link.rate), "link rate", "more than 0"),
            (self.link.depth > 0, "link depth", "at least 1"),
            (self.cache.segment_bytes >= 4096, "cache segment", "at least 4096 bytes"),
            (self.cache.segment_bytes <= self.cache.bytes, "cache segment", "at most the size of the cache"),
            (
                self.cache.non_volatile_bytes.is_none_or(|bytes| self.cache.segment_bytes <= bytes),
                "cache segment",
                "at most the size of the non-volatile cache",
            ),
            (self.cache.entries > 0, "cache entries", "at least 1"),
        ];
        check(checks.map(|(fine, name, needs)| (fine, name, format!("has to be {needs}"))))
    }
}
