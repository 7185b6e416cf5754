//! The operator of tables: loads, swaps, suspends and removes mapped devices while hosts use them, and knows at every moment
//! what hosts may see of that.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use super::base::some;
use super::door::{Piece, one};
use super::layout::Layouts;
use super::ledger::{Behind, Ledger, Shared};
use super::lines::{Does, LOG, Line, Mood, draw_table, draw_wrong};
use crate::model::Rule;
use crate::world::{Actor, Io, World};
use shingle_core::block::{DeviceId, Stack};
use shingle_core::dm::parse_table;
use shingle_core::mapper::{Mapper, MapperError, MapperErrorKind, StateName, Ticket};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

/// How long a device may take to drain.
const DRAIN: Duration = Duration::from_millis(30_000);
/// How many tables it tries when it has to have one.
const MOST_TRIES: usize = 30;
/// A device that no host uses.
const SPARE: &str = "spare";

/// What an operator can do; with how often it does it.
const VERBS: [(&str, u64); 10] = [
    ("swap", 12),
    ("wipe", 1),
    ("suspend", 3),
    ("load", 2),
    ("clear", 2),
    ("wrong table", 3),
    ("message", 2),
    ("query", 1),
    ("spare", 2),
    ("observe", 1),
];

/// Bugs are planted here: called with a device when a change of it has begun (false), and when it is suspended (true).
pub type Meddle = fn(&mut Stack, DeviceId, bool);

/// How far a device is; since when it lets nobody in.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Live,
    /// A table is to go in.
    Swapping(Ticket, Instant),
    /// It is to be suspended.
    Stopping(Ticket, Instant),
    Stopped(Instant),
}

/// A mapped device that hosts use.
struct Device {
    id: DeviceId,
    phase: Phase,
    live: Vec<Line>,
    /// What is loaded and not in use.
    inactive: Option<Vec<Line>>,
}

/// The mapped devices of a world.
pub(super) struct Tables {
    mapper: Mapper,
    layouts: Rc<Layouts>,
    /// Where disks are, or what lies on them.
    disks: Vec<DeviceId>,
    devices: Vec<Device>,
}

impl Tables {
    /// Makes all devices of a layout, with tables that do nothing. `disks` are what they lie on, and behind these the log.
    pub fn build(world: &mut World, layouts: Rc<Layouts>, disks: Vec<DeviceId>, rng: &mut Rng) -> Result<Self, String> {
        let mut tables = Self { mapper: Mapper::new(), layouts: layouts.clone(), disks, devices: Vec::new() };
        for (number, layout) in layouts.devices.iter().enumerate() {
            tables.mapper.create(&layout.name, "").map_err(|error| error.to_string())?;
            let mut tries = 0;
            let (id, live) = loop {
                let (text, live) = draw_table(&layouts, number, Mood::Calm, rng);
                match tables.make(world, &layout.name, &text) {
                    Ok(id) => break (id, live),
                    Err(error) if is_too_deep(&error) && tries < MOST_TRIES => tries += 1,
                    Err(error) => return Err(format!("{}: {error}\n{text}", layout.name)),
                }
            };
            tables.devices.push(Device { id, phase: Phase::Live, live, inactive: None });
        }
        Ok(tables)
    }

    fn make(&mut self, world: &mut World, name: &str, text: &str) -> Result<DeviceId, MapperError> {
        self.load(&mut world.stack, name, text)?;
        let ticket = self.mapper.resume(name, false, &mut world.stack)?;
        // A plug of the table first asks its disk for zones.
        let mut goes_on = true;
        while self.mapper.outcome(ticket).transpose()?.is_none() {
            if !goes_on {
                let what = format!("{name} does not come up");
                return Err(MapperError::new(MapperErrorKind::NotReady, what));
            }
            goes_on = world.pass_time();
            let now = world.now();
            self.poll(&mut world.stack, now);
        }
        self.mapper.device(name)
    }

    /// The places of the devices, in their order.
    pub fn ids(&self) -> impl Iterator<Item = DeviceId> {
        self.devices.iter().map(|device| device.id)
    }

    fn name(&self, device: usize) -> &str {
        &self.layouts.devices[device].name
    }

