//! One life of the disks: from power on to a cut, or to a clean stop.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::base::{PATIENCE, stuck};
use super::audit::Auditor;
use super::host::Host;
use super::ledger::Shared;
use super::machine::{Machine, Operator, Switch, Verb, bare};
use super::removal::Removal;
use super::scenario::Branches;
use super::swaps::SwapOperator;
use super::{Judged, Media, Run};
use crate::choices::{Choices, choices_by_name};
use crate::model::{Rule, Violation};
use crate::volume::{Volume, VolumeRequest};
use crate::world::{Stop, World};
use shingle_core::block::Stack;
use shingle_core::time::{Duration, Instant};

/// Beside one loss of power in so many a kill is looked at.
const KILLS_ONE_OF: u64 = 4;

/// How much is read back after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing: it goes on at once.
    None,
    Some,
    All,
}

impl Look {
    pub fn choose(choices: &mut Choices) -> Self {
        choices.decide("read-back", (Look::All, &[Look::None, Look::Some, Look::All]), |rng| match rng.below(6) {
            0 => Look::None,
            1 => Look::Some,
            _ => Look::All,
        })
    }
}

choices_by_name!(Look);

/// What a life may lose before it has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The power of everything.
    Power,
    /// The process alone, which is killed: the disks go on.
    Process,
}

impl Loss {
    /// The scope of a recording that has what is lost after so many commands.
    pub const fn name(self) -> &'static str {
        match self {
            Loss::Power => "power-cut-after",
            Loss::Process => "kill-after",
        }
    }

    /// Returns the contents that the volume may have afterwards. If a disk `is_damaged`, a start may take the last batches for torn.
    fn befalls(self, volume: &Volume, is_damaged: bool) -> Volume {
        let mut left = volume.clone();
        if is_damaged {
            left.forgive();
        }
        match self {
            Loss::Power => left.power_cut(),
            Loss::Process => left.kill(),
        }
        left
    }
}

/// What is to happen in a life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub number: u64,
    /// What it loses, and after so many commands of the disks.
    pub cut_at: Option<(u64, Loss)>,
    pub look: Look,
    /// Whether the volume was just made.
    pub is_new: bool,
    /// Whether it is one of a branch, which has no branches.
    pub is_branch: bool,
    /// Whether it is only there for a last look.
    pub is_last: bool,
}

/// How a life ended, and what is left.
pub(super) enum End {
    Cut(Media),
    Stopped(Media),
}

/// A cut, and what may be on the disks then.
type Cut = (Media, Volume);

/// A life that is under way.
struct Scene<'r, 's> {
    machine: Machine,
    life: Life,
    shared: &'s Shared,
    /// For cuts.
    choices: &'r mut Choices,
    /// Commands so far.
    seen: u64,
    cut: Option<Cut>,
    /// The version of the metadata at its start.
    version: Option<u64>,
}

