//! What `stl` keeps on the disks. `docs/stl-format.md` has every byte.
//!
//! ```text
//!   zone:    batch | batch | batch | ... | footer: copies of all headers, if the zone is full
//!   batch:   header blocks: what the payload is, with checksums | payload blocks
//! ```

mod bytes;
mod checksum;
mod header;
mod leaf;
mod record;
mod root;
mod rows;
mod run;

pub use checksum::{Checksum, SetId};
pub use header::{Batch, BatchKind, Header, HeaderError};
pub use leaf::{LeafError, MOST_LEAF_BLOCKS, decode_into, decode_leaf, encode_leaf, place_leaf};
pub use record::{Copied, Life, Written};
pub use root::{
    MOST_MEMBERS, MOST_OPEN, Member, MemberKind, MemberState, OpenZone, Piece, PieceKind, Root, RootError, Sizing,
};
pub use rows::{LeafRow, PageRow, ZoneRow, ZoneUse};
pub use run::{PageError, PageWriter, decode_page, place_page};

/// Blocks of a root, its header included.
pub const ROOT_BLOCKS: usize = 8;
/// Bytes of a root's payload.
pub const MOST_PAYLOAD_OF_ROOT: usize = (ROOT_BLOCKS - 1) * super::BLOCK_BYTES;
