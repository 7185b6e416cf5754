//! Paths that come, go, and say what they are.
//!
//! A path has a number for as long as it is there, so what a policy remembers of the others stays true. One that is removed gets nothing
//! new; what it was given ends there, or fails over by the rules of silence, and then its device is free and its number too.

use super::head::{Head, TIME_IS_OVER};
use super::options::{HeadError, MOST_PATHS};
use super::path::{Health, Path, PathConfig, PathHealth};
use super::policy::{Node, PathView};
use crate::block::{AnaState, Cx, DeviceId, Limits, Stack, StackError};
use crate::prelude::*;

/// Error of adding a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddPathError {
    /// It does not go with the others.
    Head(HeadError),
    /// The head cannot lie on it.
    Stack(StackError),
}

impl_error!(AddPathError, Head(HeadError), Stack(StackError), |self, f| match self {
    Self::Head(error) => error.fmt(f),
    Self::Stack(error) => error.fmt(f),
});

impl Head {
    /// Adds a path to the head in place `id`; its number. It is sent I/O at once. What the head takes stays as it is, so a path that takes less
    /// is refused.
    ///
    /// # Errors
    /// If it does not lead to the same disk, or there is no such head.
    pub fn add_path(stack: &mut Stack, id: DeviceId, path: &PathConfig) -> Result<usize, AddPathError> {
        if usize::from(path.device.0) >= stack.devices() {
            return Err(StackError::Unknown(path.device).into());
        }
        let limits = stack.limits(path.device).clone();
        let head = stack.device::<Self>(id).ok_or(StackError::Unknown(id))?;
        head.admit(path, &limits)?;
        path.losses.into_iter().for_each(|losses| stack.tell_losses(id, losses));
        let added = stack.lie_on(id, path.device, |head: &mut Self, cx| head.take_in(path, cx))?;
        added.ok_or(AddPathError::Stack(StackError::Unknown(id)))
    }

    /// Whether a path with these limits goes with the others.
    fn admit(&self, path: &PathConfig, own: &Limits) -> Result<(), HeadError> {
        if let Some(number) = self.number_at(path.device) {
            let is_leaving = self.paths[number].health == Health::Leaving;
            return Err(if is_leaving { HeadError::Removing(number) } else { HeadError::Twice(number) });
        }
        let number = self.free_number();
        if number == MOST_PATHS {
            return Err(HeadError::Count(number + 1));
        }
        if own.capacity != self.limits.capacity {
            return Err(HeadError::OtherSize(number, self.limits.capacity, own.capacity));
        }
        if path.identity != self.identity {
            let name = |identity: &Option<String>| identity.clone().unwrap_or_else(|| "nothing".into());
            return Err(HeadError::OtherDisk(number, name(&self.identity), name(&path.identity)));
        }
        let both = self.limits.stack(own).map_err(|error| HeadError::Limits(number, error))?;
        both.serves(&self.limits).map_err(|error| HeadError::Serves(number, error))
    }

    fn free_number(&self) -> usize {
        let free = self.paths.iter().position(|path| path.health == Health::Gone);
        free.unwrap_or(self.paths.len())
    }

    fn take_in(&mut self, config: &PathConfig, cx: &mut Cx<'_>) -> usize {
        let (number, path) = (self.free_number(), Path::new(config));
        let (throughput, node) = (self.policy.throughput(number), config.node);
        let view = PathView { throughput, node, ..PathView::new(path.access()) };
        if number == self.paths.len() {
            self.paths.push(path);
            self.views.push(view);
        } else {
            (self.paths[number], self.views[number]) = (path, view);
            // What it knows of this number is about another path.
            self.set_policy(self.policy(), self.policy_options());
        }
        self.below.push(config.device);
        self.time_change(number, cx);
        self.changed(cx);
        number
    }

    /// Removes a path: it gets nothing new, and is there until what it was given has ended.
    pub fn remove_path(&mut self, path: usize, cx: &mut Cx<'_>) {
        let gone = self.guards.gone();
        let Some(it) = self.in_use(path).filter(|_| !gone.removal_ignored) else { return };
        it.health = Health::Leaving;
        it.change_ends = None;
        self.changed(cx);
        if gone.removed_unawaited {
            self.settle_all(path, cx);
        }
        self.let_go(path);
    }

    /// Frees a path that is leaving, if nothing that it was given is left.
    #[inline]
    pub(super) fn let_go(&mut self, path: usize) {
        if self.paths[path].health == Health::Leaving {
            self.let_go_unless_used(path);
        }
    }

    #[cold]
    fn let_go_unless_used(&mut self, path: usize) {
        let is_paused = self.paused.iter().any(|(of, _)| *of == path);
        if is_paused || self.views[path].in_flight > 0 || self.unsettled.has(path) {
            return;
        }
        let Path { device, health, .. } = &mut self.paths[path];
        *health = Health::Gone;
        self.below.retain(|below| below != device);
    }

    /// Takes a path out, until an operator puts it in again. What is under way there goes on.
    pub fn take_out(&mut self, path: usize, cx: &mut Cx<'_>) {
        if let Some(it) = self.in_use(path) {
            it.health = Health::Offline;
            self.changed(cx);
        }
    }

    /// Puts a path in again, however it failed.
    pub fn put_in(&mut self, path: usize, cx: &mut Cx<'_>) {
        if let Some(it) = self.in_use(path) {
            it.health = Health::Live;
            self.changed(cx);
        }
    }

    /// Notes what a path is to the disk from now on.
    pub fn set_state(&mut self, path: usize, state: AnaState, cx: &mut Cx<'_>) {
        let is_ignored = self.guards.gone().states_ignored;
        if let Some(it) = self.in_use(path).filter(|_| !is_ignored) {
            it.state = state;
            self.time_change(path, cx);
            self.changed(cx);
        }
    }

    /// Sets the NUMA node that a path is near to; `None`: it is equally near to all.
    pub fn set_node(&mut self, path: usize, node: Option<Node>) {
        if self.in_use(path).is_some() {
            self.views[path].node = node;
            self.policy.changed(&self.views);
        }
    }

    /// Bounds the time for which a path may be between two states.
    pub(super) fn time_change(&mut self, path: usize, cx: &mut Cx<'_>) {
        let it = &mut self.paths[path];
        it.change_ends = (it.state == AnaState::Change).then(|| cx.now() + self.options.change_timeout);
        it.change_ends.into_iter().for_each(|at| cx.wake_at(at, TIME_IS_OVER));
    }

    fn in_use(&mut self, path: usize) -> Option<&mut Path> {
        self.paths.get_mut(path).filter(|path| path.health.is_in_use())
    }

    /// The number of the path that is this device.
    pub(super) fn number_at(&self, device: DeviceId) -> Option<usize> {
        self.paths.iter().position(|path| path.device == device && path.health != Health::Gone)
    }

    /// Has the head in place `id` take the size of the smallest of its paths, if all of them have grown; whether it has. Disks with zones
    /// do not grow.
    pub fn follow_size(stack: &mut Stack, id: DeviceId) -> bool {
        let Some(head) = stack.device::<Self>(id).filter(|head| head.limits.zoned.is_none()) else { return false };
        let in_use = head.paths().filter(|path| path.health != PathHealth::Leaving);
        let least = in_use.map(|path| stack.limits(path.device).capacity).min();
        let Some(size) = least.filter(|least| *least > head.limits.capacity) else { return false };
        // What is under way is within the old size.
        stack.suspend(id);
        stack.with_device(id, |head: &mut Self, _| head.limits.capacity = size);
        stack.resume(id);
        true
    }
}
