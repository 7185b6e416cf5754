//! What the program has to say while it runs: the events of [`tracing`], one line each, on standard error or for systemd's journal.
//!
//! ```text
//!   tracing::warn!(disk = "smr", "a zone was given up") ──> Form: a line ──> queue ──> thread ──> stderr, or the journal
//! ```
//!
//! To say something neither fails nor waits, whatever standard error is: a full disk, a pipe that nobody reads, a terminal that
//! was stopped. What finds the queue full or cannot be written is lost, and the next line that can be written says how much was.

mod form;

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tracing::Level;

pub use form::Form;

/// Most lines that wait to be written.
const MOST_LINES: usize = 1024;
/// How long the end of the program waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The log of this program.
static LOG: OnceLock<Log> = OnceLock::new();

/// Sends what is said to standard error or the journal, from here on and once.
///
/// # Errors
/// If the thread that writes cannot be started, or there is no journal and it was asked for.
pub fn start(wanted: Form) -> io::Result<()> {
    let form = wanted.here();
    let log = match journal(form) {
        None => Log::to(io::stderr(), form)?,
        Some(Ok(journal)) => Log::to(journal, form)?,
        Some(Err(_)) if wanted == Form::Auto => Log::to(io::stderr(), Form::Text)?,
        Some(Err(error)) => return Err(io::Error::other(format!("{}: {error}", form::JOURNAL))),
    };
    let queue = log.clone();
    // By itself it would report a line that it cannot write on standard error, with a macro that panics there.
    let lines = tracing_subscriber::fmt().log_internal_errors(false).with_writer(move || queue.clone());
    let lines = lines.event_format(log.form).finish();
    if LOG.set(log).is_ok() {
        // Another subscriber keeps what is said: then that is where it goes.
        let _ = tracing::subscriber::set_global_default(lines);
    }
    Ok(())
}

fn journal(form: Form) -> Option<io::Result<Journal>> {
    let connect = || {
        let socket = UnixDatagram::unbound()?;
        socket.connect(form::JOURNAL)?;
        Ok(Journal(socket))
    };
    (form == Form::Journal).then(connect)
}

/// The journal: what is written at once is an event.
struct Journal(UnixDatagram);

impl Write for Journal {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.send(event)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until all log lines so far are written, for one second at most. Call it before the program ends, or tells its caller that it has got so far.
pub fn flush() {
    LOG.get().into_iter().for_each(Log::wait);
}

/// Says why the program ends, and waits for that as [`flush`] does: nobody may read standard error any more. False: there is
/// no log.
pub fn last_words(text: &str) -> bool {
    let Some(mut log) = LOG.get().cloned() else { return false };
    let line = if log.form == Form::Text { text.to_owned() } else { log.form.line(Level::ERROR, text.trim_end()) };
    // It takes every line.
    let _ = log.write(line.as_bytes());
    log.wait();
    true
}

/// The way to a thread that writes lines.
#[derive(Clone)]
struct Log {
    queue: SyncSender<Said>,
    lost: Arc<AtomicU64>,
    form: Form,
}

enum Said {
    Line(Vec<u8>),
    /// To be answered when all before it is written.
    Flush(SyncSender<()>),
}

impl Log {
    fn to(out: impl Write + Send + 'static, form: Form) -> io::Result<Self> {
        let (queue, lines) = mpsc::sync_channel(MOST_LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let count = lost.clone();
        thread::Builder::new().name("log".into()).spawn(move || write_all(&lines, &count, out, form))?;
        Ok(Self { queue, lost, form })
    }

    fn wait(&self) {
        let (done, written) = mpsc::sync_channel(1);
        // A full queue means that nobody reads what is written.
        if self.queue.try_send(Said::Flush(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

/// Takes whole lines, as `tracing-subscriber` formats them.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Said::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(lines: &Receiver<Said>, lost: &AtomicU64, mut out: impl Write, form: Form) {
    for said in lines {
        match said {
            Said::Line(line) => {
                let missing = lost.swap(0, Relaxed);
                let notice = if missing > 0 { tell_lost(missing, form) } else { String::new() };
                let written = match form {
                    // Each event is sent by itself.
                    Form::Journal if missing > 0 => {
                        out.write_all(notice.as_bytes()).and_then(|()| out.write_all(&line))
                    }
                    _ => out.write_all(&[notice.as_bytes(), &line].concat()),
                };
                if written.and_then(|()| out.flush()).is_err() {
                    lost.fetch_add(missing + 1, Relaxed);
                }
            }
            Said::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

fn tell_lost(lines: u64, form: Form) -> String {
    let said = format!("{lines} lines were lost here");
    if form == Form::Text { said + "\n" } else { form.line(Level::WARN, &said) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;

    use super::*;

    /// Takes what it may, says what it took, and is done with it when it is told.
    struct File {
        open: Arc<AtomicU64>,
        took: Sender<String>,
        gate: Receiver<()>,
    }

    impl Write for File {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.open.load(Relaxed) == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let _ = self.took.send(String::from_utf8_lossy(bytes).into_owned());
            let _ = self.gate.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log() -> (Log, Arc<AtomicU64>, Receiver<String>, Sender<()>) {
        let (open, (took, taken), (go, gate)) = (Arc::new(AtomicU64::new(1)), mpsc::channel(), mpsc::channel());
        (Log::to(File { open: open.clone(), took, gate }, Form::Text).unwrap(), open, taken, go)
    }

    #[test]
    fn a_line_that_cannot_be_written_fails_nobody_and_is_counted_in_the_next_that_can() {
        let (mut log, open, taken, go) = log();
        drop(go);
        open.store(0, Relaxed);
        log.write_all(b"one\n").unwrap();
        log.write_all(b"two\n").unwrap();
        log.wait();
        open.store(1, Relaxed);
        log.write_all(b"three\n").unwrap();
        assert_eq!(taken.recv().unwrap(), "2 lines were lost here\nthree\n");
    }

    #[test]
    fn a_reader_that_does_not_read_makes_nobody_wait_and_costs_the_newest_lines() {
        let (mut log, _, taken, go) = log();
        log.write_all(b"first\n").unwrap();
        assert_eq!(taken.recv().unwrap(), "first\n");
        // The thread is in the middle of it, and there is room for as many as the queue holds.
        (0..MOST_LINES + 5).for_each(|n| log.write_all(format!("{n}\n").as_bytes()).unwrap());
        drop(go);
        assert_eq!(taken.recv().unwrap(), "5 lines were lost here\n0\n");
        log.wait();
        assert_eq!(taken.try_iter().last().unwrap(), format!("{}\n", MOST_LINES - 1));
    }
}
