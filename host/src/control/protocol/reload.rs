//! What becomes of a stack file that was changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shingle_core::named_enum;

named_enum! {
    /// A part of a stack file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Part {
        /// `[disk.NAME]`.
        Disk = 0 => "disk",
        /// `[device.NAME]`.
        Device = 1 => "device",
        /// `[export.NAME]`.
        Export = 2 => "export",
        /// `[listen]`, `[control]` or `[metrics]`.
        Section = 3 => "section",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

named_enum! {
    /// What is done to it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verb {
        /// It is opened, made, or begins.
        Add = 0 => "add",
        /// Another table takes the place of the one that it has.
        Swap = 1 => "swap",
        /// Its policy or its knobs are set.
        Set = 2 => "set",
        /// It is closed, removed, or ends.
        Remove = 3 => "remove",
        /// It becomes another one.
        Change = 4 => "change",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

named_enum! {
    /// How that ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Outcome {
        /// It is done.
        Done = 0 => "done",
        /// It would be done.
        Planned = 1 => "planned",
        /// It is as it was.
        Failed = 2 => "failed",
        /// It was not tried, since something before it failed.
        Skipped = 3 => "skipped",
        /// It is done when the stack starts again.
        AfterRestart = 4 => "after-restart",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

/// A change of a running stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackChange {
    /// What kind of thing.
    pub part: Part,
    /// Its name.
    pub name: String,
    /// What is done to it.
    pub verb: Verb,
    /// How that ended.
    pub outcome: Outcome,
    /// Why it failed, or why only a restart does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a stack file that was read again changes, in the order in which that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// The stack file.
    pub stack: String,
    /// The changes.
    pub changes: Vec<StackChange>,
}
