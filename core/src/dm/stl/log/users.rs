//! Where users may have written behind a root, if a zone is gone that was free when it was made.

use super::stream::Stream;
use crate::dm::stl::ZoneIndex;
use crate::dm::stl::format::{BatchKind, Header, OpenZone, Root};
use crate::dm::stl::set::Set;
use crate::prelude::*;
use crate::zone::Condition;

/// Zones that the lane of users may have had behind a root. It opens the next one when one takes no more, and the one first that the root names as the
/// next: so as long as one of these takes some, nothing of users is in a zone that is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsersZones {
    /// Those that were opened.
    opened: Vec<ZoneIndex>,
    /// What was free, and is opened next. None in a root that a tool has made, behind which users write nothing.
    next: Vec<ZoneIndex>,
}

impl UsersZones {
    /// What a root names; the table that goes with it says what `is_free`.
    pub fn named(set: &Set, root: &Root, is_free: impl Fn(ZoneIndex) -> bool) -> Self {
        let named = root.open.iter().filter(|open| open.stream == Stream::Users as u8);
        let (next, opened) = named.map(|open| set.zone_of(open.start).0).partition(|zone| is_free(*zone));
        Self { opened, next }
    }

    /// Adds those in which batches of users were found. Not those beside the lane: zones with a pointer that the root names for something else.
    pub fn find(&mut self, set: &Set, root: &Root, found: &[Header], has_pointer: impl Fn(ZoneIndex) -> bool) {
        let zone_of = |open: &OpenZone| set.zone_of(open.start).0;
        let is_else = |open: &&OpenZone| open.stream != Stream::Users as u8 && has_pointer(zone_of(open));
        let beside: Vec<ZoneIndex> = root.open.iter().filter(is_else).map(zone_of).collect();
        let users = found.iter().filter(|header| matches!(header.kind, BatchKind::User(_)));
        let users = users.map(|header| set.zone_of(header.batch.place).0);
        self.opened.extend(users.filter(|zone| !beside.contains(zone)));
    }

    /// Whether a zone is the one that is opened next.
    pub fn is_next(&self, zone: ZoneIndex) -> bool {
        self.next.contains(&zone)
    }

    /// Whether batches of users may be in a zone that is not among them.
    pub fn may_go_on_elsewhere(&self, condition: impl Fn(ZoneIndex) -> Option<Condition>) -> bool {
        let takes_some = self.opened.iter().any(|zone| condition(*zone).is_some_and(Condition::is_active))
            || self.next.iter().any(|zone| condition(*zone) == Some(Condition::Empty));
        let is_empty = self.opened.is_empty() && self.next.is_empty();
        !is_empty && !takes_some
    }
}
