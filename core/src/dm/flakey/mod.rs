//! `flakey`: a disk that is bad for some seconds, again and again (`drivers/md/dm-flakey.c`).
//!
//! ```text
//!   up <────────────────────> down <──────────────────────────────> up ...
//!   everything passes         reads fail, or come back changed
//!                             writes fail, vanish, or arrive changed: a copy of their data does
//! ```

mod features;

use alloc::sync::Arc;
use core::fmt;

use slab::Slab;

use self::features::{ALWAYS, Corrupt, Features};
use super::copies::{self, Copies, copy};
use crate::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Op, Payload, Reason, Status};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;
use crate::random::Rng;
use crate::time::Instant;

pub(super) const TYPE: TargetType = TargetType {
    name: "flakey",
    version: [1, 5, 0],
    usage: "flakey <device> <start sector> <up seconds> <down seconds> [<number of feature words> <feature>...]",
    parse,
};

/// Most words that features can have.
const MOST_FEATURE_WORDS: usize = 11;

/// `flakey <device> <start> <up> <down> [<n> <feature>...]`.
#[derive(Debug)]
struct FlakeyArgs {
    device: DeviceArg,
    start: u64,
    up: u32,
    down: u32,
    features: Features,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let (device, start) = (args.device()?, args.sectors("the start on the device")?);
    let (up, down) = (args.number::<u32>("the up interval")?, args.number::<u32>("the down interval")?);
    if up.checked_add(down).is_none_or(|both| both == 0) {
        let both = u64::from(up) + u64::from(down);
        return Err(args.blame(format!("both intervals together are {both} seconds: write 1 to {}", u32::MAX)));
    }
    let features = Features::parse(&mut args.group("feature words", MOST_FEATURE_WORDS)?)?;
    args.finish()?;
    Ok(Arc::new(FlakeyArgs { device, start, up, down, features }))
}

impl Target for FlakeyArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        Vec::from([&self.device])
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} {} {} {} ", quote(&self.device.name), self.start, self.up, self.down)?;
        self.features.write(out)
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let below = context.part_device(&self.device, self.start)?;
        let mut limits = context.stack.limits(below).clone();
        if self.features.corrupts_writes() {
            let longest = (copies::LONGEST / 512) as u32;
            limits.max_sectors = Some(limits.max_sectors.map_or(longest, |most| most.min(longest)));
            if let Some(append) = limits.zoned.as_mut().and_then(|zoned| zoned.max_append.as_mut()) {
                *append = longest.min(*append);
            }
        }
        context.map(Box::new(Flakey {
            below: [below],
            limits,
            up: self.up.into(),
            period: u64::from(self.up) + u64::from(self.down),
            start: Instant::ZERO,
            features: self.features,
            rng: Rng::new(self.seed()),
            copies: Copies::default(),
            kept: Slab::new(),
        }))
    }
}

impl FlakeyArgs {
    /// A seed of the line's own words, so that the same line corrupts the same bios: their FNV-1a hash.
    fn seed(&self) -> u64 {
        let mut words = String::new();
        let view = View { shows_keys: false, device: None };
        self.arguments(&view, &mut words).expect("a string takes everything");
        words.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

/// A device that is up and down.
struct Flakey {
    below: [DeviceId; 1],
    limits: Limits,
    /// Seconds.
    up: u64,
    period: u64,
    /// When the first period began.
    start: Instant,
    features: Features,
    rng: Rng,
    /// Memory for the data of writes that arrive changed. There are at most as many copies as writes in flight.
    copies: Copies,
    /// What these writes brought.
    kept: Slab<Payload>,
}

/// Why a bio fails in the down time.
const DOWN: Reason = Reason::Failing("the `flakey` line is in its down time");
/// In the word of a read: the byte that was asked for is changed when it is back.
const FIXED: u64 = 1;
/// In the word of a read: a byte may be changed by chance.
const RANDOM: u64 = 2;

impl Flakey {
    fn is_down(&self, now: Instant) -> bool {
        now.since(self.start).as_nanos() / 1_000_000_000 % self.period >= self.up
    }

    fn read(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.features.error_reads {
            return cx.fail(bio, DOWN);
        }
        let fixed = self.features.corrupt.is_some_and(|corrupt| corrupt.matches(&bio));
        let random = self.features.random_read_corrupt > 0;
        match if fixed { FIXED } else { 0 } | if random { RANDOM } else { 0 } {
            0 => cx.remap(self.below[0], bio),
            word => cx.submit(self.below[0], bio, word),
        }
    }

    fn write(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        let Features { drop_writes, error_writes, .. } = self.features;
        if drop_writes {
            return cx.complete(bio, Status::Ok);
        }
        if error_writes {
            return cx.fail(bio, DOWN);
        }
        let fixed = self.features.corrupt.filter(|corrupt| bio.op.has_data() && corrupt.matches(&bio));
        let random = bio.op.has_data() && self.chance(self.features.random_write_corrupt);
        if fixed.is_none() && !random {
            return cx.remap(self.below[0], bio);
        }
        let Some(data) = self.copies.take(bio.payload.bytes()) else { return cx.fail(bio, Reason::NoMemory) };
        copy(&bio.payload, &data, 0);
        let payload = Payload::Data(data);
        if let Some(Corrupt { nth, value, .. }) = fixed {
            change(&payload, nth as usize - 1, value);
        }
        if random {
            self.change_any(&payload);
        }
        let kept = self.kept.insert(core::mem::replace(&mut bio.payload, payload));
        cx.submit(self.below[0], bio, kept as u64);
    }

    fn chance(&mut self, probability: u32) -> bool {
        probability > 0 && self.rng.chance(probability.into(), ALWAYS.into())
    }

    fn change_any(&mut self, payload: &Payload) {
        let at = self.rng.below(payload.bytes() as u64) as usize;
        change(payload, at, self.rng.draw() as u8);
    }
}

/// Changes byte `at`, if there are as many.
fn change(payload: &Payload, mut at: usize, value: u8) {
    for data in payload.segments() {
        if at < data.len() {
            return data.write(at, &[value]);
        }
        at -= data.len();
    }
}

impl BlockDevice for Flakey {
    keeps_limits_and_below!();

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.start = cx.now();
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let is_spared = bio.op.is_zone_management() || bio.op == Op::ReportZones;
        if is_spared || !self.is_down(cx.now()) {
            return cx.remap(self.below[0], bio);
        }
        if bio.op == Op::Read { self.read(bio, cx) } else { self.write(bio, cx) }
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        if bio.op != Op::Read {
            let kept = self.kept.remove(word as usize);
            if let Payload::Data(data) = core::mem::replace(&mut bio.payload, kept) {
                self.copies.give(data);
            }
            return cx.complete(bio, status);
        }
        if let Some(Corrupt { nth, value, .. }) = self.features.corrupt
            && status.is_ok()
            && word & FIXED != 0
        {
            change(&bio.payload, nth as usize - 1, value);
        }
        if status.is_ok() && word & RANDOM != 0 && self.chance(self.features.random_read_corrupt) {
            self.change_any(&bio.payload);
        }
        cx.complete(bio, status);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "flakey, up for {} s of every {} s", self.up, self.period)
    }
}
