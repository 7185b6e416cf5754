//! What paths and those above them say to each other, past the devices in between: questions go down to who gives up commands, answers
//! and announcements go up.
//!
//! ```text
//!   head ── AskSilence ──> path (a table) ─┬─> link ── Silent ─┐
//!    ^                                     └─> link ── Silent ─┴─ all of them: Silent of the path ──┐
//!    └───────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A question goes where the bios went that it is about, if it is asked in the turn in which they came back: a table is swapped between turns.

use alloc::collections::BTreeSet;

use super::event::Event;
use super::id::DeviceId;
use super::path::{AnaState, PathEvent};
use super::stack::Stack;
use crate::prelude::*;

/// A question to a path that several devices below it have to answer.
pub(super) struct Question {
    path: DeviceId,
    pub by: DeviceId,
    number: u64,
    /// Those that have not answered yet.
    waits_for: Vec<DeviceId>,
}

impl Stack {
    /// Brings what is said to `to`, or announced by it, to those that it is for.
    #[cold]
    pub(super) fn carry(&mut self, to: DeviceId, event: PathEvent) {
        match event {
            PathEvent::GiveUp => self.carriers(to).into_iter().for_each(|carrier| self.say(carrier, event)),
            PathEvent::AskSilence { by, question } => self.ask(to, by, question),
            PathEvent::Silent { path, question } => {
                let event = self.answer(to, path, question);
                event.into_iter().for_each(|event| self.say(to, event));
            }
            PathEvent::State { state, .. } => self.announce(to, state),
            PathEvent::Losses { losses, .. } => {
                self.who_hears_losses(to, losses).into_iter().for_each(|(id, event)| self.say(id, event));
            }
        }
    }

    fn say(&mut self, to: DeviceId, event: PathEvent) {
        self.call(to, |device, cx| device.on_event(Event::Path(event), cx));
    }

    /// Who at this device or below can give up commands that came through it.
    fn carriers(&self, path: DeviceId) -> BTreeSet<DeviceId> {
        let (mut next, mut carriers) = (Vec::from([path]), BTreeSet::new());
        while let Some(id) = next.pop() {
            let device = &self.slots[id.0 as usize].device;
            match device.silence() {
                Some(_) => _ = carriers.insert(id),
                None => next.extend(device.below()),
            }
        }
        carriers
    }

    fn ask(&mut self, path: DeviceId, by: DeviceId, number: u64) {
        let waits_for: Vec<DeviceId> = self.carriers(path).into_iter().collect();
        if waits_for.is_empty() {
            return self.say(by, PathEvent::Silent { path, question: number });
        }
        let event = PathEvent::AskSilence { by, question: number };
        if waits_for == [path] {
            return self.say(path, event);
        }
        self.effects.questions.push(Question { path, by, number, waits_for: waits_for.clone() });
        waits_for.into_iter().for_each(|carrier| self.say(carrier, event));
    }

    /// What an answer is to who asked, if it was the last one.
    fn answer(&mut self, by: DeviceId, path: DeviceId, number: u64) -> Option<PathEvent> {
        let is_it = |it: &Question| it.by == by && it.number == number && it.waits_for.contains(&path);
        let Some(at) = self.effects.questions.iter().position(is_it) else {
            return Some(PathEvent::Silent { path, question: number });
        };
        let question = &mut self.effects.questions[at];
        question.waits_for.retain(|carrier| *carrier != path);
        let path = question.path;
        question.waits_for.is_empty().then(|| {
            self.effects.questions.swap_remove(at);
            PathEvent::Silent { path, question: number }
        })
    }

    /// A device with nothing under way is gone: that is its answer.
    pub(super) fn falls_silent(&mut self, device: DeviceId) {
        let asked = self.effects.questions.iter().filter(|question| question.waits_for.contains(&device));
        let asked: Vec<(DeviceId, u64)> = asked.map(|question| (question.by, question.number)).collect();
        for (by, question) in asked {
            self.deliver(by, Event::Path(PathEvent::Silent { path: device, question }));
        }
    }

    fn all_above(&self, below: DeviceId) -> Vec<DeviceId> {
        let all = (0..self.slots.len()).map(|place| DeviceId(place as u16));
        all.filter(|above| self.below(*above).contains(&below)).collect()
    }

    /// Those above `path` that hear of losses of power, the lowest first. They are all told before anything is done: what one of them ends
    /// another one must not answer with its old knowledge. Counts of several disks say nothing together.
    fn who_hears_losses(&self, path: DeviceId, losses: Option<u64>) -> Vec<(DeviceId, PathEvent)> {
        let mut found = Vec::new();
        for id in self.all_above(path) {
            let hears = self.any_device(id).hears_losses();
            let losses = losses.filter(|_| hears || self.below(id).len() == 1);
            found.extend(hears.then_some((id, PathEvent::Losses { path, losses })));
            found.extend(self.who_hears_losses(id, losses));
        }
        found
    }

    /// Tells the device in place `id`, and those above, that the disk below has lost its power so many times.
    pub fn tell_losses(&mut self, id: DeviceId, losses: u64) {
        let losses = Some(losses);
        let above = self.who_hears_losses(id, losses);
        self.tell(id, Event::Path(PathEvent::Losses { path: id, losses }));
        above.into_iter().for_each(|(above, event)| self.tell(above, Event::Path(event)));
    }

    /// Tells those above `path` that hear it, and of the others those to which it is the only way below.
    fn announce(&mut self, path: DeviceId, state: AnaState) {
        for id in self.all_above(path) {
            if self.any_device(id).hears_paths() {
                self.say(id, PathEvent::State { path, state });
            } else if self.below(id).len() == 1 {
                self.deliver(id, Event::Path(PathEvent::State { path: id, state }));
            }
        }
    }
}
