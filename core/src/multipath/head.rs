//! The head: one disk above several paths to it.
//!
//! ```text
//!            bio
//!             │     ┌── no path: waits, and fails after a time
//!          policy ──┤
//!             │     └── path 0 ... path n ──> the disk
//!             │              │
//!             │              ├── done, or an error of the disk: ends
//!             │              └── an error of the path: it is probed from now on, and the bio
//!             ├──────────────────── takes another one, if twice is harmless
//!             └── settled <──────── waits until the path is silent, if not
//! ```
//!
//! A command that changes something and that a path has given up may land later. So it is not sent again, and nobody is told that it
//! failed, before its path is silent ([`Silence`]). Then it is done or not, for good. Twice is harmless but for two: what of a write to a
//! sequential zone is done the zone's pointer tells, provided that nobody else writes to that zone (a plug above sees to that); and an append fails
//! unless it may be doubled.

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use slab::Slab;

use super::by_hand::WithoutPath;
use super::failover::Purpose;
use super::groups::Groups;
use super::guards::Guards;
use super::options::{HeadError, HeadOptions, MOST_PATHS};
use super::path::{Health, Path, PathConfig, PathCounters, PathReport};
use super::policy::{Access, Done, Io, IoClass, Node, PathView, PathWindow, PolicyKind, PolicyOptions};
use super::power::Losses;
use super::unsettled::Unsettled;
use crate::block::{
    Bio, BlockDevice, Cx, DeviceId, Event, Figure, Limits, MessageError, PathEvent, Payload, Reason, Status,
};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};
use crate::time::Instant;

/// A bio of a user.
pub(super) struct Job {
    pub bio: Box<Bio>,
    /// Where it is to go: a bio that comes back may have another sector.
    pub sector: Sector,
    /// How often its path has had it and the disk had no time.
    pub attempts: u8,
    /// Whether it is a write of which all or a part may be done: then its zone is looked at first.
    pub may_be_done: bool,
    /// How many losses of power the head knew of when it came.
    pub losses: u64,
}

impl Job {
    pub fn new(bio: Box<Bio>, losses: u64) -> Self {
        let sector = bio.sector;
        Self { bio, sector, attempts: 0, may_be_done: false, losses }
    }

    /// The bio as it came.
    pub fn restored(self) -> Box<Bio> {
        let Self { mut bio, sector, .. } = self;
        bio.sector = sector;
        bio
    }
}

/// A bio on a path.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub io: Io,
    pub sector: Sector,
    /// Of a report, how many zones it had: other disks may have been asked before.
    pub zones: u32,
    pub path: u8,
    pub attempts: u8,
    /// Whether it is the head's own.
    pub is_own: bool,
    /// How many losses of power the head knew of when it came.
    pub losses: u64,
}

