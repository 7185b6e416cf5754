//! Who operates a head: switches policies, takes paths out and puts them in, removes and adds them, and passes on what the disk says of
//! those that do not announce it themselves.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::base::some;
use super::ledger::Shared;
use super::path::FaultyPath;
use super::paths::Heads;
use crate::model::Rule;
use crate::world::{Actor, Io};
use shingle_core::block::DeviceId;
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
    fn pick(&mut self) -> DeviceId {
        let first = u64::from(self.heads.steady);
        self.heads.paths[(first + self.rng.below(self.heads.paths.len() as u64 - first)) as usize]
    }

    fn note(&mut self, what: &'static str) {
        self.shared.borrow_mut().log.note(what);
    }

    /// Says something of a path, unless it is none at the moment; whether it is.
    fn tell(&mut self, path: DeviceId, (verb, rest): (&'static str, &[&str]), io: &mut Io<'_>) -> bool {
        let Some(number) = self.heads.number(path, io.stack) else { return false };
        let number = number.to_string();
        let words: Vec<&str> = [verb, &number].into_iter().chain(rest.iter().copied()).collect();
        if let Err(error) = io.stack.message(self.heads.head, &words) {
            let log = &mut self.shared.borrow_mut().log;
            log.violate(Rule::Path, io.now(), alloc::format!("the head refuses {words:?}: {error}"));
        }
        true
    }

    /// What the disk says of a path: that announces it, or the operator passes it on.
    fn state(&mut self, path: DeviceId, state: AnaState, io: &mut Io<'_>) {
        let (now, announces) = (io.now(), self.rng.chance(1, 2));
        io.stack.with_device(path, |path: &mut FaultyPath, cx| {
            path.stand(state, now);
            if announces {
                cx.announce(state);
            }
        });
        self.note(state.name());
        if !announces {
            self.tell(path, ("state", &[state.name()]), io);
        }
    }

    fn reinstate(&mut self, path: DeviceId, io: &mut Io<'_>) {
        let now = io.now();
        if self.tell(path, ("reinstate_path", &[]), io) {
            self.note("reinstate_path");
            io.stack.with_device(path, |path: &mut FaultyPath, _| path.pardon(now));
        }
    }

    fn take_out(&mut self, path: DeviceId, io: &mut Io<'_>) {
        let now = io.now();
        if self.tell(path, ("fail_path", &[]), io) {
            self.note("fail_path");
            io.stack.with_device(path, |path: &mut FaultyPath, _| path.take_out(now));
        }
    }

    fn remove(&mut self, path: DeviceId, io: &mut Io<'_>) {
        let now = io.now();
        if self.tell(path, ("remove_path", &[]), io) {
            self.note("remove_path");
            io.stack.with_device(path, |path: &mut FaultyPath, _| path.remove(true, now));
        }
    }

    /// Adds a path that was removed; false as long as it is not gone.
    fn add(&mut self, path: DeviceId, io: &mut Io<'_>) -> bool {
        let (is_new, now) = (self.heads.number(path, io.stack).is_none(), io.now());
        match self.heads.add(path, io.stack, now) {
            Ok(is_there) => {
                if is_new && is_there {
                    self.note("add_path");
                }
                is_there
            }
            Err(error) => {
                self.shared.borrow_mut().log.violate(
                    Rule::Path,
                    now,
                    alloc::format!("the head refuses a path: {error}"),
                );
                true
            }
        }
    }

    fn act_once(&mut self, io: &mut Io<'_>) {
        let path = self.pick();
        match self.rng.below(20) {
            0 | 1 => {
                let policy = some(&mut self.rng, &PolicyKind::ALL);
                self.note("policy");
                io.stack.message(self.heads.head, &["policy", policy.name()]).expect("a head knows its policies");
            }
            2 => self.take_out(path, io),
            3..=5 => self.reinstate(path, io),
            6 | 7 => {
                let state = some(&mut self.rng, &AnaState::ALL);
                self.state(path, state, io);
            }
            8 => self.remove(path, io),
            9..=11 => _ = self.add(path, io),
            _ => {
                let usable = [AnaState::Optimized, AnaState::NonOptimized];
                let state = some(&mut self.rng, &usable);
                self.state(path, state, io);
            }
        }
    }
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
        for path in self.heads.paths.clone().into_iter().skip(usize::from(self.heads.steady)) {
            if !self.add(path, io) {
                return io.wake_at(io.now() + Duration(1_000_000));
            }
            self.state(path, AnaState::Optimized, io);
            self.reinstate(path, io);
        }
        self.is_done = true;
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}
