//! What is looked at, as a state machine: samples, keys and sizes in, a frame and what to ask next out. It has no clock and no terminal.

use std::time::Duration;

use shingle_core::zone::Zone;
use shingle_host::control::protocol::DeviceStatus;

use super::frame::legend_rows;
use super::sample::{Pair, Sample};
use super::stuck::{Seen, Trouble, troubles};
use super::text::Glyphs;
use super::tree::{Row, Sort, rows};
use super::zone_map::{Way, ZoneMap, ZonesWanted};

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Exports, and the devices and disks below them
    Devices,
    /// The zones of a device
    Zones,
    /// What waits or cannot go on
    Stuck,
    /// Paths of devices that have several
    Paths,
    /// Volumes of stl and dm-zoned, and what makes their zones free
    Cleaning,
}

impl View {
    /// All, in the order of their keys.
    pub const ALL: [View; 5] = [Self::Devices, Self::Zones, Self::Stuck, Self::Paths, Self::Cleaning];

    /// Its name.
    pub const fn name(self) -> &'static str {
        ["devices", "zones", "stuck", "paths", "cleaning"][self as usize]
    }
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Tab,
    BackTab,
    /// Ctrl-C.
    Interrupt,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Input {
    /// The daemon was asked.
    Sample(Box<Sample>),
    /// Some zones of a device, and why there are no more.
    Zones {
        device: String,
        zones: Vec<Zone>,
        /// How old the zones are.
        age: Option<Duration>,
        failure: Option<String>,
    },
    /// The daemon cannot be asked, and why.
    Lost(String),
    /// The time since the start.
    Clock(Duration),
    Key(Key),
    /// Columns and rows of the screen.
    Size(u16, u16),
}

/// What is to be asked, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    pub interval: Duration,
    pub is_paused: bool,
    pub zones: Option<ZonesWanted>,
    /// The disks whose plugs are asked for.
    pub plugs: Vec<String>,
}

/// The least and the greatest interval.
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
/// Disks whose plugs are asked for at a time.
const MOST_PLUGS: usize = 4;

/// What is looked at.
pub struct Top {
    pub(super) size: (usize, usize),
    pub(super) glyphs: Glyphs,
    pub(super) view: View,
    pub(super) has_help: bool,
    pub(super) is_paused: bool,
    pub(super) has_ended: bool,
    pub(super) interval: Duration,
    pub(super) sort: Sort,
    pub(super) clock: Duration,
    /// Why there is no daemon, and since when.
    pub(super) lost: Option<(String, Duration)>,
    before: Option<Box<Sample>>,
    now: Option<Box<Sample>>,
    pub(super) rows: Vec<Row>,
    pub(super) troubles: Vec<Trouble>,
    pub(super) seen: Seen,
    pub(super) map: Option<ZoneMap>,
    /// The line with the cursor in each view, and the first on the screen.
    pub(super) cursors: [usize; View::ALL.len()],
    /// The row of the tree with the cursor, wherever it stands next time.
    key: Option<String>,
}

impl Top {
    /// A screen that knows nothing yet.
    pub fn new(interval: Duration, view: View, glyphs: Glyphs) -> Self {
        Self {
            size: (80, 24),
            glyphs,
            view,
            has_help: false,
            is_paused: false,
            has_ended: false,
            interval: interval.clamp(INTERVALS.0, INTERVALS.1),
            sort: Sort::Order,
            clock: Duration::ZERO,
            lost: None,
            before: None,
            now: None,
            rows: Vec::new(),
            troubles: Vec::new(),
            seen: Seen::default(),
            map: None,
            cursors: [0; View::ALL.len()],
            key: None,
        }
    }

    /// Chooses a device by its name, for the map of its zones.
    pub fn choose(&mut self, device: &str) {
        self.key = Some(device.to_owned());
        self.follow();
    }

