//! `linear`: a range of a device (`drivers/md/dm-linear.c`). It has no device of its own: the table does all there is to do.

use alloc::sync::Arc;
use core::fmt;

use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;

pub(super) const TYPE: TargetType =
    TargetType { name: "linear", version: [1, 5, 0], usage: "linear <device> <start sector>", parse };

/// `linear <device> <start sector>`.
#[derive(Debug)]
struct Linear {
    device: DeviceArg,
    start: u64,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let (device, start) = (args.device()?, args.sectors("the start on the device")?);
    args.finish()?;
    Ok(Arc::new(Linear { device, start }))
}

impl Target for Linear {
    fn devices(&self) -> Vec<&DeviceArg> {
        Vec::from([&self.device])
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} {}", quote(&self.device.name), self.start)
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        context.part(&self.device, self.start)
    }
}
