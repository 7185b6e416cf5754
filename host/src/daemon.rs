//! A running stack: its shards, its exports, its listeners.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use shingle_core::mapper::MapperError;

use crate::config::{ConfigError, ListenPlan, Plan, build_shard};
use crate::control::{ControlError, ControlServer};
use crate::daemon_state::{DaemonState, ShardInfo, open_export};
use crate::notices::Notices;
use crate::serve::listen::{Address, ListenError, Listener};
use crate::serve::nbd::{Directory, Nbd, NbdError, NbdOptions, Route};
use crate::shard::{Shard, ShardError, ShardThread};

/// A running stack.
pub struct Daemon {
    state: Arc<DaemonState>,
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
        let state = Arc::new(DaemonState { plan, shards, exports, addresses, started: Instant::now() });
        match state.plan.control.as_ref().map(|path| ControlServer::start(path, state.clone())).transpose() {
            Ok(control) => Ok(Self { state, threads, control }),
            Err(error) => Err(abandon(threads, error.into())),
        }
    }

    /// What it consists of.
    #[must_use]
    pub fn state(&self) -> &DaemonState {
        &self.state
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
        if let Some(notices) = Notices::of(&plan, &shard.devices) {
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
