//! Messages as words: `@stats_create - /100 1 precise_timestamps`. Nothing is looked up and nothing is changed here.

use core::ops::{Range, RangeInclusive};

use super::area::Clock;
use super::bounds::{MAX_BOUNDARIES, MAX_TEXT_BYTES};
use super::error::StatsError;
use crate::prelude::*;

/// What a message asks for.
pub(super) enum Message<'a> {
    Create(Create<'a>),
    Delete { region: u32 },
    Clear { region: u32 },
    List { program: Option<&'a str> },
    Print { region: u32, lines: Lines },
    PrintClear { region: u32, lines: Lines },
    SetAux { region: u32, aux: &'a str },
}

/// A region to be.
pub(super) struct Create<'a> {
    /// Not empty.
    pub sectors: Range<u64>,
    /// Sectors of an area; not 0.
    pub step: u64,
    pub clock: Clock,
    /// Ascending; empty if there shall be no histogram.
    pub boundaries: Vec<u64>,
    pub program: &'a str,
    pub aux: &'a str,
}

/// Lines of a printout, which are areas of a region. There may be fewer.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub first: usize,
    pub count: usize,
}

impl Lines {
    pub const ALL: Lines = Lines { first: 0, count: usize::MAX };
}

/// A message: its name, its arguments in words, how many words those are, and who reads them.
struct Form {
    name: &'static str,
    arguments: &'static str,
    words: RangeInclusive<usize>,
    read: for<'a> fn(&Words<'a, '_>, u64) -> Result<Message<'a>, StatsError>,
}

const LINES: &str = "<region> [<first line> <lines>]";

const FORMS: [Form; 7] = [
    Form {
        name: "@stats_create",
        arguments: "<range> <step> [<number of options> <option>...] [<program> [<aux>]]",
        words: 2..=usize::MAX,
        read: create,
    },
    Form { name: "@stats_delete", arguments: "<region>", words: 1..=1, read: delete },
    Form { name: "@stats_clear", arguments: "<region>", words: 1..=1, read: clear },
    Form { name: "@stats_list", arguments: "[<program>]", words: 0..=1, read: list },
    Form { name: "@stats_print", arguments: LINES, words: 1..=3, read: print },
    Form { name: "@stats_print_clear", arguments: LINES, words: 1..=3, read: print_clear },
    Form { name: "@stats_set_aux", arguments: "<region> <aux>", words: 2..=2, read: set_aux },
];

/// Reads a message to a device of `capacity` sectors. Names of messages and options may be written in capitals, as in the
/// kernel.
pub(super) fn parse<'a>(argv: &[&'a str], capacity: u64) -> Result<Message<'a>, StatsError> {
    let unknown = || StatsError::Unknown { message: argv.first().unwrap_or(&"").to_string() };
    let (name, words) = argv.split_first().ok_or_else(unknown)?;
    let form = FORMS.iter().find(|form| form.name.eq_ignore_ascii_case(name)).ok_or_else(unknown)?;
    let words = Words { form, words };
    if !form.words.contains(&words.words.len()) {
        return Err(words.misshapen());
    }
    (form.read)(&words, capacity)
}

/// The arguments of a message.
struct Words<'a, 'w> {
    form: &'static Form,
    words: &'w [&'a str],
}

impl<'a> Words<'a, '_> {
    /// The words are too few or too many.
    fn misshapen(&self) -> StatsError {
        let Form { name, arguments, .. } = *self.form;
        StatsError::Form { message: name, arguments, given: self.words.len() }
    }

    /// A word is not what it should be.
    fn wrong(&self, argument: &'static str, text: &str, allowed: &'static str) -> StatsError {
        StatsError::Argument { message: self.form.name, argument, text: text.to_string(), allowed }
    }

    /// The first word of most messages.
    fn region(&self) -> Result<u32, StatsError> {
        let text = self.words.first().copied().unwrap_or_default();
        let region = number(text).and_then(|number| u32::try_from(number).ok());
        region.ok_or_else(|| self.wrong("region", text, "write the number that @stats_create returned"))
    }

    /// The lines to print: all of them if none are named.
    fn lines(&self) -> Result<Lines, StatsError> {
        let line = |argument, text, otherwise| match (text, number(text)) {
            ("-", _) => Ok(otherwise),
            (_, Some(number)) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
            _ => Err(self.wrong(argument, text, "write a number of lines, counted from 0, or `-` for no bound")),
        };
        match self.words {
            [_] => Ok(Lines::ALL),
            [_, first, count] => {
                Ok(Lines { first: line("first line", first, 0)?, count: line("lines", count, usize::MAX)? })
            }
            _ => Err(self.misshapen()),
        }
    }

    /// A word that is kept and given back, and means nothing here.
    fn text(&self, argument: &'static str, text: &'a str) -> Result<&'a str, StatsError> {
        let fine = (1..=MAX_TEXT_BYTES).contains(&text.len()) && !text.contains(char::is_control);
        let allowed = "write 1 to 1024 bytes without control characters: @stats_list prints a region per line";
        if fine { Ok(text) } else { Err(self.wrong(argument, text, allowed)) }
    }
}

fn delete<'a>(words: &Words<'a, '_>, _: u64) -> Result<Message<'a>, StatsError> {
    Ok(Message::Delete { region: words.region()? })
}

