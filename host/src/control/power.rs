//! The power of simulated drives.

use shingle_core::block::Cx;
use shingle_drives::live::LiveDrive;
use shingle_drives::medium::{Medium, Store};

use super::names::unknown_device;
use super::protocol::{CutPower, DriveStatus, Drives, GetPower, RestorePower};
use super::{ControlError, ErrorKind};
use crate::daemon_state::{DaemonState, ShardInfo};
use crate::devices::Named;
use crate::shard::Shard;

/// `power.status`.
pub(super) fn status(daemon: &DaemonState, GetPower { device }: &GetPower) -> Result<Drives, ControlError> {
    if let Some(device) = device {
        let (shard, named) = find(daemon, device)?;
        let drive = shard.mailbox.ask(move |shard| status_of(shard, &named))?;
        return Ok(Drives { drives: drive.into_iter().collect() });
    }
    let mut drives = Vec::new();
    for shard in &daemon.shards {
        drives.extend(shard.mailbox.ask(all)?);
    }
    Ok(Drives { drives })
}

/// `power.cut`.
pub(super) fn cut(daemon: &DaemonState, CutPower { device }: &CutPower) -> Result<DriveStatus, ControlError> {
    switch(daemon, device, LiveDrive::cut_power, "has no power: `shingle power on` gives it back")
}

/// `power.on`.
pub(super) fn restore(
    daemon: &DaemonState,
    RestorePower { device }: &RestorePower,
) -> Result<DriveStatus, ControlError> {
    switch(daemon, device, LiveDrive::restore_power, "has power already: `shingle power cut` takes it")
}

/// Does one or the other; the drive says whether it changed anything, and `otherwise` is what to say if not.
fn switch(
    daemon: &DaemonState,
    device: &str,
    change: fn(&mut LiveDrive, &mut Cx<'_>) -> bool,
    otherwise: &'static str,
) -> Result<DriveStatus, ControlError> {
    let (shard, named) = find(daemon, device)?;
    shard.mailbox.ask(move |shard| {
        // The drive has to know what time it is, however long nothing has happened: what was due before is answered.
        let now = shard.now();
        shard.stack.turn(now);
        let changed = shard.stack.with_device(named.leaf, change);
        let status = status_of(shard, &named).zip(changed);
        match status {
            Some((status, true)) => Ok(status),
            Some((_, false)) => Err(ControlError::new(ErrorKind::Invalid, format!("`{}` {otherwise}", named.name))),
            None => Err(ControlError::new(ErrorKind::UnknownDevice, format!("`{}` is gone", named.name))),
        }
    })?
}

/// The simulated drive of this name.
fn find<'a>(daemon: &'a DaemonState, name: &str) -> Result<(&'a ShardInfo, Named), ControlError> {
    let Some((shard, named)) = daemon.find(name)? else { return Err(unknown_device(daemon, name)?) };
    let leaf = named.leaf;
    if shard.mailbox.ask(move |shard| shard.stack.device::<LiveDrive>(leaf).is_some())? {
        return Ok((shard, named));
    }
    let drives = status(daemon, &GetPower::default())?.drives;
    let names: Vec<&str> = drives.iter().map(|drive| drive.device.as_str()).collect();
    let drives = if names.is_empty() { "none here".to_owned() } else { names.join(", ") };
    let message = format!(
        "`{name}` ({}) has no power to cut: only simulated drives (`type = \"profile\"`) have; there are: {drives}",
        named.kind
    );
    Err(ControlError::new(ErrorKind::Invalid, message))
}

fn all(shard: &mut Shard) -> Vec<DriveStatus> {
    shard.devices.list().iter().filter_map(|named| status_of(shard, named)).collect()
}

/// What is known of a simulated drive; `None` if it is none.
pub(super) fn status_of(shard: &Shard, named: &Named) -> Option<DriveStatus> {
    let drive = shard.stack.device::<LiveDrive>(named.leaf)?;
    let lateness = drive.lateness();
    let store = drive.medium().and_then(Medium::store);
    Some(DriveStatus {
        device: named.name.clone(),
        power: drive.power().name().into(),
        cuts: drive.cuts(),
        in_flight: drive.in_flight(),
        answered: lateness.count(),
        mean_lateness_ns: lateness.mean().map(|late| late.as_nanos()),
        max_lateness_ns: lateness.max().as_nanos(),
        memory_bytes: drive.memory_bytes(),
        memory_limit: drive.medium().and_then(Medium::limit),
        directory: store.map(|store| store.place().to_owned()),
        directory_bytes: store.map(Store::bytes),
    })
}
