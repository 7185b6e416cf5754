//! One world, whatever becomes of it: a panic in it is a failure of its seed, and the others go on.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::Once;

use shingle_core::time::Instant;
use shingle_sim::Recording;
use shingle_sim::model::{Rule, Violation};
use shingle_sim::swarm::{self, Failure, Recorder, Replay, Report, SwarmOptions};

thread_local! {
    /// The last panic of this thread while it runs a world: what it said, and where.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs one seed.
pub(super) fn run(seed: u64, options: &SwarmOptions) -> Result<Report, Box<Failure>> {
    keep_panics();
    PANIC.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(|| swarm::run(seed, options)));
    let said = PANIC.take().unwrap_or_default();
    result.unwrap_or_else(|_| Err(panicked(seed, said, options)))
}

/// The recorded choices of a seed that fails; `None` if it does not.
pub(super) fn record(seed: u64, options: &SwarmOptions) -> Option<Recording> {
    let recorder = Recorder::default();
    keep_panics();
    PANIC.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(|| recorder.run(seed, options)));
    PANIC.set(None);
    let rule = result.map_or(Some(Rule::Panic), |result| result.err().map(|failure| failure.violation.rule))?;
    Some(recorder.take(rule))
}

/// Runs a recorded scenario.
pub(super) fn replay(recording: &Recording, options: &SwarmOptions) -> Replay {
    keep_panics();
    PANIC.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(|| swarm::replay(recording, options)));
    let said = PANIC.take().unwrap_or_default();
    let options = SwarmOptions { profile: recording.profile, ..options.clone() };
    let panicked = || Replay { outcome: Err(panicked(recording.seed, said, &options)), unused: Vec::new() };
    result.unwrap_or_else(|_| panicked())
}

/// The failure with the fewest requests. One that panics stays as it is: nobody counted its requests.
pub(super) fn shorten(failure: Box<Failure>, options: &SwarmOptions) -> Box<Failure> {
    let shorter = || catch_unwind(AssertUnwindSafe(|| swarm::shorten(failure.clone(), options)));
    if failure.violation.rule == Rule::Panic { None } else { shorter().ok() }.unwrap_or(failure)
}

fn panicked(seed: u64, what: String, options: &SwarmOptions) -> Box<Failure> {
    let violation = Violation { rule: Rule::Panic, at: Instant::ZERO, what };
    let profile = options.profile;
    // It may be the drawing of the world that panics.
    let scenario = catch_unwind(|| swarm::describe(seed, profile)).unwrap_or_default();
    let ops = options.ops.unwrap_or(u64::MAX);
    Box::new(Failure { seed, profile, violation, life: 0, ops, scenario, trace: None })
}

/// Panics of threads that run a world are kept for its failure; others are told as ever.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let kept = PANIC.with_borrow_mut(|said| said.as_mut().map(|said| *said = info.to_string()));
            if kept.is_none() {
                others(info);
            }
        }));
    });
}