    fn load(&mut self, stack: &mut Stack, name: &str, text: &str) -> Result<(), MapperError> {
        let lines = parse_table(text).map_err(|error| MapperError {
            table: Some(error.clone()),
            ..MapperError::new(MapperErrorKind::Table, error.to_string())
        })?;
        let (layouts, disks) = (self.layouts.clone(), self.disks.clone());
        self.mapper.load(name, lines, false, (stack, &move |name: &str| find_disk(&layouts, &disks, name)))
    }

    fn poll(&mut self, stack: &mut Stack, now: Instant) {
        let (layouts, disks) = (&self.layouts, &self.disks);
        self.mapper.poll(now, (stack, &|name: &str| find_disk(layouts, disks, name)));
    }

    /// What every door of the world has behind it: those of disks, then those of mapped devices.
    pub fn behind(&self) -> Vec<Behind> {
        let mut all: Vec<Behind> =
            (0..self.layouts.disks.len()).map(|disk| Behind { failing: 0, reach: 1 << disk }).collect();
        for (device, layout) in self.devices.iter().zip(&self.layouts.devices) {
            let mut now = behind(&device.live, &layout.pieces, &all);
            if let (Phase::Swapping(..), Some(next)) = (device.phase, &device.inactive) {
                let next = behind(next, &layout.pieces, &all);
                now = Behind { failing: now.failing | next.failing, reach: now.reach & next.reach };
            }
            all.push(now);
        }
        all
    }
}

fn find_disk(layouts: &Layouts, disks: &[DeviceId], name: &str) -> Result<DeviceId, Vec<String>> {
    // What lies behind the disks is the log.
    let known = |place: &usize| if *place < layouts.disks.len() { layouts.name(*place) == name } else { name == LOG };
    let place = (0..disks.len()).find(known);
    place
        .map(|place| disks[place])
        .ok_or_else(|| (0..layouts.disks.len()).map(|disk| layouts.name(disk).into()).collect())
}

/// What lies behind a table.
fn behind(lines: &[Line], pieces: &[Piece], sources: &[Behind]) -> Behind {
    let mut all = Behind::default();
    for line in lines {
        let does = line.does;
        let below = line.sources.iter().map(|source| sources[*source]);
        below.clone().for_each(|below| all.failing |= below.failing);
        if does != Does::FailsAll {
            below.for_each(|below| all.reach |= below.reach);
        }
        let touches = |piece: &&Piece| piece.start < line.start + line.len && piece.start + piece.len > line.start;
        if does != Does::Nothing {
            all.failing |= pieces.iter().filter(touches).fold(0, |zones, piece| zones | one(piece.zone));
        }
    }
    all
}

/// How the operator behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableHabits {
    /// The longest time between two things that it does.
    pub pace: Duration,
    /// Swaps after which hosts stop.
    pub swaps: Option<u64>,
    pub meddle: Option<Meddle>,
}

/// The operator.
pub(super) struct TableOperator {
    shared: Shared,
    tables: Rc<RefCell<Tables>>,
    rng: Rng,
    habits: TableHabits,
    /// What it has done so far.
    deeds: u64,
}

impl Actor for TableOperator {
    fn act(&mut self, io: &mut Io<'_>) {
        let (shared, tables) = (self.shared.clone(), self.tables.clone());
        let (ledger, tables) = (&mut *shared.borrow_mut(), &mut *tables.borrow_mut());
        ledger.log.collect_trace(io.stack);
        if ledger.is_over() {
            return;
        }
        if self.is_over(ledger) {
            self.calm_down(ledger, tables, io);
        } else {
            let total = VERBS.iter().map(|(_, weight)| weight).sum();
            let mut at = self.rng.below(total);
            let verb = VERBS.iter().find(|(_, weight)| {
                let hit = at < *weight;
                at = at.saturating_sub(*weight);
                hit
            });
            self.obey(verb.map_or("swap", |(name, _)| name), ledger, tables, io);
        }
        self.refresh(ledger, tables);
        // In a world that is slow it does not do ever more.
        self.deeds += 1;
        let pace =
            if self.habits.swaps.is_some() { self.habits.pace.0 } else { self.habits.pace.0 * (1 + self.deeds / 100) };
        io.wake_at(io.now() + Duration(1 + self.rng.below(pace)));
    }

