//! Metrics in a file that is replaced now and then, for the textfile collector of the node exporter.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Format, Snapshot};
use crate::daemon_state::DaemonState;
use crate::fresh_file;

/// Whoever writes the file. When this is dropped the file goes: what it said is not so any more.
pub struct MetricsFile {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsFile {
    /// Writes the file now and in every `interval`.
    ///
    /// # Errors
    /// If it cannot be written now, or there can be no thread for it.
    pub fn start(path: PathBuf, interval: Duration, daemon: Arc<DaemonState>) -> io::Result<Self> {
        write(&path, &daemon)?;
        let (stop, stopped) = mpsc::channel();
        let body = move || {
            let mut trouble = None;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let now = write(&path, &daemon).err().map(|error| error.to_string());
                match &now {
                    Some(now) if trouble.as_ref() != Some(now) => {
                        tracing::warn!("the file of metrics {}: {now}", path.display());
                    }
                    None if trouble.is_some() => {
                        tracing::info!("the file of metrics {} is written again", path.display())
                    }
                    _ => {}
                }
                trouble = now;
            }
            // It may be gone already.
            let _ = fs::remove_file(&path);
        };
        let thread = thread::Builder::new().name("metrics-file".into()).spawn(body)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Replaces the file: whoever reads it finds all of the old one or all of the new one.
fn write(path: &Path, daemon: &DaemonState) -> io::Result<()> {
    let all = Snapshot::take(daemon).map_err(|error| io::Error::other(error.to_string()))?;
    // The node exporter reads what ends in `.prom`.
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    fresh_file::replace(path, Path::new(&new), all.text(Format::Prometheus).as_bytes(), 0o666)
}
