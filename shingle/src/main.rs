//! The `shingle` program: parse, plan, run.
#![forbid(unsafe_code)]
fn main() {}
