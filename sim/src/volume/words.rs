//! What is said to the model.

use crate::model::flag_names;
use shingle_core::block::{Flags, Op};

/// What somebody asks of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeRequest {
    /// A read, write, write of zeroes, discard or flush.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// First block.
    pub block: u32,
    /// Blocks; none of a flush.
    pub blocks: u32,
}

impl VolumeRequest {
    /// A flush.
    pub const FLUSH: VolumeRequest = VolumeRequest { op: Op::Flush, flags: Flags::NONE, block: 0, blocks: 0 };

    /// A request without flags.
    #[must_use]
    pub const fn new(op: Op, block: u32, blocks: u32) -> Self {
        Self { op, flags: Flags::NONE, block, blocks }
    }

    /// The blocks that it concerns.
    pub(super) fn range(&self) -> core::ops::Range<usize> {
        self.block as usize..(self.block + self.blocks) as usize
    }

    /// Whether it promises, when it is done, that all that was done before it is durable.
    pub(super) fn flushes(&self) -> bool {
        self.op == Op::Flush || self.flags.has(Flags::PREFLUSH)
    }
}

shingle_core::impl_display!(VolumeRequest, |self, f| {
    write!(f, "{} block {}+{}", self.op.name(), self.block, self.blocks)?;
    flag_names(self.flags).try_for_each(|name| f.write_str(name))
});
