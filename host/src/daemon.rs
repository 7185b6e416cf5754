//! A running stack: its shards, its exports, its listeners.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use shingle_core::impl_error;
use shingle_core::mapper::MapperError;

use crate::config::{ConfigError, ExportPlan, Plan, build_shard};
use crate::daemon_state::{DaemonState, InForce, ShardInfo, open_export};
use crate::events::{EventKind, Events};
use crate::notices::Notices;
use crate::outlets::{Opened, OutletError};
use crate::serve::{Directory, Export, ServeError, Service, Sockets};
use crate::shard::{Shard, ShardError, ShardThread};
use crate::zone_reports::ZoneReports;

/// A running stack.
pub struct Daemon {
    state: Arc<DaemonState>,
    threads: Vec<ShardThread>,
}

impl Daemon {
    /// Builds the stack of `plan` and serves all of it, whatever its volumes are like. After an error nothing is left running.
    pub fn start(plan: Plan) -> Result<Self, DaemonError> {
        Self::build(plan)?.serve(&Sockets::default(), &[])
    }

    /// Builds the stack of `plan`: its volumes begin to load, and no client is served yet. After an error nothing is left running.
    pub fn build(plan: Plan) -> Result<Self, DaemonError> {
        for ExportPlan { keys, .. } in &plan.exports {
            let offering = plan.front_ends.iter().filter(|front_end| front_end.offers(keys));
            offering.for_each(|front_end| front_end.prepare(keys));
        }
        let (mut threads, mut shards, mut exports) = (Vec::new(), Vec::new(), Vec::new());
        let mut services: Services =
            plan.front_ends.iter().map(|front_end| front_end.service(&plan.source.path)).collect();
        admit(&plan, &services)?;
        let events = Arc::<Events>::default();
        for service in &mut services {
            let events = events.clone();
            service.overhear(Arc::new(move |complaint| events.note(EventKind::Client, None, &complaint.to_string())));
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
        let exports = match offer(&plan, exports) {
            Ok(exports) => exports,
            Err(error) => return Err(abandon(threads, DaemonError::Serve(error))),
        };
        let (listening, outlets, started) = (Mutex::default(), OnceLock::new(), Instant::now());
        let plan = InForce::new(plan);
        let zone_reports = ZoneReports::default();
        let state = DaemonState { plan, shards, services, exports, listening, outlets, events, zone_reports, started };
        let state = Arc::new(state);
        Ok(Self { state, threads })
    }

    /// Serves clients, on sockets that were handed over where there are such. The exports `failed` get no block device: their users, who may wait for
    /// one since the daemon before, would get errors. After an error nothing is left running.
    pub fn serve(self, sockets: &Sockets, failed: &[String]) -> Result<Self, DaemonError> {
        let Self { state, threads } = self;
        if let Err(error) = serve(&state, sockets, failed) {
            state.services.iter().for_each(|service| service.stop(false));
            return Err(abandon(threads, error));
        }
        sockets.finish();
        state.events.note(EventKind::Daemon, None, "the daemon has started");
        Ok(Self { state, threads })
    }

    /// What it consists of.
    #[must_use]
    pub fn state(&self) -> &DaemonState {
        &self.state
    }

    /// Whether a shard has ended by itself: then the whole has to.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.threads.iter().any(ShardThread::is_finished)
    }

    /// Finishes what is in flight, flushes every disk and ends.
    pub fn stop(self) -> Result<(), DaemonError> {
        self.state.services.iter().for_each(|service| service.stop(true));
        self.state.outlets.get().into_iter().for_each(|outlets| outlets.close());
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

/// Front ends that run.
type Services = Vec<Box<dyn Service>>;

/// Fails if users of another daemon's export wait for a disk of `plan`: what would be written there, they would see.
fn admit(plan: &Plan, services: &Services) -> Result<(), DaemonError> {
    let disks: Vec<&Path> = plan.disks.iter().filter_map(|disk| disk.back_end.path()).collect();
    plan.front_ends.iter().zip(services).try_for_each(|(front_end, service)| {
        let exports = plan.exports.iter().filter(|export| front_end.offers(&export.keys));
        let exports: Vec<&str> = exports.map(|export| export.name.as_str()).collect();
        service.admit(&disks, &exports).map_err(DaemonError::Serve)
    })
}

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

/// What clients choose from, in the order of the stack file.
fn offer(plan: &Plan, mut exports: Vec<Export>) -> Result<Directory, ServeError> {
    exports.sort_by_key(|export| plan.exports.iter().position(|planned| planned.name == export.name));
    let directory = Directory::new(plan.front_ends.clone());
    exports.into_iter().try_for_each(|export| directory.add(export))?;
    Ok(directory)
}

/// Lets clients come, and those who watch.
fn serve(state: &Arc<DaemonState>, sockets: &Sockets, failed: &[String]) -> Result<(), DaemonError> {
    let plan = state.plan();
    state.listen(&plan.front_ends, sockets)?;
    for export in state.exports.exports().into_iter().filter(|export| !failed.contains(&export.name)) {
        state.services.iter().try_for_each(|service| service.show(&export, &state.exports))?;
    }
    let outlets = Opened::new(state, sockets)?;
    // It is served once.
    _ = state.outlets.set(Box::new(outlets));
    Ok(())
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
    /// Others cannot be told of it.
    Outlet(OutletError),
}

impl_error!(
    DaemonError,
    Config(Box<ConfigError>),
    Shard(ShardError),
    Serve(ServeError),
    Outlet(OutletError),
    |self, f| match self {
        Self::Config(error) => error.fmt(f),
        Self::Shard(error) => error.fmt(f),
        Self::Export(error) => error.fmt(f),
        Self::Serve(error) => error.fmt(f),
        Self::Outlet(error) => error.fmt(f),
    }
);
