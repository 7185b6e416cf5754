//! The operator: changes the policy of a plug in use, and has a plug that lost its zones ask for them again.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::agenda::Agenda;
use super::ledger::Shared;
use super::scenario::discipline;
use crate::choices::Choices;
use crate::disk::Leaf;
use crate::model::Rule;
use crate::world::{Actor, Io};
use shingle_core::plug::{PlugError, WritePolicy, ZonePlug};
use shingle_core::time::{Duration, Instant};

/// How long a suspended plug may take to drain.
const DRAIN: Duration = Duration::from_millis(60_000);

/// The operator.
pub(super) struct Operator {
    shared: Shared,
    agenda: Agenda,
    /// Policies that it changes to, one after the other, and all of them.
    policies: VecDeque<WritePolicy>,
    known: VecDeque<WritePolicy>,
    /// Since when the plug has been suspended, and what it is to become.
    waiting: Option<(Instant, Option<WritePolicy>)>,
    /// How long it waits before it looks again.
    patience: Duration,
}

impl Operator {
    pub fn new(shared: Shared, policies: VecDeque<WritePolicy>, choices: Choices) -> Self {
        let (known, agenda) = (policies.clone(), Agenda::starting(choices));
        Self { shared, agenda, policies, known, waiting: None, patience: Duration::from_micros(100) }
    }
}

impl Actor for Operator {
    fn act(&mut self, io: &mut Io<'_>) {
        let shared = self.shared.clone();
        shared.borrow_mut().log.collect_trace(io.stack);
        match self.waiting {
            None if self.agenda.begins(io.now()) => self.begin(io),
            None => {}
            Some((since, policy)) => self.change(since, policy, io),
        }
        if self.waiting.is_some() {
            io.wake_at(io.now() + self.patience);
        } else if !self.is_done() {
            self.agenda.go_on(io, |rng| Duration(1_000 + rng.below(20_000_000)));
        }
    }

    fn is_done(&self) -> bool {
        self.waiting.is_none() && self.shared.borrow().log.left == 0
    }
}

impl Operator {
    /// Suspends the plug, if there is a reason.
    fn begin(&mut self, io: &mut Io<'_>) {
        let plug = self.shared.borrow().plugs[0];
        let Some(failed) = io.stack.device::<ZonePlug>(plug).map(|plug| plug.failure().is_some()) else { return };
        let Self { agenda, policies, known, .. } = self;
        // One, or none.
        let policy = agenda.choices.decide("policy", (Vec::new(), &[]), |rng| {
            let is_due = rng.chance(1, 3);
            policies.pop_front_if(|_| is_due && !failed).into_iter().collect()
        });
        let policy = policy.first().copied().filter(|policy| !failed && known.contains(policy));
        if failed || policy.is_some() {
            io.stack.suspend(plug);
            self.waiting = Some((io.now(), policy));
            self.patience = Duration::from_micros(100);
        }
    }

    /// Changes the plug once it is drained, and lets bios in again.
    fn change(&mut self, since: Instant, policy: Option<WritePolicy>, io: &mut Io<'_>) {
        let mut ledger = self.shared.borrow_mut();
        let (plug, disk) = (ledger.plugs[0], ledger.disks[0]);
        if !io.stack.is_drained(plug) {
            self.patience = Duration(self.patience.0 * 2);
            if io.now().since(since) > DRAIN {
                ledger.log.violate(Rule::Stuck, io.now(), "the suspended plug does not drain".into());
            }
            return;
        }
        let changed = io.stack.with_device(plug, |plug: &mut ZonePlug, cx| match policy {
            Some(policy) => plug.set_policy(policy, cx),
            None => plug.revalidate(cx),
        });
        match (changed, policy) {
            (Some(Err(PlugError::Busy)), _) => return,
            (Some(Err(error)), _) => {
                ledger.log.violate(Rule::Plug, io.now(), alloc::format!("a drained plug does not change: {error}"));
            }
            (_, Some(policy)) => {
                let expected = discipline(policy, io.stack.limits(disk).rotational);
                io.stack.with_device(disk, |disk: &mut Leaf, _| disk.0.expect(expected));
            }
            (_, None) => {}
        }
        io.stack.resume(plug);
        self.waiting = None;
    }
}
