//! Devices with several paths to one disk: what can be seen of them, and what an operator can do.

use shingle_core::block::Cx;
use shingle_core::multipath::{
    Access, AdaptiveOptions, AnaState, Head, IoClass, LatencyOptions, Node, PathHealth, PathReport, PathWindow,
    PolicyKind, PolicyOptions,
};
use shingle_core::time::Duration;

use super::names::unknown_device;
use super::protocol::{
    AddPath, HeadStatus, Heads, ListPaths, OnePath, PathPolicyOptions, PathStatus, PathWindowStatus, SetPathPolicy,
    SetPathState,
};
use super::{ControlError, ErrorKind, bad};
use crate::config::{add_path, nearest, remove_path};
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
    change_path(daemon, &device, path, |head, path, cx| head.take_out(path, cx))
}

/// `path.restore`.
pub(super) fn restore(daemon: &DaemonState, OnePath { device, path }: OnePath) -> Result<HeadStatus, ControlError> {
    change_path(daemon, &device, path, |head, path, cx| head.put_in(path, cx))
}

/// `path.state`.
pub(super) fn set_state(daemon: &DaemonState, request: SetPathState) -> Result<HeadStatus, ControlError> {
    let SetPathState { device, path, state } = request;
    let state = named("state", &state, &AnaState::ALL, AnaState::name)?;
    change_path(daemon, &device, path, move |head, path, cx| head.set_state(path, state, cx))
}

/// Sets the NUMA node of a path; `None`: that of its disk.
pub(super) fn set_node(
    daemon: &DaemonState,
    (device, path): (&str, String),
    node: Option<Node>,
) -> Result<HeadStatus, ControlError> {
    change(daemon, device, move |shard, named| {
        let number = number_of(shard, named, &path)?;
        let of_disk = || shard.devices.node_of(shard.devices.find(&path)?.device, &shard.stack);
        let node = node.or_else(of_disk);
        shard.stack.with_device(named.leaf, |head: &mut Head, _| head.set_node(number, node));
        Ok(())
    })
}

/// `path.policy`.
pub(super) fn set_policy(daemon: &DaemonState, request: &SetPathPolicy) -> Result<HeadStatus, ControlError> {
    let kind = named("policy", &request.policy, &PolicyKind::ALL, PolicyKind::name)?;
    let SetPathPolicy { decay_percent: decay, window_ns, low_water, .. } = *request;
    let options = PolicyOptions { decay, window: window_ns.map(Duration::from_nanos), low_water };
    options.check(kind).map_err(|error| bad(error.to_string()))?;
    change(daemon, &request.device, move |shard, named| {
        shard.stack.with_device(named.leaf, |head: &mut Head, _| head.set_policy(kind, options));
        Ok(())
    })
}

/// `path.add`.
pub(super) fn add(
    daemon: &DaemonState,
    AddPath { device, path, state, node }: AddPath,
) -> Result<HeadStatus, ControlError> {
    let state = state.as_deref().map(|state| named("state", state, &AnaState::ALL, AnaState::name)).transpose()?;
    let state = state.unwrap_or(AnaState::Optimized);
    let out_of_range = |node| bad(format!("`node` is {node}, allowed: 0 to 255 (a NUMA node)"));
    let node = node.map(|node| u8::try_from(node).map(Node).map_err(|_| out_of_range(node))).transpose()?;
    if daemon.find(&path)?.is_none() {
        return Err(unknown_device(daemon, &path)?);
    }
    change(daemon, &device, move |shard, head| {
        let added = add_path(shard, head, (&path, state, node));
        added.map_err(|message| ControlError::new(ErrorKind::Invalid, message))
    })
}

/// `path.remove`.
pub(super) fn remove(daemon: &DaemonState, OnePath { device, path }: OnePath) -> Result<HeadStatus, ControlError> {
    change(daemon, &device, move |shard, head| {
        let number = number_of(shard, head, &path)?;
        remove_path(shard, head, number);
        Ok(())
    })
}

/// The paths of a device that get I/O, or would.
pub(super) fn names_of(daemon: &DaemonState, device: &str) -> Result<Vec<String>, ControlError> {
    paths_of(daemon, device, |path| path.health != PathHealth::Leaving)
}

/// The paths of a device, and those that were removed and have something under way.
pub(super) fn all_names_of(daemon: &DaemonState, device: &str) -> Result<Vec<String>, ControlError> {
    paths_of(daemon, device, |_| true)
}

