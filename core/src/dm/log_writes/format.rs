//! The bytes of the log (`docs/targets/log-writes.md`): those of `drivers/md/dm-log-writes.c`, which xfstests reads
//! with `src/log-writes/replay-log`.

use crate::block::Data;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;

/// A flush, alone or before its data.
pub(super) const FLUSH: u64 = 1;
/// The data was durable when the bio completed.
pub(super) const FUA: u64 = 2;
/// A discard; no data follows.
pub(super) const DISCARD: u64 = 4;
/// A mark; its text is in the header.
pub(super) const MARK: u64 = 8;

/// Bytes of a header in front of a mark's text.
const HEADER_BYTES: usize = 32;

/// Longest text of a mark in blocks of so many bytes; the kernel keeps one byte for a zero behind it.
pub(super) const fn longest_mark(block_bytes: usize) -> usize {
    block_bytes - HEADER_BYTES - 1
}

/// What a header says. Numbers are of blocks.
pub(super) struct Header<'a> {
    pub block: u64,
    pub blocks: u64,
    pub flags: u64,
    pub text: &'a str,
}

impl Header<'_> {
    /// Writes it over the first `block_bytes` of `to`.
    pub fn write(&self, to: &Data, block_bytes: usize) {
        wipe(to, block_bytes);
        let Self { block, blocks, flags, text } = self;
        let fields = [*block, *blocks, *flags, text.len() as u64];
        fields.iter().enumerate().for_each(|(place, field)| to.write(place * 8, &field.to_le_bytes()));
        to.write(HEADER_BYTES, text.as_bytes());
    }
}

/// Writes a super block over `to`, which is a block.
pub(super) fn write_super(to: &Data, entries: u64) {
    wipe(to, to.len());
    [MAGIC, VERSION, entries].iter().enumerate().for_each(|(place, field)| to.write(place * 8, &field.to_le_bytes()));
    to.write(24, &(to.len() as u32).to_le_bytes());
}

/// Readers take bytes behind a header that are not zero for damage.
fn wipe(to: &Data, bytes: usize) {
    shingle_mem::fill(&to.words()[..bytes / 8], 0);
}
