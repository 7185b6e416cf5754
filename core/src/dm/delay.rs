//! `delay`: bios reach the device below later (`drivers/md/dm-delay.c`).
//!
//! Reads, writes and flushes are three classes, each with a device and a time of its own. Within a class all wait
//! equally long, so a class is a queue and zone writes keep their order.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;

use crate::block::{Bio, BlockDevice, Cx, DeviceId, Event, Flags, Limits, Op, Stack};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::prelude::*;
use crate::time::{Duration, Instant};

pub(super) const TYPE: TargetType = TargetType {
    name: "delay",
    version: [1, 5, 0],
    usage: "delay <device> <start sector> <ms> [<write device> <start sector> <ms> \
            [<flush device> <start sector> <ms>]]",
    parse,
};

const READ: usize = 0;
const WRITE: usize = 1;
const FLUSH: usize = 2;

/// Where the bios of a class go, and how much later.
#[derive(Debug)]
struct ClassArgs {
    device: DeviceArg,
    start: u64,
    ms: u32,
}

/// One to three classes: what is not written is as the one before it.
#[derive(Debug)]
struct DelayArgs(Vec<ClassArgs>);

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let left = args.left();
    if !matches!(left, 3 | 6 | 9) {
        let message = format!("delay: it has {left} arguments and takes 3, 6 or 9; write `{}`", TYPE.usage);
        return Err(ArgError { word: None, message });
    }
    let mut classes = Vec::new();
    while args.left() > 0 {
        let (device, start) = (args.device()?, args.sectors("the start on the device")?);
        let ms = args.word("the delay")?;
        let ms = ms.parse().map_err(|_| args.blame(format!("the delay is `{ms}`: write a number of ms below 2^32")))?;
        classes.push(ClassArgs { device, start, ms });
    }
    Ok(Arc::new(DelayArgs(classes)))
}

impl Target for DelayArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        self.0.iter().map(|class| &class.device).collect()
    }

    fn arguments(&self, _: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(place, ClassArgs { device, start, ms })| {
            let gap = if place == 0 { "" } else { " " };
            write!(out, "{gap}{} {start} {ms}", quote(&device.name))
        })
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let mut devices: Vec<DeviceId> = Vec::new();
        for class in &self.0 {
            let twin = self.0[..devices.len()].iter().position(|other| other.is_at(class));
            devices.push(match twin {
                Some(twin) => devices[twin],
                None => context.part_device(&class.device, class.start)?,
            });
        }
        let limits = self.limits(&devices, context.stack)?;
        let class = |place: usize| {
            let written = place.min(devices.len() - 1);
            Class::new(devices[written], Duration::from_millis(self.0[written].ms.into()))
        };
        let classes = [class(READ), class(WRITE), class(FLUSH)];
        devices.sort_unstable();
        devices.dedup();
        context.map(Box::new(Delay { classes, below: devices, limits, delays: true, arrived: 0 }))
    }
}

impl ClassArgs {
    fn is_at(&self, other: &ClassArgs) -> bool {
        (&self.device.name, self.start) == (&other.device.name, other.start)
    }
}

impl DelayArgs {
    /// What all classes together accept.
    fn limits(&self, devices: &[DeviceId], stack: &Stack) -> Result<Limits, ArgError> {
        let mut limits = stack.limits(devices[0]).clone();
        for (class, device) in self.0.iter().zip(devices).filter(|(_, device)| **device != devices[0]) {
            let own = stack.limits(*device);
            // Who writes by the zones of one device and has them land on another knows neither's write pointers.
            let is_zoned = limits.zoned.is_some() || own.zoned.is_some();
            let both = if is_zoned {
                Err("on zoned devices all classes have to name the same device and start".to_string())
            } else {
                limits.stack(own).map_err(|error| error.to_string())
            };
            let name = &class.device.name;
            limits = both.map_err(|message| ArgError::at(class.device.word, format!("delay: `{name}`: {message}")))?;
        }
        Ok(limits)
    }
}

/// A bio that waits for its time.
struct Held {
    due: Instant,
    /// Its place among all that have waited here, for when all go at once.
    number: u64,
    bio: Box<Bio>,
}

/// The bios of a class, oldest first.
struct Class {
    device: DeviceId,
    time: Duration,
    held: VecDeque<Held>,
}

impl Class {
    fn new(device: DeviceId, time: Duration) -> Self {
        Self { device, time, held: VecDeque::new() }
    }
}

/// A device that passes bios on later.
struct Delay {
    classes: [Class; 3],
    below: Vec<DeviceId>,
    limits: Limits,
    /// Whether bios wait: not while the mapped device is suspended.
    delays: bool,
    arrived: u64,
}

impl Delay {
    fn class_of(&self, bio: &Bio) -> usize {
        match bio.op {
            Op::Read | Op::ReportZones => READ,
            Op::Flush => FLUSH,
            // Zone writes keep their order, so they are one class.
            _ if bio.flags.has(Flags::PREFLUSH) && self.limits.zoned.is_none() => FLUSH,
            _ => WRITE,
        }
    }

    /// Sends on what is due in a class.
    fn send_due(&mut self, place: usize, cx: &mut Cx<'_>) {
        let Class { device, held, .. } = &mut self.classes[place];
        let mut sent = false;
        while let Some(Held { bio, .. }) = held.pop_front_if(|next| next.due <= cx.now()) {
            cx.remap(*device, bio);
            sent = true;
        }
        // A timer from before a suspend finds nothing: that for the next bio is set.
        if let Some(next) = held.front().filter(|_| sent) {
            cx.wake_at(next.due, place as u64);
        }
    }

    /// Sends on everything, or back to the door if that is wanted and possible, in order of arrival.
    fn send_all(&mut self, push_back: bool, cx: &mut Cx<'_>) {
        let number = |class: &Class| class.held.front().map_or(u64::MAX, |held| held.number);
        while let Some(class) = self.classes.iter_mut().min_by_key(|class| number(class))
            && let Some(Held { bio, .. }) = class.held.pop_front()
        {
            let stays = if push_back { cx.push_back(bio).err() } else { Some(bio) };
            if let Some(bio) = stays {
                cx.remap(class.device, bio);
            }
        }
    }
}

impl BlockDevice for Delay {
    keeps_limits_and_below!();

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let place = self.class_of(&bio);
        let Class { device, time, held } = &mut self.classes[place];
        if *time == Duration::ZERO || !self.delays || bio.op == Op::ReportZones {
            return cx.remap(*device, bio);
        }
        let due = cx.now() + *time;
        if held.is_empty() {
            cx.wake_at(due, place as u64);
        }
        held.push_back(Held { due, number: self.arrived, bio });
        self.arrived += 1;
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(place) => self.send_due(place as usize, cx),
            Event::Suspend { push_back } => {
                self.delays = false;
                self.send_all(push_back, cx);
            }
            Event::Resume => self.delays = true,
            Event::Failed { .. } | Event::Path(_) | Event::Done { .. } => {}
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.classes.iter().flat_map(|class| &class.held).for_each(|held| visit(&held.bio));
    }

    fn status(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let [reads, writes, flushes] = self.classes.each_ref().map(|class| class.held.len());
        write!(out, "{reads} {writes} {flushes}")
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let [reads, writes, flushes] = self.classes.each_ref().map(|class| class.time.as_nanos() / 1_000_000);
        write!(out, "delay, reads by {reads} ms, writes by {writes} ms, flushes by {flushes} ms")
    }
}
