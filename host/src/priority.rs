//! Which threads go first.

/// How much nicer than shards those threads are that only tell something.
const NICE: i32 = 10;

/// Has this thread, and those that it starts, run when no shard wants the processor: many who ask at once keep nobody's I/O waiting.
pub fn give_way() {
    // If the system does not let it, all are alike.
    let _ = rustix::process::setpriority_process(None, NICE);
}
