//! Devices with several paths to one disk: what can be seen of them, and what an operator can do.

use shingle_core::block::Cx;
use shingle_core::multipath::{Access, AnaState, Head, PathHealth, PathReport, PolicyKind};

use super::operations::unknown_device;
use super::protocol::{HeadStatus, Heads, ListPaths, OnePath, PathStatus, SetPathPolicy, SetPathState};
use super::{ControlError, ErrorKind, bad};
use crate::config::nearest;
use crate::daemon_state::{DaemonState, ShardInfo};
use crate::devices::{MULTIPATH, Named};
use crate::shard::Shard;

/// `path.list`.
pub(super) fn list(daemon: &DaemonState, ListPaths { device }: &ListPaths) -> Result<Heads, ControlError> {
    if let Some(device) = device {
        let (shard, named) = find(daemon, device)?;
        let head = shard.mailbox.ask(move |shard| status_of(shard, &named))?;
        return Ok(Heads { devices: head.into_iter().collect() });
    }
    let mut devices = Vec::new();
    for shard in &daemon.shards {
        let all = |shard: &mut Shard| shard.devices.heads().filter_map(|head| status_of(shard, head)).collect();
        let heads: Vec<HeadStatus> = shard.mailbox.ask(all)?;
        devices.extend(heads);
    }
    Ok(Heads { devices })
}

/// `path.fail`.
pub(super) fn fail(daemon: &DaemonState, OnePath { device, path }: OnePath) -> Result<HeadStatus, ControlError> {
    change_path(daemon, (&device, path), |head, path, cx| head.take_out(path, cx))
}

/// `path.restore`.
pub(super) fn restore(daemon: &DaemonState, OnePath { device, path }: OnePath) -> Result<HeadStatus, ControlError> {
    change_path(daemon, (&device, path), |head, path, cx| head.put_in(path, cx))
}

/// `path.state`.
pub(super) fn set_state(daemon: &DaemonState, request: SetPathState) -> Result<HeadStatus, ControlError> {
    let SetPathState { device, path, state } = request;
    let state = named("state", &state, &AnaState::ALL, AnaState::name)?;
    change_path(daemon, (&device, path), move |head, path, cx| head.set_state(path, state, cx))
}

/// `path.policy`.
pub(super) fn set_policy(daemon: &DaemonState, request: &SetPathPolicy) -> Result<HeadStatus, ControlError> {
    let kind = named("policy", &request.policy, &PolicyKind::ALL, PolicyKind::name)?;
    change(daemon, &request.device, move |_, _| Ok(move |head: &mut Head, _: &mut Cx<'_>| head.set_policy(kind)))
}

/// What has this name.
fn named<T: Copy>(what: &str, word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, ControlError> {
    all.iter().copied().find(|one| name(*one) == word).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        bad(format!("there is no {what} `{word}` of paths; {}known are: {}", hint(word, &names), names.join(", ")))
    })
}

fn hint(word: &str, names: &[&str]) -> String {
    nearest(word, names.iter().copied()).map_or(String::new(), |near| format!("did you mean `{near}`? "))
}

/// The device with several paths of this name.
fn find<'a>(daemon: &'a DaemonState, name: &str) -> Result<(&'a ShardInfo, Named), ControlError> {
    let Some((shard, named)) = daemon.find(name)? else { return Err(unknown_device(daemon, name)?) };
    if named.kind == MULTIPATH {
        return Ok((shard, named));
    }
    let mut heads = Vec::new();
    for shard in &daemon.shards {
        heads.extend(
            shard.mailbox.ask(|shard| shard.devices.heads().map(|head| head.name.clone()).collect::<Vec<_>>())?,
        );
    }
    let heads = if heads.is_empty() { "none; `paths` in [device.NAME] makes one".into() } else { heads.join(", ") };
    let message = format!("`{name}` ({}) does not have several paths; devices that do: {heads}", named.kind);
    Err(ControlError::new(ErrorKind::Invalid, message))
}

/// Changes a path of a device, which is given by its name.
fn change_path(
    daemon: &DaemonState,
    (device, path): (&str, String),
    change_it: impl FnOnce(&mut Head, usize, &mut Cx<'_>) + Send + 'static,
) -> Result<HeadStatus, ControlError> {
    change(daemon, device, move |shard, named| {
        let status = status_of(shard, named);
        let names: Vec<&str> = status.iter().flat_map(|head| &head.paths).map(|path| path.path.as_str()).collect();
        let Some(place) = names.iter().position(|name| *name == path) else {
            let (hint, names) = (hint(&path, &names), names.join(", "));
            let message = format!("`{}` has no path `{path}`; {hint}its paths are: {names}", named.name);
            return Err(ControlError::new(ErrorKind::Invalid, message));
        };
        Ok(move |head: &mut Head, cx: &mut Cx<'_>| change_it(head, place, cx))
    })
}

/// Does to a device what `plan` finds to do; how it is then.
fn change<F: FnOnce(&mut Head, &mut Cx<'_>)>(
    daemon: &DaemonState,
    device: &str,
    plan: impl FnOnce(&Shard, &Named) -> Result<F, ControlError> + Send + 'static,
) -> Result<HeadStatus, ControlError> {
    let (shard, named) = find(daemon, device)?;
    shard.mailbox.ask(move |shard| {
        let change = plan(shard, &named)?;
        // A head sets timers: it has to know what time it is, however long nothing has happened.
        let now = shard.now();
        shard.stack.turn(now);
        shard.stack.with_device(named.leaf, change);
        let gone = || ControlError::new(ErrorKind::UnknownDevice, format!("`{}` is gone", named.name));
        status_of(shard, &named).ok_or_else(gone)
    })?
}

/// What is known of a device with several paths; `None` if it is none.
pub(super) fn status_of(shard: &Shard, named: &Named) -> Option<HeadStatus> {
    let head = shard.stack.device::<Head>(named.leaf)?;
    let (counters, all) = (head.counters(), head.paths().map(|path| path.counters.sent).sum());
    Some(HeadStatus {
        device: named.name.clone(),
        policy: head.policy().name().into(),
        waiting: head.waiting(),
        waited: counters.waited,
        without_path: counters.without_path,
        uncertain_appends: counters.uncertain_appends,
        doubled_appends: counters.doubled_appends,
        paths: head.paths().map(|path| show(shard, &path, all)).collect(),
    })
}

/// A path of a device that has sent `all`.
fn show(shard: &Shard, path: &PathReport, all: u64) -> PathStatus {
    let counters = path.counters;
    PathStatus {
        path: shard.devices.label(path.device),
        state: path.state.name().into(),
        health: path.health.name().into(),
        usable: path.health == PathHealth::Live && path.state.access() != Access::Unusable,
        in_flight: path.in_flight,
        share_percent: if all == 0 { 0.0 } else { counters.sent as f64 * 100.0 / all as f64 },
        mean_latency_ns: counters.latency.as_nanos().checked_div(counters.done),
        sent: counters.sent,
        failovers: counters.failovers,
        retries: counters.retries,
        errors: counters.errors,
        failures: counters.failures,
        probes: counters.probes,
    }
}
