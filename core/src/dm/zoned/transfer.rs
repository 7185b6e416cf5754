//! Blocks of the set, read and written by tasks.

use super::zones::MemberState;
use super::{BLOCK_BYTES, BLOCK_SECTORS, MemberNo, Rows, ZoneSpace};
use crate::block::{Data, Flags, Reason};
use crate::prelude::*;
use crate::task::{Answer, Io};

/// Longest request, in blocks.
const LONGEST: u32 = 256;

/// The disks of a set.
pub(super) struct Disks {
    pub io: Io,
    pub space: ZoneSpace,
    pub members: Rows<MemberNo, MemberState>,
}

impl Disks {
    /// Reads `blocks` from global block `from` on, which lie on one device.
    pub async fn read(&self, from: u64, blocks: u32) -> Result<Vec<u8>, Reason> {
        let mut answers = Vec::new();
        for (at, data) in self.pieces(from, &memory(blocks as usize * BLOCK_BYTES)?) {
            let (member, sector) = self.space.place(at);
            answers.push((data.clone(), self.io.read(self.members[member].device, sector, data)));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(blocks as usize * BLOCK_BYTES).map_err(|_| Reason::NoMemory)?;
        for (data, answer) in answers {
            answer.ok().await?;
            let from = bytes.len();
            bytes.resize(from + data.len(), 0);
            data.read(0, &mut bytes[from..]);
        }
        Ok(bytes)
    }

    /// Writes blocks from global block `from` on, which lie on one device.
    pub async fn write(&self, from: u64, data: &Data) -> Result<(), Reason> {
        finish(self.send(from, data)).await
    }

    /// The same, without waiting.
    pub fn send(&self, from: u64, data: &Data) -> Vec<Answer> {
        let send = |(at, data)| {
            let (member, sector) = self.space.place(at);
            self.io.write(self.members[member].device, sector, data, Flags::NONE)
        };
        self.pieces(from, data).map(send).collect()
    }

    /// Writes a block, and has it on the medium.
    pub async fn write_durable(&self, block: u64, data: &Data) -> Result<(), Reason> {
        let (member, sector) = self.space.place(block);
        let member = &self.members[member];
        let flags = if member.limits.write_cache { Flags::FUA } else { Flags::NONE };
        self.io.write(member.device, sector, data.clone(), flags).ok().await
    }

    /// Flushes the device that has the metadata at global block `block`.
    pub async fn flush_metadata(&self, block: u64) -> Result<(), Reason> {
        let (member, _) = self.space.place(block);
        self.flush(&[member]).await
    }

    /// Flushes those of these devices that can lose writes.
    pub async fn flush(&self, members: &[MemberNo]) -> Result<(), Reason> {
        finish(flush(&self.io, &self.members, members)).await
    }

    /// Requests that the device takes: none crosses a zone, which a zoned device refuses of conventional zones as well.
    fn pieces(&self, from: u64, data: &Data) -> impl Iterator<Item = (u64, Data)> + use<> {
        let (member, _) = self.space.place(from);
        let most = self.members[member].limits.max_sectors.map_or(LONGEST, |most| most / BLOCK_SECTORS);
        let (most, zone_blocks) = (u64::from(most.clamp(1, LONGEST)), u64::from(self.space.zone_blocks()));
        let (data, end) = (data.clone(), from + (data.len() / BLOCK_BYTES) as u64);
        let mut next = from;
        core::iter::from_fn(move || {
            let at = next;
            next = end.min(at + most).min((at / zone_blocks + 1) * zone_blocks);
            let place = |block: u64| (block - from) as usize * BLOCK_BYTES;
            (at < end).then(|| (at, data.slice(place(at), place(next) - place(at))))
        })
    }
}

/// Sends a flush to each device in `chosen` that can lose writes. `members` are all devices of the set.
pub(super) fn flush(io: &Io, members: &Rows<MemberNo, MemberState>, chosen: &[MemberNo]) -> Vec<Answer> {
    let chosen = chosen.iter().map(|member| &members[*member]).filter(|member| member.limits.write_cache);
    chosen.map(|member| io.flush(member.device)).collect()
}

/// Waits for all of `answers`; the first failure counts.
pub(super) async fn finish(answers: Vec<Answer>) -> Result<(), Reason> {
    let mut result = Ok(());
    for answer in answers {
        result = result.and(answer.ok().await);
    }
    result
}

/// Memory of so many bytes, zeroed.
pub(super) fn memory(bytes: usize) -> Result<Data, Reason> {
    Data::try_zeroed(bytes).ok_or(Reason::NoMemory)
}

/// `bytes` as data.
pub(super) fn data_of(bytes: &[u8]) -> Result<Data, Reason> {
    let data = memory(bytes.len())?;
    data.write(0, bytes);
    Ok(data)
}