fn clear<'a>(words: &Words<'a, '_>, _: u64) -> Result<Message<'a>, StatsError> {
    Ok(Message::Clear { region: words.region()? })
}

fn list<'a>(words: &Words<'a, '_>, _: u64) -> Result<Message<'a>, StatsError> {
    Ok(Message::List { program: words.words.first().copied() })
}

fn print<'a>(words: &Words<'a, '_>, _: u64) -> Result<Message<'a>, StatsError> {
    Ok(Message::Print { region: words.region()?, lines: words.lines()? })
}

fn print_clear<'a>(words: &Words<'a, '_>, _: u64) -> Result<Message<'a>, StatsError> {
    Ok(Message::PrintClear { region: words.region()?, lines: words.lines()? })
}

fn set_aux<'a>(words: &Words<'a, '_>, _: u64) -> Result<Message<'a>, StatsError> {
    let aux = words.words.last().copied().unwrap_or_default();
    Ok(Message::SetAux { region: words.region()?, aux: words.text("aux", aux)? })
}

fn create<'a>(words: &Words<'a, '_>, capacity: u64) -> Result<Message<'a>, StatsError> {
    let [range, step, rest @ ..] = words.words else { return Err(words.misshapen()) };
    let sectors = sectors(range, capacity).ok_or_else(|| {
        let allowed = "write `-` for the whole device, or `start+length` in sectors of 512 bytes, such as `2048+1024`";
        words.wrong("range", range, allowed)
    })?;
    let step = step_sectors(step, sectors.end - sectors.start).ok_or_else(|| {
        let allowed = "write the sectors of an area, such as `2048`, or `/` and a number of areas, such as `/100`";
        words.wrong("step", step, allowed)
    })?;
    let (options, rest) = split_options(words, rest)?;
    let (clock, boundaries) = read_options(words, options)?;
    let (program, aux) = match rest {
        [] => ("-", "-"),
        [program] => (*program, "-"),
        [program, aux] => (*program, *aux),
        _ => return Err(words.misshapen()),
    };
    let (program, aux) = (words.text("program", program)?, words.text("aux", aux)?);
    Ok(Message::Create(Create { sectors, step, clock, boundaries, program, aux }))
}

/// The sectors of a region; it may reach over the device's end, as a later table may be longer.
fn sectors(range: &str, capacity: u64) -> Option<Range<u64>> {
    if range == "-" {
        return Some(0..capacity.max(1));
    }
    let (start, length) = range.split_once('+')?;
    let (start, length) = (number(start)?, number(length)?);
    let end = start.checked_add(length)?;
    (length > 0).then_some(start..end)
}

/// The sectors of an area of a region of `length` sectors; `/100` may give fewer areas than 100, as all but the last have
/// the same number of whole sectors.
fn step_sectors(step: &str, length: u64) -> Option<u64> {
    let sectors = match step.strip_prefix('/') {
        Some(areas) => length.div_ceil(number(areas).filter(|areas| *areas > 0)?),
        None => number(step)?,
    };
    (sectors > 0).then_some(sectors)
}

/// Splits options from what follows them. A number says how many they are; without it there are none, so a program's name
/// is no number if there is no number of options before it.
fn split_options<'a, 'w>(
    words: &Words<'a, 'w>,
    rest: &'w [&'a str],
) -> Result<(&'w [&'a str], &'w [&'a str]), StatsError> {
    let is_number = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let Some(count) = rest.first().filter(is_number) else { return Ok((&[], rest)) };
    let rest = &rest[1..];
    let split = number(count).and_then(|count| rest.split_at_checked(usize::try_from(count).ok()?));
    split.ok_or_else(|| words.wrong("number of options", count, "write as many options after it as it says"))
}

/// The clock and the histogram's boundaries.
fn read_options(words: &Words<'_, '_>, options: &[&str]) -> Result<(Clock, Vec<u64>), StatsError> {
    let (mut clock, mut boundaries) = (Clock::Millis, Vec::new());
    for option in options {
        let (name, times) = option.split_once(':').map_or((*option, None), |(name, times)| (name, Some(times)));
        match times {
            None if name.eq_ignore_ascii_case("precise_timestamps") => clock = Clock::Nanos,
            Some(times) if name.eq_ignore_ascii_case("histogram") && boundaries.is_empty() => {
                boundaries = read_boundaries(times).ok_or_else(|| {
                    let allowed = "write 1 to 1024 ascending times greater than 0, such as `10,20,30`";
                    words.wrong("histogram", times, allowed)
                })?;
            }
            _ => {
                let allowed = "write `precise_timestamps`, or one histogram such as `histogram:10,20,30`";
                return Err(words.wrong("option", option, allowed));
            }
        }
    }
    Ok((clock, boundaries))
}

fn read_boundaries(times: &str) -> Option<Vec<u64>> {
    let mut boundaries = Vec::new();
    for time in times.split(',') {
        let time = number(time).filter(|time| *time > boundaries.last().copied().unwrap_or(0))?;
        if boundaries.len() == MAX_BOUNDARIES {
            return None;
        }
        boundaries.push(time);
    }
    Some(boundaries)
}

/// A number in decimal digits and nothing else.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}
