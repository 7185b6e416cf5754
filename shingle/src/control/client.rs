//! The other end of the control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use shingle_core::target::TableError;

use super::{ControlError, ErrorKind, VERSION};

/// A connection to a daemon.
pub struct ControlClient {
    stream: BufReader<UnixStream>,
    next: u64,
}

/// Longer than a daemon waits for its slowest shard.
const PATIENCE: Duration = Duration::from_secs(30);

impl ControlClient {
    /// Connects to the control socket at `path`.
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let failed = |error: std::io::Error| {
            let message = format!(
                "cannot reach a daemon at {}: {error}; start one with `shingle up STACK.toml`, or name its socket with --control",
                path.display()
            );
            ControlError::new(ErrorKind::Stopped, message)
        };
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .map_err(failed)?;
        Ok(Self { stream: BufReader::new(stream), next: 1 })
    }

    /// Asks for `op` with `fields`, an object, and waits for the answer.
    pub fn call(&mut self, op: &str, fields: Value) -> Result<Value, ControlError> {
        let mut request =
            Map::from_iter([("v".into(), json!(VERSION)), ("id".into(), json!(self.next)), ("op".into(), json!(op))]);
        if let Value::Object(fields) = fields {
            request.extend(fields);
        }
        let lost = |why: String| ControlError::new(ErrorKind::Stopped, format!("the daemon did not answer: {why}"));
        let mut line = Value::Object(request).to_string();
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(|error| lost(error.to_string()))?;
        let mut answer = String::new();
        match self.stream.read_line(&mut answer) {
            Ok(0) => return Err(lost("it closed the connection; is it going down?".into())),
            Ok(_) => {}
            Err(error) => return Err(lost(error.to_string())),
        }
        let mut answer: Value = serde_json::from_str(&answer).map_err(|error| lost(format!("no JSON: {error}")))?;
        self.next += 1;
        match (answer.get_mut("ok").map(Value::take), answer.get("error")) {
            (Some(ok), None) => Ok(ok),
            (None, Some(error)) => Err(from_json(error)),
            _ => Err(lost("its answer is neither ok nor error".into())),
        }
    }
}

fn from_json(error: &Value) -> ControlError {
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or("unknown");
    let errno = error.get("errno").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    let refusal = errno.zip(error.get("sector").and_then(Value::as_u64));
    let table = error.get("table").and_then(table_error);
    ControlError { kind: ErrorKind::from_name(text("kind")), message: text("message").to_owned(), refusal, table }
}

fn table_error(error: &Value) -> Option<TableError> {
    let number = |key: &str| error.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let message = error.get("message")?.as_str()?.to_owned();
    Some(TableError { line: number("line")?, word: number("word"), message })
}
