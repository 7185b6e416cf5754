//! The server of a ublk device: requests of the machine's kernel in, bios out; completions in, answers out.
//!
//! A driver feeds it a request by its tag and descriptor, and does what the [`Next`] step says: submits a bio, whose completion
//! it hands over, or answers the kernel. The data of requests moves through the driver's [`UserCopy`]. Each tag has memory of its
//! own from the start, so that nothing is allocated, and nobody waits, on the way of a write: those who write may be those who
//! would have to free memory.

mod session;
mod wire;

pub use self::session::{Answer, Next, Session, SessionShape, UserCopy};
pub use self::wire::{Descriptor, ZONE_BYTES};
