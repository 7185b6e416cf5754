//! The targets that a table line may name.

use super::target::TargetType;
use super::{crypt, delay, dust, error, faulty, flakey, linear, log_writes, multipath, stl, striped, zero, zoned};
use crate::prelude::*;

/// All of them, by name. Targets that keep data more than once (`raid`, `mirror`) have their place here.
pub const TARGETS: [&TargetType; 13] = [
    &crypt::TYPE,
    &delay::TYPE,
    &dust::TYPE,
    &error::TYPE,
    &faulty::TYPE,
    &flakey::TYPE,
    &linear::TYPE,
    &log_writes::TYPE,
    &multipath::TYPE,
    &stl::TYPE,
    &striped::TYPE,
    &zero::TYPE,
    &zoned::TYPE,
];

/// The target called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static TargetType> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// The names of all targets, for messages.
#[must_use]
pub fn known_targets() -> String {
    TARGETS.map(|target| target.name).join(", ")
}
