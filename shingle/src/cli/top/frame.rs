//! What a screen shows, line by line.

use std::time::Duration;

use crate::cli::output::counted;

use super::model::{Top, View};
use super::sample::Pair;
use super::stuck::Trouble;
use super::text::{Column, Line, Table, Tone, bytes, clean, count, cut, left, or_dash, right, time, width, wrap};
use super::tree::Row;
use super::{Entry, Listing, cleaning, paths};

/// The tree's. Those on the right are left out where there is no room.
const COLUMNS: [Column; 12] = [
    left("NAME", 0),
    right("RD/s", 4),
    right("B/s", 4),
    right("WR/s", 4),
    right("B/s", 4),
    right("P50", 5),
    right("P99", 5),
    right("FLY", 4),
    right("PLUG", 4),
    right("WAIT", 5),
    right("ERR", 4),
    left("WHAT", 60),
];

/// Lines of a reason why there is no daemon.
const MOST_REASON: usize = 4;

impl Top {
    /// The lines of the screen: as many as it has rows, none wider than it.
    pub fn frame(&self) -> Vec<Line> {
        let (columns, rows) = self.size;
        let mut lines = self.head();
        let body = self.body_rows();
        let mut shown = if self.has_help { help_text() } else { self.body() };
        shown.splice(0..0, self.reason());
        shown.truncate(body);
        shown.resize(body, Line::default());
        lines.extend(shown);
        lines.extend(self.foot());
        lines.truncate(rows);
        lines.into_iter().map(|line| line.fit(columns, self.glyphs)).collect()
    }

    /// Everything of this view at once, for paper: without keys, and as long as it is.
    pub fn page(&self) -> Vec<Line> {
        let mut lines = self.head();
        match &self.map {
            Some(map) if self.view == View::Zones => {
                lines.extend(self.map_lines(self.body_rows()));
                lines.push(map.detail());
            }
            _ if self.view == View::Zones => lines.extend(self.map_lines(1)),
            _ => lines.extend(self.list_lines(usize::MAX, false)),
        }
        lines.into_iter().map(|line| line.fit(self.size.0, self.glyphs)).collect()
    }

    /// Rows between the head and the foot.
    pub(super) fn body_rows(&self) -> usize {
        self.size.1.saturating_sub(self.head_rows() + self.foot_rows())
    }

    /// The first two lines, where there is room for what they are about.
    fn head_rows(&self) -> usize {
        match self.size.1 {
            0..3 => 0,
            3..6 => 1,
            _ => 2,
        }
    }

    fn foot_rows(&self) -> usize {
        match self.size.1 {
            0..5 => 0,
            5..8 => 1,
            _ => 2,
        }
    }

    fn head(&self) -> Vec<Line> {
        let mut title = Line::default();
        if self.is_paused {
            title = title.with(Tone::Warning, "PAUSED ");
        }
        title = title.with(Tone::Title, &self.title());
        let tab = |line: Line, (number, view): (usize, View)| {
            let count = if view == View::Stuck { self.stuck_text() } else { String::new() };
            let (name, tone) = (view.name(), if count.is_empty() { Tone::Plain } else { Tone::Warning });
            match view == self.view {
                true => line.with(Tone::Title, &format!("[{} {name}{count}]", number + 1)),
                false => line.with(tone, &format!(" {} {name}{count} ", number + 1)),
            }
        };
        let mut tabs = View::ALL.into_iter().enumerate().fold(Line::default(), tab);
        let sort = if self.view == View::Devices { format!(", {}", self.sort.name()) } else { String::new() };
        tabs = tabs.with(Tone::Faint, &format!(" every {}{sort}", time(self.interval.as_nanos() as u64)));
        let mut lines = vec![title, tabs];
        lines.truncate(self.head_rows());
        if let (Some(notice), Some(first)) = (self.notice(), lines.first_mut()) {
            *first = notice;
        }
        lines
    }

    fn title(&self) -> String {
        let Some(pair) = self.pair() else { return "shingle top".into() };
        let status = &pair.now.status;
        let up = time(Duration::from_secs(status.uptime_s).as_nanos() as u64);
        let [exports, devices] = [(status.exports.len(), "export"), (status.devices.len(), "device")]
            .map(|(count, thing)| counted(count, thing));
        let clients = counted(status.connections.iter().sum(), "client");
        let (version, pid) = (&status.version, status.pid);
        format!("shingle {version}, pid {pid}, up {up}: {exports}, {devices}, {clients}")
    }

    fn stuck_text(&self) -> String {
        match self.troubles.len() {
            0 => String::new(),
            some => format!(" ({some}!)"),
        }
    }

