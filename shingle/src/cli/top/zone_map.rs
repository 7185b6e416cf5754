//! The zones of a device as a map: a cell of two characters for a zone, or for many.

use std::time::Duration;

use shingle_core::zone::{Condition, Zone, ZoneKind};
use shingle_host::control::protocol::Zoned;

use super::text::{Line, Tone, count};

/// Most zones of a map; drives have some hundred thousand at most.
const MOST_ZONES: u32 = 1 << 20;
/// Columns of a cell.
const CELL: usize = 2;
/// The age of zones is shown from here on.
const OLD: Duration = Duration::from_secs(5);
/// Columns of what a row begins with: the number of its first zone, and a mark.
const LABEL: usize = 9;

/// The zones of a device, as far as they were told, and the part that is looked at.
#[derive(Clone, Debug)]
pub struct ZoneMap {
    pub device: String,
    shape: Zoned,
    zones: Vec<Option<Zone>>,
    /// How old they are.
    age: Option<Duration>,
    /// Why they could not be read.
    failure: Option<String>,
    /// Powers of two by which a cell has fewer zones than it takes to see all.
    zoom: u32,
    /// The zone that is looked at.
    cursor: u32,
    /// Columns and rows of cells.
    size: (u32, u32),
}

/// A way to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Back,
    On,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// Which zones are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonesWanted {
    pub device: String,
    pub zone_sectors: u64,
    /// Number of all.
    pub zones: u32,
    /// The first one that is on the screen, and how many are.
    pub first: u32,
    pub count: u32,
}

impl ZoneMap {
    /// The map of a device of which nothing is known yet.
    pub fn new(device: &str, shape: &Zoned) -> Self {
        let zones = vec![None; shape.zones.min(MOST_ZONES) as usize];
        Self {
            device: device.to_owned(),
            shape: shape.clone(),
            zones,
            age: None,
            failure: None,
            zoom: 0,
            cursor: 0,
            size: (32, 16),
        }
    }

    /// Whether this is the map of such a device.
    pub fn is_of(&self, device: &str, shape: &Zoned) -> bool {
        self.device == device && (self.shape.zones, self.shape.zone_sectors) == (shape.zones, shape.zone_sectors)
    }

    /// Takes in what was told.
    pub fn learn(&mut self, zones: &[Zone], age: Option<Duration>, failure: Option<String>) {
        self.age = age;
        self.failure = failure;
        for zone in zones {
            let number = zone.start.0 / u64::from(self.shape.zone_sectors.max(1));
            if let Some(at) = self.zones.get_mut(usize::try_from(number).unwrap_or(usize::MAX)) {
                *at = Some(*zone);
            }
        }
    }

