//! The machine that the server runs on: disks, what lies on them, and one life of a session.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::super::base::{TRACE, add};
use super::super::scenario::discipline;
use super::super::volumes;
use super::kernel::Kernel;
use super::pages::{Finder, Pages};
use super::scenario::{Backing, Scenario};
use crate::choices::Choices;
use crate::disk::{CrashDisk, Medium, Powered};
use crate::fault::FaultPlan;
use shingle_core::block::{BlockDevice as _, Buffer, DeviceId, Event, Limits, Memory, PortId, RemoteMemory, Stack};
use shingle_core::frontend::ublk::{Next, RecordsShape, Session, SessionShape, Unflushed, ZoneRecords, log_bytes};
use shingle_core::plug::ZonePlug;
use shingle_core::time::Instant;

/// What outlives a server: the disks, and memory.
pub(super) struct Left {
    pub disks: Vec<CrashDisk>,
    /// Blocks of the volume, of dm-zoned.
    pub blocks: u32,
    pub memory: Option<Arc<dyn Memory>>,
    /// Those of requests.
    pub pages: Vec<Arc<Pages>>,
    /// The boot of the machine.
    pub owner: u64,
}

impl Left {
    /// Disks that were never used.
    pub fn new(scenario: &Scenario, choices: &mut Choices) -> Result<Self, String> {
        let (disks, blocks) = match &scenario.backing {
            Backing::Zoned(disk) | Backing::Forgetful(disk) => {
                let disk = CrashDisk::power_on(disk.clone(), FaultPlan::none(), choices.fork("disk", 1), None);
                (vec![disk.map_err(|error| error.to_string())?], 0)
            }
            Backing::DmZoned(seed) => {
                let (configs, _, media, blocks) = volumes::draw_set(*seed, choices)?;
                let disks = (1..).zip(configs.into_iter().zip(media)).map(|(number, (config, medium))| {
                    let choices = choices.fork("disk", number);
                    CrashDisk::power_on(config, FaultPlan::none(), choices, medium).map_err(|error| error.to_string())
                });
                (disks.collect::<Result<Vec<_>, _>>()?, blocks)
            }
        };
        Ok(Self { disks, blocks, memory: None, pages: pages(scenario), owner: 1 })
    }
}

/// Memory for requests, one of each tag.
pub(super) fn pages(scenario: &Scenario) -> Vec<Arc<Pages>> {
    (0..scenario.tags).map(|_| Pages::new(scenario.io_bytes() as usize)).collect()
}

/// A server that lives.
pub(super) struct Machine {
    pub stack: Stack,
    disks: Vec<DeviceId>,
    door: DeviceId,
    port: PortId,
    pub session: Session,
    /// What the session wants done.
    next: VecDeque<Next>,
    pub now: Instant,
    /// When something happens next.
    deadline: Option<Instant>,
}

impl Machine {
    /// A server on what is left.
    pub fn start(scenario: &Scenario, left: &mut Left, gone: Gone) -> Result<Self, String> {
        let mut stack = Stack::new();
        stack.set_trace(Some(TRACE));
        let (disks, parts) = pile(scenario, core::mem::take(&mut left.disks), left.blocks, &mut stack)?;
        let door = parts[parts.len() - 1];
        let mut now = Instant::ZERO;
        if matches!(scenario.backing, Backing::DmZoned(_)) {
            now = open(&mut stack, &parts)?;
        }
        let session = furnish(scenario, left, stack.limits(door), gone)?;
        let memories = left.pages.iter().filter(|_| stack.takes_remote(door));
        let session = session.with_remote(memories.map(|pages| pages.clone() as Arc<dyn RemoteMemory>));
        let (port, deadline) = (stack.open_port(), stack.turn(now));
        let mut machine = Self { stack, disks, door, port, session, next: VecDeque::new(), now, deadline };
        machine.collect();
        Ok(machine)
    }

    pub fn limits(&self) -> &Limits {
        self.stack.limits(self.door)
    }

    fn collect(&mut self) {
        while let Some(next) = self.session.poll() {
            self.next.push_back(next);
        }
    }

    /// Whether the session wants something done.
    pub fn has_next(&self) -> bool {
        !self.next.is_empty()
    }

    /// Does the next thing that the session wants. What it answers is returned: that is up to the kernel.
    pub fn do_next(&mut self) -> Option<Next> {
        match self.next.pop_front()? {
            Next::Submit(word, bio) => {
                self.stack.submit(self.port, word, self.door, bio);
                self.deadline = self.stack.turn(self.now);
                None
            }
            answer => Some(answer),
        }
    }

    pub fn has_completion(&self) -> bool {
        self.stack.has_completions(self.port)
    }

    pub fn complete(&mut self, kernel: &mut Kernel) {
        if let Some(done) = self.stack.poll_completion(self.port) {
            self.session.handle_completion(done.tag, done.bio, done.status, kernel);
            self.collect();
        }
    }

    /// Hands a request over; returns its tag and its number.
    pub fn begin(&mut self, kernel: &mut Kernel, choices: &mut Choices) -> Option<(u32, u64)> {
        let (tag, id, descriptor) = kernel.dispatch(choices)?;
        self.session.handle_request(tag, descriptor, kernel);
        self.collect();
        Some((tag, id))
    }

    /// Goes on to when something happens; whether it ever does.
    pub fn pass_time(&mut self) -> bool {
        let Some(next) = self.deadline else { return false };
        self.now = self.now.max(next);
        self.deadline = self.stack.turn(self.now);
        true
    }

