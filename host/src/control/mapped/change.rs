//! Verbs that change something.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shingle_core::dm::{TableError, TableLine, parse_table, split_words};
use shingle_core::mapper::{MapperError, Ticket};
use shingle_core::time::Duration as Span;

use super::view::show;
use super::{Found, find, lookup, wrong_table};
use crate::control::protocol::{Answered, Clear, Create, Done, Drain, Load, MappedDevice, Message, Remove, Rename};
use crate::control::{ControlError, ErrorKind, bad};
use crate::daemon_state::DaemonState;
use crate::devices::MappedName;
use crate::dmz::find_length;
use crate::mailbox::{MailboxError, Reply};
use crate::serve::Export;
use crate::shard::Shard;

/// Most mapped devices of a daemon.
const MOST_DEVICES: usize = 4096;
/// How long a device may take to become idle, unless a request says otherwise.
const PATIENCE_MS: u64 = 5_000;
/// The longest that a request may say: clients of the socket have patience for little more.
const MOST_PATIENCE_MS: u64 = 20_000;

pub(super) fn create(daemon: &DaemonState, request: Create, naming: &Mutex<()>) -> Result<MappedDevice, ControlError> {
    let Create { name, uuid, table, read_only } = request;
    let uuid = uuid.unwrap_or_default();
    let mut lines = table.map(|text| parse_table(&text)).transpose().map_err(|error| wrong_table(&name, error))?;
    let _one_at_a_time = naming.lock().unwrap_or_else(PoisonError::into_inner);
    check_free(daemon, &name, &uuid)?;
    check_room(daemon)?;
    let number = home_of(daemon, (&name, None), lines.as_deref().unwrap_or_default())?;
    let set = lines.as_deref_mut().map(|lines| find_length(lines, &daemon.shards[number].mailbox)).transpose();
    let set = set.map_err(|error| wrong_table(&name, error))?.flatten();
    let uuid = if uuid.is_empty() { set.unwrap_or(uuid) } else { uuid };
    let info = daemon.shards[number].mailbox.ask(move |shard| {
        let now = shard.now();
        match lines {
            Some(lines) => {
                let identity = MappedName { name: &name, uuid: &uuid };
                shard.devices.make(identity, lines, read_only, (&mut shard.stack, now))?
            }
            None => shard.devices.mapper.create(&name, &uuid)?,
        }
        shard.devices.mapper.info(&name, &shard.stack)
    })??;
    Ok(show(daemon, &Found { shard: number, info }))
}

/// A name is taken by a disk or a mapped device of any shard.
fn check_free(daemon: &DaemonState, name: &str, uuid: &str) -> Result<(), ControlError> {
    let is_disk = daemon.plan().disks.iter().any(|disk| disk.name == name);
    let by_name = lookup(daemon, name)?.filter(|found| found.info.name == name);
    let by_uuid = lookup(daemon, uuid)?.filter(|found| found.info.uuid == uuid);
    if !is_disk && by_name.is_none() && by_uuid.is_none() {
        return Ok(());
    }
    let what = if is_disk { "a disk of that name exists" } else { "a device of that name or UUID exists" };
    let message = format!("`{name}` is taken: {what}; choose another one");
    Err(ControlError::new(ErrorKind::Exists, message))
}

fn check_room(daemon: &DaemonState) -> Result<(), ControlError> {
    let mut devices = 0;
    for shard in &daemon.shards {
        devices += shard.mailbox.ask(|shard| shard.devices.mapper.len())?;
    }
    if devices < MOST_DEVICES {
        return Ok(());
    }
    let message = format!("there are {MOST_DEVICES} mapped devices, which is the most: remove some");
    Err(ControlError::new(ErrorKind::Invalid, message))
}

