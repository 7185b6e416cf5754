//! Places that can be used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// A place among the connections of a listener, or of an export. It is free again when this is dropped.
pub struct Permit(Arc<AtomicUsize>);

impl Permit {
    /// One of `most` places, of which so many are `taken`.
    pub(super) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        if taken.fetch_add(1, Relaxed) < most {
            return Some(Permit(taken.clone()));
        }
        taken.fetch_sub(1, Relaxed);
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Connection slots of a listener. A client takes one when it chooses an export, whichever shard serves that.
#[derive(Debug, Default)]
pub struct ConnectionSlots {
    taken: Arc<AtomicUsize>,
    most: AtomicUsize,
    violations: AtomicU32,
}

impl ConnectionSlots {
    /// `most` slots.
    pub(super) fn new(most: usize) -> Self {
        Self { most: AtomicUsize::new(most), ..Self::default() }
    }

    /// Sets the number of slots. Clients that have one keep it.
    pub(super) fn set_most(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// A slot.
    ///
    /// # Errors
    /// If all are taken: how many there are.
    pub fn take(&self) -> Result<Permit, usize> {
        let most = self.most.load(Relaxed);
        Permit::take(&self.taken, most).ok_or(most)
    }

    /// Notes that a client did not keep to its protocol.
    pub fn note_violation(&self) {
        self.violations.fetch_add(1, Relaxed);
    }

    /// Violations since the last call.
    pub(super) fn take_violations(&self) -> u32 {
        self.violations.swap(0, Relaxed)
    }
}
