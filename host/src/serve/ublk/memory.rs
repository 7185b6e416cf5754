//! No deadlock on its own users: a daemon that the machine's memory is written through must not wait for memory.
//!
//! The kernel frees memory by writing dirty pages out, to our block device among others. If the daemon waits for memory
//! meanwhile, each waits for the other. So it allocates without I/O (`PR_SET_IO_FLUSHER`: its threads are not slowed down for the dirty
//! pages that they are to write, either), none of its memory is paged out, and it is not what is killed when memory is short.

use std::fs;
use std::io;
use std::sync::Once;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;
use shingle_sys::populate_program;

static PROCESS: Once = Once::new();

/// Makes this thread, and those that it starts, ones that never wait for the writes that they serve; and their process one that
/// stays in memory.
pub(super) fn become_flusher() {
    warn("allocate without I/O (PR_SET_IO_FLUSHER)", configure_io_flusher_behavior(true).map_err(io::Error::from));
    PROCESS.call_once(|| {
        // On fault: what was never touched takes no memory.
        let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        warn("lock its memory (mlockall)", mlockall(all).map_err(io::Error::from));
        warn("keep all of itself in memory (MADV_POPULATE_READ)", populate_program());
        warn(
            "keep from being killed when memory is short (oom_score_adj)",
            fs::write("/proc/self/oom_score_adj", "-1000"),
        );
    });
}

fn warn(what: &str, outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(
            "the daemon cannot {what}: {error}; when memory is short its block devices may stand still: run it as root"
        );
    }
}
