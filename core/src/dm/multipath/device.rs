//! The device of a line: a head, and what is said of it and to it.

use core::fmt;

use super::selector::Selector;
use crate::block::{Bio, BlockDevice, Cx, DeviceId, Event, Figure, Limits, MessageError, Status};
use crate::dm::quote;
use crate::multipath::{Head, PathHealth, WithoutPath};
use crate::prelude::*;

/// A head of dm-multipath.
pub(super) struct Multipath {
    head: Head,
    /// The head's, without appends of zones: a plug above makes writes of them.
    limits: Limits,
    /// What the paths are called.
    names: Vec<String>,
    /// One of each group.
    selectors: Vec<Selector>,
    /// Whether bios wait while there is no path.
    queues: bool,
    is_suspended: bool,
    /// What was changed by hand, but for failures, which the paths count.
    changes: u64,
}

const USAGE: &str = "write `fail_path DEVICE`, `reinstate_path DEVICE`, `switch_group N`, `enable_group N`, `disable_group N`, \
                     `queue_if_no_path` or `fail_if_no_path`";

impl Multipath {
    pub fn new(head: Head, (names, selectors): (Vec<String>, Vec<Selector>), queues: bool) -> Self {
        let mut limits = head.limits().clone();
        limits.zoned.iter_mut().for_each(|zoned| zoned.max_append = None);
        Self { head, limits, names, selectors, queues, is_suspended: false, changes: 0 }
    }

    pub fn queues(&self) -> bool {
        self.queues
    }

    /// The number of the group in use, or of the one that will be tried first.
    pub fn group(&self) -> usize {
        self.head.groups().foremost() + 1
    }

    /// Has bios that find no path wait or fail, as was said.
    fn settle_waiting(&mut self, cx: &mut Cx<'_>) {
        let what = if self.queues { WithoutPath::Waits } else { WithoutPath::Fails };
        self.head.set_without_path(what, cx);
    }

    fn told(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<(), MessageError> {
        if self.is_suspended {
            return Err(MessageError("it is suspended: resume it first".into()));
        }
        let word = words.first().map_or_else(String::new, |word| word.to_ascii_lowercase());
        match (word.as_str(), words.get(1..).unwrap_or_default()) {
            ("queue_if_no_path", []) => self.set_queues(true, cx),
            ("fail_if_no_path", []) => self.set_queues(false, cx),
            ("fail_path", [name]) => _ = self.head.fail_by_hand(self.path_called(name)?, cx),
            ("reinstate_path", [name]) => self.reinstate(self.path_called(name)?, cx),
            ("switch_group", [number]) => {
                let group = self.group_numbered(number)?;
                self.head.groups_mut().switch_to(group);
                self.changes += 1;
            }
            ("enable_group" | "disable_group", [number]) => {
                let group = self.group_numbered(number)?;
                self.head.groups_mut().set_bypassed(group, word == "disable_group");
                self.changes += 1;
            }
            _ => return Err(MessageError(USAGE.into())),
        }
        Ok(())
    }

    fn set_queues(&mut self, queues: bool, cx: &mut Cx<'_>) {
        self.queues = queues;
        self.settle_waiting(cx);
    }

    fn reinstate(&mut self, path: usize, cx: &mut Cx<'_>) {
        if self.head.paths().nth(path).is_some_and(|path| path.health != PathHealth::Live) {
            self.changes += 1;
            self.head.put_in(path, cx);
        }
    }

    fn path_called(&self, name: &str) -> Result<usize, MessageError> {
        let known = || MessageError(format!("there is no path `{name}`: there are {}", self.names.join(", ")));
        self.names.iter().position(|known| known == name).ok_or_else(known)
    }

    /// The place of the group with this number, from 1.
    fn group_numbered(&self, word: &str) -> Result<usize, MessageError> {
        let count = self.selectors.len();
        let number = word.parse().ok().filter(|number| (1..=count).contains(number));
        number
            .map(|number| number - 1)
            .ok_or_else(|| MessageError(format!("there is no group {word}: write 1 to {count}")))
    }

    fn write_group(&self, group: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        let (groups, views) = (self.head.groups(), self.head.views());
        let (it, selector) = (&groups.all()[group], self.selectors[group]);
        let state = match groups.current() {
            _ if it.is_bypassed() => 'D',
            Some(current) if current == group => 'A',
            _ => 'E',
        };
        let paths = groups.paths_of(group, views.len());
        write!(out, "{state} ")?;
        selector.write_own(out)?;
        write!(out, "{} {} ", paths.len(), selector.status_words())?;
        let reports = self.head.paths().skip(paths.start).take(paths.len());
        for ((number, path), report) in paths.enumerate().zip(reports) {
            let works = if report.health == PathHealth::Live { 'A' } else { 'F' };
            write!(out, "{} {works} {} ", quote(&self.names[path]), report.counters.failures)?;
            selector.write_status(&views[path], (it, number), out)?;
        }
        Ok(())
    }
}

impl BlockDevice for Multipath {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        self.head.below()
    }

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.head.attached(cx);
        self.settle_waiting(cx);
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.head.submit(bio, cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        self.head.end_io(bio, status, word, cx);
    }

    /// While it is suspended nothing waits for a path: it would keep the suspend from its end.
    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Suspend { push_back } => {
                self.is_suspended = true;
                let what = if push_back { WithoutPath::GoesBack } else { WithoutPath::Fails };
                self.head.set_without_path(what, cx);
            }
            Event::Resume => {
                self.is_suspended = false;
                self.settle_waiting(cx);
            }
            _ => self.head.on_event(event, cx),
        }
    }

    fn hears_losses(&self) -> bool {
        self.head.hears_losses()
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.head.held(visit);
    }

    fn takes_remote(&self, below: bool) -> bool {
        self.head.takes_remote(below)
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "multipath, {} paths in {} groups", self.names.len(), self.selectors.len())
    }

    /// As the kernel prints it, with a space at the end. No group has to be made ready, so the first numbers stay 0.
    fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "2 0 0 0 {} {} ", self.selectors.len(), self.group())?;
        (0..self.selectors.len()).try_for_each(|group| self.write_group(group, out))
    }

    fn figures(&self, visit: &mut dyn FnMut(&'static str, Figure)) {
        self.head.figures(visit);
    }

    fn message(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<String, MessageError> {
        self.told(words, cx).map(|()| String::new())
    }

    fn events(&self) -> u64 {
        self.head.paths().map(|path| path.counters.failures).sum::<u64>() + self.changes
    }
}