    /// Says how much room there is.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        let cells = columns.saturating_sub(LABEL) / CELL;
        // Rows that begin with round numbers are easier to count in.
        let cells = if cells >= 8 { cells / 8 * 8 } else { cells.max(1) };
        self.size = (cells as u32, rows.clamp(1, 1000) as u32);
    }

    fn count(&self) -> u32 {
        self.zones.len() as u32
    }

    /// Zones of a cell: a power of two.
    fn per_cell(&self) -> u32 {
        let cells = (self.size.0 * self.size.1).max(1);
        let all = self.count().div_ceil(cells).max(1).next_power_of_two();
        (all >> self.zoom.min(31)).max(1)
    }

    /// More zones on the screen, or fewer; `None`: all of them.
    pub fn zoom(&mut self, is_in: Option<bool>) {
        match is_in {
            None => self.zoom = 0,
            Some(true) if self.per_cell() > 1 => self.zoom += 1,
            Some(true) => {}
            Some(false) => self.zoom = self.zoom.saturating_sub(1),
        }
    }

    /// Moves the cursor.
    pub fn go(&mut self, way: Way) {
        let cell = self.per_cell();
        let (row, page) = (cell.saturating_mul(self.size.0), self.on_screen());
        let at = self.cursor / cell * cell;
        let at = match way {
            Way::Back => at.saturating_sub(cell),
            Way::On => at.saturating_add(cell),
            Way::Up => at.checked_sub(row).unwrap_or(at),
            Way::Down => Some(at.saturating_add(row)).filter(|to| *to < self.count()).unwrap_or(at),
            Way::PageUp => at.saturating_sub(page),
            Way::PageDown => at.saturating_add(page),
            Way::First => 0,
            Way::Last => u32::MAX,
        };
        self.cursor = at.min(self.count().saturating_sub(1));
    }

    /// Zones that a screen has room for.
    fn on_screen(&self) -> u32 {
        self.per_cell().saturating_mul(self.size.0).saturating_mul(self.size.1)
    }

    /// The first zone on the screen: pages are turned, so that a row stays where it is.
    fn first(&self) -> u32 {
        let page = self.on_screen().max(1);
        self.cursor / page * page
    }

    /// What is to be asked for.
    pub fn wanted(&self) -> ZonesWanted {
        let (first, zone_sectors) = (self.first(), self.shape.zone_sectors.into());
        let count = self.on_screen().min(self.count() - first.min(self.count()));
        ZonesWanted { device: self.device.clone(), zone_sectors, zones: self.count(), first, count }
    }

    /// What is shown, and how much of it is known.
    pub fn title(&self) -> Line {
        let known = self.zones.iter().flatten().count();
        let (first, cell) = (self.first(), self.per_cell());
        let last = first.saturating_add(self.on_screen()).min(self.count()).saturating_sub(1);
        let bytes = shingle_host::config::format_bytes(u64::from(self.shape.zone_sectors) * 512);
        let each = if cell == 1 { "a cell is 1 zone".into() } else { format!("a cell is {cell} zones") };
        let line = Line::of(
            Tone::Plain,
            &format!("{}: {} zones of {bytes}; {each}; {first} to {last}", self.device, self.shape.zones),
        );
        if known < self.zones.len() { line.with(Tone::Warning, &format!("; {known} read so far")) } else { line }
    }

    /// What the signs mean and how many zones are so, and how many are open and active.
    pub fn legend(&self) -> [Line; 3] {
        use Condition::{Closed, Empty, ExplicitOpen, Full, ImplicitOpen, NotWp, Offline, ReadOnly};
        let mut counts = [0_usize; 16];
        self.zones.iter().flatten().for_each(|zone| counts[usize::from(zone.cond as u8)] += 1);
        let of = |condition: Condition| counts[usize::from(condition as u8)];
        let n = |condition| count(of(condition) as f64);
        let open = of(ImplicitOpen) + of(ExplicitOpen);
        let limit = |now: usize, limit: Option<u32>| match limit {
            Some(limit) => (format!("{now} of {limit}"), now >= limit as usize),
            None => (format!("{now} (no limit)"), false),
        };
        let (open, is_open_full) = limit(open, self.shape.max_open);
        let (active, is_active_full) = limit(open_or_closed(&counts), self.shape.max_active);
        let tone = if is_open_full || is_active_full { Tone::Warning } else { Tone::Plain };
        let (read_only, offline) = (n(ReadOnly), n(Offline));
        let lost = if of(ReadOnly) + of(Offline) > 0 { Tone::Bad } else { Tone::Plain };
        let open = format!("open {open}, active {active}; a digit: tenths written");
        let states = format!("i open {}  E explicit {}  c closed {}", n(ImplicitOpen), n(ExplicitOpen), n(Closed));
        [
            Line::of(tone, &open),
            Line::of(
                Tone::Plain,
                &format!("· empty {}  ██ full {}  + full and empty  = conventional {}", n(Empty), n(Full), n(NotWp)),
            ),
            Line::of(Tone::Plain, &states).with(lost, &format!("  R read-only {read_only}  X offline {offline}")),
        ]
    }

    /// The rows of cells.
    pub fn rows(&self) -> Vec<Line> {
        let (cell, first) = (self.per_cell(), self.first());
        let row = cell.saturating_mul(self.size.0);
        let starts = (0..self.size.1).map_while(|at| first.checked_add(at.checked_mul(row)?));
        starts.take_while(|start| *start < self.count()).map(|start| self.row(start, cell)).collect()
    }

    fn row(&self, start: u32, cell: u32) -> Line {
        let at = self.cursor / cell * cell;
        let is_here = (start..start.saturating_add(cell.saturating_mul(self.size.0))).contains(&at);
        let label = format!("{}{start:>width$} ", if is_here { ">" } else { " " }, width = LABEL - 2);
        let (mut line, mut run) = (Line::of(Tone::Faint, &label), (Tone::Plain, String::new()));
        let cells = (0..self.size.0).map_while(|n| start.checked_add(n * cell)).take_while(|zone| *zone < self.count());
        for zone in cells {
            let (mut tone, sign) = self.cell(zone, cell);
            if zone == at {
                tone = Tone::Cursor;
            }
            if tone != run.0 && !run.1.is_empty() {
                line = line.with(run.0, &std::mem::take(&mut run.1));
            }
            run.0 = tone;
            run.1 += &sign;
        }
        line.with(run.0, &run.1)
    }

    fn zones_at(&self, first: u32, count: u32) -> &[Option<Zone>] {
        let last = (first as usize).saturating_add(count as usize).min(self.zones.len());
        &self.zones[(first as usize).min(last)..last]
    }

    /// A sign for the condition that matters most of those in a cell, and how full they are.
    fn cell(&self, first: u32, count: u32) -> (Tone, String) {
        let zones = || self.zones_at(first, count).iter().flatten();
        let has = |condition| zones().any(|zone| zone.cond == condition);
        let all = |condition| zones().all(|zone| zone.cond == condition);
        if zones().next().is_none() {
            return (Tone::Faint, "? ".into());
        }
        let tenths = fill(zones()).map_or(' ', |fill| (b'0' + ((fill * 10.0) as u8).min(9)) as char);
        let known = [
            (Condition::Offline, 'X', Tone::Bad),
            (Condition::ReadOnly, 'R', Tone::Bad),
            (Condition::ExplicitOpen, 'E', Tone::Warning),
            (Condition::ImplicitOpen, 'i', Tone::Warning),
            (Condition::Closed, 'c', Tone::Plain),
        ];
        if let Some((_, sign, tone)) = known.into_iter().find(|(condition, ..)| has(*condition)) {
            return (tone, format!("{sign}{tenths}"));
        }
        let same = [(Condition::Empty, "· "), (Condition::Full, "██"), (Condition::NotWp, "= ")];
        let same = same.into_iter().find(|(condition, _)| all(*condition));
        (Tone::Plain, same.map_or(format!("+{tenths}"), |(_, sign)| sign.into()))
    }

    /// What the cursor is at.
    pub fn detail(&self) -> Line {
        let cell = self.per_cell();
        let first = self.cursor / cell * cell;
        let zones: Vec<&Zone> = self.zones_at(first, cell).iter().flatten().collect();
        let full = fill(zones.iter().copied()).map_or(String::new(), |fill| format!("; {:.0}% written", fill * 100.0));
        let text = match zones[..] {
            [] if self.failure.is_some() => format!("zone {first}: {}", self.failure.as_deref().unwrap_or_default()),
            [] => format!("zone {first}: not read yet"),
            [zone] if cell == 1 => {
                let at = if zone.cond.has_write_pointer() {
                    format!(", wp +{}", zone.wp.0.saturating_sub(zone.start.0))
                } else {
                    String::new()
                };
                format!(
                    "zone {first}{full}: {}, sector {}{at}, capacity {}",
                    word(zone.cond),
                    zone.start.0,
                    zone.capacity
                )
            }
            _ => {
                let of = |condition| (condition, zones.iter().filter(|zone| zone.cond == condition).count());
                let some = Condition::ALL.map(of).into_iter().filter(|(_, count)| *count > 0);
                let counts: Vec<String> =
                    some.map(|(condition, count)| format!("{count} {}", word(condition))).collect();
                format!("zones {first} to {}{full}: {}", first + zones.len() as u32 - 1, counts.join(", "))
            }
        };
        let old = self.age.filter(|age| *age >= OLD).map_or(String::new(), |age| format!(" ({} s ago)", age.as_secs()));
        Line::of(Tone::Plain, &(text + &old))
    }
}

