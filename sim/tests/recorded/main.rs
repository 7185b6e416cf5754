//! Mutations, and the recorded scenarios that show them.
//!
//! A mutation is a bug that a test plants: a guard of data that is gone, or a device that breaks a rule. For each there is a scenario in
//! `scenarios/`, which breaks a rule with the mutation and none without it. Scenarios hold operations, faults and power cuts, and do not depend on
//! what the simulator draws from a seed. `docs/testing-by-simulation.md` says how to record one, and how to search for mutations by fresh seeds.

mod dmzoned;
mod harness;
mod in_order;
mod log;
mod paths;
mod plug;
mod regressions;
mod scheduler;
mod stl;
mod ublk;
mod volumes;
