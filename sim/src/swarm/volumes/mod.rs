//! Crashes of volumes: random sets of disks, hosts on the volume that they make, and a loss of power anywhere. A [`Kind`] says what
//! makes the volume and what it promises: dm-zoned, a device over several disks that keeps writes in order, or a stand-in.
//!
//! ```text
//!   seed ──> Scenario ──> format ──> life 1: load, audit, hosts, operator ── power cut ──> life 2: load, ...
//!                                      │ after a command of the disks
//!                                      └──> branch: what a cut would leave here: load, audit, go on, stop, check, load, audit
//! ```
//!
//! The power can go after every command of the disks. To look at many such points, a run is not repeated: at each of them a
//! branch takes what a cut would leave of the disks and a copy of the model, and lives on by itself, through further cuts, to
//! a clean stop. The run itself does not notice. Beside some of them another branch begins where the process is killed and the
//! disks go on, with all that they have not made durable and zones that are open.
//!
//! In some worlds hosts use the volume through a mapped device, whose tables are swapped meanwhile, and in
//! some one of the disks [leaves](removal) meanwhile, and is added again.
//!
//! What is looked at: at every read the [model](crate::volume), and at every completion what is called a hole; before every start
//! all blocks by the format alone, and after it all, or some; that everything ends; that errors have a reason; that zones are written
//! as zones; after a clean stop that all is durable. Of a volume that promises so: that a loss leaves a prefix of the writes.

mod audit;
mod dmzoned;
mod dmzoned_table;
mod drives;
mod host;
mod kind;
mod ledger;
mod life;
mod machine;
mod mapped;
mod older_copies;
mod reader;
mod rebuilt_line;
mod removal;
#[cfg(test)]
mod replay_tests;
mod scenario;
mod stand_in;
mod stl;
mod stl_reader;
mod stl_table;
mod swaps;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use super::base::{Log, TraceSum};
use super::options::SwarmOptions;
use super::outcome::{Failure, Report};
use crate::choices::{Choices, Origin};
use crate::disk::{CrashConfig, Medium};
use crate::model::{Rule, Violation};
use crate::profile::Profile;
use crate::volume::Volume;
pub(super) use dmzoned::assemble;
use kind::Kind;
use ledger::{Ledger, Shared};
use life::{End, Life, Look, Loss};
use scenario::Scenario;
use shingle_core::plug::PlugOptions;
use shingle_core::random::Rng;

/// Runs one seed.
pub(super) fn run(seed: u64, options: &SwarmOptions, origin: &Origin) -> Result<Report, Box<Failure>> {
    let kind = kind::of(options);
    let drawn = Scenario::draw(seed, &*kind);
    let scenario = drawn.pinned(&mut Choices::root(Rng::new(seed), origin, "scenario")).with(options);
    let report = Report::default();
    Run { seed, options, origin, kind: &*kind, scenario: &scenario, report, earlier: None, life: 0 }.play()
}

/// What a seed draws, in words.
pub(super) fn describe(seed: u64, profile: Profile) -> String {
    let options = SwarmOptions { profile, ..SwarmOptions::default() };
    Scenario::draw(seed, &*kind::of(&options)).to_string()
}

/// Disks that a seed draws, sound and with dm-zoned on them, the plug for them, and the blocks of the volume.
pub(super) type Set = (Vec<CrashConfig>, PlugOptions, Media, u32);

/// Draws and formats such a set.
pub(super) fn draw_set(seed: u64, choices: &mut Choices) -> Result<Set, String> {
    let options = SwarmOptions { profile: Profile::DmZoned, ..SwarmOptions::default() };
    let kind = kind::of(&options);
    let drawn = Scenario { dead: Vec::new(), swaps: None, ..Scenario::draw(seed, &*kind) };
    let scenario = choices.scoped("set", 0, |choices| drawn.pinned(choices));
    let (blocks, media) = kind.format(&scenario, choices)?;
    Ok((scenario.disks, scenario.plug, media.unwrap_or_default(), blocks))
}

/// One seed on its way.
struct Run<'a> {
    seed: u64,
    options: &'a SwarmOptions,
    origin: &'a Origin,
    kind: &'a dyn Kind,
    scenario: &'a Scenario,
    report: Report,
    /// Content of the disks at an earlier moment.
    earlier: Option<Media>,
    /// The number of its life.
    life: u64,
}

