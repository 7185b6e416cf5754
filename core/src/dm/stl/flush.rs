//! Making what counts durable.

use alloc::collections::VecDeque;

use super::disks::{self, Disk};
use super::second_daemon::blame_second_daemon;
use super::state::{Shared, State};
use crate::block::{Bio, Op, Reason};
use crate::prelude::*;
use crate::task::Answer;

/// Flushes all disks.
pub(super) async fn flush_disks(shared: &Shared) -> Result<(), Reason> {
    let answers = {
        let state = shared.borrow();
        state.flush_members(&state.members_to_flush())
    };
    disks::all(answers).await
}

/// Flushes the disks that have batches of users which they may lose with their power.
async fn flush_changes(shared: &Shared) -> Result<(), Reason> {
    let (members, answers) = {
        let mut state = shared.borrow_mut();
        let mut members = state.members_to_flush();
        let has_some = |disk: &mut Disk| core::mem::take(&mut disk.has_undurable);
        members.retain(|member| state.disks.all[*member].as_mut().is_some_and(has_some));
        let answers = state.flush_members(&members);
        (members, answers)
    };
    let result = disks::all(answers).await;
    if result.is_err() {
        let mut state = shared.borrow_mut();
        if !state.guards.gone().failed_flush_counts {
            members.into_iter().for_each(|member| state.disks.doubt(member));
        }
    }
    result
}

/// Flushes for users: all that waits shares one, and what comes meanwhile the next.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        let waiting: VecDeque<Box<Bio>> = signals
            .flushes
            .until(|| {
                let waiting = core::mem::take(&mut shared.borrow_mut().flushes);
                Some(waiting).filter(|waiting| !waiting.is_empty())
            })
            .await;
        let io = shared.borrow().io.clone();
        let flushing = shared.borrow_mut().turns.flush(io.now());
        let result = flush_changes(&shared).await;
        let result = blame_second_daemon(&shared, result).await;
        let mut state = shared.borrow_mut();
        let State { turns, lanes, .. } = &mut *state;
        if result.is_ok() {
            turns.flushed(&flushing, io.now(), lanes);
        }
        waiting.into_iter().for_each(|bio| state.end(bio, result.clone()));
        state.notify(|signals| &signals.progress);
    }
}

impl State {
    /// The devices that a flush reaches.
    fn members_to_flush(&self) -> Vec<usize> {
        let mut members = self.disks.present();
        if self.guards.gone().flush_one_device {
            members.truncate(1);
        }
        members
    }

    fn flush_members(&self, members: &[usize]) -> Vec<Answer> {
        let disks = members.iter().filter_map(|member| self.disks.all[*member].as_ref());
        disks.map(|disk| self.io.flush(disk.device)).collect()
    }

    /// Takes a flush.
    pub fn take_flush(&mut self, bio: Box<Bio>) {
        debug_assert!(bio.op == Op::Flush, "nothing else waits for a flush");
        self.flushes.push_back(bio);
        self.notify(|signals| &signals.flushes);
    }
}
