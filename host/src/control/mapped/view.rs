//! Verbs that look.

use std::time::Duration;

use shingle_core::block::Figure;
use shingle_core::dm::{TARGETS, TargetType};
use shingle_core::mapper::{MapperError, StateName};
use shingle_core::time::Duration as Span;

use super::{Found, all, find, selected};
use crate::control::protocol::{
    Dep, Deps, Devices, Events, Figures, GetDeps, GetInfo, GetTable, GetTargetStatus, List, Listed, MappedDevice,
    State, Target, TargetLine, Targets, Wait,
};
use crate::control::{ControlError, DISK_MAJOR, MAPPED_MAJOR};
use crate::daemon_state::DaemonState;
use crate::mailbox::Reply;
use crate::shard::Shard;

/// How long one request waits for an event: so long a client that is gone, or a daemon that stops, is not noticed.
const LONGEST_WAIT_MS: u64 = 5_000;

/// The number of a mapped device. Every shard counts from 0, so they take turns.
fn minor(daemon: &DaemonState, found: &Found) -> usize {
    found.info.minor as usize * daemon.shards.len() + found.shard
}

pub(super) fn show(daemon: &DaemonState, found: &Found) -> MappedDevice {
    let info = &found.info;
    let state = match info.state {
        StateName::Active => State::Active,
        StateName::Suspending => State::Suspending,
        StateName::Suspended => State::Suspended,
    };
    MappedDevice {
        name: info.name.clone(),
        uuid: info.uuid.clone(),
        major: MAPPED_MAJOR,
        minor: minor(daemon, found),
        state,
        read_only: info.is_read_only,
        live: info.has_live,
        inactive: info.has_inactive,
        deferred_remove: info.is_deferred,
        open: info.opens,
        targets: info.targets,
        events: info.events,
        sectors: info.sectors,
        shard: found.shard,
        longest_swap_ns: info.longest_swap.as_nanos(),
        lines: None,
    }
}

pub(super) fn info(daemon: &DaemonState, GetInfo { device }: GetInfo) -> Result<Devices<MappedDevice>, ControlError> {
    let found = selected(daemon, device)?;
    Ok(Devices { devices: found.iter().map(|found| show(daemon, found)).collect() })
}

pub(super) fn ls(daemon: &DaemonState, List { target }: &List) -> Result<Devices<Listed>, ControlError> {
    let (mut devices, live) = (Vec::new(), Lines::Table { inactive: false, show_keys: false });
    for found in all(daemon)? {
        let lines = lines_of(daemon, &found, live)?;
        if target.as_ref().is_none_or(|target| lines.iter().any(|line| line.target == *target)) {
            let minor = minor(daemon, &found);
            devices.push(Listed { name: found.info.name, major: MAPPED_MAJOR, minor });
        }
    }
    Ok(Devices { devices })
}

/// A line for each target of a device.
#[derive(Clone, Copy)]
enum Lines {
    Table { inactive: bool, show_keys: bool },
    Status { inactive: bool },
}

pub(super) fn table(daemon: &DaemonState, request: GetTable) -> Result<Devices<MappedDevice>, ControlError> {
    let GetTable { device, inactive, show_keys } = request;
    lines(daemon, device, Lines::Table { inactive, show_keys })
}

pub(super) fn status(daemon: &DaemonState, request: GetTargetStatus) -> Result<Devices<MappedDevice>, ControlError> {
    lines(daemon, request.device, Lines::Status { inactive: request.inactive })
}

fn lines(daemon: &DaemonState, device: Option<String>, which: Lines) -> Result<Devices<MappedDevice>, ControlError> {
    let with_lines = |found: Found| {
        let lines = Some(lines_of(daemon, &found, which)?);
        Ok(MappedDevice { lines, ..show(daemon, &found) })
    };
    let devices = selected(daemon, device)?.into_iter().map(with_lines).collect::<Result<_, ControlError>>()?;
    Ok(Devices { devices })
}

