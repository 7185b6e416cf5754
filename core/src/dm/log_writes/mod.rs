//! `log-writes`: everything that is written is logged to a second device, in the order in which it became durable
//! (`drivers/md/dm-log-writes.c`).
//!
//! ```text
//!   write ── copied ──> data device ──> done ──> unflushed ──┐ by the next flush that began after it was done
//!   FUA   ── copied ──> data device ──> done ────────────────┤
//!   flush ────────────> data device ──> done ────────────────┴──> [Log] ──> log device
//! ```
//!
//! The submitter never waits for the log. What waits for it is bounded: when all memory is in use, further writes wait,
//! and the data device gets a flush that nobody asked for, so that what was done can be logged.

mod device;
mod format;
mod log;

use alloc::sync::Arc;
use core::fmt;

use self::device::LogWrites;
use crate::block::Limits;
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;

pub(super) const TYPE: TargetType =
    TargetType { name: "log-writes", version: [1, 1, 0], usage: "log-writes <device> <log device>", parse };

/// Longest write, in sectors: 1 MiB.
const LONGEST: u32 = 2048;

/// `log-writes <device> <log device>`.
#[derive(Debug)]
struct LogWritesArgs {
    device: DeviceArg,
    log: DeviceArg,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let (device, log) = (args.device()?, args.device()?);
    args.finish()?;
    Ok(Arc::new(LogWritesArgs { device, log }))
}

impl Target for LogWritesArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        Vec::from([&self.device, &self.log])
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} {}", quote(&self.device.name), quote(&self.log.name))
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let log = context.device(&self.log)?;
        if context.device(&self.device)? == log {
            let message = format!("log-writes: `{}` cannot log to itself: name another device", self.log.name);
            return Err(ArgError::at(self.log.word, message));
        }
        // There is no start on the device that could be to blame.
        let data = context.part_device(&self.device, 0);
        let data = data.map_err(|error| ArgError::at(self.device.word, error.message))?;
        context.refuse_zoned(&self.device, data)?;
        context.refuse_zoned(&self.log, log)?;
        let (data_limits, log_limits) = (context.stack.limits(data).clone(), context.stack.limits(log).clone());
        let longest = longest_write(&data_limits, &log_limits);
        let longest = longest.map_err(|message| {
            ArgError::at(self.log.word, format!("log-writes: the log device `{}` {message}", self.log.name))
        })?;
        context.map(Box::new(LogWrites::new([data, log], &data_limits, &log_limits, longest)))
    }
}

/// The longest write that can be logged: with its header it is one write to the log device.
fn longest_write(data: &Limits, log: &Limits) -> Result<u32, String> {
    let (block, theirs) = (data.block_sectors(), log.block_sectors());
    if log.read_only {
        return Err(String::from("is read-only: name one that can be written"));
    }
    if theirs > block {
        let (theirs, ours) = (log.logical_block_bytes, data.logical_block_bytes);
        return Err(format!(
            "has blocks of {theirs} bytes, and what is logged of {ours}: name one with blocks as small"
        ));
    }
    let in_log = log.max_sectors.map_or(u32::MAX, |most| most.saturating_sub(block));
    let longest = LONGEST.min(data.max_sectors.unwrap_or(u32::MAX)).min(in_log);
    match longest - longest % block {
        0 => Err(String::from("takes no writes of two blocks at once: name another")),
        longest => Ok(longest),
    }
}
