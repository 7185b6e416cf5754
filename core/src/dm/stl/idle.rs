//! What is done while nobody uses the volume: zones that are cheap to clean are cleaned, and what is read in order is written in order. Then
//! its disks can sleep.

use super::ZoneIndex;
use super::clean::Work;
use super::log::Pool;
use super::policy::live_of_victims;
use super::second_daemon::refuse_second_daemon;
use super::state::{Readiness, Shared, State};
use super::victim::Victim;

/// Free zones that there should be when users come back, as a multiple of those at which they begin to pay for cleaning.
const STOCKS: usize = 4;

/// Whether the volume is used, and what was done since it is not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    is_now: bool,
    /// Bios of users, ever, and when it was idle last.
    uses: u64,
    seen: u64,
    /// It was looked for victims since then.
    has_looked: bool,
    /// Zones that came free were given back since then.
    has_reset: bool,
    /// Blocks that users had written when it was looked for victims last.
    looked_at: u64,
    /// Another daemon may have used the disks since then: no batch of users is sent before that is known.
    pub is_unsure: bool,
}

/// Knows when nobody uses the volume.
pub(super) async fn run(shared: Shared) {
    let (io, signals) = {
        let state = shared.borrow();
        (state.io.clone(), state.signals.clone())
    };
    loop {
        signals.used.until(|| shared.borrow().idle.is_used().then_some(())).await;
        if shared.borrow().idle.is_unsure {
            // The volume is read-only otherwise.
            let _ = refuse_second_daemon(&shared).await;
            let mut state = shared.borrow_mut();
            state.idle.is_unsure = false;
            state.notify(|signals| &signals.changes);
        }
        let mut last = None;
        while last != Some(shared.borrow().idle.uses) || shared.borrow().is_busy() {
            last = Some(shared.borrow().idle.uses);
            let after = shared.borrow().options.idle_after;
            io.sleep_until(io.now() + after).await;
        }
        let mut state = shared.borrow_mut();
        let Idle { uses, looked_at, .. } = state.idle;
        // A volume that is loaded looks at all roots, however long that takes.
        let is_unsure = state.readiness == Readiness::Ready && state.options.finds_second_daemon;
        state.idle = Idle { is_now: true, is_unsure, uses, seen: uses, looked_at, ..Idle::default() };
        state.notify(|signals| &signals.progress);
    }
}

impl Idle {
    fn is_used(&self) -> bool {
        self.uses != self.seen
    }
}

impl State {
    /// A user has come.
    pub fn touch(&mut self) {
        self.idle.uses += 1;
        if self.idle.uses == self.idle.seen + 1 {
            self.idle.is_now = false;
            self.notify(|signals| &signals.used);
        }
    }

    /// Whether nobody has used the volume for a while.
    pub fn is_idle(&self) -> bool {
        self.idle.is_now && self.readiness == Readiness::Ready && !self.is_suspended
    }

    /// Bios of users, ever.
    pub fn uses(&self) -> u64 {
        self.idle.uses
    }

    /// Whether a user waits for something.
    pub fn is_busy(&self) -> bool {
        self.is_read_or_written() || !self.flushes.is_empty()
    }

    /// Whether a user waits for a read or a change.
    pub fn is_read_or_written(&self) -> bool {
        !(self.writes.is_empty() && self.readings.is_empty() && self.node_waiters.is_empty())
    }

    /// What is to be done next while nobody uses the volume.
    pub fn idle_work(&mut self) -> Option<Work> {
        if !self.is_idle() {
            return None;
        }
        let free = self.level().free;
        if free < STOCKS * self.stock() {
            if let Some(zone) = self.best_marked().filter(|zone| self.is_cheap(*zone)) {
                self.victim = Some(zone);
                return Some(Work::Clean(Victim::new(zone, self)));
            }
            self.look_when_idle();
        }
        if free < 2 * self.stock() {
            return None;
        }
        if !self.scattered.is_empty() && self.counted() != self.map_cut.0 {
            // Only what a durable root has is written in order.
            if !self.is_checkpoint_wanted && !self.is_checkpointing {
                self.is_checkpoint_wanted = true;
                self.notify(|signals| &signals.progress);
            }
            return None;
        }
        self.scattered.take().map(|(start, end)| Work::Rewrite(start, end))
    }

    /// Whether a zone costs less to clean than zones will when users need them: others have blocks that will die by themselves.
    fn is_cheap(&self, zone: ZoneIndex) -> bool {
        let room = |zone: ZoneIndex| u64::from(self.disks.shape(zone).room);
        let full = self.zones.full(&[Pool::Users, Pool::Cleaning]);
        let (live, full) = full.fold((0, 0), |(live, all), (zone, row)| (live + u64::from(row.live), all + room(zone)));
        let free: u64 = self.zones.all_free().map(room).sum();
        self.live_share(zone, self.marked(zone)) < live_of_victims(live as f64 / (full + free).max(1) as f64)
    }

    /// Looks for zones that are cheap, and gives back those that came free: once each time that the volume is idle, and only if enough was written
    /// since the last time.
    fn look_when_idle(&mut self) {
        if self.is_sweep_wanted || self.is_checkpoint_wanted || self.is_checkpointing {
            return;
        }
        let most = self.stock() as u64 * u64::from(self.disks.set.zone_blocks()) / 4;
        if !self.idle.has_looked && self.clock - self.idle.looked_at >= most {
            match self.counted() == self.map_cut.0 {
                true => {
                    (self.idle.has_looked, self.idle.looked_at) = (true, self.clock);
                    self.is_sweep_wanted = true;
                }
                false => self.is_checkpoint_wanted = true,
            }
        } else if !self.idle.has_reset && self.zones.done_with() > 0 {
            self.idle.has_reset = true;
            self.is_checkpoint_wanted = true;
        } else {
            return;
        }
        self.notify(|signals| &signals.progress);
    }
}
