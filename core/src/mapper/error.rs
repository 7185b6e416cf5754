//! Why a verb was not obeyed.

use crate::dm::TableError;
use crate::prelude::*;

/// What kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapperErrorKind {
    /// There is no such device (`ENXIO`).
    Unknown,
    /// The name or UUID is taken (`EBUSY`, `EEXIST`).
    Exists,
    /// It is in use, or a change of it is under way (`EBUSY`).
    Busy,
    /// It has no table (`ENXIO`).
    NoTable,
    /// The table is wrong or does not fit (`EINVAL`).
    Table,
    /// A target cannot take bios yet (`EAGAIN`).
    NotReady,
    /// An argument is wrong (`EINVAL`).
    Invalid,
}

/// Error of an operation on mapped devices, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapperError {
    /// For programs.
    pub kind: MapperErrorKind,
    /// For people.
    pub message: String,
    /// The mistake in the table, if it is one.
    pub table: Option<TableError>,
}

impl MapperError {
    /// An error with a message.
    #[must_use]
    pub fn new(kind: MapperErrorKind, message: String) -> Self {
        Self { kind, message, table: None }
    }
}

impl_error!(MapperError, |self, f| f.write_str(&self.message));