impl Run<'_> {
    /// Lives `life` on what is left on `media`.
    pub(super) fn live(
        &mut self,
        life: &Life,
        media: Option<Media>,
        shared: &Shared,
        choices: &mut Choices,
    ) -> Result<End, Violation> {
        if let Some(media) = media.as_ref().filter(|_| !life.is_new) {
            self.look_at_removal(media, shared, &mut super::branch_rng(self.seed, life.number, 2))?;
        }
        if let Some(media) = media.as_ref().filter(|_| !life.is_new) {
            self.read_by_format(life.number, media, shared)?;
        }
        let before = bare(self.scenario, media.clone(), &mut choices.rng().clone());
        let version = before.ok().and_then(|mut drives| self.kind.version(&mut drives));
        let built = Machine::build(self, media, shared, &mut choices.fork("machine", 0));
        let broken = |what| Violation::at_rest(Rule::Accepted, what);
        let (stack, machine) = built.map_err(broken)?;
        {
            let mut ledger = shared.borrow_mut();
            (ledger.machine, ledger.pause, ledger.is_dark) = (machine.clone(), Instant::ZERO, false);
        }
        let (mut world, mut draws) = (World::new(stack), choices.fork("users", 0));
        let mut scene = Scene { machine, life: *life, shared, choices, seen: 0, cut: None, version };
        let stopped = self.phases(&mut world, &mut scene, &mut draws)?;
        self.report.virtual_time.0 += world.now().0;
        self.report.faults += scene.machine.faults(&world.stack);
        self.count_swaps(shared);
        match scene.cut {
            Some((media, volume)) => {
                shared.borrow_mut().volume = volume;
                Ok(End::Cut(media))
            }
            None => Ok(End::Stopped(stopped)),
        }
    }

    /// The phases of a life. Returns what is left after a clean stop.
    fn phases(
        &mut self,
        world: &mut World,
        scene: &mut Scene<'_, '_>,
        draws: &mut Choices,
    ) -> Result<Media, Violation> {
        let (shared, machine) = (scene.shared.clone(), scene.machine.clone());
        let piece = 2 * self.scenario.zone_blocks;
        let audit = |after_cut, sparing: Option<Choices>| {
            Box::new(Auditor::new(shared.clone(), machine.door(), after_cut, (piece, sparing)))
        };
        world.add(Box::new(Switch::new(shared.clone(), machine.clone(), Verb::Open)));
        self.watch(world, scene)?;
        if !scene.life.is_new && scene.cut.is_none() {
            match scene.life.look {
                Look::None => shared.borrow_mut().volume.recovered(),
                Look::Some => _ = world.add(audit(true, Some(draws.fork("auditor", 0)))),
                Look::All => _ = world.add(audit(true, None)),
            }
            self.watch(world, scene)?;
        }
        if scene.cut.is_none() && !scene.life.is_last {
            machine.set_plans(&mut world.stack, &self.scenario.faults);
            self.populate(world, scene, draws);
            self.watch(world, scene)?;
        }
        if scene.cut.is_none() && !scene.life.is_last {
            machine.set_plans(&mut world.stack, &[]);
            world.add(audit(false, None));
            self.watch(world, scene)?;
        }
        if scene.cut.is_none() {
            world.add(Box::new(Switch::new(shared.clone(), machine.clone(), Verb::Stop)));
            self.watch(world, scene)?;
        }
        // Where something went wrong, the last commit may have as well.
        let is_hurt = shared.borrow().excuses(&world.stack);
        let stopped = self.stopped(world, scene, is_hurt);
        if scene.cut.is_none() && machine.is_damaged(&world.stack) {
            self.judge_damage(&stopped, &shared, draws);
        }
        if scene.cut.is_none() && !is_hurt {
            let checked = bare(self.scenario, Some(stopped.clone()), draws.rng());
            let checked = checked.and_then(|mut drives| {
                drives.used = Removal::stays(shared.borrow().removal.as_ref(), drives.disks.len());
                self.kind.check(&mut drives, scene.version)
            });
            checked.map_err(|what| Violation::at_rest(Rule::Metadata, what))?;
        }
        Ok(stopped)
    }

    /// What a stop leaves. Unless the volume `is_hurt` all of it is durable, and the power may go now.
    fn stopped(&self, world: &World, scene: &mut Scene<'_, '_>, is_hurt: bool) -> Media {
        if scene.cut.is_some() {
            return Vec::new();
        }
        let volume = &mut scene.shared.borrow_mut().volume;
        if !is_hurt {
            let flush = volume.submit(VolumeRequest::FLUSH, world.now());
            volume.succeed(flush, core::iter::empty()).expect("it was just submitted");
        }
        volume.power_cut();
        scene.choices.scoped("stop", 0, |choices| scene.machine.lose(Loss::Power, &world.stack, choices))
    }

    /// After a stop of a volume on damaged disks, nothing is lost unnoticed if the newest root that can be read covers all.
    fn judge_damage(&self, stopped: &Media, shared: &Shared, draws: &mut Choices) {
        let drives = bare(self.scenario, Some(stopped.clone()), draws.rng());
        let is_settled = drives.is_ok_and(|mut drives| self.kind.is_settled(&mut drives));
        if !is_settled {
            shared.borrow_mut().volume.forgive();
        }
    }

    fn count_swaps(&mut self, shared: &Shared) {
        let ledger = &mut *shared.borrow_mut();
        self.report.swaps += core::mem::take(&mut ledger.swaps);
        self.report.longest_swap = self.report.longest_swap.max(ledger.longest_swap);
    }

    fn populate(&self, world: &mut World, scene: &Scene<'_, '_>, draws: &mut Choices) {
        let (shared, machine) = (scene.shared, &scene.machine);
        shared.borrow_mut().log.hosts = self.scenario.hosts;
        for number in 0..self.scenario.hosts {
            let choices = draws.fork("host", u64::from(number) + 1);
            let host = Host::new(shared.clone(), machine.door(), self.scenario.habits.clone(), choices);
            let fills = number == 0 && scene.life.is_new && self.scenario.prefill;
            world.add(Box::new(if fills { host.filling() } else { host }));
        }
        let (shared, machine, choices) = (shared.clone(), machine.clone(), draws.fork("operator", 0));
        if let Some(mapped) = machine.mapped.clone() {
            let pace = self.scenario.swaps;
            world.add(Box::new(SwapOperator::new(shared.clone(), mapped, pace, draws.fork("tables", 0))));
        }
        let (pauses, messages) = (self.scenario.pauses, self.kind.messages());
        world.add(Box::new(Operator { shared, machine, pauses, messages, choices }));
    }

    /// Runs the world until its actors are done, the power goes, or something is broken.
    fn watch(&mut self, world: &mut World, scene: &mut Scene<'_, '_>) -> Judged {
        let shared = scene.shared;
        let mut until = world.now();
        loop {
            until = until + Duration(PATIENCE.0 / 4);
            let stop = world.run_watched(until, &mut |stack| self.look_on(stack, scene));
            let mut ledger = shared.borrow_mut();
            ledger.log.collect_trace(&mut world.stack);
            if let Some((at, what)) = scene.machine.complaint(&world.stack) {
                ledger.violate(Rule::Order, at, what);
            }
            ledger.log.verdict(world.now())?;
            match stop {
                _ if ledger.is_dark => return Ok(()),
                Stop::Done => return Ok(()),
                Stop::Deadline if !ledger.is_out_of_patience(until) => {}
                Stop::Stuck | Stop::Deadline => {
                    let at = if stop == Stop::Stuck { world.now() } else { until };
                    let Violation { rule, what, .. } = stuck(ledger.volume.oldest(), at);
                    return Err(Violation { rule, at, what: scene.machine.with_status(&world.stack, what) });
                }
            }
        }
    }

    /// After every hop: has a disk carried out something? Then the power may go.
    fn look_on(&mut self, stack: &Stack, scene: &mut Scene<'_, '_>) -> bool {
        let commands = scene.machine.commands(stack);
        scene.machine.damaged(stack).for_each(|block| scene.shared.borrow_mut().volume.damage(block));
        if commands != scene.seen && scene.cut.is_none() {
            scene.seen = commands;
            if let Some((_, loss)) = scene.life.cut_at.filter(|(at, _)| *at <= commands) {
                let mut ledger = scene.shared.borrow_mut();
                let media = scene.choices.scoped("cut", 0, |choices| scene.machine.lose(loss, stack, choices));
                let is_damaged = scene.machine.is_damaged(stack);
                scene.cut = Some((media, loss.befalls(&ledger.volume, is_damaged)));
                ledger.is_dark = true;
            } else if !scene.life.is_branch {
                let is_cut = self.branches_at(scene.life.number, commands);
                let is_killed = self.kills_at(is_cut, scene.life.number, commands);
                let losses = [(is_cut, Loss::Power), (is_killed, Loss::Process)];
                let losses = losses.into_iter().filter(|(happens, _)| *happens);
                losses.for_each(|(_, loss)| self.branch_off(loss, (stack, commands), scene));
            }
        }
        !scene.shared.borrow().is_over()
    }

    /// Looks at what the loss leaves behind this command.
    fn branch_off(&mut self, loss: Loss, (stack, at): (&Stack, u64), scene: &mut Scene<'_, '_>) {
        let shared = scene.shared;
        if shared.borrow().log.violation.is_some() {
            return;
        }
        let rng = super::branch_rng(!self.seed, scene.life.number, at);
        let media = scene.machine.lose(loss, stack, &mut self.choices_of(rng, scene.life.number, (loss.name(), at)));
        let volume = loss.befalls(&shared.borrow().volume, scene.machine.is_damaged(stack));
        if let Err(violation) = self.branch(scene.life.number, (at, loss), (media, volume), shared) {
            shared.borrow_mut().log.violation.get_or_insert(violation);
        }
    }

    /// True if a kill of the process is looked at. The generator draws kills only beside a power cut, from numbers of their own, so that all else
    /// is what it is without.
    fn kills_at(&self, is_cut: bool, life: u64, commands: u64) -> bool {
        let rng = super::branch_rng(self.seed.rotate_left(13), life, commands);
        let mut choices = self.choices_of(rng, life, (Loss::Process.name(), commands));
        choices.decide("look", (false, &[]), |rng| is_cut && self.kind.outlives_kills() && rng.chance(1, KILLS_ONE_OF))
    }

    fn branches_at(&self, life: u64, commands: u64) -> bool {
        let rng = super::branch_rng(self.seed.rotate_left(7), life, commands);
        let mut choices = self.choices_of(rng, life, (Loss::Power.name(), commands));
        let of = match self.scenario.branches {
            Branches::Every => 1,
            Branches::OneOf(of) => of,
        };
        // Those that are left also begin in a run that leaves none out, so it replays a failure.
        let one_cut_of = self.options.one_cut_of;
        choices.decide("look", (false, &[]), |rng| rng.chance(1, of) && one_cut_of.is_none_or(|of| rng.chance(1, of)))
    }
}
