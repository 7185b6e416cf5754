//! What each request does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use shingle_core::block::{Bio, Op, Payload, Status};
use shingle_core::sector::Sector;
use shingle_core::zone::Zone;

use super::clients::Client;
use super::deeds::Deed;
use super::names::unknown_device;
use super::plugs::{self, Policies};
use super::protocol::{
    AddExport, AddPath, Batch, Changed, CloseZones, CutPower, Done, EventList, FailPath, Failure, FinishZones,
    GetEvents, GetMetrics, GetPlugs, GetPower, GetStatus, ListPaths, ManageZones, Metrics, OpenZones, Operation,
    ReadRecording, Reload, RemoveExport, RemovePath, ReportZones, ResetZones, RestorePath, RestorePower, SetPathPolicy,
    SetPathState, SetPolicy, SetScheduler, StartRecording, Started, StopRecording, ZoneInfo, Zones,
};
use super::recording::{Recorder, Recording};
use super::reload::reload;
use super::serve::serve;
use super::status::status;
use super::users::{Offers, check_unused};
use super::zones::{ZoneAction, ZoneRange};
use super::{ControlError, ErrorKind, MOST_ZONES, VERSION, bad, exports, mapped, paths, power, scheduler};
use crate::daemon_state::{DaemonState, ShardInfo};
use crate::devices::Named;
use crate::mailbox::{MailboxError, Reply};
use crate::metrics::Snapshot;
use crate::shard::Shard;
use crate::zone_reports::ZoneReport;

/// Zones that one message to a shard handles.
const BATCH: usize = 256;

/// Most reloads under way and waiting. They have no connection slots.
const MAX_RELOADS: usize = 8;

/// Number of reloads under way and waiting.
#[derive(Default)]
struct Reloads(AtomicUsize);

/// One of them, until it is dropped.
struct OneReload<'a>(&'a Reloads);

impl Reloads {
    fn enter(&self) -> Result<OneReload<'_>, ControlError> {
        let more = |count: usize| (count < MAX_RELOADS).then_some(count + 1);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(OneReload(self)),
            Err(count) => {
                let message = format!("{count} reloads are under way or waiting: try again when they have ended");
                Err(ControlError::new(ErrorKind::Busy, message))
            }
        }
    }
}

impl Drop for OneReload<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers requests about a running stack.
#[derive(Default)]
pub struct Operations {
    policies: Policies,
    /// One new name at a time: names are unique over all shards.
    naming: Mutex<()>,
    /// One stack file at a time.
    reloading: Mutex<()>,
    /// Reloads under way and waiting.
    reloads: Reloads,
    recorder: Recorder,
}

/// What a connection has under way, and whose it is.
#[derive(Default)]
pub struct Session {
    recording: Option<Recording>,
    /// The user at the other end, and its process.
    pub peer: Option<(u32, i32)>,
    client: Option<Arc<Client>>,
}

impl Session {
    /// That of a client.
    pub fn of(client: Arc<Client>) -> Self {
        Self { peer: client.peer(), client: Some(client), recording: None }
    }
}

fn no_recording() -> ControlError {
    bad("this connection has no recording under way: send trace.start first".into())
}

impl From<MailboxError> for ControlError {
    fn from(error: MailboxError) -> Self {
        ControlError::new(ErrorKind::Stopped, error.to_string())
    }
}

impl Operations {
    /// The response to one line of a connection.
    pub fn respond(&self, daemon: &DaemonState, session: &mut Session, line: &[u8]) -> Value {
        let (id, result) = match serde_json::from_slice::<Value>(line) {
            Ok(Value::Object(mut object)) => {
                let id = object.shift_remove("id").unwrap_or(Value::Null);
                let deed = Deed::of(&object);
                let result = self.run(daemon, session, object);
                deed.into_iter().for_each(|deed| deed.tell(session, &daemon.events, result.as_ref()));
                (id, result)
            }
            Ok(_) => (Value::Null, Err(bad("a request is a JSON object".into()))),
            Err(error) => (Value::Null, Err(bad(format!("this is not JSON: {error}")))),
        };
        match result {
            Ok(value) => json!({"v": VERSION, "id": id, "ok": value}),
            Err(error) => json!({"v": VERSION, "id": id, "error": Failure::from(&error)}),
        }
    }

