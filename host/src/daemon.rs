//! A running stack: its shards, its exports, its listeners.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use shingle_core::frontend::nbd::Export;
use shingle_core::mapper::MapperError;

use crate::config::{ConfigError, DiskKind, ExportPlan, ListenPlan, Plan, build_shard};
use crate::control::{ControlError, ControlServer};
use crate::devices::Named;
use crate::mailbox::{Mailbox, MailboxError};
use crate::notices::Notices;
use crate::serve::listen::{Address, ListenError, Listener};
use crate::serve::nbd::{Directory, Nbd, NbdError, NbdOptions, Route};
use crate::shard::{Shard, ShardError, ShardThread};

/// What everybody may know of a running stack, and how to ask it for more.
pub struct Census {
    /// The plan it was built from.
    pub plan: Plan,
    /// Its shards.
    pub shards: Vec<ShardInfo>,
    /// What clients can choose from.
    pub exports: Directory,
    /// Where clients connect.
    pub addresses: Vec<Address>,
    /// When it was ready.
    pub started: Instant,
}

/// A shard from outside.
pub struct ShardInfo {
    /// The way to ask it.
    pub mailbox: Mailbox,
    /// The home of its connections.
    pub nbd: Nbd,
}

impl Census {
    /// The device called `name`, and its shard.
    ///
    /// # Errors
    /// If a shard does not answer.
    pub fn find(&self, name: &str) -> Result<Option<(&ShardInfo, Named)>, MailboxError> {
        for shard in &self.shards {
            let wanted = name.to_owned();
            if let Some(named) = shard.mailbox.ask(move |shard| shard.devices.find(&wanted))? {
                return Ok(Some((shard, named)));
            }
        }
        Ok(None)
    }

    /// The names of all devices, shard by shard.
    ///
    /// # Errors
    /// If a shard does not answer.
    pub fn names(&self) -> Result<Vec<String>, MailboxError> {
        let mut names = Vec::new();
        for shard in &self.shards {
            names.extend(shard.mailbox.ask(|shard| shard.devices.list())?.into_iter().map(|named| named.name));
        }
        Ok(names)
    }

    /// Where a disk's data is.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Option<PathBuf> {
        let disk = self.plan.disks.iter().find(|disk| disk.name == name)?;
        match &disk.kind {
            DiskKind::Null(_) => None,
            DiskKind::File { path, .. } | DiskKind::ZonedDir { path, .. } => {
                Some(path.canonicalize().unwrap_or_else(|_| path.clone()))
            }
        }
    }
}

/// A running stack.
pub struct Daemon {
    census: Arc<Census>,
    threads: Vec<ShardThread>,
    control: Option<ControlServer>,
}

impl Daemon {
    /// Builds the stack of `plan` and serves it. After an error nothing is left running.
    pub fn start(plan: Plan) -> Result<Self, DaemonError> {
        let (mut threads, mut shards, mut routes) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..plan.shards {
            match start_shard(&plan, number) {
                Ok((thread, info, its_routes)) => {
                    threads.push(thread);
                    shards.push(info);
                    routes.extend(its_routes);
                }
                Err(error) => return Err(abandon(threads, error)),
            }
        }
        let (exports, addresses) = match serve(&plan, &shards, routes) {
            Ok(served) => served,
            Err(error) => return Err(abandon(threads, error)),
        };
        let census = Arc::new(Census { plan, shards, exports, addresses, started: Instant::now() });
        match census.plan.control.as_ref().map(|path| ControlServer::start(path, census.clone())).transpose() {
            Ok(control) => Ok(Self { census, threads, control }),
            Err(error) => Err(abandon(threads, error.into())),
        }
    }

    /// What it consists of.
    #[must_use]
    pub fn census(&self) -> &Census {
        &self.census
    }

    /// The control socket, if there is one.
    #[must_use]
    pub fn control(&self) -> Option<&ControlServer> {
        self.control.as_ref()
    }

    /// Whether a shard has ended by itself: then the whole has to.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.threads.iter().any(ShardThread::is_finished)
    }

    /// Finishes what is in flight, flushes every disk and ends.
    pub fn stop(self) -> Result<(), DaemonError> {
        drop(self.control);
        // All of them are stopped even if one fails; the first failure is the one to report.
        let results: Vec<Result<(), ShardError>> = self.threads.into_iter().map(ShardThread::stop).collect();
        results.into_iter().collect::<Result<(), ShardError>>().map_err(DaemonError::Shard)
    }
}

fn abandon(threads: Vec<ShardThread>, error: DaemonError) -> DaemonError {
    threads.into_iter().for_each(|thread| {
        // The reason to give up is the one to report.
        let _ = thread.stop();
    });
    error
}

