//! What clients can choose from. It changes while they come and go: who is connected keeps what it chose.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shingle_core::block::{DeviceId, Limits};
use shingle_core::frontend::nbd::{Export, Exports};

use super::{Nbd, NbdError};
use crate::serve::permit::Permit;

/// An export, and the home of its connections: the shard that has its device.
#[derive(Clone)]
pub struct Route {
    /// What clients see.
    pub export: Export,
    /// Where its device is.
    pub home: Nbd,
}

/// The exports of a server, in the order in which they are listed.
#[derive(Clone, Default)]
pub struct Directory(Arc<Mutex<Entries>>);

#[derive(Clone, Default)]
struct Entries {
    list: Vec<Entry>,
    /// What sessions get; as long as the list.
    exports: Arc<Exports>,
}

#[derive(Clone)]
struct Entry {
    route: Route,
    /// Connections that have chosen it.
    users: Arc<AtomicUsize>,
}

impl Directory {
    /// With these routes.
    ///
    /// # Errors
    /// If the exports do not go together.
    pub fn new(routes: Vec<Route>) -> Result<Self, NbdError> {
        let directory = Self::default();
        routes.into_iter().try_for_each(|route| directory.add(route))?;
        Ok(directory)
    }

    /// What there is.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        self.lock().list.iter().map(|entry| entry.route.clone()).collect()
    }

    /// Adds an export behind the others.
    ///
    /// # Errors
    /// If it does not go together with them; then nothing is changed.
    pub fn add(&self, route: Route) -> Result<(), NbdError> {
        self.change(|list| list.push(Entry { route, users: Arc::default() }))
    }

    /// Takes out the export called `name`, if nobody is connected to it.
    ///
    /// # Errors
    /// How many are connected; `None` if there is no such export.
    pub fn remove(&self, name: &str) -> Result<Route, Option<usize>> {
        let mut entries = self.lock();
        let place = entries.list.iter().position(|entry| entry.route.export.name == name).ok_or(None)?;
        // Nobody can join them as long as this is locked.
        match entries.list[place].users.load(Relaxed) {
            0 => {
                let Entry { route, .. } = entries.list.remove(place);
                let rest = entries.list.iter().map(|entry| entry.route.export.clone());
                // What went together does so with one of them less.
                entries.exports = Arc::new(Exports::new(rest).unwrap_or_default());
                Ok(route)
            }
            users => Err(Some(users)),
        }
    }

    /// Has new clients see what `device` of `home` accepts now. Who is connected keeps the old size.
    pub fn refresh(&self, home: &Nbd, device: DeviceId, limits: &Limits) {
        let changed = self.change(|list| {
            let of_it = |route: &&mut Route| route.home.is(home) && route.export.device == device;
            let routes = list.iter_mut().map(|entry| &mut entry.route).filter(of_it);
            routes.for_each(|route| route.export = route.export.with_limits(limits));
        });
        debug_assert!(changed.is_ok(), "names stay as they are");
    }

    /// The exports, for a session.
    pub(super) fn exports(&self) -> Arc<Exports> {
        self.lock().exports.clone()
    }

    /// The home of an export that a client has chosen, and a place among its users. `None`: it is gone meanwhile.
    pub(super) fn claim(&self, export: &Export) -> Option<(Nbd, Permit)> {
        let entries = self.lock();
        let key = |export: &Export| (export.name.clone(), export.device, export.read_only);
        let entry = entries.list.iter().find(|entry| key(&entry.route.export) == key(export))?;
        Some((entry.route.home.clone(), Permit::take(&entry.users, usize::MAX)?))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Entry>)) -> Result<(), NbdError> {
        let mut entries = self.lock();
        let mut list = entries.list.clone();
        change(&mut list);
        let exports = Exports::new(list.iter().map(|entry| entry.route.export.clone())).map_err(NbdError::Exports)?;
        *entries = Entries { list, exports: Arc::new(exports) };
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
