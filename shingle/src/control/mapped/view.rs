//! Verbs that look.

use std::time::Duration;

use serde_json::{Value, json};
use shingle_core::block::Figure;
use shingle_core::mapper::{Figures, MapperError, StateName};
use shingle_core::target::TARGETS;
use shingle_core::time::Duration as Span;

use super::{Found, all, find, selected};
use crate::control::fields::Fields;
use crate::control::{ControlError, DISK_MAJOR, MAPPED_MAJOR};
use crate::daemon::Census;
use crate::mailbox::Reply;
use crate::shard::Shard;

/// How long one request waits for an event: so long a client that is gone, or a daemon that stops, is not noticed.
const LONGEST_WAIT_MS: u64 = 5_000;

/// The number of a mapped device. Every shard counts from 0, so they take turns.
fn minor(census: &Census, found: &Found) -> usize {
    found.info.minor as usize * census.shards.len() + found.shard
}

pub(super) fn info_json(census: &Census, found: &Found) -> Value {
    let info = &found.info;
    let state = match info.state {
        StateName::Active => "active",
        StateName::Suspending => "suspending",
        StateName::Suspended => "suspended",
    };
    json!({
        "name": info.name,
        "uuid": info.uuid,
        "major": MAPPED_MAJOR,
        "minor": minor(census, found),
        "state": state,
        "read_only": info.is_read_only,
        "live": info.has_live,
        "inactive": info.has_inactive,
        "deferred_remove": info.is_deferred,
        "open": info.opens,
        "targets": info.targets,
        "events": info.events,
        "sectors": info.sectors,
        "shard": found.shard,
        "longest_swap_ns": info.longest_swap.as_nanos(),
    })
}

pub(super) fn info(census: &Census, mut fields: Fields) -> Result<Value, ControlError> {
    let device = fields.text("device")?;
    fields.finish()?;
    let found = selected(census, device)?;
    Ok(json!({"devices": found.iter().map(|found| info_json(census, found)).collect::<Vec<_>>()}))
}

pub(super) fn ls(census: &Census, mut fields: Fields) -> Result<Value, ControlError> {
    let target = fields.text("target")?;
    fields.finish()?;
    let (mut devices, live) = (Vec::new(), Lines::Table { inactive: false, show_keys: false });
    for found in all(census)? {
        let lines = lines_of(census, &found, live)?;
        if target.as_ref().is_none_or(|target| lines.iter().any(|line| line["target"] == *target)) {
            devices.push(json!({"name": found.info.name, "major": MAPPED_MAJOR, "minor": minor(census, &found)}));
        }
    }
    Ok(json!({"devices": devices}))
}

/// A line for each target of a device.
#[derive(Clone, Copy)]
enum Lines {
    Table { inactive: bool, show_keys: bool },
    Status { inactive: bool },
}

pub(super) fn table(census: &Census, mut fields: Fields) -> Result<Value, ControlError> {
    let (inactive, show_keys) = (fields.flag("inactive")?, fields.flag("show_keys")?);
    lines(census, fields, Lines::Table { inactive, show_keys })
}

pub(super) fn status(census: &Census, mut fields: Fields) -> Result<Value, ControlError> {
    let inactive = fields.flag("inactive")?;
    lines(census, fields, Lines::Status { inactive })
}

fn lines(census: &Census, mut fields: Fields, which: Lines) -> Result<Value, ControlError> {
    let device = fields.text("device")?;
    fields.finish()?;
    let mut devices = Vec::new();
    for found in selected(census, device)? {
        let mut device = info_json(census, &found);
        device["lines"] = json!(lines_of(census, &found, which)?);
        devices.push(device);
    }
    Ok(json!({"devices": devices}))
}

fn lines_of(census: &Census, found: &Found, which: Lines) -> Result<Vec<Value>, ControlError> {
    let name = found.info.name.clone();
    let (text, figures) = census.shards[found.shard].mailbox.ask(move |shard| -> Result<_, MapperError> {
        let (mapper, stack) = (&shard.devices.mapper, &shard.stack);
        Ok(match which {
            Lines::Table { inactive, show_keys } => (mapper.table(&name, inactive, show_keys, stack)?, Vec::new()),
            Lines::Status { inactive } => {
                (mapper.status(&name, inactive, stack)?, mapper.figures(&name, inactive, stack)?)
            }
        })
    })??;
    let mut lines: Vec<Value> = text.lines().map(line_json).collect();
    for (line, figures) in lines.iter_mut().zip(figures).filter(|(_, figures)| !figures.is_empty()) {
        line["figures"] = figures_json(figures);
    }
    Ok(lines)
}

/// The figures of a target as an object.
pub(in crate::control) fn figures_json(figures: Figures) -> Value {
    let value = |figure| match figure {
        Figure::Count(count) => json!(count),
        Figure::Ratio(ratio) => json!(ratio),
        Figure::Word(word) => json!(word),
    };
    figures.into_iter().map(|(name, figure)| (name.to_owned(), value(figure))).collect()
}

fn line_json(line: &str) -> Value {
    let mut words = line.splitn(4, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let (start, length) = (number(), number());
    let (target, arguments) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    json!({"start": start, "length": length, "target": target, "arguments": arguments})
}

pub(super) fn deps(census: &Census, mut fields: Fields) -> Result<Value, ControlError> {
    let device = fields.text("device")?;
    fields.finish()?;
    let mapped = all(census)?;
    let number_of = |name: &str| {
        let disk = census.plan.disks.iter().position(|disk| disk.name == name).map(|place| (DISK_MAJOR, place));
        let mapped =
            || mapped.iter().find(|found| found.info.name == name).map(|found| (MAPPED_MAJOR, minor(census, found)));
        disk.or_else(mapped)
    };
    let mut devices = Vec::new();
    for found in selected(census, device)? {
        let name = found.info.name.clone();
        let below = census.shards[found.shard].mailbox.ask(move |shard| -> Result<Vec<String>, MapperError> {
            let below = shard.devices.mapper.deps(&name)?;
            Ok(below.into_iter().map(|(id, _)| shard.devices.label(id)).collect())
        })??;
        let deps = below.iter().map(|name| {
            let (major, minor) = number_of(name).unzip();
            json!({"name": name, "major": major, "minor": minor})
        });
        devices.push(json!({"name": found.info.name, "deps": deps.collect::<Vec<_>>()}));
    }
    Ok(json!({"devices": devices}))
}

pub(super) fn targets(fields: Fields) -> Result<Value, ControlError> {
    fields.finish()?;
    let targets =
        TARGETS.iter().map(|target| json!({"name": target.name, "version": target.version, "usage": target.usage}));
    Ok(json!({"targets": targets.collect::<Vec<_>>()}))
}

pub(super) fn wait(census: &Census, mut fields: Fields) -> Result<Value, ControlError> {
    let (device, seen) = (fields.needed("device")?, fields.number("event_nr")?.unwrap_or(0));
    let wait_ms = fields.number("timeout_ms")?.unwrap_or(LONGEST_WAIT_MS).min(LONGEST_WAIT_MS);
    fields.finish()?;
    let found = find(census, &device)?;
    let question = move |shard: &mut Shard, reply: Reply<Result<u64, MapperError>>| {
        shard.when_event((&found.info.name, seen), Span::from_millis(wait_ms), |events| reply.send(events));
    };
    let events = census.shards[found.shard].mailbox.ask_slowly(Duration::from_millis(wait_ms), question)??;
    Ok(json!({"events": events, "passed": events > seen}))
}
