//! One device: its two tables and how far it is with what was asked of it.

use super::error::{MapperError, MapperErrorKind};
use super::plugs::ChosenPolicies;
use crate::block::{BlockDevice, DeviceId, Event, Limits, PriorUse, Stack};
use crate::dm::{Resolver, Table, TableError, TableLine, abandon_parts, build_table};
use crate::prelude::*;
use crate::time::{Duration, Instant};

/// Longest name, in bytes (`DM_NAME_LEN`).
pub const LONGEST_NAME: usize = 127;
/// Longest UUID, in bytes (`DM_UUID_LEN`).
pub const LONGEST_UUID: usize = 128;

/// A verb that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(super) u64);

/// A device.
#[derive(Default)]
pub(super) struct Mapped {
    pub name: String,
    pub uuid: String,
    pub minor: u32,
    /// Its place in the stack, from its first resume on.
    pub device: Option<DeviceId>,
    pub live: Option<Loaded>,
    pub inactive: Option<Loaded>,
    pub state: State,
    /// How many outside of the stack use it.
    pub opened: u32,
    /// Whether it is removed when nobody uses it any more.
    pub is_deferred: bool,
    /// Swaps, and events of targets that are gone.
    pub past_events: u64,
    pub longest_swap: Duration,
    /// Policies that were chosen for the plugs of its lines, and that outlive its tables.
    pub policies: ChosenPolicies,
}

/// How far a device is.
#[derive(Default)]
pub(super) enum State {
    Running,
    /// New bios wait at its door, and it waits for those inside.
    Draining {
        since: Option<Instant>,
        then: Then,
        ticket: Ticket,
        was_running: bool,
    },
    #[default]
    Suspended,
}

/// What happens when it is drained.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It stays suspended.
    Stay,
    /// The inactive table becomes the live one.
    Swap,
}

/// A table that was built.
pub(super) struct Loaded {
    pub lines: Vec<TableLine>,
    pub read_only: bool,
    /// What routes its bios, until it lies in its place.
    pub table: Option<Table>,
    pub parts: Vec<DeviceId>,
    /// For each line the device that speaks for its target.
    pub targets: Vec<Option<DeviceId>>,
    /// Devices below that are not its own, with the limits that they had.
    below: Vec<(DeviceId, Limits)>,
    /// Those of them that nobody else may write to.
    pub sole_writer_of: Vec<DeviceId>,
}

impl Mapped {
    pub fn new(name: &str, uuid: &str, minor: u32) -> Self {
        Self { name: name.to_string(), uuid: uuid.to_string(), minor, ..Self::default() }
    }

    /// Its tables.
    pub fn tables(&self) -> impl Iterator<Item = &Loaded> {
        self.live.iter().chain(&self.inactive)
    }

    /// Its size, by its live table, else by the inactive one.
    pub fn sectors(&self) -> u64 {
        self.tables().next().map_or(0, Loaded::sectors)
    }

    /// Whether all that went in is done, and its targets have nothing of their own under way.
    pub fn is_drained(&self, stack: &Stack) -> bool {
        let parts = self.live.iter().flat_map(|live| &live.parts);
        self.device.iter().chain(parts).all(|id| stack.is_drained(*id))
    }

    /// Lets bios in, if its targets can take them.
    pub fn open(&mut self, stack: &mut Stack) -> Result<(), MapperError> {
        let (Some(id), Some(live)) = (self.device, &self.live) else { return Err(self.no_table()) };
        if let Err(missing) = live.is_ready(stack) {
            let what = format!("`{}` stays suspended: {missing}", self.name);
            return Err(MapperError::new(MapperErrorKind::NotReady, what));
        }
        live.parts.iter().for_each(|part| stack.deliver(*part, Event::Resume));
        stack.resume(id);
        self.state = State::Running;
        Ok(())
    }

    /// How many events it has had.
    pub fn events(&self, stack: &Stack) -> u64 {
        self.past_events + self.live.as_ref().map_or(0, |live| live.events(stack))
    }

    /// A table that names its own device would have bios go round for ever.
    pub fn check_itself(&self, lines: &[TableLine]) -> Result<(), TableError> {
        let is_self = |name: &str| name == self.name || (!name.is_empty() && name == self.uuid);
        let mut named = lines.iter().flat_map(|line| line.target.devices().into_iter().map(move |arg| (line, arg)));
        let Some((line, arg)) = named.find(|(_, arg)| is_self(&arg.name)) else { return Ok(()) };
        let message = format!("`{}` is the device itself: a table cannot map to its own device", arg.name);
        Err(TableError { line: line.number, word: Some(arg.word), message })
    }