/// The shard of a device, by what its table names: all of that has to be on one shard, and on that of the device if it has one
/// already.
fn home_of(
    daemon: &DaemonState,
    (device, already): (&str, Option<usize>),
    lines: &[TableLine],
) -> Result<usize, ControlError> {
    let named = lines.iter().flat_map(|line| line.target.devices().into_iter().map(move |arg| (line.number, arg)));
    let mut home = already.map(|shard| (device, shard));
    for (line, arg) in named {
        let Some(shard) = place_of(daemon, &arg.name)? else { continue };
        let (first, its) = *home.get_or_insert((&arg.name, shard));
        if its != shard {
            let message = format!(
                "`{first}` is on shard {its} and `{}` on shard {shard}: a device lies on one shard; give their disks the \
                 same `shard` in the stack file",
                arg.name
            );
            return Err(wrong_table(device, TableError { line, word: Some(arg.word), message }));
        }
    }
    Ok(home.map_or(0, |(_, shard)| shard))
}

/// The shard of what a table calls `name`.
fn place_of(daemon: &DaemonState, name: &str) -> Result<Option<usize>, MailboxError> {
    match lookup(daemon, name)? {
        Some(found) => Ok(Some(found.shard)),
        None => Ok(daemon.plan().disk(name).map(|disk| disk.shard as usize)),
    }
}

pub(in crate::control) fn load(
    daemon: &DaemonState,
    Load { device, table, read_only }: &Load,
) -> Result<Done, ControlError> {
    let Found { shard: number, info } = find(daemon, device)?;
    let mut lines = parse_table(table).map_err(|error| wrong_table(&info.name, error))?;
    home_of(daemon, (&info.name, Some(number)), &lines)?;
    let found = find_length(&mut lines, &daemon.shards[number].mailbox);
    found.map_err(|error| wrong_table(&info.name, error))?;
    let read_only = *read_only;
    let load = move |shard: &mut Shard| shard.devices.load(&info.name, lines, read_only, &mut shard.stack);
    daemon.shards[number].mailbox.ask(load)??;
    Ok(Done {})
}

pub(in crate::control) fn clear(daemon: &DaemonState, Clear { device }: &Clear) -> Result<Done, ControlError> {
    let found = find(daemon, device)?;
    let clear = move |shard: &mut Shard| shard.devices.mapper.clear(&found.info.name, &mut shard.stack);
    daemon.shards[found.shard].mailbox.ask(clear)??;
    Ok(Done {})
}

pub(super) fn suspend(daemon: &DaemonState, request: &Drain) -> Result<Done, ControlError> {
    drain(daemon, request, |shard, name, noflush| shard.devices.mapper.suspend(name, noflush, &mut shard.stack))
}

pub(in crate::control) fn resume(daemon: &DaemonState, request: &Drain) -> Result<Done, ControlError> {
    let done = drain(daemon, request, |shard, name, noflush| shard.devices.resume(name, noflush, &mut shard.stack))?;
    // Exports above may consist of something else now.
    let shard = find(daemon, &request.device)?.shard;
    for export in daemon.exports.exports().iter().filter(|export| export.shard == shard) {
        daemon.services.iter().for_each(|service| service.recall(export));
    }
    Ok(done)
}

pub(super) fn wipe_table(daemon: &DaemonState, request: &Drain) -> Result<Done, ControlError> {
    drain(daemon, request, wipe)
}

fn wipe(shard: &mut Shard, name: &str, noflush: bool) -> Result<Ticket, MapperError> {
    shard.devices.load_error(name, &mut shard.stack)?;
    shard.devices.mapper.resume(name, noflush, &mut shard.stack)
}

/// A verb that is done when the device is drained.
type Begin = fn(&mut Shard, &str, bool) -> Result<Ticket, MapperError>;

fn drain(
    daemon: &DaemonState,
    Drain { device, noflush, timeout_ms }: &Drain,
    begin: Begin,
) -> Result<Done, ControlError> {
    let patience_ms = patience(*timeout_ms)?;
    carry_out(daemon, &find(daemon, device)?, (begin, *noflush), patience_ms)?;
    Ok(Done {})
}

fn patience(timeout_ms: Option<u64>) -> Result<u64, ControlError> {
    match timeout_ms.unwrap_or(PATIENCE_MS) {
        ms @ ..=MOST_PATIENCE_MS => Ok(ms),
        ms => Err(bad(format!("`timeout_ms` is {ms}: at most {MOST_PATIENCE_MS}"))),
    }
}

