//! What a running stack consists of, for those who ask it for something.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use shingle_core::block::DeviceHealth;
use shingle_core::mapper::MapperError;

use crate::config::{ExportPlan, Plan};
use crate::devices::Named;
use crate::events::Events;
use crate::export_identity::identify;
use crate::mailbox::MailboxError;
use crate::serve::listen::{Address, Listening};
use crate::serve::{Directory, Export, FrontEnd, ServeError, Service, Sockets};
use crate::shard::{Mailbox, Shard};
use crate::zone_reports::{FIRST_WAIT, Need, ZoneReport, ZoneReports, reader};

/// What everybody may know of a running stack, and how to ask it for more.
pub struct DaemonState {
    /// The plan that it is built by.
    pub plan: InForce,
    /// Its shards.
    pub shards: Vec<ShardInfo>,
    /// How clients reach them.
    pub services: Vec<Box<dyn Service>>,
    /// What clients can choose from.
    pub exports: Directory,
    /// Where clients connect, by service.
    pub(crate) listening: Mutex<Vec<Vec<Listening>>>,
    /// What tells others of it, once it is served.
    pub(crate) outlets: OnceLock<Box<dyn Outlets>>,
    /// What has happened lately.
    pub events: Arc<Events>,
    /// The zones of its devices, for those who watch them.
    pub zone_reports: ZoneReports,
    /// When it was ready.
    pub started: Instant,
}

/// Where a daemon tells others of itself.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Where those ask who watch it.
    pub metrics: Vec<Address>,
    /// Where it shows its page, with what who opens it has to know.
    pub web: Vec<String>,
}

/// A way in which a daemon tells others of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// The control socket.
    Control,
    /// Metrics, over HTTP and in a file.
    Metrics,
    /// The page.
    Page,
}

/// What tells others of a daemon.
pub trait Outlets: Send + Sync {
    /// Where.
    fn places(&self) -> Places;

    /// Has one of them be where and as `wanted` says, or nowhere.
    ///
    /// # Errors
    /// Why it cannot be there.
    fn change(&self, outlet: Outlet, wanted: &Plan) -> Result<(), String>;

    /// Ends all of them.
    fn close(&self);
}

/// A shard from outside.
pub struct ShardInfo {
    /// Its place among the shards.
    pub number: usize,
    /// The way to ask it.
    pub mailbox: Mailbox,
}

/// The plan by which a stack is built, as far as it is: a stack file that was changed is applied part by part.
pub struct InForce(Mutex<Arc<Plan>>);

impl InForce {
    /// One by which all of a stack was built.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self(Mutex::new(Arc::new(plan)))
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Plan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DaemonState {
    /// The plan in force now.
    #[must_use]
    pub fn plan(&self) -> Arc<Plan> {
        self.plan.lock().clone()
    }

    /// Notes what of the plan is another now.
    pub fn amend(&self, change: impl FnOnce(&mut Plan)) {
        change(Arc::make_mut(&mut self.plan.lock()));
    }

    /// Lets clients come where and as `front_ends` say, one of each service.
    ///
    /// # Errors
    /// If a service cannot; others are as they say.
    pub(crate) fn listen(&self, front_ends: &[Arc<dyn FrontEnd>], sockets: &Sockets) -> Result<(), ServeError> {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        listening.resize(self.services.len(), Vec::new());
        for ((service, wanted), places) in self.services.iter().zip(front_ends).zip(&mut *listening) {
            *places = service.listen(&**wanted, &self.exports, sockets)?;
        }
        Ok(())
    }

    /// Where clients connect.
    #[must_use]
    pub fn addresses(&self) -> Vec<Listening> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner).concat()
    }

    /// Where it tells others of itself.
    #[must_use]
    pub fn places(&self) -> Places {
        self.outlets.get().map(|outlets| outlets.places()).unwrap_or_default()
    }

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

    /// The zones of the device called `name` for somebody who watches: at most `max_age` old if the budget of reports allows that, otherwise as
    /// old as they are.
    ///
    /// # Errors
    /// Why nothing is known: there is no such device, it fails, or it is being asked and takes long.
    pub fn watch_zones(&self, name: &str, max_age: Duration) -> Result<ZoneReport, String> {
        let found = self.find(name).map_err(|error| error.to_string())?;
        let (shard, _) = found.ok_or_else(|| format!("there is no device `{name}`"))?;
        self.zone_reports.begin(name, (Need::Zones, max_age), reader(shard.mailbox.clone(), name.to_owned()));
        self.zone_reports.get(name, Need::Zones, FIRST_WAIT)
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

    /// Health of each export and of all devices below it, in the order of the exports.
    ///
    /// # Errors
    /// If a shard does not answer.
    pub fn export_health(&self) -> Result<Vec<(Export, DeviceHealth)>, MailboxError> {
        let mut exports: Vec<_> =
            self.exports.exports().into_iter().map(|export| (export, DeviceHealth::default())).collect();
        for (number, shard) in self.shards.iter().enumerate() {
            let mut own: Vec<_> = exports.iter_mut().filter(|(export, _)| export.shard == number).collect();
            let devices: Vec<_> = own.iter().map(|(export, _)| export.device).collect();
            let asked = shard.mailbox.ask(move |shard: &mut Shard| -> Vec<_> {
                devices.into_iter().map(|device| shard.stack.health(device)).collect()
            })?;
            own.iter_mut().zip(asked).for_each(|((_, health), found)| *health = found);
        }
        Ok(exports)
    }

    /// Where users of this machine find an export, if it has a place of its own.
    #[must_use]
    pub fn place_of(&self, export: &str) -> Option<PathBuf> {
        self.services.iter().find_map(|service| service.path_of(export))
    }
}

/// An export of a device of `shard`, which has this number, and stays in use until [`close_export`]; `None` if there is no such
/// device.
///
/// # Errors
/// If clients could write to a device that a mapped one needs for itself.
pub(crate) fn open_export(shard: &mut Shard, number: usize, plan: &ExportPlan) -> Result<Option<Export>, MapperError> {
    let Some(device) = shard.devices.open(&plan.device) else { return Ok(None) };
    let mapper = &mut shard.devices.mapper;
    if !plan.read_only
        && let Err(mut error) = mapper.begin_writing(device)
    {
        mapper.close(device);
        error.message = format!("`{}` cannot be exported as `{}`: {}", plan.device, plan.name, error.message);
        return Err(error);
    }
    Ok(Some(Export {
        description: plan.description.clone().unwrap_or_default(),
        shard: number,
        asked_read_only: plan.read_only,
        keys: plan.keys.clone(),
        identify: Some(identify),
        ..Export::new(plan.name.as_str(), device, shard.stack.limits(device))
    }))
}

/// Takes [`open_export`] back.
pub(crate) fn close_export(shard: &mut Shard, export: &Export) {
    let mapper = &mut shard.devices.mapper;
    mapper.close(export.device);
    if !export.asked_read_only {
        mapper.end_writing(export.device);
    }
}
