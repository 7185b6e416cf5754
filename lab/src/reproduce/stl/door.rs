//! A way to disks that can be shut: what comes then fails, and the disks see nothing of it.

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Reason};

/// A layer over a disk.
pub struct Door {
    below: [DeviceId; 1],
    limits: Limits,
    is_shut: bool,
}

impl Door {
    /// Over the device `below`, which has `limits`; it is open.
    pub fn new(below: DeviceId, limits: &Limits) -> Self {
        Self { below: [below], limits: limits.clone(), is_shut: false }
    }

    /// Nothing comes through any more.
    pub fn shut(&mut self) {
        self.is_shut = true;
    }
}

impl BlockDevice for Door {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.is_shut {
            return cx.fail(bio, Reason::Medium);
        }
        cx.remap(self.below[0], bio);
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        write!(out, "door to device {}, {}", self.below[0].0, if self.is_shut { "shut" } else { "open" })
    }
}