impl Sent {
    /// A bio of a user as it is, about to be sent for the first time.
    #[inline]
    pub fn new(path: usize, bio: &Bio, io: Io, losses: u64) -> Self {
        let zones = if let Payload::Zones(zones) = &bio.payload { zones.len() as u32 } else { 0 };
        Self { io, sector: bio.sector, zones, path: path as u8, attempts: 0, is_own: false, losses }
    }
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadCounters {
    /// Bios that had to wait for a path.
    pub waited: u64,
    /// Bios that failed because there was none.
    pub without_path: u64,
    /// Appends that failed since nobody knows whether they are done.
    pub uncertain_appends: u64,
    /// Appends that were sent again although they may have been done.
    pub doubled_appends: u64,
    /// Changes that failed since their path never said that it was silent.
    pub unsettled: u64,
    /// Losses of power that have cost the disk its write cache.
    pub losses: u64,
}

/// What a timer is for: something that waits has waited long enough; a bio may go to its path again; the path of a number is probed.
pub(super) const TIME_IS_OVER: u64 = 0;
pub(super) const PAUSE_ENDS: u64 = 1;
const PROBES: u64 = 2;

pub(super) const fn probe_of(path: usize) -> u64 {
    PROBES + path as u64
}

/// The device.
pub struct Head {
    /// The devices of all paths, also of those that are leaving.
    pub(super) below: Vec<DeviceId>,
    pub(super) limits: Limits,
    /// What the disk at the end of all paths says it is.
    pub(super) identity: Option<String>,
    pub(super) options: HeadOptions,
    pub(super) policy: Groups,
    /// The paths. One that is removed leaves its number free, so that those of the others stay.
    pub(super) paths: Vec<Path>,
    /// What the policy sees of them.
    pub(super) views: Vec<PathView>,
    sent: Slab<Sent>,
    /// What the head's own bios on paths are for, by their words.
    own: BTreeMap<u64, Purpose>,
    /// What waits for a path, and since when there is none.
    pub(super) waiting: VecDeque<Job>,
    without_path: Option<Instant>,
    /// Since when none is left that could come back by itself.
    lost_since: Option<Instant>,
    /// What becomes of bios meanwhile.
    pub(super) without: WithoutPath,
    /// What waits for the disk to have time, with the path that is to get it again.
    pub(super) paused: VecDeque<(usize, Job)>,
    pub(super) unsettled: Unsettled,
    pub(super) losses: Losses,
    pub(super) counters: HeadCounters,
    pub(super) guards: Guards,
}

impl Head {
    /// A head above `paths`, which have these limits, with a policy.
    ///
    /// # Errors
    /// If they do not lead to one disk.
    pub fn new(paths: &[(PathConfig, &Limits)], kind: PolicyKind, options: HeadOptions) -> Result<Self, HeadError> {
        Self::grouped(paths, Groups::one(kind), options)
    }

    /// The same with paths in groups.
    ///
    /// # Errors
    /// If they do not lead to one disk.
    pub fn grouped(paths: &[(PathConfig, &Limits)], groups: Groups, options: HeadOptions) -> Result<Self, HeadError> {
        let [(first, limits), ..] = paths else { return Err(HeadError::Count(0)) };
        if paths.len() > MOST_PATHS {
            return Err(HeadError::Count(paths.len()));
        }
        let mut all = (*limits).clone();
        for (number, (path, own)) in paths.iter().enumerate() {
            if own.capacity != limits.capacity {
                return Err(HeadError::OtherSize(number, limits.capacity, own.capacity));
            }
            if path.identity != first.identity {
                let name = |of: &PathConfig| of.identity.clone().unwrap_or_else(|| "nothing".into());
                return Err(HeadError::OtherDisk(number, name(first), name(path)));
            }
            all = all.stack(own).map_err(|error| HeadError::Limits(number, error))?;
        }
        let losses = Losses::of_paths(paths.iter().map(|(path, _)| path.losses));
        let nodes: Vec<Option<Node>> = paths.iter().map(|(path, _)| path.node).collect();
        let paths: Vec<Path> = paths.iter().map(|(path, _)| Path::new(path)).collect();
        let view = |(number, path): (usize, &Path)| PathView {
            throughput: groups.throughput(number),
            node: nodes[number],
            ..PathView::new(path.access())
        };
        Ok(Self {
            below: paths.iter().map(|path| path.device).collect(),
            limits: all,
            identity: first.identity.clone(),
            views: paths.iter().enumerate().map(view).collect(),
            policy: groups,
            paths,
            sent: Slab::new(),
            own: BTreeMap::new(),
            waiting: VecDeque::new(),
            without_path: None,
            lost_since: None,
            without: WithoutPath::default(),
            paused: VecDeque::new(),
            unsettled: Unsettled::default(),
            losses,
            counters: HeadCounters::default(),
            guards: Guards::default(),
            options,
        })
    }

