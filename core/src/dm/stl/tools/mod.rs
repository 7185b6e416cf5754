//! The disks of a volume for those who may wait: made, looked at, checked, and rebuilt when all roots are lost.
//!
//! ```text
//!   format:   old roots away ──> zones emptied ──> roots of a new set, each durable before the next step
//!   add:      the device emptied ──> tables with its zones on it ──> roots that name it, one device after the other
//!   remove:   a start that says so, and moves all away ──> roots without the device, one device after the other ──> its roots away
//!   check:    the newest root ──> what it names ──> what the headers of zones say (── the data)
//!   salvage:  the headers of all zones, and nothing else ──> which batch is the newest that has a block ──> a new map and roots
//! ```

mod add;
mod chain;
mod check;
mod finding;
mod format;
mod marks;
mod media;
mod members;
mod memory;
mod older_copies;
mod rebuild;
mod remove;
mod roots;
mod salvage;
mod space;
mod survey;
mod volume;
mod walk;

pub use super::BLOCK_BYTES;
pub use add::{AddError, Added, add};
pub use chain::{Chain, Expected, Found};
pub use check::{Depth, Report, check, follow};
pub use finding::{Finding, Findings};
pub use format::{FormatError, FormatOptions, format, plan};
pub use media::{Disk, Media, MediaError, Progress, Spot};
pub use members::{Absent, Foreign, WrongMembers, absent};
pub use memory::MemoryMedia;
pub use rebuild::{RebuildError, RebuildOptions, Rebuilt, finish_rebuild, is_rebuilt, rebuild};
pub use remove::{Removal, RemoveError, finish_removal, plan_removal};
pub use salvage::{Loss, Lost, Window, read_extents};
pub use space::Space;
pub use survey::{Stream, Survey, ZoneSeen};
pub use volume::{FindError, RootFound, Volume};
pub use walk::Walk;
