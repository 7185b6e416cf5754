//! The table line.

use alloc::sync::Arc;
use core::fmt;

use super::policy::Knobs;
use super::{BLOCK_SECTORS, Number, ZoneSpace, Zoned};
use crate::block::{DeviceId, Limits};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;

pub(in crate::dm) const TYPE: TargetType = TargetType {
    name: "zoned",
    version: [2, 0, 0],
    usage: "zoned <zoned device> | zoned <regular device> <zoned device> [<zoned device>...]",
    parse,
};

/// Most devices of a set.
const MOST_DEVICES: usize = 64;

/// `zoned <device> [<device>...]`.
#[derive(Debug)]
struct ZonedArgs {
    devices: Vec<DeviceArg>,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let mut devices = Vec::from([args.device()?]);
    while args.left() > 0 {
        devices.push(args.device()?);
    }
    if devices.len() > MOST_DEVICES {
        let message = format!("zoned: {} devices: at most {MOST_DEVICES} make a set", devices.len());
        return Err(ArgError::at(devices[MOST_DEVICES].word, message));
    }
    Ok(Arc::new(ZonedArgs { devices }))
}

impl Target for ZonedArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        self.devices.iter().collect()
    }

    fn is_sole_writer(&self) -> bool {
        true
    }

    fn check_knobs(&self, pairs: &[(&str, &str)]) -> Result<(), String> {
        let mut all = if self.devices.len() > 1 { Knobs::default() } else { Knobs::without_cache() };
        all.set_all(pairs.iter().copied()).map_err(|error| error.message)
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        let words = self.devices.iter().enumerate();
        words.into_iter().try_for_each(|(place, arg)| {
            let gap = if place == 0 { "" } else { " " };
            write!(out, "{gap}{}", quote(&arg.name))
        })
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let devices = self.devices.iter().map(|arg| context.device(arg)).collect::<Result<Vec<DeviceId>, _>>()?;
        let twice = (1..devices.len()).find(|place| devices[..*place].contains(&devices[*place]));
        if let Some(twice) = twice.map(|place| &self.devices[place]) {
            return Err(ArgError::at(twice.word, format!("zoned: `{}` is named twice", twice.name)));
        }
        let limits: Vec<Limits> = devices.iter().map(|device| context.stack.limits(*device).clone()).collect();
        let space = ZoneSpace::new(&limits.iter().collect::<Vec<_>>()).map_err(|error| {
            let arg = &self.devices[error.member.map_or(0, Number::index)];
            ArgError::at(arg.word, format!("zoned: `{}`: {error}", arg.name))
        })?;
        self.check_blocks(&limits)?;
        let zone_sectors = u64::from(space.zone_blocks()) * u64::from(BLOCK_SECTORS);
        if !context.len.is_multiple_of(zone_sectors) {
            let message = format!("{} sectors are no whole zones of {zone_sectors}", context.len);
            return Err(ArgError::at(1, message));
        }
        let len = context.len;
        let volume = Zoned::new(devices, &limits, space, len);
        context.map(Box::new(volume.map_err(|status| ArgError::at(1, format!("zoned: {status}")))?))
    }
}

impl ZonedArgs {
    /// Blocks of 4 KiB must be whole units of every device.
    fn check_blocks(&self, limits: &[Limits]) -> Result<(), ArgError> {
        for (arg, limits) in self.devices.iter().zip(limits) {
            let unit = limits.zoned.as_ref().map_or(0, |zoned| zoned.write_granularity_bytes);
            let unit = unit.max(limits.logical_block_bytes);
            if unit > super::BLOCK_BYTES as u32 {
                let message = format!("zoned: `{}` takes writes of {unit} bytes, a block has 4096", arg.name);
                return Err(ArgError::at(arg.word, message));
            }
            if limits.max_sectors.is_some_and(|most| most < BLOCK_SECTORS) {
                let message = format!("zoned: `{}` takes no 4096 bytes at once", arg.name);
                return Err(ArgError::at(arg.word, message));
            }
        }
        Ok(())
    }
}