    /// Whether nothing happens any more by itself, and appends wait for one that was done in part: then the server gives that up.
    pub fn give_up_parts(&mut self, kernel: &mut Kernel) -> bool {
        let is_stuck = self.next.is_empty() && !self.has_completion() && self.deadline.is_none();
        let gives_up = is_stuck && !kernel.can_dispatch() && self.session.is_holding();
        if gives_up {
            self.session.give_up_parts(kernel);
            self.collect();
        }
        gives_up
    }

    /// The first rule of zoned disks that somebody broke.
    pub fn complaint(&self) -> Option<String> {
        self.on_disks().find_map(|disk| disk.complaint()).map(|(_, what)| what)
    }

    fn on_disks(&self) -> impl Iterator<Item = &CrashDisk> {
        self.disks.iter().filter_map(|disk| self.stack.device(*disk))
    }

    /// The process is killed: what its disks are then.
    pub fn kill(&self, scenario: &Scenario, choices: &mut Choices) -> Result<Vec<CrashDisk>, String> {
        if matches!(scenario.backing, Backing::Forgetful(_)) {
            return self.cut_power(scenario, choices);
        }
        let disks = (1..).zip(self.on_disks());
        Ok(disks.map(|(number, disk)| choices.scoped("disk", number, |choices| disk.kill(choices))).collect())
    }

    /// The power goes, and is back: what is left on the disks.
    pub fn cut_power(&self, scenario: &Scenario, choices: &mut Choices) -> Result<Vec<CrashDisk>, String> {
        let restart = |(number, disk): (u64, &CrashDisk)| {
            let (config, plan) = (disk.config().clone(), FaultPlan::none());
            let fresh = choices.scoped("disk", number, |choices| {
                let medium: Medium = disk.cut_power(choices);
                CrashDisk::power_on(config, plan, choices.fork("disk", 0), medium)
            });
            let mut fresh = fresh.map_err(|error| error.to_string())?;
            if disk.limits().zoned.is_some() && matches!(scenario.backing, Backing::Zoned(_)) {
                fresh.expect(discipline(scenario.plug.policy, disk.config().rotational));
            }
            Ok(fresh)
        };
        (1..).zip(self.on_disks()).map(restart).collect()
    }
}

/// Guards that are taken away.
#[cfg(feature = "sabotage")]
pub(super) type Gone = shingle_core::frontend::ublk::Sabotage;
/// None is.
#[cfg(not(feature = "sabotage"))]
#[derive(Clone, Copy)]
pub(super) struct Gone;

/// Piles the layers up; returns the disks, and the parts that have to be ready.
fn pile(
    scenario: &Scenario,
    disks: Vec<CrashDisk>,
    blocks: u32,
    stack: &mut Stack,
) -> Result<(Vec<DeviceId>, Vec<DeviceId>), String> {
    if matches!(scenario.backing, Backing::DmZoned(_)) {
        return volumes::assemble(stack, disks, scenario.plug, blocks);
    }
    let mut ids = Vec::new();
    for mut disk in disks {
        if disk.limits().zoned.is_some() {
            disk.expect(discipline(scenario.plug.policy, disk.config().rotational));
        }
        ids.push(add(stack, Box::new(disk))?);
    }
    let mut top = ids[0];
    if scenario.registers {
        let finder = Finder::new(top, stack.limits(top));
        top = add(stack, Box::new(finder))?;
    }
    if stack.limits(top).zoned.is_some() {
        let plug = ZonePlug::new(top, stack.limits(top), scenario.plug).map_err(|error| error.to_string())?;
        top = add(stack, Box::new(plug))?;
    }
    Ok((ids, vec![top]))
}

/// Waits until a volume is loaded, and lets its users in; returns when that is.
fn open(stack: &mut Stack, parts: &[DeviceId]) -> Result<Instant, String> {
    let (door, mut now) = (parts[parts.len() - 1], Instant::ZERO);
    stack.suspend(door);
    for _ in 0..100_000 {
        let next = stack.turn(now);
        let missing = parts.iter().find_map(|part| stack.is_ready(*part).err());
        match (missing, next) {
            (None, _) => {
                parts.iter().for_each(|part| stack.deliver(*part, Event::Resume));
                stack.resume(door);
                return Ok(now);
            }
            (_, Some(next)) => now = now.max(next),
            (Some(missing), None) => return Err(missing),
        }
    }
    Err("the volume does not come up".into())
}

/// A session with what is left of the one before.
fn furnish(scenario: &Scenario, left: &mut Left, limits: &Limits, gone: Gone) -> Result<Session, String> {
    let io_bytes = scenario.io_bytes();
    let session = Session::new(SessionShape { tags: scenario.tags, io_bytes }).ok_or("no memory")?;
    #[cfg(feature = "sabotage")]
    let (session, boots_untold) = (session.without(gone), gone.boots_untold);
    #[cfg(not(feature = "sabotage"))]
    let (Gone, boots_untold) = (gone, false);
    let shape = limits.zoned.as_ref().map(|zoned| RecordsShape {
        zones: limits.zones(),
        zone_sectors: zoned.zone_sectors,
        tags: scenario.tags,
    });
    let bytes =
        shape.map_or(log_bytes((scenario.log * io_bytes.next_multiple_of(4096)) as usize), |shape| shape.bytes());
    let memory: Arc<dyn Memory> = match &left.memory {
        Some(memory) => memory.clone(),
        None => Arc::new(Buffer::try_new(bytes).ok_or("no memory")?),
    };
    left.memory = Some(memory.clone());
    let owner = if boots_untold { 1 } else { left.owner };
    match shape {
        Some(shape) => Ok(session.with_records(ZoneRecords::open(memory, owner, shape))),
        None => session.with_unflushed(Unflushed::open(memory, owner)).ok_or_else(|| "the log is too small".into()),
    }
}
