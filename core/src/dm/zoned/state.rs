//! What the device and its tasks share.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use core::cell::RefCell;

use super::format::MapEntry;
use super::guards::Guards;
use super::policy::{Knobs, Pacer, Style, Urgency};
use super::sets::Sets;
use super::transfer::memory;
use super::volume::Volume;
use super::{BLOCK_BYTES, ChunkNo};
use crate::block::{Bio, Cx, Data, Flags, Reason, Status};
pub(super) use crate::dm::readiness::Readiness;
use crate::prelude::*;
use crate::task::Signal;
use crate::time::Instant;

/// What the device and its tasks share. Nobody holds it across an await.
pub(super) type Shared = Rc<RefCell<State>>;

/// Most blocks of zeroes in one write.
pub(super) const ZEROES: u32 = 256;

/// A chunk that reclaim leaves alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub until: Instant,
    /// Copies of it that failed in a row.
    pub failures: usize,
    /// Its zones. When it has others, all that is forgotten.
    pub entry: MapEntry,
}

/// What becomes of a bio once everything before it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is done.
    Complete,
    /// It goes on: only then it may write.
    Route,
}

/// How tasks are told that there may be something to do.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The metadata is loaded.
    pub loaded: Signal,
    /// Something is to be committed.
    pub commit: Signal,
    /// Zones are to be reset.
    pub clean: Signal,
    /// Zones are to be asked for their write pointers.
    pub recover: Signal,
    /// Space may have to be reclaimed.
    pub reclaim: Signal,
    /// Something went on that a task waits for.
    pub progress: Signal,
}

/// What the volume has done since it was loaded: blocks of 4 KiB, and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZonedCounters {
    /// Blocks that hosts wrote to sequential zones.
    pub direct_blocks: u64,
    /// Blocks that hosts wrote to cache or random zones.
    pub random_blocks: u64,
    /// Blocks of zeroes written in front of direct writes.
    pub filled_blocks: u64,
    /// Blocks that reclaim wrote.
    pub copied_blocks: u64,
    /// Zones that were reclaimed.
    pub reclaimed_zones: u64,
    /// Commits of metadata.
    pub commits: u64,
    /// Blocks of metadata written.
    pub metadata_blocks: u64,
}

impl ZonedCounters {
    /// Each with its name.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { direct_blocks, random_blocks, filled_blocks, copied_blocks, .. } = *self;
        let Self { reclaimed_zones, commits, metadata_blocks, .. } = *self;
        let blocks =
            [("direct_blocks", direct_blocks), ("random_blocks", random_blocks), ("filled_blocks", filled_blocks)];
        let reclaim = [("copied_blocks", copied_blocks), ("reclaimed_zones", reclaimed_zones)];
        blocks.into_iter().chain(reclaim).chain([("commits", commits), ("metadata_blocks", metadata_blocks)])
    }

    /// Blocks written to the disks for each that hosts wrote; 1 before the first.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        let hosts = self.direct_blocks + self.random_blocks;
        let all = hosts + self.filled_blocks + self.copied_blocks + self.metadata_blocks;
        if hosts == 0 { 1.0 } else { all as f64 / hosts as f64 }
    }
}

/// The volume, and the bios that wait in it.
pub(super) struct State {
    pub readiness: Readiness,
    pub volume: Volume,
    pub knobs: Knobs,
    pub pacer: Pacer,
    pub signals: Signals,
    /// [`ZEROES`] blocks of them, for what is written where nothing was.
    pub zeroes: Data,
    /// Where the metadata is, once it is loaded.
    pub sets: Option<Sets>,
    /// Whether tasks were told something since they last ran.
    pub is_notified: bool,
    /// Bios that came before the metadata was loaded.
    pub early: VecDeque<Box<Bio>>,
    /// Writes that wait for a free zone.
    pub starved: VecDeque<Box<Bio>>,
    /// Bios that wait until fewer zones are unrecorded: writes and discards that could add one.
    pub crowded: VecDeque<Box<Bio>>,
    /// Writes that wait for their time.
    pub paced: VecDeque<(Instant, Box<Bio>)>,
    /// Bios that wait for the next commit.
    pub flushes: Vec<(Box<Bio>, Then)>,
    /// Bios to be routed again.
    pub back: VecDeque<Box<Bio>>,
    /// Bios that are done.
    pub done: Vec<(Box<Bio>, Status)>,
    /// Chunks whose sequential zones are to be asked for their write pointers.
    pub to_recover: Vec<ChunkNo>,
    /// A commit is due though nobody waits for it.
    pub is_commit_due: bool,
    /// The timer for that is set.
    pub is_commit_timed: bool,
    /// The timer for idle reclaim is set.
    pub is_idle_timed: bool,
    /// The timer of paced writes is set.
    pub is_pace_timed: bool,
    /// Keeps the device from being drained while it suspends.
    pub token: Option<Box<Bio>>,
    /// It is to come to rest, or has.
    pub is_suspended: bool,
    /// Copies under way, and zones that are being reset or asked.
    pub jobs: u32,
    /// A commit is under way.
    pub is_committing: bool,
    /// Commits that failed one after the other.
    pub failed_commits: u32,
    /// It became read only with changes that are not durable and never will be.
    pub has_lost: bool,
    pub urgency: Urgency,
    pub guards: Guards,
    /// A host has written or discarded something since the metadata was loaded. Until then nothing is changed on the disks,
    /// as one of them can be an older copy.
    pub is_changed: bool,
    /// Reclaim waits until fewer zones are unrecorded.
    pub is_reclaim_crowded: bool,
    /// Somebody asked for reclaim whatever the policy says.
    pub is_reclaim_wanted: bool,
    /// There was nothing to reclaim when it was idle, and nobody has written since.
    pub is_reclaimed: bool,
    /// Chunks that reclaim leaves alone for a while.
    pub resting: BTreeMap<ChunkNo, Rest>,
    /// When the first of those has rested for which no timer is set.
    pub rested_at: Option<Instant>,
    /// The last bio of a host.
    pub last_io: Instant,
    pub counters: ZonedCounters,
    /// Things to be told: `dmsetup wait`.
    pub events: u64,
}

