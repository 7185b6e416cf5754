//! Tables as text: `<start> <length> <target> <arguments>`, in sectors, as dmsetup reads and prints them.

use alloc::sync::Arc;
use core::fmt;

use super::args::{ArgError, Args, split_words};
use super::build_context::{BuildContext, Resolver};
use super::mapping::Mapping;
use super::registry::{find, known_targets};
use super::table::Table;
use super::target::{Target, TargetType, View};
use crate::block::{DeviceId, PriorUse, Stack};
use crate::prelude::*;

/// One line of a table.
#[derive(Clone, Debug)]
pub struct TableLine {
    /// First sector of the mapped device.
    pub start: u64,
    /// Sectors.
    pub len: u64,
    /// The target's kind.
    pub kind: &'static TargetType,
    /// The target's arguments.
    pub target: Arc<dyn Target>,
    /// The line's number in its text, from 1.
    pub number: usize,
}

impl fmt::Debug for TargetType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl TableLine {
    /// Writes the line so that it can be read again, without an end of line.
    pub fn write(&self, view: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut arguments = String::new();
        self.target.arguments(view, &mut arguments)?;
        write!(out, "{} {} {}", self.start, self.len, self.kind.name)?;
        if arguments.is_empty() { Ok(()) } else { write!(out, " {arguments}") }
    }

    /// The names of the devices that it maps to.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.target.devices().into_iter().map(|device| device.name.as_str())
    }

    fn blame(&self, error: ArgError) -> TableError {
        TableError { line: self.number, word: error.word, message: error.message }
    }
}

/// What is wrong with a table; says which line, which argument if one is to blame, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// The line, from 1.
    pub line: usize,
    /// The word of the line that is to blame, from 0.
    pub word: Option<usize>,
    /// What is wrong and what to do.
    pub message: String,
}

impl_error!(TableError, |self, f| {
    write!(f, "table line {}", self.line)?;
    // The start, the length and the target's name say themselves what they are.
    if let Some(word) = self.word.filter(|word| *word > 2) {
        write!(f, ", argument {}", word - 2)?;
    }
    write!(f, ": {}", self.message)
});

/// Most sectors of a table: sizes in bytes are signed 64-bit numbers to file systems, loop devices and NBD clients.
const MOST_SECTORS: u64 = (1 << 54) - 1;
/// Most lines of a table.
pub const MOST_LINES: usize = 4096;

/// Reads a table. Empty lines and those that begin with `#` do not count; the others must follow each other without gap
/// or overlap, from sector 0.
///
/// # Errors
/// The first mistake.
pub fn parse_table(text: &str) -> Result<Vec<TableLine>, TableError> {
    let mut lines: Vec<TableLine> = Vec::new();
    let mut end = 0u64;
    for (index, text) in text.lines().enumerate() {
        let words = split_words(text);
        if words.first().is_none_or(|word| word.starts_with('#')) {
            continue;
        }
        let fail = |word, message| TableError { line: index + 1, word, message };
        let line = parse_line(&words, index + 1).map_err(|error| fail(error.word, error.message))?;
        if line.start != end {
            let what = if line.start > end { "leaves a gap" } else { "overlaps" };
            let message = format!("it begins at sector {} and {what}: the line before ends at {end}", line.start);
            return Err(fail(Some(0), message));
        }
        let fits = line.start.checked_add(line.len).filter(|end| *end <= MOST_SECTORS);
        end = fits.ok_or_else(|| {
            fail(Some(1), format!("it ends behind sector {MOST_SECTORS}: a device has less than 2^63 bytes"))
        })?;
        if lines.len() == MOST_LINES {
            return Err(fail(None, format!("a table has at most {MOST_LINES} lines: stack two tables")));
        }
        lines.push(line);
    }
    if lines.is_empty() {
        let message = String::from("the table is empty: write at least one line such as `0 2048 linear DISK 0`");
        return Err(TableError { line: 1, word: None, message });
    }
    Ok(lines)
}

fn parse_line(words: &[String], number: usize) -> Result<TableLine, ArgError> {
    let sectors = |word: usize, what: &str| {
        let text = words.get(word).map_or("", String::as_str);
        text.parse::<u64>().map_err(|_| ArgError {
            word: Some(word).filter(|word| *word < words.len()),
            message: format!("{what} is `{text}`: write a number of 512-byte sectors"),
        })
    };
    let (start, len) = (sectors(0, "the start")?, sectors(1, "the length")?);
    if len == 0 {
        return Err(ArgError::at(1, "the length is 0: a line maps at least one sector"));
    }
    let Some(name) = words.get(2) else {
        let message = format!("the target is missing; known targets are: {}", known_targets());
        return Err(ArgError { word: None, message });
    };
    let kind = find(name)
        .ok_or_else(|| ArgError::at(2, format!("unknown target `{name}`; known targets are: {}", known_targets())))?;
    let mut args = Args::new(&words[3..], 3, kind.name, kind.usage);
    let target = (kind.parse)(&mut args)?;
    Ok(TableLine { start, len, kind, target, number })
}

/// A table that was built and is not in use yet.
pub struct BuiltTable {
    /// What routes its bios.
    pub table: Table,
    /// The devices that were added for it, each above those before it.
    pub parts: Vec<DeviceId>,
    /// For each line the device of its target, if it has one of its own.
    pub targets: Vec<Option<DeviceId>>,
}

/// Builds a table.
///
/// # Errors
/// The first mistake; what was added so far is removed again.
pub fn build_table(stack: &mut Stack, lines: &[TableLine], resolver: &dyn Resolver) -> Result<BuiltTable, TableError> {
    let mut parts = Vec::new();
    let built = build_lines(stack, lines, resolver, &mut parts);
    match built {
        Ok((table, targets)) => Ok(BuiltTable { table, parts, targets }),
        Err(error) => {
            abandon_parts(stack, parts, PriorUse::Unused);
            Err(error)
        }
    }
}

/// Gives up the devices of a table, from the top down.
pub fn abandon_parts(stack: &mut Stack, parts: Vec<DeviceId>, prior_use: PriorUse) {
    parts.into_iter().rev().for_each(|part| stack.abandon(part, prior_use));
}

fn build_lines(
    stack: &mut Stack,
    lines: &[TableLine],
    resolver: &dyn Resolver,
    added: &mut Vec<DeviceId>,
) -> Result<(Table, Vec<Option<DeviceId>>), TableError> {
    let (mut mappings, mut targets): (Vec<Mapping>, Vec<_>) = (Vec::new(), Vec::new());
    for line in lines {
        let mut context = BuildContext { stack, resolver, len: line.len, added, target: None };
        mappings.push(line.target.build(&mut context).map_err(|error| line.blame(error))?);
        targets.push(context.target);
    }
    let at = |place: usize| lines.get(place).map_or(1, |line| line.number);
    let table = Table::new(&mappings);
    let table = table.map_err(|(place, message)| TableError { line: at(place), word: None, message })?;
    Ok((table, targets))
}

/// Adds a table to `stack` for good and returns the device that bios go to.
///
/// # Errors
/// The first mistake.
pub fn add_table(stack: &mut Stack, lines: &[TableLine], resolver: &dyn Resolver) -> Result<DeviceId, TableError> {
    let BuiltTable { table, parts, .. } = build_table(stack, lines, resolver)?;
    stack.add(Box::new(table)).map_err(|error| {
        abandon_parts(stack, parts, PriorUse::Unused);
        TableError { line: lines.first().map_or(1, |line| line.number), word: None, message: format!("{error}") }
    })
}
