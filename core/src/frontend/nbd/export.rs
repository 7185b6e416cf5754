//! What an export is: a device of the stack, as its clients see it.

use alloc::sync::Arc;

use super::wire::{STRING_MAX, transmission_flag as flag};
use crate::block::{DeviceId, Limits};
use crate::prelude::*;
use crate::sector::SECTOR_BYTES;

/// The longest READ or WRITE that an export takes: what clients use unless told otherwise ("Block size constraints").
pub const PAYLOAD_MAX_BYTES: u32 = 32 << 20;
/// What the protocol wants every server to take in one request.
const PAYLOAD_MIN_BYTES: u32 = 1 << 20;
/// Most device commands that one request should be cut into by the stack.
const PIECES: u32 = 64;
/// The longest piece of a TRIM or WRITE_ZEROES, in sectors.
const PIECE_MAX_SECTORS: u32 = 1 << 21;
/// The largest minimum block size the protocol knows.
const BLOCK_MAX_BYTES: u32 = 1 << 16;

/// A device that clients can choose by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// What clients call it; may be empty, which names the default export.
    pub name: String,
    /// One line for people; may be empty.
    pub description: String,
    /// Where its bios go.
    pub device: DeviceId,
    /// Whether several connections may be used as one: true if they all end in the same stack, where a flush through one
    /// covers the completed writes of all.
    pub multi_conn: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// True if the driver admits each client that chooses it: see [`Session::applied`](super::Session::applied).
    pub by_admission: bool,
    /// Size in bytes.
    pub(super) size: u64,
    /// Unit of requests, in bytes.
    pub(super) block: u32,
    /// Smallest block to advertise, in bytes: in sequential zones writes may have a larger unit than reads.
    pub(super) minimum: u32,
    /// Block size to prefer, in bytes.
    pub(super) preferred: u32,
    /// Longest READ or WRITE, in bytes.
    pub(super) payload_max: u32,
    /// Longest piece of a WRITE_ZEROES, in sectors; `None`: the device does not do it.
    pub(super) zeroes_piece: Option<u32>,
    /// Longest piece of a TRIM, in sectors; `None`: the device does not do it.
    pub(super) trim_piece: Option<u32>,
    pub(super) rotational: bool,
    pub(super) zoned: bool,
}

impl Export {
    /// Exports `device`, which has `limits`, under `name`: writable if the device is, for one connection at a time.
    #[must_use]
    pub fn new(name: impl Into<String>, device: DeviceId, limits: &Limits) -> Self {
        let block = limits.logical_block_bytes;
        let granularity = limits.zoned.as_ref().map_or(block, |zoned| zoned.write_granularity_bytes);
        let minimum = block.max(granularity).min(BLOCK_MAX_BYTES);
        // A piece is bounded so that one request of a few bytes cannot have the stack make a device command per block of
        // the whole disk at once.
        let unit = minimum / SECTOR_BYTES;
        let piece = |longest: u32| longest.saturating_mul(PIECES).min(PIECE_MAX_SECTORS) / unit * unit;
        let payload_max = limits.max_sectors.map_or(PAYLOAD_MAX_BYTES, |longest| {
            longest.saturating_mul(PIECES).saturating_mul(SECTOR_BYTES).clamp(PAYLOAD_MIN_BYTES, PAYLOAD_MAX_BYTES)
        });
        Self {
            name: name.into(),
            description: String::new(),
            device,
            multi_conn: false,
            read_only: limits.read_only,
            by_admission: false,
            size: limits.capacity * u64::from(SECTOR_BYTES),
            block,
            minimum,
            preferred: limits.physical_block_bytes.max(minimum).max(4096),
            payload_max: payload_max - payload_max % minimum,
            zeroes_piece: limits.max_write_zeroes.map(piece),
            trim_piece: limits.max_discard.map(piece),
            rotational: limits.rotational,
            zoned: limits.zoned.is_some(),
        }
    }

    /// The same export with a line for people.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The same export, read-only if `read_only`; a read-only device stays so.
    #[must_use]
    pub fn with_read_only(mut self, read_only: bool) -> Self {
        self.read_only |= read_only;
        self
    }

    /// The same export, for several connections at once if `multi_conn`.
    #[must_use]
    pub fn with_multi_conn(mut self, multi_conn: bool) -> Self {
        self.multi_conn = multi_conn;
        self
    }

    /// Sets whether the driver admits each client of the export.
    #[must_use]
    pub fn with_admission(mut self, by_admission: bool) -> Self {
        self.by_admission = by_admission;
        self
    }

    /// What is wrong with a request for parts of blocks, and what to do.
    pub(super) fn unaligned(&self, offset: u64, length: u64) -> String {
        let block = self.minimum;
        format!(
            "{length} bytes at {offset} are no whole blocks of {block}: a client that cannot send whole blocks has to come \
             through `nbdkit --filter=blocksize nbd uri=URI minblock={block}`"
        )
    }

