//! Keys of NBD in `[export.NAME]`.

use std::sync::Arc;

use super::front_end::MOST_CONNECTIONS;
use crate::fields::Fields;
use crate::serve::{Export, Extra};

/// Limit of an export.
#[derive(Clone, Copy, Debug)]
struct Keys {
    max_connections: usize,
}

/// Reads them; an export without them has no limit.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Extra> {
    let most = fields.count("max-connections")?.map(u64::from);
    most.outside("max-connections", 1..=MOST_CONNECTIONS, "connections")
        .into_iter()
        .for_each(|mistake| fields.error(mistake));
    Some(Arc::new(Keys { max_connections: most.value as usize }))
}

/// Most connections that an export may have at once, including its block device; `None`: any number.
pub(crate) fn most_connections(export: &Export) -> Option<usize> {
    export.keys.find::<Keys>().map(|keys| keys.max_connections)
}
