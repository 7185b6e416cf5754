//! `striped`: chunks that go to several parts in turn (`drivers/md/dm-stripe.c`).
//!
//! ```text
//!   sector      0     c     2c    3c    4c    5c     a plain bio: the table cuts it at the edges of chunks and sends
//!   part 0      [  0  ]           [  3  ]            the pieces straight to their parts
//!   part 1            [  1  ]           [  4  ]      discard, write zeroes: [Striped], one bio for each part
//!   part 2                  [  2  ]           [  5  ]
//! ```
//!
//! Over zoned disks, which the kernel does not do, the zones with one number of all parts are one wide zone
//! (`docs/targets/striped.md`). There all bios come to [`Striped`], below a plug:
//!
//! | file | idea |
//! | --- | --- |
//! | `stripes.rs` | which stripe holds a sector, and how the stripes have fared |
//! | `device.rs` | the device: what goes to one stripe and what to all |
//! | `wide.rs` | what the zones of all parts are as one: pure functions |
//! | `zones.rs` | writes in order, changes of zones, reports |
//! | `gather.rs`, `quiet.rs` | asking all parts at once, while nothing changes |

mod device;
mod gather;
mod quiet;
mod stripes;
mod wide;
mod zones;

use alloc::sync::Arc;
use core::fmt;

use device::Striped;
pub(super) use stripes::Stripes;
use zones::WideZones;

use crate::block::{Limits, Part, ZonedLimits, least};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;

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
            limits = limits.stack(&part.limits).map_err(|error| ArgError::at(device.word, format!("{error}")))?;
        }
        Ok(limits)
    }
}

/// Over zoned disks.
impl StripedArgs {
    /// What wide zones over `parts`, which together have limits `all` and zones `zoned`, accept.
    fn wide_limits(&self, all: &Limits, zoned: &ZonedLimits, parts: &[Mapping]) -> Result<Limits, ArgError> {
        let count = parts.len() as u32;
        if count == 1 {
            let message =
                format!("striped: one stripe over zones: the kernel refuses it; use `linear {}`", self.parts[0].0.name);
            return Err(ArgError::at(self.chunk_word - 1, message));
        }
        self.check_zones(zoned, parts)?;
        let zone_sectors = zoned.zone_sectors.checked_mul(count).ok_or_else(|| {
            ArgError::at(self.chunk_word - 1, format!("striped: {count} zones together are longer than a zone can be"))
        })?;
        let (max_segments, max_sectors) = self.bounds(all.max_segments, count);
        let max_open = zoned.max_open.map(|open| open.min(zoned.max_active.unwrap_or(open)));
        Ok(Limits {
            max_segments,
            max_sectors: least(all.max_sectors, max_sectors),
            // A plug above makes writes of appends: where the next chunk goes is not for a stripe to choose.
            zoned: Some(ZonedLimits { zone_sectors, max_open, max_append: None, ..zoned.clone() }),
            ..all.clone()
        })
    }

    /// Most segments and sectors of a bio, so that no stripe gets more than `most` segments.
    fn bounds(&self, most: Option<u32>, count: u32) -> (Option<u32>, Option<u32>) {
        let Some(most) = most.filter(|_| count > 1) else { return (most, None) };
        // Of so many rows of chunks a stripe has one piece more, as the first can be cut; of less than one it has one piece.
        let (own, rows) = (most.div_ceil(2), most / 2);
        let sectors = if rows == 0 {
            (count - 1).saturating_mul(self.chunk)
        } else {
            count.saturating_mul(self.chunk).saturating_mul(rows)
        };
        (Some(own), Some(sectors))
    }

    /// What `zoned`, all of the parts together, must be for wide zones.
    fn check_zones(&self, zoned: &ZonedLimits, parts: &[Mapping]) -> Result<(), ArgError> {
        let (count, chunk, zone) = (parts.len(), self.chunk, zoned.zone_sectors);
        if !count.is_power_of_two() {
            let message =
                format!("striped: {count} zoned stripes: write a power of two, so that the size of a zone is one");
            return Err(ArgError::at(self.chunk_word - 1, message));
        }
        let unit = zoned.write_granularity_bytes / 512;
        if !zone.is_multiple_of(chunk) || !chunk.is_multiple_of(unit) {
            let message = format!(
                "striped: the chunk size is {chunk}: over zones of {zone} sectors it has to divide that, and to be a multiple of \
                 the write unit of {unit}"
            );
            return Err(ArgError::at(self.chunk_word, message));
        }
        for (place, (part, (device, _))) in parts.iter().zip(&self.parts).enumerate() {
            let fail = |what| Err(ArgError::at(device.word, format!("striped: `{}` {what}", device.name)));
            if !part.limits.capacity.is_multiple_of(zone.into()) {
                return fail("has a short last zone there: leave it out");
            }
            if parts[..place].iter().any(|other| other.device == part.device) {
                return fail("stands twice: two zones of a zoned device would share its limits on open zones");
            }
            let own = part.limits.zoned.as_ref().map(|zoned| &zoned.conventional);
            if own != Some(&zoned.conventional) {
                return fail(
                    "has conventional zones in other places than the stripes before: choose starts that agree",
                );
            }
        }
        Ok(())
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

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let width = self.width(context.len)?;
        let part = |(device, start): &(DeviceArg, u64)| context.part_of(device, *start, width);
        let parts: Vec<Mapping> = self.parts.iter().map(part).collect::<Result<_, _>>()?;
        let limits = self.limits(context.len, &parts)?;
        let (limits, zones) = match &limits.zoned {
            Some(zoned) => {
                let limits = self.wide_limits(&limits, zoned, &parts)?;
                let zones = WideZones::new(zoned.zone_sectors, zoned.conventional.clone(), &parts);
                (limits, Some(zones))
            }
            None => (limits, None),
        };
        let flushed = parts.iter().filter(|part| part.limits.write_cache).map(|part| part.device).collect();
        let part = |part: &Mapping| Part { device: part.device, start: part.start };
        let stripes = Arc::new(Stripes::new(self.chunk, parts.iter().map(part), flushed));
        let is_zoned = zones.is_some();
        let names: Vec<String> = self.parts.iter().map(|(device, _)| device.name.clone()).collect();
        let mapping = context.map(Box::new(Striped::new(stripes.clone(), names, limits, zones)))?;
        Ok(if is_zoned { mapping } else { mapping.over(stripes) })
    }
}
