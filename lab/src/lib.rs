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

/// Name of the profile of Cargo.toml with which this program is built.
pub const BUILD_PROFILE: &str = env!("SHINGLE_PROFILE");

/// Remark for a measurement in real time by a program that is built with another profile than published figures.
#[must_use]
pub fn build_remark() -> Option<String> {
    (BUILD_PROFILE != "dist").then(|| {
        format!("built with profile {BUILD_PROFILE}: rates are below those of profile dist, with which published figures are made")
    })
}

pub mod bench;
pub mod fit;
pub mod multipath;
pub mod replay;
pub mod reproduce;
pub mod trial;
