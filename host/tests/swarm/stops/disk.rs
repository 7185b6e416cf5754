//! A simulated disk that can get ill: it ignores flushes, fails, or does not answer any more.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Cx, Event, Limits, Op, Reason, Status};
use shingle_core::random::Rng;
use shingle_core::time::Instant;
use shingle_sim::Choices;
use shingle_sim::disk::{CrashDisk, Medium};

/// Health of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    #[default]
    Good,
    /// Flushes are acknowledged and not done.
    Deaf,
    /// All commands fail from a moment on, until another one if there is one.
    Failing(Instant, Option<Instant>),
    /// From this moment on no command is answered.
    Silent(Instant),
}

impl Health {
    /// True if requests may fail at `now`, or be without an answer.
    pub fn excuses(self, now: Instant) -> bool {
        matches!(self, Health::Failing(from, _) | Health::Silent(from) if now >= from)
    }

    fn fails(self, now: Instant) -> bool {
        matches!(self, Health::Failing(from, until) if now >= from && until.is_none_or(|until| now < until))
    }

    fn is_silent(self, now: Instant) -> bool {
        matches!(self, Health::Silent(from) if now >= from)
    }
}

/// The disk.
pub struct Disk {
    disk: CrashDisk,
    health: Rc<Cell<Health>>,
    /// Commands that it does not answer.
    #[expect(clippy::vec_box, reason = "they come and would go in boxes")]
    kept: Vec<Box<Bio>>,
}

impl Disk {
    pub fn new(disk: CrashDisk, health: Rc<Cell<Health>>) -> Self {
        Self { disk, health, kept: Vec::new() }
    }

    pub fn cut_power(&self, rng: &mut Rng) -> Medium {
        Choices::of(rng, |choices| self.disk.cut_power(choices))
    }
}

impl BlockDevice for Disk {
    fn limits(&self) -> &Limits {
        self.disk.limits()
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match self.health.get() {
            Health::Deaf if bio.op == Op::Flush => cx.complete(bio, Status::Ok),
            health if health.fails(cx.now()) => cx.fail(bio, Reason::Injected(Status::Io)),
            health if health.is_silent(cx.now()) => self.kept.push(bio),
            _ => self.disk.submit(bio, cx),
        }
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if !self.health.get().is_silent(cx.now()) {
            self.disk.on_event(event, cx);
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.kept.iter().for_each(|bio| visit(bio));
        self.disk.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.disk.describe(out)
    }
}
