//! dmsetup's verbs on the mapped devices of all shards.

mod change;
mod view;

pub(super) use change::{clear, load, message, remove, resume};
pub(crate) use view::deps;
pub(super) use view::figures_of;

use std::sync::Mutex;

use serde_json::{Map, Value};
use shingle_core::dm::TableError;
use shingle_core::mapper::{Info, MapperError, MapperErrorKind};

use super::protocol::{
    Clear, Create, GetDeps, GetInfo, GetTable, GetTargetStatus, List, ListTargets, Load, Message, OPERATIONS,
    Operation, Remove, Rename, Resume, Suspend, Wait, WipeTable,
};
use super::serve::serve;
use super::{ControlError, ErrorKind};
use crate::config::nearest;
use crate::daemon_state::DaemonState;
use crate::mailbox::MailboxError;

/// A mapped device, and the shard that it lives on.
struct Found {
    shard: usize,
    info: Info,
}

/// Runs a verb, or says which operations there are. `naming` is held by those who give out a new name.
pub(super) fn run(
    op: &str,
    daemon: &DaemonState,
    fields: Map<String, Value>,
    naming: &Mutex<()>,
) -> Result<Value, ControlError> {
    match op {
        Create::NAME => serve(fields, |request| change::create(daemon, request, naming)),
        Load::NAME => serve(fields, |request| change::load(daemon, &request)),
        Clear::NAME => serve(fields, |request| change::clear(daemon, &request)),
        Suspend::NAME => serve(fields, |Suspend(request)| change::suspend(daemon, &request)),
        Resume::NAME => serve(fields, |Resume(request)| change::resume(daemon, &request)),
        WipeTable::NAME => serve(fields, |WipeTable(request)| change::wipe_table(daemon, &request)),
        Remove::NAME => serve(fields, |request| change::remove(daemon, &request)),
        Rename::NAME => serve(fields, |request| change::rename(daemon, request, naming)),
        Message::NAME => serve(fields, |request| change::message(daemon, &request)),
        Wait::NAME => serve(fields, |request| view::wait(daemon, &request)),
        GetTable::NAME => serve(fields, |request| view::table(daemon, request)),
        GetTargetStatus::NAME => serve(fields, |request| view::status(daemon, request)),
        GetInfo::NAME => serve(fields, |request| view::info(daemon, request)),
        List::NAME => serve(fields, |request| view::ls(daemon, &request)),
        GetDeps::NAME => serve(fields, |request| view::deps(daemon, request)),
        ListTargets::NAME => serve(fields, |ListTargets {}| Ok(view::targets())),
        _ => {
            let message = format!("unknown operation `{op}`; known are: {}", OPERATIONS.join(", "));
            Err(ControlError::new(ErrorKind::UnknownOp, message))
        }
    }
}

/// All mapped devices, by name.
fn all(daemon: &DaemonState) -> Result<Vec<Found>, MailboxError> {
    let mut found = Vec::new();
    for (number, shard) in daemon.shards.iter().enumerate() {
        let infos = shard.mailbox.ask(|shard| shard.devices.mapper.infos(&shard.stack))?;
        found.extend(infos.into_iter().map(|info| Found { shard: number, info }));
    }
    // As the kernel lists them (`drivers/md/dm-ioctl.c:list_devices`).
    found.sort_by(|a, b| a.info.name.cmp(&b.info.name));
    Ok(found)
}

/// The mapped device with this name or UUID.
fn find(daemon: &DaemonState, name: &str) -> Result<Found, ControlError> {
    match lookup(daemon, name)? {
        Some(found) => Ok(found),
        None => {
            let found = all(daemon)?;
            let names: Vec<&str> = found.iter().map(|found| found.info.name.as_str()).collect();
            let hint = nearest(name, names.iter().copied()).map_or(String::new(), |n| format!("did you mean `{n}`? "));
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let message = format!("there is no mapped device `{name}`; {hint}there are: {names}");
            Err(ControlError::new(ErrorKind::UnknownDevice, message))
        }
    }
}

/// The same; `None` if there is none. A name comes before a UUID, whatever the shard.
fn lookup(daemon: &DaemonState, name: &str) -> Result<Option<Found>, MailboxError> {
    let mut by_uuid = None;
    for (number, shard) in daemon.shards.iter().enumerate() {
        let wanted = name.to_owned();
        let info = shard.mailbox.ask(move |shard| shard.devices.mapper.info_if_any(&wanted, &shard.stack))?;
        match info.map(|info| Found { shard: number, info }) {
            Some(found) if found.info.name == name => return Ok(Some(found)),
            found => by_uuid = by_uuid.or(found),
        }
    }
    Ok(by_uuid)
}

/// The device that a request names, or all of them if it names none.
fn selected(daemon: &DaemonState, device: Option<String>) -> Result<Vec<Found>, ControlError> {
    match device {
        Some(name) => Ok(vec![find(daemon, &name)?]),
        None => Ok(all(daemon)?),
    }
}

impl From<MapperError> for ControlError {
    fn from(error: MapperError) -> Self {
        let kind = match error.kind {
            MapperErrorKind::Unknown => ErrorKind::UnknownDevice,
            MapperErrorKind::Exists => ErrorKind::Exists,
            MapperErrorKind::Busy => ErrorKind::Busy,
            MapperErrorKind::NoTable => ErrorKind::NoTable,
            MapperErrorKind::Table => ErrorKind::Table,
            MapperErrorKind::NotReady => ErrorKind::NotReady,
            MapperErrorKind::Invalid => ErrorKind::Invalid,
        };
        ControlError { table: error.table, ..ControlError::new(kind, error.message) }
    }
}

/// A table that cannot be read.
fn wrong_table(device: &str, error: TableError) -> ControlError {
    let message = format!("the table of `{device}` is wrong: {error}");
    ControlError { table: Some(error), ..ControlError::new(ErrorKind::Table, message) }
}
