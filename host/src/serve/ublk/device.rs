//! A block device from its first step to its last.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use shingle_core::block::RemoteMemory;
use shingle_core::frontend::ublk::{Session, SessionShape};
use shingle_sys::ublk::{Control, Descriptors, DeviceInfo, Features, NewDevice, RequestMemory, State};
use shingle_sys::{Fd, MOST_DRIVER_REGIONS, driver_region};

use super::error::UblkError;
use super::keeps::{self, Keeps};
use super::keys::{Keys, MOST_TAGS};
use super::parameters::{Shape, shape};
use super::record::{DeviceRecord, Difference, Records};
use super::replay_watch::{self, Readiness, Taken};
use super::server::{Places, Server, place};
use super::udev;
use super::users::users;
use super::waiting::is_running;
use crate::patience::patiently;
use crate::serve::{Export, ExportIdentity, User};
use crate::shard::{Mailbox, Shard};

/// Where the driver lists devices.
const LIST: &str = "/sys/class/ublk-char";
/// How long the driver may take for what waits for requests: a start reads all zones and the partition table.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the last who has a device open may take to let go of it.
pub(super) const LEAVE: Duration = Duration::from_secs(10);
/// How long between two looks at what the driver knows.
const LOOK: Duration = Duration::from_millis(20);
/// Most commands of all block devices that wait in the ring of one shard: half of what a ring has room for.
pub(super) const MOST_OF_SHARD: u32 = MOST_TAGS as u32;
const _: () = assert!(MOST_OF_SHARD <= MOST_DRIVER_REGIONS, "each can have a region");

/// What a shard has for block devices, from outside.
#[derive(Clone)]
pub(super) struct Home {
    pub mailbox: Mailbox,
    pub places: Places,
}

/// What a device is made for.
pub(super) struct Wanted<'a> {
    pub export: &'a Export,
    pub keys: Keys,
    /// By which who comes after knows it.
    pub mark: u64,
    /// Path of the stack file.
    pub stack_file: &'a Path,
    pub home: &'a Home,
    /// Its place among the users of the export.
    pub user: User,
}

/// What is below a device.
struct Below {
    identity: ExportIdentity,
    keeps: Keeps,
    /// Whether nobody there looks at data, and the driver can register the memory of requests for the ring.
    takes_remote: bool,
}

/// What every device needs of the driver.
const NEEDED: Features = Features::USER_COPY.and(Features::IOCTL_NUMBERS);
/// What the driver has to offer to register the memory of requests.
pub(super) const REGISTERS: Features = Features::ZERO_COPY.and(Features::AUTO_REGISTER);

impl Below {
    fn ask(wanted: &Wanted<'_>, offered: Features) -> Result<Self, UblkError> {
        let (export, place, is_offered) = (wanted.export, wanted.export.device, offered.has(REGISTERS));
        let told = wanted.home.mailbox.ask(move |shard| {
            let takes_remote = is_offered && shard.stack.takes_remote(place);
            (shard.stack.survival(place), takes_remote && shard.ring().reserve_regions().is_ok())
        });
        let (survival, takes_remote) = told.map_err(|_| UblkError::Shard(export.name.clone()))?;
        let (identity, keeps) = (identify(export, wanted.home)?, Keeps::of(export, survival));
        // What is remembered has to be looked at.
        Ok(Self { identity, keeps, takes_remote: takes_remote && keeps != Keeps::Unflushed })
    }
}

fn identify(export: &Export, home: &Home) -> Result<ExportIdentity, UblkError> {
    let identity = export.identify.map(|identify| identify(&home.mailbox, export.device)).transpose();
    identity
        .map(Option::unwrap_or_default)
        .map_err(|error| UblkError::Unidentified { export: export.name.clone(), error })
}

/// A block device that is served.
pub(super) struct Device {
    pub export: String,
    pub number: u32,
    mark: u64,
    /// True if the next daemon can take it over, so that it has a record.
    is_lasting: bool,
}

