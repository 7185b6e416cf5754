//! The table line.

use alloc::sync::Arc;
use core::fmt;

use super::knobs::Knobs;
use super::{BLOCK_BYTES, BLOCK_SECTORS, Stl};
use crate::block::{DeviceId, Limits};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;

pub(in crate::dm) const TYPE: TargetType =
    TargetType { name: "stl", version: [1, 0, 0], usage: "stl <device> [<device>...] [<knob>:<value>...]", parse };

/// `stl <device> [<device>...] [<knob>:<value>...]`.
#[derive(Debug)]
struct StlArgs {
    devices: Vec<DeviceArg>,
    /// Knobs as they were written.
    knobs: Vec<(String, String)>,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let mut devices = Vec::from([args.device()?]);
    while args.peek().is_some_and(|word| knob_in(word).is_none()) {
        devices.push(args.device()?);
    }
    if let Some(one_too_many) = devices.get(super::format::MOST_MEMBERS) {
        let (count, most) = (devices.len(), super::format::MOST_MEMBERS);
        return Err(ArgError::at(one_too_many.word, format!("stl: {count} devices: at most {most} make a set")));
    }
    let (mut knobs, mut checked) = (Vec::new(), Knobs::default());
    while args.left() > 0 {
        let word = args.word("a knob")?;
        let Some((name, value)) = knob_in(word) else {
            return Err(args.blame(format!("`{word}` is no knob: devices come first, then `<knob>:<value>`")));
        };
        checked.set(name, value).map_err(|error| args.blame(error))?;
        knobs.push((name.into(), value.into()));
    }
    Ok(Arc::new(StlArgs { devices, knobs }))
}

/// The knob that a word sets; `None`: it is the name of a device. Devices with colons, as `8:16`, begin with a digit.
fn knob_in(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once(':')?;
    name.chars().all(|c| c.is_ascii_lowercase() || c == '_').then_some((name, value))
}

impl Target for StlArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        self.devices.iter().collect()
    }

    fn is_sole_writer(&self) -> bool {
        true
    }

    fn check_knobs(&self, pairs: &[(&str, &str)]) -> Result<(), String> {
        self.knobs()?.set_all(pairs.iter().copied()).map_err(|error| error.message)
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        let devices = self.devices.iter().map(|device| quote(&device.name));
        let words: Vec<String> =
            devices.chain(self.knobs.iter().map(|(name, value)| format!("{name}:{value}"))).collect();
        out.write_str(&words.join(" "))
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let devices = self.devices.iter().map(|arg| context.device(arg)).collect::<Result<Vec<DeviceId>, _>>()?;
        let twice = (1..devices.len()).find(|place| devices[..*place].contains(&devices[*place]));
        if let Some(twice) = twice.map(|place| &self.devices[place]) {
            return Err(ArgError::at(twice.word, format!("stl: `{}` is named twice", twice.name)));
        }
        let limits: Vec<Limits> = devices.iter().map(|device| context.stack.limits(*device).clone()).collect();
        self.check_zones(&limits)?;
        self.check_blocks(&limits)?;
        if !context.len.is_multiple_of(BLOCK_SECTORS.into()) {
            let len = context.len;
            return Err(ArgError::at(
                1,
                format!(
                    "a length of {len} sectors is not a multiple of 8: write the line that `shingle stl check` prints"
                ),
            ));
        }
        let knobs = self.knobs().map_err(|message| ArgError::at(2, message))?;
        context.map(Box::new(Stl::with_knobs(devices, &limits, context.len, knobs)))
    }
}

impl StlArgs {
    fn knobs(&self) -> Result<Knobs, String> {
        let mut knobs = Knobs::default();
        let pairs = self.knobs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        knobs.set_all(pairs).map_err(|error| error.message)?;
        Ok(knobs)
    }

    /// Zones have one length, in whole blocks.
    fn check_zones(&self, limits: &[Limits]) -> Result<(), ArgError> {
        let zoned = |limits: &Limits| limits.zoned.as_ref().map(|zoned| zoned.zone_sectors);
        let Some(len) = limits.iter().find_map(zoned) else {
            return Err(ArgError::at(self.devices[0].word, "stl: no device of these has zones: at least one has to"));
        };
        for (arg, own) in self.devices.iter().zip(limits.iter().map(zoned)) {
            let wrong = |message: String| ArgError::at(arg.word, format!("stl: `{}` {message}", arg.name));
            match own {
                Some(own) if own != len => {
                    return Err(wrong(format!(
                        "has zones of {own} sectors, others of {len}: all have to be of one length"
                    )));
                }
                Some(own) if !own.is_multiple_of(BLOCK_SECTORS) => {
                    return Err(wrong(format!("has zones of {own} sectors, which are no whole blocks of 4096 bytes")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Blocks of 4 KiB are whole units of every device.
    fn check_blocks(&self, limits: &[Limits]) -> Result<(), ArgError> {
        for (arg, limits) in self.devices.iter().zip(limits) {
            let wrong = |message: String| Err(ArgError::at(arg.word, format!("stl: `{}` {message}", arg.name)));
            let unit = limits.zoned.as_ref().map_or(0, |zoned| zoned.write_granularity_bytes);
            let unit = unit.max(limits.logical_block_bytes);
            if unit > BLOCK_BYTES as u32 {
                return wrong(format!("takes writes of {unit} bytes, a block has 4096"));
            }
            if limits.max_sectors.is_some_and(|most| most < BLOCK_SECTORS) {
                return wrong("takes no 4096 bytes at once".into());
            }
        }
        Ok(())
    }
}
