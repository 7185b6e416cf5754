//! The words of a `crypt` line (`drivers/md/dm-crypt.c:crypt_ctr`, `crypt_ctr_optional`, `crypt_status`).

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

use super::device::{Crypt, CryptConfig};
use super::key::KeyArgument;
use super::spec::CipherSpec;
use super::volume::Units;
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;
use crate::sector::SECTOR_BYTES;

pub(in crate::dm) const TYPE: TargetType = TargetType {
    name: "crypt",
    version: [1, 28, 0],
    usage: "crypt <cipher> <key> <IV offset> <device> <start sector> [<number of options> <option>...]",
    parse,
};

/// Largest unit, in bytes.
const MAX_UNIT_BYTES: u32 = 4096;
/// Most options in one line.
const MOST_OPTIONS: usize = 16;

/// `crypt <cipher> <key> <IV offset> <device> <start sector> [<n> <option>...]`.
#[derive(Debug)]
struct CryptArgs {
    config: CryptConfig,
    key: KeyArgument,
    /// The key's place in the line.
    key_word: usize,
    device: DeviceArg,
    start: u64,
    hints: Hints,
}

/// Where a kernel is to do the work, which is always done at once here: what the line says, in the order of [`HINTS`].
type Hints = [bool; HINTS.len()];

/// Hints by name, in the order in which they are printed.
const HINTS: [&str; 5] =
    ["same_cpu_crypt", "high_priority", "submit_from_crypt_cpus", "no_read_workqueue", "no_write_workqueue"];
/// The one that a kernel gives itself on zoned devices, so that writes stay in order.
const NO_WRITE_WORKQUEUE: usize = 4;

/// What the options say.
struct Options {
    allows_discards: bool,
    hints: Hints,
    unit_bytes: u32,
    large: bool,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let cipher = CipherSpec::parse(args.word("the cipher")?).map_err(|message| args.blame(message))?;
    let key_word = args.place();
    let key = KeyArgument::parse(args.word("the key")?).map_err(|message| args.blame(format!("the key: {message}")))?;
    if let Some(bytes) = key.key_bytes() {
        cipher.check_key(bytes).map_err(|error| args.blame(format!("the key: {error}")))?;
    }
    let iv_offset = args.sectors("the IV offset")?;
    let offset_word = args.place() - 1;
    let (device, start) = (args.device()?, args.sectors("the start on the device")?);
    let start_word = args.place() - 1;
    let Options { allows_discards, hints, unit_bytes, large } = parse_options(args.group("options", MOST_OPTIONS)?)?;
    args.finish()?;
    let units = Units { bytes: unit_bytes, iv_offset, large };
    let sectors = units.sectors();
    // A kernel refuses the start only when the table is put together (`drivers/md/dm-table.c:device_area_is_invalid`).
    for (what, number, word) in [("IV offset", iv_offset, offset_word), ("start on the device", start, start_word)] {
        if !number.is_multiple_of(sectors.into()) {
            let rule = format!("with sector_size:{unit_bytes} write a multiple of {sectors}");
            return Err(ArgError::at(word, format!("crypt: the {what} is {number}: {rule}")));
        }
    }
    let config = CryptConfig { cipher, units, allows_discards };
    Ok(Arc::new(CryptArgs { config, key, key_word, device, start, hints }))
}

fn parse_options(mut args: Args<'_>) -> Result<Options, ArgError> {
    let mut options =
        Options { allows_discards: false, hints: Hints::default(), unit_bytes: SECTOR_BYTES, large: false };
    while args.left() > 0 {
        let option = args.word("an option")?;
        let (name, value) = option.split_once(':').map_or((option, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("allow_discards", None) => options.allows_discards = true,
            ("iv_large_sectors", None) => options.large = true,
            ("sector_size", Some(size)) => options.unit_bytes = unit_bytes(size).map_err(|error| args.blame(error))?,
            ("integrity" | "integrity_key_size", _) => {
                let message = format!("`{option}`: authenticated encryption is not supported; leave it out");
                return Err(args.blame(message));
            }
            _ => {
                let hint = HINTS.iter().position(|hint| *hint == option);
                *options.hints.get_mut(hint.unwrap_or(HINTS.len())).ok_or_else(|| args.blame(unknown(option)))? = true;
            }
        }
    }
    Ok(options)
}

fn unit_bytes(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size: &u32| (SECTOR_BYTES..=MAX_UNIT_BYTES).contains(size));
    let size = size.filter(|size| size.is_power_of_two());
    size.ok_or_else(|| format!("sector_size is `{text}`: write 512, 1024, 2048 or 4096"))
}

fn unknown(option: &str) -> String {
    let hints = HINTS.join(", ");
    format!("there is no option `{option}`: there are allow_discards, sector_size:<bytes>, iv_large_sectors, {hints}")
}

impl CryptArgs {
    /// The options as words, in the kernel's order.
    fn options(&self, device: Option<&Crypt>) -> Vec<String> {
        let mut hints = self.hints;
        hints[NO_WRITE_WORKQUEUE] |= device.is_some_and(Crypt::is_zoned);
        let Units { bytes, large, .. } = self.config.units;
        let mut options = Vec::new();
        options.extend(self.config.allows_discards.then(|| "allow_discards".to_string()));
        options.extend(HINTS.iter().zip(hints).filter(|(_, is_set)| *is_set).map(|(hint, _)| hint.to_string()));
        options.extend((bytes != SECTOR_BYTES).then(|| format!("sector_size:{bytes}")));
        options.extend(large.then(|| "iv_large_sectors".to_string()));
        options
    }
}

impl Target for CryptArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        Vec::from([&self.device])
    }

    fn arguments(&self, view: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        let device = view.device.and_then(|device| (device as &dyn Any).downcast_ref::<Crypt>());
        write!(out, "{} ", quote(&self.config.cipher.to_string()))?;
        match device.and_then(Crypt::told_key) {
            Some(key) => KeyArgument::Hex(key.clone()).write(view.shows_keys, out)?,
            None => self.key.write(view.shows_keys, out)?,
        }
        write!(out, " {} {} {}", self.config.units.iv_offset, quote(&self.device.name), self.start)?;
        let options = self.options(device);
        if options.is_empty() { Ok(()) } else { write!(out, " {} {}", options.len(), options.join(" ")) }
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let at_key = |message| ArgError::at(self.key_word, format!("crypt: the key: {message}"));
        let key = self.key.resolve(context.resolver.keys()).map_err(at_key)?;
        let below = context.part_device(&self.device, self.start)?;
        let limits = context.stack.limits(below);
        let crypt = Crypt::new(below, limits, &self.config, context.resolver.ciphers());
        let mut crypt = crypt.map_err(|message| ArgError::at(2, format!("crypt: {message}")))?;
        if let Some(key) = key {
            crypt.set_key(key).map_err(|error| at_key(error.to_string()))?;
        }
        context.map(Box::new(crypt))
    }
}
