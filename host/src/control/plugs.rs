//! Zone write plugs and their policies: of disks, and of the lines of mapped devices whose targets take no appends.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shingle_core::block::{Cx, DeviceId};
use shingle_core::mapper::LinePlug;
use shingle_core::plug::{PlugError, WritePolicy, ZonePlug};
use shingle_core::time::Duration as Span;

use super::operations::{Device, not_zoned, open};
use super::protocol::{LinePlugs, LinePolicy, Plug, Plugs, Policy, SetPolicy};
use super::{ControlError, ErrorKind, bad};
use crate::daemon_state::DaemonState;
use crate::devices::Named;
use crate::mailbox::Reply;
use crate::shard::Shard;

/// How long a device may take to become idle for a policy change.
const PATIENCE: Duration = Duration::from_secs(5);
/// Policy of a device whose lines have several.
const MIXED: &str = "mixed";

/// A plug with the line that it belongs to, if it is that of a table line.
type FoundPlug = (Option<LinePlug>, DeviceId);

/// Answers requests about policies.
#[derive(Default)]
pub(super) struct Policies {
    /// One policy change at a time: two could open each other's doors.
    switching: Mutex<()>,
}

/// A device with plugs, and the line of its table that is meant, if it is one.
struct Meant<'a> {
    device: Device<'a>,
    line: Option<u32>,
}

impl<'a> Meant<'a> {
    /// The device called `name`, or the line of `NAME/LINE`. A device whose whole name is `name` comes first.
    fn find(daemon: &'a DaemonState, name: &str) -> Result<Self, ControlError> {
        let unknown = match open(daemon, name) {
            Ok(device) => return Ok(Self { device, line: None }),
            Err(error) => error,
        };
        let line = name.rsplit_once('/').and_then(|(device, line)| Some((device, line.parse().ok()?)));
        let Some((of, line)) = line else { return Err(unknown) };
        open(daemon, of).map(|device| Self { device, line: Some(line) })
    }

    /// Its plugs, one at least.
    fn plugs(&self, daemon: &DaemonState) -> Result<Vec<FoundPlug>, ControlError> {
        let Device { shard, named } = &self.device;
        let wanted = named.clone();
        let all = shard.mailbox.ask(move |shard| shard.devices.plugs_of(&wanted, &shard.stack))?;
        if all.is_empty() {
            return Err(no_plugs(daemon, named));
        }
        let Some(line) = self.line else { return Ok(all) };
        let numbers: Vec<String> = all.iter().filter_map(|(of, _)| Some(of.as_ref()?.line.to_string())).collect();
        let is_meant = |(of, _): &FoundPlug| of.is_some_and(|of| of.line == line);
        let meant: Vec<FoundPlug> = all.into_iter().filter(is_meant).collect();
        if !meant.is_empty() {
            return Ok(meant);
        }
        let lines = if numbers.is_empty() { "it is a disk, with one plug".into() } else { numbers.join(", ") };
        let message = format!("line {line} of `{}` has no plug; lines with one: {lines}", named.name);
        Err(ControlError::new(ErrorKind::NotZoned, message))
    }
}

fn no_plugs(daemon: &DaemonState, named: &Named) -> ControlError {
    let plan = daemon.plan();
    let disk = plan.disk(&named.name);
    let message = match disk.and_then(|disk| disk.path_of.as_ref()) {
        Some(owner) => format!("`{}` is a path of `{owner}`, where its zone writes are ordered", named.name),
        None => format!(
            "`{}` has no plugs and no policy: only zoned disks and lines of tables over zones that take no appends have them",
            named.name
        ),
    };
    ControlError::new(ErrorKind::NotZoned, message)
}

/// The policy of all these plugs.
pub(super) fn common_policy(policies: &[WritePolicy]) -> String {
    let first = policies.first().copied().unwrap_or_default();
    if policies.iter().all(|policy| *policy == first) { first.name().into() } else { MIXED.into() }
}

/// The plugs of a device.
pub(super) fn show(daemon: &DaemonState, name: &str) -> Result<Plugs, ControlError> {
    let meant = Meant::find(daemon, name)?;
    let found = meant.plugs(daemon)?;
    let plugs = meant.device.shard.mailbox.ask(move |shard| {
        let with = |(line, id): FoundPlug| Some((line, shard.stack.device::<ZonePlug>(id)?));
        let plugs: Vec<(Option<LinePlug>, &ZonePlug)> = found.into_iter().filter_map(with).collect();
        (!plugs.is_empty()).then(|| describe(&plugs))
    })?;
    plugs.ok_or_else(|| not_zoned(&meant.device.named))
}

fn describe(all: &[(Option<LinePlug>, &ZonePlug)]) -> Plugs {
    let policies: Vec<WritePolicy> = all.iter().map(|(_, plug)| plug.policy()).collect();
    let zones = |(line, plug): &(Option<LinePlug>, &ZonePlug)| {
        let line = line.map(|line| line.line);
        plug.dump().map(|plug| Plug { line, ..Plug::from(&plug) }).collect::<Vec<_>>()
    };
    let line = |(line, plug): &(Option<LinePlug>, &ZonePlug)| {
        line.map(|line| LinePlugs {
            line: line.line,
            target: line.target.into(),
            policy: plug.policy().name().into(),
            active: plug.active(),
            longest_wait_ns: plug.longest_wait().as_nanos(),
        })
    };
    Plugs {
        policy: common_policy(&policies),
        active: all.iter().map(|(_, plug)| plug.active()).sum(),
        longest_wait_ns: all.iter().map(|(_, plug)| plug.longest_wait().as_nanos()).max().unwrap_or(0),
        plugs: all.iter().flat_map(zones).collect(),
        lines: all.iter().filter_map(line).collect(),
    }
}

