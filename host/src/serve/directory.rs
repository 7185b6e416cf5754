//! What clients can choose from. It changes while they come and go: who is connected keeps what it chose.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shingle_core::block::{DeviceId, Limits};
use shingle_core::impl_error;

use super::permit::Permit;
use super::{Export, FrontEnd, ServeError};
use crate::tally::Tally;

/// The exports of a daemon, in the order in which they are listed.
#[derive(Clone, Default)]
pub struct Directory(Arc<Inner>);

#[derive(Default)]
struct Inner {
    front_ends: Mutex<Vec<Arc<dyn FrontEnd>>>,
    entries: Mutex<Vec<OfferedExport>>,
}

struct OfferedExport {
    export: Export,
    /// Sessions that have chosen it.
    users: Arc<AtomicUsize>,
    /// Name of the last session that has chosen it.
    last: String,
}

/// What a session has that uses an export.
pub struct User {
    /// Its place among all of them.
    pub permit: Permit,
    /// Where what it asks for is counted.
    pub tally: Arc<Tally>,
}

/// Reason for which a session cannot use an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The export was removed.
    Gone,
    /// The export has as many users as it may have.
    Full {
        /// Name of the export.
        export: String,
        /// Number of users.
        most: usize,
        /// Name of the last session that has chosen it: its user, if it may have one.
        last: String,
    },
}

impl_error!(ClaimError, |self, f| match self {
    Self::Gone => write!(f, "the export was removed meanwhile: list the exports and choose again"),
    Self::Full { export, most: 1, last } => {
        write!(f, "export `{export}` takes one connection at a time, and {last} has it: end that first")
    }
    Self::Full { export, most, .. } => {
        write!(f, "export `{export}` takes {most} connections at a time, and has them: end one of them first")
    }
});

impl Directory {
    /// An empty one, for exports that these front ends can show.
    #[must_use]
    pub fn new(front_ends: Vec<Arc<dyn FrontEnd>>) -> Self {
        Self(Arc::new(Inner { front_ends: Mutex::new(front_ends), entries: Mutex::default() }))
    }

    /// What there is.
    #[must_use]
    pub fn exports(&self) -> Vec<Export> {
        self.lock().iter().map(|entry| entry.export.clone()).collect()
    }

    /// The names of what there is of a device.
    #[must_use]
    pub fn names_of(&self, shard: usize, device: DeviceId) -> Vec<String> {
        let entries = self.lock();
        let of_it = entries.iter().map(|entry| &entry.export).filter(|export| is_of(export, shard, device));
        of_it.map(|export| export.name.clone()).collect()
    }

    /// Adds an export behind the others.
    ///
    /// # Errors
    /// If it does not go together with them; then nothing is changed.
    pub fn add(&self, export: Export) -> Result<(), ServeError> {
        let mut entries = self.lock();
        let all: Vec<&Export> = entries.iter().map(|entry| &entry.export).chain([&export]).collect();
        check(&self.front_ends(), &all)?;
        if entries.iter().any(|entry| entry.export.name == export.name) {
            return Err(ServeError::Taken(export.name));
        }
        entries.push(OfferedExport { export, users: Arc::default(), last: String::new() });
        Ok(())
    }

    /// Has other front ends show what there is, and what is added.
    ///
    /// # Errors
    /// If one of them cannot show what it offers of that; then nothing is changed.
    pub fn show_by(&self, front_ends: &[Arc<dyn FrontEnd>]) -> Result<(), ServeError> {
        let entries = self.lock();
        check(front_ends, &entries.iter().map(|entry| &entry.export).collect::<Vec<_>>())?;
        *self.front_ends() = front_ends.to_vec();
        Ok(())
    }

    /// Takes out the export called `name`, if nobody is connected to it.
    ///
    /// # Errors
    /// How many are connected; `None` if there is no such export.
    pub fn remove(&self, name: &str) -> Result<Export, Option<usize>> {
        let mut entries = self.lock();
        let place = entries.iter().position(|entry| entry.export.name == name).ok_or(None)?;
        // Nobody can join them as long as this is locked.
        match entries[place].users.load(Relaxed) {
            0 => Ok(entries.remove(place).export),
            users => Err(Some(users)),
        }
    }

    /// Has new clients see what a device accepts now. Who is connected keeps the old size.
    pub fn refresh(&self, shard: usize, device: DeviceId, limits: &Limits) {
        let mut entries = self.lock();
        let of_it = entries.iter_mut().map(|entry| &mut entry.export).filter(|export| is_of(export, shard, device));
        of_it.for_each(|export| export.limits.clone_from(limits));
    }

    /// Counts a client as a user of the export for which `is_it` is true, and returns the export. `most`: most users of that export at a time. `name`: how
    /// messages to other clients call this one.
    ///
    /// # Errors
    /// The export was removed, or has as many users as it may have.
    pub fn claim(
        &self,
        is_it: impl Fn(&Export) -> bool,
        most: impl Fn(&Export) -> usize,
        name: &str,
    ) -> Result<(Export, User), ClaimError> {
        let mut entries = self.lock();
        let entry = entries.iter_mut().find(|entry| is_it(&entry.export)).ok_or(ClaimError::Gone)?;
        let export = entry.export.clone();
        let most = most(&export);
        let permit = Permit::take(&entry.users, most).ok_or_else(|| ClaimError::Full {
            export: export.name.clone(),
            most,
            last: entry.last.clone(),
        })?;
        name.clone_into(&mut entry.last);
        let tally = export.tally.clone();
        Ok((export, User { permit, tally }))
    }

    /// What there is, and how many sessions use each.
    #[must_use]
    pub fn used(&self) -> Vec<(Export, usize)> {
        self.lock().iter().map(|entry| (entry.export.clone(), entry.users.load(Relaxed))).collect()
    }

    fn front_ends(&self) -> MutexGuard<'_, Vec<Arc<dyn FrontEnd>>> {
        self.0.front_ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OfferedExport>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether each of `front_ends` can show what it offers of `exports`.
fn check(front_ends: &[Arc<dyn FrontEnd>], exports: &[&Export]) -> Result<(), ServeError> {
    front_ends.iter().try_for_each(|front_end| {
        let shown: Vec<&Export> = exports.iter().copied().filter(|export| front_end.offers(&export.keys)).collect();
        front_end.check(&shown).map_err(|why| ServeError::Exports { over: front_end.kind().name, why })
    })
}

fn is_of(export: &Export, shard: usize, device: DeviceId) -> bool {
    (export.shard, export.device) == (shard, device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_is_refused_and_may_be_used_again_when_nobody_has_it() {
        let (directory, export) = (Directory::default(), Export::new("a", DeviceId(0), &Limits::new(8)));
        directory.add(export.clone()).unwrap();
        let error = directory.add(export.clone()).unwrap_err().to_string();
        assert_eq!(error, "two exports are named 'a': rename one of them");
        let (_, user) = directory.claim(|export| export.name == "a", |_| usize::MAX, "").unwrap();
        assert_eq!(directory.remove("a").map(drop), Err(Some(1)));
        drop(user);
        assert_eq!(directory.remove("a").map(|export| export.name), Ok("a".into()));
        assert_eq!(directory.remove("a").map(drop), Err(None));
        directory.add(export).unwrap();
        assert_eq!(directory.names_of(0, DeviceId(0)), ["a"]);
    }
}
