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

pub use checksum::{Checksum, SetId};
pub use header::{Batch, BatchKind, Header, HeaderError};
pub use leaf::{LeafError, MOST_LEAF_BLOCKS, decode_leaf, encode_leaf};
pub use record::{Copied, Written};
