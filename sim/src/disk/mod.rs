//! A zoned disk that can lose its power, and that can fail at any command.
//!
//! ```text
//!   command ──> waits a random time ──> carried out ──> completion
//!               (others overtake it)        │
//!                                    journal per zone ── flush, FUA ──> image: what survives
//! ```
//!
//! Commands take effect when their time has come and complete at that moment, so a queue of them is executed in any order,
//! as on a drive. Acknowledged writes are volatile until a flush that came after them, a PREFLUSH or their own FUA; in a
//! sequential zone FUA takes all that lies before in the zone with it, since a zone never has a hole; elsewhere it does so unless
//! [`CrashConfig::fua_alone`]. Without a write cache
//! everything is durable at once. Zones that are open when the power goes are closed afterwards.
//!
//! A lost completion is ended by the disk itself, with [`Reason::NoAnswer`], when the time of the command is up. A bio has
//! one owner, so nobody above could end it; the disk stands for the host's driver as well, which aborts a command before it
//! gives up on it, and for that reason an aborted command never lands later.

mod conduct;
mod damage;
mod journal;
mod leaf;
mod platter;
mod recorded;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use conduct::Conduct;
pub use conduct::Discipline;
use journal::Image;
pub(super) use leaf::crash_disk;
pub use leaf::{Leaf, MakeDisk, OtherDisk, Powered};
use platter::Platter;

use super::fault::{Fault, FaultPlan};
use crate::choices::Choices;
use shingle_core::block::{
    Bio, BlockDevice, Cx, Event, Flags, Limits, LimitsError, Op, Reason, Refusal, Status, ZonedLimits,
};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{
    Condition, GeometryError, ResourceLimits, ZoneError, ZoneGeometry, ZoneKind, ZoneNo, ZonedDisk,
};

/// Everything that can be chosen about a disk.
#[derive(Clone, Debug)]
pub struct CrashConfig {
    /// The zones.
    pub geometry: ZoneGeometry,
    /// How many may be open and active.
    pub resources: ResourceLimits,
    /// Logical block, in bytes; also the unit of zone writes.
    pub block_bytes: u32,
    /// Longest read or write, in sectors.
    pub max_sectors: Option<u32>,
    /// Most segments of memory in one bio.
    pub max_segments: Option<u32>,
    /// Longest native append, in sectors; `None`: the disk does not append.
    pub max_append: Option<u32>,
    /// Longest zeroing, in sectors; `None`: the disk does not zero.
    pub max_write_zeroes: Option<u32>,
    /// Whether acknowledged writes are volatile.
    pub write_cache: bool,
    /// True if the disk honours FUA; without, the stack above makes a write and a flush of a FUA write.
    pub fua: bool,
    /// Whether a write with FUA to a conventional zone, or to a disk without zones, makes its own blocks durable and no others; or
    /// all of the zone.
    pub fua_alone: bool,
    /// Whether the medium turns.
    pub rotational: bool,
    /// Shortest time from arrival to completion.
    pub fastest: Duration,
    /// Longest time from arrival to completion, without faults.
    pub slowest: Duration,
    /// When the host gives up on a command.
    pub timeout: Duration,
    /// The word of which sectors are full that were never written, or not since a reset: what was there before.
    pub unwritten: u64,
    /// `Some`: so many sectors of the first zone, which is conventional, are all that can be seen, and no zones.
    pub regular: Option<u64>,
}

impl CrashConfig {
    /// A disk of `capacity` sectors without zones, otherwise as [`CrashConfig::new`] has it: one conventional zone, and a
    /// sequential one that nobody sees.
    ///
    /// # Errors
    /// If there can be no zone of that size.
    pub fn regular(capacity: u64) -> Result<Self, GeometryError> {
        let zone = capacity.next_power_of_two();
        let geometry = ZoneGeometry::new(2 * zone, zone, zone, 1)?;
        Ok(Self { regular: Some(capacity), ..Self::new(geometry) })
    }

