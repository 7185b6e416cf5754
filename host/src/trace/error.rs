//! Why a file is not read as a recording.

use std::io;

use shingle_core::impl_error;
/// What is wrong, and where.
#[derive(Debug)]
pub struct ReadError {
    /// Byte of the file at which the damaged part begins.
    pub offset: u64,
    /// What is wrong there.
    pub damage: Damage,
}

/// What can be wrong.
#[derive(Debug)]
pub enum Damage {
    /// The file cannot be read.
    Io(io::Error),
    /// It does not begin as a recording does.
    NoRecording,
    /// It is of another version.
    Version(u32),
    /// It ends in the middle of this.
    Truncated(&'static str),
    /// It ends without its last chunk: the recording was not finished.
    NoEnd,
    /// The checksum (first) of this part is not that of its bytes (second).
    Checksum(&'static str, u32, u32),
    /// A chunk of an unknown kind.
    UnknownChunk([u8; 4]),
    /// A chunk (first) has a length (second) that it cannot have.
    Length(&'static str, u32),
    /// A value that makes no sense.
    Value(&'static str),
    /// The last chunk counts other entries (first) than there are (second).
    Count(u64, u64),
    /// There is something after the last chunk.
    Trailing,
}

impl_error!(ReadError, |self, f| {
    write!(f, "at byte {}: ", self.offset)?;
    match &self.damage {
        Damage::Io(error) => write!(f, "it cannot be read: {error}"),
        Damage::NoRecording => f.write_str("it does not begin as a recording of `shingle trace record` does"),
        Damage::Version(version) => {
            write!(f, "it is of format version {version}, and this program knows version {} only", super::file::VERSION)
        }
        Damage::Truncated(what) => write!(f, "the file ends in the middle of {what}: it was cut off; record again"),
        Damage::NoEnd => f.write_str(
            "the file ends without its last chunk: the recording was not finished, or was cut off; record again",
        ),
        Damage::Checksum(what, found, right) => {
            write!(f, "the checksum of {what} is {found:08x}, but that of its bytes is {right:08x}: it was damaged")
        }
        Damage::UnknownChunk(kind) => {
            write!(f, "a chunk of the unknown kind {:?}", kind.escape_ascii().to_string())
        }
        Damage::Length(what, length) => write!(f, "{what} cannot have a length of {length} bytes"),
        Damage::Value(what) => f.write_str(what),
        Damage::Count(counted, found) => {
            write!(f, "the last chunk counts {counted} entries, but the file has {found}: chunks are missing")
        }
        Damage::Trailing => {
            f.write_str("there are bytes after the last chunk: the file was not written by one recording")
        }
    }
});
