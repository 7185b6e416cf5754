//! Who operates a head: switches policies, takes paths out and puts them in, removes and adds them, and passes on what the disk says of
//! those that do not announce it themselves.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::agenda::Agenda;
use super::base::some;
use super::ledger::Shared;
use super::path::FaultyPath;
use super::paths::Heads;
use crate::choices::{Choices, choices_by_name};
use crate::model::Rule;
use crate::world::{Actor, Io};
use shingle_core::block::DeviceId;
use shingle_core::multipath::{AnaState, PolicyKind};
use shingle_core::random::Rng;
use shingle_core::time::Duration;

/// What an operator can do: to a path, or to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Policy(PolicyKind),
    State(AnaState),
    TakeOut,
    Reinstate,
    Remove,
    Add,
}

choices_by_name!(Deed);

impl Deed {
    fn all() -> Vec<Self> {
        let policies = PolicyKind::ALL.map(Self::Policy).into_iter();
        let states = AnaState::ALL.map(Self::State);
        policies.chain(states).chain([Self::TakeOut, Self::Reinstate, Self::Remove, Self::Add]).collect()
    }

    fn draw(rng: &mut Rng) -> Self {
        match rng.below(20) {
            0 | 1 => Self::Policy(some(rng, &PolicyKind::ALL)),
            2 => Self::TakeOut,
            3..=5 => Self::Reinstate,
            6 | 7 => Self::State(some(rng, &AnaState::ALL)),
            8 => Self::Remove,
            9..=11 => Self::Add,
            _ => Self::State(some(rng, &[AnaState::Optimized, AnaState::NonOptimized])),
        }
    }
}

/// The operator.
pub(super) struct PathOperator {
    shared: Shared,
    heads: Heads,
    agenda: Agenda,
    /// The longest time between two deeds.
    pace: Duration,
    is_done: bool,
}

impl PathOperator {
    pub fn new(shared: Shared, heads: Heads, mut choices: Choices) -> Self {
        let pace = Duration::from_micros(some(choices.rng(), &[500, 20_000, 200_000]));
        Self { shared, heads, agenda: Agenda::starting(choices), pace, is_done: false }
    }

    /// One that may be taken out.
    fn pick(&mut self) -> DeviceId {
        let first = u64::from(self.heads.steady);
        let paths = self.heads.paths.len() as u64;
        self.heads.paths[(first + self.agenda.choices.below("path", paths - first)) as usize]
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
        let (now, announces) = (io.now(), self.agenda.choices.chance("announces", 1, 2));
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
        match self.agenda.choices.decide("deed", (Deed::Reinstate, &Deed::all()), Deed::draw) {
            Deed::Policy(policy) => {
                self.note("policy");
                io.stack.message(self.heads.head, &["policy", policy.name()]).expect("a head knows its policies");
            }
            Deed::State(state) => self.state(path, state, io),
            Deed::TakeOut => self.take_out(path, io),
            Deed::Reinstate => self.reinstate(path, io),
            Deed::Remove => self.remove(path, io),
            Deed::Add => _ = self.add(path, io),
        }
    }
}

impl Actor for PathOperator {
    fn act(&mut self, io: &mut Io<'_>) {
        let (left, is_over) = {
            let ledger = self.shared.borrow();
            (ledger.log.left, ledger.is_over())
        };
        if left > 0 && !is_over && !self.agenda.has_ended() {
            if self.agenda.begins(io.now()) {
                self.act_once(io);
            }
            let longest = self.pace.0;
            return self.agenda.go_on(io, |rng| Duration(1_000 + rng.below(longest)));
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