    /// A disk with these zones and no limit at all, a write cache, and commands that take 20 us to 2 ms.
    #[must_use]
    pub fn new(geometry: ZoneGeometry) -> Self {
        Self {
            geometry,
            resources: ResourceLimits::NONE,
            block_bytes: 512,
            max_sectors: None,
            max_segments: None,
            max_append: Some(geometry.zone_sectors()),
            max_write_zeroes: Some(geometry.zone_sectors()),
            write_cache: true,
            fua: true,
            fua_alone: false,
            rotational: false,
            fastest: Duration::from_micros(20),
            slowest: Duration::from_millis(2),
            timeout: Duration::from_millis(1_000),
            unwritten: 0,
            regular: None,
        }
    }

    fn honours_fua(&self, bio: &Bio) -> bool {
        self.fua && bio.flags.has(Flags::FUA)
    }

    fn limits(&self) -> Limits {
        let capacity = self.regular.unwrap_or(self.geometry.capacity());
        Limits {
            logical_block_bytes: self.block_bytes,
            physical_block_bytes: self.block_bytes,
            max_sectors: self.max_sectors,
            max_segments: self.max_segments,
            max_write_zeroes: self.max_write_zeroes,
            write_cache: self.write_cache,
            fua: self.fua,
            rotational: self.rotational,
            zoned: self.regular.is_none().then(|| ZonedLimits {
                max_open: self.resources.max_open(),
                max_active: self.resources.max_active(),
                max_append: self.max_append,
                write_granularity_bytes: self.block_bytes,
                ..ZonedLimits::new(self.geometry.zone_sectors()).with_conventional(self.geometry.conventional())
            }),
            ..Limits::new(capacity)
        }
    }
}

/// What is left of a disk when its host is gone.
#[derive(Clone)]
pub struct Medium(Left);

#[derive(Clone)]
enum Left {
    /// Contents of its zones after a power loss, and how often they were damaged.
    Dark(Vec<(Image, Condition)>, u64),
    /// All that it knows, what is volatile included: its host was killed.
    Running(Box<Platter>),
}

impl Medium {
    fn unwritten(geometry: &ZoneGeometry) -> Self {
        let zone = |zone| (Image::unwritten(geometry.len(ZoneNo(zone))), Condition::Empty);
        Self(Left::Dark((0..geometry.zones()).map(zone).collect(), 0))
    }
}

/// The disk.
pub struct CrashDisk {
    config: CrashConfig,
    platter: Platter,
    plan: FaultPlan,
    choices: Choices,
    commands: BTreeMap<(Instant, u64), Command>,
    arrived: u64,
    /// Commands whose time has come so far.
    taken: u64,
    faults: Vec<u64>,
    all_faults: u64,
    /// True if its host has written something since the power came.
    is_in_use: bool,
    has_changed: bool,
    conduct: Conduct,
}

/// A command that waits for its time.
struct Command {
    bio: Box<Bio>,
    fate: Option<Fault>,
    /// The last change before it came: what a flush must make durable.
    after: u64,
    since: Instant,
    /// It is done, and its completion is lost.
    silent: bool,
    /// How it ended, if that was so already when it came.
    ended: Option<Status>,
}

impl CrashDisk {
    /// A disk that was never written. It behaves as `seed` says.
    pub fn new(config: CrashConfig, plan: FaultPlan, seed: u64) -> Result<Self, LimitsError> {
        Self::restart(config, plan, seed, None)
    }

    /// The same disk with its power back, or with another host; without a medium one that was never written.
    pub fn restart(
        config: CrashConfig,
        plan: FaultPlan,
        seed: u64,
        medium: impl Into<Option<Medium>>,
    ) -> Result<Self, LimitsError> {
        Self::power_on(config, plan, Choices::new(Rng::new(seed)), medium)
    }