    /// The same without these guards.
    #[cfg(feature = "sabotage")]
    #[must_use]
    pub fn without(self, gone: super::Sabotage) -> Self {
        Self { guards: Guards::without(gone), ..self }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> PolicyKind {
        self.policy.kind()
    }

    /// NUMA node from which the head submits: that of its shard.
    #[must_use]
    pub fn node(&self) -> Node {
        self.options.node
    }

    /// Options of the policy.
    #[must_use]
    pub fn policy_options(&self) -> PolicyOptions {
        self.policy.options()
    }

    /// Measurements of a path by the policy, by node and kind of I/O; none of a policy that does not measure in windows.
    #[must_use]
    pub fn windows(&self, path: usize) -> Vec<PathWindow> {
        let mut windows = Vec::new();
        self.policy.windows(path, &mut |window| windows.push(window));
        windows
    }

    /// What a path has done.
    #[must_use]
    pub fn path(&self, path: usize) -> Option<PathCounters> {
        self.paths.get(path).map(|path| path.counters)
    }

    /// All paths, by their numbers.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> {
        let report = |(number, (path, view)): (usize, (&Path, &PathView))| PathReport {
            number,
            device: path.device,
            state: path.state,
            health: path.health(),
            node: view.node,
            in_flight: view.in_flight,
            counters: path.counters,
        };
        let all = self.paths.iter().zip(&self.views).enumerate();
        all.filter(|(_, (path, _))| path.health != Health::Gone).map(report)
    }

    /// Bios of users that are on no path now: they wait for one, for the disk, or for the silence of one.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.paused.len() + self.unsettled.jobs().count()
    }

    /// What the head has done.
    #[must_use]
    pub fn counters(&self) -> HeadCounters {
        self.counters
    }

    /// Switches to a policy with these options, which knows nothing yet but what is in flight. [`PolicyOptions::check`] has accepted them.
    pub fn set_policy(&mut self, kind: PolicyKind, options: PolicyOptions) {
        self.policy.set_policy(kind, options);
    }

    /// Paths take I/O now that did not, or the other way round.
    pub(super) fn changed(&mut self, cx: &mut Cx<'_>) {
        self.views.iter_mut().zip(&self.paths).for_each(|(view, path)| view.access = path.access());
        if self.guards.gone().classes_mixed {
            let usable = self.views.iter_mut().filter(|view| view.access != Access::Unusable);
            usable.for_each(|view| view.access = Access::Optimized);
        }
        self.policy.changed(&self.views);
        if self.views.iter().all(|view| view.access == Access::Unusable) {
            return self.note_loss(cx);
        }
        (self.without_path, self.lost_since) = (None, None);
        core::mem::take(&mut self.waiting).into_iter().for_each(|job| self.dispatch(job, cx));
    }

    /// Sends a bio that came back, or had to wait, where the policy says.
    #[cold]
    pub(super) fn dispatch(&mut self, job: Job, cx: &mut Cx<'_>) {
        let Some(job) = self.still_valid(job, cx) else { return };
        match self.choose(&job.bio, cx) {
            Some(path) => self.go_on(path, job, cx),
            None => self.wait(job, cx),
        }
    }

    pub(super) fn choose(&mut self, bio: &Bio, cx: &Cx<'_>) -> Option<usize> {
        self.policy.choose(&self.views, &self.io_of(bio, cx))
    }

    /// Sends a bio to its path again, unless another one would get it now.
    fn try_again(&mut self, path: usize, job: Job, cx: &mut Cx<'_>) {
        let Some(job) = self.still_valid(job, cx) else { return };
        let best = self.views.iter().map(|view| view.access).min();
        let is_best = best.is_some_and(|best| best == self.views[path].access && best != Access::Unusable);
        if is_best { self.go_on(path, job, cx) } else { self.dispatch(job, cx) }
    }

    fn go_on(&mut self, path: usize, job: Job, cx: &mut Cx<'_>) {
        if job.may_be_done { self.look(path, job, cx) } else { self.send(path, job, cx) }
    }

