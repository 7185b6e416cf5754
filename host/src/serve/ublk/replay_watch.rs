//! Waiting for the replay of unflushed writes: as long as the disks below complete something, however slow they are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use shingle_core::block::Status;
use shingle_core::frontend::ublk::Progress;

use super::error::UblkError;
use crate::service_manager::notify;

/// Time between two reports of progress in the log.
const REPORT: Duration = Duration::from_secs(10);
/// Time without a completion after which the log warns.
const SLOW: Duration = Duration::from_secs(30);
/// Time without a completion after which the start fails. A flush of a slow disk with many dirty pages takes minutes.
const MAX_SILENCE: Duration = Duration::from_secs(600);
/// Time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(20);

/// Stage of a server before it serves requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Replaying(Progress),
    Ready,
    Failed(Status),
}

/// The stage of a server, shared with the thread that waits for it.
#[derive(Clone, Debug)]
pub(super) struct Readiness(Arc<Mutex<Stage>>);

impl Readiness {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Stage::Replaying(Progress::default()))))
    }

    pub fn set(&self, stage: Stage) {
        *self.lock() = stage;
    }

    fn stage(&self) -> Stage {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reaction to the progress of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wait,
    Report,
    /// Report that the disks have completed nothing for so long.
    Warn(Duration),
    GiveUp,
}

/// Decides when a replay is reported and when the start fails. Times count from the start of the replay.
#[derive(Debug, Default)]
struct Watch {
    completions: u64,
    last_completion: Duration,
    last_report: Option<Duration>,
}

impl Watch {
    fn look(&mut self, progress: Progress, now: Duration) -> Step {
        if progress.completions != self.completions {
            (self.completions, self.last_completion) = (progress.completions, now);
        }
        let silence = now.saturating_sub(self.last_completion);
        if silence >= MAX_SILENCE {
            return Step::GiveUp;
        }
        let is_due = match self.last_report {
            Some(last) => now >= last + REPORT,
            None => progress.all > 0 || now >= REPORT,
        };
        if !is_due {
            return Step::Wait;
        }
        self.last_report = Some(now);
        if silence >= SLOW { Step::Warn(silence) } else { Step::Report }
    }
}

/// A device that is taken over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken<'a> {
    pub export: &'a str,
    pub number: u32,
    /// Names and paths of the disks, for messages.
    pub disks: &'a str,
}

/// Waits until what a killed daemon left is replayed.
pub(super) fn wait(readiness: &Readiness, taken: Taken<'_>) -> Result<(), UblkError> {
    let Taken { export, number, disks } = taken;
    let (mut watch, start) = (Watch::default(), Instant::now());
    let own = || (export.to_owned(), disks.to_owned());
    loop {
        let progress = match readiness.stage() {
            Stage::Ready => return Ok(()),
            Stage::Failed(status) => {
                let (export, disks) = own();
                return Err(UblkError::Unreplayed { export, number, disks, status });
            }
            Stage::Replaying(progress) => progress,
        };
        match watch.look(progress, start.elapsed()) {
            Step::Wait => {}
            Step::Report => report(taken, progress, None),
            Step::Warn(silence) => report(taken, progress, Some(silence)),
            Step::GiveUp => {
                let (export, disks) = own();
                let seconds = MAX_SILENCE.as_secs();
                return Err(UblkError::Stalled { export, number, disks, seconds, left: left(progress) });
            }
        }
        thread::sleep(LOOK);
    }
}

fn report(Taken { export, number, disks }: Taken<'_>, progress: Progress, silence: Option<Duration>) {
    let (durable, all) = (mebibytes(progress.durable), mebibytes(progress.all));
    let what = format!("{durable} of {all} MiB of unflushed writes of a killed daemon are replayed to {disks}");
    match silence {
        None => tracing::info!(export, "export `{export}`: {what}; /dev/ublkb{number} waits until then"),
        Some(silence) => tracing::warn!(
            export,
            "export `{export}`: {disks} completed nothing for {} s; {what}; check the disks. a kill meanwhile is harmless: the next \
             start replays the rest",
            silence.as_secs()
        ),
    }
    // The start takes longer than the service manager was told; the next report is long before this time is over.
    notify(&format!("EXTEND_TIMEOUT_USEC={}\nSTATUS=export {export}: {what}", 12 * REPORT.as_micros()));
}

fn left(progress: Progress) -> String {
    mebibytes(progress.all.saturating_sub(progress.durable))
}

fn mebibytes(sectors: u64) -> String {
    format!("{:.1}", sectors as f64 / 2048.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn after(completions: u64) -> Progress {
        Progress { durable: 0, all: 8, completions }
    }

    #[test]
    fn a_replay_that_completes_something_is_awaited_however_long_it_takes() {
        let mut watch = Watch::default();
        let minute = |minute: u64| watch.look(after(minute), at(60 * minute));
        assert!((0..1000).map(minute).all(|step| step == Step::Report));
    }

    #[test]
    fn a_replay_without_completions_is_warned_of_and_then_given_up() {
        let mut watch = Watch::default();
        assert_eq!(watch.look(after(1), at(5)), Step::Report);
        assert_eq!(watch.look(after(1), at(14)), Step::Wait, "reports are 10 s apart");
        assert_eq!(watch.look(after(1), at(25)), Step::Report);
        assert_eq!(watch.look(after(1), at(35)), Step::Warn(at(30)));
        assert_eq!(watch.look(after(1), at(604)), Step::Warn(at(599)));
        assert_eq!(watch.look(after(1), at(605)), Step::GiveUp);
    }

    #[test]
    fn a_start_without_unflushed_writes_reports_nothing_at_once() {
        let mut watch = Watch::default();
        assert_eq!(watch.look(Progress::default(), at(0)), Step::Wait);
        assert_eq!(watch.look(Progress::default(), at(10)), Step::Report);
    }

    #[test]
    fn a_failed_replay_names_the_disks_and_the_next_step() {
        let readiness = Readiness::new();
        readiness.set(Stage::Failed(Status::Medium));
        let taken = Taken { export: "volume", number: 4, disks: "`smr` (/srv/smr)" };
        let message = wait(&readiness, taken).unwrap_err().to_string();
        assert!(message.contains("`smr` (/srv/smr)") && message.contains("shingle ublk remove 4 --force"), "{message}");
        readiness.set(Stage::Ready);
        assert!(wait(&readiness, taken).is_ok());
    }
}