    fn after_turn(&mut self, io: &mut Io<'_>) -> bool {
        let (shared, tables) = (self.shared.clone(), self.tables.clone());
        let (ledger, tables) = (&mut *shared.borrow_mut(), &mut *tables.borrow_mut());
        if ledger.is_over() {
            return false;
        }
        if tables.mapper.is_busy() {
            ledger.before_swaps(io.stack);
            tables.poll(io.stack, io.now());
        }
        let settled = (0..tables.devices.len()).filter(|device| self.settle(*device, ledger, tables, io)).count();
        if settled > 0 {
            self.refresh(ledger, tables);
        }
        settled > 0
    }

    fn is_done(&self) -> bool {
        let (ledger, tables) = (self.shared.borrow(), self.tables.borrow());
        let calm = |line: &Line| line.does == Does::Nothing;
        let rests = |device: &Device| matches!(device.phase, Phase::Live) && device.live.iter().all(calm);
        self.is_over(&ledger) && tables.devices.iter().all(rests)
    }
}

impl TableOperator {
    pub fn new(shared: Shared, tables: Rc<RefCell<Tables>>, rng: Rng, habits: TableHabits) -> Self {
        Self { shared, tables, rng, habits, deeds: 0 }
    }

    /// Whether hosts are done, so that it is to come to an end.
    fn is_over(&self, ledger: &Ledger) -> bool {
        ledger.log.left == 0
    }

    fn refresh(&self, ledger: &mut Ledger, tables: &Tables) {
        for (door, behind) in tables.behind().into_iter().enumerate() {
            if ledger.doors[door] != behind {
                ledger.change_door(door, behind);
            }
        }
    }

    fn obey(&mut self, verb: &'static str, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        ledger.log.note(verb);
        let device = self.rng.below(tables.devices.len() as u64) as usize;
        match verb {
            "wipe" => self.wipe(device, ledger, tables, io),
            "suspend" => self.suspend(device, ledger, tables, io),
            "load" => drop(self.load(device, Mood::Rough, ledger, tables, io)),
            "clear" => self.clear(device, ledger, tables, io),
            "wrong table" => self.load_wrong(device, ledger, tables, io),
            "message" => self.message(device, ledger, tables, io),
            "query" => query(device, ledger, tables, io),
            "spare" => self.use_spare(ledger, tables, io),
            "observe" => self.observe(device, ledger, tables, io),
            _ => self.swap(device, ledger, tables, io),
        }
    }

    /// Loads a table that maps the same; whether it was taken.
    fn load(&mut self, device: usize, mood: Mood, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) -> bool {
        // What others are to be built on has to be whole when they are.
        let is_used = io.stack.above(tables.devices[device].id).is_some();
        let is_base = tables.layouts.has_users(device) && !is_used;
        let mood = if is_base { Mood::Calm } else { mood };
        let (text, lines) = draw_table(&tables.layouts, device, mood, &mut self.rng);
        let name = tables.name(device).to_string();
        match tables.load(io.stack, &name, &text) {
            Ok(()) => {
                lines.iter().for_each(|line| ledger.log.note(line.target));
                ledger.log.trace.line(&format!("# {name} gets\n{text}"));
                tables.devices[device].inactive = Some(lines);
                true
            }
            Err(error) if may_be_refused(&error, is_used) => false,
            Err(error) => {
                ledger.log.violate(
                    Rule::Table,
                    io.now(),
                    format!("{name} does not take a table that fits: {error}\n{text}"),
                );
                false
            }
        }
    }

    fn swap(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let mood = some(&mut self.rng, &[Mood::Calm, Mood::Rough, Mood::Rough, Mood::Dead]);
        match tables.devices[device].phase {
            Phase::Swapping(ticket, _) | Phase::Stopping(ticket, _) if self.rng.chance(1, 6) => {
                self.cancel(device, ticket, ledger, tables, io);
            }
            // The newest table goes in.
            Phase::Swapping(..) if self.rng.chance(1, 4) => drop(self.load(device, mood, ledger, tables, io)),
            Phase::Swapping(..) | Phase::Stopping(..) => refuse_while_busy(device, ledger, tables, io),
            Phase::Live | Phase::Stopped(_) => {
                if self.load(device, mood, ledger, tables, io) {
                    self.resume(device, ledger, tables, io);
                }
            }
        }
    }

    /// Has the inactive table go in, or a suspended device go on.
    fn resume(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let noflush = self.rng.chance(1, 3);
        let (name, id) = (tables.name(device).to_string(), tables.devices[device].id);
        let since = match tables.devices[device].phase {
            Phase::Stopped(since) => since,
            _ => io.now(),
        };
        ledger.suspended.retain(|suspended| *suspended != id);
        match tables.mapper.resume(&name, noflush, io.stack) {
            Ok(ticket) => tables.devices[device].phase = Phase::Swapping(ticket, since),
            Err(error) => ledger.log.violate(Rule::Table, io.now(), format!("{name} is not resumed: {error}")),
        }
        self.meddle(id, false, io);
    }