impl State {
    /// That of a volume that is not loaded, with memory for as long as it lives.
    pub fn new(volume: Volume) -> Result<Self, Reason> {
        let knobs = if volume.zones.has_cache { Knobs::default() } else { Knobs::without_cache() };
        Ok(Self {
            readiness: Readiness::Unloaded,
            zeroes: memory(ZEROES as usize * BLOCK_BYTES)?,
            volume,
            knobs,
            pacer: Pacer::default(),
            signals: Signals::default(),
            sets: None,
            is_notified: false,
            early: VecDeque::new(),
            starved: VecDeque::new(),
            crowded: VecDeque::new(),
            paced: VecDeque::new(),
            flushes: Vec::new(),
            back: VecDeque::new(),
            done: Vec::new(),
            to_recover: Vec::new(),
            is_commit_due: false,
            is_commit_timed: false,
            is_idle_timed: false,
            is_pace_timed: false,
            token: None,
            is_suspended: false,
            jobs: 0,
            is_committing: false,
            failed_commits: 0,
            has_lost: false,
            urgency: Urgency::None,
            guards: Guards::default(),
            is_changed: false,
            is_reclaim_crowded: false,
            is_reclaim_wanted: false,
            is_reclaimed: false,
            resting: BTreeMap::new(),
            rested_at: None,
            last_io: Instant::ZERO,
            counters: ZonedCounters::default(),
            events: 0,
        })
    }

    /// Has the zones buffer as the policy says: after the knobs were set, and after the zones were loaded.
    pub fn follow_style(&mut self) {
        self.volume.zones.random_buffers = self.knobs.style == Style::Kernel2020;
    }

    /// Tells the tasks that wait at a signal to look again.
    pub fn notify(&mut self, signal: impl FnOnce(&Signals) -> &Signal) {
        signal(&self.signals).notify();
        self.is_notified = true;
    }

    /// Makes it read only.
    pub fn degrade(&mut self, why: String) {
        if self.readiness == Readiness::Ready {
            self.readiness = Readiness::ReadOnly(why);
            self.has_lost = true;
            self.events += 1;
            let waiting =
                self.starved.drain(..).chain(self.crowded.drain(..)).chain(self.paced.drain(..).map(|(_, bio)| bio));
            self.back.extend(waiting);
            self.notify(|signals| &signals.progress);
            self.notify(|signals| &signals.commit);
        }
    }

    /// Why a flush fails after changes were lost.
    pub fn loss(&self) -> Reason {
        match &self.readiness {
            Readiness::ReadOnly(why) | Readiness::Failed(why) => Reason::VolumeLost(why.as_str().into()),
            _ => Reason::VolumeLost("its metadata is not durable".into()),
        }
    }

    /// Space may have become free: writes that wait for it try again.
    pub fn space_freed(&mut self) {
        self.back.append(&mut self.starved);
        self.notify(|signals| &signals.reclaim);
    }

    /// True if as many zones are unrecorded as may be: writes and discards that could add one, and copies wait for a commit and
    /// for resets. Copies that have begun, one on each device, can still add two each: the zone they write, and the one they
    /// replace.
    pub fn is_crowded(&self) -> bool {
        self.volume.zones.unrecorded >= self.knobs.unrecorded_zones && !self.guards.gone().unrecorded_unbound
    }

    /// True if a commit would make room for unrecorded zones, and it is time to.
    pub fn has_to_record(&self) -> bool {
        self.volume.zones.has_to_record(self.knobs.unrecorded_zones)
    }

    /// Fewer zones may be unrecorded: bios that wait for that try again.
    pub fn let_crowd_in(&mut self) {
        if !self.is_crowded() {
            self.back.append(&mut self.crowded);
            self.is_reclaim_crowded = false;
            self.notify(|signals| &signals.reclaim);
        }
    }

    /// Has `bio` wait until fewer zones are unrecorded.
    pub fn wait_in_crowd(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.flags.has(Flags::NOWAIT) {
            return cx.fail(bio, Reason::WouldWait("zones have to be reset first"));
        }
        self.crowded.push_back(bio);
        self.notify(|signals| &signals.clean);
        self.notify(|signals| &signals.commit);
    }

    /// Lets the bios that wait for `chunk` try again.
    pub fn wake_chunk(&mut self, chunk: ChunkNo) {
        if let Some(busy) = self.volume.busy.get_mut(&chunk) {
            self.back.append(&mut busy.waiting);
            self.is_notified = true;
        }
        self.volume.calm(chunk);
    }

    /// True if reclaim rests because of a suspend. While a write waits for a zone it does not rest: the suspend waits for the write.
    pub fn is_put_away(&self) -> bool {
        self.is_suspended && !self.is_starved()
    }

    /// Whether bios of hosts wait for space.
    pub fn is_starved(&self) -> bool {
        !self.starved.is_empty()
    }
}
