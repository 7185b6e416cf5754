//! Ctrl-C: the first one ends the work early, a second one the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::CliError;

/// Has `stop` set by the first SIGINT or SIGTERM; the second one ends the process with code 130.
pub fn catch(stop: &Arc<AtomicBool>) -> Result<(), CliError> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag that the first one set.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| CliError::Failed(format!("cannot catch Ctrl-C: {error}")))?;
    }
    Ok(())
}
