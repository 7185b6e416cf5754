//! Tables for a layout: the same sectors in ever other lines, and tables that are wrong.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::layout::{Layouts, Run};
use super::scenario::{between, draw_faulty, some};
use crate::random::Rng;

/// What a line does to bios, beside passing them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// Nothing that hosts could notice.
    Nothing,
    /// Some fail.
    Fails,
    /// All fail, and a flush is not passed on.
    FailsAll,
}

/// A target that can stand in the place of a `linear` line.
pub(super) struct Drawable {
    /// Its name in tables.
    pub target: &'static str,
    /// Of how many lines so many are this.
    pub weight: u64,
    /// Whether zones can lie behind it.
    pub zoned: bool,
    pub does: Does,
    /// Its arguments, over a device from a sector on.
    pub arguments: fn(&str, u64, &mut Rng) -> String,
    /// What can be said to it.
    pub messages: &'static [&'static str],
}

/// The targets that a world draws from. A new one is a line here.
pub(super) const DRAWABLE: &[Drawable] = &[
    Drawable { target: "linear", weight: 10, zoned: true, does: Does::Nothing, arguments: place, messages: &[] },
    Drawable { target: "faulty", weight: 4, zoned: true, does: Does::Nothing, arguments: late, messages: &[] },
    Drawable { target: "faulty", weight: 2, zoned: true, does: Does::Fails, arguments: faulty, messages: &[] },
    Drawable { target: "error", weight: 1, zoned: true, does: Does::FailsAll, arguments: place, messages: &[] },
];

fn place(device: &str, from: u64, _: &mut Rng) -> String {
    format!("{device} {from}")
}

fn faulty(device: &str, from: u64, rng: &mut Rng) -> String {
    format!("{device} {from} {}", draw_faulty(rng.below(1 << 32)))
}

/// Completions that come late.
fn late(device: &str, from: u64, rng: &mut Rng) -> String {
    let op = some(rng, &["any", "data", "write", "append", "read", "flush+report", "reset+finish+reset-all"]);
    let time = some(rng, &["1us", "70us", "3ms"]);
    format!("{device} {from} seed={} delay,op={op},time={time},rate=1/{}", rng.below(1000), between(rng, 1, 10))
}

/// Which targets a table may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Only those that do nothing.
    Calm,
    /// Any.
    Rough,
    /// Only those on which everything fails.
    Dead,
}

/// A line that was drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub start: u64,
    pub len: u64,
    pub source: usize,
    /// Its place in [`DRAWABLE`].
    pub kind: usize,
}

impl Line {
    pub fn drawable(&self) -> &'static Drawable {
        &DRAWABLE[self.kind]
    }
}

/// A table that maps what `device` maps, and what its lines do.
pub(super) fn draw_table(all: &Layouts, device: usize, mood: Mood, rng: &mut Rng) -> (String, Vec<Line>) {
    let layout = &all.devices[device];
    let (mut text, mut lines, mut start) = (String::new(), Vec::new(), 0);
    for run in &layout.runs {
        for Run { source, from, len } in cut(*run, layout.unit, rng) {
            let kind = draw_kind(all.is_zoned(source), mood, rng);
            let target = &DRAWABLE[kind];
            let arguments = (target.arguments)(all.name(source), from, rng);
            text += &format!("{start} {len} {} {arguments}\n", target.target);
            lines.push(Line { start, len, source, kind });
            start += len;
        }
    }
    (text, lines)
}

fn draw_kind(zoned: bool, mood: Mood, rng: &mut Rng) -> usize {
    let fits = |target: &Drawable| match mood {
        _ if zoned && !target.zoned => false,
        Mood::Calm => target.does == Does::Nothing,
        Mood::Rough => true,
        Mood::Dead => target.does == Does::FailsAll,
    };
    let fitting: Vec<usize> = (0..DRAWABLE.len()).filter(|kind| fits(&DRAWABLE[*kind])).collect();
    let mut at = rng.below(fitting.iter().map(|kind| DRAWABLE[*kind].weight).sum());
    let hit = |kind: &&usize| {
        let hit = at < DRAWABLE[**kind].weight;
        at = at.saturating_sub(DRAWABLE[**kind].weight);
        hit
    };
    fitting.iter().find(hit).copied().unwrap_or(0)
}

/// A run in one to three parts.
fn cut(run: Run, unit: u64, rng: &mut Rng) -> Vec<Run> {
    let units = run.len / unit;
    let mut ends: Vec<u64> = (0..rng.below(3)).map(|_| rng.below(units) * unit).filter(|end| *end > 0).collect();
    ends.push(run.len);
    ends.sort_unstable();
    ends.dedup();
    let mut start = 0;
    let part = |end: u64| {
        let part = Run { from: run.from + start, len: end - start, ..run };
        start = end;
        part
    };
    ends.into_iter().map(part).collect()
}

/// A table that `device`, on which others may lie, must not get; and what is wrong with it.
pub(super) fn draw_wrong(all: &Layouts, (device, is_used): (usize, bool), rng: &mut Rng) -> (&'static str, String) {
    let layout = &all.devices[device];
    let run = layout.runs[0];
    let (unit, below, name) = (layout.unit, all.name(run.source), &layout.name);
    let line = |start: u64, len: u64, from: u64| format!("{start} {len} linear {below} {from}\n");
    let sound = line(0, unit, run.from);
    match rng.below(10) {
        0 => ("gap", sound + &line(2 * unit, unit, run.from)),
        1 => ("overlap", sound + &line(0, unit, run.from)),
        2 => ("length 0", format!("0 0 linear {below} 0\n")),
        3 => ("unknown target", format!("0 {unit} nosuch {below} 0\n")),
        4 => ("unknown device", format!("0 {unit} linear nosuch 0\n")),
        5 => ("itself", sound + &format!("{unit} {unit} linear {name} 0\n")),
        6 => ("past the end", line(0, unit, u64::MAX - 2 * unit)),
        7 if layout.zoned && unit > 1 => ("cuts a zone", line(0, unit, run.from + unit / 2)),
        8 if is_used => ("gone", String::from("0 1 error\n")),
        _ => ("words", format!("0 {unit} linear {below} 0 too much\n")),
    }
}
