//! Groups of paths: all I/O goes to one of them, in which a policy chooses.
//!
//! As in dm-multipath (`drivers/md/dm-mpath.c:choose_pgpath`) the current group stays so while it has a usable path, also if an earlier one
//! has some again. Otherwise the first one follows that has, and those that are bypassed only if no other one does.

use core::ops::Range;

use super::policy::{Access, Done, History, Io, PathView, PathWindow, Policy, PolicyKind, PolicyOptions};
use crate::prelude::*;

/// Paths that stand behind each other, with a policy.
pub struct Group {
    kind: PolicyKind,
    options: PolicyOptions,
    policy: Box<dyn Policy>,
    /// The numbers of its paths; the last group has all the rest.
    first: usize,
    end: usize,
    /// What each path carries compared with the others of the group.
    throughputs: Vec<u32>,
    is_bypassed: bool,
}

impl Group {
    /// As many paths as there are numbers, which are what they carry ([`PathView::throughput`]); `policy` is of this kind.
    #[must_use]
    pub fn new(kind: PolicyKind, policy: Box<dyn Policy>, throughputs: Vec<u32>) -> Self {
        let options = PolicyOptions::default();
        Self { kind, options, policy, first: 0, end: usize::MAX, throughputs, is_bypassed: false }
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

    /// The numbers of its paths, of `count` that there are.
    fn paths(&self, count: usize) -> Range<usize> {
        let end = self.end.min(count);
        self.first.min(end)..end
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
        for place in 1..all.len() {
            let end = all[place - 1].first + all[place - 1].throughputs.len();
            (all[place - 1].end, all[place].first) = (end, end);
        }
        Self { all, current: None, next: Some(first) }
    }

    /// One group of all paths, alike.
    #[must_use]
    pub fn one(kind: PolicyKind) -> Self {
        Self::one_with(kind, PolicyOptions::default())
    }

    /// One group of all paths, alike, whose policy has these options.
    #[must_use]
    pub fn one_with(kind: PolicyKind, options: PolicyOptions) -> Self {
        let group = Group::new(kind, kind.build_with(&options), Vec::new());
        Self::new(Vec::from([Group { options, ..group }]), 0)
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
        self.all[group].paths(count)
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
        let group = self.all.iter().find(|group| path < group.end);
        group.and_then(|group| group.throughputs.get(path - group.first)).copied().unwrap_or(1)
    }

    /// Kind of the first group's policy.
    pub(super) fn kind(&self) -> PolicyKind {
        self.all[0].kind
    }

    /// Options of the first group's policy.
    pub(super) fn options(&self) -> PolicyOptions {
        self.all[0].options
    }

    /// Switches each group to another policy, which knows nothing yet.
    pub(super) fn set_policy(&mut self, kind: PolicyKind, options: PolicyOptions) {
        for group in &mut self.all {
            (group.kind, group.options, group.policy) = (kind, options, kind.build_with(&options));
        }
    }

    /// The path for an I/O, to be sent there at once; `None` if all are unusable.
    #[inline]
    pub(super) fn choose(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        if let Some(group) = self.current
            && let Some(path) = self.choose_in(group, paths, io)
        {
            return Some(path);
        }
        self.choose_anew(paths, io)
    }

    #[cold]
    fn choose_anew(&mut self, paths: &[PathView], io: &Io) -> Option<usize> {
        let is_any = paths.iter().any(|path| path.access != Access::Unusable);
        let path = if is_any { self.choose_group(paths, io) } else { None };
        if path.is_none() {
            self.current = None;
        }
        path
    }

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
        let it = &mut self.all[group];
        let range = it.paths(paths.len());
        let path = it.policy.choose(&paths[range], io)?;
        self.current = Some(group);
        Some(it.first + path)
    }

    /// As [`Policy::ended`].
    #[inline]
    pub(super) fn ended(&mut self, path: usize, io: &Io, done: Done) {
        let group = self.all.iter_mut().find(|group| path < group.end);
        group.into_iter().for_each(|group| group.policy.ended(path - group.first, io, done));
    }

    /// As [`Policy::windows`].
    pub(super) fn windows(&self, path: usize, visit: &mut dyn FnMut(PathWindow)) {
        let group = self.all.iter().find(|group| path < group.end);
        group.into_iter().for_each(|group| group.policy.windows(path - group.first, visit));
    }

    /// As [`Policy::failed`].
    pub(super) fn failed(&mut self, path: usize) {
        let group = self.all.iter_mut().find(|group| path < group.end);
        group.into_iter().for_each(|group| group.policy.failed(path - group.first));
    }

    /// As [`Policy::changed`].
    pub(super) fn changed(&mut self, paths: &[PathView]) {
        self.all.iter_mut().for_each(|group| group.policy.changed(&paths[group.paths(paths.len())]));
    }
}