fn lines_of(daemon: &DaemonState, found: &Found, which: Lines) -> Result<Vec<TargetLine>, ControlError> {
    let name = found.info.name.clone();
    let (text, figures) = daemon.shards[found.shard].mailbox.ask(move |shard| -> Result<_, MapperError> {
        let (mapper, stack) = (&shard.devices.mapper, &shard.stack);
        Ok(match which {
            Lines::Table { inactive, show_keys } => (mapper.table(&name, inactive, show_keys, stack)?, Vec::new()),
            Lines::Status { inactive } => {
                (mapper.status(&name, inactive, stack)?, mapper.figures(&name, inactive, stack)?)
            }
        })
    })??;
    let mut lines: Vec<TargetLine> = text.lines().map(line).collect();
    let figures = figures.into_iter().map(|(_, figures)| figures);
    for (line, figures) in lines.iter_mut().zip(figures).filter(|(_, figures)| !figures.is_empty()) {
        line.figures = Some(figures_of(figures));
    }
    Ok(lines)
}

/// The figures of a target as an object.
pub(in crate::control) fn figures_of(figures: shingle_core::mapper::Figures) -> Figures {
    let value = |figure| match figure {
        Figure::Count(count) => count.into(),
        Figure::Ratio(ratio) => ratio.into(),
        Figure::Word(word) => word.into(),
    };
    figures.into_iter().map(|(name, figure)| (name.to_owned(), value(figure))).collect()
}

fn line(text: &str) -> TargetLine {
    let mut words = text.splitn(4, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
    let (start, length) = (number(), number());
    let mut word = || words.next().unwrap_or_default().to_owned();
    TargetLine { start, length, target: word(), arguments: word(), figures: None }
}

pub(crate) fn deps(daemon: &DaemonState, GetDeps { device }: GetDeps) -> Result<Devices<Deps>, ControlError> {
    let mapped = all(daemon)?;
    let number_of = |name: &str| {
        let disk = daemon.plan().disks.iter().position(|disk| disk.name == name).map(|place| (DISK_MAJOR, place));
        let mapped =
            || mapped.iter().find(|found| found.info.name == name).map(|found| (MAPPED_MAJOR, minor(daemon, found)));
        disk.or_else(mapped)
    };
    let mut devices = Vec::new();
    for found in selected(daemon, device)? {
        let name = found.info.name.clone();
        let below = daemon.shards[found.shard].mailbox.ask(move |shard| -> Result<Vec<String>, MapperError> {
            let below = shard.devices.mapper.deps(&name)?;
            Ok(below.into_iter().map(|(id, _)| shard.devices.label(id)).collect())
        })??;
        let dep = |name: String| {
            let (major, minor) = number_of(&name).unzip();
            Dep { name, major, minor }
        };
        devices.push(Deps { name: found.info.name, deps: below.into_iter().map(dep).collect() });
    }
    Ok(Devices { devices })
}

pub(super) fn targets() -> Targets {
    let target =
        |target: &&TargetType| Target { name: target.name.into(), version: target.version, usage: target.usage.into() };
    Targets { targets: TARGETS.iter().map(target).collect() }
}

pub(super) fn wait(daemon: &DaemonState, request: &Wait) -> Result<Events, ControlError> {
    let (found, seen) = (find(daemon, &request.device)?, request.event_nr);
    let wait_ms = request.timeout_ms.unwrap_or(LONGEST_WAIT_MS).min(LONGEST_WAIT_MS);
    let question = move |shard: &mut Shard, reply: Reply<Result<u64, MapperError>>| {
        shard.when_event((&found.info.name, seen), Span::from_millis(wait_ms), |events| reply.send(events));
    };
    let events = daemon.shards[found.shard].mailbox.ask_slowly(Duration::from_millis(wait_ms), question)??;
    Ok(Events { events, passed: events > seen })
}
