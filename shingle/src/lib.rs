//! Everything that touches the machine is here.
//!
//! - [`config`]: the stack file, checked, as one plan.
//! - [`shard`]: one thread, one stack, one ring: wait, deliver, turn, pump.
//! - [`serve`]: sockets and the sessions behind them.
//! - [`devices`]: the devices of a shard by name, and mapped devices that change while they are used.
//! - [`mailbox`]: how other threads ask a shard for something.
//! - [`patience`]: with what a killed process has not let go of yet.
//! - [`disk`]: real disks as devices of a stack.
//! - [`dmz`]: dm-zoned's disks, for those who make and mend them.
//! - [`keys`]: keys of encrypted devices, from files and the environment.
//! - [`daemon`], [`control`], [`notices`]: a running stack, the socket at which it can be asked, and what it says by itself.
//! - [`profile`]: drives that can be simulated, as files of parameters.
//! - [`bench`]: the load generator.
//! - [`trace`]: recordings of bios: the file, what it says, and doing it again.
//! - [`reproduce`]: published tables, run again.
//! - [`cli`]: the commands.
//! - [`log`]: what the program has to say while it runs.
#![forbid(unsafe_code)]
// They panic if nobody reads: `cli::output` prints, and `tracing` says what happens meanwhile.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
pub mod devices;
pub mod disk;
pub mod dmz;
pub mod fit;
pub mod keys;
pub mod log;
pub mod mailbox;
pub mod notices;
pub mod patience;
pub mod profile;
pub mod reproduce;
pub mod serve;
pub mod shard;
pub mod trace;
