//! Path selectors: the words that choose the policy of a group.

use core::fmt;

use crate::dm::{ArgError, Args};
use crate::multipath::{
    Group, HistoricalServiceTime, HistoricalServiceTimeOptions, History, PathView, Policy, PolicyKind,
};
use crate::prelude::*;

/// Most words of a selector's own, and of one of its paths.
const MOST_WORDS: usize = 2;
/// Most that a path carries compared with the others.
const MOST_THROUGHPUT: u32 = 100;
/// The weight of the past is below this.
const WHOLE_WEIGHT: u16 = 1024;

/// The selector of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    RoundRobin,
    QueueLength,
    ServiceTime,
    HistoricalServiceTime(HistoricalServiceTimeOptions),
}

/// What is written behind a path's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathWords {
    /// I/Os in a row: one or, which is the same, none. The kernel has given up more.
    repeat_count: u32,
    pub throughput: u32,
}

impl Selector {
    /// Reads `<selector> <#args> [args]`.
    pub fn parse(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let name = args.word("the path selector")?;
        let mut selector = match name {
            "round-robin" => Self::RoundRobin,
            "queue-length" => Self::QueueLength,
            "service-time" => Self::ServiceTime,
            "historical-service-time" => Self::HistoricalServiceTime(HistoricalServiceTimeOptions::default()),
            "io-affinity" => {
                let why = "`io-affinity` chooses by the CPU that submits, and here all I/O of a device comes from one \
                           thread: write `service-time` or another one";
                return Err(args.blame(why));
            }
            _ => return Err(args.blame(format!("there is no path selector `{name}`: {KNOWN}"))),
        };
        let most = if matches!(selector, Self::HistoricalServiceTime(_)) { MOST_WORDS } else { 0 };
        let mut own = args.group("selector arguments", most)?;
        if let Self::HistoricalServiceTime(options) = &mut selector {
            read_history(&mut own, options)?;
        }
        Ok(selector)
    }

    /// Reads what stands behind a device.
    pub fn parse_path(self, args: &mut Args<'_>) -> Result<PathWords, ArgError> {
        let mut words = PathWords { repeat_count: 1, throughput: 1 };
        if args.left() > 0 {
            words.repeat_count = args.number::<u32>("the repeat count")?.min(1);
        }
        if args.left() > 0 {
            words.throughput = args.number("the relative throughput")?;
            if words.throughput > MOST_THROUGHPUT {
                let message = format!("the relative throughput is {}: write 0 to {MOST_THROUGHPUT}", words.throughput);
                return Err(args.blame(message));
            }
        }
        Ok(words)
    }

    /// Most words that it takes behind a device.
    pub fn most_path_words(self) -> usize {
        if self == Self::ServiceTime { 2 } else { 1 }
    }

    pub fn kind(self) -> PolicyKind {
        match self {
            Self::RoundRobin => PolicyKind::TurnByTurn,
            Self::QueueLength => PolicyKind::QueueLength,
            Self::ServiceTime => PolicyKind::ServiceTime,
            Self::HistoricalServiceTime(_) => PolicyKind::HistoricalServiceTime,
        }
    }

    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            Self::HistoricalServiceTime(options) => Box::new(HistoricalServiceTime::new(options)),
            _ => self.kind().build(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::QueueLength => "queue-length",
            Self::ServiceTime => "service-time",
            Self::HistoricalServiceTime(_) => "historical-service-time",
        }
    }

    /// Writes it as a table has it, up to the number of its paths.
    pub fn write(self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} ", self.name())?;
        self.write_own(out)
    }

    /// Writes its own arguments, which stand in a status as well.
    pub fn write_own(self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Self::HistoricalServiceTime(options) => write!(out, "2 {} {} ", options.weight, options.threshold),
            _ => out.write_str("0 "),
        }
    }

    /// Writes what a table has behind a device.
    pub fn write_path(self, words: PathWords, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Self::ServiceTime => write!(out, "{} {} ", words.repeat_count, words.throughput),
            // The kernel prints this, whatever was written.
            Self::HistoricalServiceTime(_) => out.write_str("0 "),
            _ => write!(out, "{} ", words.repeat_count),
        }
    }

    /// Numbers that a status has of each path.
    pub fn status_words(self) -> usize {
        match self {
            Self::RoundRobin => 0,
            Self::QueueLength => 1,
            Self::ServiceTime => 2,
            Self::HistoricalServiceTime(_) => 3,
        }
    }

    /// Writes them, of path `number` of the group.
    pub fn write_status(
        self,
        view: &PathView,
        (group, number): (&Group, usize),
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        match self {
            Self::RoundRobin => Ok(()),
            Self::QueueLength => write!(out, "{} ", view.in_flight),
            Self::ServiceTime => write!(out, "{} {} ", view.bytes, view.throughput),
            Self::HistoricalServiceTime(_) => {
                let History { service, stale_after, .. } = group.history(number).unwrap_or_default();
                write!(out, "{service} {} {} ", view.in_flight, stale_after.0)
            }
        }
    }
}

const KNOWN: &str = "there are round-robin, queue-length, service-time and historical-service-time";

fn read_history(args: &mut Args<'_>, options: &mut HistoricalServiceTimeOptions) -> Result<(), ArgError> {
    if args.left() > 0 {
        options.weight = args.number("the weight of the past")?;
        if options.weight >= WHOLE_WEIGHT {
            let message = format!("the weight of the past is {}: write 0 to {}", options.weight, WHOLE_WEIGHT - 1);
            return Err(args.blame(message));
        }
    }
    if args.left() > 0 {
        options.threshold = args.number("the threshold")?;
    }
    Ok(())
}
