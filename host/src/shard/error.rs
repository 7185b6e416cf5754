//! Why a shard did not start or did not end well.

use std::io;

use shingle_core::block::{DeviceId, Status};
use shingle_core::impl_error;
use shingle_core::time::Duration;
use shingle_sys::RingError;

/// A bio that waits for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckBio {
    /// Where it waits.
    pub device: DeviceId,
    /// What people call that.
    pub name: String,
    /// For how long.
    pub age: Duration,
    /// What it is.
    pub bio: String,
}

/// Error of starting, running or stopping a shard.
#[derive(Debug)]
pub enum ShardError {
    /// There is no io_uring.
    Ring(RingError),
    /// Its eventfd failed.
    Wake(io::Error),
    /// Its thread did not start.
    Thread(io::Error),
    /// Waiting for the kernel failed.
    Wait(io::Error),
    /// Devices that could not make everything durable at the end.
    Flush(Vec<(DeviceId, Status)>),
    /// Bios that did not finish before the end.
    Stuck(Vec<StuckBio>),
    /// A bug: the thread panicked.
    Panicked,
}

impl_error!(ShardError, Ring(RingError), |self, f| match self {
    Self::Ring(error) => error.fmt(f),
    Self::Wake(error) => write!(f, "cannot set up the shard's mailbox: {error}; raise the limit of open files"),
    Self::Thread(error) => write!(f, "cannot start the shard's thread: {error}; raise the limit of processes"),
    Self::Wait(error) => {
        write!(f, "cannot wait for the kernel: {error}; check the kernel log, then start again")
    }
    Self::Flush(failed) => {
        write!(f, "the last flush failed:")?;
        failed.iter().try_for_each(|(device, status)| write!(f, " device {}: {status};", device.0))?;
        write!(f, " what was written after the last good flush may be lost: check the disks and the kernel log")
    }
    Self::Stuck(bios) => {
        write!(f, "stopped while {} bios were stuck:", bios.len())?;
        bios.iter().take(8).try_for_each(|b| {
            let StuckBio { device, name, age, bio } = b;
            write!(f, " {bio} in device {} ({name}) for {} ms;", device.0, age.as_nanos() / 1_000_000)
        })?;
        write!(
            f,
            " writes that were not answered, or came after the last flush that was, may be lost: check the disks \
             below and the kernel log"
        )
    }
    Self::Panicked => write!(f, "the shard's thread panicked, which is a bug: report the message above"),
});
