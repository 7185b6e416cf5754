//! What a zone is: a range of sectors with a write pointer, and a state machine that says what may happen to it.
//!
//! ```text
//!  |<------------- length (equal for all zones but the last) ------------>|
//!  |<------------- capacity (writable) ------------->|     unwritable     |
//!  start                 write pointer
//!  | written, readable   | reads as unwritten        | reads as unwritten |
//! ```
//!
//! Nothing here does I/O or knows who asks: the null device, the directory disk, the checker's model disk and the fuzz
//! targets share the same functions, so a rule is right or wrong in one place.
//! Numbers and names are the kernel's user-visible ABI (`include/uapi/linux/blkzoned.h`).

mod disk;
mod fault;
mod geometry;
mod machine;
mod recency;
mod resources;
mod types;

pub use disk::{ReportFilter, RestoreError, ZonedDisk};
pub use fault::ZoneFault;
pub use geometry::{GeometryError, ZoneGeometry};
pub use machine::{Action, ZoneError, ZoneState};
pub use resources::{Admission, ResourceLimits, ResourceLimitsError, Resources};
pub use types::{Condition, Zone, ZoneKind, ZoneNo};
