//! Where the blocks of the exposed disk are, in three levels of which the first that knows a block decides.
//!
//! ```text
//!   Pending     memory           since the last checkpoint
//!   runs        disk, sorted     a pending set each, as a checkpoint wrote it, or several; RunIndex: which of them has a block, exactly
//!   leaves      disk             all other blocks, a range each
//! ```

mod extent;
mod image;
mod leaf;
mod levels;
mod live;
mod node;
mod pending;
mod run_index;

pub use extent::{Checksums, Extent, Source, Span};
pub use image::{LeafImage, Row};
pub use leaf::{LeafNo, LeafSize};
pub use levels::{Found, Map, Run, pages_from};
pub use live::{Bitmap, Live};
pub use node::{Node, NodeCache};
pub use pending::Pending;
pub use run_index::{Held, RunIndex, RunNo, RunSet};
