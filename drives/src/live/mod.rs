//! A drive that is really there: a model that runs beside real time, and that can lose its power.
//!
//! ```text
//!   bios ──> this device ──> a stack of its own, with the model alone ── answers, each at its deadline
//!    (real time) ^                 (the time of the deadlines)                       │
//!                └───────── completed when real time is there ── lateness <──────────┘
//! ```
//!
//! Promised above: a bio that comes at a time is answered when the model would answer it, or later. The model never hears how
//! late the machine is: its timers go off at their own times, in order, when the machine gets to them. So a machine that is
//! late for one answer is not late for all that follow, and the rates of the model are kept. Only what comes from outside
//! comes when it comes.
//!
//! [`LiveDrive::cut_power`] takes from the drive what its model says that a loss of power takes. It answers nothing until
//! [`LiveDrive::restore_power`].

mod model;
mod times;

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::fmt;

use slab::Slab;

use model::Inside;
use shingle_core::block::{
    Bio, BlockDevice, Completion, Cx, DeviceId, Event, Limits, Op, PortId, Reason, Stack, StackError, Survival,
};
use shingle_core::random::Rng;
use shingle_core::time::Instant;
use shingle_core::zone::ZonedDisk;

use crate::medium::{Medium, Store};

pub use model::Model;
pub use times::Times;

/// The drive.
pub struct LiveDrive {
    limits: Limits,
    /// The model, in its own time.
    stack: Stack,
    /// That time: of its last turn.
    time: Instant,
    /// When the model next has to do something.
    due: Option<Instant>,
    model: DeviceId,
    port: PortId,
    /// By the tags that the model knows them by.
    commands: Slab<Command>,
    power: Power,
    cuts: u64,
    /// What a loss of power takes.
    rng: Rng,
    lateness: Times,
    /// How long bios took, by operation.
    times: [Times; Op::COUNT],
    /// When it is called next.
    alarm: Option<Instant>,
}

/// A bio that the model has the memory of.
struct Command {
    bio: Box<Bio>,
    /// When it came.
    since: Instant,
}

/// Has `model`, which was not used yet, keep its data and zones in `store`, and begin with what is there.
///
/// # Errors
/// If that is not what the drive can have, or cannot be read.
pub fn adopt(model: &mut dyn Model, store: &Rc<dyn Store>) -> Result<(), Reason> {
    model.zones_mut().map_or(Ok(()), |zones| zones.adopt(store.clone()))?;
    model.medium_mut().into_iter().for_each(|medium| *medium = Medium::Stored(store.clone()));
    Ok(())
}

/// Whether it has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// It works.
    On,
    /// It answers nothing.
    Off,
}

impl Power {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ["on", "off"][self as usize]
    }
}

impl LiveDrive {
    /// A drive that is `model`, and keeps at most so many bytes of data in memory: a write beyond that fails and does nothing.
    /// `seed` decides what losses of power take.
    ///
    /// # Errors
    /// If no stack takes such a device.
    pub fn new(mut model: Box<dyn Model>, memory_limit: Option<u64>, seed: u64) -> Result<Self, StackError> {
        model.go_live();
        if let (Some(limit), Some(Medium::Memory(memory))) = (memory_limit, model.medium_mut()) {
            memory.set_limit(limit);
        }
        let limits = model.limits().clone();
        let mut stack = Stack::new();
        let port = stack.open_port();
        let model = stack.add(Box::new(Inside(model)))?;
        Ok(Self {
            limits,
            stack,
            time: Instant::ZERO,
            due: None,
            model,
            port,
            commands: Slab::new(),
            power: Power::On,
            cuts: 0,
            rng: Rng::new(seed),
            lateness: Times::default(),
            times: Default::default(),
            alarm: None,
        })
    }

    /// Whether it has power.
    #[must_use]
    pub fn power(&self) -> Power {
        self.power
    }

    /// How often it has lost it.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// How late its answers were.
    #[must_use]
    pub fn lateness(&self) -> &Times {
        &self.lateness
    }

    /// How long bios of an operation took, from when they came until they were answered here. Those that came while there was no power are not
    /// among them.
    #[must_use]
    pub fn times(&self, op: Op) -> &Times {
        &self.times[op as usize]
    }

