//! Crashes of dm-zoned: random sets of disks, hosts on the volume that they make, and a loss of power anywhere.
//!
//! ```text
//!   seed ──> Scenario ──> format ──> life 1: load, audit, hosts, operator ── power cut ──> life 2: load, ...
//!                                      │ after a command of the disks
//!                                      └──> branch: what a cut would leave here: load, audit, go on, stop, check, load, audit
//! ```
//!
//! The power can go after every command of the disks. To look at many such points, a run is not repeated: at each of them a
//! branch takes what a cut would leave of the disks and a copy of the model, and lives on by itself, through further cuts, to
//! a clean stop. The run itself does not notice.
//!
//! What is looked at: at every read the [model](crate::volume), and at every completion what is called a hole; after every start all blocks, or some; that everything ends;
//! that errors have a reason; that zones are written as zones; after a clean stop that all is durable.

mod audit;
mod drives;
mod host;
mod ledger;
mod life;
mod machine;
mod scenario;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use super::base::{Log, TraceSum};
use super::options::SwarmOptions;
use super::outcome::{Failure, Report};
use crate::disk::Medium;
use crate::model::{Rule, Violation};
use crate::volume::{BLOCK_SECTORS, Volume};
use ledger::{Ledger, Shared};
use life::{End, Life, Look};
use scenario::Scenario;
use shingle_core::block::DeviceId;
use shingle_core::random::Rng;
use shingle_core::time::Instant;

/// Runs one seed.
pub(super) fn run(seed: u64, options: &SwarmOptions) -> Result<Report, Box<Failure>> {
    let scenario = Scenario::draw(seed, options.volume.is_some());
    let mut run = Run { seed, options, scenario: &scenario, report: Report::default() };
    run.play()
}

/// What a seed draws, in words.
pub(super) fn describe(seed: u64) -> String {
    Scenario::draw(seed, false).to_string()
}

/// One seed on its way.
struct Run<'a> {
    seed: u64,
    options: &'a SwarmOptions,
    scenario: &'a Scenario,
    report: Report,
}