    fn suspend(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let (name, noflush) = (tables.name(device).to_string(), self.rng.chance(1, 2));
        match tables.devices[device].phase {
            Phase::Stopped(_) => self.resume(device, ledger, tables, io),
            Phase::Live => match tables.mapper.suspend(&name, noflush, io.stack) {
                Ok(ticket) => {
                    tables.devices[device].phase = Phase::Stopping(ticket, io.now());
                    self.meddle(tables.devices[device].id, false, io);
                }
                Err(error) => ledger.log.violate(Rule::Table, io.now(), format!("{name} is not suspended: {error}")),
            },
            _ => refuse_while_busy(device, ledger, tables, io),
        }
    }

    /// Gives a change up; the device goes on with its old table.
    fn cancel(&mut self, device: usize, ticket: Ticket, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        ledger.log.note("cancel");
        tables.mapper.cancel(ticket, io.stack);
        let state = tables.mapper.info(tables.name(device), io.stack).map(|info| info.state);
        let phase = &mut tables.devices[device].phase;
        *phase = match (state, *phase) {
            (Ok(StateName::Active), _) => Phase::Live,
            (_, Phase::Swapping(_, since) | Phase::Stopping(_, since)) => Phase::Stopped(since),
            (_, phase) => phase,
        };
    }

    fn clear(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let name = tables.name(device).to_string();
        if let Err(error) = tables.mapper.clear(&name, io.stack) {
            ledger.log.violate(Rule::Table, io.now(), format!("{name} is not cleared: {error}"));
        }
        tables.devices[device].inactive = None;
    }

    /// Wipes a device that no other one is made of.
    fn wipe(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let Device { phase, id, .. } = &tables.devices[device];
        let is_used = io.stack.above(*id).is_some() || tables.layouts.has_users(device);
        if !is_used && matches!(phase, Phase::Live) {
            self.let_go(device, ledger, tables, io);
        }
    }

    /// A table on which everything fails and that lies on nothing, as `dmsetup wipe_table` loads it.
    fn let_go(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let (name, layouts, disks) = (tables.name(device).to_string(), tables.layouts.clone(), tables.disks.clone());
        let resolver = move |name: &str| find_disk(&layouts, &disks, name);
        match tables.mapper.load_error(&name, (io.stack, &resolver)) {
            Ok(()) => {
                let layout = &tables.layouts.devices[device];
                let (len, does) = (layout.sectors(), Does::FailsAll);
                let line = Line { start: 0, len, sources: Vec::new(), target: "error", does, messages: &[] };
                tables.devices[device].inactive = Some(Vec::from([line]));
                self.resume(device, ledger, tables, io);
            }
            Err(error) => ledger.log.violate(Rule::Table, io.now(), format!("{name} is not wiped: {error}")),
        }
    }

    /// A wrong table is refused and changes nothing.
    fn load_wrong(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let is_used = io.stack.relied_on_by(tables.devices[device].id).is_some();
        let (what, text) = draw_wrong(&tables.layouts, (device, is_used), &mut self.rng);
        ledger.log.note(what);
        let name = tables.name(device).to_string();
        let shown = |tables: &Tables, stack: &Stack| {
            [false, true].map(|inactive| tables.mapper.table(&name, inactive, true, stack).unwrap_or_default())
        };
        let before = shown(tables, io.stack);
        let error = tables.load(io.stack, &name, &text).err();
        let line = error
            .as_ref()
            .map(|error| error.table.as_ref().is_none_or(|table| text.lines().nth(table.line - 1).is_some()));
        if line != Some(true) || shown(tables, io.stack) != before {
            let what = format!("{name} got a wrong table ({what}), which ended with {error:?}\n{text}");
            ledger.log.violate(Rule::Table, io.now(), what);
        }
    }

