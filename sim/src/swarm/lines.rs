//! Tables for a layout: the same sectors in ever other lines, and tables that are wrong.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::layout::{Form, Layout, Layouts, Run};
use super::scenario::draw_faulty;
use crate::choices::{Choice, Choices};

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

/// Where a line stands.
pub(super) struct Spot<'a> {
    /// How the mapped device is made.
    form: Form,
    /// The device below, by its number and by its name.
    source: usize,
    pub device: &'a str,
    /// First sector on that device.
    pub from: u64,
    /// First sector on the mapped device.
    pub start: u64,
}

/// A target that can stand in the place of a `linear` line.
#[derive(Debug)]
pub(super) struct Drawable {
    /// Its name in tables.
    pub target: &'static str,
    /// Of how many lines so many are this.
    pub weight: u64,
    pub over: Over,
    pub does: Does,
    pub arguments: Arguments,
    /// What can be said to it, with commas between.
    pub messages: &'static str,
}

/// A target's arguments.
type Arguments = fn(&Spot<'_>, &mut Choices) -> String;

/// What a target can stand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Anything,
    /// Devices without zones.
    Regular,
    /// The same, from the first sector on.
    WholeRegular,
    /// Anything, where data is kept encrypted; there others would show ciphertext.
    Ciphertext,
}

/// The targets that a world draws from. A new one is a line here.
pub(super) const DRAWABLE: &[Drawable] = &[
    drawable("linear", 10, Over::Anything, Does::Nothing, place),
    drawable("faulty", 3, Over::Anything, Does::Nothing, late),
    drawable("delay", 4, Over::Anything, Does::Nothing, delay),
    drawable("flakey", 1, Over::Anything, Does::Nothing, up),
    drawable("log-writes", 3, Over::WholeRegular, Does::Nothing, logged),
    drawable("crypt", 20, Over::Ciphertext, Does::Nothing, crypt),
    drawable("faulty", 2, Over::Anything, Does::Fails, faulty),
    drawable("flakey", 1, Over::Anything, Does::Fails, down),
    Drawable { messages: DUST, ..drawable("dust", 3, Over::Regular, Does::Fails, dust) },
    drawable("error", 1, Over::Anything, Does::FailsAll, place),
];

/// What can be said to `dust`.
const DUST: &str = "addbadblock 0, addbadblock 2 1, addbadblock 5 3, removebadblock 0, enable, enable, disable, \
    countbadblocks, clearbadblocks";

const fn drawable(target: &'static str, weight: u64, over: Over, does: Does, arguments: Arguments) -> Drawable {
    Drawable { target, weight, over, does, arguments, messages: "" }
}

fn place(Spot { device, from, .. }: &Spot<'_>, _: &mut Choices) -> String {
    format!("{device} {from}")
}

fn faulty(spot: &Spot<'_>, choices: &mut Choices) -> String {
    let rules = choices.decide("rules", (String::from("seed=0"), &[]), |rng| draw_faulty(rng.below(1 << 32)));
    format!("{} {rules}", place(spot, choices))
}

/// Completions that come late.
fn late(spot: &Spot<'_>, choices: &mut Choices) -> String {
    let op = choices.one("op", &["any", "data", "write", "append", "read", "flush+report", "reset+finish+reset-all"]);
    let time = choices.one("time", &["1us", "70us", "3ms"]);
    let (seed, rate) = (choices.below("seed", 1000), choices.between("rate", 1, 10));
    format!("{} seed={seed} delay,op={op},time={time},rate=1/{rate}", place(spot, choices))
}

/// Bios that go on late, all or some classes of them.
fn delay(spot: &Spot<'_>, choices: &mut Choices) -> String {
    let classes = choices.between("classes", 1, 3).clamp(1, 3);
    let mut class = |_| format!("{} {}", place(spot, choices), choices.one("delay-ms", &[0_u32, 1, 2, 5]));
    (0..classes).map(&mut class).collect::<Vec<String>>().join(" ")
}

/// A device that is up for longer than any world lasts.
fn up(spot: &Spot<'_>, choices: &mut Choices) -> String {
    format!("{} 100000 {}", place(spot, choices), choices.below("down-s", 2))
}

/// A device that is down now and then, or always.
fn down(spot: &Spot<'_>, choices: &mut Choices) -> String {
    let features = choices.one("features", &["", "1 error_reads", "1 error_writes", "2 error_reads error_writes"]);
    format!("{} {} 1 {features}", place(spot, choices), choices.below("up-s", 2))
}

fn logged(Spot { device, .. }: &Spot<'_>, _: &mut Choices) -> String {
    format!("{device} {LOG}")
}

fn dust(spot: &Spot<'_>, choices: &mut Choices) -> String {
    format!("{} 4096", place(spot, choices))
}

/// The same bytes below, however the device is cut: the IV goes on from line to line.
fn crypt(Spot { device, from, start, .. }: &Spot<'_>, _: &mut Choices) -> String {
    format!("aes-xts-plain64 {KEY} {start} {device} {from}")
}

/// A disk for logs.
pub(super) const LOG: &str = "log";
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

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
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub start: u64,
    pub len: u64,
    pub sources: Vec<usize>,
    pub target: &'static str,
    pub does: Does,
    pub messages: &'static str,
}

