//! Exports that come and go while the daemon runs.

use super::names::unknown_device;
use super::protocol::{AddExport, Added, Done, RemoveExport};
use super::{ControlError, ErrorKind, bad};
use crate::config::{ExportPlan, check_export_name};
use crate::daemon_state::{DaemonState, close_export, open_export};
use crate::serve::{ExportKeys, ServeError};

impl From<ServeError> for ControlError {
    fn from(error: ServeError) -> Self {
        let is_of_exports = matches!(error, ServeError::Exports { .. } | ServeError::Taken(_));
        let kind = if is_of_exports { ErrorKind::Exists } else { ErrorKind::Stopped };
        ControlError::new(kind, error.to_string())
    }
}

/// `export.add`.
pub(super) fn add(daemon: &DaemonState, request: AddExport) -> Result<Added, ControlError> {
    let AddExport { name, device, read_only, description, keys } = request;
    check_export_name(&name).map_err(bad)?;
    let keys = ExportKeys::of_values(&daemon.plan().front_ends, &keys).map_err(bad)?;
    show(daemon, ExportPlan { name, device, read_only, description, keys })
}

/// Has clients see an export.
pub(super) fn show(daemon: &DaemonState, plan: ExportPlan) -> Result<Added, ControlError> {
    if !daemon.plan().front_ends.iter().any(|front_end| front_end.offers(&plan.keys)) {
        let way = "add [listen] to its stack file and start it again, or make the export a block device with `ublk`";
        return Err(bad(format!("this daemon listens nowhere: {way}")));
    }
    let Some((shard, _)) = daemon.find(&plan.device)? else { return Err(unknown_device(daemon, &plan.device)?) };
    let (number, directory) = (shard.number, daemon.exports.clone());
    let added = shard.mailbox.ask(move |shard| {
        let export = match open_export(shard, number, &plan) {
            Ok(export) => export?,
            Err(error) => return Some(Err(error.into())),
        };
        let added = directory.add(export.clone());
        if added.is_err() {
            close_export(shard, &export);
        }
        Some(added.map(|()| (plan, export)).map_err(ControlError::from))
    })?;
    let gone = || ControlError::new(ErrorKind::UnknownDevice, "the device was removed meanwhile");
    let (plan, export) = added.ok_or_else(gone)??;
    if let Err(error) = daemon.services.iter().try_for_each(|service| service.show(&export, &daemon.exports)) {
        take_out(daemon, &plan.name)?;
        return Err(error.into());
    }
    let path = daemon.place_of(&plan.name).map(|path| path.display().to_string());
    Ok(Added { name: plan.name, device: plan.device, bytes: export.bytes(), path })
}

/// `export.remove`.
pub(super) fn remove(daemon: &DaemonState, RemoveExport { name }: &RemoveExport) -> Result<Done, ControlError> {
    daemon.services.iter().try_for_each(|service| service.withdraw(name)).map_err(|error| {
        let message = error.to_string();
        ControlError::new(ErrorKind::Busy, message)
    })?;
    take_out(daemon, name)
}

/// Takes an export out that nobody uses.
fn take_out(daemon: &DaemonState, name: &str) -> Result<Done, ControlError> {
    let export = daemon.exports.remove(name).map_err(|users| match users {
        None => {
            let names: Vec<String> = daemon.exports.exports().into_iter().map(|export| export.name).collect();
            let message = format!("there is no export `{name}`; there are: {}", names.join(", "));
            ControlError::new(ErrorKind::UnknownDevice, message)
        }
        Some(users) => {
            let message = format!("export `{name}` has {users} connections: end them first");
            ControlError::new(ErrorKind::Busy, message)
        }
    })?;
    daemon.shards[export.shard].mailbox.ask(move |shard| close_export(shard, &export))?;
    Ok(Done {})
}
