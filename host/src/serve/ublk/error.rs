//! Why there is no block device.

use std::io;
use std::path::PathBuf;

use shingle_core::block::Status;
use shingle_core::impl_error;

use super::waiting::WaitingDevice;
use crate::mailbox::MailboxError;

/// Error of making, serving or removing a block device.
#[derive(Debug)]
pub enum UblkError {
    /// The driver cannot be reached.
    Driver(io::Error),
    /// The driver is too old for what the export needs.
    Missing {
        /// The export.
        export: String,
        /// What it needs.
        what: &'static str,
        /// The kernel that has it.
        since: &'static str,
    },
    /// The device cannot be shown as a block device.
    Shape {
        /// The export.
        export: String,
        /// What is wrong with it.
        why: String,
    },
    /// A device of this export is there, and somebody serves it.
    Served {
        /// The export.
        export: String,
        /// The number of the device.
        number: u32,
        /// Its server.
        pid: i32,
    },
    /// What a killed daemon has left is not what the export is now.
    Changed {
        /// The export.
        export: String,
        /// The number of the device.
        number: u32,
    },
    /// The device of a killed daemon was of another volume, or on other disks.
    Replaced {
        /// The export.
        export: String,
        /// The number of the device.
        number: u32,
        /// Mounts and other users of the device.
        users: Vec<String>,
        /// The recorded identity.
        expected: String,
        /// The identity now.
        found: String,
    },
    /// The record of a device cannot be read.
    Record {
        /// The export.
        export: String,
        /// The number of the device.
        number: u32,
        /// The record.
        path: PathBuf,
        /// Error of reading it.
        error: io::Error,
    },
    /// Unflushed writes that a killed daemon has left cannot be written again.
    Unreplayed {
        /// The export.
        export: String,
        /// The number of the device.
        number: u32,
        /// Names and paths of the disks.
        disks: String,
        /// Status of the write or flush that failed.
        status: Status,
    },
    /// The disks do not answer during the replay of unflushed writes.
    Stalled {
        /// The export.
        export: String,
        /// The number of the device.
        number: u32,
        /// Names and paths of the disks.
        disks: String,
        /// Seconds without a completion.
        seconds: u64,
        /// MiB that are left.
        left: String,
    },
    /// A block device of another daemon, which was killed, waits for a disk.
    Awaited {
        /// The disk.
        path: PathBuf,
        /// The device.
        waiting: Box<WaitingDevice>,
    },
    /// The driver refuses a step.
    Refused {
        /// The export.
        export: String,
        /// What was to be done.
        doing: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// The requests of all block devices of a shard are too many.
    Full {
        /// The export.
        export: String,
        /// Most requests at once.
        most: u32,
    },
    /// There is no memory for the requests.
    Memory {
        /// The export.
        export: String,
        /// How much was wanted, in bytes.
        bytes: u64,
    },
    /// There is no memory that outlives the daemon.
    Keep {
        /// The export.
        export: String,
        /// Why not.
        error: io::Error,
    },
    /// The identity of the export cannot be read: the shard or a disk does not answer.
    Unidentified {
        /// The export.
        export: String,
        /// Error of the question.
        error: MailboxError,
    },
    /// The shard of the export is busy or stopped.
    Shard(String),
    /// The device cannot grow while it is there.
    Fixed {
        /// The export.
        export: String,
        /// The number of the device.
        number: u32,
        /// Whether it is for its zones.
        is_zoned: bool,
    },
    /// Somebody uses the device.
    Used {
        /// The export.
        export: String,
        /// The number of the device.
        number: u32,
        /// Who; empty if that cannot be seen.
        users: Vec<String>,
    },
    /// A device that is to be removed by hand is used.
    Held {
        /// The number of the device.
        number: u32,
        /// Who.
        users: Vec<String>,
    },
    /// A device that is to be removed by hand is served.
    Alive {
        /// The number of the device.
        number: u32,
        /// Its server.
        pid: i32,
    },
}

impl_error!(UblkError, |self, f| match self {
    Self::Driver(error) if error.kind() == io::ErrorKind::NotFound => {
        write!(
            f,
            "this machine has no ublk driver (/dev/ublk-control): load it with `modprobe ublk_drv`, Linux 6.6 or newer"
        )
    }
    Self::Driver(error) if error.kind() == io::ErrorKind::PermissionDenied => {
        write!(f, "/dev/ublk-control is not for this user: block devices are made as root")
    }
    Self::Driver(error) => write!(f, "the ublk driver (/dev/ublk-control) does not answer: {error}"),
    Self::Missing { export, what, since } => {
        write!(f, "export `{export}` needs a ublk driver with {what}: that is in Linux {since} or newer")
    }
    Self::Shape { export, why } => write!(f, "export `{export}` cannot be a block device: {why}"),
    Self::Served { export, number, pid } => {
        write!(f, "/dev/ublkb{number} is export `{export}` of a daemon that runs, process {pid}: stop that first")
    }
    Self::Changed { export, number } => write!(
        f,
        "/dev/ublkb{number}, which a daemon has left that was killed, is not what export `{export}` is now: bring its size and limits \
         back, or end its users and remove it with `shingle ublk remove {number}`"
    ),
    Self::Replaced { export, number, users, expected, found } => {
        let users = if users.is_empty() { String::new() } else { format!(", in use by {},", users.join(", ")) };
        write!(
            f,
            "/dev/ublkb{number}{users} was {expected}, and export `{export}` is {found} now: it is not taken over, and nothing is replayed; bring \
             the former back, or end its users and give it up with `shingle ublk remove {number} --force`"
        )
    }
    Self::Record { export, number, path, error } => write!(
        f,
        "export `{export}`: the record of /dev/ublkb{number}, {}, cannot be read: {error}; remove the record to take the device over \
         without a comparison, or give it up with `shingle ublk remove {number} --force`",
        path.display()
    ),
    Self::Unreplayed { export, number, disks, status } => write!(
        f,
        "export `{export}`: unflushed writes of a killed daemon cannot be written again to {disks}: {status}; /dev/ublkb{number} waits: repair \
         the disks and start the daemon again, or give it up with `shingle ublk remove {number} --force`"
    ),
    Self::Stalled { export, number, disks, seconds, left } => write!(
        f,
        "export `{export}`: {disks} completed nothing for {seconds} s, and {left} MiB of unflushed writes of a killed daemon are left: \
         /dev/ublkb{number} waits; check the disks and start the daemon again, which replays the rest"
    ),
    Self::Awaited { path, waiting } => write!(f, "{}: {waiting}", path.display()),
    Self::Refused { export, doing, error } =>
        write!(f, "export `{export}`: the ublk driver could not {doing}: {error}"),
    Self::Full { export, most } => write!(
        f,
        "export `{export}`: the block devices of one shard have at most {most} requests together: lower `ublk-depth`, or put disks \
         on other shards"
    ),
    Self::Memory { export, bytes } =>
        write!(f, "export `{export}`: there are no {} MiB of memory for its requests: lower `ublk-depth`", bytes >> 20),
    Self::Keep { export, error } => write!(
        f,
        "export `{export}`: what a kill of the daemon must not lose cannot be kept in /run/shingle/ublk: {error}; that has to be a file \
         system in memory with some room"
    ),
    Self::Held { number, users } => write!(
        f,
        "/dev/ublkb{number} is in use by {}: end that first, or remove it with --force, which fails what they wait for",
        users.join(", ")
    ),
    Self::Alive { number, pid } => {
        write!(f, "/dev/ublkb{number} is served by process {pid}: stop that first, or have it end the export")
    }
    Self::Unidentified { export, error } => {
        write!(f, "export `{export}`: the UUID of its volume cannot be read: {error}; check its disks")
    }
    Self::Shard(export) => write!(f, "export `{export}`: its shard does not answer; start the daemon again"),
    Self::Fixed { export, number, is_zoned } => {
        let why = if *is_zoned {
            "one with zones cannot"
        } else {
            "this kernel's driver cannot: that is in Linux 6.16 or newer"
        };
        write!(
            f,
            "export `{export}`: /dev/ublkb{number} keeps its size, {why}; remove the export and add it again, or start the daemon again"
        )
    }
    Self::Used { export, number, users } => {
        let by = if users.is_empty() { String::new() } else { format!(" by {}", users.join(", ")) };
        write!(f, "export `{export}`: /dev/ublkb{number} is in use{by}: end that first")
    }
});
