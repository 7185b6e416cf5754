//! Everything that touches the machine is here.
//!
//! - [`config`]: the stack file, checked, as one plan.
//! - [`fields`]: tables of TOML, read key by key; sizes and times; mistakes with their lines.
//! - [`shard`]: one thread, one stack, one ring: wait, deliver, turn, pump.
//! - [`serve`]: the protocols by which clients reach exports: sockets and the sessions behind them.
//! - [`devices`]: the devices of a shard by name, and mapped devices that change while they are used.
//! - [`mailbox`]: how other threads ask a shard for something.
//! - [`helper`]: calls that block, done beside a shard.
//! - [`service_manager`]: what systemd is told, hands over and keeps.
//! - [`patience`]: with what a killed process has not let go of yet.
//! - [`disk`]: real disks as devices of a stack.
//! - [`disk_identity`]: identity of a disk, by which paths, members and block devices are compared.
//! - [`backend`]: the kinds of disk that a stack file may have.
//! - [`dmz`]: dm-zoned's disks, for those who make and mend them.
//! - [`stl`]: the disks of an `stl` volume, for those who make and check it.
//! - [`keys`]: keys of encrypted devices, from files and the environment.
//! - [`daemon`], [`daemon_state`], [`control`], [`notices`]: a running stack, what it consists of, the socket at which it can be
//!   asked, and what it says by itself; [`outlets`]: where it tells others of itself.
//! - [`profile`]: drives that can be simulated, as files of parameters.
//! - [`latency`]: how long things took, as a histogram; [`tally`]: what exports and disks have done, and how long it took.
//! - [`tls`]: certificates, shared keys, and streams that are encrypted with them.
//! - [`events`]: what has happened lately; [`http`], [`web`]: HTTP to this machine, and the page.
//! - [`zone_reports`]: zones of devices, for those who watch them.
//! - [`trace`]: recordings of bios: the file, and what it says.
#![forbid(unsafe_code)]
// They panic if nobody reads: `tracing` says what happens.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod backend;
pub mod config;
pub mod control;
mod control_group;
pub mod daemon;
pub mod daemon_state;
pub mod devices;
pub mod disk;
pub mod disk_identity;
pub mod dmz;
pub mod events;
mod export_identity;
mod extents;
mod failovers;
pub mod fields;
mod fresh_file;
pub mod helper;
pub mod http;
pub mod keys;
pub mod latency;
pub mod mailbox;
pub mod metrics;
pub mod notices;
pub mod numa;
pub mod outlets;
pub mod patience;
pub mod priority;
pub mod profile;
pub mod pulse;
pub mod serve;
pub mod service_manager;
pub mod shard;
pub mod stl;
pub mod tally;
pub mod tls;
pub mod trace;
mod volume_faults;
pub mod web;
pub mod zone_reports;