/// How the lives of a run end, or those of a branch of it.
#[derive(Clone, Copy)]
enum Course<'a> {
    /// The power goes after so many commands of each.
    Cuts(&'a [u64]),
    /// What has begun with this loss goes on as it draws: after a kill with more of them.
    After(Loss),
}

/// What each disk has.
type Media = Vec<Medium>;
/// Whether nothing was broken.
type Judged = Result<(), Violation>;

impl Run<'_> {
    fn play(&mut self) -> Result<Report, Box<Failure>> {
        let trace = TraceSum { sum: self.seed, events: 0, text: self.options.trace.then(String::new) };
        let ops = self.options.ops.map_or(self.scenario.ops, |ops| ops.min(self.scenario.ops));
        let shared = self.ledger(Volume::new(0), ops, trace);
        let (choices, cuts) = (&mut Choices::in_scope(Rng::new(self.seed), self.origin, &[]), &self.scenario.cuts);
        let made = self.make(&shared, choices);
        let outcome = made.and_then(|media| self.lives(&shared, media, choices, Course::Cuts(cuts)));
        let ledger = &mut *shared.borrow_mut();
        match outcome {
            Ok(()) => Ok(ledger.log.report(&self.report)),
            Err(violation) => {
                let run = (self.seed, self.options.profile, self.life);
                Err(ledger.log.failure(violation, run, self.scenario))
            }
        }
    }

    /// Formats the disks. Returns what is on them; nothing for a stand-in, which has what its disk has.
    fn make(&self, shared: &Shared, choices: &mut Choices) -> Result<Option<Media>, Violation> {
        let made = choices.scoped("format", 0, |choices| self.kind.format(self.scenario, choices));
        let (blocks, media) = made.map_err(|what| Violation::at_rest(Rule::Accepted, what))?;
        let removal = match &media {
            Some(media) => self.plan_of_removal(media, &mut branch_rng(self.seed, 0, 0))?,
            None => None,
        };
        let ledger = &mut *shared.borrow_mut();
        ledger.volume = self.kind.promises(removal.map_or(blocks, |removal| removal.without));
        ledger.removal = removal;
        Ok(media)
    }

    fn ledger(&self, volume: Volume, left: u64, trace: TraceSum) -> Shared {
        let (dead, log) = (self.scenario.dead.len(), Log { left, trace, ..Log::default() });
        Rc::new(RefCell::new(Ledger {
            volume,
            dead,
            log,
            are_discards_hints: self.scenario.has_refusals,
            is_silently_damaged: self.scenario.is_damaged,
            ..Ledger::default()
        }))
    }

    /// Lives of the disks, one after the other, to a clean stop. Those of the run itself are cut at its cuts, and have a last look
    /// after them; those of a branch are cut as it draws.
    fn lives(&mut self, shared: &Shared, made: Option<Media>, choices: &mut Choices, course: Course<'_>) -> Judged {
        let is_branch = matches!(course, Course::After(_));
        let mut cuts = if let Course::Cuts(cuts) = course { cuts } else { &[] }.iter().copied();
        let (mut media, mut look, mut number) = (made, if is_branch { Look::choose(choices) } else { Look::None }, 0);
        loop {
            number += 1;
            choices.begin("life", number);
            shared.borrow_mut().log.trace.line(&format!("{}life {number}", if is_branch { "branch, " } else { "" }));
            let cut_at = match course {
                Course::Cuts(_) => cuts.next().map(|at| (at, Loss::Power)),
                // Recovery is cut as well, but not for ever.
                Course::After(first) => {
                    let at = choices.decide("cut-after", (None, &[]), |rng| {
                        (number < 4 && rng.chance(1, 3)).then(|| 1 + rng.below(60))
                    });
                    let mut is_kill = || first == Loss::Process && choices.chance("kill", 1, 2);
                    at.map(|at| (at, if is_kill() { first } else { Loss::Power }))
                }
            };
            let is_last = number > 1 && shared.borrow().log.left == 0 && !(is_branch && cut_at.is_some());
            let life = Life { number, cut_at, look, is_new: number == 1 && !is_branch, is_branch, is_last };
            self.life = if is_branch { self.life } else { number };
            if !is_branch {
                self.earlier = media.clone();
            }
            (media, look) = match self.live(&life, media, shared, choices)? {
                End::Cut(left) => {
                    self.count(cut_at.map_or(Loss::Power, |(_, loss)| loss));
                    (Some(left), Look::choose(choices))
                }
                End::Stopped(_) if is_last || is_branch && choices.chance("ends", 1, 2) => return Ok(()),
                End::Stopped(left) if shared.borrow().removal.is_some() => {
                    let choices = &mut self.choices_of(branch_rng(self.seed, number, 1), number, ("removal", 0));
                    let left = self.end_removal(left, shared, choices)?;
                    let again = choices.chance("add-again", 1, 2);
                    let left = if again { self.add_again(left, shared, choices)? } else { left };
                    (Some(left), Look::All)
                }
                End::Stopped(left) if self.scenario.is_damaged => {
                    let choices = &mut self.choices_of(branch_rng(self.seed, number, 3), number, ("damage", 0));
                    (Some(self.damage(left, choices)?), Look::All)
                }
                End::Stopped(left) => (Some(left), Look::All),
            };
        }
    }

    /// Damages metadata on `media`, which a clean stop has left.
    fn damage(&self, media: Media, choices: &mut Choices) -> Result<Media, Violation> {
        let drives = machine::bare(self.scenario, Some(media), &mut choices.rng().clone());
        let damaged = drives.and_then(|mut drives| {
            self.kind.damage(&mut drives, choices)?;
            Ok(drives.take(choices))
        });
        damaged.map_err(|what| Violation::at_rest(Rule::Metadata, what))
    }

    fn count(&mut self, loss: Loss) {
        match loss {
            Loss::Power => self.report.cuts += 1,
            Loss::Process => self.report.kills += 1,
        }
    }

    /// What happens after a loss: `media` are left, and `volume` is what may be on them.
    fn branch(
        &mut self,
        life: u64,
        (at, loss): (u64, Loss),
        (media, volume): (Media, Volume),
        shared: &Shared,
    ) -> Judged {
        let choices = &mut self.choices_of(branch_rng(self.seed, life, at), life, (loss.name(), at));
        let mut trace = core::mem::take(&mut shared.borrow_mut().log.trace);
        self.count(loss);
        let before = trace.text.as_ref().map_or(0, String::len);
        let what = match loss {
            Loss::Power => "the power goes",
            Loss::Process => "the process is killed",
        };
        trace.line(&format!("branch: {what} after command {at}"));
        let left = choices.decide("requests", (0, &[]), |rng| if rng.chance(1, 2) { rng.below(30) } else { 0 });
        let own = self.ledger(volume, left, trace);
        own.borrow_mut().removal = shared.borrow().removal;
        if loss == Loss::Power {
            self.start_with_older_copy(&media, (life, at), &own)?;
        }
        let outcome = self.lives(&own, Some(media), choices, Course::After(loss));
        let mut trace = core::mem::take(&mut own.borrow_mut().log.trace);
        if let (Ok(()), Some(text)) = (&outcome, &mut trace.text) {
            // Only the branch that fails is of interest.
            text.truncate(before);
        }
        if outcome.is_ok() {
            choices.forget();
        }
        shared.borrow_mut().log.trace = trace;
        outcome.map_err(|violation| Violation {
            what: format!("{} [{what} after command {at} of life {life}]", violation.what),
            ..violation
        })
    }
}

impl Run<'_> {
    /// Choices of what happens beside a life of the run, drawn by `rng`, in a scope of this name and number.
    fn choices_of(&self, rng: Rng, life: u64, (name, number): (&'static str, u64)) -> Choices {
        Choices::in_scope(rng, self.origin, &[("life", life), (name, number)])
    }
}

/// What a branch draws depends on where it begins, and on nothing else.
fn branch_rng(seed: u64, life: u64, at: u64) -> Rng {
    let mut rng = Rng::new(seed ^ life.rotate_left(48) ^ at.rotate_left(24));
    rng.fork()
}
