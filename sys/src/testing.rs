//! Helpers of the unit tests.

use std::env::current_exe;
use std::process::Command;

/// Runs the ignored test `name` in another process, as memory that it locks would count for the other tests.
pub fn run_ignored_test_alone(name: &str) {
    let arguments = ["--ignored", "--exact", name, "--nocapture", "--test-threads=1"];
    let child = Command::new(current_exe().unwrap()).args(arguments).output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success() && printed.contains("1 passed"), "{printed}{errors}");
}
