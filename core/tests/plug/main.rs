//! Zone write plugging: order, policies, power, and the bugs that were found in it.

#[path = "../shared/desk.rs"]
mod desk;

mod plug;
mod plug_bugs;
mod plug_elevator;
mod plug_invariants;
mod plug_qd1;