    /// Bios that it has.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.commands.len()
    }

    /// Its zones, if it has any.
    #[must_use]
    pub fn zones(&self) -> Option<&ZonedDisk> {
        self.inside().zones()
    }

    /// Bytes of memory that its data takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.medium().filter(|medium| medium.store().is_none()).map_or(0, Medium::bytes)
    }

    /// Where its data is; `None` if it keeps none.
    #[must_use]
    pub fn medium(&self) -> Option<&Medium> {
        self.inside().medium()
    }

    fn inside(&self) -> &dyn Model {
        let Inside(model) = self.stack.device(self.model).expect("the model is where it was put");
        model.as_ref()
    }

    /// The power goes: what is in flight fails with [`Reason::NoPower`], and so does all that comes until it is back. What the
    /// model had not made durable is lost, or a part of it. Returns false, and does nothing, if it has none already.
    pub fn cut_power(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.power == Power::Off {
            return false;
        }
        // What was due before has been answered.
        self.run(cx);
        let mut rng = self.rng.fork();
        self.turn(cx.now());
        self.answer(cx);
        self.stack.with_device(self.model, |Inside(model), cx| model.lose_power(&mut rng, cx));
        self.turn(cx.now());
        while let Some(Completion { tag, bio: mut inner, .. }) = self.stack.poll_completion(self.port) {
            let mut bio = self.leaves(tag, cx.now());
            bio.payload = core::mem::take(&mut inner.payload);
            cx.fail(bio, Reason::NoPower);
        }
        (self.power, self.cuts) = (Power::Off, self.cuts + 1);
        true
    }

    /// The power is back, with what was left. Those above hear that it was gone. Returns false if it was not.
    pub fn restore_power(&mut self, cx: &mut Cx<'_>) -> bool {
        let was_off = self.power == Power::Off;
        if was_off {
            self.power = Power::On;
            cx.announce_losses(Some(self.cuts));
            // Whoever kept the alarm may have been gone with the power.
            self.alarm = None;
            self.set_alarm(cx);
        }
        was_off
    }

    /// The model's time becomes `at`, and it does what it has to do then.
    fn turn(&mut self, at: Instant) {
        self.time = at.max(self.time);
        self.due = self.stack.turn(self.time);
    }

    /// Has the model do all that is due, each thing at its own time.
    fn run(&mut self, cx: &mut Cx<'_>) {
        while let Some(due) = self.due.filter(|due| *due <= cx.now()) {
            self.turn(due);
            self.answer(cx);
        }
    }

    /// Completes what the model has answered now, in its time.
    fn answer(&mut self, cx: &mut Cx<'_>) {
        while let Some(Completion { tag, bio: mut inner, status }) = self.stack.poll_completion(self.port) {
            self.lateness.record(cx.now().since(self.time));
            let mut bio = self.leaves(tag, cx.now());
            (bio.sector, bio.payload) = (inner.sector, core::mem::take(&mut inner.payload));
            if status.is_ok() {
                cx.complete(bio, status);
            } else {
                // Without the device: the places of the model's stack mean nothing to others.
                let why = inner.why().map_or(Reason::Unexplained(status), |why| why.reason.clone());
                cx.fail(bio, why);
            }
        }
    }

    /// A bio is done.
    fn leaves(&mut self, tag: u64, now: Instant) -> Box<Bio> {
        let Command { bio, since } = self.commands.remove(tag as usize);
        self.times[bio.op as usize].record(now.since(since));
        bio
    }

    /// Has itself called when the model next has to do something.
    fn set_alarm(&mut self, cx: &mut Cx<'_>) {
        let Some(due) = self.due else { return };
        if self.alarm.is_none_or(|alarm| due < alarm) {
            self.alarm = Some(due);
            cx.wake_at(due, 0);
        }
    }
}

impl BlockDevice for LiveDrive {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.power == Power::Off {
            return cx.fail(bio, Reason::NoPower);
        }
        self.run(cx);
        let payload = core::mem::take(&mut bio.payload);
        let inner = Bio::new(bio.op, bio.sector, bio.sectors, payload).with_flags(bio.flags);
        let tag = self.commands.insert(Command { bio, since: cx.now() }) as u64;
        self.stack.submit(self.port, tag, self.model, Box::new(inner));
        self.turn(cx.now());
        self.answer(cx);
        self.set_alarm(cx);
    }

    fn on_event(&mut self, _: Event, cx: &mut Cx<'_>) {
        self.alarm = self.alarm.filter(|alarm| *alarm > cx.now());
        self.run(cx);
        self.set_alarm(cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.commands.iter().for_each(|(_, command)| visit(&command.bio));
    }

    fn survival(&self) -> Survival {
        // The end of the process is no loss of power: a store has all that was answered.
        if self.medium().is_some_and(|medium| medium.store().is_some()) { Survival::All } else { Survival::Nothing }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.stack.describe(self.model, out)?;
        if self.power == Power::Off { out.write_str(", without power") } else { Ok(()) }
    }
}
