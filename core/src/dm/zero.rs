//! `zero`: reads bring zeroes, writes vanish (`drivers/md/dm-zero.c:zero_map`).

use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use crate::block::{Bio, BlockDevice, Content, Cx, Limits, Op, Reason, Status};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View};
use crate::prelude::*;

pub(super) const TYPE: TargetType = TargetType { name: "zero", version: [1, 2, 0], usage: "zero", parse };

/// `zero`.
#[derive(Debug)]
struct ZeroArgs;

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    args.finish()?;
    Ok(Arc::new(ZeroArgs))
}

impl Target for ZeroArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        Vec::new()
    }

    fn arguments(&self, _: &View<'_>, _: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let most = Some(u32::MAX);
        let limits = Limits { max_write_zeroes: most, max_discard: most, ..Limits::new(context.len) };
        context.map(Box::new(Zero { limits }))
    }
}

/// A device full of zeroes.
struct Zero {
    limits: Limits,
}

impl BlockDevice for Zero {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::Read => bio.payload.segments().iter().for_each(|data| data.fill(0)),
            // A flush comes here only with other lines' flushes: there is nothing that could be lost.
            Op::Write | Op::WriteZeroes | Op::Discard | Op::Flush => {}
            _ => {
                return cx
                    .fail(bio, Reason::Failing("a `zero` line takes reads, writes, zeroes, discards and flushes"));
            }
        }
        cx.complete(bio, Status::Ok);
    }

    fn content(&self, sectors: Range<u64>) -> (Content, u64) {
        (Content::Hole, sectors.end - sectors.start)
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "zero, {} sectors", self.limits.capacity)
    }
}
