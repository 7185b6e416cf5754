//! Bios that came back from a path while their commands may still take effect.
//!
//! ```text
//!   path error ──> waits ── the path says that it is silent, or its time is over ──> settled: what is done now is done
//! ```
//!
//! Asking a path takes a while, and more bios can come back meanwhile: an answer counts for those that were there when it was asked.

use alloc::collections::VecDeque;

use super::head::Job;
use crate::block::Silence;
use crate::prelude::*;
use crate::time::Instant;

/// A bio that waits for the silence of its path.
struct Waiting {
    path: usize,
    /// When it came back.
    back: Instant,
    /// Whether the path was asked after that.
    is_asked: bool,
    job: Job,
}

/// All of a head.
#[derive(Default)]
pub(super) struct Unsettled {
    /// In the order in which they came back.
    waiting: VecDeque<Waiting>,
    /// The paths that were asked and have not answered: who is asked twice gives two answers, and the first says nothing of the second
    /// question.
    asked: Vec<usize>,
}

impl Unsettled {
    pub fn push(&mut self, path: usize, job: Job, now: Instant) {
        self.waiting.push_back(Waiting { path, back: now, is_asked: false, job });
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.waiting.iter().map(|waiting| &waiting.job)
    }

    /// Whether a path has to be asked now: it has new ones, and is not being asked already.
    pub fn has_to_ask(&mut self, path: usize) -> bool {
        if self.asked.contains(&path) {
            return false;
        }
        let mut is_any = false;
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.path == path) {
            (waiting.is_asked, is_any) = (true, true);
        }
        self.asked.extend(is_any.then_some(path));
        is_any
    }

    /// A path has answered.
    pub fn answered(&mut self, path: usize) {
        self.asked.retain(|asked| *asked != path);
    }

    /// The first one that is settled: its path has told so since it was asked (`is_told`), or needs no more time than has passed; `any`:
    /// the first one of the path.
    pub fn take(&mut self, path: usize, silence: Silence, (is_told, any): (bool, bool), now: Instant) -> Option<Job> {
        let is_over = |waiting: &Waiting| match silence {
            Silence::AtOnce => true,
            Silence::After(time) => now.since(waiting.back) >= time,
            Silence::Told => false,
        };
        let is_settled =
            |waiting: &Waiting| waiting.path == path && (any || is_told && waiting.is_asked || is_over(waiting));
        let at = self.waiting.iter().position(is_settled)?;
        self.waiting.remove(at).map(|waiting| waiting.job)
    }
}
