//! Bios that came back from a path while their commands may still take effect.
//!
//! ```text
//!   path error ──> waits ── the path says that it is silent, or its time is over ──> settled: what is done now is done
//! ```
//!
//! Each has the path asked in the moment in which it comes back: then the question goes the way that its command went, and the answer
//! is one about it. Questions have numbers, as a path may answer in any order.

use alloc::collections::VecDeque;

use super::head::Job;
use crate::block::Silence;
use crate::time::{Duration, Instant};

/// A bio that waits for the silence of its path.
struct Waiting {
    path: usize,
    /// When it came back.
    back: Instant,
    /// Its question.
    question: u64,
    job: Job,
}

/// All of a head.
#[derive(Default)]
pub(super) struct Unsettled {
    /// In the order in which they came back.
    waiting: VecDeque<Waiting>,
    asked: u64,
}

impl Unsettled {
    /// Takes in a bio; the number of the question to its path.
    pub fn push(&mut self, path: usize, job: Job, now: Instant) -> u64 {
        self.asked += 1;
        self.waiting.push_back(Waiting { path, back: now, question: self.asked, job });
        self.asked
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.waiting.iter().map(|waiting| &waiting.job)
    }

    /// Whether some wait for this path.
    pub fn has(&self, path: usize) -> bool {
        self.waiting.iter().any(|waiting| waiting.path == path)
    }

    /// The one whose question has this number; `any`: the first one of its path.
    pub fn take_answered(&mut self, path: usize, number: u64, any: bool) -> Option<Job> {
        self.take_first(|waiting| waiting.path == path && (any || waiting.question == number))
    }

    /// The first one of a path that needs no more time than has passed.
    pub fn take_over(&mut self, path: usize, silence: Silence, now: Instant) -> Option<Job> {
        match silence {
            Silence::AtOnce => self.take_older(path, Duration::ZERO, now),
            Silence::After(time) => self.take_older(path, time, now),
            Silence::Told => None,
        }
    }

    /// The first one of a path that has waited so long.
    pub fn take_older(&mut self, path: usize, than: Duration, now: Instant) -> Option<Job> {
        self.take_first(|waiting| waiting.path == path && now.since(waiting.back) >= than)
    }

    fn take_first(&mut self, is_it: impl Fn(&Waiting) -> bool) -> Option<Job> {
        let at = self.waiting.iter().position(is_it)?;
        self.waiting.remove(at).map(|waiting| waiting.job)
    }
}
