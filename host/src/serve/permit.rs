//! Places that can be used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