impl Device {
    /// Makes the device of an export, or takes over the one that a killed daemon has left.
    pub fn open(wanted: Wanted<'_>) -> Result<Self, UblkError> {
        let mut control = Control::open().map_err(UblkError::Driver)?;
        let export = wanted.export;
        let shape = shape(export).map_err(|why| UblkError::Shape { export: export.name.clone(), why })?;
        let offered = check_driver(&mut control, &export.name, &shape)?;
        let below = Below::ask(&wanted, offered)?;
        match find_left(&mut control, wanted.mark) {
            Some(info) if info.state() == State::Quiesced => take_over(&mut control, wanted, (&shape, &below), &info),
            Some(info) if info.state() == State::Live => {
                Err(UblkError::Served { export: export.name.clone(), number: info.number, pid: info.server })
            }
            Some(info) => {
                let removed = control.delete(info.number, LEAVE);
                removed.map_err(refused(&export.name, "remove the device that a daemon has left"))?;
                make(&mut control, wanted, (&shape, &below))
            }
            None => make(&mut control, wanted, (&shape, &below)),
        }
    }

    /// The name of the block device.
    pub fn name(&self) -> String {
        format!("ublkb{}", self.number)
    }

    /// Where users find it.
    pub fn path(&self) -> PathBuf {
        format!("/dev/{}", self.name()).into()
    }

    /// Has it as large as its export.
    pub fn resize(&self, export: &Export) -> Result<(), UblkError> {
        let mut control = Control::open().map_err(UblkError::Driver)?;
        let name = || export.name.clone();
        let shape = shape(export).map_err(|why| UblkError::Shape { export: name(), why })?;
        let sectors = shape.parameters.sectors();
        let shown = control.parameters(self.number).map_err(refused(&export.name, "tell its size"))?;
        if shown.sectors() == sectors {
            return Ok(());
        }
        let can = control.features().unwrap_or_default().has(Features::UPDATE_SIZE);
        if shape.is_zoned || !can {
            return Err(UblkError::Fixed { export: name(), number: self.number, is_zoned: shape.is_zoned });
        }
        control.update_size(self.number, sectors).map_err(refused(&export.name, "change its size"))
    }

    /// Updates the record of the device with the identity that the export has now.
    pub fn recall(&self, export: &Export, home: &Home) -> Result<(), UblkError> {
        let records = Records::of_machine();
        let identity = identify(export, home)?;
        match records.read(self.mark) {
            Ok(Some(record)) if self.is_lasting && record.identity != identity => {
                let written = records.write(self.mark, &DeviceRecord::new(&record.export, &record.stack, identity));
                written.map_err(|error| UblkError::Keep { export: export.name.clone(), error })
            }
            _ => Ok(()),
        }
    }

    /// Takes it away, if nobody uses it.
    pub fn close(&self) -> Result<(), UblkError> {
        let (export, number) = (self.export.clone(), self.number);
        let held = File::options().read(true).custom_flags(OFlags::EXCL.bits() as i32).open(self.path());
        let users = users(&self.name());
        if !users.is_empty() || matches!(&held, Err(error) if Errno::from_io_error(error) == Some(Errno::BUSY)) {
            return Err(UblkError::Used { export, number, users });
        }
        let mut control = Control::open().map_err(UblkError::Driver)?;
        control.stop(number, PATIENCE).map_err(refused(&export, "stop its block device"))?;
        drop(held);
        control.delete(number, LEAVE).map_err(refused(&export, "remove its block device"))?;
        keeps::remove(self.mark);
        udev::forget(self.number);
        Ok(())
    }
}

pub(super) fn refused<'a>(export: &'a str, doing: &'static str) -> impl FnOnce(io::Error) -> UblkError + 'a {
    move |error| UblkError::Refused { export: export.into(), doing, error }
}

/// What the driver can do, if that is enough.
fn check_driver(control: &mut Control, export: &str, shape: &Shape) -> Result<Features, UblkError> {
    // Drivers that cannot say what they can do cannot do it.
    let features = control.features().unwrap_or_default();
    let needs = [
        (true, NEEDED, "copies by the server (UBLK_F_USER_COPY)", "6.5"),
        (shape.is_zoned, Features::ZONED, "zones (UBLK_F_ZONED)", "6.6"),
    ];
    match needs.into_iter().find(|(is_needed, feature, ..)| *is_needed && !features.has(*feature)) {
        Some((_, _, what, since)) => Err(UblkError::Missing { export: export.into(), what, since }),
        None => Ok(features),
    }
}