    /// A disk as [`CrashDisk::restart`] makes it. `choices`: the time that each command takes, and its faults.
    pub(crate) fn power_on(
        config: CrashConfig,
        plan: FaultPlan,
        choices: Choices,
        medium: impl Into<Option<Medium>>,
    ) -> Result<Self, LimitsError> {
        let limits = config.limits();
        limits.validate()?;
        let count = config.geometry.zones();
        let platter = match medium.into().unwrap_or_else(|| Medium::unwritten(&config.geometry)).0 {
            Left::Dark(zones, damages) => Platter::new(&config, limits, (zones, damages)),
            Left::Running(platter) => *platter,
        };
        Ok(Self {
            platter,
            plan,
            choices,
            commands: BTreeMap::new(),
            arrived: 0,
            taken: 0,
            faults: vec![0; count as usize],
            all_faults: 0,
            is_in_use: false,
            has_changed: false,
            conduct: Conduct::new(count),
            config,
        })
    }

    /// True if a command that changes the disk was carried out since the power came, or failed.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// The power goes: what is left. The disk itself does not notice, so one run can be cut at many points.
    pub fn cut_power(&self, choices: &mut Choices) -> Medium {
        // Some of what is in flight has just been carried out, in any order; nobody was told.
        let mut left = self.platter.clone();
        let mut commands: Vec<_> = self.commands.values().collect();
        while !commands.is_empty() {
            let command = commands.swap_remove(choices.below("next", commands.len() as u64) as usize);
            if !command.silent && command.bio.op.is_write() && choices.chance("lands", 1, 2) {
                let _ = left.carry_out(&command.bio, u32::MAX, &self.plan.bad);
            }
        }
        left.survive(choices)
    }

    /// The power goes and comes back, and the host goes on: what is in flight ends without being done, or done without being told, and of
    /// what was volatile a part is gone.
    pub fn lose_power(&mut self, choices: &mut Choices, cx: &mut Cx<'_>) {
        let left = self.cut_power(choices);
        let left = Self::restart(self.config.clone(), FaultPlan::none(), 0, left).expect("it was a disk before");
        self.platter = left.platter;
        for Command { mut bio, .. } in core::mem::take(&mut self.commands).into_values() {
            let status = bio.blame(Reason::NoPower);
            self.complete(bio, status, cx);
        }
        if self.config.write_cache {
            self.conduct.lose_all();
        }
    }

    /// Its host is killed, and the disk goes on: with all that completed, and with some of what is in flight, in any order, a write
    /// of it perhaps in part. Nobody was told of that, and nothing that is volatile is lost. It behaves as `choices` say.
    #[must_use]
    pub fn kill(&self, choices: &mut Choices) -> Self {
        let mut platter = self.platter.clone();
        let (mut commands, block): (Vec<_>, _) = (self.commands.values().collect(), platter.limits.block_sectors());
        while !commands.is_empty() {
            let command = commands.swap_remove(choices.below("next", commands.len() as u64) as usize);
            if command.silent || !command.bio.op.is_write() || choices.usual("stays", 1, 2) {
                continue;
            }
            let blocks = u64::from(command.bio.sectors / block);
            let most = match choices.chance("torn", 1, 3) {
                true => choices.below("blocks", blocks + 1) as u32 * block,
                false => u32::MAX,
            };
            // What it is to make durable is if those below the host do that, and is not if the host would flush it afterwards.
            if command.bio.flags.has(Flags::PREFLUSH) {
                platter.commit(command.after);
            }
            let is_done = platter.carry_out(&command.bio, most, &self.plan.bad).is_ok();
            if is_done
                && (self.config.honours_fua(&command.bio) && choices.chance("durable", 1, 2)
                    || !self.config.write_cache)
            {
                platter.commit_of(&command.bio);
            }
        }
        let mut conduct = Conduct::new(self.config.geometry.zones());
        conduct.discipline = self.conduct.discipline;
        let (config, plan, faults) = (self.config.clone(), self.plan.clone(), self.faults.clone());
        let (commands, all_faults) = (BTreeMap::new(), self.all_faults);
        Self {
            config,
            platter,
            plan,
            choices: choices.fork("disk", 0),
            commands,
            arrived: 0,
            taken: 0,
            faults,
            all_faults,
            is_in_use: false,
            has_changed: false,
            conduct,
        }
    }