    /// That what is shown is old, and why.
    fn notice(&self) -> Option<Line> {
        let at = self.pair().map(|pair| pair.now.at);
        if let Some((_, since)) = &self.lost {
            let ago = time(self.clock.saturating_sub(*since).as_nanos() as u64);
            let last = if at.is_some() { "; this is the last that it said" } else { "" };
            return Some(Line::of(Tone::Bad, &format!("NO DAEMON for {ago}{last}")));
        }
        let old = self.clock.checked_sub(at?)?;
        let is_late = old > self.interval * 2 + Duration::from_secs(2) && !self.is_paused;
        is_late.then(|| Line::of(Tone::Warning, &format!("NO ANSWER for {}", time(old.as_nanos() as u64))))
    }

    /// Why there is no daemon.
    fn reason(&self) -> Vec<Line> {
        let Some((why, _)) = &self.lost else { return Vec::new() };
        let lines = wrap(&clean(why), self.size.0, MOST_REASON);
        lines.iter().map(|line| Line::of(Tone::Bad, line)).collect()
    }

    fn foot(&self) -> Vec<Line> {
        let keys = match self.view {
            View::Zones => "arrows move  z/x zoom  0 all  n/p device  1-5 view  space pause  ? help  q quit",
            View::Devices => "j/k move  s sort  Enter zones  1-5 view  space pause  +/- interval  ? help  q",
            _ => "j/k move  Enter zones  1-5 view  space pause  +/- interval  ? help  q quit",
        };
        let detail = match self.view {
            View::Zones => self.map.as_ref().map(|map| map.detail()),
            View::Devices => self.rows.get(self.cursors[0]).map(|row| Line::of(Tone::Plain, &about(row))),
            View::Stuck => self
                .troubles
                .get(self.cursor())
                .map(|of| Line::of(Tone::Plain, &format!("{}: {}", of.device, of.detail))),
            _ => None,
        };
        let mut lines = vec![detail.unwrap_or_default(), Line::of(Tone::Faint, keys)];
        lines.drain(..lines.len() - self.foot_rows());
        lines
    }

    fn body(&self) -> Vec<Line> {
        match self.view {
            View::Zones => self.map_lines(self.body_rows()),
            _ => self.list_lines(self.body_rows(), true),
        }
    }

    fn map_lines(&self, rows: usize) -> Vec<Line> {
        let Some(map) = &self.map else {
            let why = if self.pair().is_none() { "waiting for the daemon" } else { "no device has zones" };
            return vec![Line::of(Tone::Plain, why)];
        };
        let mut lines = vec![map.title()];
        lines.extend(map.legend());
        lines.truncate(legend_rows(rows));
        lines.extend(map.rows());
        lines
    }

    fn cursor(&self) -> usize {
        self.cursors[self.view as usize].min(self.entries().saturating_sub(1))
    }

    /// How many lines this view has.
    pub(super) fn entries(&self) -> usize {
        match self.view {
            View::Devices => self.rows.len(),
            View::Stuck => self.troubles.len(),
            _ => self.listing().entries.len(),
        }
    }

    fn list_lines(&self, rows: usize, has_cursor: bool) -> Vec<Line> {
        if self.pair().is_none() {
            return vec![Line::of(Tone::Plain, "waiting for the daemon")];
        }
        let Listing { header, entries, empty } = self.listing();
        if entries.is_empty() {
            return vec![Line::of(Tone::Plain, empty)];
        }
        let header = header.filter(|_| rows > 2).map(|header| Line::of(Tone::Title, &format!(" {header}")));
        let mut lines: Vec<Line> = header.into_iter().collect();
        let (room, cursor) = (rows.saturating_sub(lines.len()).max(1), self.cursor());
        // The cursor is in the middle, but for the ends.
        let first = cursor.saturating_sub(room / 2).min(entries.len().saturating_sub(room));
        for (number, entry) in entries.into_iter().enumerate().skip(first).take(room) {
            let is_here = has_cursor && number == cursor;
            let mark = Line::of(Tone::Plain, if is_here { ">" } else { " " });
            let tone = |tone| if is_here { Tone::Cursor } else { tone };
            lines.push(entry.line.0.iter().fold(mark, |line, (of, text)| line.with(tone(*of), text)));
        }
        lines
    }

    /// The lines of a view that is a list.
    pub(super) fn listing(&self) -> Listing {
        let Some(pair) = self.pair() else { return Listing::default() };
        let width = self.size.0.saturating_sub(1);
        match self.view {
            View::Devices => tree(&self.rows, width),
            View::Stuck => self.stuck(pair, width),
            View::Paths => paths::listing(pair, width),
            View::Cleaning => cleaning::listing(pair),
            View::Zones => Listing::default(),
        }
    }

