//! Numbers of requests, and zones as the kernel reads them.
//!
//! Sources: `include/uapi/linux/ublk_cmd.h`, `include/uapi/linux/blkzoned.h`.

use crate::block::{Flags, Op};
use crate::zone::Zone;

/// What a request asks for (`struct ublksrv_io_desc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// The operation, in the low 8 bits, and how.
    pub operation: u32,
    /// Its length, in sectors; of a report, in zones.
    pub count: u32,
    /// Where it begins.
    pub sector: u64,
}

const FUA: u32 = 1 << 13;
const NO_UNMAP: u32 = 1 << 15;
/// There was no room to register its memory.
const UNREGISTERED: u32 = 1 << 17;

impl Descriptor {
    /// The operation; `None` if it is none that is known.
    pub(super) fn op(&self) -> Option<Op> {
        Some(match self.operation & 0xff {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            3 => Op::Discard,
            5 => Op::WriteZeroes,
            10 => Op::ZoneOpen,
            11 => Op::ZoneClose,
            12 => Op::ZoneFinish,
            13 => Op::ZoneAppend,
            14 => Op::ZoneResetAll,
            15 => Op::ZoneReset,
            18 => Op::ReportZones,
            _ => return None,
        })
    }

    /// Whether the kernel has registered its memory, if it was asked to.
    pub(super) fn is_registered(&self) -> bool {
        self.operation & UNREGISTERED == 0
    }

    /// How many sectors it names.
    pub(super) fn sectors(&self) -> u32 {
        if self.op().is_some_and(Op::has_range) { self.count } else { 0 }
    }

    /// How it wants to be done.
    pub(super) fn flags(&self) -> Flags {
        let flag = |bit: u32, flag| if self.operation & bit == 0 { Flags::NONE } else { flag };
        flag(FUA, Flags::FUA).with(flag(NO_UNMAP, Flags::NO_UNMAP))
    }
}

/// Bytes of a zone in a report (`struct blk_zone`).
pub const ZONE_BYTES: usize = 64;

/// A zone in a report.
pub(super) fn zone_bytes(zone: &Zone) -> [u8; ZONE_BYTES] {
    let mut bytes = [0; ZONE_BYTES];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    put(0, zone.start.0);
    put(8, zone.len);
    put(16, zone.wp.0);
    put(32, zone.capacity);
    (bytes[24], bytes[25]) = (zone.kind as u8, zone.cond as u8);
    bytes
}