/// A table that maps what `device` maps, and what its lines do.
pub(super) fn choose_table(all: &Layouts, device: usize, mood: Mood, choices: &mut Choices) -> (String, Vec<Line>) {
    let layout = &all.devices[device];
    let stripes = match layout.form {
        Form::Wide(chunk) => return choose_wide(all, layout, chunk, choices),
        Form::Stripes(stripes) if mood != Mood::Dead && choices.chance("striped", 1, 2) => stripes,
        _ => 0,
    };
    if stripes > 0 {
        let chunk = layout.runs[0].len;
        return striped(all, (0, layout.sectors()), chunk, &layout.runs[..stripes]);
    }
    let (mut text, mut lines, mut start) = (String::new(), Vec::<Line>::new(), 0);
    for run in &layout.runs {
        for Run { source, from, len } in cut(*run, layout.unit, choices) {
            let spot = Spot { form: layout.form, source, device: all.name(source), from, start };
            let (kind, arguments) = choices.scoped("line", lines.len() as u64 + 1, |choices| {
                let kind = choose_kind(all, &spot, mood, choices);
                (kind, (kind.arguments)(&spot, choices))
            });
            let Drawable { target, does, messages, .. } = kind;
            text += &format!("{start} {len} {target} {arguments}\n");
            lines.push(Line { start, len, sources: Vec::from([source]), target, does: *does, messages });
            start += len;
        }
    }
    (text, lines)
}

/// A line of stripes, which begin where `parts` do.
fn striped(all: &Layouts, (start, len): (u64, u64), chunk: u64, parts: &[Run]) -> (String, Vec<Line>) {
    let mut text = format!("{start} {len} striped {} {chunk}", parts.len());
    parts.iter().for_each(|part| text += &format!(" {} {}", all.name(part.source), part.from));
    let sources = parts.iter().map(|part| part.source).collect();
    let line = Line { start, len, sources, target: "striped", does: Does::Nothing, messages: "" };
    (text + "\n", Vec::from([line]))
}

/// Wide zones, in one line or two.
fn choose_wide(all: &Layouts, layout: &Layout, chunk: u64, choices: &mut Choices) -> (String, Vec<Line>) {
    let (zones, stripes) = (layout.sectors() / layout.unit, layout.runs.len() as u64);
    let at = choices.below("cut-at-zone", zones) * layout.unit;
    let part = |start: u64, end: u64| {
        let runs: Vec<Run> = layout.runs.iter().map(|run| Run { from: run.from + start / stripes, ..*run }).collect();
        striped(all, (start, end - start), chunk, &runs)
    };
    let (text, lines) = part(at, layout.sectors());
    if at == 0 {
        return (text, lines);
    }
    let (first_text, first) = part(0, at);
    (first_text + &text, [first, lines].concat())
}

/// A target is known by its name and by what it does.
impl PartialEq for Drawable {
    fn eq(&self, other: &Self) -> bool {
        (self.target, self.does) == (other.target, other.does)
    }
}

/// `faulty:Fails`.
impl Choice for &'static Drawable {
    fn word(&self) -> String {
        format!("{}:{:?}", self.target, self.does)
    }
}

fn choose_kind(all: &Layouts, spot: &Spot<'_>, mood: Mood, choices: &mut Choices) -> &'static Drawable {
    let is_crypt = spot.form == Form::Crypt;
    let stands = |over: Over, does: Does| match over {
        _ if does == Does::FailsAll => true,
        Over::Ciphertext => is_crypt,
        _ if is_crypt => false,
        Over::Anything => true,
        Over::Regular => !all.is_zoned(spot.source),
        Over::WholeRegular => !all.is_zoned(spot.source) && spot.from == 0,
    };
    let fits = |target: &&Drawable| match mood {
        _ if !stands(target.over, target.does) => false,
        Mood::Calm => target.does == Does::Nothing,
        Mood::Rough => true,
        Mood::Dead => target.does == Does::FailsAll,
    };
    let fitting: Vec<&'static Drawable> = DRAWABLE.iter().filter(fits).collect();
    let weights: Vec<u64> = fitting.iter().map(|target| target.weight).collect();
    choices.weighted("target", &fitting, &weights)
}

/// A run in one to three parts.
fn cut(run: Run, unit: u64, choices: &mut Choices) -> Vec<Run> {
    let units = run.len / unit;
    let cuts = choices.decide("cuts", (Vec::new(), &[]), |rng| {
        (0..rng.below(3)).map(|_| rng.below(units)).filter(|at| *at > 0).collect()
    });
    let mut ends: Vec<u64> = cuts.into_iter().filter(|at| (1..units).contains(at)).map(|at| at * unit).collect();
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
pub(super) fn choose_wrong(
    all: &Layouts,
    (device, is_used): (usize, bool),
    choices: &mut Choices,
) -> (&'static str, String) {
    let layout = &all.devices[device];
    let run = layout.runs[0];
    let (unit, below, name) = (layout.unit, all.name(run.source), &layout.name);
    let line = |start: u64, len: u64, from: u64| format!("{start} {len} linear {below} {from}\n");
    let sound = line(0, unit, run.from);
    let wrongs = [
        "gap",
        "overlap",
        "length 0",
        "unknown target",
        "unknown device",
        "itself",
        "past the end",
        "cuts a zone",
        "gone",
        "words",
    ];
    match choices.one("wrong", &wrongs) {
        "gap" => ("gap", sound + &line(2 * unit, unit, run.from)),
        "overlap" => ("overlap", sound + &line(0, unit, run.from)),
        "length 0" => ("length 0", format!("0 0 linear {below} 0\n")),
        "unknown target" => ("unknown target", format!("0 {unit} nosuch {below} 0\n")),
        "unknown device" => ("unknown device", format!("0 {unit} linear nosuch 0\n")),
        "itself" => ("itself", sound + &format!("{unit} {unit} linear {name} 0\n")),
        "past the end" => ("past the end", line(0, unit, u64::MAX - 2 * unit)),
        "cuts a zone" if layout.zoned => ("cuts a zone", line(0, unit, run.from + unit / 4)),
        "gone" if is_used => ("gone", String::from("0 1 error\n")),
        _ => ("words", format!("0 {unit} linear {below} 0 too much\n")),
    }
}
