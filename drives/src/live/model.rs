//! What a model has to be to run as a live drive.

use alloc::boxed::Box;
use core::fmt;

use shingle_core::block::{Bio, BlockDevice, Cx, Event, Limits};
use shingle_core::random::Rng;
use shingle_core::zone::ZonedDisk;

use crate::medium::{KeptZones, Medium};

/// A drive that knows what a loss of power takes.
pub trait Model: BlockDevice {
    /// Called once, before its first bio: from now on the power may go. Here those begin that have to remember something for that,
    /// which costs memory.
    fn go_live(&mut self) {}

    /// Where it keeps data, if it does.
    fn medium(&self) -> Option<&Medium>;

    /// The same, to be changed.
    fn medium_mut(&mut self) -> Option<&mut Medium>;

    /// Its zones, if it has any.
    fn zones(&self) -> Option<&ZonedDisk> {
        None
    }

    /// The same, to be changed.
    fn zones_mut(&mut self) -> Option<&mut KeptZones> {
        None
    }

    /// The power goes, and comes back at once: what was not durable is gone, or a part of it that `rng` chooses. All bios that it
    /// has are completed in this call; with which status does not matter.
    fn lose_power(&mut self, rng: &mut Rng, cx: &mut Cx<'_>);
}

/// A model as a device of a stack, of one type whatever it is.
pub(super) struct Inside(pub Box<dyn Model>);

impl BlockDevice for Inside {
    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.0.submit(bio, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.0.on_event(event, cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.0.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.describe(out)
    }
}
