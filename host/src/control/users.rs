//! Who has data on a device.

use shingle_core::block::DeviceId;

use super::{ControlError, ErrorKind};
use crate::devices::Named;
use crate::serve::Directory;
use crate::shard::Shard;

/// Most users that an error names.
const MOST_NAMED: usize = 4;

/// What clients can choose from, and the number of this shard.
#[derive(Clone)]
pub(super) struct Offers {
    pub exports: Directory,
    pub shard: usize,
}

/// Whether nobody has data on the device in place `id` of `shard`. It stays so until the shard's next message: exports and
/// tables come by those.
///
/// # Errors
/// Who has.
pub(super) fn check_unused(shard: &Shard, id: DeviceId, offers: &Offers) -> Result<(), ControlError> {
    let Some(users) = users_of(shard, id, offers) else { return Ok(()) };
    let message = format!(
        "`{}` is in use by {users}: what becomes of its zones becomes of their data; end that first, or use --force",
        shard.devices.label(id)
    );
    Err(ControlError::new(ErrorKind::Busy, message))
}

/// Who has data on the device in place `id` of `shard`, in words; `None`: nobody.
pub(super) fn users_of(shard: &Shard, id: DeviceId, offers: &Offers) -> Option<String> {
    let exports = offers.exports.names_of(offers.shard, id).into_iter().map(|name| format!("export `{name}`"));
    let tables = shard.devices.mapper.users_of(id).map(|name| format!("the table of `{name}`"));
    let is_path = |head: &&Named| shard.stack.below(head.leaf).contains(&id);
    let heads = shard.devices.heads().filter(is_path).map(|head| format!("`{}`, whose path it is", head.name));
    let users: Vec<String> = exports.chain(tables).chain(heads).collect();
    let more = users.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = users[..users.len().min(MOST_NAMED)].join(", ");
    (!users.is_empty()).then(|| format!("{named}{more}"))
}
