//! What each request does.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use shingle_core::block::{Bio, Op, Payload, Status};
use shingle_core::plug::{PlugDump, WritePolicy, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Duration as Span;
use shingle_core::zone::Zone;

use super::fields::{Fields, bad};
use super::mapped::figures_json;
use super::recording::{Recorder, Recording};
use super::users::{Offers, check_unused};
use super::zones::{ZoneAction, ZoneRange, zone_to_json};
use super::{ControlError, ErrorKind, MOST_ZONES, VERSION, exports, mapped};
use crate::config::nearest;
use crate::daemon::{Census, ShardInfo};
use crate::devices::Named;
use crate::mailbox::{MailboxError, Reply};
use crate::serve::nbd::Route;
use crate::shard::{Shard, StuckBio};

/// How long a device may take to become idle for a policy change.
const PATIENCE: Duration = Duration::from_secs(5);
/// Zones that one message to a shard handles.
const BATCH: u64 = 256;
/// Most stuck bios of a shard that are listed.
const MOST_STUCK: usize = 64;
/// Age from which a bio counts as stuck.
const STUCK: Span = Span::from_millis(1000);

/// Answers requests about a running stack.
pub struct Operations {
    /// One policy change at a time: two could open each other's doors.
    switching: Mutex<()>,
    /// One new name at a time: names are unique over all shards.
    naming: Mutex<()>,
    recorder: Recorder,
}

/// What a connection has under way.
#[derive(Default)]
pub struct Session {
    recording: Option<Recording>,
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
    /// Ready for requests.
    pub fn new() -> Self {
        Self { switching: Mutex::new(()), naming: Mutex::new(()), recorder: Recorder::default() }
    }

    /// The response to one line of a connection.
    pub fn respond(&self, census: &Census, session: &mut Session, line: &[u8]) -> Value {
        let (id, result) = match serde_json::from_slice::<Value>(line) {
            Ok(Value::Object(mut object)) => {
                let id = object.shift_remove("id").unwrap_or(Value::Null);
                (id, self.run(census, session, Fields::new(object)))
            }
            Ok(_) => (Value::Null, Err(bad("a request is a JSON object".into()))),
            Err(error) => (Value::Null, Err(bad(format!("this is not JSON: {error}")))),
        };
        match result {
            Ok(value) => json!({"v": VERSION, "id": id, "ok": value}),
            Err(error) => json!({"v": VERSION, "id": id, "error": error.to_json()}),
        }
    }

    fn run(&self, census: &Census, session: &mut Session, mut fields: Fields) -> Result<Value, ControlError> {
        match fields.number("v")? {
            Some(VERSION) => {}
            other => {
                let found = other.map_or("missing".to_owned(), |v| v.to_string());
                let message = format!("`v` is {found}: this daemon speaks version {VERSION}");
                return Err(ControlError::new(ErrorKind::UnsupportedVersion, message));
            }
        }
        let op = fields.text("op")?.ok_or_else(|| bad("the request has no `op`".into()))?;
        if let Some(verb) = op.strip_prefix("dm.") {
            return mapped::run(verb, census, fields, &self.naming);
        }
        let action = op.strip_prefix("zones.").and_then(|name| ZoneAction::ALL.into_iter().find(|a| a.name() == name));
        match (op.as_str(), action) {
            ("status", _) => {
                fields.finish()?;
                status(census)
            }
            ("zones.report", _) => {
                let device = device(census, &mut fields)?;
                let (start, count) = (fields.number("start")?.unwrap_or(0), fields.number("count")?.unwrap_or(0));
                fields.finish()?;
                zones_report(&device, start, count)
            }
            (_, Some(action)) => {
                let device = device(census, &mut fields)?;
                let (start, length) = (fields.number("start")?.unwrap_or(0), fields.number("length")?);
                let force = fields.flag("force")?;
                fields.finish()?;
                let offers = Offers { exports: census.exports.clone(), home: device.shard.nbd.clone() };
                Management { device: &device, unless_used: (!force).then_some(offers) }.apply(action, start, length)
            }
            ("plugs", _) => {
                let device = device(census, &mut fields)?;
                fields.finish()?;
                plugs(&device)
            }
            ("policy", _) => {
                let device = device(census, &mut fields)?;
                let wanted = fields.text("policy")?;
                fields.finish()?;
                self.policy(&device, wanted.as_deref())
            }
            ("trace.start", _) => {
                let device = fields.text("device")?;
                fields.finish()?;
                // The old one first: there is room for one.
                session.recording = None;
                let (recording, started) = self.recorder.start(census, device.as_deref())?;
                session.recording = Some(recording);
                Ok(started)
            }
            ("trace.read", _) => {
                fields.finish()?;
                session.recording.as_mut().ok_or_else(no_recording)?.read()
            }
            ("trace.stop", _) => {
                fields.finish()?;
                session.recording.take().ok_or_else(no_recording).map(|_| json!({}))
            }
            ("export.add", _) => exports::add(census, fields),
            ("export.remove", _) => exports::remove(census, fields),
            _ => {
                let known = "status, zones.report, zones.reset, zones.open, zones.close, zones.finish, plugs, policy, \
                             trace.start, trace.read, trace.stop, export.add, export.remove, and dm. followed by a verb";
                Err(ControlError::new(ErrorKind::UnknownOp, format!("unknown operation `{op}`; known are: {known}")))
            }
        }
    }

    fn policy(&self, Device { shard, named }: &Device<'_>, wanted: Option<&str>) -> Result<Value, ControlError> {
        let plug = plug_of(named)?;
        let current = shard.mailbox.ask(move |shard| shard.stack.device::<ZonePlug>(plug).map(ZonePlug::policy))?;
        let before = current.unwrap_or_default();
        let Some(wanted) = wanted else {
            return Ok(json!({"policy": before.name(), "before": before.name()}));
        };
        let wanted = wanted.parse::<WritePolicy>().map_err(|error| bad(error.to_string()))?;
        let _one_at_a_time = self.switching.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shard.mailbox.ask(move |shard| shard.stack.suspend(plug))?;
        let switched = switch(shard, plug, wanted);
        // Whatever happened: the door does not stay shut.
        shard.mailbox.ask(move |shard| shard.stack.resume(plug))?;
        switched.map(|()| json!({"policy": wanted.name(), "before": before.name()})).map_err(|mut error| {
            error.message = format!("`{}` keeps policy {before}: {}", named.name, error.message);
            error
        })
    }
}

fn switch(shard: &ShardInfo, plug: shingle_core::block::DeviceId, wanted: WritePolicy) -> Result<(), ControlError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tried = shard.mailbox.ask(move |shard| {
            if !shard.stack.is_drained(plug) {
                return None;
            }
            shard.stack.with_device::<ZonePlug, _>(plug, |plug, cx| plug.set_policy(wanted, cx))
        })?;
        match tried {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) if Instant::now() >= deadline => {
                return Err(ControlError::new(ErrorKind::Busy, error.to_string()));
            }
            None if Instant::now() >= deadline => {
                let message =
                    format!("I/O in flight did not end within {} s; see `shingle status`", PATIENCE.as_secs());
                return Err(ControlError::new(ErrorKind::Busy, message));
            }
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// A device that is in use until this is dropped: else it could be removed, and its place given to another one.
struct Device<'a> {
    shard: &'a ShardInfo,
    named: Named,
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        let id = self.named.device;
        // A shard that does not answer has stopped, or has the request in its mailbox and will get to it.
        let _ = self.shard.mailbox.ask(move |shard| shard.devices.mapper.close(id));
    }
}

