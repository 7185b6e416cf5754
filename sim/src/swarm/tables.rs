//! The operator of tables: loads, swaps, suspends and removes mapped devices while hosts use them, and knows at every moment
//! what hosts may see of that.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use super::agenda::Agenda;
use super::door::{Piece, one};
use super::layout::Layouts;
use super::ledger::{Behind, Ledger, Shared};
use super::lines::{Does, LOG, Line, Mood, choose_table, choose_wrong};
use crate::choices::{Choices, choices_by_name};
use crate::model::Rule;
use crate::world::{Actor, Io, World};
use shingle_core::block::{DeviceId, Stack};
use shingle_core::dm::parse_table;
use shingle_core::mapper::{Mapper, MapperError, MapperErrorKind, StateName, Ticket};
use shingle_core::time::{Duration, Instant};

/// How long a device may take to drain.
const DRAIN: Duration = Duration::from_millis(30_000);
/// How many tables it tries when it has to have one.
const MAX_TRIES: u64 = 30;
/// A device that no host uses.
const SPARE: &str = "spare";

choices_by_name!(Mood);

/// What an operator can do: its name, and how often it does it.
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

/// How something ended; the error is what is wrong with the mapper.
type Outcome = Result<(), String>;

/// The operator's turn: what it has before it.
struct Turn<'a, 'b> {
    ledger: &'a mut Ledger,
    tables: &'a mut Tables,
    io: &'a mut Io<'b>,
}

impl Turn<'_, '_> {
    fn judge(&mut self, outcome: Outcome) {
        outcome.unwrap_or_else(|what| self.ledger.log.violate(Rule::Table, self.io.now(), what));
    }

    /// Doors have behind them what the tables now say.
    fn refresh(&mut self) {
        for (door, behind) in self.tables.behind().into_iter().enumerate() {
            if self.ledger.doors[door] != behind {
                self.ledger.change_door(door, behind);
            }
        }
    }
}

/// Bugs are planted here: called with a device when a change of it has begun (false), and when it is suspended (true).
pub type Meddle = fn(&mut Stack, DeviceId, bool);

/// How far a device is; since when it lets nobody in.
#[derive(Clone, Copy, Debug)]
enum DeviceState {
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
    state: DeviceState,
    live: Vec<Line>,
    /// What is loaded and not in use.
    inactive: Option<Vec<Line>>,
}