    fn stuck(&self, pair: Pair<'_>, room: usize) -> Listing {
        let device = self.troubles.iter().map(|trouble| width(&trouble.device)).max().unwrap_or(0).clamp(6, 24);
        let columns =
            [left("DEVICE", 0), right("FOR", 6), left("WHAT", 15), left("", room.saturating_sub(device + 24))];
        let table = Table::new(&columns, device, room);
        let line = |trouble: &Trouble| {
            let (age, is_more) = self.seen.age(trouble, pair.now.at);
            let age = time(age.as_nanos() as u64) + if is_more { "+" } else { "" };
            table.row(&[trouble.device.clone(), age, trouble.what.into(), trouble.detail.clone()])
        };
        let entry = |of: &Trouble| Entry { line: Line::of(Tone::Plain, &line(of)), device: Some(of.device.clone()) };
        let entries = self.troubles.iter().map(entry).collect();
        let header = Some(table.header());
        Listing {
            header,
            entries,
            empty: "nothing is stuck: no I/O waits for long, all paths, drives and zones are well",
        }
    }
}

/// How many of so many rows tell what a map is of: where there is hardly any room, it is the map itself that counts.
pub(super) fn legend_rows(rows: usize) -> usize {
    if rows < 8 { rows / 3 } else { 4 }
}

/// A row's name with what is wrong with it.
fn named(row: &Row, width_left: usize) -> String {
    let states = if row.states.is_empty() { String::new() } else { format!(" !{}", row.states.join(", ")) };
    let name = format!("{}{}{}", row.branch, row.name, row.elsewhere);
    // What is wrong matters more than the end of a name, but not more than all of it.
    let room = width_left.saturating_sub(width(&states)).max(width_left.min(width(&row.branch) + 4));
    cut(&name, room) + &states
}

fn about(row: &Row) -> String {
    let states = if row.states.is_empty() { String::new() } else { format!("[{}] ", row.states.join(", ")) };
    format!("{}: {states}{}", row.name, row.about)
}

fn tree(rows: &[Row], width_left: usize) -> Listing {
    let longest = rows.iter().map(|row| width(&named(row, usize::MAX))).max().unwrap_or(0);
    let table = Table::new(&COLUMNS, longest.clamp(12, 60), width_left);
    let entry = |row: &Row| {
        let flow = |number: fn(&super::counts::Flow) -> String| or_dash(row.flow.as_ref().map(number));
        let cells = [
            named(row, table.first()),
            flow(|flow| count(flow.reads)),
            flow(|flow| bytes(flow.read_bytes)),
            flow(|flow| count(flow.writes)),
            flow(|flow| bytes(flow.write_bytes)),
            flow(|flow| or_dash(flow.p50.map(time))),
            flow(|flow| or_dash(flow.p99.map(time))),
            or_dash(row.in_flight.map(|number| count(number as f64))),
            or_dash(row.plugged.map(|plugged| count(plugged.into()))),
            or_dash(row.longest_wait.map(time)),
            count(row.errors as f64),
            row.about.clone(),
        ];
        let tone = if row.states.is_empty() { Tone::Plain } else { Tone::Warning };
        Entry { line: Line::of(tone, &table.row(&cells)), device: row.device.clone() }
    };
    let header = Some(table.header());
    Listing { header, entries: rows.iter().map(entry).collect(), empty: "there are no devices" }
}

fn help_text() -> Vec<Line> {
    let lines = [
        "Tab, Shift-Tab, 1-5  views: devices, zones, stuck, paths, cleaning",
        "arrows, j/k, PgUp/PgDn, Home/End (g/G)  move; Enter  the zones of what is chosen",
        "space  pause; + -  a longer or shorter interval; q, Esc, Ctrl-C  quit",
        "devices: s, S, left, right  sort   zones: z in, x out, 0 all; n, p  device",
        "",
        "RD/s WR/s  reads and writes (appends, zeroes) a second in the last interval,",
        "           and their bytes behind each: k, M, G are powers of 1024",
        "P50 P99    half, 99 of 100 took no longer in the interval (bounds are powers of",
        "           two; measured for exports and for disks that are files or real)",
        "FLY        I/O that it has now    PLUG  zones with writes in flight or in line",
        "WAIT       the longest that a write has waited in the plug since its policy was",
        "           chosen                 ERR   failures since the daemon started",
        "!words     what is wrong with it: all of it is in the line at the bottom",
        "paths: OVER  bios that went over to another path   AGN  that it got again",
        "       ERR  errors of the disk   DOWN  times that it failed   MEAN, SHARE  now",
        "stuck: 12s+  it was so when this program first looked",
        "",
        "any key goes back",
    ];
    lines.map(|line| Line::of(Tone::Plain, line)).into()
}
