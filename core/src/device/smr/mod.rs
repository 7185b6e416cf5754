//! A rotating disk with shingled zones, in virtual time.

mod config;

pub use config::{Cache, Link, Media, Seek, SmrConfig, SmrConfigError, ZoneTimes};