    fn run(
        &self,
        daemon: &DaemonState,
        session: &mut Session,
        mut fields: Map<String, Value>,
    ) -> Result<Value, ControlError> {
        check_version(fields.shift_remove("v"))?;
        let op = match fields.shift_remove("op") {
            Some(Value::String(op)) => op,
            Some(other) => return Err(bad(format!("`op` is {other}: write a string"))),
            None => return Err(bad("the request has no `op`".into())),
        };
        match op.as_str() {
            GetStatus::NAME => serve(fields, |GetStatus {}| status(daemon)),
            GetEvents::NAME => {
                serve(fields, |GetEvents { since }| Ok(EventList { events: daemon.events.since(since) }))
            }
            GetMetrics::NAME => {
                serve(fields, |GetMetrics { format }| Ok(Metrics { text: Snapshot::take(daemon)?.text(format) }))
            }
            Reload::NAME => serve(fields, |request| {
                let _one_of_few = self.reloads.enter()?;
                // Reloads wait for each other, and each for I/O in flight. Other clients are served meanwhile.
                let _without_place = session.client.as_ref().map(|client| client.give_up_place());
                let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
                reload(daemon, &|request| self.policies.serve(daemon, request), &request)
            }),
            ReportZones::NAME => serve(fields, |request| report_zones(daemon, &request)),
            ResetZones::NAME => serve(fields, |ResetZones(range)| manage(daemon, range, ZoneAction::Reset)),
            OpenZones::NAME => serve(fields, |OpenZones(range)| manage(daemon, range, ZoneAction::Open)),
            CloseZones::NAME => serve(fields, |CloseZones(range)| manage(daemon, range, ZoneAction::Close)),
            FinishZones::NAME => serve(fields, |FinishZones(range)| manage(daemon, range, ZoneAction::Finish)),
            GetPlugs::NAME => serve(fields, |GetPlugs { device }| plugs::show(daemon, &device)),
            SetScheduler::NAME => serve(fields, |request| scheduler::scheduler(daemon, &request)),
            SetPolicy::NAME => serve(fields, |request| self.policies.serve(daemon, &request)),
            StartRecording::NAME => serve(fields, |request| session.start(&self.recorder, daemon, &request)),
            ReadRecording::NAME => serve(fields, |ReadRecording {}| session.read()),
            StopRecording::NAME => serve(fields, |StopRecording {}| session.stop()),
            AddExport::NAME => serve(fields, |request| exports::add(daemon, request)),
            RemoveExport::NAME => serve(fields, |request| exports::remove(daemon, &request)),
            ListPaths::NAME => serve(fields, |request| paths::list(daemon, &request)),
            FailPath::NAME => serve(fields, |FailPath(path)| paths::fail(daemon, path)),
            RestorePath::NAME => serve(fields, |RestorePath(path)| paths::restore(daemon, path)),
            SetPathState::NAME => serve(fields, |request| paths::set_state(daemon, request)),
            AddPath::NAME => serve(fields, |request| paths::add(daemon, request)),
            RemovePath::NAME => serve(fields, |RemovePath(path)| paths::remove(daemon, path)),
            SetPathPolicy::NAME => serve(fields, |request| paths::set_policy(daemon, &request)),
            GetPower::NAME => serve(fields, |request| power::status(daemon, &request)),
            CutPower::NAME => serve(fields, |request| power::cut(daemon, &request)),
            RestorePower::NAME => serve(fields, |request| power::restore(daemon, &request)),
            _ => mapped::run(&op, daemon, fields, &self.naming),
        }
    }
}

fn check_version(version: Option<Value>) -> Result<(), ControlError> {
    if version.as_ref().and_then(Value::as_u64) == Some(VERSION) {
        return Ok(());
    }
    let found = version.map_or("missing".to_owned(), |v| v.to_string());
    let message = format!("`v` is {found}: this daemon speaks version {VERSION}");
    Err(ControlError::new(ErrorKind::UnsupportedVersion, message))
}

impl Session {
    fn start(
        &mut self,
        recorder: &Recorder,
        daemon: &DaemonState,
        request: &StartRecording,
    ) -> Result<Started, ControlError> {
        // The old one first: there is room for one.
        self.recording = None;
        let (recording, started) = recorder.start(daemon, request.device.as_deref())?;
        self.recording = Some(recording);
        Ok(started)
    }

    fn read(&mut self) -> Result<Batch, ControlError> {
        self.recording.as_mut().ok_or_else(no_recording)?.read()
    }

    fn stop(&mut self) -> Result<Done, ControlError> {
        self.recording.take().ok_or_else(no_recording).map(|_| Done {})
    }
}

