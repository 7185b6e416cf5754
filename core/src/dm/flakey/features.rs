//! The features of a line: what happens while the device is down, read, checked and written.

use core::fmt;
use core::ops::RangeInclusive;

use super::super::args::{ArgError, Args};
use crate::block::{Bio, Flags, Op};
use crate::prelude::*;

/// A probability of 1 (`PROBABILITY_BASE`).
pub(super) const ALWAYS: u32 = 1_000_000_000;

/// What happens while the device is down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Features {
    pub error_reads: bool,
    pub drop_writes: bool,
    pub error_writes: bool,
    pub corrupt: Option<Corrupt>,
    /// Probabilities, in parts of [`ALWAYS`].
    pub random_read_corrupt: u32,
    pub random_write_corrupt: u32,
}

/// `corrupt_bio_byte`: one byte of each bio is another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Corrupt {
    /// Which, from 1.
    pub nth: u32,
    writes: bool,
    pub value: u8,
    /// Only of bios that have all of these, see [`kernel_flags`].
    flags: u32,
}

impl Features {
    /// Reads all words of `args`.
    pub fn parse(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let mut features = Self::default();
        while args.left() > 0 {
            features.parse_one(args)?;
        }
        features.check().map_err(|message| args.blame(message))?;
        if !features.does_something() {
            (features.error_reads, features.error_writes) = (true, true);
        }
        Ok(features)
    }

    fn parse_one(&mut self, args: &mut Args<'_>) -> Result<(), ArgError> {
        let name = args.word("a feature")?.to_ascii_lowercase();
        let name_taken = args.clone();
        let is_new = match name.as_str() {
            "error_reads" => !core::mem::replace(&mut self.error_reads, true),
            "drop_writes" => !core::mem::replace(&mut self.drop_writes, true),
            "error_writes" => !core::mem::replace(&mut self.error_writes, true),
            "corrupt_bio_byte" => self.corrupt.replace(Corrupt::parse(args)?).is_none(),
            "random_read_corrupt" => core::mem::replace(&mut self.random_read_corrupt, probability(args)?) == 0,
            "random_write_corrupt" => core::mem::replace(&mut self.random_write_corrupt, probability(args)?) == 0,
            _ => {
                return Err(args.blame(format!(
                    "unknown feature `{name}`; features are error_reads, drop_writes, error_writes, corrupt_bio_byte, \
                     random_read_corrupt, random_write_corrupt"
                )));
            }
        };
        if is_new { Ok(()) } else { Err(name_taken.blame(format!("`{name}` stands twice: write it once"))) }
    }

    /// What does not go together.
    fn check(&self) -> Result<(), &'static str> {
        let corrupts = |writes| self.corrupt.is_some_and(|corrupt| corrupt.writes == writes);
        let corrupts_writes = corrupts(true) || self.random_write_corrupt > 0;
        let corrupts_reads = corrupts(false) || self.random_read_corrupt > 0;
        match self {
            Self { drop_writes: true, error_writes: true, .. } => {
                Err("drop_writes and error_writes exclude each other: write one of them")
            }
            Self { drop_writes: true, .. } | Self { error_writes: true, .. } if corrupts_writes => {
                Err("writes that are dropped or fail cannot be corrupted: leave one of the features out")
            }
            Self { error_reads: true, .. } if corrupts_reads => {
                Err("reads that fail cannot be corrupted: leave one of the features out")
            }
            _ => Ok(()),
        }
    }

    fn does_something(&self) -> bool {
        let Self { error_reads, drop_writes, error_writes, corrupt, .. } = self;
        let corrupts = corrupt.is_some() || self.random_read_corrupt > 0 || self.random_write_corrupt > 0;
        *error_reads || *drop_writes || *error_writes || corrupts
    }

    pub fn corrupts_writes(&self) -> bool {
        self.random_write_corrupt > 0 || self.corrupt.is_some_and(|corrupt| corrupt.writes)
    }

    /// Writes them in the kernel's order, with the number of their words in front.
    pub fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut words = String::new();
        let named =
            [(self.error_reads, "error_reads"), (self.drop_writes, "drop_writes"), (self.error_writes, "error_writes")];
        named.iter().filter(|(is_on, _)| *is_on).for_each(|(_, name)| words += &format!(" {name}"));
        if let Some(Corrupt { nth, writes, value, flags }) = self.corrupt {
            words += &format!(" corrupt_bio_byte {nth} {} {value} {flags}", if writes { 'w' } else { 'r' });
        }
        let random = [("read", self.random_read_corrupt), ("write", self.random_write_corrupt)];
        let random = random.iter().filter(|(_, probability)| *probability > 0);
        random.for_each(|(name, probability)| words += &format!(" random_{name}_corrupt {probability}"));
        write!(out, "{}{words}", words.split_whitespace().count())
    }
}

impl Corrupt {
    fn parse(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let nth = number(args, "the byte", 1..=u32::MAX)?;
        let writes = match args.word("the direction")? {
            "r" | "R" => false,
            "w" | "W" => true,
            other => return Err(args.blame(format!("the direction is `{other}`: write r for reads or w for writes"))),
        };
        let value = number(args, "the value", 0..=255)? as u8;
        let flags = number(args, "the mask of flags", 0..=u32::MAX)?;
        if flags & !KERNEL_FLAGS != 0 {
            let what =
                format!("no bio here has all flags of the mask {flags}: there are {KERNEL_FLAGS:#x}, 0 is any bio");
            return Err(args.blame(what));
        }
        Ok(Self { nth, writes, value, flags })
    }

    pub fn matches(&self, bio: &Bio) -> bool {
        self.writes == bio.op.is_write() && kernel_flags(bio) & self.flags == self.flags
    }
}

fn number(args: &mut Args<'_>, what: &str, range: RangeInclusive<u32>) -> Result<u32, ArgError> {
    let number = args.number(what)?;
    if range.contains(&number) {
        return Ok(number);
    }
    Err(args.blame(format!("{what} is {number}: write a number from {} to {}", range.start(), range.end())))
}

fn probability(args: &mut Args<'_>) -> Result<u32, ArgError> {
    number(args, "the probability", 0..=ALWAYS)
}

/// All bits of [`kernel_flags`].
const KERNEL_FLAGS: u32 = 7 | FUA | PREFLUSH | NOWAIT;
const FUA: u32 = 1 << 17;
const PREFLUSH: u32 = 1 << 18;
const NOWAIT: u32 = 1 << 21;

/// What the kernel would have in `bi_opf`: the operation, and the flags that there are here
/// (`include/linux/blk_types.h:req_op` and `req_flag_bits` of Linux 7.2).
fn kernel_flags(bio: &Bio) -> u32 {
    let op = match bio.op {
        Op::Write => 1,
        Op::ZoneAppend => 7,
        _ => 0,
    };
    let flag = |flag, bit| if bio.flags.has(flag) { bit } else { 0 };
    op | flag(Flags::FUA, FUA) | flag(Flags::PREFLUSH, PREFLUSH) | flag(Flags::NOWAIT, NOWAIT)
}
