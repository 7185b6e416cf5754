//! Ctrl-C: the first one ends the work early, a second one the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::CliError;

/// What the first SIGINT or SIGTERM sets; the second one ends the process with code 130.
pub type Stop = Arc<AtomicBool>;

/// Has the signals set a flag from here on.
pub fn catch() -> Result<Stop, CliError> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag that the first one set.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| CliError::Failed(format!("cannot catch Ctrl-C: {error}")))?;
    }
    Ok(stop)
}
