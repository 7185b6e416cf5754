//! Exports that come and go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Exports a disk or a mapped device over NBD.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddExport {
    /// Its name, as clients ask for it.
    pub name: String,
    /// The disk or mapped device.
    pub device: String,
    /// Whether writes are refused.
    #[serde(default)]
    pub read_only: bool,
    /// What a list of exports says about it.
    pub description: Option<String>,
}

/// An export that was added.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Added {
    /// Its name.
    pub name: String,
    /// The disk or mapped device.
    pub device: String,
    /// Its size.
    pub bytes: u64,
}

/// Ends an export that no client is connected to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveExport {
    /// Its name.
    pub name: String,
}