fn start_shard(plan: &Plan, number: u32) -> Result<(ShardThread, ShardInfo, Vec<Route>), DaemonError> {
    let plan = plan.clone();
    let furnish = move |shard: &mut Shard| -> Result<_, DaemonError> {
        build_shard(&plan, number, shard)?;
        let nbd = Nbd::install(shard, nbd_options(&plan.listen));
        if let Some(notices) = Notices::of(&shard.devices) {
            shard.spawn(Box::new(notices));
        }
        let routes = plan.exports.iter().filter_map(|export| open_export(shard, export, &nbd).transpose());
        let routes = routes.collect::<Result<Vec<Route>, _>>().map_err(DaemonError::Export)?;
        Ok((nbd, routes))
    };
    let (thread, (nbd, routes)) = ShardThread::start(&format!("shard{number}"), furnish)?;
    let mailbox = thread.mailbox().clone();
    Ok((thread, ShardInfo { mailbox, nbd }, routes))
}

/// How clients are treated, as the stack file wants it.
fn nbd_options(listen: &ListenPlan) -> NbdOptions {
    let mut options = NbdOptions::default();
    options.connections = listen.connections.unwrap_or(options.connections);
    options.memory_bytes = listen.memory.unwrap_or(options.memory_bytes);
    options.keep_bytes = options.memory_bytes / 4;
    options.session.bytes = listen.client_memory.unwrap_or(options.session.bytes);
    options.idle_timeout = listen.idle_timeout;
    options
}

/// An export of a device of `shard`, which stays in use until [`close_export`]; `None` if there is no such device.
///
/// # Errors
/// If clients could write to a device that a mapped one needs for itself.
pub(crate) fn open_export(shard: &mut Shard, plan: &ExportPlan, home: &Nbd) -> Result<Option<Route>, MapperError> {
    let Some(device) = shard.devices.open(&plan.device) else { return Ok(None) };
    let mapper = &mut shard.devices.mapper;
    if !plan.read_only
        && let Err(mut error) = mapper.begin_writing(device)
    {
        mapper.close(device);
        error.message = format!("`{}` cannot be exported as `{}`: {}", plan.device, plan.name, error.message);
        return Err(error);
    }
    let limits = shard.stack.limits(device);
    // Several connections of one client may change the order of their writes, which zones do not forgive.
    let export = Export::new(plan.name.as_str(), device, limits)
        .with_description(plan.description.clone().unwrap_or_default())
        .with_read_only(plan.read_only)
        .with_multi_conn(limits.zoned.is_none());
    Ok(Some(Route { export, home: home.clone() }))
}

/// Takes [`open_export`] back.
pub(crate) fn close_export(shard: &mut Shard, route: &Route) {
    let (mapper, export) = (&mut shard.devices.mapper, &route.export);
    mapper.close(export.device);
    if !export.asked_read_only {
        mapper.end_writing(export.device);
    }
}

/// Starts the listeners, for the exports in the order of the stack file. The first shard accepts; a connection moves to the
/// shard of its export.
fn serve(plan: &Plan, shards: &[ShardInfo], mut routes: Vec<Route>) -> Result<(Directory, Vec<Address>), DaemonError> {
    routes.sort_by_key(|route| plan.exports.iter().position(|export| export.name == route.export.name));
    let directory = Directory::new(routes).map_err(DaemonError::Nbd)?;
    let wanted = [plan.listen.unix.clone().map(Address::Unix), plan.listen.tcp.map(Address::Tcp)];
    let mut addresses = Vec::new();
    for address in wanted.into_iter().flatten() {
        let listener = Listener::bind(&address).map_err(DaemonError::Listen)?;
        addresses.push(listener.address().clone());
        shards[0].nbd.listen(listener, &directory).map_err(DaemonError::Nbd)?;
    }
    Ok((directory, addresses))
}

/// Why a stack does not run.
#[derive(Debug)]
pub enum DaemonError {
    /// The stack file does not fit the machine.
    Config(Box<ConfigError>),
    /// A shard failed.
    Shard(ShardError),
    /// Nobody can listen there.
    Listen(ListenError),
    /// A device cannot be exported as the stack file wants it.
    Export(MapperError),
    /// The exports cannot be served.
    Nbd(NbdError),
    /// There is no control socket.
    Control(ControlError),
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Shard(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
            Self::Export(error) => error.fmt(f),
            Self::Nbd(error) => error.fmt(f),
            Self::Control(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DaemonError {}

impl From<ConfigError> for DaemonError {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

impl From<ShardError> for DaemonError {
    fn from(error: ShardError) -> Self {
        Self::Shard(error)
    }
}

impl From<ControlError> for DaemonError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}
