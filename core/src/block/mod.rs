//! The block layer: knows no layer by name.
//!
//! ```text
//!  port ── submit ──> check ──> device ── remap/submit ──> device ── ... ──> leaf
//!   ^                             |                                            |
//!   └── poll_completion <── end_io┴<───────────── complete <───────────────────┘
//! ```
//!
//! A [`Stack`] owns the devices and is the only place where they meet. A device never calls another: it queues hops, and
//! the stack takes them one at a time. What a call sends goes out in the order it was sent and before anything that was
//! queued earlier, so a bio travels all the way down while it is warm, the pieces of a split stay together, and two bios
//! on one path never change places. See `docs/decisions/0001-hops-are-depth-first.md`.

mod bio;
mod check;
mod chunks;
mod content;
#[macro_use]
mod device;
mod effects;
mod event;
mod extent;
mod failures;
mod figure;
mod fua;
mod health;
mod id;
mod limits;
mod meter;
mod observer;
mod op;
mod path;
mod path_events;
mod payload;
mod place;
mod reason;
mod remote;
mod scheduler;
mod stack;
mod status;
mod trace;
mod word;

pub use bio::{Bio, FRAMES};
pub use check::{Admitted, check};
pub use chunks::{Chunks, Part, Place};
pub use content::Content;
pub use device::{BlockDevice, Cx, MessageError, Route, Survival};
pub use effects::Completion;
pub use event::Event;
pub use extent::Extent;
pub use failures::Failure;
pub use figure::Figure;
#[cfg(feature = "sabotage")]
pub use fua::Sabotage;
pub use health::DeviceHealth;
pub use id::{DeviceId, PortId};
pub(crate) use limits::least;
pub use limits::{Limits, LimitsError, ZonedLimits};
pub use meter::Counters;
pub use observer::{Observer, Span};
pub use op::{Flags, Op, Priority};
pub use path::{AnaState, PathEvent, Silence};
pub use payload::{Buffer, Data, Memory, Payload, Region};
pub use place::{PriorUse, StackError};
pub use reason::{Reason, Refusal, Why};
pub use remote::{Remote, RemoteMemory};
pub use scheduler::Scheduler;
pub use stack::Stack;
pub use status::Status;
pub use trace::{Action, Trace, TraceEvent};
pub use word::WordOwner;
