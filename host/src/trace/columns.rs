//! An event as a line in the columns that blkparse(1) prints unless told otherwise.
//!
//! `%D %2c %8s %5T.%9t %5p %2a %3d`, then the range and, in brackets, the process or the outcome. There are no processes here:
//! the number of the bio stands where theirs does, and the operation in the brackets.

use shingle_core::block::{Action, Flags, Op, TraceEvent};

use super::entry::RecordedEntry;
use super::file::Recording;

/// What a bio asks for in the letters of block trace events (`kernel/trace/blktrace.c:blk_fill_rwbs`).
///
/// `N` is everything that the kernel has no letter for: write zeroes, and reports, which are no bios there.
#[must_use]
pub fn rwbs(op: Op, flags: Flags) -> String {
    let letters = match op {
        Op::Read => "R",
        Op::Write => "W",
        Op::ZoneAppend => "ZA",
        Op::Discard => "D",
        Op::Flush => "F",
        Op::ZoneOpen => "ZO",
        Op::ZoneClose => "ZC",
        Op::ZoneFinish => "ZF",
        Op::ZoneReset => "ZR",
        Op::ZoneResetAll => "ZRA",
        Op::WriteZeroes | Op::ReportZones => "N",
    };
    let flag = |flag: Flags| if flags.has(flag) { "F" } else { "" };
    format!("{}{letters}{}", flag(Flags::PREFLUSH), flag(Flags::FUA))
}

/// The lines of a recording.
pub struct Columns<'a> {
    recording: &'a Recording,
    width: usize,
}

impl<'a> Columns<'a> {
    /// Lines whose first column is as wide as the longest name, and at least as wide as blkparse's.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Self {
        let longest = recording.devices.iter().map(|device| device.name.len()).max().unwrap_or(0);
        Self { recording, width: longest.max("252,0  ".len()) }
    }

    /// The line of the recording's entry number `place`, counted from 0.
    #[must_use]
    pub fn line(&self, place: usize, entry: &RecordedEntry) -> String {
        let (s, ns, sequence, width) =
            (entry.at().0 / 1_000_000_000, entry.at().0 % 1_000_000_000, place + 1, self.width);
        let event = match entry {
            RecordedEntry::Lost { count, shard, .. } => {
                return format!("{:width$} {shard:2} {sequence:8} {s:5}.{ns:09} {count} events lost", "");
            }
            RecordedEntry::Hop(event) => event,
        };
        let device = self.recording.devices.get(usize::from(event.device.0));
        let (name, shard) = device.map_or(("", 0), |device| (device.name.as_str(), device.shard));
        let (number, letter, rwbs) = (event.number, event.action.letter(), rwbs(event.op, event.flags));
        let what = payload(event);
        format!("{name:width$} {shard:2} {sequence:8} {s:5}.{ns:09} {number:5} {letter:>2} {rwbs:>3} {what}")
    }
}

/// What follows the columns: where, and in brackets what or how it ended.
fn payload(event: &TraceEvent) -> String {
    let TraceEvent { action, op, flags, sector, sectors, status, .. } = event;
    let range = match op {
        Op::Flush | Op::ZoneResetAll => String::new(),
        op if op.has_range() => format!("{sector} + {sectors} "),
        _ => format!("{sector} "),
    };
    match (action, status.errno()) {
        (Action::Complete, 0) => format!("{range}[0]"),
        (Action::Complete, errno) => format!("{range}[-{errno}] {status}"),
        _ => format!("{range}[{}{}]", op.name(), flag_words(*flags)),
    }
}

/// The flags that the letters do not tell.
fn flag_words(flags: Flags) -> String {
    let words = [(Flags::NOWAIT, "+NOWAIT"), (Flags::FAST, "+FAST"), (Flags::NO_UNMAP, "+NO_UNMAP")];
    words.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, word)| *word).collect()
}
