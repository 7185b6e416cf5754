//! What a disk may say about its `elevator` policy.

use std::ops::Range;

use shingle_core::plug::ElevatorOptions;
use shingle_core::time::Duration;

use crate::fields::{At, Diagnostic, Fields};

/// Longest `hold-back` and `linger`: they come on top of `max-wait`.
const MOST_IDLE: Duration = Duration::from_millis(1000);

/// The keys of `policy = "elevator"`.
#[derive(Debug)]
pub struct ElevatorSpec {
    /// What they say.
    pub options: ElevatorOptions,
    /// The place of the first of them, if there is one.
    pub place: Option<Range<usize>>,
}

impl ElevatorSpec {
    /// Reads them from the keys of a disk.
    pub fn read(fields: &mut Fields<'_>) -> Self {
        let mut spec = Self { options: ElevatorOptions::default(), place: None };
        spec.take(fields.duration("max-wait").map(|at| at.map(Duration::from)), |options| &mut options.max_wait);
        spec.take(fields.size("batch-size").map(|at| at.map(|bytes| bytes / 512)), |options| {
            &mut options.batch_sectors
        });
        spec.take(fields.duration("batch-time").map(|at| at.map(Duration::from)), |options| &mut options.batch_time);
        spec.take(short(fields, "hold-back"), |options| &mut options.hold_back);
        spec.take(short(fields, "linger"), |options| &mut options.linger);
        let sectors = |bytes| u32::try_from(bytes / 512).unwrap_or(u32::MAX);
        spec.take(fields.size("merge-size").map(|at| at.map(sectors)), |options| &mut options.merge_sectors);
        spec
    }

    fn take<T>(&mut self, value: Option<At<T>>, option: impl FnOnce(&mut ElevatorOptions) -> &mut T) {
        if let Some(At { value, span }) = value {
            *option(&mut self.options) = value;
            self.place.get_or_insert(span);
        }
    }
}

/// A time for which the disk may stand still although somebody waits.
fn short(fields: &mut Fields<'_>, key: &'static str) -> Option<At<Duration>> {
    let at = fields.duration(key)?.map(Duration::from);
    if at.value <= MOST_IDLE {
        return Some(at);
    }
    let title = format!("`{key}` is out of range");
    fields.error(Diagnostic::at(at.span, title).label("allowed: up to 1s; writes wait for as long"));
    None
}