/// Zones that are active, out of counts by condition.
fn open_or_closed(counts: &[usize; 16]) -> usize {
    let active = Condition::ALL.into_iter().filter(|condition| condition.is_active());
    active.map(|condition| counts[usize::from(condition as u8)]).sum()
}

const fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::NotWp => "conventional",
        Condition::Empty => "empty",
        Condition::ImplicitOpen => "open",
        Condition::ExplicitOpen => "explicitly open",
        Condition::Closed => "closed",
        Condition::ReadOnly => "read-only",
        Condition::Full => "full",
        Condition::Offline => "offline",
    }
}

/// The share of these zones that is written; of those that have no pointer nobody knows.
fn fill<'a>(zones: impl Iterator<Item = &'a Zone>) -> Option<f64> {
    let (mut written, mut room) = (0_u64, 0_u64);
    for zone in zones.filter(|zone| zone.kind == ZoneKind::Sequential) {
        let to = match zone.cond {
            Condition::Full => zone.capacity,
            condition if condition.has_write_pointer() => zone.wp.0.saturating_sub(zone.start.0).min(zone.capacity),
            _ => continue,
        };
        written = written.saturating_add(to);
        room = room.saturating_add(zone.capacity);
    }
    (room > 0).then(|| written as f64 / room as f64)
}
