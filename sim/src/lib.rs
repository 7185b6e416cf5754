//! The world, when it is simulated: a virtual clock, and what acts in it.
//!
//! ```text
//!  actors ── submit ──> Stack ── the same layers as in the daemon ──> devices that know how long things take
//!    ^                    │ next deadline
//!    └── completions ─────┴──> World: the clock jumps to whatever comes first
//! ```
//!
//! [`disk`] is a zoned disk that can lose its power, [`fault`] what else goes wrong with it, [`model`] what it owes
//! its users, [`volume`] what a regular disk above zoned ones does, and [`swarm`] draws worlds of these by the seed.
//!
//! Nothing here reads a clock or draws entropy: one seed, one run, the same trace byte for byte.
//!
//! ```
//! use shingle_sim::swarm::{Profile, SwarmOptions, run};
//!
//! let options = SwarmOptions { profile: Profile::Plug, ..SwarmOptions::default() };
//! let (once, again) = (run(1, &options).unwrap(), run(1, &options).unwrap());
//! assert_eq!(once.sum, again.sum);
//! ```
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod choice_values;
mod choices;
pub mod disk;
pub mod fault;
mod history;
pub mod model;
mod profile;
mod recording;
mod stamp;
mod stl_media;
pub mod swarm;
pub mod volume;
pub mod workload;
mod world;
mod zoned_media;

pub use choices::{Choice, Choices};
pub use recording::{Recording, RecordingError};
pub use stl_media::StlMedia;
pub use world::{Actor, Io, Stop, World};
pub use zoned_media::StackMedia;
