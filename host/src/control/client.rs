//! The other end of the control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shingle_core::zone::Zone;

use super::protocol::{Failure, Operation, ReportZones, ZoneInfo};
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

    /// Sends a request and waits for the answer.
    pub fn call<O: Operation>(&mut self, request: &O) -> Result<O::Answer, ControlError> {
        let lost = |why: String| ControlError::new(ErrorKind::Stopped, format!("the daemon did not answer: {why}"));
        let request = RequestLine { v: VERSION, id: self.next, op: O::NAME, fields: request };
        let mut line = serde_json::to_vec(&request).map_err(|error| lost(error.to_string()))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|error| lost(error.to_string()))?;
        let mut answer = String::new();
        match self.stream.read_line(&mut answer) {
            Ok(0) => return Err(lost("it closed the connection; is it going down?".into())),
            Ok(_) => {}
            Err(error) => return Err(lost(error.to_string())),
        }
        self.next += 1;
        let other = |error| lost(format!("it speaks another language ({error}); is it of another version?"));
        match serde_json::from_str(&answer).map_err(other)? {
            ResponseLine { ok: Some(answer), error: None } => Ok(answer),
            ResponseLine { ok: None, error: Some(failure) } => Err(failure.into()),
            _ => Err(lost("its answer is neither ok nor error".into())),
        }
    }

    /// All zones of `device`.
    pub fn zones(&mut self, device: &str) -> Result<Vec<Zone>, ControlError> {
        let (mut zones, mut next) = (Vec::new(), Some(0));
        while let Some(start) = next {
            let answer = self.call(&ReportZones { device: device.to_owned(), start, count: 0 })?;
            zones.extend(answer.zones.iter().filter_map(ZoneInfo::zone));
            // A device that does not move on would be asked for ever.
            next = answer.next.filter(|next| *next > start);
        }
        Ok(zones)
    }
}

#[derive(Serialize)]
struct RequestLine<'a, O> {
    v: u64,
    id: u64,
    op: &'static str,
    #[serde(flatten)]
    fields: &'a O,
}

#[derive(Deserialize)]
struct ResponseLine<A> {
    ok: Option<A>,
    error: Option<Failure>,
}
