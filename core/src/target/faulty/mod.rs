//! `faulty`: a device that fails on purpose.

mod trigger;

pub use trigger::{OpSet, Trigger, Window};
