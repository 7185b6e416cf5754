//! Block devices as the stack file wants them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::device::{Device, Home, MOST_OF_SHARD, Wanted};
use super::error::UblkError;
use super::fnv;
use super::keys::{self, Keys};
use super::memory::become_flusher;
use super::parameters::shape;
use super::server::Places;
use super::waiting::waiting_of_others;
use crate::serve::{Directory, Export, ExportKeys, FrontEnd, FrontEndType, ServeError, Service};
use crate::shard::Shard;

/// Block devices of this machine.
pub const TYPE: FrontEndType =
    FrontEndType { name: "ublk", read_listen: |_| Arc::new(Ublk), read_export: Some(keys::read) };

/// How long between two looks at whether a device that is to go is still used.
const LOOK: Duration = Duration::from_millis(250);
/// How many of those there are before a device in use is left to the next daemon.
const FEW_LOOKS: u32 = 20;

#[derive(Debug)]
struct Ublk;

impl FrontEnd for Ublk {
    fn kind(&self) -> &'static FrontEndType {
        &TYPE
    }

    fn offers(&self, keys: &ExportKeys) -> bool {
        keys.find::<Keys>().is_some()
    }

    fn prepare(&self, _: &ExportKeys) {
        become_flusher();
    }

    fn check(&self, exports: &[&Export]) -> Result<(), String> {
        exports.iter().try_for_each(|export| {
            shape(export).map(drop).map_err(|why| format!("`{}` cannot be a block device: {why}", export.name))
        })
    }

    fn service(&self, stack_file: &Path) -> Box<dyn Service> {
        let stack_file = stack_file.canonicalize().unwrap_or_else(|_| stack_file.to_owned());
        Box::new(Devices { stack_file, homes: Vec::new(), devices: Mutex::default() })
    }
}

/// The block devices of a daemon.
struct Devices {
    stack_file: PathBuf,
    /// One of each shard.
    homes: Vec<Home>,
    devices: Mutex<Vec<Device>>,
}

impl Devices {
    fn lock(&self) -> MutexGuard<'_, Vec<Device>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what a daemon that is started with the same stack file knows the device of an export.
    fn mark(&self, export: &str) -> u64 {
        fnv(&[self.stack_file.as_os_str().as_encoded_bytes(), &[0], export.as_bytes()].concat()).max(1)
    }
}

impl Service for Devices {
    fn install(&mut self, shard: &mut Shard) {
        self.homes.push(Home { mailbox: shard.mailbox(), places: Places::new(MOST_OF_SHARD) });
    }

    fn admit(&self, disks: &[&Path], exports: &[&str]) -> Result<(), ServeError> {
        let own: Vec<u64> = exports.iter().map(|export| self.mark(export)).collect();
        let waiting = disks.iter().find_map(|disk| Some((disk, waiting_of_others(disk, &own)?)));
        let Some((disk, waiting)) = waiting else { return Ok(()) };
        let path = disk.to_path_buf();
        Err(ServeError::Device(Box::new(UblkError::Awaited { path, waiting: Box::new(waiting) })))
    }

    fn show(&self, export: &Export, directory: &Directory) -> Result<(), ServeError> {
        let Some(keys) = export.keys.find::<Keys>() else { return Ok(()) };
        let claimed = directory.claim(|other| other.name == export.name, |_| usize::MAX, "its block device");
        let Ok((export, user)) = claimed else { return Ok(()) };
        let (mark, home) = (self.mark(&export.name), &self.homes[export.shard]);
        // Of a daemon that was started without block devices.
        let _ = home.mailbox.ask(|_| become_flusher());
        let wanted = Wanted { export: &export, keys: *keys, mark, stack_file: &self.stack_file, home, user };
        let device = Device::open(wanted).map_err(|error| ServeError::Device(Box::new(error)))?;
        self.lock().push(device);
        Ok(())
    }

    fn refresh(&self, export: &Export) {
        let devices = self.lock();
        let shown = devices.iter().find(|device| device.export == export.name);
        if let Some(Err(error)) = shown.map(|device| device.resize(export)) {
            tracing::warn!("{error}");
        }
    }

    fn recall(&self, export: &Export) {
        let devices = self.lock();
        let shown = devices.iter().find(|device| device.export == export.name);
        if let Some(Err(error)) = shown.map(|device| device.recall(export, &self.homes[export.shard])) {
            tracing::warn!("{error}");
        }
    }

    fn withdraw(&self, export: &str) -> Result<(), ServeError> {
        let mut devices = self.lock();
        let Some(place) = devices.iter().position(|device| device.export == export) else { return Ok(()) };
        devices[place].close().map_err(|error| ServeError::Device(Box::new(error)))?;
        devices.remove(place);
        Ok(())
    }

    fn path_of(&self, export: &str) -> Option<PathBuf> {
        self.lock().iter().find(|device| device.export == export).map(|device| device.path())
    }

    /// Users of block devices do not connect.
    fn connections(&self, _: usize) -> usize {
        0
    }

    fn stop(&self, wait: bool) {
        let mut devices = self.lock();
        let (mut told, mut looks) = (Vec::new(), 0);
        devices.retain(|device| !close_when_free(device, wait.then_some(&mut told)));
        // udev looks at what is new, for a moment.
        while !devices.is_empty() && (wait || looks < FEW_LOOKS) {
            thread::sleep(LOOK);
            devices.retain(|device| !close_when_free(device, wait.then_some(&mut told)));
            looks += 1;
        }
    }
}

/// Whether a device is gone: closed, or given up. Who is waited for is said once.
fn close_when_free(device: &Device, told: Option<&mut Vec<u32>>) -> bool {
    match device.close() {
        Ok(()) => true,
        Err(error @ UblkError::Used { .. }) => {
            if let Some(told) = told.filter(|told| !told.contains(&device.number)) {
                told.push(device.number);
                tracing::warn!(
                    "{error}; waiting for that. Ended at once, it waits for the next daemon of this stack file"
                );
            }
            false
        }
        Err(error) => {
            tracing::error!("{error}");
            true
        }
    }
}
