//! The operator of the volume's table: loads others and swaps them in, suspends and resumes, and gives changes up, while hosts go on.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::RefCell;
use core::fmt::Write as _;

use super::super::base::{PATIENCE, weighted};
use super::ledger::{Ledger, Shared};
use super::mapped::Mapped;
use crate::choices::{Choices, choices_by_name};
use crate::model::Rule;
use crate::world::{Actor, Io};
use shingle_core::block::Stack;
use shingle_core::dm::stl::format::MemberState;
use shingle_core::dm::stl::{Stage, Step};
use shingle_core::mapper::{MapperErrorKind, StateName, Ticket};
use shingle_core::time::{Duration, Instant};

/// What an operator can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// Loads a table, and has it go in at once.
    Swap,
    /// Loads a table that goes in later, if it is not cleared.
    Load,
    Clear,
    Suspend,
}

choices_by_name!(Deed);

/// All of it: its name, and how often it is done.
const DEEDS: [(Deed, &str, u64); 4] =
    [(Deed::Swap, "swap", 12), (Deed::Load, "load", 2), (Deed::Clear, "clear", 1), (Deed::Suspend, "suspend", 3)];

/// The same where no other tables are swapped than a removal takes.
const REMOVAL_PACE: Duration = Duration::from_millis(5);
/// Nanoseconds between two looks where a recording says nothing.
const CALM_WAIT: u64 = 5_000_000;
/// Times that what a host waits for at most, a removal may take when no host is left.
const MOST_REMOVAL: u64 = 4;

/// How far the device is; since when it lets nobody in.
#[derive(Clone, Copy, Debug)]
enum State {
    Live,
    Resuming(Ticket, Instant),
    Stopping(Ticket, Instant),
    Stopped(Instant),
}

/// How something ended; the error is what is wrong with the mapper.
type Outcome = Result<(), String>;

/// The operator.
pub(super) struct SwapOperator {
    shared: Shared,
    mapped: Rc<RefCell<Mapped>>,
    choices: Choices,
    /// The recording that it follows has no further step.
    has_ended: bool,
    /// The longest time between two things that it does, where it does more than a removal takes.
    pace: Option<Duration>,
    state: State,
    /// What it has done so far.
    deeds: u64,
    is_removing: bool,
    /// When hosts were done.
    alone_since: Option<Instant>,
}

impl SwapOperator {
    pub fn new(shared: Shared, mapped: Rc<RefCell<Mapped>>, pace: Option<Duration>, choices: Choices) -> Self {
        let (state, deeds, is_removing, has_ended) = (State::Live, 0, false, false);
        Self { shared, mapped, choices, has_ended, pace, state, deeds, is_removing, alone_since: None }
    }

    /// The next deed, or what is under way given up. When hosts are done the device is left as they would need it.
    fn obey(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) -> Outcome {
        let is_over = ledger.log.left == 0;
        match self.state {
            State::Resuming(ticket, since) | State::Stopping(ticket, since)
                if !is_over && self.choices.chance("gives-up", 1, 6) =>
            {
                ledger.log.note("cancel");
                self.cancel(ticket, since, io)
            }
            State::Resuming(..) | State::Stopping(..) => Ok(()),
            State::Stopped(since) => self.go_on(since, io),
            State::Live => match self.removes(ledger, io)? {
                false if !is_over && self.pace.is_some() && !self.has_ended => self.begin(ledger, io),
                _ => Ok(()),
            },
        }
    }

    fn begin(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) -> Outcome {
        let deeds = DEEDS.map(|(deed, name, _)| (deed, name));
        let deed = self.choices.decide("deed", (Deed::Clear, &DEEDS.map(|(deed, ..)| deed)), |rng| {
            weighted(rng, &deeds, &DEEDS.map(|(.., weight)| weight)).0
        });
        ledger.log.note(DEEDS.iter().find(|(known, ..)| *known == deed).map_or("", |(_, name, _)| name));
        match deed {
            Deed::Swap => {
                self.load(io)?;
                self.resume(io.now(), io)
            }
            Deed::Load => self.load(io),
            Deed::Clear => self.mapped.borrow_mut().clear(io.stack),
            Deed::Suspend => {
                let ticket = self.mapped.borrow_mut().suspend(self.choices.chance("noflush", 1, 2), io.stack)?;
                self.state = State::Stopping(ticket, io.now());
                Ok(())
            }
        }
    }

    /// Another table that does the same.
    fn load(&mut self, io: &mut Io<'_>) -> Outcome {
        let step = self.mapped.borrow().live;
        self.load_for(step, io)
    }

    fn load_for(&mut self, step: Option<Step>, io: &mut Io<'_>) -> Outcome {
        self.mapped.borrow_mut().load(Some(&mut self.choices), step, io.stack)
    }

    /// The next step of the removal, when the one before is at its end and it is time. Whether there was one.
    fn removes(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) -> Result<bool, String> {
        let Some(step) = self.next_step(ledger, io.stack) else { return Ok(false) };
        if ledger.log.left > 0 && self.choices.chance("removal-waits", 3, 4) {
            return Ok(false);
        }
        ledger.log.note(if step == Step::Leave { "leave" } else { "make room" });
        self.load_for(Some(step), io)?;
        self.resume(io.now(), io)?;
        Ok(true)
    }

    /// What is to be done for the removal, if the live table does not do it; takes note of its end.
    fn next_step(&self, ledger: &mut Ledger, stack: &Stack) -> Option<Step> {
        let mapped = self.mapped.borrow();
        let removal = ledger.removal.as_mut().filter(|it| it.state != MemberState::Gone && !it.is_empty)?;
        let is_over = mapped.evacuation(stack) == Some(Stage::Over);
        match mapped.live {
            None => Some(Step::MakeRoom),
            Some(Step::MakeRoom) => is_over.then_some(Step::Leave),
            Some(Step::Leave) => {
                removal.is_empty = is_over;
                None
            }
        }
    }