    #[inline]
    fn io_of(&self, bio: &Bio, cx: &Cx<'_>) -> Io {
        let class = bio.op.into();
        let bytes = if class == IoClass::Other { 0 } else { bio.sectors.saturating_mul(SECTOR_BYTES) };
        Io { at: cx.now(), node: self.options.node, class, bytes, ahead: 0, bytes_ahead: 0 }
    }

    pub(super) fn send(&mut self, path: usize, job: Job, cx: &mut Cx<'_>) {
        let (attempts, losses, bio) = (job.attempts, job.losses, job.restored());
        let sent = Sent { attempts, ..Sent::new(path, &bio, self.io_of(&bio, cx), losses) };
        self.submit_on(bio, sent, cx);
    }

    /// Sends a bio of the head's own.
    pub(super) fn send_own(&mut self, path: usize, bio: Bio, purpose: Purpose, cx: &mut Cx<'_>) {
        let bio = cx.own_bio(bio);
        self.own.insert(self.sent.vacant_key() as u64, purpose);
        let sent = Sent { is_own: true, ..Sent::new(path, &bio, self.io_of(&bio, cx), self.counters.losses) };
        self.submit_on(bio, sent, cx);
    }

    #[inline(always)]
    fn submit_on(&mut self, bio: Box<Bio>, sent: Sent, cx: &mut Cx<'_>) {
        let number = usize::from(sent.path);
        let (path, view) = (&mut self.paths[number], &mut self.views[number]);
        let pending = &view.pending[sent.io.class as usize];
        let io = Io { ahead: pending.count, bytes_ahead: pending.bytes, ..sent.io };
        let sent = Sent { io, ..sent };
        view.add(&io);
        path.counters.sent += 1;
        cx.submit(path.device, bio, self.sent.insert(sent) as u64);
    }

    /// A bio of the head's own has ended, or a user's that failed or was under way when the disk lost its power.
    #[cold]
    fn ended(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let Sent { path, sector, zones, attempts, losses, io, .. } = self.sent.remove(word as usize);
        if let (Payload::Zones(report), false) = (&mut bio.payload, status.is_ok()) {
            report.truncate(zones as usize);
        }
        let job = |bio| Job { bio, sector, attempts, may_be_done: false, losses };
        match self.own.remove(&word) {
            None if status.is_ok() => {
                if let Some(Job { bio, .. }) = self.still_valid(job(bio), cx) {
                    self.paths[usize::from(path)].counters.add(cx.now().since(io.at));
                    cx.complete(bio, status);
                }
            }
            None => self.failed(path.into(), job(bio), status, cx),
            Some(purpose) => self.handle_own(path.into(), purpose, (bio, status), cx),
        }
        self.let_go(path.into());
    }

    /// Has a bio wait for a path.
    #[cold]
    pub(super) fn wait(&mut self, job: Job, cx: &mut Cx<'_>) {
        let Some(job) = self.turned_away(job, cx) else { return };
        self.note_loss(cx);
        if self.is_lost(cx.now()) || self.waiting.len() >= self.options.most_waiting {
            return self.fail(job, cx);
        }
        self.counters.waited += 1;
        self.time_waiting(cx);
        self.waiting.push_back(job);
    }

    fn time_waiting(&mut self, cx: &mut Cx<'_>) {
        if self.without_path.is_none() {
            self.without_path = Some(cx.now());
            self.options.no_path_timeout.into_iter().for_each(|time| cx.wake_at(cx.now() + time, TIME_IS_OVER));
        }
    }

    /// Looks whether a path can come back by itself, now that none is usable.
    fn note_loss(&mut self, cx: &mut Cx<'_>) {
        let may_return = self.paths.iter().any(Path::may_return);
        if may_return == self.lost_since.is_none() {
            return;
        }
        if may_return {
            (self.lost_since, self.without_path) = (None, None);
            if !self.waiting.is_empty() {
                self.time_waiting(cx);
            }
            return;
        }
        self.lost_since = Some(cx.now());
        cx.wake_at(cx.now() + self.options.delayed_removal, TIME_IS_OVER);
        self.fail_if_lost(cx);
    }

