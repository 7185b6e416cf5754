//! `stl`: the target, its format, and its tools.

#[path = "../shared/rig.rs"]
mod rig;
mod shingled;
#[path = "../shared/tables.rs"]
mod tables;

mod stl;
mod stl_add;
mod stl_check;
mod stl_fixtures;
mod stl_geometry;
mod stl_gone;
mod stl_guards;
mod stl_idle;
mod stl_lanes;
mod stl_members;
mod stl_read_ahead;
mod stl_refused;
mod stl_remove;
mod stl_salvage;
mod stl_second_daemon;
mod stl_table;
mod stl_trouble;
