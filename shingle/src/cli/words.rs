//! Arguments that take one of some words and are no enum here: help, errors and completions know the words.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};
use shingle_core::multipath::{AnaState, PolicyKind};
use shingle_core::plug::WritePolicy;
use shingle_core::scheduler::SchedulerKind;

/// Reads an argument with `read`, and offers `words` for it.
#[derive(Clone)]
pub struct Words<T> {
    words: fn() -> Vec<&'static str>,
    read: fn(&str) -> Result<T, String>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Words<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        self.read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.words)().into_iter().map(PossibleValue::new)))
    }
}

fn policies() -> Vec<&'static str> {
    WritePolicy::ALL.map(WritePolicy::name).to_vec()
}

/// A write policy by its name.
#[cfg(feature = "lab")]
pub fn policy() -> Words<WritePolicy> {
    Words {
        words: policies,
        read: |text| text.parse().map_err(|error: shingle_core::plug::UnknownPolicy| error.to_string()),
    }
}

/// The name of a policy, which a daemon checks: it may know others.
pub fn policy_name() -> Words<String> {
    Words { words: policies, read: |text| Ok(text.to_owned()) }
}

/// The name of an I/O scheduler, which a daemon checks.
pub fn scheduler_name() -> Words<String> {
    Words { words: || SchedulerKind::ALL.map(SchedulerKind::name).to_vec(), read: |text| Ok(text.to_owned()) }
}

/// What a path is to its disk, which a daemon checks.
pub fn path_state() -> Words<String> {
    Words { words: || AnaState::ALL.map(AnaState::name).to_vec(), read: |text| Ok(text.to_owned()) }
}

/// The name of a policy that chooses among paths, which a daemon checks.
pub fn path_policy() -> Words<String> {
    Words { words: || PolicyKind::ALL.map(PolicyKind::name).to_vec(), read: |text| Ok(text.to_owned()) }
}

/// The name of a profile that ships, or a path.
#[cfg(feature = "lab")]
pub fn profile() -> Words<String> {
    Words { words: || shingle_host::profile::Profile::names().collect(), read: |text| Ok(text.to_owned()) }
}
