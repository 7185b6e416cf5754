//! The disk as a device: what it is made of, and the turn of its two arms.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use super::cache::DirtyCache;
use super::config::{DRIVE, SmrConfig};
use super::jobs::{Command, Effect, Last, LinkJob, LinkWork, MediaJob, MediaWork};
use super::mechanics::{Head, Mechanics};
use crate::error::{DriveError, Fault};
use crate::medium::{KeptZones, Medium};
use shingle_core::block::{Bio, BlockDevice, Cx, Event, Limits};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{ZoneNo, ZoneState, ZonedDisk};

/// The device.
pub struct SmrDisk {
    pub(super) limits: Limits,
    pub(super) zones: KeptZones,
    pub(super) medium: Option<Medium>,
    pub(super) config: SmrConfig,
    pub(super) mechanics: Mechanics,
    /// Reads and writes that found the queue full.
    pub(super) outside: VecDeque<Command>,
    /// Reads and writes in the queue.
    pub(super) queued: u32,
    /// Writes that have not come in yet, in order of arrival.
    pub(super) writes: VecDeque<Command>,
    /// Reads that wait for the head.
    pub(super) reads: Vec<Command>,
    /// What has only to be answered.
    pub(super) answers: VecDeque<Command>,
    /// Flushes that wait for the medium.
    pub(super) flushes: VecDeque<Command>,
    /// Zone management that the head has to do.
    pub(super) chores: VecDeque<Command>,
    pub(super) cache: DirtyCache,
    pub(super) link: Option<LinkJob>,
    pub(super) media: Option<MediaJob>,
    pub(super) head: Head,
    pub(super) last: Last,
    pub(super) reads_in_a_row: u32,
    pub(super) nearest_in_a_row: u32,
    numbers: u64,
}

impl SmrDisk {
    /// A disk with these parameters.
    ///
    /// # Errors
    /// If they do not go together.
    pub fn new(config: &SmrConfig) -> Result<Self, DriveError> {
        Self::build(config).map_err(DriveError::of(DRIVE))
    }

    fn build(config: &SmrConfig) -> Result<Self, Fault> {
        let limits = config.limits()?;
        let geometry = config.geometry()?;
        let resources = config.resources(&geometry)?;
        let full = |zone| ZoneState::full(geometry.capacity_of(zone));
        let zones = if config.zones_full {
            ZonedDisk::restore(geometry, resources, full).expect("full zones are within any limit")
        } else {
            ZonedDisk::new(geometry, resources)
        };
        Ok(Self {
            limits,
            zones: zones.into(),
            medium: config.keep_data.then(Medium::default),
            mechanics: Mechanics::new(config, geometry),
            outside: VecDeque::new(),
            queued: 0,
            writes: VecDeque::new(),
            reads: Vec::new(),
            answers: VecDeque::new(),
            flushes: VecDeque::new(),
            chores: VecDeque::new(),
            cache: DirtyCache::new(config.cache.in_use()),
            link: None,
            media: None,
            head: Head { next: Sector::ZERO, free_at: Instant::ZERO },
            last: Last::Other,
            reads_in_a_row: 0,
            nearest_in_a_row: 0,
            numbers: 0,
            config: SmrConfig { cache: config.cache.in_use(), ..config.clone() },
        })
    }

    /// The zones, for inspection.
    #[must_use]
    pub fn zones(&self) -> &ZonedDisk {
        &self.zones
    }

    /// Bytes that are acknowledged, or on their way in, and not on the medium.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Bytes of memory that the data takes; 0 if it is not kept.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.medium.as_ref().map_or(0, Medium::bytes)
    }

    /// The sustained rate in `zone`, in bytes per second.
    #[must_use]
    pub fn rate(&self, zone: ZoneNo) -> f64 {
        self.mechanics.rate(zone)
    }

    /// Time that the head takes from one zone to another, without the wait for the sector.
    #[must_use]
    pub fn seek_time(&self, from: ZoneNo, to: ZoneNo) -> Duration {
        self.mechanics.seek(from, to)
    }
}

impl BlockDevice for SmrDisk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let mut bio = bio;
        match self.take_effect(&mut bio) {
            Ok(Effect { missing, before }) => {
                self.numbers += 1;
                self.enqueue(Command { bio, number: self.numbers, void: false, before, missing, taken: 0, turn: 0 });
                self.work(cx);
            }
            Err(refusal) => {
                let reason = refusal.explain(&self.zones, bio.sector);
                cx.fail(bio, reason);
            }
        }
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        self.work(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let lists = [&self.outside, &self.writes, &self.answers, &self.flushes, &self.chores];
        lists.into_iter().flatten().chain(&self.reads).for_each(|command| visit(&command.bio));
        if let Some(LinkJob { work: LinkWork::Write(command, _) | LinkWork::Answer(command), .. }) = &self.link {
            visit(&command.bio);
        }
        if let Some(MediaJob { work: MediaWork::Read(command) | MediaWork::Chore(command), .. }) = &self.media {
            visit(&command.bio);
        }
        let waiters = self.cache.all().filter_map(|entry| entry.waiter.as_ref());
        waiters.for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let geometry = self.zones.geometry();
        write!(out, "smr: {} zones of {} sectors", geometry.zones(), geometry.zone_sectors())?;
        write!(out, " ({} conventional), turns in {} ns", geometry.conventional(), self.config.media.turn.0)
    }
}

impl SmrDisk {
    /// Ends what is done, and starts what can be.
    fn work(&mut self, cx: &mut Cx<'_>) {
        loop {
            let link = self.link.take_if(|job| job.done <= cx.now());
            let media = self.media.take_if(|job| job.done <= cx.now());
            let idle = link.is_none() && media.is_none();
            if let Some(job) = link {
                self.end_link(job.work, cx);
            }
            if let Some(job) = media {
                self.end_media(job, cx);
            }
            self.start_media(cx);
            self.start_link(cx);
            if idle {
                return;
            }
        }
    }
}