fn device<'a>(census: &'a Census, fields: &mut Fields) -> Result<Device<'a>, ControlError> {
    let name = fields.needed("device")?;
    for shard in &census.shards {
        let wanted = name.clone();
        let opened = shard.mailbox.ask(move |shard| shard.devices.open(&wanted).and(shard.devices.find(&wanted)))?;
        if let Some(named) = opened {
            return Ok(Device { shard, named });
        }
    }
    Err(unknown_device(census, &name)?)
}

/// The error that says so.
pub(super) fn unknown_device(census: &Census, name: &str) -> Result<ControlError, MailboxError> {
    let names = census.names()?;
    let hint =
        nearest(name, names.iter().map(String::as_str)).map_or(String::new(), |n| format!("did you mean `{n}`? "));
    let message = format!("there is no device `{name}`; {hint}there are: {}", names.join(", "));
    Ok(ControlError::new(ErrorKind::UnknownDevice, message))
}

fn plug_of(named: &Named) -> Result<shingle_core::block::DeviceId, ControlError> {
    named.plug.ok_or_else(|| {
        let message = format!("`{}` is not a zoned disk: only those have plugs and a policy", named.name);
        ControlError::new(ErrorKind::NotZoned, message)
    })
}

fn not_zoned(named: &Named) -> ControlError {
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

fn zones_report(device: &Device<'_>, start: u64, count: u64) -> Result<Value, ControlError> {
    let Device { shard, named } = device;
    let (capacity, _) = shape(device)?;
    if start >= capacity {
        return Ok(json!({"zones": [], "next": null}));
    }
    let most = if count == 0 { MOST_ZONES } else { (count as usize).min(MOST_ZONES) };
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
    if let Some(refusal) = refusal {
        return Err(refusal.error(named, Op::ReportZones));
    }
    let next = zones.last().map(|zone| (zone.start + zone.len).0).filter(|end| *end < capacity);
    Ok(json!({"zones": zones.iter().map(zone_to_json).collect::<Vec<_>>(), "next": next}))
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

/// Management of the zones of a device.
struct Management<'a> {
    device: &'a Device<'a>,
    /// It stops where somebody is found to have data on the device; `None`: that is meant.
    unless_used: Option<Offers>,
}

impl Management<'_> {
    fn apply(&self, action: ZoneAction, start: u64, length: Option<u64>) -> Result<Value, ControlError> {
        let (capacity, zone_sectors) = shape(self.device)?;
        let range = ZoneRange::new(start, length, capacity, zone_sectors)
            .map_err(|message| ControlError::new(ErrorKind::Invalid, message))?;
        let done = || json!({"zones": range.count});
        if range.whole && action == ZoneAction::Reset {
            // As the kernel does it: one command, which passes by conventional and failed zones.
            self.run_batch(Op::ZoneResetAll, vec![0])?;
            return Ok(done());
        }
        let mut zone = range.first;
        let end = range.first + range.count;
        while zone < end {
            let stop = (zone + BATCH).min(end);
            self.run_batch(action.op(), (zone..stop).map(|zone| zone * zone_sectors).collect())?;
            zone = stop;
        }
        Ok(done())
    }

    /// One bio for each sector, all at once; the failure with the lowest sector counts.
    fn run_batch(&self, op: Op, sectors: Vec<u64>) -> Result<(), ControlError> {
        struct Gather {
            left: usize,
            failed: Option<Refusal>,
            reply: Option<Reply<Outcome>>,
        }
        type Outcome = Result<Option<Refusal>, ControlError>;
        let Device { shard, named } = self.device;
        let (id, unless_used) = (named.device, self.unless_used.clone());
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
}

fn plugs(Device { shard, named }: &Device<'_>) -> Result<Value, ControlError> {
    let plug = plug_of(named)?;
    let dump = shard.mailbox.ask(move |shard| {
        let plug = shard.stack.device::<ZonePlug>(plug)?;
        Some((plug.policy(), plug.active(), plug.longest_wait(), plug.dump().collect::<Vec<PlugDump>>()))
    })?;
    let (policy, active, longest_wait, dump) = dump.ok_or_else(|| not_zoned(named))?;
    let plugs: Vec<Value> = dump
        .iter()
        .map(|plug| {
            json!({
                "zone": plug.zone.0,
                "flags": plug.flags(),
                "refs": plug.refs,
                "condition": plug.condition,
                "wp_offset": plug.wp_offset,
                "pending": plug.pending,
            })
        })
        .collect();
    let longest_wait_ns = longest_wait.as_nanos();
    Ok(json!({"policy": policy.name(), "active": active, "longest_wait_ns": longest_wait_ns, "plugs": plugs}))
}

fn status(census: &Census) -> Result<Value, ControlError> {
    let (mut devices, mut stuck, mut connections, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut stuck_bios = 0;
    let (disks, tables) = (census.plan.disks.iter().map(|d| &*d.name), census.plan.devices.iter().map(|d| &*d.name));
    let order: Vec<&str> = disks.chain(tables).collect();
    for (number, shard) in census.shards.iter().enumerate() {
        connections.push(shard.nbd.connections());
        let (named, described, late) = shard.mailbox.ask(move |shard| {
            let named = shard.devices.list();
            let described = describe_all(shard, &named);
            (named, described, stuck_in(shard))
        })?;
        for (named, mut value) in named.iter().zip(described) {
            value["shard"] = json!(number);
            value["path"] = json!(census.path_of(&named.name));
            devices.push(value);
        }
        stuck_bios += late.1;
        stuck.extend(late.0.into_iter().map(|mut bio| {
            bio["shard"] = json!(number);
            bio
        }));
        names.push(named);
    }
    // What was made at run time comes behind what the stack file has.
    devices.sort_by_key(|device| order.iter().position(|name| device["name"] == *name).unwrap_or(order.len()));
    let exports = census.exports.routes().into_iter().map(|Route { export, home }| {
        let shard = census.shards.iter().position(|shard| shard.nbd.is(&home)).unwrap_or(0);
        let device = names[shard].iter().find(|named| named.device == export.device);
        let device = device.map(|named| named.name.as_str());
        json!({"name": export.name, "device": device, "bytes": export.size(), "read_only": export.read_only})
    });
    let exports: Vec<Value> = exports.collect();
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_s": census.started.elapsed().as_secs(),
        "shards": census.shards.len(),
        "listen": census.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "devices": devices,
        "exports": exports,
        "connections": connections,
        "stuck": stuck,
        "stuck_bios": stuck_bios,
    }))
}

