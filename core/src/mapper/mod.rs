//! Named devices made of tables, loaded and swapped while they are used.
//!
//! ```text
//!   name ──> Mapped ─┬─ live table      ──> the Table in the device's place of the stack, and its parts
//!                    └─ inactive table  ──> built, its parts added; the Table waits outside
//!
//!   running ── suspend ──> draining ── all that went in is done ──> suspended ── resume ──> running
//!      └────── resume with an inactive table: drain, swap, let in again ──────────────────────┘
//! ```
//!
//! Every device has a place of its own in the [`Stack`] from its first resume on, and keeps it: who uses the device does not
//! notice that its table changes. Bios that come meanwhile wait at the door in their order. A table that cannot go in leaves
//! the old one live and running (the kernel leaves it suspended).
//!
//! Nothing here waits: a verb that has to begins, and [`Mapper::poll`] goes on with it after each turn of the stack.

mod claims;
mod error;
mod index;
mod itself;
mod mapped;
mod plugs;
mod resolver;
pub mod stats;
mod view;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use claims::Reserved;
pub use error::{MapperError, MapperErrorKind};
use index::Index;
pub use mapped::{LONGEST_NAME, LONGEST_UUID, Ticket};
use mapped::{Loaded, Mapped, State, Then};
pub use plugs::LinePlug;
use resolver::Names;
pub use view::{Figures, Info, StateName, TargetFigures};

use crate::block::{DeviceId, Event, PriorUse, Stack, StackError};
use crate::dm::{Resolver, TableLine, parse_table};
use crate::prelude::*;
use crate::time::Instant;

/// All mapped devices of a stack.
#[derive(Default)]
pub struct Mapper {
    devices: Vec<Mapped>,
    index: Index,
    /// How many outside of the stack may write to a device.
    writers: BTreeMap<DeviceId, u32>,
    /// Devices that somebody outside of all tables has for itself.
    reserved: BTreeMap<DeviceId, Reserved>,
    /// Devices that a mapped one has had for itself at some time: only of these is asked which.
    claimed: BTreeSet<DeviceId>,
    tickets: u64,
    /// What became of verbs that had to wait, until somebody asks.
    outcomes: VecDeque<(Ticket, Result<(), MapperError>)>,
}

/// These devices and all below them.
fn all_below(mut next: Vec<DeviceId>, stack: &Stack) -> BTreeSet<DeviceId> {
    let mut all = BTreeSet::new();
    while let Some(device) = next.pop() {
        if all.insert(device) {
            next.extend(stack.below(device));
        }
    }
    all
}

/// Most outcomes that are kept for somebody to ask for them.
const MOST_OUTCOMES: usize = 256;

impl Mapper {
    /// No devices yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a device without a table (`dmsetup create --notable`).
    ///
    /// # Errors
    /// If the name or the UUID is none, or taken.
    pub fn create(&mut self, name: &str, uuid: &str) -> Result<(), MapperError> {
        mapped::check_name(name)?;
        mapped::check_uuid(uuid)?;
        if self.index.place(name).is_some() || self.index.has_uuid(uuid) {
            let what = format!("`{name}` cannot be created: a device of that name or UUID exists");
            return Err(MapperError::new(MapperErrorKind::Exists, what));
        }
        let device = Mapped::new(name, uuid, self.index.take_minor());
        self.index.add(self.devices.len(), &device);
        self.devices.push(device);
        Ok(())
    }

    /// Builds a table into the inactive slot, in place of what is there.
    ///
    /// # Errors
    /// The table's first mistake; then the slot stays as it was.
    pub fn load(
        &mut self,
        name: &str,
        lines: Vec<TableLine>,
        read_only: bool,
        (stack, resolver): (&mut Stack, &dyn Resolver),
    ) -> Result<(), MapperError> {
        let place = self.find(name)?;
        let loaded = self.build(place, lines, read_only, (stack, resolver))?;
        self.claimed.extend(&loaded.sole_writer_of);
        if let Some(mut old) = self.devices[place].inactive.replace(loaded) {
            old.abandon(PriorUse::Unused, stack);
        }
        Ok(())
    }

