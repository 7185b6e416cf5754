//! Giving up: the bios of a path end, while commands that are on their way go on until they have landed or may not any more.
//!
//! A path is given up as a whole, as a host drops the connection to a controller. From then on nothing is sent again, so what lacks a
//! segment does not arrive, and nothing behind it on its connection. What is on the wire or below goes on: that is the write that
//! lands when its host has long written something else.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::command::{Command, Place};
use super::wire::Way;
use super::{Link, Timer};
use shingle_core::block::{Bio, Cx, DeviceId, PathEvent, Reason};
use shingle_core::time::Instant;

/// What is left of what was given up, and when the path is usable again.
#[derive(Default)]
pub(super) struct Session {
    /// Commands that go on though their bios were given up.
    pub leftovers: usize,
    /// Those of them that are delivered in this order.
    pub line: VecDeque<usize>,
    /// Who wants to know when there are none.
    asked: Vec<(DeviceId, u64)>,
    /// The earliest that bios are taken again; `None` if the path was not given up since.
    broken_until: Option<Instant>,
    is_patience_timed: bool,
}

impl Link {
    /// Ends all bios that are in it with [`Reason::NoAnswer`]: what a host does that has waited long enough.
    pub fn give_up(&mut self, cx: &mut Cx<'_>) {
        self.cut_off();
        let mut ids: Vec<usize> = self.commands.iter().filter(|(_, c)| !c.is_given_up()).map(|(id, _)| id).collect();
        ids.sort_unstable_by_key(|id| self.commands[*id].number);
        for id in ids {
            let command = &mut self.commands[id];
            let host = core::mem::replace(&mut command.host, Err(cx.now()));
            let goes_on = command.goes_on();
            host.into_iter().for_each(|bio| self.end(bio, cx));
            self.session.leftovers += 1;
            if !goes_on {
                self.forget(id, cx);
            }
        }
        core::mem::take(&mut self.waiting).into_iter().for_each(|bio| self.end(bio, cx));
        self.session.broken_until = Some(cx.now() + self.config.reconnect);
        self.config.silent_after.iter().for_each(|bound| cx.wake_at(cx.now() + *bound, Timer::Silence.word(0, 0)));
        self.tell_if_silent(cx);
    }

    /// Commands that go on though their bios were given up.
    #[must_use]
    pub fn leftovers(&self) -> usize {
        self.session.leftovers
    }

    fn end(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.counts.given_up += 1;
        let waited = cx.now().since(bio.since);
        cx.fail(bio, Reason::NoAnswer(waited));
    }

    /// Nothing is sent again: what lacks a segment does not arrive, and in order, nothing behind it.
    fn cut_off(&mut self) {
        let line = core::mem::take(&mut self.wires[Way::There as usize].line);
        let gap = line.iter().position(|id| self.commands[*id].gap.is_some()).unwrap_or(line.len());
        for (place, id) in line.into_iter().enumerate() {
            if place >= gap {
                self.commands[id].place = Place::Lost;
            } else if self.commands[id].goes_on() {
                self.session.line.push_back(id);
            }
        }
        self.wires[Way::Back as usize].line.clear();
        self.wires.iter_mut().for_each(|wire| wire.gaps.clear());
    }

    /// Removes a command that was given up and is not below.
    fn forget(&mut self, id: usize, cx: &mut Cx<'_>) {
        self.session.leftovers -= 1;
        self.commands.remove(id).own.into_iter().for_each(|own| cx.recycle(own));
    }

    /// A command that was given up has taken effect, or failed.
    pub(super) fn landed(&mut self, id: usize, own: Box<Bio>, cx: &mut Cx<'_>) {
        let command = &mut self.commands[id];
        command.own = Some(own);
        let bound = self.config.silent_after;
        let is_late = |given_up: Instant| bound.is_some_and(|bound| cx.now() > given_up + bound);
        self.counts.late += u64::from(command.host.as_ref().is_err_and(|given_up| is_late(*given_up)));
        self.counts.landed += 1;
        self.forget(id, cx);
        self.tell_if_silent(cx);
    }

    /// What was given up so long ago that it may not be delivered any more is dropped, as a controller does that has lost its host. What is
    /// below already cannot be taken back: `silent_after` has to be longer than that takes.
    pub(super) fn fall_silent(&mut self, cx: &mut Cx<'_>) {
        let Some(bound) = self.config.silent_after else { return };
        let is_over = |command: &Command| {
            let given_up = command.host.as_ref().err();
            command.place != Place::Below && given_up.is_some_and(|at| *at + bound <= cx.now())
        };
        let over: Vec<usize> = self.commands.iter().filter(|(_, c)| is_over(c)).map(|(id, _)| id).collect();
        self.session.line.retain(|id| !over.contains(id));
        over.into_iter().for_each(|id| self.forget(id, cx));
        while let Some(id) = self.next_arrived(Way::There, true) {
            self.delivered(id, Way::There, cx);
        }
        self.tell_if_silent(cx);
    }

    pub(super) fn told(&mut self, event: PathEvent, cx: &mut Cx<'_>) {
        match event {
            PathEvent::GiveUp => self.give_up(cx),
            PathEvent::AskSilence { by, question } => {
                self.session.asked.push((by, question));
                self.tell_if_silent(cx);
            }
            PathEvent::Silent { .. } | PathEvent::State { .. } | PathEvent::Losses { .. } => {}
        }
    }

    fn tell_if_silent(&mut self, cx: &mut Cx<'_>) {
        if self.session.leftovers == 0 {
            let path = cx.me();
            let asked = self.session.asked.drain(..);
            asked.for_each(|(by, question)| cx.tell_path(by, PathEvent::Silent { path, question }));
        }
    }

    /// Whether a bio that comes at `now` fails without being sent.
    pub(super) fn refuses(&mut self, now: Instant) -> bool {
        if self.is_broken(now) {
            return true;
        }
        let refusals = &self.config.refusals;
        if refusals.ppm == 0 {
            return false;
        }
        self.refusing.forget(now);
        let may = refusals.windows.is_none() || self.refusing.covers(now);
        may && self.rng.below(1_000_000) < u64::from(refusals.ppm)
    }

    /// Whether it was given up and nobody could have connected again.
    pub(super) fn is_broken(&mut self, now: Instant) -> bool {
        let Some(until) = self.session.broken_until else { return false };
        let blocked = self.weather.stalls.covers(now) || self.weather.downs.covers(now);
        if now < until || blocked {
            return true;
        }
        self.session.broken_until = None;
        false
    }

    /// Begins to look at how long the oldest command takes, if nobody does.
    pub(super) fn be_patient(&mut self, cx: &mut Cx<'_>) {
        if let Some(patience) = self.config.give_up_after
            && !self.session.is_patience_timed
        {
            self.session.is_patience_timed = true;
            cx.wake_at(cx.now() + patience, Timer::Patience.word(0, 0));
        }
    }

    pub(super) fn lose_patience(&mut self, cx: &mut Cx<'_>) {
        self.session.is_patience_timed = false;
        let (Some(patience), Some(oldest)) = (self.config.give_up_after, self.oldest()) else { return };
        if oldest + patience <= cx.now() {
            return self.give_up(cx);
        }
        self.session.is_patience_timed = true;
        cx.wake_at(oldest + patience, Timer::Patience.word(0, 0));
    }

    fn oldest(&self) -> Option<Instant> {
        let waiting = self.commands.iter().filter(|(_, command)| !command.is_given_up());
        waiting.map(|(_, command)| command.sent).min()
    }
}
