//! What a line of the log looks like.

use std::fmt::{self, Debug};
use std::os::linux::fs::MetadataExt;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::plain_text::{escape_controls, escape_json_controls};

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// journal if the service manager reads standard error, else text
    #[default]
    Auto,
    /// A line for people
    Text,
    /// A JSON object a line
    Json,
    /// The journal of systemd, with fields
    Journal,
}

/// Where systemd takes events with fields.
pub(super) const JOURNAL: &str = "/run/systemd/journal/socket";

impl Form {
    /// What this one means here.
    pub fn here(self) -> Self {
        match self {
            Form::Auto if is_read_by_journal() => Form::Journal,
            Form::Auto => Form::Text,
            chosen => chosen,
        }
    }

    /// An event without fields: a whole line.
    pub fn line(self, level: Level, message: &str) -> String {
        let mut line = String::new();
        let mut fields = Map::new();
        fields.insert("message".to_owned(), message.into());
        // A string takes everything.
        let _ = self.write(level, &fields, &mut Writer::new(&mut line));
        line
    }

    fn write(self, level: Level, fields: &Map<String, Value>, out: &mut Writer<'_>) -> fmt::Result {
        match self {
            Form::Journal => write_journal(level, fields, out),
            Form::Json => write_json(level, fields, out),
            Form::Auto | Form::Text => write_text(level, fields, out),
        }
    }
}

/// Whether standard error is the stream that systemd has given the service (`systemd.exec(5)`, `$JOURNAL_STREAM`).
fn is_read_by_journal() -> bool {
    let given = std::env::var("JOURNAL_STREAM").ok();
    let there = std::fs::metadata("/dev/stderr").map(|file| format!("{}:{}", file.st_dev(), file.st_ino()));
    given.is_some_and(|given| there.is_ok_and(|there| there == given)) && std::path::Path::new(JOURNAL).exists()
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.write(*event.metadata().level(), &fields.0, &mut out)
    }
}

/// The fields of an event, the message among them.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }
}

fn message(fields: &Map<String, Value>) -> String {
    in_a_line(fields.get("message").and_then(Value::as_str).unwrap_or_default())
}

/// Fields say to programs what the message says to people: but for the disk, which some messages do not name.
fn write_text(level: Level, fields: &Map<String, Value>, out: &mut Writer<'_>) -> fmt::Result {
    SystemTime.format_time(out)?;
    // Collectors of logs take each line for a record.
    write!(out, " {level:>5} {}", message(fields))?;
    if let Some(disk) = fields.get("disk") {
        write!(out, " disk={}", escape_json_controls(&disk.to_string()))?;
    }
    out.write_char('\n')
}

fn write_json(level: Level, fields: &Map<String, Value>, out: &mut Writer<'_>) -> fmt::Result {
    let mut time = String::new();
    SystemTime.format_time(&mut Writer::new(&mut time))?;
    let mut object = Map::new();
    object.insert("time".to_owned(), time.into());
    object.insert("level".to_owned(), level.as_str().to_ascii_lowercase().into());
    object.insert("message".to_owned(), fields.get("message").cloned().unwrap_or_default());
    object.extend(
        fields.iter().filter(|(name, _)| *name != "message").map(|(name, value)| (name.clone(), value.clone())),
    );
    writeln!(out, "{}", escape_json_controls(&json!(object).to_string()))
}

/// A datagram of the journal's own protocol (`https://systemd.io/JOURNAL_NATIVE_PROTOCOL`): a field a line, so values have no newlines.
fn write_journal(level: Level, fields: &Map<String, Value>, out: &mut Writer<'_>) -> fmt::Result {
    let priority = match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    };
    writeln!(out, "PRIORITY={priority}\nSYSLOG_IDENTIFIER=shingle\nMESSAGE={}", message(fields))?;
    for (name, value) in fields.iter().filter(|(name, _)| *name != "message") {
        let value = value.as_str().map_or_else(|| value.to_string(), in_a_line);
        writeln!(out, "SHINGLE_{}={value}", name.to_ascii_uppercase())?;
    }
    Ok(())
}

fn in_a_line(text: &str) -> String {
    escape_controls(text).trim_end().replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Map<String, Value> {
        let all =
            [("message", "a write\nfailed".into()), ("device", "d".into()), ("sector", 8.into()), ("disk", "d".into())];
        all.into_iter().map(|(name, value): (&str, Value)| (name.to_owned(), value)).collect()
    }

    fn written(form: Form) -> String {
        let mut line = String::new();
        form.write(Level::WARN, &fields(), &mut Writer::new(&mut line)).unwrap();
        line
    }

    #[test]
    fn an_event_is_a_line_for_people_with_the_disk_behind_it() {
        assert!(written(Form::Text).ends_with("  WARN a write; failed disk=\"d\"\n"), "{}", written(Form::Text));
    }

    #[test]
    fn an_event_is_an_object_of_json_with_its_fields() {
        let line = written(Form::Json);
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!((&object["level"], &object["message"]), (&"warn".into(), &"a write\nfailed".into()));
        assert_eq!((&object["device"], &object["sector"]), (&"d".into(), &8.into()));
        assert!(object["time"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn an_event_is_a_datagram_of_the_journal_with_its_fields() {
        let sent = "PRIORITY=4\nSYSLOG_IDENTIFIER=shingle\nMESSAGE=a write; failed\nSHINGLE_DEVICE=d\nSHINGLE_SECTOR=8\nSHINGLE_DISK=d\n";
        assert_eq!(written(Form::Journal), sent);
    }
}
