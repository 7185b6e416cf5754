//! The log: zones that are opened, filled, emptied and reset, and the order in which what is in them counts.

mod batch;
mod order;
mod stream;
mod users;
mod zones;

pub use batch::{Checker, Sealed, checksums_of};
pub use order::Order;
pub use stream::Stream;
pub use users::UsersZones;
pub use zones::{Keep, Opening, Place, Pool, Rest, Zones};
