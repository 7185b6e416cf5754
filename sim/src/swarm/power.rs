//! Who switches the power of a disk off and on while its host goes on.

use super::ledger::Shared;
use super::path::FaultyPath;
use super::paths::{Heads, Outages};
use crate::disk::Leaf;
use crate::world::{Actor, Io};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// The switch.
pub(super) struct PowerSwitch {
    shared: Shared,
    heads: Heads,
    outages: Outages,
    rng: Rng,
    /// How often the power has gone, and how many of these losses are accepted.
    losses: u64,
    accepted: u64,
    /// When all paths have noticed the last time.
    over: Instant,
    is_started: bool,
    is_done: bool,
}

impl PowerSwitch {
    pub fn new(shared: Shared, heads: Heads, outages: Outages, rng: Rng) -> Self {
        Self {
            shared,
            heads,
            outages,
            rng,
            losses: 0,
            accepted: 0,
            over: Instant::ZERO,
            is_started: false,
            is_done: false,
        }
    }

    /// The power goes, and each path notices at its own time that it is back.
    fn cut(&mut self, io: &mut Io<'_>) {
        self.losses += 1;
        let back = io.now() + Duration(self.rng.below(self.outages.length.0));
        let (losses, rng) = (self.losses, &mut self.rng);
        let mut over = back;
        self.heads.with_paths(io.stack, |path: &mut FaultyPath, cx| {
            let noticed = back + Duration(1_000 + rng.below(10_000_000));
            path.lose_disk(losses, noticed, cx);
            over = over.max(noticed);
        });
        self.over = self.over.max(over);
        let disk = self.shared.borrow().disks[0];
        io.stack.with_device(disk, |disk: &mut Leaf, cx| disk.0.lose_power(rng, cx));
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
        if self.is_started && !self.is_over() {
            if self.losses < self.outages.most && self.rng.chance(1, 2) {
                self.cut(io);
            } else if self.accepted < self.losses {
                self.accept(io);
            }
        }
        self.is_started = true;
        if !self.is_over() {
            io.wake_at(io.now() + Duration(1_000 + self.rng.below(self.outages.pause.0)));
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
