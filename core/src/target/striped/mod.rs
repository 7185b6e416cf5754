//! `striped`: chunks that go to several parts in turn (`drivers/md/dm-stripe.c`).
//!
//! ```text
//!   sector      0     c     2c    3c    4c    5c     a plain bio: the table cuts it at the edges of chunks and sends
//!   part 0      [  0  ]           [  3  ]            the pieces straight to their parts
//!   part 1            [  1  ]           [  4  ]      discard, write zeroes: [Striped], one bio for each part
//!   part 2                  [  2  ]           [  5  ]
//! ```

mod device;
mod stripes;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use device::Striped;
use stripes::Stripe;
pub(super) use stripes::Stripes;

use super::args::{ArgError, Args, DeviceArg, quote};
use super::mapping::Mapping;
use super::registry::{Site, Target, TargetType, View};
use crate::block::Limits;

pub(super) const TYPE: TargetType = TargetType {
    name: "striped",
    version: [1, 7, 0],
    usage: "striped <number of stripes> <chunk sectors> (<device> <start sector>)...",
    parse,
};

/// Most stripes of a line.
const MOST_STRIPES: u32 = 4096;

/// `striped <n> <chunk> (<device> <start>)...`.
#[derive(Debug)]
struct StripedArgs {
    chunk: u32,
    /// The place of the chunk's size in the line.
    chunk_word: usize,
    parts: Vec<(DeviceArg, u64)>,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let count: u32 = args.number("the number of stripes")?;
    if !(1..=MOST_STRIPES).contains(&count) {
        return Err(args.blame(format!("the number of stripes is {count}: write 1 to {MOST_STRIPES}")));
    }
    let (named, left) = (args.clone(), args.left().saturating_sub(1));
    let chunk: u32 = args.number("the chunk size")?;
    if chunk == 0 {
        return Err(args.blame("the chunk size is 0: write a number of sectors"));
    }
    let chunk_word = args.place() - 1;
    if left < 2 * count as usize {
        let message =
            format!("the number of stripes is {count}, but {left} words follow: write {count} devices and starts");
        return Err(named.blame(message));
    }
    let mut part = || Ok((args.device()?, args.sectors("the start on the device")?));
    let parts = (0..count).map(|_| part()).collect::<Result<_, _>>()?;
    args.finish()?;
    Ok(Arc::new(StripedArgs { chunk, chunk_word, parts }))
}

impl StripedArgs {
    /// Sectors of each part, if `len` can be divided so.
    fn width(&self, len: u64) -> Result<u64, ArgError> {
        let (count, chunk) = (self.parts.len() as u64, u64::from(self.chunk));
        if !len.is_multiple_of(count * chunk) {
            let nearest = len - len % (count * chunk);
            let message = format!(
                "striped: the length is {len}, no multiple of {count} stripes in chunks of {chunk}: the next shorter \
                 one is {nearest}"
            );
            return Err(ArgError::at(1, message));
        }
        Ok(len / count)
    }

    /// What a device of `len` sectors over `parts` accepts.
    fn limits(&self, len: u64, parts: &[Mapping]) -> Result<Limits, ArgError> {
        let mut limits = Limits { capacity: len, ..parts[0].limits.clone() };
        for (part, (device, _)) in parts.iter().zip(&self.parts) {
            let block = part.limits.block_sectors();
            if !self.chunk.is_multiple_of(block) {
                let chunk = self.chunk;
                let message = format!(
                    "striped: the chunk size is {chunk}, and `{}` has blocks of {block} sectors: write a multiple",
                    device.name
                );
                return Err(ArgError::at(self.chunk_word, message));
            }
            if part.limits.zoned.is_some() {
                let message = format!("striped: `{}` is zoned: name regular devices", device.name);
                return Err(ArgError::at(device.word, message));
            }
            limits = limits.stack(&part.limits).map_err(|error| ArgError::at(device.word, format!("{error}")))?;
        }
        Ok(limits)
    }
}

impl Target for StripedArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        self.parts.iter().map(|(device, _)| device).collect()
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} {}", self.parts.len(), self.chunk)?;
        self.parts.iter().try_for_each(|(device, start)| write!(out, " {} {start}", quote(&device.name)))
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Mapping, ArgError> {
        let width = self.width(site.len)?;
        let part = |(device, start): &(DeviceArg, u64)| site.part_of(device, *start, width);
        let parts: Vec<Mapping> = self.parts.iter().map(part).collect::<Result<_, _>>()?;
        let limits = self.limits(site.len, &parts)?;
        let stripe = |Mapping { device, start, limits, .. }: &Mapping| Stripe {
            device: *device,
            start: *start,
            write_cache: limits.write_cache,
        };
        let stripes = Arc::new(Stripes::new(self.chunk, parts.iter().map(stripe)));
        let names: Vec<String> = self.parts.iter().map(|(device, _)| device.name.clone()).collect();
        let mapping = site.map(Box::new(Striped::new(stripes.clone(), names, limits)))?;
        Ok(mapping.over(stripes))
    }
}
