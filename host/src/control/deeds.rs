//! What operators did, for the log.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::ControlError;
use super::operations::Session;
use super::protocol::{Outcome, Reloaded, StackChange};
use crate::events::{EventKind, Events};

/// Operations that only tell something: nobody wants to know later who asked.
const QUESTIONS: [&str; 15] = [
    "status",
    "events",
    "metrics",
    "zones.report",
    "plugs",
    "trace.read",
    "path.list",
    "power.status",
    "dm.wait",
    "dm.info",
    "dm.table",
    "dm.status",
    "dm.deps",
    "dm.ls",
    "dm.targets",
];

/// Fields of requests that say what it was done to. Tables and messages may hold keys, and are not for a log.
const NAMES: [&str; 10] =
    ["device", "name", "export", "path", "policy", "scheduler", "queue_depth", "state", "start", "length"];

/// A request that changes something.
pub(super) struct Deed {
    op: String,
    /// What to, in words.
    to: String,
    /// Whether an error may quote a key.
    is_secret: bool,
    device: Option<String>,
}

impl Deed {
    /// The request with these fields, if it is one.
    pub fn of(fields: &Map<String, Value>) -> Option<Self> {
        let op = fields.get("op")?.as_str()?.to_owned();
        let asks_for_policy = op == "policy" && !fields.contains_key("policy");
        let asks_for_scheduler =
            op == "scheduler" && !["scheduler", "queue_depth"].iter().any(|key| fields.contains_key(*key));
        let only_looks = fields.get("dry_run") == Some(&Value::Bool(true));
        if QUESTIONS.contains(&&*op) || asks_for_policy || asks_for_scheduler || only_looks {
            return None;
        }
        let words = NAMES.into_iter().filter_map(|name| {
            let value = fields.get(name).filter(|value| !value.is_null())?;
            Some(format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), |text| format!("`{text}`"))))
        });
        let is_secret = ["table", "message"].iter().any(|field| fields.contains_key(*field));
        let device = fields.get("device").or_else(|| fields.get("name")).and_then(Value::as_str).map(ToOwned::to_owned);
        Some(Self { to: words.collect::<Vec<_>>().join(", "), op, is_secret, device })
    }

    /// What it is as an event.
    fn kind(&self) -> EventKind {
        match self.op.split_once('.').unwrap_or((&self.op, "")) {
            ("power", "cut") => EventKind::Cut,
            ("power", _) => EventKind::Restore,
            ("dm", "suspend") => EventKind::Suspend,
            ("dm", "resume") => EventKind::Swap,
            ("policy" | "scheduler", _) | ("path", "policy") => EventKind::Policy,
            ("path", _) => EventKind::Path,
            ("reload", _) => EventKind::Reload,
            ("zones", _) => EventKind::Zones,
            _ => EventKind::Change,
        }
    }

    /// Says that it was done, as the answer has it, or why not.
    pub fn tell(&self, session: &Session, events: &Events, result: Result<&Value, &ControlError>) {
        let Self { op, to, is_secret, device } = self;
        let note = |text: &str| events.note(self.kind(), device.as_deref(), text);
        let (uid, pid) = session.peer.map_or((None, None), |(uid, pid)| (Some(uid), Some(pid)));
        let by = uid.map_or(String::new(), |uid| format!(" by user {uid}"));
        let of = if to.is_empty() { String::new() } else { format!(" of {to}") };
        match result {
            Ok(answer) => {
                let done = if self.kind() == EventKind::Reload { changes_text(answer) } else { "done".into() };
                note(&format!("{op}{of}{by}: {done}"));
                tracing::info!(op, to, uid, pid, "{op}{of}{by}: {done}");
            }
            Err(error) => {
                let why = match error.refusal {
                    // It has a line of its own, as failures of clients have.
                    Some(_) => "the device refused".to_owned(),
                    None if *is_secret => format!("{:?}", error.kind),
                    None => error.message.clone(),
                };
                note(&format!("{op}{of}{by} failed: {why}"));
                tracing::warn!(op, to, uid, pid, error = why, "{op}{of}{by} failed: {why}");
            }
        }
    }
}

/// Most changes of a reload that are listed.
const MAX_CHANGES: usize = 16;

/// Lists the changes in the answer of a reload.
fn changes_text(answer: &Value) -> String {
    let Ok(Reloaded { changes, .. }) = Reloaded::deserialize(answer) else { return "done".into() };
    if changes.is_empty() {
        return "nothing is changed".into();
    }
    let mut listed: Vec<String> = changes.iter().take(MAX_CHANGES).map(change_text).collect();
    if changes.len() > MAX_CHANGES {
        listed.push(format!("{} more", changes.len() - MAX_CHANGES));
    }
    listed.join(", ")
}

fn change_text(StackChange { part, name, verb, outcome, .. }: &StackChange) -> String {
    let outcome = match outcome {
        Outcome::Done => String::new(),
        other => format!(" ({})", other.name()),
    };
    format!("{} {} {name}{outcome}", verb.name(), part.name())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::protocol::OPERATIONS;
    use super::*;

    fn of(request: Value) -> Option<String> {
        let deed = Deed::of(request.as_object().unwrap())?;
        Some(format!("{} of {}", deed.op, deed.to))
    }

    #[test]
    fn what_changes_something_is_told_without_tables_and_messages_which_may_hold_keys() {
        let create = json!({"op": "dm.create", "name": "c", "table": "0 8 crypt aes-xts-plain64 c0ffee 0 d 0"});
        assert_eq!(of(create).unwrap(), "dm.create of name `c`");
        let message = json!({"op": "dm.message", "device": "c", "message": "key set c0ffee"});
        assert_eq!(of(message).unwrap(), "dm.message of device `c`");
        let reset = json!({"op": "zones.reset", "device": "d", "start": 8, "length": null});
        assert_eq!(of(reset).unwrap(), "zones.reset of device `d`, start 8");
    }

    #[test]
    fn what_only_asks_is_not_told_and_every_question_is_an_operation() {
        assert_eq!(of(json!({"op": "status"})), None);
        assert_eq!(of(json!({"op": "policy", "device": "d"})), None);
        assert_eq!(of(json!({"op": "scheduler", "device": "d"})), None);
        assert_eq!(of(json!({"op": "reload", "dry_run": true})), None);
        assert_eq!(of(json!({"op": "reload", "dry_run": false})).unwrap(), "reload of ");
        assert_eq!(
            of(json!({"op": "policy", "device": "d", "policy": "qd1"})).unwrap(),
            "policy of device `d`, policy `qd1`"
        );
        QUESTIONS.iter().for_each(|question| assert!(OPERATIONS.contains(question), "{question}"));
    }

    #[test]
    fn log_of_a_reload_lists_its_changes() {
        let change =
            |name: &str, outcome: &str| json!({"part": "export", "name": name, "verb": "add", "outcome": outcome});
        let of = |changes: Vec<Value>| changes_text(&json!({"stack": "s.toml", "changes": changes}));
        assert_eq!(of(vec![]), "nothing is changed");
        assert_eq!(of(vec![change("a", "done"), change("b", "failed")]), "add export a, add export b (failed)");
        assert!(of((0..20).map(|_| change("a", "done")).collect()).ends_with("add export a, 4 more"));
        assert_eq!(changes_text(&json!({})), "done");
    }
}