/// A device that is in use until this is dropped: else it could be removed, and its place given to another one.
pub(super) struct Device<'a> {
    pub(super) shard: &'a ShardInfo,
    pub(super) named: Named,
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        let id = self.named.device;
        // A shard that does not answer has stopped, or has the request in its mailbox and will get to it.
        let _ = self.shard.mailbox.ask(move |shard| shard.devices.mapper.close(id));
    }
}

pub(super) fn open<'a>(daemon: &'a DaemonState, name: &str) -> Result<Device<'a>, ControlError> {
    for shard in &daemon.shards {
        let wanted = name.to_owned();
        let opened = shard.mailbox.ask(move |shard| shard.devices.open(&wanted).and(shard.devices.find(&wanted)))?;
        if let Some(named) = opened {
            return Ok(Device { shard, named });
        }
    }
    Err(unknown_device(daemon, name)?)
}

pub(super) fn not_zoned(named: &Named) -> ControlError {
    ControlError::new(ErrorKind::NotZoned, format!("`{}` is not zoned", named.name))
}

/// Size and zone size of a zoned device.
fn shape(Device { shard, named }: &Device<'_>) -> Result<(u64, u64), ControlError> {
    let id = named.device;
    let shape = shard.mailbox.ask(move |shard| {
        let limits = shard.stack.limits(id);
        limits.zoned.as_ref().map(|zoned| (limits.capacity, u64::from(zoned.zone_sectors)))
    })?;
    shape.ok_or_else(|| not_zoned(named))
}

fn report_zones(daemon: &DaemonState, request: &ReportZones) -> Result<Zones, ControlError> {
    let (device, start, count) = (open(daemon, &request.device)?, request.start, request.count);
    let (capacity, _) = shape(&device)?;
    if start >= capacity {
        return Ok(Zones { zones: Vec::new(), next: None, age_ms: None });
    }
    let most = if count == 0 { MOST_ZONES } else { (count as usize).min(MOST_ZONES) };
    let (zones, age) = match request.max_age_ms {
        None => (report(&device, start, most)?, None),
        Some(ms) => {
            let known = daemon.watch_zones(&device.named.name, Duration::from_millis(ms));
            let known = known.map_err(|why| ControlError::new(ErrorKind::NotReady, why))?;
            let all = known.zones.as_deref().unwrap_or_default();
            let first = all.partition_point(|zone| (zone.start + zone.len).0 <= start);
            (all[first..].iter().take(most).copied().collect(), Some(known.began.elapsed()))
        }
    };
    let age_ms = age.map(|age| age.as_millis() as u64);
    let next = zones.last().map(|zone| (zone.start + zone.len).0).filter(|end| *end < capacity);
    Ok(Zones { zones: zones.iter().map(ZoneInfo::from).collect(), next, age_ms })
}

/// How old the zones of a page may be.
const PAGE_AGE: Duration = Duration::from_millis(800);

/// All zones of a device for somebody who watches, and what each is used for, if a table above knows that. More than `most` are refused.
pub(crate) fn watched_zones(
    daemon: &DaemonState,
    device: &str,
    most: usize,
) -> Result<(ZoneReport, Vec<Option<&'static str>>), ControlError> {
    let device = open(daemon, device)?;
    let (capacity, zone_sectors) = shape(&device)?;
    let count = capacity.div_ceil(zone_sectors) as usize;
    if count > most {
        return Err(bad(format!("`{}` has {count} zones, and {most} are shown at most", device.named.name)));
    }
    let report = daemon.watch_zones(&device.named.name, PAGE_AGE);
    let report = report.map_err(|why| ControlError::new(ErrorKind::NotReady, why))?;
    let mut uses = Vec::new();
    while uses.len() < count {
        let (id, some) = (device.named.device, uses.len() as u32..(uses.len() + MOST_ZONES).min(count) as u32);
        let some = device.shard.mailbox.ask(move |shard| shard.devices.mapper.zone_uses(id, some, &shard.stack))?;
        if some.is_empty() {
            break;
        }
        uses.extend(some);
    }
    Ok((report, uses))
}