    /// Whether the removal goes on: it ends, or is stuck for want of room.
    fn is_removing(&self, ledger: &Ledger, stack: &Stack) -> bool {
        let is_begun = ledger.removal.is_some_and(|it| it.state != MemberState::Gone && !it.is_empty);
        is_begun && self.mapped.borrow().evacuation(stack).is_some_and(|stage| stage != Stage::Stuck)
    }

    /// A removal ends, or says that it cannot, when nobody writes any more.
    fn look_at_end(&mut self, ledger: &mut Ledger, io: &Io<'_>) {
        if ledger.log.left > 0 || !self.is_removing {
            self.alone_since = None;
            return;
        }
        let alone = io.now().since(*self.alone_since.get_or_insert(io.now()));
        if alone.0 > MOST_REMOVAL * PATIENCE.0 {
            let mut what = String::from("the removal does not end");
            let _ = write!(what, ", for {} s: ", alone.0 / 1_000_000_000);
            let _ = self.mapped.borrow().status(io.stack, &mut what);
            ledger.violate(Rule::Stuck, io.now(), what);
        }
    }

    /// Lets hosts in again, perhaps through another table.
    fn go_on(&mut self, since: Instant, io: &mut Io<'_>) -> Outcome {
        if self.choices.chance("another", 1, 2) {
            self.load(io)?;
        }
        self.resume(since, io)
    }

    fn resume(&mut self, since: Instant, io: &mut Io<'_>) -> Outcome {
        let ticket = self.mapped.borrow_mut().resume(self.choices.chance("resume-noflush", 1, 3), io.stack)?;
        self.state = State::Resuming(ticket, since);
        Ok(())
    }

    /// Gives a change up: the device goes on with its old table, if that can.
    fn cancel(&mut self, ticket: Ticket, since: Instant, io: &mut Io<'_>) -> Outcome {
        let mut mapped = self.mapped.borrow_mut();
        mapped.cancel(ticket, io.stack);
        let is_live = mapped.state(io.stack) == Some(StateName::Active);
        self.state = if is_live { State::Live } else { State::Stopped(since) };
        Ok(())
    }

    /// Takes note of a change that has come to an end; whether one has.
    fn settle(&mut self, ledger: &mut Ledger, io: &mut Io<'_>) -> bool {
        let (State::Resuming(ticket, since) | State::Stopping(ticket, since)) = self.state else { return false };
        let mut mapped = self.mapped.borrow_mut();
        let had_inactive = mapped.has_inactive(io.stack);
        mapped.poll(io.now(), io.stack);
        let shut = io.now().since(since);
        let Some(outcome) = mapped.outcome(ticket) else {
            if shut > PATIENCE {
                let mut what = String::from("the mapped device does not drain: ");
                let _ = mapped.status(io.stack, &mut what);
                ledger.violate(Rule::Stuck, io.now(), what);
            }
            return false;
        };
        match (self.state, outcome) {
            (State::Stopping(..), Ok(())) => self.state = State::Stopped(since),
            (_, Ok(())) => {
                self.state = State::Live;
                if had_inactive && !mapped.has_inactive(io.stack) {
                    ledger.swaps += 1;
                    mapped.was_swapped();
                    ledger.log.trace.line(&format!("# the table is swapped: {:?}", mapped.live));
                }
                ledger.longest_swap = ledger.longest_swap.max(shut);
            }
            // The volume cannot be used, and another table may find it; or it keeps its table, as acknowledged writes are in memory only.
            (_, Err(error))
                if matches!(error.kind, MapperErrorKind::NotReady | MapperErrorKind::Busy)
                    && ledger.excuses(io.stack) =>
            {
                let is_live = mapped.state(io.stack) == Some(StateName::Active);
                self.state = if is_live { State::Live } else { State::Stopped(since) };
            }
            (_, Err(error)) => {
                ledger.violate(Rule::Table, io.now(), format!("the mapped device is not changed: {error}"));
            }
        }
        true
    }
}

impl Actor for SwapOperator {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        ledger.log.collect_trace(io.stack);
        if ledger.is_over() || ledger.is_stopping {
            return;
        }
        self.has_ended |= self.choices.next_item("step").is_none();
        // Hosts have the first turn.
        if self.deeds > 0
            && let Err(what) = self.obey(ledger, io)
        {
            ledger.violate(Rule::Table, io.now(), what);
        }
        // In a world that is slow it does not do ever more.
        self.deeds += 1;
        let pace = self.pace.unwrap_or(REMOVAL_PACE).0 * (1 + self.deeds / 10);
        self.is_removing = self.is_removing(ledger, io.stack);
        self.look_at_end(ledger, io);
        io.wake_at(
            io.now().max(ledger.pause)
                + Duration(1 + self.choices.decide("wait-ns", (CALM_WAIT, &[]), |rng| rng.below(pace))),
        );
    }

    fn after_turn(&mut self, io: &mut Io<'_>) -> bool {
        let shared = self.shared.clone();
        let ledger = &mut *shared.borrow_mut();
        !ledger.is_over() && self.settle(ledger, io)
    }

    fn is_done(&self) -> bool {
        let ledger = self.shared.borrow();
        ledger.is_over()
            || ledger.is_stopping
            || ledger.log.left == 0 && matches!(self.state, State::Live) && !self.is_removing
    }
}