    /// The same, as what is left for another host.
    #[must_use]
    pub fn kill_host(&self, choices: &mut Choices) -> Medium {
        Medium(Left::Running(Box::new(self.kill(choices).platter)))
    }

    /// Its host loses its power for a while, and the disk does not: the same, and some of `late`, which was on its way, arrives in
    /// any order. What is left when it is all over; zones are closed then.
    #[must_use]
    pub fn lose_host(&self, mut late: Vec<&Bio>, choices: &mut Choices) -> Medium {
        let mut left = self.kill(choices).platter;
        while !late.is_empty() {
            let bio = late.swap_remove(choices.below("next-late", late.len() as u64) as usize);
            if bio.op.is_write() && choices.chance("arrives", 1, 2) {
                let _ = left.carry_out(bio, u32::MAX, &self.plan.bad);
            }
        }
        left.commit(u64::MAX);
        left.survive(choices)
    }

    /// What was chosen about it.
    #[must_use]
    pub fn config(&self) -> &CrashConfig {
        &self.config
    }

    /// Commands that were carried out, or that failed, so far.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.taken
    }

    /// Times that something on it was made different from what was written, in this life or an earlier one.
    #[must_use]
    pub fn damages(&self) -> u64 {
        self.platter.damages
    }

    /// Makes `zone` read-only or offline, from now on and through losses of power. What is offline stays so.
    ///
    /// # Panics
    /// If it is a conventional zone.
    pub fn fail_zone(&mut self, zone: ZoneNo, offline: bool) {
        if self.platter.zones.state(zone).cond == Condition::Offline {
            return;
        }
        let set = if offline { ZonedDisk::set_offline } else { ZonedDisk::set_read_only };
        set(&mut self.platter.zones, zone).expect("a sequential zone can fail");
    }

    /// Blocks of a volume whose data is different from what was written, in this life.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = u32> {
        self.platter.damaged.iter().copied()
    }

    /// The zones, for inspection.
    #[must_use]
    pub fn zones(&self) -> &ZonedDisk {
        &self.platter.zones
    }
}