impl Device {
    fn is_calm(&self) -> bool {
        self.live.iter().all(|line| line.does == Does::Nothing)
    }
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
    pub fn build(
        world: &mut World,
        layouts: Rc<Layouts>,
        disks: Vec<DeviceId>,
        choices: &mut Choices,
    ) -> Result<Self, String> {
        let mut tables = Self { mapper: Mapper::new(), layouts: layouts.clone(), disks, devices: Vec::new() };
        for (number, layout) in layouts.devices.iter().enumerate() {
            tables.mapper.create(&layout.name, "").map_err(|error| error.to_string())?;
            let mut tries = 0;
            let (id, live) = loop {
                let table = |choices: &mut Choices| {
                    choices.scoped("table", tries, |choices| choose_table(&layouts, number, Mood::Calm, choices))
                };
                let (text, live) = choices.scoped("device", number as u64 + 1, table);
                match tables.make(world, &layout.name, &text) {
                    Ok(id) => break (id, live),
                    Err(error) if is_too_deep(&error) && tries < MAX_TRIES => tries += 1,
                    Err(error) => return Err(format!("{}: {error}\n{text}", layout.name)),
                }
            };
            tables.devices.push(Device { id, state: DeviceState::Live, live, inactive: None });
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

    fn name(&self, device: usize) -> String {
        self.layouts.devices[device].name.clone()
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
            if let (DeviceState::Swapping(..), Some(next)) = (device.state, &device.inactive) {
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
    agenda: Agenda,
    habits: TableHabits,
    /// What it has done so far.
    deeds: u64,
}

impl Actor for TableOperator {
    fn act(&mut self, io: &mut Io<'_>) {
        let (shared, tables) = (self.shared.clone(), self.tables.clone());
        let turn = &mut Turn { ledger: &mut shared.borrow_mut(), tables: &mut tables.borrow_mut(), io };
        turn.ledger.log.collect_trace(turn.io.stack);
        if turn.ledger.is_over() {
            return;
        }
        let (begins, is_over) = (self.agenda.begins(turn.io.now()), turn.ledger.log.left == 0);
        let outcome = match (is_over || self.agenda.has_ended(), begins) {
            (true, _) => self.calm_down(turn),
            (false, true) => self.obey(turn),
            (false, false) => Ok(()),
        };
        turn.judge(outcome);
        turn.refresh();
        // In a world that is slow it does not do ever more.
        self.deeds += 1;
        let pace =
            if self.habits.swaps.is_some() { self.habits.pace.0 } else { self.habits.pace.0 * (1 + self.deeds / 100) };
        self.agenda.go_on(turn.io, |rng| Duration(1 + rng.below(pace)));
    }

    fn after_turn(&mut self, io: &mut Io<'_>) -> bool {
        let (shared, tables) = (self.shared.clone(), self.tables.clone());
        let turn = &mut Turn { ledger: &mut shared.borrow_mut(), tables: &mut tables.borrow_mut(), io };
        if turn.ledger.is_over() {
            return false;
        }
        if turn.tables.mapper.is_busy() {
            turn.ledger.before_swaps(turn.io.stack);
            turn.tables.poll(turn.io.stack, turn.io.now());
        }
        let settled = (0..turn.tables.devices.len()).filter(|device| self.settle(*device, turn)).count();
        if settled > 0 {
            turn.refresh();
        }
        settled > 0
    }

    fn is_done(&self) -> bool {
        let (ledger, tables) = (self.shared.borrow(), self.tables.borrow());
        let rests = |device: &Device| matches!(device.state, DeviceState::Live) && device.is_calm();
        ledger.log.left == 0 && tables.devices.iter().all(rests)
    }
}

impl TableOperator {
    pub fn new(shared: Shared, tables: Rc<RefCell<Tables>>, choices: Choices, habits: TableHabits) -> Self {
        Self { shared, tables, agenda: Agenda::starting(choices), habits, deeds: 0 }
    }

    fn obey(&mut self, turn: &mut Turn<'_, '_>) -> Outcome {
        let choices = &mut self.agenda.choices;
        let verb = choices.weighted("verb", &VERBS.map(|(name, _)| name), &VERBS.map(|(_, weight)| weight));
        turn.ledger.log.note(verb);
        let device = choices.below("device", turn.tables.devices.len() as u64) as usize;
        match verb {
            "swap" => self.swap(device, turn),
            "wipe" => self.wipe(device, turn),
            "suspend" => self.suspend(device, turn),
            "load" => self.load(device, Mood::Rough, turn).map(drop),
            "clear" => clear(device, turn),
            "wrong table" => self.load_wrong(device, turn),
            "message" => self.message(device, turn),
            "query" => query(device, turn),
            "spare" => self.use_spare(turn),
            _ => self.observe(device, turn),
        }
    }

    /// Loads a table that maps the same; whether it was taken.
    fn load(&mut self, device: usize, mood: Mood, turn: &mut Turn<'_, '_>) -> Result<bool, String> {
        self.load_in(("table", 0), device, mood, turn)
    }

    /// The same, with its table in a scope of the deed.
    fn load_in(
        &mut self,
        (scope, number): (&'static str, u64),
        device: usize,
        mood: Mood,
        turn: &mut Turn<'_, '_>,
    ) -> Result<bool, String> {
        let Turn { ledger, tables, io } = turn;
        // What others are to be built on has to be whole when they are.
        let is_used = io.stack.above(tables.devices[device].id).is_some();
        let is_base = tables.layouts.has_users(device) && !is_used;
        let mood = if is_base { Mood::Calm } else { mood };
        let table = |choices: &mut Choices| choose_table(&tables.layouts, device, mood, choices);
        let (text, lines) = self.agenda.choices.scoped(scope, number, table);
        let name = tables.name(device);
        match tables.load(io.stack, &name, &text) {
            Ok(()) => {
                lines.iter().for_each(|line| ledger.log.note(line.target));
                ledger.log.trace.line(&format!("# {name} gets\n{text}"));
                tables.devices[device].inactive = Some(lines);
                Ok(true)
            }
            Err(error) if may_be_refused(&error, is_used) => Ok(false),
            Err(error) => Err(format!("{name} does not take a table that fits: {error}\n{text}")),
        }
    }

    fn swap(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        let mood = self.agenda.choices.one("mood", &[Mood::Calm, Mood::Rough, Mood::Rough, Mood::Dead]);
        let state = turn.tables.devices[device].state;
        match state {
            DeviceState::Swapping(ticket, _) | DeviceState::Stopping(ticket, _)
                if self.agenda.choices.chance("cancels", 1, 6) =>
            {
                cancel(device, ticket, turn);
                Ok(())
            }
            // The newest table goes in.
            DeviceState::Swapping(..) if self.agenda.choices.chance("loads-newer", 1, 4) => {
                self.load(device, mood, turn).map(drop)
            }
            DeviceState::Swapping(..) | DeviceState::Stopping(..) => refuse_while_busy(device, turn),
            DeviceState::Live | DeviceState::Stopped(_) if self.load(device, mood, turn)? => self.resume(device, turn),
            DeviceState::Live | DeviceState::Stopped(_) => Ok(()),
        }
    }

    /// Has the inactive table go in, or a suspended device go on.
    fn resume(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        let noflush = self.agenda.choices.chance("resume-noflush", 1, 3);
        let (name, Device { id, state, .. }) = (turn.tables.name(device), &mut turn.tables.devices[device]);
        let since = if let DeviceState::Stopped(since) = state { *since } else { turn.io.now() };
        turn.ledger.suspended.retain(|suspended| suspended != id);
        let resumed = turn.tables.mapper.resume(&name, noflush, turn.io.stack);
        *state = DeviceState::Swapping(resumed.map_err(|error| format!("{name} is not resumed: {error}"))?, since);
        self.meddle(*id, false, turn.io);
        Ok(())
    }

    fn suspend(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        let (name, noflush) = (turn.tables.name(device), self.agenda.choices.chance("noflush", 1, 2));
        let Device { id, state, .. } = &mut turn.tables.devices[device];
        match state {
            DeviceState::Stopped(_) => self.resume(device, turn),
            DeviceState::Live => {
                let begun = turn.tables.mapper.suspend(&name, noflush, turn.io.stack);
                let ticket = begun.map_err(|error| format!("{name} is not suspended: {error}"))?;
                *state = DeviceState::Stopping(ticket, turn.io.now());
                self.meddle(*id, false, turn.io);
                Ok(())
            }
            _ => refuse_while_busy(device, turn),
        }
    }

    /// Wipes a device that no other one is made of.
    fn wipe(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        let Device { state, id, .. } = &turn.tables.devices[device];
        let is_used = turn.io.stack.above(*id).is_some() || turn.tables.layouts.has_users(device);
        if is_used || !matches!(state, DeviceState::Live) { Ok(()) } else { self.let_go(device, turn) }
    }

    /// A table on which everything fails and that lies on nothing, as `dmsetup wipe_table` loads it.
    fn let_go(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        let tables = &mut *turn.tables;
        let (name, layouts, disks) = (tables.name(device), tables.layouts.clone(), tables.disks.clone());
        let resolver = move |name: &str| find_disk(&layouts, &disks, name);
        let loaded = tables.mapper.load_error(&name, (turn.io.stack, &resolver));
        loaded.map_err(|error| format!("{name} is not wiped: {error}"))?;
        let (len, does) = (tables.layouts.devices[device].sectors(), Does::FailsAll);
        let line = Line { start: 0, len, sources: Vec::new(), target: "error", does, messages: "" };
        tables.devices[device].inactive = Some(Vec::from([line]));
        self.resume(device, turn)
    }

    /// A wrong table is refused and changes nothing.
    fn load_wrong(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        let Turn { ledger, tables, io } = turn;
        let is_used = io.stack.relied_on_by(tables.devices[device].id).is_some();
        let (what, text) = choose_wrong(&tables.layouts, (device, is_used), &mut self.agenda.choices);
        ledger.log.note(what);
        let name = tables.name(device);
        let shown = |tables: &Tables, stack: &Stack| {
            [false, true].map(|inactive| tables.mapper.table(&name, inactive, true, stack).unwrap_or_default())
        };
        let before = shown(tables, io.stack);
        let error = tables.load(io.stack, &name, &text).err();
        let has_line =
            |error: &MapperError| error.table.as_ref().is_none_or(|table| text.lines().nth(table.line - 1).is_some());
        if error.as_ref().is_some_and(has_line) && shown(tables, io.stack) == before {
            return Ok(());
        }
        Err(format!("{name} got a wrong table ({what}), which ended with {error:?}\n{text}"))
    }

    /// Says something to a target.
    fn message(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        let (Turn { tables, io, .. }, choices) = (turn, &mut self.agenda.choices);
        let lines = &tables.devices[device].live;
        let line = lines[choices.below("line", lines.len() as u64) as usize].clone();
        let messages: Vec<&str> = line.messages.split(", ").collect();
        let words = if line.messages.is_empty() { "hello" } else { choices.one("message", &messages) };
        let sector = line.start + choices.below("sector", line.len);
        let words: Vec<&str> = words.split(' ').collect();
        let (name, now) = (tables.name(device), io.now());
        match tables.mapper.message(&name, sector, &words, (io.stack, now)) {
            answer @ Ok(_) if line.messages.is_empty() => {
                Err(format!("{} of {name} was told {words:?}: {answer:?}", line.target))
            }
            _ => Ok(()),
        }
    }

    /// Statistics of a device are turned on, read, and turned off.
    fn observe(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        let (name, now, choices) = (turn.tables.name(device), turn.io.now(), &mut self.agenda.choices);
        let mut say = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            turn.tables.mapper.message(&name, 0, &words, (turn.io.stack, now))
        };
        let regions = say("@stats_list").map(|list| list.lines().count());
        // The first region has number 0, and so has the next one after it is gone.
        let said = match regions {
            Ok(0) => say(choices.one("create", &["@stats_create - /4", "@stats_create - 100 1 precise_timestamps"])),
            Ok(_) => say(choices.one("use", &["@stats_print 0", "@stats_clear 0", "@stats_delete 0"])),
            Err(error) => Err(error),
        };
        said.map(drop).map_err(|error| format!("{name} does not keep statistics: {error}"))
    }

    /// A device that nobody uses comes and goes.
    fn use_spare(&mut self, turn: &mut Turn<'_, '_>) -> Outcome {
        let (Turn { ledger, tables, io }, choices) = (turn, &mut self.agenda.choices);
        let disk = choices.below("disk", tables.layouts.disks.len() as u64) as usize;
        let (below, deferred) = (tables.layouts.name(disk).to_string(), choices.chance("deferred", 1, 2));
        let Ok(info) = tables.mapper.info(SPARE, io.stack) else {
            let len = io.limits(tables.disks[disk]).capacity;
            let target = choices.one("target", &["linear", "error", "zero"]);
            let place = if target == "zero" { String::new() } else { format!("{below} 0") };
            ledger.log.note(target);
            let made = tables.mapper.create(SPARE, "").and_then(|()| {
                tables.load(io.stack, SPARE, &format!("0 {len} {target} {place}"))?;
                tables.mapper.resume(SPARE, false, io.stack).map(drop)
            });
            return made.map_err(|error| format!("there is no spare device: {error}"));
        };
        match tables.mapper.remove(SPARE, deferred, io.stack) {
            Ok(()) if !deferred && tables.mapper.info(SPARE, io.stack).is_ok() => {
                Err(String::from("the spare device was removed and is there"))
            }
            Err(error) if error.kind == MapperErrorKind::Busy && info.state != StateName::Active => Ok(()),
            removed => removed.map_err(|error| format!("the spare device does not go: {error}")),
        }
    }

    fn meddle(&self, device: DeviceId, is_suspended: bool, io: &mut Io<'_>) {
        if let Some(meddle) = self.habits.meddle {
            meddle(io.stack, device, is_suspended);
        }
    }

    /// Takes note of a change that has come to an end; whether one has.
    fn settle(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> bool {
        let Turn { ledger, tables, io } = turn;
        let (name, Device { state, live, inactive, id }) = (tables.name(device), &mut tables.devices[device]);
        let (DeviceState::Swapping(ticket, since) | DeviceState::Stopping(ticket, since)) = *state else {
            return false;
        };
        let shut = io.now().since(since);
        let Some(outcome) = tables.mapper.outcome(ticket) else {
            if shut > DRAIN {
                ledger.log.violate(Rule::Stuck, io.now(), format!("{name} does not drain"));
            }
            return false;
        };
        let is_used = io.stack.above(*id).is_some();
        match (*state, outcome) {
            (DeviceState::Stopping(..), Ok(())) => {
                *state = DeviceState::Stopped(since);
                ledger.suspended.push(*id);
                self.meddle(*id, true, io);
            }
            (_, Ok(())) => {
                *state = DeviceState::Live;
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
            (_, Err(error)) if may_be_refused(&error, is_used) => (*state, *inactive) = (DeviceState::Live, None),
            (_, Err(error)) => turn.judge(Err(format!("{name} is not changed: {error}"))),
        }
        true
    }

    /// Brings everything back to tables that do nothing, one device after another: what is built on one that still fails relies
    /// on limits that it is about to lose.
    fn calm_down(&mut self, turn: &mut Turn<'_, '_>) -> Outcome {
        let is_calm = |device: &Device| matches!(device.state, DeviceState::Live) && device.is_calm();
        let Some(device) = turn.tables.devices.iter().position(|device| !is_calm(device)) else { return Ok(()) };
        if matches!(turn.tables.devices[device].state, DeviceState::Swapping(..) | DeviceState::Stopping(..)) {
            return Ok(());
        }
        for number in 0..MAX_TRIES {
            // Other lines may have limits that are refused.
            if self.load_in(("calm-table", number), device, Mood::Calm, turn)? {
                return self.resume(device, turn);
            }
        }
        self.free(device, turn)
    }

    /// Has the highest of those who lie on `device` let it go, also with a table that is only loaded. They rely on limits that
    /// its calm tables do not have: they were built on it while nobody was and it had a table on which everything fails, which
    /// takes more than others do.
    fn free(&mut self, device: usize, turn: &mut Turn<'_, '_>) -> Outcome {
        if matches!(turn.tables.devices[device].state, DeviceState::Stopped(_)) {
            // What is inside of them could not come out.
            self.resume(device, turn)?;
        }
        let lies_on_something = |above: &usize| {
            let Device { live, inactive, .. } = &turn.tables.devices[*above];
            live.iter().chain(inactive.iter().flatten()).any(|line| !line.sources.is_empty())
        };
        let above = turn.tables.layouts.users(device).into_iter().rev().find(lies_on_something);
        let above = above.ok_or_else(|| format!("{} does not get back to a calm table", turn.tables.name(device)))?;
        match turn.tables.devices[above].state {
            DeviceState::Live | DeviceState::Stopped(_) => self.let_go(above, turn),
            _ => Ok(()),
        }
    }
}

/// Gives a change up; the device goes on with its old table.
fn cancel(device: usize, ticket: Ticket, Turn { ledger, tables, io }: &mut Turn<'_, '_>) {
    ledger.log.note("cancel");
    tables.mapper.cancel(ticket, io.stack);
    let info = tables.mapper.info(&tables.name(device), io.stack);
    let state = &mut tables.devices[device].state;
    *state = match (info.map(|info| info.state), *state) {
        (Ok(StateName::Active), _) => DeviceState::Live,
        (_, DeviceState::Swapping(_, since) | DeviceState::Stopping(_, since)) => DeviceState::Stopped(since),
        (_, state) => state,
    };
}

fn clear(device: usize, Turn { tables, io, .. }: &mut Turn<'_, '_>) -> Outcome {
    let name = tables.name(device);
    tables.devices[device].inactive = None;
    tables.mapper.clear(&name, io.stack).map_err(|error| format!("{name} is not cleared: {error}"))
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
fn refuse_while_busy(device: usize, Turn { tables, io, .. }: &mut Turn<'_, '_>) -> Outcome {
    let name = tables.name(device);
    let kinds = [
        tables.mapper.suspend(&name, false, io.stack).err().map(|error| error.kind),
        tables.mapper.resume(&name, false, io.stack).err().map(|error| error.kind),
        tables.mapper.remove(&name, false, io.stack).err().map(|error| error.kind),
    ];
    if kinds == [Some(MapperErrorKind::Busy); 3] {
        return Ok(());
    }
    Err(format!("{name} changes and takes another change: {kinds:?}"))
}

/// Looks at a device: what is shown agrees with what was done, and a table that is shown can be loaded again.
fn query(device: usize, Turn { tables, io, .. }: &mut Turn<'_, '_>) -> Outcome {
    let (name, Device { state, live, inactive, id }) = (&tables.name(device), &tables.devices[device]);
    let expected = match state {
        DeviceState::Live => StateName::Active,
        DeviceState::Stopped(_) => StateName::Suspended,
        DeviceState::Swapping(..) | DeviceState::Stopping(..) => StateName::Suspending,
    };
    let info = tables.mapper.info(name, io.stack);
    let agrees = info.as_ref().is_ok_and(|info| {
        let known = (info.state, info.targets as usize, info.has_inactive, info.device);
        known == (expected, live.len(), inactive.is_some(), Some(*id))
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
    if agrees && again.as_ref() == Ok(&text) {
        return Ok(());
    }
    Err(format!("{name} is {state:?} with {} lines, and shows {info:?}, {text:?}, {again:?}", live.len()))
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::super::layout::{Form, Layout, Run};
    use super::super::{Profile, Scenario, SwarmOptions};
    use super::*;
    use crate::choices::Origin;
    use crate::disk::CrashConfig;
    use shingle_core::random::Rng;

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
            let turn = &mut Turn { ledger: &mut shared.borrow_mut(), tables: &mut tables.borrow_mut(), io };
            match self.step {
                0 => {
                    assert_eq!(self.operator.load(0, Mood::Dead, turn), Ok(true));
                    self.operator.wipe(1, turn).unwrap();
                }
                1 => self.operator.resume(0, turn).unwrap(),
                _ => {
                    assert_eq!(self.operator.load(1, Mood::Calm, turn), Ok(true));
                    if self.resumes {
                        self.operator.resume(1, turn).unwrap();
                    }
                    turn.ledger.log.left = 0;
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
        let mut run = super::super::Run::new(0, &options, &Origin::Seed);
        run.scenario = Scenario { layouts: two_on_a_disk(), ..run.scenario };
        let (mut world, (_, tables)) = run.build(None).unwrap();
        let habits = TableHabits { pace: Duration::from_millis(1), swaps: None, meddle: None };
        let operator = TableOperator::new(run.shared.clone(), tables.unwrap(), Choices::new(Rng::new(seed)), habits);
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
