//! Who operates a head: switches policies, takes paths out and puts them in, and passes on what the disk says of its paths.

use alloc::string::String;
use alloc::vec::Vec;

use super::base::some;
use super::ledger::Shared;
use super::path::FaultyPath;
use super::paths::Heads;
use crate::model::Rule;
use crate::world::{Actor, Io};
use shingle_core::multipath::{AnaState, PolicyKind};
use shingle_core::random::Rng;
use shingle_core::time::Duration;

/// The operator.
pub(super) struct PathOperator {
    shared: Shared,
    heads: Heads,
    rng: Rng,
    /// The longest time between two deeds.
    pace: Duration,
    is_done: bool,
}

impl PathOperator {
    pub fn new(shared: Shared, heads: Heads, mut rng: Rng) -> Self {
        let pace = Duration::from_micros(some(&mut rng, &[500, 20_000, 200_000]));
        Self { shared, heads, rng, pace, is_done: false }
    }

    /// One that may be taken out.
    fn pick(&mut self) -> usize {
        let first = u64::from(self.heads.steady);
        (first + self.rng.below(self.heads.paths.len() as u64 - first)) as usize
    }

    fn tell(&mut self, what: &'static str, words: &[&str], io: &mut Io<'_>) {
        let log = &mut self.shared.borrow_mut().log;
        log.note(what);
        if let Err(error) = io.stack.message(self.heads.head, words) {
            log.violate(Rule::Path, io.now(), alloc::format!("the head refuses {words:?}: {error}"));
        }
    }

    /// What the disk says of a path.
    fn state(&mut self, path: usize, state: AnaState, io: &mut Io<'_>) {
        let is_usable = matches!(state, AnaState::Optimized | AnaState::NonOptimized);
        let now = io.now();
        io.stack.with_device(self.heads.paths[path], |path: &mut FaultyPath, _| path.reach(is_usable, now));
        self.tell(state.name(), &["state", &number(path), state.name()], io);
    }

    fn reinstate(&mut self, path: usize, io: &mut Io<'_>) {
        io.stack.with_device(self.heads.paths[path], |path: &mut FaultyPath, _| path.pardon());
        self.tell("reinstate_path", &["reinstate_path", &number(path)], io);
    }

    fn act_once(&mut self, io: &mut Io<'_>) {
        let path = self.pick();
        match self.rng.below(10) {
            0 | 1 => {
                let policy = some(&mut self.rng, &PolicyKind::ALL);
                self.tell("policy", &["policy", policy.name()], io);
            }
            2 => self.tell("fail_path", &["fail_path", &number(path)], io),
            3..=5 => self.reinstate(path, io),
            6 | 7 => {
                let state = some(&mut self.rng, &AnaState::ALL);
                self.state(path, state, io);
            }
            _ => {
                let usable = [AnaState::Optimized, AnaState::NonOptimized];
                let state = some(&mut self.rng, &usable);
                self.state(path, state, io);
            }
        }
    }
}

fn number(path: usize) -> String {
    alloc::format!("{path}")
}

impl Actor for PathOperator {
    fn act(&mut self, io: &mut Io<'_>) {
        let (left, is_over) = {
            let ledger = self.shared.borrow();
            (ledger.log.left, ledger.is_over())
        };
        if left > 0 && !is_over {
            self.act_once(io);
            return io.wake_at(io.now() + Duration(1_000 + self.rng.below(self.pace.0)));
        }
        // What still waits must find a way.
        let paths: Vec<usize> = (usize::from(self.heads.steady)..self.heads.paths.len()).collect();
        for path in paths {
            self.state(path, AnaState::Optimized, io);
            self.reinstate(path, io);
        }
        self.is_done = true;
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}
