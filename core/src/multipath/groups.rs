//! Groups of paths: all I/O goes to one of them, in which a policy chooses.
//!
//! As in dm-multipath (`drivers/md/dm-mpath.c:choose_pgpath`) the current group stays so while it has a usable path, also if an earlier one
//! has some again. Otherwise the first one follows that has, and those that are bypassed only if no other one does.

use core::ops::Range;

use super::policy::{Access, Done, History, Io, PathView, Policy, PolicyKind};
use crate::prelude::*;

/// Paths that stand behind each other, with a policy.
pub struct Group {
    kind: PolicyKind,
    policy: Box<dyn Policy>,
    first: usize,
    /// What each path carries compared with the others of the group.
    throughputs: Vec<u32>,
    is_bypassed: bool,
}

impl Group {
    /// As many paths as there are numbers, which are what they carry ([`PathView::throughput`]); `policy` is of this kind.
    #[must_use]
    pub fn new(kind: PolicyKind, policy: Box<dyn Policy>, throughputs: Vec<u32>) -> Self {
        Self { kind, policy, first: 0, throughputs, is_bypassed: false }
    }

    /// Kind of its policy.
    #[must_use]
    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// Whether it is taken only if no other one has a usable path.
    #[must_use]
    pub fn is_bypassed(&self) -> bool {
        self.is_bypassed
    }

    /// What its policy knows of the times of a path, by its number in the group.
    #[must_use]
    pub fn history(&self, path: usize) -> Option<History> {
        self.policy.history(path)
    }
}

/// All groups of a head, the first before the others.
pub struct Groups {
    all: Vec<Group>,
    current: Option<usize>,
    /// The group that an operator has asked for, until the next I/O.
    next: Option<usize>,
}

impl Groups {
    /// These groups, at least one, of which the one in place `first` is taken first.
    #[must_use]
    pub fn new(mut all: Vec<Group>, first: usize) -> Self {
        let mut end = 0;
        for group in &mut all {
            group.first = end;
            end += group.throughputs.len();
        }
        Self { all, current: None, next: Some(first) }
    }

    /// One group of all paths, alike.
    #[must_use]
    pub fn one(kind: PolicyKind) -> Self {
        Self::new(Vec::from([Group::new(kind, kind.build(), Vec::new())]), 0)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Group] {
        &self.all
    }

    /// The place of the group that is in use; before the first I/O, and after a change by hand, none is.
    #[must_use]
    pub fn current(&self) -> Option<usize> {
        self.current
    }

    /// The place of the group that is in use, or will be tried first.
    #[must_use]
    pub fn foremost(&self) -> usize {
        self.current.or(self.next).unwrap_or(0)
    }

    /// The numbers of a group's paths, of `count` that there are: the last one has all the rest.
    #[must_use]
    pub fn paths_of(&self, group: usize, count: usize) -> Range<usize> {
        let end = self.all.get(group + 1).map_or(count, |next| next.first);
        self.all[group].first.min(end)..end
    }

    /// Has the next I/O go to this group, if it can; none is bypassed any more.
    pub fn switch_to(&mut self, group: usize) {
        self.all.iter_mut().for_each(|group| group.is_bypassed = false);
        (self.current, self.next) = (None, Some(group));
    }

    /// Has a group be bypassed or not; which one is in use is decided anew.
    pub fn set_bypassed(&mut self, group: usize, is_bypassed: bool) {
        self.all[group].is_bypassed = is_bypassed;
        self.current = None;
    }

    pub(super) fn throughput(&self, path: usize) -> u32 {
        let group = &self.all[self.group_of(path)];
        group.throughputs.get(path - group.first).copied().unwrap_or(1)
    }

    /// Kind of the first group's policy.
    pub(super) fn kind(&self) -> PolicyKind {
        self.all[0].kind
    }

    /// Has each group go on with another policy, which knows nothing yet.
    pub(super) fn set_policy(&mut self, kind: PolicyKind) {
        self.all.iter_mut().for_each(|group| (group.kind, group.policy) = (kind, kind.build()));
    }

    /// The path for an I/O, to be sent there at once; `None` if all are unusable.
    pub(super) fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        if self.next.is_none()
            && let Some(path) = self.current.and_then(|group| self.choose_in(group, paths, io))
        {
            return Some(path);
        }
        let is_any = paths.iter().any(|path| path.access != Access::Unusable);
        let path = if is_any { self.choose_group(paths, io) } else { None };
        if path.is_none() {
            self.current = None;
        }
        path
    }

    #[cold]
    fn choose_group(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        let mut wanted = self.next.take().into_iter().chain(self.current);
        let path = wanted.find_map(|group| self.choose_in(group, paths, io));
        path.or_else(|| self.first_of(false, paths, io)).or_else(|| self.first_of(true, paths, io))
    }

    /// A path of the first group that is bypassed, or is not, and has one.
    fn first_of(&mut self, is_bypassed: bool, paths: &[PathView], io: &Io) -> Option<usize> {
        (0..self.all.len()).find_map(|group| {
            let is_meant = self.all[group].is_bypassed == is_bypassed;
            if is_meant { self.choose_in(group, paths, io) } else { None }
        })
    }

    fn choose_in(&mut self, group: usize, paths: &[PathView], io: &Io) -> Option<usize> {
        let range = self.paths_of(group, paths.len());
        let first = range.start;
        let path = self.all[group].policy.choose(&paths[range], io)?;
        self.current = Some(group);
        Some(first + path)
    }

    fn group_of(&self, path: usize) -> usize {
        self.all.partition_point(|group| group.first <= path) - 1
    }

    fn group_with(&mut self, path: usize) -> (&mut dyn Policy, usize) {
        let group = self.group_of(path);
        let group = &mut self.all[group];
        (group.policy.as_mut(), path - group.first)
    }

    /// As [`Policy::ended`].
    pub(super) fn ended(&mut self, path: usize, io: &Io, done: Done) {
        let (policy, path) = self.group_with(path);
        policy.ended(path, io, done);
    }

    /// As [`Policy::failed`].
    pub(super) fn failed(&mut self, path: usize) {
        let (policy, path) = self.group_with(path);
        policy.failed(path);
    }

    /// As [`Policy::changed`].
    pub(super) fn changed(&mut self, paths: &[PathView]) {
        for group in 0..self.all.len() {
            let range = self.paths_of(group, paths.len());
            self.all[group].policy.changed(&paths[range]);
        }
    }
}
