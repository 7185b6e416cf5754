//! The laboratory: simulations, traces, profiles, load, and published tables.

#[path = "../program/mod.rs"]
mod program;

mod bench_virtual;
mod disks;
mod profile_fit;
mod reproduce;
mod sim;
mod trace;
