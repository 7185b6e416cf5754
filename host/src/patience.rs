//! A little patience with what a process that was killed has not let go of yet.
//!
//! The kernel ends a dead process's io_uring requests, and closes the files and sockets in them, a moment after the process
//! is gone. Who restarts a killed server at once would find its addresses and locks still taken.

use std::thread::sleep;
use std::time::Duration;

/// How often it is tried, and how long between: 2 seconds in all.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// Tries until it works, fails with anything but `taken`, or has been tried for 2 seconds.
pub fn patiently<T, E>(taken: impl Fn(&E) -> bool, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        match attempt() {
            Err(error) if taken(&error) => sleep(PAUSE),
            result => return result,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_tried_again_and_other_failures_are_not() {
        let mut tries = 0;
        let mut attempt = |until: u32, error: &'static str| {
            tries = 0;
            let result = patiently(
                |e| *e == "taken",
                || {
                    tries += 1;
                    if tries == until { Ok(()) } else { Err(error) }
                },
            );
            (result, tries)
        };
        assert_eq!(attempt(3, "taken"), (Ok(()), 3));
        assert_eq!(attempt(3, "broken"), (Err("broken"), 1));
        assert_eq!(attempt(1000, "taken"), (Err("taken"), TRIES));
    }
}