impl BlockDevice for CrashDisk {
    fn limits(&self) -> &Limits {
        &self.platter.limits
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.conduct.arrives(&bio, &self.config.geometry, now);
        self.choices.begin("command", self.arrived + 1);
        let fate = self.choose_fault(&bio, now).filter(|fault| fault.suits(bio.op));
        let mut takes = self.draw_latency();
        if let Some(Fault::Slow(times)) = fate {
            takes = Duration(takes.0.saturating_mul(times.into()));
        }
        // However slow, it ends before the host gives up on it: beyond that its completion would be lost, another fault.
        let (due, after) = (now + takes.min(self.config.timeout), self.platter.changes);
        // A report tells what was so at some moment while it was under way; here at the first or at the last.
        let is_early = bio.op == Op::ReportZones && fate.is_none() && takes.0 & 1 == 1;
        let ended = is_early.then(|| self.perform(&mut bio, after, now));
        self.wait(due, Command { bio, fate, after, since: now, silent: false, ended }, cx);
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        while let Some(entry) = self.commands.first_entry().filter(|entry| entry.key().0 <= cx.now()) {
            let command = entry.remove();
            self.taken += 1;
            self.choices.begin("carried-out", self.taken);
            self.take_turn(command, cx);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.commands.values().for_each(|command| visit(&command.bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (zones, sectors) = (self.config.geometry.zones(), self.config.geometry.zone_sectors());
        write!(out, "simulated disk of {zones} zones of {sectors} sectors that can lose its power")
    }
}

/// Behind a queue that somebody else keeps, who chooses the moment at which a command is carried out.
impl CrashDisk {
    /// A command comes; returns what a flush in it has to make durable, for [`CrashDisk::carry_out`].
    pub fn arrives(&mut self, bio: &Bio, now: Instant) -> u64 {
        self.conduct.arrives(bio, &self.config.geometry, now);
        self.platter.changes
    }

    /// Carries a command out that has come, or fails as planned. One whose completion would be lost is done or not, and times out.
    pub fn carry_out(&mut self, bio: &mut Bio, after: u64, now: Instant) -> Status {
        self.taken += 1;
        self.choices.begin("carried-out", self.taken);
        let fate = self.choose_fault(bio, now).filter(|fault| fault.suits(bio.op) && fault.is_error());
        let Some(fault) = fate else { return self.perform(bio, after, now) };
        self.note_fault(bio);
        let fault = match fault {
            Fault::Lose if self.choices.chance("landed", 1, 2) => Fault::Landed(Status::Timeout),
            Fault::Lose => Fault::Fail(Status::Timeout),
            fault => fault,
        };
        self.misperform(bio, fault, (after, now))
    }

    /// A command that has come is answered.
    pub fn leaves(&mut self, bio: &Bio, status: Status) {
        self.conduct.leaves(bio, &self.config.geometry, status);
    }
}

impl CrashDisk {
    /// The fault of the command `bio`, if it has one.
    fn choose_fault(&mut self, bio: &Bio, now: Instant) -> Option<Fault> {
        let Self { plan, choices, .. } = self;
        // A recorded fault may come to a command of somebody who was promised that there is none.
        if plan.rules.is_empty() {
            return None;
        }
        choices.decide("fault", (None, &[]), |rng| plan.choose(bio, now, rng))
    }

    fn draw_latency(&mut self) -> Duration {
        let span = self.config.slowest.0.saturating_sub(self.config.fastest.0);
        Duration(self.config.fastest.0 + self.choices.below("delay-ns", span + 1))
    }

    fn wait(&mut self, due: Instant, command: Command, cx: &mut Cx<'_>) {
        self.commands.insert((due, self.arrived), command);
        self.arrived += 1;
        cx.wake_at(due, 0);
    }

    /// The time of a command has come.
    fn take_turn(&mut self, mut command: Command, cx: &mut Cx<'_>) {
        if command.silent {
            let waited = cx.now().since(command.since);
            let status = command.bio.blame(Reason::NoAnswer(waited));
            return self.complete(command.bio, status, cx);
        }
        let bio = &mut command.bio;
        if let Some(fault) = command.fate.filter(|fault| fault.is_error()) {
            self.note_fault(bio);
            if fault == Fault::Lose {
                if self.choices.chance("done", 1, 2) {
                    let _ = self.perform(bio, command.after, cx.now());
                }
                command.silent = true;
                let due = (command.since + self.config.timeout).max(cx.now());
                return self.wait(due, command, cx);
            }
            let status = self.misperform(bio, fault, (command.after, cx.now()));
            return self.complete(command.bio, status, cx);
        }
        let status = command.ended.unwrap_or_else(|| self.perform(bio, command.after, cx.now()));
        self.complete(command.bio, status, cx);
    }

    fn complete(&mut self, bio: Box<Bio>, status: Status, cx: &mut Cx<'_>) {
        self.conduct.leaves(&bio, &self.config.geometry, status);
        cx.complete(bio, status);
    }

    fn sequential_zone(&self, bio: &Bio) -> Option<ZoneNo> {
        let zone = self.platter.zones.zone_at(bio.sector).ok()?;
        (self.config.geometry.kind(zone) == ZoneKind::Sequential).then_some(zone)
    }

    /// Counts a fault for the zones that it concerns.
    fn note_fault(&mut self, bio: &Bio) {
        self.all_faults += 1;
        let one = self.platter.zones.zone_at(bio.sector).map_or(0..0, |zone| zone.0..zone.0 + 1);
        let zones = match bio.op {
            Op::ZoneResetAll => 0..self.config.geometry.zones(),
            Op::Flush | Op::ReportZones => 0..0,
            _ => one,
        };
        for zone in zones {
            self.faults[zone as usize] += 1;
            self.conduct.excuse(ZoneNo(zone));
        }
    }

    fn misperform(&mut self, bio: &mut Bio, fault: Fault, (after, now): (u64, Instant)) -> Status {
        match fault {
            Fault::Fail(status) => bio.blame(Reason::Injected(status)),
            Fault::Refuse(status) => bio.blame(Reason::Host(status, "a rule has the host refuse it".into())),
            Fault::Partial(status) => {
                let block = self.platter.limits.block_sectors();
                let most = self.choices.below("blocks", u64::from(bio.sectors / block)) as u32 * block;
                let done = self.perform_some(bio, most, (after, now));
                if done.is_ok() { bio.blame(Reason::Injected(status)) } else { done }
            }
            Fault::Landed(status) => {
                let done = self.perform(bio, after, now);
                if done.is_ok() { bio.blame(Reason::Injected(status)) } else { done }
            }
            Fault::ZoneReadOnly | Fault::ZoneOffline => {
                if let Some(zone) = self.sequential_zone(bio) {
                    self.fail_zone(zone, fault == Fault::ZoneOffline);
                }
                self.perform(bio, after, now)
            }
            Fault::Rot | Fault::Vanish | Fault::Stray => self.perform_wrongly(bio, fault, (after, now)),
            Fault::Lose | Fault::Slow(_) => self.perform(bio, after, now),
        }
    }

    /// Carries out a command and damages the medium, without an error. Until its host has written something it damages nothing: to a start, damage
    /// that comes before it has read the disk is damage from before the power loss.
    fn perform_wrongly(&mut self, bio: &mut Bio, fault: Fault, (after, now): (u64, Instant)) -> Status {
        if !self.is_in_use {
            return self.perform(bio, after, now);
        }
        if bio.op == Op::Read {
            self.platter.damage(bio, fault, &mut self.choices);
        }
        let done = self.perform(bio, after, now);
        if bio.op == Op::Write && done.is_ok() {
            self.platter.damage(bio, fault, &mut self.choices);
            if !self.config.write_cache || self.config.honours_fua(bio) {
                self.platter.commit_of(bio);
            }
        }
        done
    }

    fn perform(&mut self, bio: &mut Bio, after: u64, now: Instant) -> Status {
        self.perform_some(bio, u32::MAX, (after, now))
    }

    /// Carries out a command, of one that writes at most `most` sectors, with the durability that it asks for.
    fn perform_some(&mut self, bio: &mut Bio, most: u32, (after, now): (u64, Instant)) -> Status {
        if bio.op == Op::Flush || bio.flags.has(Flags::PREFLUSH) {
            self.platter.commit(after);
        }
        let zone = self.platter.zones.zone_at(bio.sector);
        let outcome = match bio.op {
            Op::ReportZones => self.platter.report(bio),
            _ => self.platter.carry_out(bio, most, &self.plan.bad).map(|sector| bio.sector = sector),
        };
        let unfit = [ZoneError::NotAtWritePointer, ZoneError::Full, ZoneError::BeyondCapacity];
        if let (Err(Refusal::Zone(error)), Ok(zone), Op::Write | Op::WriteZeroes) = (&outcome, zone, bio.op)
            && unfit.contains(error)
        {
            self.conduct.misplaced(zone, bio, now);
        }
        let durable = !self.config.write_cache || outcome.is_ok() && self.config.honours_fua(bio);
        if durable {
            self.platter.commit_of(bio);
        }
        self.is_in_use |= bio.op == Op::Write;
        self.has_changed |= bio.op.is_write();
        let Err(refusal) = outcome else { return Status::Ok };
        let reason = refusal.explain(&self.platter.zones, bio.sector);
        if matches!(reason, Reason::Medium) {
            self.note_fault(bio);
        }
        bio.blame(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by the swarm (append 179540365198): data of a zone that could not be read after a loss of power came back.
    #[test]
    fn a_zone_that_is_offline_does_not_become_readable_again() {
        let geometry = ZoneGeometry::new(128, 64, 64, 0).unwrap();
        let mut disk = CrashDisk::new(CrashConfig::new(geometry), FaultPlan::default(), 1).unwrap();
        for (offline, cond) in [(false, Condition::ReadOnly), (true, Condition::Offline), (false, Condition::Offline)] {
            disk.fail_zone(ZoneNo(1), offline);
            assert_eq!(disk.zones().state(ZoneNo(1)).cond, cond);
        }
    }
}
