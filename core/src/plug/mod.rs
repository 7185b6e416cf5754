//! One write at a time per sequential zone, in the order of arrival, whatever the queue depth above.
//!
//! ```text
//!              reads, flushes, conventional zones ──────────────────────┐
//!  bios ──> zone free?  yes: check the write pointer, advance it, ──────┤──> device below
//!                │           mark the zone busy                         │
//!                └─ no: wait in the zone's FIFO <── write is done: ─────┘
//!                                                   merge and send the next
//! ```
//!
//! Promised above: writes to one zone reach the device in arrival order, one command at a time, each at the write pointer;
//! queued neighbours leave as one command; appends get their exact sector; reads and other zones never wait. A write that
//! does not line up fails alone. After a device error the zone refuses writes until a report, reset or finish tells where
//! its write pointer is. Zone management takes its turn in the zone's FIFO, so there is never a write in flight in a zone
//! that is being reset (`docs/decisions/0003-zone-management-waits-its-turn.md`).
//!
//! Asked below: a device that keeps to its limits, completes what it is sent, and reports its zones truthfully.
//!
//! Three policies order so. They differ in what else has to be free before a write goes:
//!
//! - `plug`: nothing but its zone.
//! - `qd1`: the disk. One zone write is in flight, zones get in line, and each is drained before the next, however long that
//!   takes others (Linux from 7.1 on, for rotational disks).
//! - `elevator`: on a rotational disk the disk, too, but the order is chosen for throughput and bounded in time; elsewhere
//!   nothing. Small commands wait a moment for the writes that answer a completion
//!   (`docs/decisions/0005-elevator.md`).
//!
//! `zone-lock` and `none` are what they are compared with.
//!
//! | file | idea |
//! | --- | --- |
//! | `zone_plug.rs` | the device: what happens to each kind of bio, a zone's FIFO |
//! | `disk_queue.rs` | the line in front of a disk that takes one zone write at a time |
//! | `elevator.rs` | which zone is next: a pure function |
//! | `merge_delay.rs` | whether a command waits for more: a pure function, and the timers |
//! | `merge.rs` | queued neighbours leave as one command |
//! | `learn.rs` | reports, and the reset of all zones |
//! | `zones.rs`, `queue.rs` | eight bytes a zone; what waits |
//! | `zone_lock.rs` | the scheduler of the baseline, made when that is chosen: it knows the zones and the device below, no plug |
//! | `dump.rs`, `verify.rs` | what is shown, and what must be true |
//!
//! Where the kernel keeps a hash table of reference-counted plugs, there is one owner here: an 8-byte record per zone, and
//! a slot with a queue for the zones in which something waits. Facts: `block/blk-zoned.c` of Linux 7.2.

mod disk_queue;
mod dump;
mod elevator;
mod error;
mod learn;
mod merge;
mod merge_delay;
mod policy;
mod queue;
mod verify;
mod zone_lock;
mod zone_plug;
mod zones;

pub use dump::{DumpFormat, PlugDump};
pub use elevator::ElevatorOptions;
pub use error::PlugError;
pub use policy::{Append, PlugOptions, UnknownPolicy, WritePolicy};
pub use zone_plug::ZonePlug;
