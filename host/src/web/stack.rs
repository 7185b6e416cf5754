//! A page of a stack.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::watched::{Watched, ZoneList};
use crate::control;
use crate::control::protocol::{GetDeps, Status};
use crate::daemon_state::DaemonState;
use crate::events::Event;
use crate::metrics::Snapshot;

/// A stack that runs.
pub struct WatchedStack(pub Arc<DaemonState>);

impl Watched for WatchedStack {
    fn status(&self) -> Result<Value, String> {
        let status = control::status(&self.0).map_err(|error| error.to_string())?;
        // Who asks knows the token; nobody has to learn it from what somebody saves or shows.
        Ok(json!(Status { web: Vec::new(), ..status }))
    }

    fn deps(&self) -> Result<Value, String> {
        control::deps(&self.0, GetDeps::default()).map(|deps| json!(deps)).map_err(|error| error.to_string())
    }

    fn metrics(&self) -> Result<Value, String> {
        Snapshot::take(&self.0).map(|all| all.json()).map_err(|error| error.to_string())
    }

    fn events(&self, since: u64) -> Vec<Event> {
        self.0.events.since(since)
    }

    fn zones(&self, device: &str, most: usize) -> Result<ZoneList, String> {
        let (report, words) = control::watched_zones(&self.0, device, most).map_err(|error| error.to_string())?;
        let zones = report.zones.map_or_else(Vec::new, |zones| zones.to_vec());
        let known: BTreeSet<&'static str> = words.iter().flatten().copied().collect();
        let names: Vec<&'static str> =
            if known.is_empty() { Vec::new() } else { [""].into_iter().chain(known).collect() };
        let place = |word: &Option<&'static str>| names.iter().position(|name| *name == word.unwrap_or_default());
        let uses = words.iter().map(|word| place(word).unwrap_or_default() as u8).collect();
        Ok(ZoneList { zones, uses, names, age: Some(report.began.elapsed()) })
    }
}
