//! A simulated disk that can be made deaf to flushes.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Cx, Event, Limits, Op, Status};
use shingle_core::random::Rng;
use shingle_sim::Choices;
use shingle_sim::disk::{CrashDisk, Medium};

/// The disk.
pub struct Disk {
    pub disk: CrashDisk,
    pub deaf: Rc<Cell<bool>>,
}

impl Disk {
    pub fn cut_power(&self, rng: &mut Rng) -> Medium {
        Choices::of(rng, |choices| self.disk.cut_power(choices))
    }
}

impl BlockDevice for Disk {
    fn limits(&self) -> &Limits {
        self.disk.limits()
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.deaf.get() && bio.op == Op::Flush { cx.complete(bio, Status::Ok) } else { self.disk.submit(bio, cx) }
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.disk.on_event(event, cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.disk.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.disk.describe(out)
    }
}
