//! The loop of the simulated machine: the counterpart of a shard, with a clock that jumps.

use alloc::boxed::Box;
use alloc::vec::Vec;

use shingle_core::block::{Bio, Completion, DeviceId, Limits, Op, Payload, PortId, Stack};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

/// What submits bios in the simulated world: a workload, a checker, an operator who switches things.
pub trait Actor: core::any::Any {
    /// Called at the start, when bios of this actor have completed, and when its alarm rings. It polls all completions,
    /// submits what it wants, and sets its next alarm.
    fn act(&mut self, io: &mut Io<'_>);

    /// Called when nothing is left to do at this moment. Returns whether it did something, so that there may be again.
    fn after_turn(&mut self, io: &mut Io<'_>) -> bool {
        let _ = io;
        false
    }

    /// Whether it will never act again by itself. The world ends when all actors are done.
    fn is_done(&self) -> bool;
}

/// An actor's end of the world, for the length of one call.
pub struct Io<'a> {
    /// The stack: for limits, counters, and live changes.
    pub stack: &'a mut Stack,
    port: PortId,
    now: Instant,
    alarm: &'a mut Option<Instant>,
}

impl Io<'_> {
    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Sends `bio` to device `to`; it comes back under `tag`.
    pub fn submit(&mut self, tag: u64, to: DeviceId, bio: Box<Bio>) {
        self.stack.submit(self.port, tag, to, bio);
    }

    /// Asks device `to` for all of its zones; the report comes back under `tag`.
    pub fn report_zones(&mut self, tag: u64, to: DeviceId) {
        let room = Payload::Zones(Vec::with_capacity(self.limits(to).zones() as usize));
        self.submit(tag, to, Box::new(Bio::new(Op::ReportZones, Sector::ZERO, 0, room)));
    }

    /// The next bio that is back.
    pub fn completion(&mut self) -> Option<Completion> {
        self.stack.poll_completion(self.port)
    }

    /// Bios of this actor that are not polled yet.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.stack.outstanding(self.port)
    }

    /// What device `id` accepts.
    #[must_use]
    pub fn limits(&self, id: DeviceId) -> &Limits {
        self.stack.limits(id)
    }

    /// Has the actor called at `at`, if no earlier alarm is set.
    pub fn wake_at(&mut self, at: Instant) {
        let earlier = self.alarm.is_some_and(|set| set <= at);
        if !earlier {
            *self.alarm = Some(at);
        }
    }
}

struct Seat {
    port: PortId,
    alarm: Option<Instant>,
    started: bool,
    actor: Box<dyn Actor>,
}

/// Cause of the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All actors are done.
    Done,
    /// The time to stop at was reached.
    Deadline,
    /// Actors wait, and nothing will ever happen again: somebody lost a bio or a wake-up.
    Stuck,
}

/// A stack, its actors, and the time.
pub struct World {
    /// The stack.
    pub stack: Stack,
    seats: Vec<Seat>,
    now: Instant,
}

impl World {
    /// A world around `stack`, at time zero and without actors.
    #[must_use]
    pub fn new(stack: Stack) -> Self {
        Self { stack, seats: Vec::new(), now: Instant::ZERO }
    }

    /// Lets `actor` in; returns its number.
    pub fn add(&mut self, actor: Box<dyn Actor>) -> usize {
        let port = self.stack.open_port();
        self.seats.push(Seat { port, alarm: None, started: false, actor });
        self.seats.len() - 1
    }