    /// Whether there has been no path for so long that nobody waits for one any more.
    fn is_lost(&self, now: Instant) -> bool {
        let times = match self.lost_since {
            Some(since) => Some((since, self.options.delayed_removal)),
            None => self.without_path.zip(self.options.no_path_timeout),
        };
        times.is_some_and(|(since, time)| now.since(since) >= time)
    }

    /// Fails what waits for a path if nobody waits for one any more.
    pub(super) fn fail_if_lost(&mut self, cx: &mut Cx<'_>) {
        if self.is_lost(cx.now()) {
            core::mem::take(&mut self.waiting).into_iter().for_each(|job| self.fail(job, cx));
        }
    }

    pub(super) fn fail(&mut self, job: Job, cx: &mut Cx<'_>) {
        self.counters.without_path += 1;
        cx.fail(job.restored(), Reason::NoPath);
    }
}

impl BlockDevice for Head {
    keeps_limits_and_below!();

    fn attached(&mut self, cx: &mut Cx<'_>) {
        (0..self.paths.len()).for_each(|path| self.time_change(path, cx));
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.is_flushed_in_vain(&bio) {
            return cx.fail(bio, Reason::CacheLost);
        }
        let (io, losses) = (self.io_of(&bio, cx), self.counters.losses);
        match self.policy.choose(&self.views, &io) {
            Some(path) => {
                let sent = Sent::new(path, &bio, io, losses);
                self.submit_on(bio, sent, cx);
            }
            None => self.wait(Job::new(bio, losses), cx),
        }
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        let sent = &self.sent[word as usize];
        let (path, io) = (usize::from(sent.path), &sent.io);
        self.views[path].remove(io);
        self.policy.ended(path, io, Done { at: cx.now(), is_ok: status.is_ok() });
        if sent.is_own || !status.is_ok() || sent.losses != self.counters.losses {
            return self.ended(bio, status, word, cx);
        }
        self.paths[path].counters.add(cx.now().since(io.at));
        self.sent.remove(word as usize);
        self.let_go(path);
        cx.complete(bio, status);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(PAUSE_ENDS) => {
                let Some((path, job)) = self.paused.pop_front() else { return };
                self.try_again(path, job, cx);
                self.let_go(path);
            }
            Event::Timer(TIME_IS_OVER) => self.check(cx),
            Event::Timer(word) => self.probe((word - PROBES) as usize, cx),
            Event::Path(PathEvent::Silent { path, question }) => {
                let Some(path) = self.number_at(path) else { return };
                self.answered(path, question, cx);
                self.let_go(path);
            }
            Event::Path(PathEvent::State { path, state }) => {
                let Some(path) = self.number_at(path) else { return };
                self.set_state(path, state, cx);
            }
            Event::Path(PathEvent::Losses { losses, .. }) => self.note_losses(losses, cx),
            _ => {}
        }
    }

    fn hears_paths(&self) -> bool {
        true
    }

    fn hears_losses(&self) -> bool {
        true
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        let waiting = self.waiting.iter().chain(self.paused.iter().map(|(_, job)| job)).chain(self.unsettled.jobs());
        waiting.for_each(|job| visit(&job.bio));
    }

    fn takes_remote(&self, below: bool) -> bool {
        below
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "multipath: {} paths, {}", self.paths().count(), self.policy().name())
    }

    fn figures(&self, visit: &mut dyn FnMut(&'static str, Figure)) {
        visit("bios that waited for a path", Figure::Count(self.counters.waited));
        visit("bios that failed without one", Figure::Count(self.counters.without_path));
        visit("appends that failed undecided", Figure::Count(self.counters.uncertain_appends));
        visit("appends sent again", Figure::Count(self.counters.doubled_appends));
        visit("changes that failed unsettled", Figure::Count(self.counters.unsettled));
        visit("losses of a write cache", Figure::Count(self.counters.losses));
    }

    fn message(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<String, MessageError> {
        self.told(words, cx).map(|()| String::new())
    }
}