fn describe_all(shard: &Shard, named: &[Named]) -> Vec<Value> {
    named.iter().map(|named| describe(shard, named)).collect()
}

fn describe(shard: &Shard, named: &Named) -> Value {
    let stack = &shard.stack;
    let limits = stack.limits(named.device);
    let counters = stack.counters(named.device);
    let by_op = |numbers: &[u64; Op::COUNT]| -> Map<String, Value> {
        let used = Op::ALL.into_iter().filter(|op| numbers[*op as usize] > 0);
        used.map(|op| (op.name().to_ascii_lowercase(), json!(numbers[op as usize]))).collect()
    };
    let mapper = &shard.devices.mapper;
    let description = mapper.table(&named.name, false, false, stack).map_or_else(
        |_| {
            let mut description = String::new();
            // Writing to a string does not fail.
            let _ = stack.describe(named.leaf, &mut description);
            description
        },
        |table| table.trim_end().replace('\n', "; "),
    );
    let zoned = limits.zoned.as_ref().map(|zoned| {
        json!({
            "zones": limits.zones(),
            "zone_sectors": zoned.zone_sectors,
            "max_open": zoned.max_open,
            "max_active": zoned.max_active,
            "max_append_sectors": zoned.max_append,
        })
    });
    let mut value = json!({
        "name": named.name,
        "kind": named.kind,
        "description": description,
        "bytes": limits.capacity * 512,
        "block_bytes": limits.logical_block_bytes,
        "read_only": limits.read_only,
        "write_cache": limits.write_cache,
        "zoned": zoned,
        "suspended": stack.is_suspended(named.device),
        "counters": {
            "ios": by_op(&counters.ios),
            "sectors": by_op(&counters.sectors),
            "errors": counters.errors,
            "merges": counters.merges,
            "in_flight": counters.in_flight,
        },
    });
    let figures = mapper.figures(&named.name, false, stack).unwrap_or_default();
    let figures: Vec<Value> = figures.into_iter().filter(|of_target| !of_target.is_empty()).map(figures_json).collect();
    if !figures.is_empty() {
        value["figures"] = json!(figures);
    }
    if let Some(plug) = named.plug.and_then(|plug| stack.device::<ZonePlug>(plug)) {
        value["policy"] = json!(plug.policy().name());
        value["active_plugs"] = json!(plug.active());
        value["plug_failure"] = json!(plug.failure().map(ToString::to_string));
    }
    value
}

/// Those that are stuck for longest, and how many are in all.
fn stuck_in(shard: &Shard) -> (Vec<Value>, usize) {
    let bios = shard.stuck(STUCK);
    let show = |stuck: &StuckBio| {
        json!({
            "device": shard.devices.label(stuck.device),
            "age_ms": stuck.age.as_nanos() / 1_000_000,
            "bio": stuck.bio,
        })
    };
    (bios.iter().take(MOST_STUCK).map(show).collect(), bios.len())
}