    /// The actor with this number, as what it is.
    #[must_use]
    pub fn actor<A: Actor>(&self, number: usize) -> Option<&A> {
        let actor: &dyn core::any::Any = self.seats.get(number)?.actor.as_ref();
        actor.downcast_ref()
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Goes on to when something happens next, and does it; no actor is asked. False if nothing will ever happen.
    pub fn pass_time(&mut self) -> bool {
        let Some(next) = self.stack.turn(self.now) else { return false };
        self.now = self.now.max(next);
        self.stack.turn(self.now);
        true
    }

    /// Runs until all actors are done, nothing can happen any more, or the next thing would happen after `until`.
    pub fn run(&mut self, until: Instant) -> Stop {
        self.run_watched(until, &mut |_| true)
    }

    /// The same, with a look at the stack after every hop; the run stops at the deadline or when `watch` returns false.
    pub fn run_watched(&mut self, until: Instant, watch: &mut dyn FnMut(&Stack) -> bool) -> Stop {
        let mut go_on = true;
        loop {
            let next = self.tick(&mut |stack| go_on &= watch(stack));
            if self.seats.iter().all(|seat| seat.actor.is_done()) {
                return Stop::Done;
            }
            match next {
                None => return Stop::Stuck,
                _ if !go_on => return Stop::Deadline,
                Some(next) if next > until => return Stop::Deadline,
                Some(next) => self.now = self.now.max(next),
            }
        }
    }

    /// Does all that is due now; returns when something happens next.
    fn tick(&mut self, watch: &mut dyn FnMut(&Stack)) -> Option<Instant> {
        let mut next = self.stack.turn_watched(self.now, watch);
        while self.act() || self.stack.has_arrivals() || self.after_turn() {
            next = self.stack.turn_watched(self.now, watch);
        }
        let alarms = self.seats.iter().filter_map(|seat| seat.alarm);
        alarms.chain(next).min()
    }

    /// Tells the actors that a turn is over; false if none of them did something.
    fn after_turn(&mut self) -> bool {
        let mut acted = false;
        for seat in self.seats.iter_mut().filter(|seat| seat.started) {
            let (stack, alarm) = (&mut self.stack, &mut seat.alarm);
            acted |= seat.actor.after_turn(&mut Io { stack, port: seat.port, now: self.now, alarm });
        }
        acted
    }

    /// Calls the actors that have a reason to act, in their order; false if there was none.
    fn act(&mut self) -> bool {
        let mut acted = false;
        for seat in &mut self.seats {
            let rings = seat.alarm.is_some_and(|at| at <= self.now);
            if seat.started && !rings && !self.stack.has_completions(seat.port) {
                continue;
            }
            if rings {
                seat.alarm = None;
            }
            seat.started = true;
            acted = true;
            let (stack, alarm) = (&mut self.stack, &mut seat.alarm);
            seat.actor.act(&mut Io { stack, port: seat.port, now: self.now, alarm });
        }
        acted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_core::block::Data;
    use shingle_core::device::{NullConfig, NullDevice};
    use shingle_core::time::Duration;

    struct Reader {
        disk: DeviceId,
        left: u32,
        ended: Vec<Instant>,
    }

    impl Actor for Reader {
        fn act(&mut self, io: &mut Io<'_>) {
            while io.completion().is_some() {
                self.ended.push(io.now());
            }
            if self.left > 0 && io.outstanding() == 0 {
                self.left -= 1;
                let payload = Payload::Data(Data::zeroed(4096));
                io.submit(0, self.disk, Box::new(Bio::new(Op::Read, Sector(8), 8, payload)));
            }
        }

        fn is_done(&self) -> bool {
            self.ended.len() == 3
        }
    }

    fn world(left: u32) -> World {
        let mut stack = Stack::new();
        let config = NullConfig { completion: Duration::from_micros(7), ..NullConfig::new(1024) };
        let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        let mut world = World::new(stack);
        world.add(Box::new(Reader { disk, left, ended: Vec::new() }));
        world
    }

    #[test]
    fn the_clock_jumps_from_event_to_event() {
        let mut world = world(3);
        assert_eq!(world.run(Instant(u64::MAX)), Stop::Done);
        let ended = &world.actor::<Reader>(0).unwrap().ended;
        assert_eq!(*ended, [Instant(7_000), Instant(14_000), Instant(21_000)]);
    }

    #[test]
    fn a_run_stops_at_its_deadline_and_goes_on_from_there() {
        let mut world = world(3);
        assert_eq!(world.run(Instant(10_000)), Stop::Deadline);
        assert_eq!(world.now(), Instant(7_000));
        assert_eq!(world.run(Instant(30_000)), Stop::Done);
    }

    #[test]
    fn a_world_in_which_nothing_can_happen_is_stuck() {
        assert_eq!(world(2).run(Instant(u64::MAX)), Stop::Stuck);
    }
}
