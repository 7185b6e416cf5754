//! `dust`: a disk on which blocks go bad on command and are good again once they are written (`drivers/md/dm-dust.c`).

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use core::fmt;

use crate::block::{Bio, BlockDevice, Cx, DeviceId, Flags, Limits, MessageError, Op, Reason};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;
use crate::sector::{SECTOR_BYTES, Sector};

pub(super) const TYPE: TargetType =
    TargetType { name: "dust", version: [1, 0, 0], usage: "dust <device> <start sector> <block size in bytes>", parse };

/// Largest block, in bytes.
const LARGEST_BLOCK: u32 = 1 << 30;
/// Most bad blocks. The kernel takes as many as it has memory for.
const MOST_BAD_BLOCKS: usize = 65_536;

/// `dust <device> <start> <block size>`.
#[derive(Debug)]
struct DustArgs {
    device: DeviceArg,
    start: u64,
    block_bytes: u32,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let (device, start) = (args.device()?, args.sectors("the start on the device")?);
    let block_bytes: u32 = args.number("the block size")?;
    if !block_bytes.is_power_of_two() || !(SECTOR_BYTES..=LARGEST_BLOCK).contains(&block_bytes) {
        let range = format!("a power of two from {SECTOR_BYTES} to {LARGEST_BLOCK} bytes");
        return Err(args.blame(format!("the block size is {block_bytes}: write {range}")));
    }
    args.finish()?;
    Ok(Arc::new(DustArgs { device, start, block_bytes }))
}

impl Target for DustArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        Vec::from([&self.device])
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} {} {}", quote(&self.device.name), self.start, self.block_bytes)
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let below = context.part_device(&self.device, self.start)?;
        context.refuse_zoned(&self.device, below)?;
        let (block, limits) = (self.block_bytes / SECTOR_BYTES, context.stack.limits(below).clone());
        let wrong = |what| Err(ArgError::at(self.device.word + 2, format!("dust: the block size is {what}")));
        if u64::from(block) > context.len {
            return wrong(format!("{block} sectors and the line {} long: take a smaller block", context.len));
        }
        if block < limits.block_sectors() {
            let least = limits.logical_block_bytes;
            return wrong(format!("{} and that of `{}` {least}: take that", self.block_bytes, self.device.name));
        }
        let device = context.device(&self.device)?;
        let blocks = context.stack.limits(device).capacity.div_ceil(block.into());
        let (name, start, shift) = (self.device.name.clone(), self.start, block.trailing_zeros());
        let bad = BTreeMap::new();
        context.map(Box::new(Dust {
            below: [below],
            limits,
            name,
            start,
            shift,
            blocks,
            bad,
            fails: false,
            quiet: false,
        }))
    }
}

/// A device with bad blocks. Blocks are counted on the device below, from its first sector.
struct Dust {
    below: [DeviceId; 1],
    limits: Limits,
    name: String,
    start: u64,
    /// Sectors of a block, as a power of two.
    shift: u32,
    /// Blocks of the device below.
    blocks: u64,
    /// Bad blocks, and how many writes of each still fail.
    bad: BTreeMap<u64, u8>,
    /// Whether bad blocks fail.
    fails: bool,
    quiet: bool,
}

impl Dust {
    /// Sends on what lies on good blocks. A bio is cut at the edges of bad ones, so that each of these is judged alone.
    fn route(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let (start, end) = (self.start + bio.sector.0, self.start + bio.end().0);
        let blocks = start >> self.shift..=(end - 1) >> self.shift;
        let Some((block, fail_count)) = self.bad.range_mut(blocks).next() else {
            return cx.remap(self.below[0], bio);
        };
        let (block, bad) = (*block, Reason::BadSector(Sector(*block << self.shift)));
        let (first, behind) = (block << self.shift, (block + 1) << self.shift);
        if start < first {
            return self.cut(bio, (first - start) as u32, cx);
        }
        if end > behind {
            return self.cut(bio, (behind - start) as u32, cx);
        }
        if bio.op == Op::Read {
            return cx.fail(bio, bad);
        }
        if *fail_count > 0 {
            *fail_count -= 1;
            return cx.fail(bio, bad);
        }
        self.bad.remove(&block);
        cx.remap(self.below[0], bio);
    }

