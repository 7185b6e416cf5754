//! The program as its users call it.

#[path = "../program/mod.rs"]
mod program;

mod cli;
mod dm_cli;
mod dmz_cli;
mod packages;
mod path_cli;
mod power_cli;
mod read_only_media;
mod stl_cli;
mod top;
mod trust;
mod unread_output;