    /// Whether it was told to end.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The samples that are shown.
    pub(super) fn pair(&self) -> Option<Pair<'_>> {
        Some(Pair { now: self.now.as_deref()?, before: self.before.as_deref() })
    }

    /// Takes in what happened.
    pub fn apply(&mut self, input: Input) {
        match input {
            Input::Sample(sample) => self.take(sample),
            Input::Zones { device, zones, age, failure } => {
                let map = self.map.iter_mut().filter(|map| map.device == device);
                map.for_each(|map| map.learn(&zones, age, failure.clone()));
            }
            Input::Lost(why) => {
                let since = self.lost.take().map_or(self.clock, |(_, since)| since);
                self.lost = Some((why, since));
            }
            Input::Clock(clock) => self.clock = self.clock.max(clock),
            Input::Key(key) => self.press(key),
            Input::Size(columns, rows) => {
                self.size = (columns.into(), rows.into());
                self.fit_map();
            }
        }
    }

    fn take(&mut self, sample: Box<Sample>) {
        self.lost = None;
        self.clock = self.clock.max(sample.at);
        if self.is_paused {
            return;
        }
        let is_first = self.now.is_none();
        self.before = self.now.take().filter(|before| sample.continues(before));
        self.now = Some(sample);
        self.sort_rows();
        let Some(pair) = self.pair() else { return };
        let (found, at) = (troubles(pair), pair.now.at);
        self.seen.note(&found, at, is_first);
        self.troubles = found;
        if let Some(map) = &self.map {
            // A device that was made anew, or is gone.
            let shape = self.device(&map.device).and_then(|device| device.zoned.as_ref());
            if !shape.is_some_and(|shape| map.is_of(&map.device, shape)) {
                self.map = None;
            }
        }
        self.open_map();
    }

    fn sort_rows(&mut self) {
        self.rows = self.pair().map(|pair| rows(pair, self.sort)).unwrap_or_default();
        self.follow();
    }

    /// The cursor stays at its row, wherever that is now.
    fn follow(&mut self) {
        let at = self.key.as_ref().and_then(|key| {
            let is_it = |row: &Row| row.key == *key || (row.device.as_ref() == Some(key) && row.name == *key);
            self.rows.iter().position(is_it)
        });
        let cursor = &mut self.cursors[View::Devices as usize];
        *cursor = at.unwrap_or(*cursor).min(self.rows.len().saturating_sub(1));
    }

    pub(super) fn device(&self, name: &str) -> Option<&DeviceStatus> {
        self.now.as_deref()?.device(name)
    }

    /// The device at the cursor.
    fn chosen(&self) -> Option<String> {
        match self.view {
            View::Zones => self.map.as_ref().map(|map| map.device.clone()),
            _ => self.listing().entries.get(self.cursors[self.view as usize])?.device.clone(),
        }
    }

    /// A device, or what lies below it, that has zones.
    fn zoned_at(&self, name: &str) -> Option<String> {
        let (mut left, mut next) = (vec![name.to_owned()], 0);
        while next < left.len() && next < 1000 {
            let device = self.device(&left[next]);
            if let Some(device) = device {
                if device.zoned.is_some() {
                    return Some(device.name.clone());
                }
                let below = self.now.iter().flat_map(|now| now.children(device));
                let new: Vec<String> = below.filter(|name| !left.contains(name)).collect();
                left.extend(new);
            }
            next += 1;
        }
        None
    }

    /// All devices with zones.
    fn zoned(&self) -> Vec<String> {
        let devices = self.now.iter().flat_map(|now| &now.status.devices);
        devices.filter(|device| device.zoned.is_some()).map(|device| device.name.clone()).collect()
    }

    /// In the view of zones there is a map, if there is a device for it.
    fn open_map(&mut self) {
        if self.view == View::Zones && self.map.is_none() {
            let row = self.rows.get(self.cursors[View::Devices as usize]);
            let chosen = row.and_then(|row| self.zoned_at(row.device.as_deref()?));
            if let Some(name) = chosen.or_else(|| self.zoned().into_iter().next()) {
                self.open_map_of(&name);
            }
        }
    }

    fn open_map_of(&mut self, name: &str) {
        if self.map.as_ref().is_none_or(|map| map.device != name) {
            let shape = self.device(name).and_then(|device| device.zoned.clone());
            self.map = shape.map(|shape| ZoneMap::new(name, &shape));
        }
        self.fit_map();
    }

    fn fit_map(&mut self) {
        let (columns, body) = (self.size.0, self.body_rows());
        let rows = body - legend_rows(body);
        self.map.iter_mut().for_each(|map| map.resize(columns, rows));
    }

    fn press(&mut self, key: Key) {
        let had_help = std::mem::take(&mut self.has_help);
        match key {
            Key::Interrupt | Key::Char('q') => self.has_ended = true,
            Key::Escape => self.has_ended = !had_help,
            Key::Char('?') => self.has_help = !had_help,
            Key::Char(' ') => self.is_paused = !self.is_paused,
            Key::Char('+' | '=') => self.interval = longer(self.interval),
            Key::Char('-') => self.interval = shorter(self.interval),
            Key::Char(number @ '1'..='5') => self.show(View::ALL[number as usize - '1' as usize]),
            Key::Tab => self.show(View::ALL[(self.view as usize + 1) % View::ALL.len()]),
            Key::BackTab => self.show(View::ALL[(self.view as usize + View::ALL.len() - 1) % View::ALL.len()]),
            Key::Enter => self.enter(),
            _ if self.view == View::Zones => self.press_in_map(key),
            _ => self.press_in_list(key),
        }
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.open_map();
    }

    /// Opens the map of what the cursor is at.
    fn enter(&mut self) {
        let Some(name) = self.chosen().and_then(|name| self.zoned_at(&name)) else { return };
        self.view = View::Zones;
        self.open_map_of(&name);
    }

    fn press_in_map(&mut self, key: Key) {
        if let Key::Char('n' | 'p') = key {
            let (all, now) = (self.zoned(), self.map.as_ref().map(|map| map.device.clone()));
            let at = all.iter().position(|name| Some(name) == now.as_ref()).unwrap_or_default();
            let to = (at + if key == Key::Char('n') { 1 } else { all.len().max(1) - 1 }) % all.len().max(1);
            all.get(to).into_iter().for_each(|name| self.open_map_of(name));
        }
        let Some(map) = &mut self.map else { return };
        match key {
            Key::Char('z') => map.zoom(Some(true)),
            Key::Char('x') => map.zoom(Some(false)),
            Key::Char('0') => map.zoom(None),
            Key::Left | Key::Char('h') => map.go(Way::Back),
            Key::Right | Key::Char('l') => map.go(Way::On),
            Key::Up | Key::Char('k') => map.go(Way::Up),
            Key::Down | Key::Char('j') => map.go(Way::Down),
            Key::PageUp => map.go(Way::PageUp),
            Key::PageDown => map.go(Way::PageDown),
            Key::Home | Key::Char('g') => map.go(Way::First),
            Key::End | Key::Char('G') => map.go(Way::Last),
            _ => {}
        }
    }

    fn press_in_list(&mut self, key: Key) {
        let is_back = matches!(key, Key::Left | Key::Char('S'));
        if self.view == View::Devices && matches!(key, Key::Left | Key::Right | Key::Char('s' | 'S')) {
            self.sort = self.sort.turn(is_back);
            return self.sort_rows();
        }
        let (page, last) = (self.body_rows().saturating_sub(1).max(1), self.entries().saturating_sub(1));
        let cursor = &mut self.cursors[self.view as usize];
        let at = (*cursor).min(last);
        *cursor = match key {
            Key::Up | Key::Char('k') => at.saturating_sub(1),
            Key::Down | Key::Char('j') => at.saturating_add(1),
            Key::PageUp => at.saturating_sub(page),
            Key::PageDown => at.saturating_add(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            _ => at,
        }
        .min(last);
        if self.view == View::Devices {
            self.key = self.rows.get(self.cursors[View::Devices as usize]).map(|row| row.key.clone());
        }
    }

    /// What to ask from now on.
    pub fn want(&self) -> Want {
        let zones = self.map.as_ref().filter(|_| self.view == View::Zones).map(ZoneMap::wanted);
        let plugs = if self.view == View::Stuck { self.busiest() } else { Vec::new() };
        Want { interval: self.interval, is_paused: self.is_paused, zones, plugs }
    }

    /// The disks with most zones in which something is in flight or waits.
    fn busiest(&self) -> Vec<String> {
        let devices = self.now.iter().flat_map(|now| &now.status.devices);
        let mut busy: Vec<(u32, &str)> =
            devices.filter_map(|device| Some((device.active_plugs.filter(|busy| *busy > 0)?, &*device.name))).collect();
        busy.sort_by_key(|(busy, _)| std::cmp::Reverse(*busy));
        busy.into_iter().take(MOST_PLUGS).map(|(_, name)| name.to_owned()).collect()
    }
}

/// The steps of an interval, in milliseconds.
const STEPS: [u64; 12] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];

fn longer(interval: Duration) -> Duration {
    let next = STEPS.into_iter().map(Duration::from_millis).find(|step| *step > interval);
    next.unwrap_or(INTERVALS.1)
}

fn shorter(interval: Duration) -> Duration {
    let next = STEPS.into_iter().rev().map(Duration::from_millis).find(|step| *step < interval);
    next.unwrap_or(INTERVALS.0)
}