/// The numbers of all devices.
pub(super) fn numbers() -> Vec<u32> {
    let entries = fs::read_dir(LIST).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("ublkc")?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// The device that has this mark.
pub(super) fn find(control: &mut Control, mark: u64) -> Option<DeviceInfo> {
    numbers().into_iter().filter_map(|number| control.info(number).ok()).find(|info| info.mark == mark)
}

/// The same, when the driver knows that its server is gone if that is so: it waits until the memory of requests is at rest.
fn find_left(control: &mut Control, mark: u64) -> Option<DeviceInfo> {
    let give_up = Instant::now() + LEAVE;
    loop {
        let info = find(control, mark)?;
        if info.state() != State::Live || is_running(info.server) || Instant::now() > give_up {
            return Some(info);
        }
        thread::sleep(LOOK);
    }
}

fn make(control: &mut Control, wanted: Wanted<'_>, (shape, below): (&Shape, &Below)) -> Result<Device, UblkError> {
    let (export, mark, Keys { number, queues, depth }) = (wanted.export.name.clone(), wanted.mark, wanted.keys);
    let zoned = if shape.is_zoned { Features::ZONED } else { Features::default() };
    let is_lasting = below.keeps != Keeps::NoDevice;
    let lasting = if is_lasting { Features::RECOVERY.and(Features::REISSUE) } else { Features::default() };
    let registers = if below.takes_remote { REGISTERS } else { Features::default() };
    let features = NEEDED.and(lasting).and(zoned).and(registers);
    let new = NewDevice { number, queues, depth, io_bytes: shape.io_bytes, features, mark };
    let added = control.add(&new).map_err(|error| match number {
        Some(number) if Errno::from_io_error(&error) == Some(Errno::EXIST) => {
            let why = format!("/dev/ublkb{number} is there already: write another `ublk-number`, or none");
            UblkError::Shape { export: export.clone(), why }
        }
        _ => refused(&export, "make its block device")(error),
    })?;
    let number = added.number;
    udev::describe(number, &export, mark);
    let recorded = if is_lasting { record(&wanted, below) } else { Ok(()) };
    let started = recorded
        .and_then(|()| {
            let set = control.set_parameters(number, &shape.parameters);
            set.map_err(refused(&export, "take its size and limits"))
        })
        .and_then(|()| serve(wanted, &added, (below, true)))
        .and_then(|_| control.start(number, PATIENCE).map_err(refused(&export, "start its block device")));
    if started.is_err() {
        // The reason why there is none is the one to report.
        let _ = control.delete(number, LEAVE);
        keeps::remove(mark);
        udev::forget(number);
    }
    started.map(|()| Device { export, number, mark, is_lasting })
}

/// Writes the record of a device.
fn record(wanted: &Wanted<'_>, below: &Below) -> Result<(), UblkError> {
    let record = DeviceRecord::new(&wanted.export.name, wanted.stack_file, below.identity.clone());
    let written = Records::of_machine().write(wanted.mark, &record);
    written.map_err(|error| UblkError::Keep { export: wanted.export.name.clone(), error })
}

/// Compares the recorded identity of a device with that of the export. Daemons of earlier versions left no record: their devices are taken over if
/// size and limits are the same.
fn check_identity(wanted: &Wanted<'_>, below: &Below, number: u32) -> Result<(), UblkError> {
    let (export, records) = (wanted.export.name.clone(), Records::of_machine());
    let Some(record) = records.read(wanted.mark).map_err(|error| {
        let (export, path) = (export.clone(), records.path(wanted.mark));
        UblkError::Record { export, number, path, error }
    })?
    else {
        tracing::warn!(
            export,
            "export `{export}`: /dev/ublkb{number} is of an earlier version and has no record of its volume or disks; only its size and limits are compared"
        );
        return Ok(());
    };
    let Some(Difference { expected, found }) = record.difference(&below.identity) else { return Ok(()) };
    let users = users(&format!("ublkb{number}"));
    Err(UblkError::Replaced { export, number, users, expected, found })
}

fn take_over(
    control: &mut Control,
    wanted: Wanted<'_>,
    (shape, below): (&Shape, &Below),
    info: &DeviceInfo,
) -> Result<Device, UblkError> {
    let (export, mark, number) = (wanted.export.name.clone(), wanted.mark, info.number);
    let left = control.parameters(number).map_err(refused(&export, "tell what its block device was"))?;
    if !left.are(&shape.parameters) {
        return Err(UblkError::Changed { export, number });
    }
    check_identity(&wanted, below, number)?;
    let is_busy = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::BUSY);
    // The disks are open, so what the old server had under way is over; it may still have the device for a moment.
    let begun = patiently(is_busy, || patiently(is_busy, || control.start_recovery(number)));
    // A server that was killed at once had begun the recovery and fetched nothing. Linux 6.12 refuses to begin it twice, as no queue is ready
    // (`drivers/block/ublk_drv.c:ublk_ctrl_start_recovery`).
    let is_begun = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::INVAL);
    let begun = begun.or_else(|error| if is_begun(&error) { Ok(()) } else { Err(error) });
    begun.map_err(refused(&export, "hand its block device over"))?;
    // The volume may have other disks than before.
    record(&wanted, below)?;
    let readiness = serve(wanted, info, (below, false))?;
    let disks = below.identity.disks_text();
    replay_watch::wait(&readiness, Taken { export: &export, number, disks: &disks })?;
    control.end_recovery(number, PATIENCE).map_err(refused(&export, "let the requests of its block device go on"))?;
    tracing::info!(export, "export `{export}`: /dev/ublkb{number}, which a daemon has left, is served again");
    Ok(Device { export, number, mark, is_lasting: true })
}

