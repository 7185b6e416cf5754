//! `stl`, a shingled translation layer: zoned disks as one ordinary disk, which writes nothing in place.
//!
//! `docs/decisions/0015-stl.md` says why it is built so, `docs/stl-format.md` has every byte. A *block* is 4096 bytes.

pub mod format;
pub mod map;
mod numbers;
pub mod policy;
mod replay;
mod set;

pub use numbers::{ADDRESS_BITS, BatchNo, CopyNo, Epoch, Generation, Lba, Pba, ZoneIndex};
pub use replay::{Replay, Since};
pub use set::{Set, Spot};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors of a block.
pub const BLOCK_SECTORS: u32 = 8;
