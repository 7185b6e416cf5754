//! A running stack: its shards, its exports, its listeners.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shingle_core::impl_error;
use shingle_core::mapper::MapperError;

use crate::config::{ConfigError, ExportPlan, Plan, build_shard};
use crate::control::{ControlError, ControlServer};
use crate::daemon_state::{DaemonState, InForce, ShardInfo, open_export};
use crate::events::{EventKind, Events};
use crate::http::HttpServer;
use crate::metrics::{MetricsFile, serve_metrics};
use crate::notices::Notices;
use crate::serve::listen::{Address, Listener, Listening};
use crate::serve::{Directory, Export, ServeError, Service, Sockets};
use crate::shard::{Shard, ShardError, ShardThread};
use crate::web::{Token, WatchedStack, serve_page};

/// A running stack.
pub struct Daemon {
    state: Arc<DaemonState>,
    threads: Vec<ShardThread>,
    control: Option<ControlServer>,
    outlets: Outlets,
}

/// What tells others than those at the control socket: metrics, and the page.
type Outlets = (Option<HttpServer>, Option<MetricsFile>, Option<HttpServer>);

/// Sockets for them.
struct OutletSockets {
    metrics: Vec<Listener>,
    web: Vec<Listener>,
    /// What those have to know who see the page.
    token: Token,
}

impl Daemon {
    /// Builds the stack of `plan` and serves it. After an error nothing is left running.
    pub fn start(plan: Plan) -> Result<Self, DaemonError> {
        Self::start_on(plan, &Sockets::default())
    }

