//! A look at the bios that go through a device, for statistics.

use core::any::Any;

use super::bio::Bio;
use super::op::Op;
use crate::sector::Sector;
use crate::time::Instant;

/// What a bio is about, in the sectors of the device that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it asks for.
    pub op: Op,
    /// First sector.
    pub sector: Sector,
    /// Length, in sectors.
    pub sectors: u32,
}

impl Span {
    /// What `bio` is about, at `sector`.
    #[must_use]
    pub fn of(bio: &Bio, sector: Sector) -> Self {
        Self { op: bio.op, sector, sectors: bio.sectors }
    }
}

/// Sees bios enter and leave a device that sends them on with [`super::Cx::pass`].
///
/// A bio that was inside when the observer came leaves without having entered: `entered` tells since when it has been there.
pub trait Observer: Any {
    /// A bio enters. `now` is when: to 4 us if it has waited for two seconds on its way, and as if it had waited for no more
    /// than 2.4 hours.
    fn entered(&mut self, span: &Span, now: Instant);

    /// It is done; it came in at `entered`, which is the `now` of that call.
    fn left(&mut self, span: &Span, entered: Instant, now: Instant);
}
