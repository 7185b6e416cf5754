//! dm-zoned: host-managed zoned disks as one ordinary disk, with the on-disk format of the Linux kernel's target.
//!
//! Facts about the format and the kernel's target are from `drivers/md/dm-zoned-*.c` and the tools of dm-zoned-tools 2;
//! `docs/dm-zoned-format.md` has every byte. A *block* is 4096 bytes; a *chunk* is as many blocks of the exposed disk as a
//! zone has. Zones of all devices of a set share one numbering, see [`ZoneSpace`].

pub mod check;
mod clean;
mod commit;
mod device;
mod dirty;
pub mod format;
mod guards;
mod load;
mod numbers;
pub mod policy;
mod reclaim;
mod resync;
mod route;
mod sets;
mod space;
mod stale;
mod state;
mod table;
mod transfer;
mod valid;
mod volume;
mod zones;

pub use device::Zoned;
#[cfg(feature = "sabotage")]
pub use guards::Sabotage;
pub use numbers::{Block, ChunkNo, MemberNo, MetaBlock, Number, Rows, SetZone};
pub use space::{Member, SpaceError, ZoneClass, ZoneHealth, ZoneInfo, ZoneSpace};
pub use state::ZonedCounters;
pub(super) use table::TYPE;
pub use valid::ValidBlocks;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors of a block.
pub const BLOCK_SECTORS: u32 = 8;
