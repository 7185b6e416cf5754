//! What a running stack has done and is at, for those who watch many of them: OpenMetrics text.
//!
//! ```text
//!  a scrape ──> Snapshot::take ── mailbox, some devices at a time ──> shards
//!      <── text ── encode <── samples, by family <───────────────────┘
//! ```
//!
//! [`FAMILIES`] says what there is; `docs/metrics.md` is made from it. Nothing is counted for the sake of a scrape: what is not asked for costs
//! nothing but the counts that stacks, disks and exports keep anyway.

mod encode;
mod families;
mod figures;
mod file;
mod gather;
mod http;
mod page;

pub use self::encode::Format;
pub use self::families::{FAMILIES, Family, Kind};
pub use self::file::MetricsFile;
pub use self::gather::Snapshot;
pub use self::http::serve_metrics;
pub use self::page::page;