/// Has the shard of the export ask for requests.
fn serve(wanted: Wanted<'_>, info: &DeviceInfo, (below, is_new): (&Below, bool)) -> Result<Readiness, UblkError> {
    let DeviceInfo { queues, depth, io_bytes, number, .. } = *info;
    let Wanted { export, home, user, mark, .. } = wanted;
    let (name, device) = (export.name.clone(), export.device);
    let path = format!("/dev/ublkc{number}");
    // The node comes a moment after the device, and in recovery the old server may still have it.
    let is_passing =
        |error: &io::Error| error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::BUSY);
    let file = patiently(is_passing, || File::options().read(true).write(true).open(&path));
    let file = OwnedFd::from(file.map_err(refused(&name, "open the queues of its block device"))?);
    let (free, all) = (home.places.clone(), usize::from(queues) * usize::from(depth));
    let (&Below { keeps, takes_remote, .. }, registers) = (below, info.features().has(REGISTERS));
    let shared = Arc::new(file.try_clone().map_err(refused(&name, "share the queues of its block device"))?);
    let shape = SessionShape { tags: all as u32, io_bytes };
    let kept = keeps.memory(mark, shape, is_new);
    let zeroes = File::open("/dev/zero").map_err(|error| UblkError::Keep { export: name.clone(), error })?;
    let kept = kept.map_err(|error| UblkError::Keep { export: name.clone(), error })?;
    let readiness = Readiness::new();
    let stage = readiness.clone();
    let furnish = move |shard: &mut Shard| {
        let full = || UblkError::Full { export: name.clone(), most: MOST_OF_SHARD };
        let places = free.take(all).ok_or_else(full)?;
        let remote = |(tag, number): (usize, &u32)| {
            let memory = RequestMemory::new(shared.clone(), place(tag as u32, depth), driver_region(*number));
            Arc::new(memory) as Arc<dyn RemoteMemory>
        };
        let memories: Vec<_> = if registers && takes_remote {
            places.numbers.iter().enumerate().map(remote).collect()
        } else {
            Vec::new()
        };
        let bytes = all as u64 * u64::from(io_bytes);
        let memory = || UblkError::Memory { export: name.clone(), bytes };
        let session = Session::new(shape).and_then(|session| keeps.furnish(session, kept, mark)).ok_or_else(memory)?;
        let session = session.with_remote(memories);
        let file = Fd::from(file);
        let map = |queue| Descriptors::map(&file, queue, depth).map_err(refused(&name, "show what requests ask for"));
        let descriptors = (0..queues).map(map).collect::<Result<Vec<_>, _>>()?;
        let files = (session, file, zeroes.into());
        let server = Server::new((name, device), files, descriptors, (depth, registers, (user, places)), readiness);
        shard.spawn(Box::new(server));
        Ok(stage)
    };
    home.mailbox.ask(furnish).unwrap_or_else(|_| Err(UblkError::Shard(export.name.clone())))
}
