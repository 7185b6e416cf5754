//! Who switches the power of a disk off and on while its host goes on.

use super::agenda::Agenda;
use super::ledger::Shared;
use super::path::FaultyPath;
use super::paths::{Heads, Outages};
use crate::choices::Choices;
use crate::disk::Leaf;
use crate::world::{Actor, Io};
use shingle_core::time::{Duration, Instant};

/// The switch.
pub(super) struct PowerSwitch {
    shared: Shared,
    heads: Heads,
    outages: Outages,
    agenda: Agenda,
    /// How often the power has gone, and how many of these losses are accepted.
    losses: u64,
    accepted: u64,
    /// When all paths have noticed the last time.
    over: Instant,
    is_done: bool,
}

impl PowerSwitch {
    pub fn new(shared: Shared, heads: Heads, outages: Outages, choices: Choices) -> Self {
        let (losses, accepted, over, is_done) = (0, 0, Instant::ZERO, false);
        Self { shared, heads, outages, agenda: Agenda::new(choices), losses, accepted, over, is_done }
    }

    /// The power goes, and each path notices at its own time that it is back.
    fn cut(&mut self, io: &mut Io<'_>) {
        self.losses += 1;
        let (losses, length, choices) = (self.losses, self.outages.length.0, &mut self.agenda.choices);
        let back = io.now() + Duration(choices.decide("length-ns", (0, &[]), |rng| rng.below(length)));
        let mut over = back;
        self.heads.with_paths(io.stack, |path: &mut FaultyPath, cx| {
            let noticed = back + Duration(1_000 + choices.below("noticed-after-ns", 10_000_000));
            path.lose_disk(losses, noticed, cx);
            over = over.max(noticed);
        });
        self.over = self.over.max(over);
        let disk = self.shared.borrow().disks[0];
        io.stack.with_device(disk, |disk: &mut Leaf, cx| disk.0.lose_power(choices, cx));
        let mut ledger = self.shared.borrow_mut();
        ledger.log.note("outage");
        ledger.is_loss_unheard = true;
    }

    /// Somebody knows of the loss, and goes on.
    fn accept(&mut self, io: &mut Io<'_>) {
        self.accepted = self.losses;
        let mut ledger = self.shared.borrow_mut();
        // The head may have heard in this very moment, and accepts that, too.
        ledger.hear(io.stack);
        io.stack.message(self.heads.head, &["accept_losses"]).expect("a head knows losses");
        ledger.model.accept_losses();
        ledger.log.note("accept_losses");
    }

    fn is_over(&self) -> bool {
        let ledger = self.shared.borrow();
        ledger.log.left == 0 || ledger.is_over()
    }
}

impl Actor for PowerSwitch {
    fn act(&mut self, io: &mut Io<'_>) {
        if self.agenda.begins(io.now()) && !self.is_over() {
            let may_cut = self.losses < self.outages.most;
            if self.agenda.choices.decide("outage", (false, &[]), |rng| may_cut && rng.chance(1, 2)) {
                self.cut(io);
            } else if self.accepted < self.losses {
                self.accept(io);
            }
        }
        if !self.is_over() {
            let longest = self.outages.pause.0;
            self.agenda.go_on(io, |rng| Duration(1_000 + rng.below(longest)));
        } else if io.now() < self.over {
            io.wake_at(self.over);
        } else {
            self.is_done = true;
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}