impl Policies {
    /// Shows the policy of a device, or changes it.
    pub fn serve(
        &self,
        daemon: &DaemonState,
        SetPolicy { device, policy }: &SetPolicy,
    ) -> Result<Policy, ControlError> {
        let meant = Meant::find(daemon, device)?;
        let wanted = policy.as_deref().map(str::parse::<WritePolicy>).transpose();
        let wanted = wanted.map_err(|error| bad(error.to_string()))?;
        let _one_at_a_time = wanted.map(|_| self.switching.lock().unwrap_or_else(PoisonError::into_inner));
        let found = meant.plugs(daemon)?;
        let Device { shard, named } = &meant.device;
        let plugs = found.clone();
        let before = shard.mailbox.ask(move |shard| {
            let policy = |(_, id): &FoundPlug| shard.stack.device(*id).map_or(WritePolicy::default(), ZonePlug::policy);
            plugs.iter().map(policy).collect::<Vec<_>>()
        })?;
        let lines = |policies: &[WritePolicy]| {
            let line = |((line, _), policy): (&FoundPlug, &WritePolicy)| {
                line.map(|it| LinePolicy { line: it.line, target: it.target.into(), policy: policy.name().into() })
            };
            found.iter().zip(policies).filter_map(line).collect()
        };
        let Some(wanted) = wanted else {
            return Ok(Policy {
                policy: common_policy(&before),
                before: common_policy(&before),
                lines: lines(&before),
            });
        };
        let change = Change {
            name: named.name.clone(),
            line: meant.line,
            plugs: found.iter().map(|(_, id)| *id).collect(),
            wanted,
        };
        let switched = shard.mailbox.ask_slowly(PATIENCE, move |shard, reply| change.begin(shard, reply))?;
        switched.map_err(|mut error| {
            error.message = format!("`{device}` keeps policy {}: {}", common_policy(&before), error.message);
            error
        })?;
        let now = vec![wanted; before.len()];
        Ok(Policy { policy: wanted.name().into(), before: common_policy(&before), lines: lines(&now) })
    }
}

/// The plugs that the device called `name` has now.
fn plugs_there(shard: &Shard, name: &str) -> Vec<DeviceId> {
    let named = shard.devices.find(name);
    let plugs = named.map_or(Vec::new(), |named| shard.devices.plugs_of(&named, &shard.stack));
    plugs.into_iter().map(|(_, plug)| plug).collect()
}

/// A change of the policy of the plugs of one device.
struct Change {
    name: String,
    line: Option<u32>,
    plugs: Vec<DeviceId>,
    wanted: WritePolicy,
}

impl Change {
    /// Changes the policy of all plugs while nothing goes through them, or of none. Whatever happens, their doors do not stay shut.
    fn begin(self, shard: &mut Shard, reply: Reply<Result<(), ControlError>>) {
        self.plugs.iter().for_each(|plug| shard.stack.suspend(*plug));
        let (name, plugs) = (self.name.clone(), self.plugs.clone());
        let look = move |shard: &mut Shard, is_late: bool| match self.switch(shard) {
            Ok(()) => Some(Ok(())),
            Err(why) if is_late => Some(Err(ControlError::new(ErrorKind::Busy, why))),
            Err(_) => None,
        };
        shard.wait_for(Span::from_millis(PATIENCE.as_millis() as u64), look, move |shard, switched| {
            // A new table has taken the others away, and others may have their places in the stack.
            let there = plugs_there(shard, &name);
            plugs.iter().filter(|plug| there.contains(plug)).for_each(|plug| shard.stack.resume(*plug));
            reply.send(switched);
        });
    }

    fn switch(&self, shard: &mut Shard) -> Result<(), String> {
        let there = plugs_there(shard, &self.name);
        if !self.plugs.iter().all(|plug| there.contains(plug)) {
            return Err("another table has taken its place meanwhile: try again".into());
        }
        if !self.plugs.iter().all(|plug| shard.stack.is_drained(*plug)) {
            return Err(format!("I/O in flight did not end within {} s; see `shingle status`", PATIENCE.as_secs()));
        }
        // All or none: a plug that is idle takes any policy.
        let is_idle = |plug: &DeviceId| shard.stack.device::<ZonePlug>(*plug).is_some_and(ZonePlug::is_idle);
        if !self.plugs.iter().all(is_idle) {
            return Err(PlugError::Busy.to_string());
        }
        let change = |plug: &mut ZonePlug, cx: &mut Cx<'_>| plug.set_policy(self.wanted, cx);
        for plug in &self.plugs {
            let changed = shard.stack.with_device(*plug, change);
            changed.unwrap_or(Err(PlugError::NotZoned)).map_err(|error| error.to_string())?;
        }
        // The plugs of the next table begin with it. A disk is no mapped device, and keeps its plug.
        let _ = shard.devices.mapper.choose_policy(&self.name, self.line, self.wanted, &mut shard.stack);
        Ok(())
    }
}
