//! What dm-zoned decides about placement, reclaim and pacing: pure functions of values.
//!
//! ```text
//!   write ──> place_first / place_ahead ──> sequential zone, once
//!                        │
//!                        └──> cache or random zone ── Pacer: when ──> written
//!                                   ▲                                    │
//!            zones reclaimed ── copy_turn: how ── choose: which ── urgency: whether
//! ```
//!
//! Nothing here does I/O, reads a clock or keeps state but for [`Pacer`]. Every number is one of [`Knobs`]. There are three
//! styles: [`Style::Shingle`], ours; [`Style::Kernel`], which decides as Linux 7.2 does (`drivers/md/dm-zoned-target.c`,
//! `dm-zoned-reclaim.c`, `dm-zoned-metadata.c`) and takes no notice of the other knobs; and [`Style::Kernel2020`], the same files as
//! they were posted in May 2020, before there were cache zones. What was decided, and why: `docs/targets/zoned.md`.

mod knobs;
mod pace;
mod place;
#[cfg(test)]
mod small_set;
mod stock;
mod turn;
mod urgency;
mod victim;

pub use knobs::{KnobError, Knobs, MOST_UNRECORDED, Style};
pub use pace::Pacer;
pub use place::{Ahead, EarlyWrite, Place, place_ahead, place_first};
pub use stock::{Pool, Stock};
pub use turn::{CopyTurn, CopyWay, copy_turn};
pub use urgency::{Urgency, urgency};
pub use victim::{Action, Candidate, choose};
