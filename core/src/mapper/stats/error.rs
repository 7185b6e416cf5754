//! Why a message was refused.

use super::bounds::{MAX_AREAS, MAX_BYTES, MAX_REGIONS};
use crate::prelude::*;

/// Error of a statistics message, which changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsError {
    /// It is no message of statistics.
    Unknown {
        /// Its first word.
        message: String,
    },
    /// It has too few or too many arguments.
    Form {
        /// Its name.
        message: &'static str,
        /// What it takes.
        arguments: &'static str,
        /// How many words there were.
        given: usize,
    },
    /// An argument is not what it should be.
    Argument {
        /// The message's name.
        message: &'static str,
        /// The argument's name.
        argument: &'static str,
        /// The argument.
        text: String,
        /// What to write instead.
        allowed: &'static str,
    },
    /// There is no such region.
    NoRegion {
        /// Its number.
        id: u32,
    },
    /// The device has as many regions as it may have.
    TooManyRegions,
    /// A region would have more areas than it may have.
    TooManyAreas {
        /// Its areas.
        areas: u64,
    },
    /// A region's counters do not fit in memory, or in what the device's regions may take of it.
    Memory {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that the other regions have left.
        free: u64,
    },
    /// More lines than one answer may have.
    TooManyLines {
        /// The region.
        region: u32,
        /// Lines asked for.
        asked: u64,
        /// Lines that one answer may have.
        most: u64,
    },
}

impl_error!(StatsError, |self, f| match self {
    Self::Unknown { message } => write!(
        f,
        "unknown message `{message}`; messages of statistics are @stats_create, @stats_delete, @stats_clear, \
         @stats_list, @stats_print, @stats_print_clear and @stats_set_aux"
    ),
    Self::Form { message, arguments, given } => {
        write!(f, "{message} takes `{arguments}`, not {given} arguments")
    }
    Self::Argument { message, argument, text, allowed } => {
        write!(f, "{message}: the argument <{argument}> is `{text}`: {allowed}")
    }
    Self::NoRegion { id } => write!(f, "there is no region {id}: @stats_list prints those that there are"),
    Self::TooManyRegions => {
        write!(f, "the device has {MAX_REGIONS} regions, and may have no more: delete one with @stats_delete")
    }
    Self::TooManyAreas { areas } => {
        write!(f, "the region would have {areas} areas, more than {MAX_AREAS}: make the step larger")
    }
    Self::Memory { needed, free } => write!(
        f,
        "the region's counters take {needed} bytes, and {free} of the device's {MAX_BYTES} are free, if the machine \
         has them: make the step larger, give the histogram fewer boundaries, or delete another region"
    ),
    Self::TooManyLines { region, asked, most } => write!(
        f,
        "an answer has at most {most} lines of region {region}, not {asked}: name the lines, as in \
         `@stats_print {region} 0 {most}`"
    ),
});