    /// Says something to a target.
    fn message(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let Device { live, .. } = &tables.devices[device];
        let line = live[self.rng.below(live.len() as u64) as usize].clone();
        let words = if line.messages.is_empty() { "hello" } else { some(&mut self.rng, line.messages) };
        let sector = line.start + self.rng.below(line.len);
        let words: Vec<&str> = words.split(' ').collect();
        let name = tables.name(device).to_string();
        let now = io.now();
        let answer = tables.mapper.message(&name, sector, &words, (io.stack, now));
        if answer.is_ok() && line.messages.is_empty() {
            let target = line.target;
            ledger.log.violate(Rule::Table, io.now(), format!("{target} of {name} was told {words:?}: {answer:?}"));
        }
    }

    /// Statistics of a device are turned on, read, and turned off.
    fn observe(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let (name, now) = (tables.name(device).to_string(), io.now());
        let mut say = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            tables.mapper.message(&name, 0, &words, (io.stack, now))
        };
        let regions = say("@stats_list").map(|list| list.lines().count());
        // The first region has number 0, and so has the next one after it is gone.
        let said = match regions {
            Ok(0) => say(some(&mut self.rng, &["@stats_create - /4", "@stats_create - 100 1 precise_timestamps"])),
            Ok(_) => say(some(&mut self.rng, &["@stats_print 0", "@stats_clear 0", "@stats_delete 0"])),
            Err(error) => Err(error),
        };
        if let Err(error) = said {
            ledger.log.violate(Rule::Table, now, format!("{name} does not keep statistics: {error}"));
        }
    }

    /// A device that nobody uses comes and goes.
    fn use_spare(&mut self, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        let disk = self.rng.below(tables.layouts.disks.len() as u64) as usize;
        let (below, deferred) = (tables.layouts.name(disk).to_string(), self.rng.chance(1, 2));
        let Ok(info) = tables.mapper.info(SPARE, io.stack) else {
            let len = io.limits(tables.disks[disk]).capacity;
            let target = some(&mut self.rng, &["linear", "error", "zero"]);
            let place = if target == "zero" { String::new() } else { format!("{below} 0") };
            ledger.log.note(target);
            let made = tables.mapper.create(SPARE, "").and_then(|()| {
                tables.load(io.stack, SPARE, &format!("0 {len} {target} {place}"))?;
                tables.mapper.resume(SPARE, false, io.stack).map(|_| ())
            });
            if let Err(error) = made {
                ledger.log.violate(Rule::Table, io.now(), format!("there is no spare device: {error}"));
            }
            return;
        };
        match tables.mapper.remove(SPARE, deferred, io.stack) {
            Ok(()) if !deferred && tables.mapper.info(SPARE, io.stack).is_ok() => {
                ledger.log.violate(Rule::Table, io.now(), String::from("the spare device was removed and is there"));
            }
            Ok(()) => {}
            Err(error) if error.kind == MapperErrorKind::Busy && info.state != StateName::Active => {}
            Err(error) => ledger.log.violate(Rule::Table, io.now(), format!("the spare device does not go: {error}")),
        }
    }

    fn meddle(&self, device: DeviceId, is_suspended: bool, io: &mut Io<'_>) {
        if let Some(meddle) = self.habits.meddle {
            meddle(io.stack, device, is_suspended);
        }
    }

    /// Takes note of a change that has come to an end; whether one has.
    fn settle(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) -> bool {
        let (phase, name) = (tables.devices[device].phase, tables.name(device).to_string());
        let (Phase::Swapping(ticket, since) | Phase::Stopping(ticket, since)) = phase else { return false };
        let shut = io.now().since(since);
        let Some(outcome) = tables.mapper.outcome(ticket) else {
            if shut > DRAIN {
                ledger.log.violate(Rule::Stuck, io.now(), format!("{name} does not drain"));
            }
            return false;
        };
        let is_used = io.stack.above(tables.devices[device].id).is_some();
        let refused = outcome.as_ref().is_err_and(|error| may_be_refused(error, is_used));
        let Device { phase, live, inactive, id } = &mut tables.devices[device];
        match (*phase, outcome) {
            (Phase::Stopping(..), Ok(())) => {
                *phase = Phase::Stopped(since);
                ledger.suspended.push(*id);
                self.meddle(*id, true, io);
            }
            (Phase::Swapping(..), Ok(())) => {
                *phase = Phase::Live;
                if let Some(new) = inactive.take() {
                    ledger.log.trace.line(&format!("# {name} is swapped"));
                    *live = new;
                    ledger.swaps += 1;
                }
                ledger.longest_swap = ledger.longest_swap.max(shut);
                if self.habits.swaps.is_some_and(|swaps| ledger.swaps >= swaps) {
                    ledger.log.left = 0;
                }
            }
            (_, Err(_)) if refused => (*phase, *inactive) = (Phase::Live, None),
            (_, Err(error)) => ledger.log.violate(Rule::Table, io.now(), format!("{name} is not changed: {error}")),
            (Phase::Live | Phase::Stopped(_), Ok(())) => {}
        }
        true
    }

    /// Brings everything back to tables that do nothing, one device after another: what is built on one that still fails relies
    /// on limits that it is about to lose.
    fn calm_down(&mut self, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        for device in 0..tables.devices.len() {
            let Device { phase, live, .. } = &tables.devices[device];
            let is_calm = live.iter().all(|line| line.does == Does::Nothing);
            match phase {
                Phase::Live if is_calm => {}
                Phase::Live | Phase::Stopped(_) => {
                    // Other lines may have limits that are refused.
                    if !(0..MOST_TRIES).any(|_| self.load(device, Mood::Calm, ledger, tables, io)) {
                        return self.free(device, ledger, tables, io);
                    }
                    return self.resume(device, ledger, tables, io);
                }
                Phase::Swapping(..) | Phase::Stopping(..) => return,
            }
        }
    }

    /// Has the highest of those who lie on `device` let it go, also with a table that is only loaded. They rely on limits that
    /// its calm tables do not have: they were built on it while nobody was and it had a table on which everything fails, which
    /// takes more than others do.
    fn free(&mut self, device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
        if matches!(tables.devices[device].phase, Phase::Stopped(_)) {
            // What is inside of them could not come out.
            self.resume(device, ledger, tables, io);
        }
        let lies_on_something = |above: &usize| {
            let Device { live, inactive, .. } = &tables.devices[*above];
            live.iter().chain(inactive.iter().flatten()).any(|line| !line.sources.is_empty())
        };
        match tables.layouts.users(device).into_iter().rev().find(lies_on_something) {
            Some(above) if matches!(tables.devices[above].phase, Phase::Live | Phase::Stopped(_)) => {
                self.let_go(above, ledger, tables, io);
            }
            Some(_) => {}
            None => {
                let what = format!("{} does not get back to a calm table", tables.name(device));
                ledger.log.violate(Rule::Table, io.now(), what);
            }
        }
    }
}

