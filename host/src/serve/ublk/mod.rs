//! Block devices of this machine's kernel (`/dev/ublkbN`), by ublk.
//!
//! ```text
//!  [export.NAME] ublk = true ──> Service: one device each ── add, start, take over, stop ──> the driver
//!                                     │ spawn                                                    │ requests
//!                                     └──> Server, a source of the export's shard <──────────────┘
//! ```
//!
//! What the driver takes long for (devices come and go) is done by the thread that asks for it, with [`shingle_sys::ublk::Control`];
//! requests are served by the shard of the export. A device outlives its server: who starts the stack file again takes over
//! what the killed one has left.

mod device;
mod error;
mod front_end;
mod keeps;
mod keys;
mod left;
mod memory;
mod parameters;
mod record;
mod replay_watch;
mod server;
mod udev;
mod users;
mod waiting;

pub use self::error::UblkError;
pub use self::front_end::TYPE;
pub use self::left::{UblkDevice, devices, remove};
pub use self::waiting::{WaitingDevice, waiting_for};

/// A number for some bytes that stays what it is from one version to the next (FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