/// Begins a verb and waits for its end, or until it is given up.
fn carry_out(
    daemon: &DaemonState,
    found: &Found,
    (begin, noflush): (Begin, bool),
    patience_ms: u64,
) -> Result<(), ControlError> {
    let shard = &daemon.shards[found.shard];
    let (name, place) = (found.info.name.clone(), found.info.device);
    let (number, exports) = (found.shard, daemon.exports.clone());
    let question = move |shard: &mut Shard, reply: Reply<Result<(), MapperError>>| match begin(shard, &name, noflush) {
        Err(error) => reply.send(Err(error)),
        Ok(ticket) => {
            shard.when_changed((&name, ticket), Span::from_millis(patience_ms), move |shard, result| {
                // Another table can have another size: the next client has to see it. What had no place yet is not exported.
                if let Some(id) = place {
                    exports.refresh(number, id, shard.stack.limits(id));
                }
                reply.send(result);
            });
        }
    };
    shard.mailbox.ask_slowly(Duration::from_millis(patience_ms), question)??;
    let of_it = |export: &Export| (export.shard, Some(export.device)) == (number, place);
    for export in daemon.exports.exports().iter().filter(|export| of_it(export)) {
        daemon.services.iter().for_each(|service| service.refresh(export));
    }
    Ok(())
}

pub(in crate::control) fn remove(daemon: &DaemonState, request: &Remove) -> Result<Done, ControlError> {
    let (deferred, patience_ms) = (request.deferred, patience(request.timeout_ms)?);
    let found = find(daemon, &request.device)?;
    // What has no table yet has nothing that could be replaced.
    let is_wiped = request.force && found.info.has_live;
    if is_wiped {
        carry_out(daemon, &found, (wipe, true), patience_ms)?;
    }
    let name = found.info.name.clone();
    let remove = move |shard: &mut Shard| shard.devices.mapper.remove(&name, deferred, &mut shard.stack);
    let removed = daemon.shards[found.shard].mailbox.ask(remove)?;
    removed.map_err(|error| {
        let mut error = ControlError::from(error);
        let exports = exports_of(daemon, &found);
        if error.kind == ErrorKind::Busy && !exports.is_empty() {
            error.message += &format!("; it is exported as {}: `shingle export remove` ends that", exports.join(", "));
        }
        if is_wiped {
            error.message += "; its table has been replaced by one on which everything fails: load another to use it";
        }
        error
    })?;
    Ok(Done {})
}

fn exports_of(daemon: &DaemonState, found: &Found) -> Vec<String> {
    let names = found.info.device.map_or(Vec::new(), |device| daemon.exports.names_of(found.shard, device));
    names.iter().map(|name| format!("`{name}`")).collect()
}

pub(super) fn rename(daemon: &DaemonState, request: Rename, naming: &Mutex<()>) -> Result<Done, ControlError> {
    let Rename { device, name, uuid } = request;
    let _one_at_a_time = naming.lock().unwrap_or_else(PoisonError::into_inner);
    let found = find(daemon, &device)?;
    let old = found.info.name;
    match (name, uuid) {
        (Some(name), None) => {
            check_free(daemon, &name, "")?;
            daemon.shards[found.shard].mailbox.ask(move |shard| shard.devices.mapper.rename(&old, &name))??;
        }
        (None, Some(uuid)) => {
            check_free(daemon, "", &uuid)?;
            daemon.shards[found.shard].mailbox.ask(move |shard| shard.devices.mapper.set_uuid(&old, &uuid))??;
        }
        _ => return Err(bad("write either the new `name` or the `uuid`".into())),
    }
    Ok(Done {})
}

pub(in crate::control) fn message(daemon: &DaemonState, request: &Message) -> Result<Answered, ControlError> {
    let (words, sector) = (split_words(&request.message), request.sector);
    if words.is_empty() {
        return Err(bad("the message is empty: write at least one word".into()));
    }
    let found = find(daemon, &request.device)?;
    let answer = daemon.shards[found.shard].mailbox.ask(move |shard| {
        let (words, now): (Vec<&str>, _) = (words.iter().map(String::as_str).collect(), shard.now());
        shard.devices.mapper.message(&found.info.name, sector, &words, (&mut shard.stack, now))
    })??;
    Ok(Answered { answer })
}