impl Run<'_> {
    fn play(&mut self) -> Result<Report, Box<Failure>> {
        let trace = TraceSum { sum: self.seed, events: 0, text: self.options.trace.then(String::new) };
        let ops = self.options.ops.map_or(self.scenario.ops, |ops| ops.min(self.scenario.ops));
        let shared = self.ledger(Volume::new(0), ops, trace);
        let (mut lives, mut rng) = (0, Rng::new(self.seed));
        let outcome = self.make(&shared, &mut rng).and_then(|media| self.lives(&shared, media, &mut rng, &mut lives));
        let ledger = &mut *shared.borrow_mut();
        match outcome {
            Ok(()) => Ok(ledger.log.report(&self.report)),
            Err(violation) => {
                let run = (self.seed, self.options.profile, lives);
                Err(ledger.log.failure(violation, run, self.scenario))
            }
        }
    }

    /// Formats the disks. Returns what is on them; nothing for a stand-in, which has what its disk has.
    fn make(&self, shared: &Shared, rng: &mut Rng) -> Result<Option<Vec<Medium>>, Violation> {
        let alone = self.scenario.disks[0].regular.filter(|_| self.options.volume.is_some());
        let (blocks, media) = match alone {
            Some(sectors) => ((sectors / u64::from(BLOCK_SECTORS)) as u32, None),
            None => {
                let made = machine::bare(self.scenario, None, rng).and_then(|mut drives| {
                    let blocks = drives.format(rng)?;
                    Ok((blocks, drives.take(rng)))
                });
                let (blocks, media) =
                    made.map_err(|what| Violation { rule: Rule::Accepted, at: Instant::ZERO, what })?;
                (blocks, Some(media))
            }
        };
        shared.borrow_mut().volume = Volume::new(blocks);
        Ok(media)
    }

    fn ledger(&self, volume: Volume, left: u64, trace: TraceSum) -> Shared {
        Rc::new(RefCell::new(Ledger {
            volume,
            disks: Rc::from([]),
            door: DeviceId(0),
            target: None,
            dead: self.scenario.dead.len(),
            pause: Instant::ZERO,
            is_dark: false,
            log: Log { left, trace, ..Log::default() },
        }))
    }

    /// All lives of the disks, one after the other, to a clean stop and a last look.
    fn lives(
        &mut self,
        shared: &Shared,
        made: Option<Vec<Medium>>,
        rng: &mut Rng,
        lives: &mut u64,
    ) -> Result<(), Violation> {
        let mut cuts: VecDeque<u64> = self.scenario.cuts.iter().copied().collect();
        let (mut media, mut look) = (made, Look::None);
        loop {
            *lives += 1;
            shared.borrow_mut().log.trace.line(&format!("life {lives}"));
            let is_last = *lives > 1 && shared.borrow().log.left == 0;
            let is_new = *lives == 1;
            let life = Life { number: *lives, cut_at: cuts.pop_front(), look, is_new, is_branch: false, is_last };
            match self.live(&life, media, shared, rng)? {
                End::Cut(left) => {
                    self.report.cuts += 1;
                    (media, look) = (Some(left), Look::draw(rng));
                }
                End::Stopped(_) if is_last => return Ok(()),
                End::Stopped(left) => (media, look) = (Some(left), Look::All),
            }
        }
    }

    /// What happens if the power goes here: `media` are left, and `volume` is what may be on them.
    fn branch(&mut self, life: &Life, at: u64, media: Vec<Medium>, shared: &Shared) -> Result<(), Violation> {
        let mut rng = branch_rng(self.seed, life.number, at);
        let (mut volume, mut trace) = {
            let mut ledger = shared.borrow_mut();
            (ledger.volume.clone(), core::mem::take(&mut ledger.log.trace))
        };
        volume.power_cut();
        self.report.cuts += 1;
        let before = trace.text.as_ref().map_or(0, String::len);
        trace.line(&format!("branch: the power goes after command {at}"));
        let left = if rng.chance(1, 2) { rng.below(30) } else { 0 };
        let own = self.ledger(volume, left, trace);
        let outcome = self.branch_lives(&own, media, &mut rng);
        let mut trace = core::mem::take(&mut own.borrow_mut().log.trace);
        if let (Ok(()), Some(text)) = (&outcome, &mut trace.text) {
            // Only the branch that fails is of interest.
            text.truncate(before);
        }
        shared.borrow_mut().log.trace = trace;
        outcome.map_err(|violation| Violation {
            what: format!("{} [the power went after command {at} of life {}]", violation.what, life.number),
            ..violation
        })
    }

    fn branch_lives(&mut self, shared: &Shared, media: Vec<Medium>, rng: &mut Rng) -> Result<(), Violation> {
        let (mut media, mut look, mut number) = (media, Look::draw(rng), 0);
        loop {
            number += 1;
            shared.borrow_mut().log.trace.line(&format!("branch, life {number}"));
            // Recovery is cut as well, but not for ever.
            let cut_at = (number < 4 && rng.chance(1, 3)).then(|| 1 + rng.below(60));
            let is_last = number > 1 && shared.borrow().log.left == 0 && cut_at.is_none();
            let life = Life { number, cut_at, look, is_new: false, is_branch: true, is_last };
            match self.live(&life, Some(media), shared, rng)? {
                End::Cut(left) => {
                    self.report.cuts += 1;
                    (media, look) = (left, Look::draw(rng));
                }
                End::Stopped(_) if is_last || rng.chance(1, 2) => return Ok(()),
                End::Stopped(left) => (media, look) = (left, Look::All),
            }
        }
    }
}

/// What a branch draws depends on where it begins, and on nothing else.
fn branch_rng(seed: u64, life: u64, at: u64) -> Rng {
    let mut rng = Rng::new(seed ^ life.rotate_left(48) ^ at.rotate_left(24));
    rng.fork()
}