    /// "Transmission flags", of which some depend on whether replies come in chunks.
    pub(super) fn flags(&self, chunked: bool) -> u16 {
        let writable = !self.read_only;
        [
            (self.read_only, flag::READ_ONLY),
            (self.rotational, flag::ROTATIONAL),
            (writable && self.trim_piece.is_some(), flag::SEND_TRIM),
            (writable && self.zeroes_piece.is_some(), flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO),
            (chunked, flag::SEND_DF),
            (self.multi_conn, flag::CAN_MULTI_CONN),
        ]
        .into_iter()
        .filter(|(holds, _)| *holds)
        .fold(flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA, |flags, (_, flag)| flags | flag)
    }
}

/// All exports of a server, as one connection sees them.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    list: Vec<Arc<Export>>,
}

impl Exports {
    /// Takes exports whose names differ.
    pub fn new(exports: impl IntoIterator<Item = Export>) -> Result<Self, ExportsError> {
        let mut list: Vec<Arc<Export>> = Vec::new();
        for export in exports {
            let bad = |text: &str| text.len() > STRING_MAX || text.contains('\0');
            if bad(&export.name) || bad(&export.description) {
                return Err(ExportsError::Text(export.name));
            }
            if list.iter().any(|other| other.name == export.name) {
                return Err(ExportsError::Twice(export.name));
            }
            list.push(Arc::new(export));
        }
        Ok(Self { list })
    }

    /// The exports, in the order in which they are listed.
    #[must_use]
    pub fn list(&self) -> &[Arc<Export>] {
        &self.list
    }

    /// The place of the export that a client calls `name`. No name means the export without one, else the only one.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let only = || (name.is_empty() && self.list.len() == 1).then_some(0);
        self.list.iter().position(|export| export.name == name).or_else(only)
    }
}

/// Conflict between exports of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportsError {
    /// Two have this name.
    Twice(String),
    /// Name or description of this one is longer than 4096 bytes or has a NUL in it.
    Text(String),
}

impl_error!(ExportsError, |self, f| match self {
    Self::Twice(name) => write!(f, "two exports are named '{name}': rename one of them"),
    Self::Text(name) => {
        let start: String = name.chars().take(40).collect();
        write!(
            f,
            "name or description of export '{start}' is longer than {STRING_MAX} bytes or contains a NUL: \
             shorten it"
        )
    }
});

#[cfg(test)]
mod tests {

    use super::*;
    use crate::block::ZonedLimits;

    fn export(name: &str) -> Export {
        Export::new(name, DeviceId(0), &Limits::new(2048))
    }

    #[test]
    fn no_name_means_the_export_without_one_or_the_only_one() {
        let one = Exports::new([export("disk")]).unwrap();
        assert_eq!((one.find(""), one.find("disk"), one.find("tape")), (Some(0), Some(0), None));
        let two = Exports::new([export("a"), export("b")]).unwrap();
        assert_eq!((two.find(""), two.find("b")), (None, Some(1)));
        let unnamed = Exports::new([export("a"), export("")]).unwrap();
        assert_eq!(unnamed.find(""), Some(1));
    }

    #[test]
    fn two_exports_of_one_name_are_refused_with_what_to_do() {
        let error = Exports::new([export("disk"), export("disk")]).unwrap_err().to_string();
        assert_eq!(error, "two exports are named 'disk': rename one of them");
        let error = Exports::new([export(&"n".repeat(5000))]).unwrap_err().to_string();
        assert!(error.contains("longer than 4096 bytes") && error.len() < 200, "{error}");
    }

    #[test]
    fn a_feature_is_advertised_only_if_the_device_has_it() {
        let plain = export("disk").flags(false);
        assert_eq!(plain, flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA);
        let limits = Limits { max_write_zeroes: Some(8), max_discard: Some(8), rotational: true, ..Limits::new(2048) };
        let rich = Export::new("disk", DeviceId(0), &limits).with_multi_conn(true);
        let expected = plain
            | flag::ROTATIONAL
            | flag::SEND_TRIM
            | flag::SEND_WRITE_ZEROES
            | flag::SEND_FAST_ZERO
            | flag::SEND_DF
            | flag::CAN_MULTI_CONN;
        assert_eq!(rich.flags(true), expected);
        let read_only = rich.with_read_only(true).flags(false);
        assert_eq!(read_only, plain | flag::READ_ONLY | flag::ROTATIONAL | flag::CAN_MULTI_CONN);
    }

    #[test]
    fn block_sizes_keep_to_the_rules_of_the_protocol() {
        let zoned = ZonedLimits { write_granularity_bytes: 4096, ..ZonedLimits::new(2048) };
        let odd = Limits { max_sectors: Some(24), physical_block_bytes: 8192, zoned: Some(zoned), ..Limits::new(4096) };
        let export = Export::new("disk", DeviceId(0), &odd);
        assert_eq!((export.block, export.minimum, export.preferred), (512, 4096, 8192));
        assert_eq!(export.payload_max, PAYLOAD_MIN_BYTES, "a client may always send 1 MiB");
        assert_eq!(self::export("disk").payload_max, PAYLOAD_MAX_BYTES);
    }
}
