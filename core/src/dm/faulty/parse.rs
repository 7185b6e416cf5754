//! Rules as words of a table line: `error,op=write,rate=1/100,status=medium`. What they mean is in `docs/stack-file.md`.

use core::ops::Range;

use super::{FaultyAction, FaultyRule, OpSet, Trigger, Window};
use crate::block::{Op, Status};
use crate::prelude::*;
use crate::time::Duration;

/// Names of operations in rules.
const OPS: [(&str, &[Op]); 14] = [
    ("read", &[Op::Read]),
    ("write", &[Op::Write]),
    ("append", &[Op::ZoneAppend]),
    ("write-zeroes", &[Op::WriteZeroes]),
    ("discard", &[Op::Discard]),
    ("flush", &[Op::Flush]),
    ("report", &[Op::ReportZones]),
    ("open", &[Op::ZoneOpen]),
    ("close", &[Op::ZoneClose]),
    ("finish", &[Op::ZoneFinish]),
    ("reset", &[Op::ZoneReset]),
    ("reset-all", &[Op::ZoneResetAll]),
    ("data", &[Op::Read, Op::Write, Op::ZoneAppend, Op::WriteZeroes]),
    ("any", &Op::ALL),
];

/// Names of errors in rules.
const STATUSES: [(&str, Status); 8] = [
    ("io", Status::Io),
    ("medium", Status::Medium),
    ("target", Status::Target),
    ("transport", Status::Transport),
    ("timeout", Status::Timeout),
    ("no-space", Status::NoSpace),
    ("busy", Status::DeviceResource),
    ("read-only", Status::ReadOnly),
];

/// Reads `[seed=N] RULE...`; an error names the place of the word that is to blame.
pub(super) fn parse_faulty(words: &[&str]) -> Result<(u64, Vec<FaultyRule>), (usize, String)> {
    let (mut seed, mut rules) = (0, Vec::new());
    for (place, word) in words.iter().enumerate() {
        let parsed = match word.strip_prefix("seed=") {
            Some(number) => parse_number(number).map(|number| seed = number),
            None => parse_rule(word).map(|rule| rules.push(rule)),
        };
        parsed.map_err(|message| (place, message))?;
    }
    Ok((seed, rules))
}

fn parse_rule(word: &str) -> Result<FaultyRule, String> {
    let mut parts = word.split(',');
    let name = parts.next().unwrap_or_default();
    let mut trigger = Trigger::default();
    let (mut status, mut time) = (None, None);
    let mut seen = Vec::new();
    for pair in parts {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is no key=value"))?;
        if seen.contains(&key) {
            return Err(format!("`{key}` stands twice in one rule"));
        }
        seen.push(key);
        match key {
            "op" => trigger.ops = parse_ops(value)?,
            "at" => trigger.sectors = parse_sectors(value)?,
            "rate" => trigger.rate = parse_rate(value)?,
            "skip" => trigger.skip = parse_number(value)?,
            "count" => trigger.count = Some(parse_number(value)?),
            "window" => trigger.window = Some(parse_window(value)?),
            "status" if name.starts_with("error") => status = Some(find("status", value, &STATUSES)?),
            "time" if name == "delay" => time = Some(parse_time(value)?),
            "timeout" if name == "lose" => time = Some(parse_time(value)?),
            _ => {
                return Err(format!(
                    "`{name}` has no `{key}`; keys are op, at, rate, skip, count, window{}",
                    own(name)
                ));
            }
        }
    }
    let error = status.unwrap_or(Status::Io);
    let action = match (name, time) {
        ("error", _) => FaultyAction::Error(error),
        ("error-after", _) => FaultyAction::ErrorAfter(error),
        ("delay", Some(time)) => FaultyAction::Delay(time),
        ("delay", None) => return Err("delay needs a time, as in delay,time=5ms".to_string()),
        ("lose", time) => FaultyAction::Lose(time.unwrap_or(Duration::from_millis(30_000))),
        _ => return Err(format!("unknown rule `{name}`; rules are error, error-after, delay, lose")),
    };
    Ok(FaultyRule { trigger, action })
}

/// The key that only this rule has.
fn own(rule: &str) -> &'static str {
    match rule {
        "error" | "error-after" => ", status",
        "delay" => ", time",
        "lose" => ", timeout",
        _ => "",
    }
}

fn find<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("unknown {what} `{name}`; use one of: {}", names.join(", "))
    })
}

fn parse_ops(text: &str) -> Result<OpSet, String> {
    let sets = text.split('+').map(|name| find("operation", name, &OPS).map(OpSet::of));
    sets.reduce(|a, b| Ok(a?.with(b?))).unwrap_or(Ok(OpSet::ALL))
}

/// `first-last`, or one sector.
fn parse_sectors(text: &str) -> Result<Range<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse_number(first)?, parse_number(last)?);
    let end = last.checked_add(1).filter(|end| first < *end);
    end.map(|end| first..end).ok_or_else(|| format!("`{text}` is no range of sectors, as in 1024-2047"))
}

fn parse_rate(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("`{text}` is no rate, as in 1/100");
    let (of, n) = text.split_once('/').ok_or_else(wrong)?;
    let (of, n) = (parse_number(of)?, parse_number(n)?);
    if of <= n && n > 0 { Ok((of, n)) } else { Err(wrong()) }
}

/// `active/period`.
fn parse_window(text: &str) -> Result<Window, String> {
    let wrong = || format!("`{text}` is no window, as in 5s/60s: five seconds of every minute");
    let (active, period) = text.split_once('/').ok_or_else(wrong)?;
    let window = Window { active: parse_time(active)?, period: parse_time(period)? };
    let fits = window.active.0 > 0 && window.active.0 <= window.period.0;
    if fits { Ok(window) } else { Err(wrong()) }
}

fn parse_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time: write a number and ns, us, ms or s, as in 500ms");
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| wrong())?;
    let ns = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(ns).map(Duration).ok_or_else(wrong)
}
