//! A running stack: its shards, its exports, its listeners.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use shingle_core::frontend::nbd::Export;

use crate::config::{Built, ConfigError, DiskKind, Named, Plan, build_shard};
use crate::control::{ControlError, ControlServer};
use crate::mailbox::Mailbox;
use crate::notices::Notices;
use crate::serve::listen::{Address, ListenError, Listener};
use crate::serve::nbd::{Nbd, NbdError, NbdOptions, Route};
use crate::shard::{ShardError, ShardThread};

/// What everybody may know of a running stack, and how to ask it for more.
pub struct Census {
    /// The plan it was built from.
    pub plan: Plan,
    /// Its shards.
    pub shards: Vec<ShardInfo>,
    /// Where clients connect.
    pub addresses: Vec<Address>,
    /// When it was ready.
    pub started: Instant,
}

/// A shard from outside.
pub struct ShardInfo {
    /// The way to ask it.
    pub mailbox: Mailbox,
    /// The devices in it that have names.
    pub built: Built,
    /// The home of its connections.
    pub nbd: Nbd,
    /// Its exports.
    pub exports: Vec<Export>,
}

impl Census {
    /// The device called `name`, and its shard.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(&ShardInfo, &Named)> {
        self.shards.iter().find_map(|shard| Some((shard, shard.built.find(name)?)))
    }

    /// The names of all devices.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.shards.iter().flat_map(|shard| &shard.built.named).map(|named| named.name.as_str()).collect()
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
        let mut threads = Vec::new();
        let mut shards = Vec::new();
        for number in 0..plan.shards {
            match start_shard(&plan, number) {
                Ok((thread, info)) => {
                    threads.push(thread);
                    shards.push(info);
                }
                Err(error) => return Err(abandon(threads, error)),
            }
        }
        let served = serve(&plan, &shards);
        let addresses = match served {
            Ok(addresses) => addresses,
            Err(error) => return Err(abandon(threads, error)),
        };
        let census = Arc::new(Census { plan, shards, addresses, started: Instant::now() });
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

fn start_shard(plan: &Plan, number: u32) -> Result<(ShardThread, ShardInfo), DaemonError> {
    let plan = plan.clone();
    let furnish = move |shard: &mut crate::shard::Shard| -> Result<_, DaemonError> {
        let built = build_shard(&plan, number, shard)?;
        let nbd = Nbd::install(shard, NbdOptions::default());
        if let Some(notices) = Notices::of(&built) {
            shard.spawn(Box::new(notices));
        }
        let exports = plan.exports.iter().filter_map(|export| {
            let device = built.find(&export.device)?.device;
            let limits = shard.stack.limits(device);
            // Several connections of one client may change the order of their writes, which zones do not forgive.
            let made = Export::new(export.name.as_str(), device, limits)
                .with_description(export.description.clone().unwrap_or_default())
                .with_read_only(export.read_only || limits.read_only)
                .with_multi_conn(limits.zoned.is_none());
            Some(made)
        });
        let exports = exports.collect();
        Ok((built, nbd, exports))
    };
    let (thread, (built, nbd, exports)) = ShardThread::start(&format!("shard{number}"), furnish)?;
    let mailbox = thread.mailbox().clone();
    Ok((thread, ShardInfo { mailbox, built, nbd, exports }))
}

/// Starts the listeners. The first shard accepts; a connection moves to the shard of its export.
fn serve(plan: &Plan, shards: &[ShardInfo]) -> Result<Vec<Address>, DaemonError> {
    let wanted = [plan.listen.unix.clone().map(Address::Unix), plan.listen.tcp.map(Address::Tcp)];
    let mut addresses = Vec::new();
    for address in wanted.into_iter().flatten() {
        let listener = Listener::bind(&address).map_err(DaemonError::Listen)?;
        addresses.push(listener.address().clone());
        shards[0].nbd.listen(listener, routes(plan, shards)).map_err(DaemonError::Nbd)?;
    }
    Ok(addresses)
}

/// The exports in the order of the stack file.
fn routes(plan: &Plan, shards: &[ShardInfo]) -> Vec<Route> {
    let find = |name: &str| {
        shards.iter().find_map(|shard| {
            let export = shard.exports.iter().find(|export| export.name == name)?;
            Some(Route { export: export.clone(), home: shard.nbd.clone() })
        })
    };
    plan.exports.iter().filter_map(|export| find(&export.name)).collect()
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