    /// The same, on sockets that were handed over where there are such.
    pub fn start_on(plan: Plan, sockets: &Sockets) -> Result<Self, DaemonError> {
        for ExportPlan { keys, .. } in &plan.exports {
            let offering = plan.front_ends.iter().filter(|front_end| front_end.offers(keys));
            offering.for_each(|front_end| front_end.prepare(keys));
        }
        let (mut threads, mut shards, mut exports) = (Vec::new(), Vec::new(), Vec::new());
        let mut services: Services =
            plan.front_ends.iter().map(|front_end| front_end.service(&plan.source.path)).collect();
        let events = Arc::<Events>::default();
        for service in &mut services {
            let events = events.clone();
            service.overhear(Arc::new(move |line| events.note(EventKind::Client, None, line)));
        }
        for number in 0..plan.shards as usize {
            match start_shard((&plan, &events), number, services) {
                Ok((thread, its_exports, installed)) => {
                    shards.push(ShardInfo { number, mailbox: thread.mailbox().clone() });
                    threads.push(thread);
                    exports.extend(its_exports);
                    services = installed;
                }
                Err(error) => return Err(abandon(threads, error)),
            }
        }
        let (exports, addresses) = match serve(&plan, &services, exports, sockets) {
            Ok(served) => served,
            Err(error) => return Err(abandon(threads, DaemonError::Serve(error))),
        };
        let listeners = match OutletSockets::of(&plan, sockets) {
            Ok(listeners) => listeners,
            Err(error) => return Err(abandon(threads, error)),
        };
        let metrics = listeners.metrics.iter().map(|listener| listener.address().clone()).collect();
        let web = listeners.web.iter().map(|listener| listeners.token.url(listener.address())).collect();
        let started = Instant::now();
        let plan = InForce::new(plan);
        let state = Arc::new(DaemonState { plan, shards, services, exports, addresses, metrics, web, events, started });
        let control =
            state.plan().control.as_ref().map(|path| ControlServer::start(path, sockets, state.clone())).transpose();
        let outlets = control.map_err(DaemonError::from).and_then(|control| Ok((control, tell(&state, listeners)?)));
        match outlets {
            Ok((control, outlets)) => {
                sockets.finish();
                state.events.note(EventKind::Daemon, None, "the daemon has started");
                Ok(Self { state, threads, control, outlets })
            }
            Err(error) => Err(abandon(threads, error)),
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
        self.state.services.iter().for_each(|service| service.stop(true));
        drop((self.control, self.outlets));
        // All of them are stopped even if one fails; the first failure is the one to report.
        let results: Vec<Result<(), ShardError>> = self.threads.into_iter().map(ShardThread::stop).collect();
        results.into_iter().collect::<Result<(), ShardError>>().map_err(DaemonError::Shard)
    }
}

impl OutletSockets {
    fn of(plan: &Plan, sockets: &Sockets) -> Result<Self, DaemonError> {
        let listen = |addresses: &[Address]| -> Result<Vec<Listener>, String> {
            addresses.iter().map(|address| sockets.listen(address).map_err(|error| error.to_string())).collect()
        };
        let metrics = listen(&plan.metrics.addresses).map_err(DaemonError::Metrics)?;
        let web = listen(&plan.web.addresses).map_err(DaemonError::Web)?;
        let token = plan.web.token.clone().map_or_else(Token::new, |token| Ok(Token::of(token)));
        let token = token.map_err(|error| DaemonError::Web(format!("cannot make a token: {error}")))?;
        Ok(Self { metrics, web, token })
    }
}

/// Tells metrics, and shows the page, where the stack file wants it.
fn tell(state: &Arc<DaemonState>, sockets: OutletSockets) -> Result<Outlets, DaemonError> {
    let OutletSockets { metrics, web, token } = sockets;
    let server = (!metrics.is_empty()).then(|| serve_metrics(metrics, state.clone())).transpose();
    let server = server.map_err(|error| DaemonError::Metrics(format!("cannot serve them: {error}")))?;
    let page = (!web.is_empty()).then(|| serve_page(web, token, Arc::new(WatchedStack(state.clone())))).transpose();
    let page = page.map_err(|error| DaemonError::Web(format!("cannot serve it: {error}")))?;
    let start = |(path, interval): &(PathBuf, Duration)| {
        MetricsFile::start(path.clone(), *interval, state.clone())
            .map_err(|error| DaemonError::Metrics(format!("{}: {error}", path.display())))
    };
    Ok((server, state.plan().metrics.file.as_ref().map(start).transpose()?, page))
}

fn abandon(threads: Vec<ShardThread>, error: DaemonError) -> DaemonError {
    threads.into_iter().for_each(|thread| {
        // The reason to give up is the one to report.
        let _ = thread.stop();
    });
    error
}

/// Front ends that run.
type Services = Vec<Box<dyn Service>>;

fn start_shard(
    (plan, events): (&Plan, &Arc<Events>),
    number: usize,
    mut services: Services,
) -> Result<(ShardThread, Vec<Export>, Services), DaemonError> {
    let (plan, events) = (plan.clone(), events.clone());
    let furnish = move |shard: &mut Shard| -> Result<_, DaemonError> {
        build_shard(&plan, number as u32, shard).map_err(Box::new)?;
        services.iter_mut().for_each(|service| service.install(shard));
        let notices = shard.spawn(Box::new(Notices::new(events)));
        shard.notify_of_mail(notices);
        let exports = plan.exports.iter().filter_map(|export| open_export(shard, number, export).transpose());
        Ok((exports.collect::<Result<Vec<Export>, _>>().map_err(DaemonError::Export)?, services))
    };
    let (thread, (exports, services)) = ShardThread::start(&format!("shard{number}"), furnish)?;
    Ok((thread, exports, services))
}

/// Lets clients come, for the exports in the order of the stack file.
fn serve(
    plan: &Plan,
    services: &Services,
    mut exports: Vec<Export>,
    sockets: &Sockets,
) -> Result<(Directory, Vec<Listening>), ServeError> {
    exports.sort_by_key(|export| plan.exports.iter().position(|planned| planned.name == export.name));
    let directory = Directory::new(plan.front_ends.clone());
    exports.into_iter().try_for_each(|export| directory.add(export))?;
    let addresses =
        services.iter().map(|service| service.listen(&directory, sockets)).collect::<Result<Vec<_>, _>>()?;
    for export in directory.exports() {
        if let Err(error) = services.iter().try_for_each(|service| service.show(&export, &directory)) {
            services.iter().for_each(|service| service.stop(false));
            return Err(error);
        }
    }
    Ok((directory, addresses.concat()))
}

/// Error of starting or running a stack.
#[derive(Debug)]
pub enum DaemonError {
    /// The stack file does not fit the machine.
    Config(Box<ConfigError>),
    /// A shard failed.
    Shard(ShardError),
    /// A device cannot be exported as the stack file wants it.
    Export(MapperError),
    /// Nobody can be served.
    Serve(ServeError),
    /// There is no control socket.
    Control(ControlError),
    /// Metrics cannot be told as the stack file wants it.
    Metrics(String),
    /// The page cannot be shown as the stack file wants it.
    Web(String),
}

impl_error!(DaemonError, Config(Box<ConfigError>), Shard(ShardError), Control(ControlError), |self, f| match self {
    Self::Config(error) => error.fmt(f),
    Self::Shard(error) => error.fmt(f),
    Self::Export(error) => error.fmt(f),
    Self::Serve(error) => error.fmt(f),
    Self::Control(error) => error.fmt(f),
    Self::Metrics(why) => write!(f, "the metrics: {why}"),
    Self::Web(why) => write!(f, "the web page: {why}"),
});
