//! Table lines as text: `<start> <length> <target> <arguments>`, in sectors, as dmsetup reads them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::faulty::parse_faulty;
use super::{Failing, Faulty, FaultyRule, Linear, Table};
use crate::block::{BlockDevice, DeviceId, Limits, Stack};

/// The targets that a table line may name.
pub const KNOWN_TARGETS: [&str; 3] = ["linear", "error", "faulty"];

/// One line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLine {
    /// First sector of the mapped device.
    pub start: u64,
    /// Sectors.
    pub len: u64,
    /// What they map to.
    pub target: TargetSpec,
    /// The line's number in its text, from 1.
    pub number: usize,
}

/// A target and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetSpec {
    /// `linear <device> <start>`.
    Linear {
        /// The device's name.
        device: String,
        /// First sector there.
        start: u64,
    },
    /// `error`.
    Error,
    /// `faulty <device> <start> [seed=<number>] <rule>...`.
    Faulty {
        /// The device's name.
        device: String,
        /// First sector there.
        start: u64,
        /// Seed of what is left to chance.
        seed: u64,
        /// What goes wrong.
        rules: Vec<FaultyRule>,
    },
}

impl TargetSpec {
    /// The device that it maps to, by name.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        match self {
            TargetSpec::Linear { device, .. } | TargetSpec::Faulty { device, .. } => Some(device),
            TargetSpec::Error => None,
        }
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

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table line {}: {}", self.line, self.message)
    }
}

impl core::error::Error for TableError {}

/// Reads a table. Empty lines and those that begin with `#` do not count; the others must follow each other without gap
/// or overlap, from sector 0.
pub fn parse_table(text: &str) -> Result<Vec<TableLine>, TableError> {
    let mut lines: Vec<TableLine> = Vec::new();
    let mut end = 0u64;
    for (index, text) in text.lines().enumerate() {
        let number = index + 1;
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.first().is_none_or(|word| word.starts_with('#')) {
            continue;
        }
        let line = parse_line(&words, number)?;
        if line.start != end {
            let what = if line.start > end { "leaves a gap" } else { "overlaps" };
            let message = format!("it begins at sector {} and {what}: the line before ends at {end}", line.start);
            return Err(TableError { line: number, word: Some(0), message });
        }
        end = line.start.checked_add(line.len).ok_or_else(|| TableError {
            line: number,
            word: Some(1),
            message: String::from("start and length together are more than a 64-bit sector number"),
        })?;
        lines.push(line);
    }
    if lines.is_empty() {
        let message = String::from("the table is empty: write at least one line such as `0 2048 linear DISK 0`");
        return Err(TableError { line: 1, word: None, message });
    }
    Ok(lines)
}

fn parse_line(words: &[&str], line: usize) -> Result<TableLine, TableError> {
    let fail = |word: usize, message: String| Err(TableError { line, word: Some(word), message });
    let number = |word: usize, what: &str| {
        let text = words.get(word).copied().unwrap_or("");
        text.parse::<u64>().map_err(|_| TableError {
            line,
            word: Some(word).filter(|word| *word < words.len()),
            message: format!("{what} is `{text}`: write a number of 512-byte sectors"),
        })
    };
    let (start, len) = (number(0, "the start")?, number(1, "the length")?);
    if len == 0 {
        return fail(1, "the length is 0: a line maps at least one sector".to_string());
    }
    let arguments = words.len().saturating_sub(3);
    let target = match words.get(2).copied() {
        Some("linear") if arguments == 2 => {
            TargetSpec::Linear { device: words[3].to_string(), start: number(4, "the start on the device")? }
        }
        Some("linear") => {
            let message = format!("linear takes 2 arguments, `linear <device> <start sector>`, not {arguments}");
            return fail(2, message);
        }
        Some("faulty") if arguments >= 2 => {
            let start = number(4, "the start on the device")?;
            let (seed, rules) = parse_faulty(&words[5..]).map_err(|(word, message)| TableError {
                line,
                word: Some(5 + word),
                message: format!("faulty: {message}"),
            })?;
            TargetSpec::Faulty { device: words[3].to_string(), start, seed, rules }
        }
        Some("faulty") => {
            let message = "faulty takes a device, a start sector and rules, \
                           as in `faulty DISK 0 error,op=write,rate=1/100`";
            return fail(2, message.to_string());
        }
        Some("error") if arguments == 0 => TargetSpec::Error,
        Some("error") => return fail(3, format!("error takes no arguments, not {arguments}")),
        Some(other) => {
            return fail(2, format!("unknown target `{other}`; known targets are: {}", KNOWN_TARGETS.join(", ")));
        }
        None => {
            let message = format!("the target is missing; known targets are: {}", KNOWN_TARGETS.join(", "));
            return Err(TableError { line, word: None, message });
        }
    };
    Ok(TableLine { start, len, target, number: line })
}

/// Adds the devices of a table to `stack` and returns the one that bios go to. `resolve` finds devices by name; for an
/// unknown name it returns those that exist.
pub fn add_table(
    stack: &mut Stack,
    lines: &[TableLine],
    resolve: &dyn Fn(&str) -> Result<DeviceId, Vec<String>>,
) -> Result<DeviceId, TableError> {
    let mut targets: Vec<(DeviceId, Limits)> = Vec::new();
    for line in lines {
        let fail = |word: usize, message: String| TableError { line: line.number, word: Some(word), message };
        let add = |stack: &mut Stack, device: Box<dyn BlockDevice>| {
            stack.add(device).map_err(|error| fail(2, format!("{error}")))
        };
        let linear = |stack: &Stack, name: &str, start: u64| {
            let below = resolve(name).map_err(|known| {
                fail(3, format!("there is no device `{name}`; known devices are: {}", known.join(", ")))
            })?;
            let linear = Linear::new(below, stack.limits(below), start, line.len);
            linear.map_err(|error| fail(4, format!("linear on `{name}`: {error}")))
        };
        let id = match &line.target {
            TargetSpec::Error => add(stack, Box::new(Failing::new(line.len)))?,
            TargetSpec::Linear { device, start } => {
                let linear = linear(stack, device, *start)?;
                add(stack, Box::new(linear))?
            }
            // The range is linear's business; faults know nothing of it.
            TargetSpec::Faulty { device, start, seed, rules } => {
                let linear = linear(stack, device, *start)?;
                let range = add(stack, Box::new(linear))?;
                let faulty = Faulty::new(range, stack.limits(range), rules.clone(), *seed);
                add(stack, Box::new(faulty))?
            }
        };
        targets.push((id, stack.limits(id).clone()));
    }
    // A table of one line is its target: nothing to route.
    if let [(only, _)] = targets.as_slice() {
        return Ok(*only);
    }
    let at = |place: usize| lines.get(place).map_or(1, |line| line.number);
    let table = Table::new(&targets).map_err(|(place, message)| TableError { line: at(place), word: None, message })?;
    stack.add(Box::new(table)).map_err(|error| TableError { line: at(0), word: None, message: format!("{error}") })
}