    pub fn no_table(&self) -> MapperError {
        let what = format!("`{}` has no table yet: load one and resume it", self.name);
        MapperError::new(MapperErrorKind::NoTable, what)
    }

    pub fn bad_table(&self, error: &TableError) -> MapperError {
        let message = format!("the table of `{}` is wrong: {error}", self.name);
        MapperError { table: Some(error.clone()), ..MapperError::new(MapperErrorKind::Table, message) }
    }
}

impl Loaded {
    pub fn build(
        stack: &mut Stack,
        lines: Vec<TableLine>,
        read_only: bool,
        resolver: &dyn Resolver,
    ) -> Result<Self, TableError> {
        let built = build_table(stack, &lines, resolver)?;
        let claims = lines.iter().filter(|line| line.target.is_sole_writer()).flat_map(|line| line.target.devices());
        let sole_writer_of = claims.filter_map(|arg| resolver.device(&arg.name).ok()).collect();
        let table = if read_only { built.table.read_only() } else { built.table };
        let lies_on = |part: &DeviceId| stack.below(*part).to_vec();
        let mut below: Vec<DeviceId> = built.parts.iter().flat_map(lies_on).collect();
        below.extend(table.below());
        below.sort_unstable();
        below.dedup();
        below.retain(|id| !built.parts.contains(id));
        let below = below.into_iter().map(|id| (id, stack.limits(id).clone())).collect();
        Ok(Self {
            lines,
            read_only,
            table: Some(table),
            parts: built.parts,
            targets: built.targets,
            below,
            sole_writer_of,
        })
    }

    pub fn sectors(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.start + line.len)
    }

    /// Whether it maps to `device`.
    pub fn uses(&self, device: DeviceId) -> bool {
        self.below.iter().any(|(id, _)| *id == device)
    }

    /// The devices that it maps to.
    pub fn below(&self) -> impl Iterator<Item = DeviceId> {
        self.below.iter().map(|(id, _)| *id)
    }

    /// Whether what lies below is still what it was built for.
    pub fn is_current(&self, stack: &Stack) -> bool {
        self.below.iter().all(|(id, limits)| stack.limits(*id) == limits)
    }

    pub fn is_ready(&self, stack: &Stack) -> Result<(), String> {
        self.parts.iter().try_for_each(|part| stack.is_ready(*part))
    }

    /// True if every request to this table fails.
    pub fn fails_all(&self) -> bool {
        self.lines.iter().all(|line| line.kind.name == "error")
    }

    pub fn is_replaceable(&self, stack: &Stack) -> Result<(), String> {
        self.parts.iter().try_for_each(|part| stack.is_replaceable(*part))
    }

    pub fn events(&self, stack: &Stack) -> u64 {
        self.targets.iter().flatten().map(|target| stack.events(*target)).sum()
    }

    /// The line that owns `sector`, and the device that speaks for its target.
    pub fn target_at(&self, sector: u64) -> Option<(usize, Option<DeviceId>)> {
        let line = self.lines.iter().position(|line| sector < line.start + line.len)?;
        Some((line, self.targets[line]))
    }

    /// Gives up its parts.
    pub fn abandon(&mut self, prior_use: PriorUse, stack: &mut Stack) {
        self.table = None;
        abandon_parts(stack, core::mem::take(&mut self.parts), prior_use);
    }
}

/// Whether a device can be called that: what udev leaves as it is in names of files, but for `/`.
pub(super) fn check_name(name: &str) -> Result<(), MapperError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c);
    if !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(fits) && name != "." && name != ".." {
        return Ok(());
    }
    let what = format!("`{name}` is not a name: use letters, digits and #+-.:=@_, at most {LONGEST_NAME} of them");
    Err(MapperError::new(MapperErrorKind::Invalid, what))
}

/// Whether a device can have this UUID; an empty one is none.
pub(super) fn check_uuid(uuid: &str) -> Result<(), MapperError> {
    if uuid.len() <= LONGEST_UUID && uuid.chars().all(|c| c.is_ascii_graphic() && c != '/') {
        return Ok(());
    }
    let what = format!("`{uuid}` is not a UUID: use printable characters but no space or /, at most {LONGEST_UUID}");
    Err(MapperError::new(MapperErrorKind::Invalid, what))
}
