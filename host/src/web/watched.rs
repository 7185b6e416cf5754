//! What a page can be of.

use std::time::Duration;

use serde_json::Value;
use shingle_core::zone::Zone;

use crate::events::Event;

/// The zones of a device, and what each is used for by whoever has it: a place in the list of names.
#[derive(Clone, Debug, Default)]
pub struct ZoneList {
    /// All zones.
    pub zones: Vec<Zone>,
    /// What each of them is used for; none if nobody knows.
    pub uses: Vec<u8>,
    /// The names of that. The first is that of zones of which it is not known.
    pub names: Vec<&'static str>,
    /// How old that is; `None` if it was read for this answer.
    pub age: Option<Duration>,
}

/// What a page is of. Everything may wait, and errors are texts for people.
pub trait Watched: Send + Sync {
    /// What there is: the answer to `status`.
    ///
    /// # Errors
    /// Why it is not known.
    fn status(&self) -> Result<Value, String>;

    /// What lies on what: the answer to `dm.deps`.
    ///
    /// # Errors
    /// Why it is not known.
    fn deps(&self) -> Result<Value, String>;

    /// What has been done, as [`Snapshot::json`](crate::metrics::Snapshot::json) tells it.
    ///
    /// # Errors
    /// Why it is not known.
    fn metrics(&self) -> Result<Value, String>;

    /// What has happened since the event of this number.
    fn events(&self, since: u64) -> Vec<Event>;

    /// The zones of a device, at most `most`.
    ///
    /// # Errors
    /// Why they are not known.
    fn zones(&self, device: &str, most: usize) -> Result<ZoneList, String>;
}
