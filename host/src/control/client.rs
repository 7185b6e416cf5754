//! The other end of the control socket.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shingle_core::zone::Zone;

use super::protocol::{Failure, Operation, ReportZones, ZoneInfo};
use super::{ControlError, ErrorKind, VERSION};
use crate::serve::listen::LongSocketPath;

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
        let unreachable = |why: &dyn Display, advice: &str| {
            let message = format!("cannot reach a daemon at {}: {why}; {advice}", path.display());
            ControlError::new(ErrorKind::Stopped, message)
        };
        if let Some(long) = LongSocketPath::of(path) {
            let name = path.file_name().unwrap_or_default().display();
            return Err(unreachable(&long, &format!("change to its directory and use `--control {name}`")));
        }
        let failed = |error: std::io::Error| unreachable(&error, advice(error.kind()));
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .map_err(failed)?;
        Ok(Self { stream: BufReader::new(stream), next: 1 })
    }

    /// User ID of the process that listens on the socket.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn server_uid(&self) -> std::io::Result<u32> {
        Ok(socket_peercred(self.stream.get_ref())?.uid.as_raw())
    }

    /// Sends a request and waits for the answer.
    pub fn call<O: Operation>(&mut self, request: &O) -> Result<O::Answer, ControlError> {
        let fields = serde_json::to_value(request).map_err(lost)?;
        let answer = self.exchange(O::NAME, fields)?;
        serde_json::from_value(answer).map_err(misunderstood)
    }

    /// Sends a request of any operation and waits for what the answer has in `ok`. Code that knows the operation is compiled once for each,
    /// so it is kept short.
    fn exchange(&mut self, name: &str, fields: Value) -> Result<Value, ControlError> {
        let mut request = Map::from_iter([
            ("v".to_owned(), json!(VERSION)),
            ("id".to_owned(), json!(self.next)),
            ("op".to_owned(), json!(name)),
        ]);
        if let Value::Object(fields) = fields {
            request.extend(fields);
        }
        let line = format!("{}\n", Value::Object(request));
        self.stream.get_mut().write_all(line.as_bytes()).map_err(lost)?;
        let mut answer = String::new();
        match self.stream.read_line(&mut answer) {
            Ok(0) => return Err(lost("it closed the connection; is it going down?")),
            Ok(_) => {}
            Err(error) => return Err(lost(error)),
        }
        self.next += 1;
        match serde_json::from_str(&answer).map_err(misunderstood)? {
            ResponseLine { ok: Some(answer), error: None } => Ok(answer),
            ResponseLine { ok: None, error: Some(failure) } => Err(failure.into()),
            _ => Err(lost("its answer is neither ok nor error")),
        }
    }

    /// All zones of `device`.
    pub fn zones(&mut self, device: &str) -> Result<Vec<Zone>, ControlError> {
        let (mut zones, mut next) = (Vec::new(), Some(0));
        while let Some(start) = next {
            let answer = self.call(&ReportZones { device: device.to_owned(), start, count: 0, max_age_ms: None })?;
            zones.extend(answer.zones.iter().filter_map(ZoneInfo::zone));
            // A device that does not move on would be asked for ever.
            next = answer.next.filter(|next| *next > start);
        }
        Ok(zones)
    }
}

/// Next step after connecting to a control socket failed with this error.
fn advice(error: std::io::ErrorKind) -> &'static str {
    match error {
        std::io::ErrorKind::PermissionDenied => "run this as the user of the daemon, or as root with `sudo`",
        _ => "start one with `shingle up STACK.toml`, or name its socket with --control",
    }
}

fn lost(why: impl Display) -> ControlError {
    ControlError::new(ErrorKind::Stopped, format!("the daemon did not answer: {why}"))
}

fn misunderstood(error: serde_json::Error) -> ControlError {
    lost(format!("it speaks another language ({error}); is it of another version?"))
}

#[derive(Deserialize)]
struct ResponseLine {
    ok: Option<Value>,
    error: Option<Failure>,
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};

    use super::*;

    #[test]
    fn socket_of_another_user_is_not_taken_for_no_daemon() {
        assert!(advice(PermissionDenied).contains("sudo"));
        assert!([NotFound, ConnectionRefused].iter().all(|error| advice(*error).starts_with("start one")));
    }
}