/// Whether a table may be refused that maps what it should: a device on which others lie keeps the limits that they know.
fn may_be_refused(error: &MapperError, is_used: bool) -> bool {
    let keeps = error.kind == MapperErrorKind::Table && error.message.contains("relies on") && is_used;
    keeps || is_too_deep(error)
}

/// Whether its lines are so many devices that a bio could not hold all that want it back.
fn is_too_deep(error: &MapperError) -> bool {
    error.kind == MapperErrorKind::Table && error.message.contains("layers on top of each other")
}

/// While a device changes it takes no other change.
fn refuse_while_busy(device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
    let name = tables.name(device).to_string();
    let kinds = [
        tables.mapper.suspend(&name, false, io.stack).err().map(|error| error.kind),
        tables.mapper.resume(&name, false, io.stack).err().map(|error| error.kind),
        tables.mapper.remove(&name, false, io.stack).err().map(|error| error.kind),
    ];
    if kinds != [Some(MapperErrorKind::Busy); 3] {
        ledger.log.violate(Rule::Table, io.now(), format!("{name} changes and takes another change: {kinds:?}"));
    }
}

/// Looks at a device: what is shown agrees with what was done, and a table that is shown can be loaded again.
fn query(device: usize, ledger: &mut Ledger, tables: &mut Tables, io: &mut Io<'_>) {
    let (name, Device { phase, live, inactive, id }) = (tables.name(device), &tables.devices[device]);
    let states = match phase {
        Phase::Live => StateName::Active,
        Phase::Stopped(_) => StateName::Suspended,
        Phase::Swapping(..) | Phase::Stopping(..) => StateName::Suspending,
    };
    let info = tables.mapper.info(name, io.stack);
    let agrees = info.as_ref().is_ok_and(|info| {
        let known = (info.state, info.targets as usize, info.has_inactive, info.device);
        known == (states, live.len(), inactive.is_some(), Some(*id))
    });
    let text = tables.mapper.table(name, false, true, io.stack).unwrap_or_default();
    let again = parse_table(&text).map(|lines| {
        let view = shingle_core::dm::View { shows_keys: true, device: None };
        let mut text = String::new();
        for line in lines {
            let _ = line.write(&view, &mut text);
            text.push('\n');
        }
        text
    });
    let _ = (tables.mapper.status(name, false, io.stack), tables.mapper.deps(name));
    if !agrees || again.as_ref() != Ok(&text) {
        let what = format!("{name} is {phase:?} with {} lines, and shows {info:?}, {text:?}, {again:?}", live.len());
        ledger.log.violate(Rule::Table, io.now(), what);
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::super::layout::{Form, Layout, Run};
    use super::super::{Profile, Scenario, SwarmOptions};
    use super::*;
    use crate::disk::CrashConfig;

    /// Device `m1` on all of `m0`, and that on all of a regular disk but its first block: there `log-writes` could stand,
    /// which takes discards by itself.
    fn two_on_a_disk() -> Layouts {
        let mut all = Layouts::of_disk(&CrashConfig::regular(64).unwrap());
        let pieces = Vec::from([Piece { len: 56, offset: 8, ..all.disk_pieces[0][0] }]);
        for (source, from) in [(0, 8), (1, 0)] {
            let (name, runs) = (format!("m{source}"), Vec::from([Run { source, from, len: 56 }]));
            all.devices.push(Layout { name, form: Form::Row, runs, pieces: pieces.clone(), zoned: false, unit: 8 });
        }
        all
    }

    /// Has `m0` get a table on which everything fails while nobody lies on it, and `m1` one over that, which is perhaps only
    /// loaded; then hosts are done.
    struct Builder {
        operator: TableOperator,
        resumes: bool,
        step: u32,
    }

    impl Actor for Builder {
        fn act(&mut self, io: &mut Io<'_>) {
            if self.step == 3 {
                return self.operator.act(io);
            }
            let (shared, tables) = (self.operator.shared.clone(), self.operator.tables.clone());
            let (ledger, tables) = (&mut *shared.borrow_mut(), &mut *tables.borrow_mut());
            match self.step {
                0 => {
                    assert!(self.operator.load(0, Mood::Dead, ledger, tables, io));
                    self.operator.wipe(1, ledger, tables, io);
                }
                1 => self.operator.resume(0, ledger, tables, io),
                _ => {
                    assert!(self.operator.load(1, Mood::Calm, ledger, tables, io));
                    if self.resumes {
                        self.operator.resume(1, ledger, tables, io);
                    }
                    ledger.log.left = 0;
                }
            }
            self.step += 1;
            io.wake_at(io.now() + Duration::from_millis(1));
        }

        fn after_turn(&mut self, io: &mut Io<'_>) -> bool {
            self.operator.after_turn(io)
        }

        fn is_done(&self) -> bool {
            self.step == 3 && self.operator.is_done()
        }
    }

    /// Runs a builder, and returns which discards both devices take in the end.
    fn build_and_calm_down(seed: u64, resumes: bool) -> [Option<u32>; 2] {
        let options = SwarmOptions { profile: Profile::Mapper, ..SwarmOptions::default() };
        let mut run = super::super::Run::new(0, &options);
        run.scenario = Scenario { layouts: two_on_a_disk(), ..run.scenario };
        let (mut world, _, tables) = run.build(None).unwrap();
        let habits = TableHabits { pace: Duration::from_millis(1), swaps: None, meddle: None };
        let operator = TableOperator::new(run.shared.clone(), tables.unwrap(), Rng::new(seed), habits);
        let builder = world.add(Box::new(Builder { operator, resumes, step: 0 }));
        run.watch(&mut world).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        let tables = world.actor::<Builder>(builder).unwrap().operator.tables.clone();
        [0, 1].map(|device: usize| world.stack.limits(tables.borrow().devices[device].id).max_discard)
    }

    /// Tables that fail take discards, calm ones on this disk none.
    #[test]
    fn a_device_that_others_were_built_on_while_it_failed_gets_back_to_a_calm_table() {
        (1..10).for_each(|seed| assert_eq!(build_and_calm_down(seed, true), [None; 2], "seed {seed}"));
    }

    #[test]
    fn so_does_one_below_a_table_that_was_only_loaded_and_whose_device_lies_on_nothing() {
        (1..10).for_each(|seed| assert_eq!(build_and_calm_down(seed, false), [None; 2], "seed {seed}"));
    }
}
