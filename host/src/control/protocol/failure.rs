//! Why a request failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shingle_core::dm::TableError;

use crate::control::ControlError;

/// Kind of a request's error, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The request is none.
    BadRequest,
    /// It is of another version.
    UnsupportedVersion,
    /// There is no such operation.
    UnknownOp,
    /// There is no such device.
    UnknownDevice,
    /// The device has no zones.
    NotZoned,
    /// The range is not one of whole zones, or the device has no such path.
    Invalid,
    /// The device did not become idle, or is in use.
    Busy,
    /// The name or UUID is taken.
    Exists,
    /// The device has no table.
    NoTable,
    /// The table is wrong or does not fit.
    Table,
    /// A target cannot take bios yet.
    NotReady,
    /// The daemon is going down or does not answer.
    Stopped,
    /// The device refused; or a kind that newer daemons have.
    #[serde(other)]
    Io,
}

/// What is in `error` of a response.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// For programs.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
    /// What the device said, if it was the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector: Option<u64>,
    /// The mistake in a table, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableMistake>,
}

/// What is wrong with a table.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TableMistake {
    /// Its line, from 1 on.
    pub line: usize,
    /// The word of the line, from 0 on, if it is one.
    pub word: Option<usize>,
    /// What is wrong with it.
    pub message: String,
}

impl From<&ControlError> for Failure {
    fn from(error: &ControlError) -> Self {
        let (errno, sector) = error.refusal.unzip();
        let table = error.table.clone().map(|TableError { line, word, message }| TableMistake { line, word, message });
        Self { kind: error.kind, message: error.message.clone(), errno, sector, table }
    }
}

impl From<Failure> for ControlError {
    fn from(Failure { kind, message, errno, sector, table }: Failure) -> Self {
        let table = table.map(|TableMistake { line, word, message }| TableError { line, word, message });
        Self { kind, message, refusal: errno.zip(sector), table }
    }
}