fn paths_of(
    daemon: &DaemonState,
    device: &str,
    is_wanted: fn(&PathReport) -> bool,
) -> Result<Vec<String>, ControlError> {
    let (shard, named) = find(daemon, device)?;
    Ok(shard.mailbox.ask(move |shard| {
        let paths = shard.stack.device(named.leaf).into_iter().flat_map(Head::paths).filter(is_wanted);
        paths.map(|path| shard.devices.label(path.device)).collect()
    })?)
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
    device: &str,
    path: String,
    change_it: impl FnOnce(&mut Head, usize, &mut Cx<'_>) + Send + 'static,
) -> Result<HeadStatus, ControlError> {
    change(daemon, device, move |shard, named| {
        let number = number_of(shard, named, &path)?;
        shard.stack.with_device(named.leaf, |head: &mut Head, cx| change_it(head, number, cx));
        Ok(())
    })
}

/// The number of a path that is given by its name.
fn number_of(shard: &Shard, named: &Named, path: &str) -> Result<usize, ControlError> {
    let reports: Vec<PathReport> = shard.stack.device(named.leaf).into_iter().flat_map(Head::paths).collect();
    let in_use = |report: &&PathReport| report.health != PathHealth::Leaving;
    let names = reports.iter().filter(in_use).map(|report| (shard.devices.label(report.device), report.number));
    let names: Vec<(String, usize)> = names.collect();
    let found = names.iter().find(|(name, _)| name == path).map(|(_, number)| *number);
    found.ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        let (hint, all) = (hint(path, &names), if names.is_empty() { "none".into() } else { names.join(", ") });
        let message = format!("`{}` has no path `{path}`; {hint}its paths are: {all}", named.name);
        ControlError::new(ErrorKind::Invalid, message)
    })
}

/// Does something to a device; how it is then.
fn change(
    daemon: &DaemonState,
    device: &str,
    change_it: impl FnOnce(&mut Shard, &Named) -> Result<(), ControlError> + Send + 'static,
) -> Result<HeadStatus, ControlError> {
    let (shard, named) = find(daemon, device)?;
    shard.mailbox.ask(move |shard| {
        // A head sets timers: it has to know what time it is, however long nothing has happened.
        let now = shard.now();
        shard.stack.turn(now);
        change_it(shard, &named)?;
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
        options: options_of(head.policy(), &head.policy_options()),
        latency_resolution_ns: shard.resolution().map(Duration::as_nanos),
        node: head.node().0,
        waiting: head.waiting(),
        waited: counters.waited,
        without_path: counters.without_path,
        uncertain_appends: counters.uncertain_appends,
        doubled_appends: counters.doubled_appends,
        unsettled: counters.unsettled,
        paths: head.paths().map(|path| show(shard, head, (&path, all))).collect(),
    })
}

/// Options of a policy with the defaults of those that were not given; `None` if it has none.
fn options_of(policy: PolicyKind, given: &PolicyOptions) -> Option<PathPolicyOptions> {
    match policy {
        PolicyKind::Latency => {
            let LatencyOptions { decay, window, low_water } = given.into();
            let (decay_percent, window_ns) = (decay.into(), window.as_nanos());
            Some(PathPolicyOptions { decay_percent, window_ns, low_water: low_water.into() })
        }
        PolicyKind::Adaptive => {
            let AdaptiveOptions { kept, window, low_water } = given.into();
            let (decay_percent, window_ns) = (f64::from(kept) / 10.0, window.as_nanos());
            Some(PathPolicyOptions { decay_percent, window_ns, low_water })
        }
        _ => None,
    }
}

/// A path of a device that has sent `all`.
fn show(shard: &Shard, head: &Head, (path, all): (&PathReport, u64)) -> PathStatus {
    let counters = path.counters;
    PathStatus {
        path: shard.devices.label(path.device),
        state: path.state.name().into(),
        node: path.node.map(|node| node.0),
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
        windows: head.windows(path.number).iter().map(show_window).collect(),
    }
}

fn show_window(window: &PathWindow) -> PathWindowStatus {
    PathWindowStatus {
        node: window.node.0,
        kind: window.class.map_or("all", IoClass::name).into(),
        latency_ns: window.latency.as_nanos(),
        samples: window.samples,
        weight: window.weight,
    }
}
