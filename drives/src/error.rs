//! Why a drive cannot be made.

use alloc::string::{String, ToString};
use core::fmt;

use shingle_core::block::LimitsError;
use shingle_core::zone::{GeometryError, ResourceLimitsError};

/// Parameters that make no drive; the message names the kind of drive and the parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveError {
    /// What was to be made.
    pub drive: &'static str,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a drive's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The zones have no shape.
    Geometry(GeometryError),
    /// The open and active limits do not go together.
    Resources(ResourceLimitsError),
    /// The limits of the device do not go together.
    Limits(LimitsError),
    /// One parameter is wrong.
    Parameter {
        /// Its name.
        name: &'static str,
        /// What is wrong with it and what it has to be, as what follows its name in a sentence.
        why: String,
    },
}

impl Fault {
    pub(crate) fn new(name: &'static str, why: impl ToString) -> Self {
        Self::Parameter { name, why: why.to_string() }
    }

    /// The fault of such a drive.
    pub(crate) fn of(drive: &'static str) -> impl Fn(Self) -> DriveError {
        move |fault| DriveError { drive, fault }
    }
}

impl From<GeometryError> for Fault {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl From<ResourceLimitsError> for Fault {
    fn from(error: ResourceLimitsError) -> Self {
        Self::Resources(error)
    }
}

impl From<LimitsError> for Fault {
    fn from(error: LimitsError) -> Self {
        Self::Limits(error)
    }
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.drive)?;
        match &self.fault {
            Fault::Geometry(error) => error.fmt(f),
            Fault::Resources(error) => error.fmt(f),
            Fault::Limits(error) => error.fmt(f),
            Fault::Parameter { name, why } => write!(f, "{name} {why}"),
        }
    }
}

impl core::error::Error for DriveError {}
