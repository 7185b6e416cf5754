//! What clients can choose, whatever protocol they speak.

use std::any::Any;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shingle_core::block::{DeviceId, Limits};
use toml::de::DeTable;

use super::{FrontEnd, FrontEndType};
use crate::disk_identity::DiskPlace;
use crate::fields::{Diagnostic, Fields};
use crate::mailbox::MailboxError;
use crate::shard::Mailbox;
use crate::tally::Tally;

/// A device that clients can choose by name. Each protocol makes of it what its clients see.
#[derive(Clone, Debug)]
pub struct Export {
    /// What clients call it; may be empty, which names the default export.
    pub name: String,
    /// One line for people; may be empty.
    pub description: String,
    /// The shard of its device, by number: its sessions live there.
    pub shard: usize,
    /// Where its bios go on that shard.
    pub device: DeviceId,
    /// What the device accepts.
    pub limits: Limits,
    /// Whether writes are refused even if the device takes them.
    pub asked_read_only: bool,
    /// What front ends want to know of it.
    pub keys: ExportKeys,
    /// What its users have asked for so far.
    pub tally: Arc<Tally>,
    /// Determines the identity of the export; `None` where no daemon runs.
    pub identify: Option<Identify>,
}

/// Determines the identity of the export of a device of the shard. It may read the disks.
pub type Identify = fn(&Mailbox, DeviceId) -> Result<ExportIdentity, MailboxError>;

/// Identity of an export: its data, as far as the next daemon has to recognise it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportIdentity {
    /// The UUID of its volume; otherwise its tables and the identities of its disks. With other parts it has other data.
    pub parts: Vec<String>,
    /// Disks below it that have a path.
    pub disks: Vec<DiskPlace>,
}

impl ExportIdentity {
    /// The names and paths of its disks, for messages.
    #[must_use]
    pub fn disks_text(&self) -> String {
        let disks = self.disks.iter().filter_map(|disk| Some((&disk.name, disk.path.as_ref()?)));
        let disks = disks.map(|(name, path)| format!("`{name}` ({})", path.display()));
        disks.collect::<Vec<_>>().join(", ")
    }
}

impl Export {
    /// Exports `device` of the first shard, which has `limits`, under `name`: writable if the device is.
    #[must_use]
    pub fn new(name: impl Into<String>, device: DeviceId, limits: &Limits) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            shard: 0,
            device,
            limits: limits.clone(),
            asked_read_only: false,
            keys: ExportKeys::default(),
            tally: Arc::default(),
            identify: None,
        }
    }

    /// Whether writes are refused.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.asked_read_only || self.limits.read_only
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.limits.capacity * 512
    }
}

/// What a front end has read of its own keys in `[export.NAME]`.
pub type Extra = Arc<dyn Any + Send + Sync>;

/// What the front ends have read of theirs.
#[derive(Clone, Debug, Default)]
pub struct ExportKeys(Vec<Extra>);

impl ExportKeys {
    /// Has each of `kinds` read its own.
    pub fn read(fields: &mut Fields<'_>, kinds: &[&'static FrontEndType]) -> Self {
        Self(kinds.iter().filter_map(|kind| kind.read_export?(fields)).collect())
    }

    /// The same with keys that did not come in a stack file.
    ///
    /// # Errors
    /// The first mistake.
    pub fn of_values(front_ends: &[Arc<dyn FrontEnd>], keys: &Map<String, Value>) -> Result<Self, String> {
        // Plain values are written in TOML as they are in JSON.
        let text: String = keys.iter().map(|(key, value)| format!("{key:?} = {value}\n")).collect();
        let table =
            DeTable::parse(&text).map_err(|error| format!("`keys` are none of an export: {}", error.message()))?;
        let mut mistakes = Vec::new();
        let mut fields = Fields::new("`keys`".into(), 0..0, table.get_ref(), &mut mistakes);
        let kinds: Vec<_> = front_ends.iter().map(|front_end| front_end.kind()).collect();
        let read = Self::read(&mut fields, &kinds);
        fields.finish();
        match mistakes.into_iter().next() {
            Some(Diagnostic { title, label, .. }) if label.is_empty() => Err(title),
            Some(Diagnostic { title, label, .. }) => Err(format!("{title}: {label}")),
            None => Ok(read),
        }
    }

    /// Those of the front end that keeps them as a `T`.
    #[must_use]
    pub fn find<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find_map(|extra| extra.downcast_ref())
    }
}