    fn cut(&mut self, bio: Box<Bio>, room: u32, cx: &mut Cx<'_>) {
        if bio.flags.has(Flags::NOWAIT) {
            return cx.fail(bio, Reason::WouldWait("a bad block is in the middle of it"));
        }
        let (front, rest) = cx.split(bio, room);
        self.route(front, cx);
        cx.again(rest);
    }

    /// Reads the number of a block.
    fn block(&self, word: &str) -> Result<u64, MessageError> {
        let blocks = self.blocks;
        let block = word.parse().ok().filter(|block| *block < blocks);
        block.ok_or_else(|| MessageError(format!("there is no block `{word}`: `{}` has {blocks} blocks", self.name)))
    }

    fn add(&mut self, block: &str, fail_count: &str) -> Result<(), MessageError> {
        let block = self.block(block)?;
        let wrong = || MessageError(format!("the write fail count is `{fail_count}`: write a number from 0 to 255"));
        let fail_count = fail_count.parse().map_err(|_| wrong())?;
        let is_full = self.bad.len() >= MOST_BAD_BLOCKS;
        match self.bad.entry(block) {
            Entry::Occupied(_) => Err(MessageError(format!("block {block} is in the list already: remove it first"))),
            Entry::Vacant(_) if is_full => {
                Err(MessageError(format!("the list holds {MOST_BAD_BLOCKS} bad blocks and no more: remove some")))
            }
            Entry::Vacant(entry) => {
                entry.insert(fail_count);
                Ok(())
            }
        }
    }

    fn remove(&mut self, block: &str) -> Result<(), MessageError> {
        let block = self.block(block)?;
        let missing = || MessageError(format!("block {block} is not in the list: listbadblocks shows what is"));
        self.bad.remove(&block).map(drop).ok_or_else(missing)
    }

    // What follows answers in the kernel's words: scripts read them.

    fn query(&self, block: &str) -> Result<String, MessageError> {
        let block = self.block(block)?;
        let found = if self.bad.contains_key(&block) { "found" } else { "not found" };
        Ok(format!("dust_query_block: block {block} {found} in badblocklist"))
    }

    fn clear(&mut self) -> String {
        let what = if self.bad.is_empty() { "no badblocks found" } else { "badblocks cleared" };
        self.bad.clear();
        format!("dust_clear_badblocks: {what}")
    }

    fn list(&self) -> String {
        match self.bad.is_empty() {
            true => String::from("No blocks in badblocklist"),
            false => self.bad.keys().map(|block| format!("{block}\n")).collect(),
        }
    }
}

impl BlockDevice for Dust {
    keeps_limits_and_below!();

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.fails && bio.op.has_range() { self.route(bio, cx) } else { cx.remap(self.below[0], bio) }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "dust, {} bad blocks of {} bytes", self.bad.len(), u64::from(SECTOR_BYTES) << self.shift)
    }

    fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let reads = if self.fails { "fail_read_on_bad_block" } else { "bypass" };
        write!(out, "{} {reads} {}", quote(&self.name), if self.quiet { "quiet" } else { "verbose" })
    }

    fn message(&mut self, words: &[&str], _: &mut Cx<'_>) -> Result<String, MessageError> {
        let (name, arguments) = words.split_first().unwrap_or((&"", &[]));
        match (name.to_ascii_lowercase().as_str(), arguments) {
            ("addbadblock", [block]) => self.add(block, "0")?,
            ("addbadblock", [block, fail_count]) => self.add(block, fail_count)?,
            ("removebadblock", [block]) => self.remove(block)?,
            ("enable", []) => self.fails = true,
            ("disable", []) => self.fails = false,
            ("quiet", []) => self.quiet = !self.quiet,
            ("queryblock", [block]) => return self.query(block),
            ("countbadblocks", []) => return Ok(format!("countbadblocks: {} badblock(s) found", self.bad.len())),
            ("clearbadblocks", []) => return Ok(self.clear()),
            ("listbadblocks", []) => return Ok(self.list()),
            _ => {
                return Err(MessageError(format!(
                    "dust does not know `{}`: write addbadblock <block> [<write fail count>], removebadblock <block>, \
                     queryblock <block>, countbadblocks, clearbadblocks, listbadblocks, enable, disable or quiet",
                    words.join(" ")
                )));
            }
        }
        Ok(String::new())
    }
}
