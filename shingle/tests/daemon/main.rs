//! The daemon: how it serves, is reloaded, killed and started again.

#[path = "../program/mod.rs"]
mod program;

mod dmz_daemon;
mod memory_limits;
mod metrics;
mod nbd_clients;
mod power_directory;
mod reload;
mod stl_daemon;
mod table_plugs;
mod tls;
mod unusable_volumes;
mod web;
