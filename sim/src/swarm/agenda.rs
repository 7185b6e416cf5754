//! When an operator acts: at times that it draws, or at the times of a recording.

use crate::choices::Choices;
use crate::world::Io;
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// Time between two looks of an operator whose recording has nothing further for it to do.
const IDLE: Duration = Duration::from_millis(10);

/// The deeds of an operator, each an item of a recording with the time at which it is done.
pub(super) struct Agenda {
    /// The choices of the deed that is next.
    pub choices: Choices,
    /// When that is.
    next: Option<Instant>,
    has_ended: bool,
}

impl Agenda {
    /// Nothing is planned yet.
    pub fn new(choices: Choices) -> Self {
        Self { choices, next: None, has_ended: false }
    }

    /// The first deed is due at once.
    pub fn starting(choices: Choices) -> Self {
        let mut agenda = Self::new(choices);
        agenda.plan(|_| Instant::ZERO);
        agenda
    }

    /// True if a deed is due, which is to be done now.
    pub fn begins(&mut self, now: Instant) -> bool {
        self.next.take_if(|at| *at <= now).is_some()
    }

    /// True if the recording has no further deed. What the operator has begun it then brings to an end.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn plan(&mut self, draw: impl FnOnce(&mut Rng) -> Instant) {
        self.has_ended |= self.choices.next_item("deed").is_none();
        let at = (!self.has_ended).then(|| self.choices.decide("at-ns", (0, &[]), |rng| draw(rng).0));
        self.next = at.map(Instant);
    }

    /// Has the operator called when its next deed is due: when `pause` is over, if none is planned.
    pub fn go_on(&mut self, io: &mut Io<'_>, pause: impl FnOnce(&mut Rng) -> Duration) {
        let now = io.now();
        if self.next.is_none() && !self.has_ended {
            self.plan(|rng| now + pause(rng));
        }
        // What one deed begins goes on before the next one.
        self.next = self.next.map(|at| at.max(now + Duration(1)));
        io.wake_at(self.next.unwrap_or(now + IDLE));
    }
}
