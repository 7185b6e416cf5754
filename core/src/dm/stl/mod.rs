//! `stl`, a shingled translation layer: zoned disks as one ordinary disk, which writes nothing in place.
//!
//! `docs/decisions/0016-stl.md` says why it is built so, `docs/stl-format.md` has every byte. A *block* is 4096 bytes.

mod append;
mod changes;
mod checkpoint;
mod clean;
mod compact;
mod copy;
mod create;
mod device;
mod disks;
mod doubts;
mod evacuate;
mod figures;
mod flush;
pub mod format;
mod guards;
mod headers;
mod holes;
mod idle;
mod knobs;
mod lanes;
mod load;
pub mod log;
pub mod map;
mod near;
mod nodes;
mod numbers;
mod older_copies;
mod options;
mod pages;
pub mod policy;
mod read;
mod read_ahead;
mod read_map;
mod refusal;
mod replay;
mod rewrite;
mod roots;
mod run_reader;
mod second_daemon;
mod set;
mod stale;
mod state;
mod sweep;
mod sweep_turn;
mod table;
pub mod tools;
mod turns;
mod victim;
mod window;
mod write;

pub use create::{CreateError, Created, Part, Spare, create};
pub use device::Stl;
pub use evacuate::{Leaving, Stage, Step};
pub use format::Sizing;
#[cfg(feature = "sabotage")]
pub use guards::Sabotage;
pub use knobs::{KnobError, Knobs};
pub use numbers::{ADDRESS_BITS, BatchNo, CopyNo, Epoch, Generation, Lba, Pba, ZoneIndex};
pub use options::Options;
pub use replay::{Replay, Since};
pub use roots::ROOT_ZONES;
pub use set::{Set, Spot};
pub use state::StlCounters;
pub(super) use table::TYPE;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors of a block.
pub const BLOCK_SECTORS: u32 = 8;
