//! `error`: every bio fails (`drivers/md/dm-target.c:io_err_map`). With a device it has that device's zones and limits.

use alloc::sync::Arc;
use core::fmt;

use crate::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Op, Reason};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;

pub(super) const TYPE: TargetType =
    TargetType { name: "error", version: [1, 7, 0], usage: "error [<device> <start sector>]", parse };

/// `error [<device> <start sector>]`.
#[derive(Debug)]
struct ErrorArgs(Option<(DeviceArg, u64)>);

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let place = match args.left() {
        0 => None,
        _ => Some((args.device()?, args.sectors("the start on the device")?)),
    };
    args.finish()?;
    Ok(Arc::new(ErrorArgs(place)))
}

impl Target for ErrorArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        self.0.iter().map(|(device, _)| device).collect()
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        let Some((device, start)) = &self.0 else { return Ok(()) };
        write!(out, "{} {start}", quote(&device.name))
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let below = self.0.as_ref().map(|(device, start)| context.part_device(device, *start)).transpose()?;
        let limits = below.map_or_else(|| Limits::new(context.len), |below| context.stack.limits(below).clone());
        context.map(Box::new(Failing::new(below, limits)))
    }
}

/// A device on which every bio fails, but for reports of the device below.
struct Failing {
    below: Vec<DeviceId>,
    limits: Limits,
}

impl Failing {
    fn new(below: Option<DeviceId>, limits: Limits) -> Self {
        // It takes these as well, and fails them. A flush is not for it: there is nothing that could be lost.
        let most = Some(u32::MAX);
        let mut limits = Limits { max_discard: most, max_write_zeroes: most, write_cache: false, ..limits };
        if let Some(zoned) = &mut limits.zoned {
            zoned.max_append.get_or_insert(zoned.zone_sectors);
        }
        Self { below: below.into_iter().collect(), limits }
    }
}

impl BlockDevice for Failing {
    keeps_limits_and_below!();

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match (bio.op, self.below.first()) {
            (Op::ReportZones, Some(below)) => cx.remap(*below, bio),
            _ => cx.fail(bio, Reason::Failing("an `error` line fails everything")),
        }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "error, {} sectors", self.limits.capacity)
    }
}
