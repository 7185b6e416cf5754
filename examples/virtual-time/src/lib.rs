//! # Test your zoned code in virtual time
//!
//! Your code talks to a zoned drive through a trait of its own. In production that is a device; here it is a [`Machine`]: a
//! simulated SSD below the same zone write plug as in the daemon, with a clock that jumps from one event to the next. Seconds of the drive take
//! milliseconds, nothing sleeps, and the same seed does the same.
//!
//! ```text
//!   your log ── Drive ──> Machine ── bios ──> plug ──> simulated SSD
//!                            └── the clock jumps; at a chosen moment of it the power goes
//! ```
//!
//! [`log`] is such code: a small log-structured store. [`crashes`] takes its power at a drawn nanosecond, also while a command is
//! under way, opens the log again, and looks whether all is there that it acknowledged.
//!
//! ```
//! use virtual_time::crashes::crash;
//! use virtual_time::log::Acknowledge;
//!
//! // A thousand losses of power. In real time this would be a wait of minutes, and no two runs would be the same.
//! let ends: Vec<_> = (0..1000).map(|seed| crash(seed, Acknowledge::AfterTheFlush).unwrap()).collect();
//! assert!(ends.iter().any(|end| end.acknowledged > 20), "and there was something to lose");
//! ```
//!
//! A log that answers before its flush looks as good, is faster, and passes every test without a crash. It is caught, and its seed
//! shows the same loss again whenever it is asked to:
//!
//! ```
//! use virtual_time::crashes::crash;
//! use virtual_time::log::Acknowledge;
//!
//! let seed = (0..1000).find(|seed| crash(*seed, Acknowledge::BeforeTheFlush).is_err()).expect("it is caught");
//! let (once, again) = (crash(seed, Acknowledge::BeforeTheFlush), crash(seed, Acknowledge::BeforeTheFlush));
//! assert_eq!(once.unwrap_err().to_string(), again.unwrap_err().to_string());
//! ```
//!
//! Time is a number that code can be tested for, without a stopwatch: what a flush for each record costs on this drive.
//!
//! ```
//! use virtual_time::log::{Acknowledge, Log};
//! use virtual_time::machine::Machine;
//!
//! let nanoseconds = |how| {
//!     let mut log = Log::open(Machine::new(1), how).unwrap();
//!     (0..24).for_each(|number| log.append(number).unwrap());
//!     log.into_drive().now().0
//! };
//! let (safe, unsafe_) = (nanoseconds(Acknowledge::AfterTheFlush), nanoseconds(Acknowledge::BeforeTheFlush));
//! assert_eq!(safe, nanoseconds(Acknowledge::AfterTheFlush), "to the nanosecond");
//! assert!(safe > 5 * unsafe_, "{safe} and {unsafe_}");
//! ```
#![forbid(unsafe_code)]

pub mod crashes;
pub mod log;
pub mod machine;