    fn build(
        &self,
        place: usize,
        lines: Vec<TableLine>,
        read_only: bool,
        (stack, resolver): (&mut Stack, &dyn Resolver),
    ) -> Result<Loaded, MapperError> {
        let device = &self.devices[place];
        device.check_itself(&lines).map_err(|error| device.bad_table(&error))?;
        let names = Names { index: &self.index, devices: &self.devices, resolver, loading: device };
        self.check_claims(place, (&lines, read_only), &names).map_err(|error| device.bad_table(&error))?;
        let mut loaded = Loaded::build(stack, lines, read_only, &names).map_err(|e| device.bad_table(&e))?;
        device.policies.apply(&loaded, stack);
        let fits = match (device.device, &loaded.table) {
            (Some(id), Some(table)) => {
                let fits = stack.can_replace(id, table).map_err(|error| self.explain(&error));
                fits.and_then(|()| self.check_silence(id, table, stack))
            }
            _ => Ok(()),
        };
        match fits {
            Ok(()) => Ok(loaded),
            Err(why) => {
                loaded.abandon(PriorUse::Unused, stack);
                let what = format!("the table of `{}` does not fit: {why}", device.name);
                Err(MapperError::new(MapperErrorKind::Table, what))
            }
        }
    }

    /// Drops the inactive table.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn clear(&mut self, name: &str, stack: &mut Stack) -> Result<(), MapperError> {
        let place = self.find(name)?;
        if let Some(mut old) = self.devices[place].inactive.take() {
            old.abandon(PriorUse::Unused, stack);
        }
        Ok(())
    }

    /// Begins to suspend a device: new bios wait at its door, those inside are finished. With `noflush`, what targets hold
    /// back comes to the door too instead of being finished first, but on a zoned device.
    ///
    /// # Errors
    /// If there is no such device, or another change of it is under way.
    pub fn suspend(&mut self, name: &str, noflush: bool, stack: &mut Stack) -> Result<Ticket, MapperError> {
        let place = self.find_calm(name)?;
        self.shut(place, noflush, Then::Stay, stack)
    }

    /// Begins to suspend every active device that no other one lies on that is not suspended, nor what has something under way of a table
    /// that is gone; returns how many. Called again when they are, this has all devices suspended from the top down, in as many steps as
    /// there are layers.
    pub fn suspend_highest(&mut self, stack: &mut Stack) -> usize {
        let moving = self.devices.iter().filter(|device| !matches!(device.state, State::Suspended));
        let below = moving.flat_map(|device| &device.live).flat_map(Loaded::below);
        let of_gone_tables = stack.abandoned().iter().flat_map(|part| stack.below(*part)).copied();
        // A table can lie on something that is no mapped device and lies on some.
        let held = all_below(below.chain(of_gone_tables).collect(), stack);
        let is_highest = |device: &Mapped| {
            matches!(device.state, State::Running) && device.device.is_none_or(|id| !held.contains(&id))
        };
        let highest: Vec<usize> = (0..self.devices.len()).filter(|place| is_highest(&self.devices[*place])).collect();
        for place in &highest {
            // Nobody asks for these tickets: that is seen in the state.
            let _ = self.shut(*place, false, Then::Stay, stack);
        }
        highest.len()
    }

    /// Begins to let bios in again; with an inactive table, through that.
    ///
    /// # Errors
    /// If there is no such device, it has no table, or another change of it is under way.
    pub fn resume(&mut self, name: &str, noflush: bool, stack: &mut Stack) -> Result<Ticket, MapperError> {
        let place = self.find_calm(name)?;
        let device = &self.devices[place];
        if device.live.is_none() && device.inactive.is_none() {
            let what = format!("`{name}` cannot be resumed: it has no table; load one first");
            return Err(MapperError::new(MapperErrorKind::NoTable, what));
        }
        if device.inactive.is_some() {
            return self.shut(place, noflush, Then::Swap, stack);
        }
        let ticket = self.ticket();
        let resumed = self.devices[place].open(stack);
        self.settle(ticket, resumed);
        Ok(ticket)
    }

    /// Stops bios at the door of a device, and notes what is to happen when it is drained.
    fn shut(&mut self, place: usize, noflush: bool, then: Then, stack: &mut Stack) -> Result<Ticket, MapperError> {
        let ticket = self.ticket();
        let device = &mut self.devices[place];
        let was_running = matches!(device.state, State::Running);
        if let Some(id) = device.device
            && was_running
        {
            stack.suspend(id);
            // Of a zone's writes some may be where they cannot turn round, and would pass those that do. The kernel fails
            // such writes (`drivers/md/dm.c:dm_io_complete`); here they are finished.
            let push_back = noflush && stack.limits(id).zoned.is_none();
            let parts = device.live.iter().flat_map(|live| live.parts.clone());
            parts.for_each(|part| stack.deliver(part, Event::Suspend { push_back }));
        }
        // When it began is known at the next look.
        device.state = State::Draining { since: None, then, ticket, was_running };
        Ok(ticket)
    }

    /// Goes on with what is under way; to be called after a turn of the stack.
    pub fn poll(&mut self, now: Instant, (stack, resolver): (&mut Stack, &dyn Resolver)) {
        for place in 0..self.devices.len() {
            let device = &mut self.devices[place];
            let State::Draining { since, then, ticket, was_running } = &mut device.state else { continue };
            let since = *since.get_or_insert(now);
            let (then, ticket, was_running) = (*then, *ticket, *was_running);
            if !device.is_drained(stack) {
                continue;
            }
            let result = match then {
                Then::Stay => {
                    device.state = State::Suspended;
                    Ok(())
                }
                Then::Swap => self.swap(place, was_running, (stack, resolver)),
            };
            if then == Then::Swap {
                let took = now.since(since);
                self.devices[place].longest_swap = self.devices[place].longest_swap.max(took);
            }
            self.settle(ticket, result);
        }
        self.remove_deferred(stack);
    }

    /// Whether [`Mapper::poll`] has something to go on with.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let waits = |device: &Mapped| matches!(device.state, State::Draining { .. }) || device.is_deferred;
        self.devices.iter().any(waits)
    }

    /// Puts the inactive table into the place of the drained live one.
    fn swap(
        &mut self,
        place: usize,
        was_running: bool,
        (stack, resolver): (&mut Stack, &dyn Resolver),
    ) -> Result<(), MapperError> {
        let put = self.put(place, (stack, resolver));
        let device = &mut self.devices[place];
        device.state = State::Suspended;
        match put {
            Ok(old) => {
                let opened = device.open(stack);
                old.into_iter().for_each(|mut old| old.abandon(PriorUse::Used, stack));
                opened
            }
            // Better than the kernel: whoever uses the device goes on with what worked.
            Err(error) if was_running || device.live.is_some() => device.open(stack).and(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// Makes the inactive table the live one; returns the old.
    fn put(
        &mut self,
        place: usize,
        (stack, resolver): (&mut Stack, &dyn Resolver),
    ) -> Result<Option<Loaded>, MapperError> {
        let device = &mut self.devices[place];
        // Over a table on which everything fails, reads return errors and never older data. It is also how users drop a volume whose disks are gone.
        let fails_all = device.inactive.as_ref().is_some_and(Loaded::fails_all);
        let replaceable = device.live.as_ref().filter(|_| !fails_all).map(|live| live.is_replaceable(stack));
        if let Some(Err(why)) = replaceable {
            let advice = "end what uses the device, then wipe the table with `wipe_table`, which drops these writes";
            let what = format!("`{}` keeps its table: {why}; {advice}", device.name);
            return Err(MapperError::new(MapperErrorKind::Busy, what));
        }
        let Some(mut new) = device.inactive.take() else { return Ok(None) };
        if !new.is_current(stack) {
            // What lies below has changed since it was loaded: once more, with what is there now.
            new.abandon(PriorUse::Unused, stack);
            new = self.build(place, new.lines, new.read_only, (stack, resolver))?;
        }
        if let Err(missing) = new.is_ready(stack) {
            let what = format!("the new table of `{}` cannot be used yet: {missing}", self.devices[place].name);
            self.devices[place].inactive = Some(new);
            return Err(MapperError::new(MapperErrorKind::NotReady, what));
        }
        let Some(table) = new.table.take() else { return Ok(None) };
        if let Some(id) = self.devices[place].device
            && let Err(why) = self.check_silence(id, &table, stack)
        {
            // Who counts on it has come since it was loaded.
            new.abandon(PriorUse::Unused, stack);
            let what = format!("the new table of `{}` does not fit: {why}", self.devices[place].name);
            return Err(MapperError::new(MapperErrorKind::Table, what));
        }
        let device = &mut self.devices[place];
        let put = match device.device {
            // Who lies above has built on these limits, and a later table has to serve them as this one does.
            Some(id) if stack.relied_on_by(id).is_some() => {
                stack.replace(id, Box::new(table.serving(stack.limits(id))))
            }
            Some(id) => stack.replace(id, Box::new(table)),
            None => stack.add(Box::new(table)).map(|id| device.device = Some(id)),
        };
        if let Err(error) = put {
            new.abandon(PriorUse::Unused, stack);
            let name = &self.devices[place].name;
            let what = format!("the new table of `{name}` does not fit: {}", self.explain(&error));
            return Err(MapperError::new(MapperErrorKind::Table, what));
        }
        let old = device.live.replace(new);
        device.past_events += 1 + old.as_ref().map_or(0, |old| old.events(stack));
        Ok(old)
    }

    /// Gives up a change that does not come to an end: the device runs on with its old table.
    pub fn cancel(&mut self, ticket: Ticket, stack: &mut Stack) {
        let is_it = |device: &&mut Mapped| matches!(device.state, State::Draining { ticket: t, .. } if t == ticket);
        let Some(device) = self.devices.iter_mut().find(is_it) else { return };
        let State::Draining { was_running, .. } = device.state else { return };
        device.state = State::Suspended;
        if was_running && let Err(error) = device.open(stack) {
            self.settle(ticket, Err(error));
        }
    }

    /// Cancels all that is under way.
    pub fn cancel_all(&mut self, stack: &mut Stack) {
        let tickets = self.devices.iter().filter_map(|device| match device.state {
            State::Draining { ticket, .. } => Some(ticket),
            _ => None,
        });
        let tickets: Vec<Ticket> = tickets.collect();
        tickets.into_iter().for_each(|ticket| self.cancel(ticket, stack));
    }

    /// What became of a verb; `None` while it is under way. To be asked once.
    pub fn outcome(&mut self, ticket: Ticket) -> Option<Result<(), MapperError>> {
        let at = self.outcomes.iter().position(|(of, _)| *of == ticket)?;
        self.outcomes.remove(at).map(|(_, result)| result)
    }

    fn settle(&mut self, ticket: Ticket, result: Result<(), MapperError>) {
        if self.outcomes.len() == MOST_OUTCOMES {
            let _ = self.outcomes.pop_front();
        }
        self.outcomes.push_back((ticket, result));
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Removes a device that nobody has open and no table maps to. `deferred`: as soon as that is so.
    ///
    /// # Errors
    /// If it is in use or a change of it is under way.
    pub fn remove(&mut self, name: &str, deferred: bool, stack: &mut Stack) -> Result<(), MapperError> {
        let place = self.find_calm(name)?;
        match self.take_out(place, stack) {
            Err(error) if error.kind == MapperErrorKind::Busy && deferred => {
                self.devices[place].is_deferred = true;
                Ok(())
            }
            result => result,
        }
    }

    fn take_out(&mut self, place: usize, stack: &mut Stack) -> Result<(), MapperError> {
        let busy = |what: String| MapperError::new(MapperErrorKind::Busy, what);
        let (name, opens) = (&self.devices[place].name, self.opens(place));
        if opens > 0 {
            return Err(busy(format!("`{name}` is in use ({opens} times): end what uses it, or remove it --deferred")));
        }
        if let Some(id) = self.devices[place].device {
            stack.remove(id).map_err(|error| busy(format!("`{name}` is in use: {error}")))?;
        }
        let device = self.devices.remove(place);
        self.index.remove(place, &device);
        if matches!(device.state, State::Running) {
            // Its targets may have something to bring to an end, and stay until that is done.
            let parts = device.live.iter().flat_map(|live| &live.parts);
            parts.for_each(|part| stack.tell(*part, Event::Suspend { push_back: false }));
        }
        device.live.into_iter().for_each(|mut live| live.abandon(PriorUse::Used, stack));
        device.inactive.into_iter().for_each(|mut inactive| inactive.abandon(PriorUse::Unused, stack));
        Ok(())
    }

    fn remove_deferred(&mut self, stack: &mut Stack) {
        for place in (0..self.devices.len()).rev() {
            let device = &self.devices[place];
            if device.is_deferred && !matches!(device.state, State::Draining { .. }) {
                // Still in use: next time.
                let _ = self.take_out(place, stack);
            }
        }
    }

    /// Gives a device another name.
    ///
    /// # Errors
    /// If the name is none or taken, or tables name the device.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), MapperError> {
        let place = self.find(name)?;
        mapped::check_name(new)?;
        if self.index.place(new).is_some() {
            let what = format!("`{name}` cannot become `{new}`: a device of that name exists");
            return Err(MapperError::new(MapperErrorKind::Exists, what));
        }
        if let Some(user) = self.user_of(place) {
            let what = format!("`{name}` cannot be renamed while the table of `{user}` names it");
            return Err(MapperError::new(MapperErrorKind::Busy, what));
        }
        self.index.rename(&self.devices[place].name, new);
        self.devices[place].name = new.to_string();
        Ok(())
    }

    /// Gives a device a UUID if it has none.
    ///
    /// # Errors
    /// If it has one, or that is none or taken.
    pub fn set_uuid(&mut self, name: &str, uuid: &str) -> Result<(), MapperError> {
        let place = self.find(name)?;
        mapped::check_uuid(uuid)?;
        let taken = self.index.has_uuid(uuid);
        if taken || uuid.is_empty() || !self.devices[place].uuid.is_empty() {
            let what = format!("`{name}` cannot get the UUID `{uuid}`: it has one already, or it is empty or taken");
            return Err(MapperError::new(MapperErrorKind::Exists, what));
        }
        self.index.add_uuid(place, uuid);
        self.devices[place].uuid = uuid.to_string();
        Ok(())
    }

    /// Loads a table of one line on which everything fails (`dmsetup wipe_table`); to be resumed.
    ///
    /// # Errors
    /// If there is no such device or it has no size.
    pub fn load_error(&mut self, name: &str, on: (&mut Stack, &dyn Resolver)) -> Result<(), MapperError> {
        let place = self.find(name)?;
        let sectors = self.devices[place].sectors();
        let lines = parse_table(&format!("0 {sectors} error")).map_err(|e| self.devices[place].bad_table(&e))?;
        self.load(name, lines, false, on)
    }

    /// Notes that somebody outside of the stack uses a device. It cannot be removed until [`Mapper::close`].
    ///
    /// # Errors
    /// If there is no such device or it has no table yet.
    pub fn open(&mut self, name: &str) -> Result<DeviceId, MapperError> {
        let place = self.find(name)?;
        let device = &mut self.devices[place];
        let id = device.device.ok_or_else(|| device.no_table())?;
        device.opened += 1;
        Ok(id)
    }

    /// Takes an [`Mapper::open`] back.
    pub fn close(&mut self, device: DeviceId) {
        let found = self.devices.iter_mut().find(|mapped| mapped.device == Some(device));
        found.into_iter().for_each(|mapped| mapped.opened = mapped.opened.saturating_sub(1));
    }

    /// Tells the target that owns `sector` something in words; returns what it answers. Words that begin with `@` are for
    /// the device itself: its statistics, see [`stats`], and `@cancel_deferred_remove`. Without a live table the target is one
    /// of the inactive table: it may need what it is told to be resumed at all.
    ///
    /// # Errors
    /// If there is no such target, or it does not obey.
    pub fn message(
        &mut self,
        name: &str,
        sector: u64,
        words: &[&str],
        (stack, now): (&mut Stack, Instant),
    ) -> Result<String, MapperError> {
        let place = self.find(name)?;
        if words.first().is_some_and(|word| word.starts_with('@')) {
            return self.message_itself(place, words, (stack, now));
        }
        let device = &self.devices[place];
        let loaded = device.tables().next().ok_or_else(|| device.no_table())?;
        let (line, target) = loaded.target_at(sector).ok_or_else(|| {
            let what = format!("`{name}` has no sector {sector}: it ends at {}", device.sectors());
            MapperError::new(MapperErrorKind::Invalid, what)
        })?;
        let fail = |what: String| {
            let kind = loaded.lines[line].kind.name;
            MapperError::new(MapperErrorKind::Invalid, format!("{kind} target of `{name}`: {what}"))
        };
        let target = target.ok_or_else(|| fail("it takes no messages".to_string()))?;
        stack.message(target, words).map_err(|error| fail(error.0))
    }

    /// The number of devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether there is no device.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Why a table does not go into its place, with names where the stack has numbers.
    fn explain(&self, error: &StackError) -> String {
        let name = |id: DeviceId| {
            let owner = self.owner_of(id).map(|(name, _)| name);
            self.name_of(id).or(owner).map_or_else(|| format!("device {}", id.0), |name| format!("`{name}`"))
        };
        match error {
            StackError::Loop(id) => format!("it leads back to {}: a table cannot lie on itself", name(*id)),
            StackError::Serves { above, what } => format!("{} lies on it and relies on it: {what}", name(*above)),
            other => other.to_string(),
        }
    }

    /// The place of the device with this name or UUID.
    fn find(&self, name: &str) -> Result<usize, MapperError> {
        self.index.place(name).ok_or_else(|| {
            let known: Vec<&str> = self.devices.iter().map(|device| device.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            let what = format!("there is no mapped device `{name}`; there are: {known}");
            MapperError::new(MapperErrorKind::Unknown, what)
        })
    }

    /// The same if no change of it is under way.
    fn find_calm(&self, name: &str) -> Result<usize, MapperError> {
        let place = self.find(name)?;
        if matches!(self.devices[place].state, State::Draining { .. }) {
            let what = format!("`{name}` is being suspended or resumed at the moment: try again later");
            return Err(MapperError::new(MapperErrorKind::Busy, what));
        }
        Ok(place)
    }

    /// How many use a device: tables, live and inactive, and those outside.
    fn opens(&self, place: usize) -> u32 {
        let Some(id) = self.devices[place].device else { return self.devices[place].opened };
        let tables = self.devices.iter().flat_map(Mapped::tables).filter(|table| table.uses(id)).count();
        self.devices[place].opened + tables as u32
    }

    /// How many tables map to each device of the stack.
    fn uses(&self) -> BTreeMap<DeviceId, u32> {
        let mut uses = BTreeMap::new();
        let below = self.devices.iter().flat_map(Mapped::tables).flat_map(Loaded::below);
        below.for_each(|id| *uses.entry(id).or_default() += 1);
        uses
    }

    fn user_of(&self, place: usize) -> Option<&str> {
        let id = self.devices[place].device?;
        self.devices
            .iter()
            .find(|device| device.tables().any(|table| table.uses(id)))
            .map(|device| device.name.as_str())
    }
}
