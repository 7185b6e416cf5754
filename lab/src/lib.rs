//! Measurements: of the stack itself, of publications run again, and of real drives.
//!
//! - [`bench`]: the load generator.
//! - [`replay`]: recordings done again on a simulated drive or a stack.
//! - [`multipath`]: policies over simulated paths, beside an oracle.
//! - [`reproduce`]: published tables, run again.
//! - [`fit`]: profiles of drives out of measurements.
//! - [`trial`]: whether a zoned disk keeps the rules of zones.
#![forbid(unsafe_code)]
// For the long objects of fio's JSON.
#![recursion_limit = "256"]
// They panic if nobody reads: a program prints what it is given from here.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod fit;
pub mod multipath;
pub mod replay;
pub mod reproduce;
pub mod trial;
