//! Why a drive cannot be made.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::error::Error;

/// Parameters that make no drive; the message names the kind of drive and the parameter.
#[derive(Debug)]
pub struct DriveError {
    /// What was to be made.
    pub drive: &'static str,
    /// What is wrong with its zones, its resources or its limits; or a [`WrongParameter`].
    pub fault: Fault,
}

/// What is wrong with a drive's parameters.
pub type Fault = Box<dyn Error + Send + Sync>;

/// One parameter that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongParameter {
    /// Its name.
    pub name: &'static str,
    /// What is wrong with it and what it has to be, as what follows its name in a sentence.
    pub why: String,
}

/// The first of these parameters that is not fine: whether each is, its name, and what is wrong with it otherwise.
pub(crate) fn check<W: ToString>(all: impl IntoIterator<Item = (bool, &'static str, W)>) -> Result<(), Fault> {
    let wrong = all.into_iter().find(|(fine, ..)| !fine);
    wrong.map_or(Ok(()), |(_, name, why)| Err(WrongParameter { name, why: why.to_string() }.into()))
}

impl DriveError {
    /// The error of a drive of this kind.
    pub(crate) fn of(drive: &'static str) -> impl Fn(Fault) -> Self {
        move |fault| Self { drive, fault }
    }
}

shingle_core::impl_error!(DriveError, |self, f| write!(f, "{}: {}", self.drive, self.fault));

shingle_core::impl_error!(WrongParameter, |self, f| write!(f, "{} {}", self.name, self.why));