/// Zones of a device from the one that holds the sector `start` on.
fn report(device: &Device<'_>, start: u64, most: usize) -> Result<Vec<Zone>, ControlError> {
    let Device { shard, named } = device;
    let id = named.device;
    let (refusal, zones) = shard.mailbox.ask_later(move |shard, reply: Reply<(Option<Refusal>, Vec<Zone>)>| {
        let report = Bio::new(Op::ReportZones, Sector(start), 0, Payload::Zones(Vec::with_capacity(most)));
        shard.submit(id, report, move |shard, mut bio, status| {
            let refusal = Refusal::of(shard, start, &bio, status);
            let zones = match std::mem::take(&mut bio.payload) {
                Payload::Zones(zones) => zones,
                _ => Vec::new(),
            };
            reply.send((refusal, zones));
        });
    })?;
    refusal.map_or(Ok(zones), |refusal| Err(refusal.error(named, Op::ReportZones)))
}

/// A bio that a device did not carry out.
struct Refusal {
    sector: u64,
    status: Status,
    why: String,
}

impl Refusal {
    fn of(shard: &Shard, sector: u64, bio: &Bio, status: Status) -> Option<Self> {
        (!status.is_ok()).then(|| Self { sector, status, why: shard.devices.tell(bio, status) })
    }

    fn error(self, named: &Named, op: Op) -> ControlError {
        let Self { sector, status, why } = self;
        let message = format!("{} of `{}` at sector {sector} failed: {status} ({why})", op.name(), named.name);
        ControlError { refusal: Some((status.errno(), sector)), ..ControlError::new(ErrorKind::Io, message) }
    }
}

fn manage(daemon: &DaemonState, request: ManageZones, action: ZoneAction) -> Result<Changed, ControlError> {
    let ManageZones { device, start, length, force } = request;
    let device = open(daemon, &device)?;
    let offers = Offers { exports: daemon.exports.clone(), shard: device.shard.number };
    let unless_used = (!force).then_some(offers);
    let (capacity, zone_sectors) = shape(&device)?;
    let range = ZoneRange::new(start, length, capacity, zone_sectors)
        .map_err(|message| ControlError::new(ErrorKind::Invalid, message))?;
    let done = Changed { zones: range.count };
    if range.whole && action == ZoneAction::Reset {
        // As the kernel does it: one command, which passes by conventional and failed zones.
        run_batch(&device, unless_used, Op::ZoneResetAll, vec![0])?;
        return Ok(done);
    }
    let end = range.first + range.count;
    for first in (range.first..end).step_by(BATCH) {
        let sectors = (first..end).take(BATCH).map(|zone| zone * zone_sectors).collect();
        run_batch(&device, unless_used.clone(), action.op(), sectors)?;
    }
    Ok(done)
}

/// One bio for each sector, all at once; the failure with the lowest sector counts. Where somebody is found to have data on the
/// device, nothing is done, unless that is meant.
fn run_batch(
    Device { shard, named }: &Device<'_>,
    unless_used: Option<Offers>,
    op: Op,
    sectors: Vec<u64>,
) -> Result<(), ControlError> {
    struct Gather {
        left: usize,
        failed: Option<Refusal>,
        reply: Option<Reply<Outcome>>,
    }
    type Outcome = Result<Option<Refusal>, ControlError>;
    let id = named.device;
    let failed = shard.mailbox.ask_later(move |shard: &mut Shard, reply: Reply<Outcome>| {
        // In the same message as the bios: nobody can come in between.
        if let Some(Err(used)) = unless_used.map(|offers| check_unused(shard, id, &offers)) {
            return reply.send(Err(used));
        }
        let gather = Gather { left: sectors.len(), failed: None, reply: Some(reply) };
        let gather = std::rc::Rc::new(std::cell::RefCell::new(gather));
        for sector in sectors {
            let gather = gather.clone();
            shard.submit(id, Bio::new(op, Sector(sector), 0, Payload::None), move |shard, bio, status| {
                let mut gather = gather.borrow_mut();
                gather.left -= 1;
                if gather.failed.as_ref().is_none_or(|first| sector < first.sector) {
                    let refusal = Refusal::of(shard, sector, &bio, status);
                    gather.failed = refusal.or_else(|| gather.failed.take());
                }
                if gather.left == 0
                    && let Some(reply) = gather.reply.take()
                {
                    reply.send(Ok(gather.failed.take()));
                }
            });
        }
    })??;
    failed.map_or(Ok(()), |refusal| Err(refusal.error(named, op)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_waiting_reloads_is_bounded() {
        let reloads = Reloads::default();
        let all: Vec<_> = (0..MAX_RELOADS).map(|_| reloads.enter().expect("there is room")).collect();
        let refused = reloads.enter().err().expect("there is no room");
        assert_eq!(refused.kind, ErrorKind::Busy);
        drop(all);
        assert!(reloads.enter().is_ok());
    }
}
