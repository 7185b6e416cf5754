//! `ublk` and what stands beside it in `[export.NAME]`.

use std::sync::Arc;

use crate::fields::{At, Diagnostic, Fields};
use crate::serve::Extra;

/// How an export is a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    /// Which; `None`: the driver chooses a number.
    pub number: Option<u32>,
    /// Queues, as far as the machine has processors for them.
    pub queues: u16,
    /// Requests of a queue at once.
    pub depth: u16,
}

const QUEUES: u64 = 1;
const DEPTH: u64 = 128;
/// Most requests of one device at once, all queues together.
pub(super) const MOST_TAGS: u64 = 2048;
/// Highest number of a device (`UBLK_MINORS` is 2^20).
const HIGHEST_NUMBER: u64 = (1 << 20) - 1;

/// Reads them; an export without `ublk = true` is no block device.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Extra> {
    let wanted = fields.flag("ublk");
    let [number, queues, depth] =
        ["ublk-number", "ublk-queues", "ublk-depth"].map(|key| fields.count(key).map(|at| at.map(u64::from)));
    let limits = [
        ("ublk-number", &number, 0..=HIGHEST_NUMBER, "as in /dev/ublkbN"),
        ("ublk-queues", &queues, 1..=64, "queues"),
        ("ublk-depth", &depth, 1..=MOST_TAGS, "requests of a queue"),
    ];
    for (key, at, range, unit) in limits {
        let Some(at) = at else { continue };
        at.outside(key, range, unit).into_iter().for_each(|mistake| fields.error(mistake));
        if !wanted.as_ref().is_some_and(|at| at.value) {
            let title = format!("`{key}` is for block devices, and this export is none");
            fields.error(Diagnostic::at(at.span.clone(), title).label("add ublk = true"));
        }
    }
    let value = |at: &Option<At<u64>>, default| at.as_ref().map_or(default, |at| at.value);
    let (queues_wanted, depth_wanted) = (value(&queues, QUEUES), value(&depth, DEPTH));
    if let Some(at) = depth.or(queues).filter(|_| queues_wanted.saturating_mul(depth_wanted) > MOST_TAGS) {
        let title = format!("{queues_wanted} queues of {depth_wanted} requests are more than {MOST_TAGS} requests");
        fields.error(Diagnostic::at(at.span, title).label("at most so many of one device"));
    }
    wanted.filter(|at| at.value)?;
    let number = number.and_then(|at| u32::try_from(at.value).ok());
    Some(Arc::new(Keys { number, queues: queues_wanted as u16, depth: depth_wanted as u16 }))
}
