//! Exports, the devices that they are of, and what these lie on, with what all of them do.

use std::collections::BTreeSet;

use shingle_host::config::format_bytes;
use shingle_host::control::protocol::{DeviceStatus, ExportStatus};

use super::counts::{Flow, Totals};
use super::sample::Pair;

/// By what those beside each other are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// As in the stack file.
    Order,
    Operations,
    Bytes,
    Latency,
    InFlight,
    Errors,
    Name,
}

impl Sort {
    const ALL: [Sort; 7] =
        [Self::Order, Self::Operations, Self::Bytes, Self::Latency, Self::InFlight, Self::Errors, Self::Name];

    /// What a title says of it.
    pub const fn name(self) -> &'static str {
        ["file order", "by ops", "by bytes", "by p99", "by in flight", "by errors", "by name"][self as usize]
    }

    /// The next one, or the one before.
    pub fn turn(self, is_back: bool) -> Self {
        let all = Self::ALL.len();
        Self::ALL[(self as usize + if is_back { all - 1 } else { 1 }) % all]
    }
}

/// An export or a device where it stands in the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is told by when the tree is another: the names from the top on.
    pub key: String,
    /// What is drawn before its name.
    pub branch: String,
    pub name: String,
    /// The device that it is, or that it is an export of.
    pub device: Option<String>,
    pub flow: Option<Flow>,
    pub in_flight: Option<u64>,
    pub plugged: Option<u32>,
    /// The longest that a write has waited in the plug, in nanoseconds.
    pub longest_wait: Option<u64>,
    pub errors: u64,
    /// That its parts stand elsewhere.
    pub elsewhere: &'static str,
    /// What is wrong or odd with it, the worst first.
    pub states: Vec<String>,
    /// What it is.
    pub about: String,
}

/// Most rows: a stack of layers that all lie on the same two has no more than its devices.
const MOST_ROWS: usize = 20_000;
/// Deeper ones are drawn as if they were no deeper.
const DEEPEST_DRAWN: usize = 12;
/// What lies deeper stands in a tree of its own.
const DEEPEST: usize = 64;

/// The tree. A device that lies below several is taken apart where it comes first.
pub fn rows(pair: Pair<'_>, sort: Sort) -> Vec<Row> {
    let mut tree = Tree { pair, sort, rows: Vec::new(), seen: BTreeSet::new() };
    let mut exports: Vec<Row> = pair.now.status.exports.iter().map(|export| export_row(pair, export)).collect();
    tree.order(&mut exports);
    for export in exports {
        let below: Vec<String> = export.device.clone().into_iter().collect();
        let (key, branch) = (export.key.clone(), String::new());
        tree.rows.push(export);
        tree.add(&key, &branch, below, 0);
    }
    // What nobody exports: what lies below nothing first, and circles, which there are not, at last.
    let devices = &pair.now.status.devices;
    let below: BTreeSet<String> = devices.iter().flat_map(|device| pair.now.children(device)).collect();
    for is_below in [false, true] {
        let mut rest: Vec<Row> = devices
            .iter()
            .filter(|device| below.contains(&device.name) == is_below)
            .map(|device| device_row(pair, device))
            .collect();
        tree.order(&mut rest);
        rest.into_iter().for_each(|row| tree.add_root(row));
    }
    tree.rows
}

struct Tree<'a> {
    pair: Pair<'a>,
    sort: Sort,
    rows: Vec<Row>,
    seen: BTreeSet<String>,
}

impl Tree<'_> {
    fn add_root(&mut self, row: Row) {
        if self.seen.contains(&row.name) || self.rows.len() >= MOST_ROWS {
            return;
        }
        self.seen.insert(row.name.clone());
        let (key, below) = (row.key.clone(), self.below(&row.name));
        self.rows.push(row);
        self.add(&key, "", below, 0);
    }

    fn below(&self, name: &str) -> Vec<String> {
        self.pair.now.device(name).map(|device| self.pair.now.children(device)).unwrap_or_default()
    }

    /// The devices below one.
    fn add(&mut self, key: &str, branch: &str, below: Vec<String>, depth: usize) {
        let devices = below.iter().filter_map(|name| self.pair.now.device(name));
        let mut rows: Vec<Row> = devices.map(|device| device_row(self.pair, device)).collect();
        self.order(&mut rows);
        let last = rows.len();
        for (place, mut row) in rows.into_iter().enumerate() {
            if self.rows.len() >= MOST_ROWS {
                return;
            }
            let is_last = place + 1 == last;
            let further = format!("{branch}{}", if is_last { "  " } else { "│ " });
            row.branch = format!("{branch}{}", if is_last { "└─" } else { "├─" });
            row.key = format!("{key}/{}", row.name);
            let (key, name) = (row.key.clone(), row.name.clone());
            let is_new = self.seen.insert(name.clone());
            let below = if is_new && depth < DEEPEST { self.below(&name) } else { Vec::new() };
            if below.is_empty() && !self.below(&name).is_empty() {
                row.elsewhere = if is_new { " (below)" } else { " (above)" };
            }
            self.rows.push(row);
            self.add(&key, if depth < DEEPEST_DRAWN { &further } else { branch }, below, depth + 1);
        }
    }

    fn order(&self, rows: &mut [Row]) {
        let by = |number: fn(&Flow) -> f64| move |row: &Row| -row.flow.as_ref().map_or(0.0, number);
        let mut sort = |by: &dyn Fn(&Row) -> f64| rows.sort_by(|a, b| by(a).total_cmp(&by(b)));
        match self.sort {
            Sort::Order => {}
            Sort::Operations => sort(&by(|flow| flow.reads + flow.writes)),
            Sort::Bytes => sort(&by(|flow| flow.read_bytes + flow.write_bytes)),
            Sort::Latency => sort(&by(|flow| flow.p99.unwrap_or_default() as f64)),
            Sort::InFlight => sort(&|row| -(row.in_flight.unwrap_or_default() as f64)),
            Sort::Errors => sort(&|row| -(row.errors as f64)),
            Sort::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
        }
    }
}

fn export_row(pair: Pair<'_>, export: &ExportStatus) -> Row {
    let none = Totals::default();
    let totals = pair.now.counts.exports.get(&export.name).unwrap_or(&none);
    let before = pair.before.map(|before| before.counts.exports.get(&export.name).unwrap_or(&none));
    let flow = flow(pair, totals, before);
    let mut states = errors_of(flow.as_ref());
    if export.device.is_none() {
        states.insert(0, "device gone".into());
    }
    if export.health != "ok" {
        states.insert(0, export.health.clone());
    }
    let path = export.path.as_ref().map_or(String::new(), |path| format!(" at {path}"));
    let access = if export.read_only { ", read-only" } else { "" };
    Row {
        key: format!("={}", export.name),
        branch: String::new(),
        name: format!("\"{}\"", export.name),
        device: export.device.clone(),
        flow,
        in_flight: None,
        plugged: None,
        longest_wait: None,
        errors: totals.errors,
        elsewhere: "",
        states,
        about: format!("export of {}{access}{path}", format_bytes(export.bytes)),
    }
}

fn flow(pair: Pair<'_>, now: &Totals, before: Option<&Totals>) -> Option<Flow> {
    now.since(before?, pair.seconds()?)
}

fn errors_of(flow: Option<&Flow>) -> Vec<String> {
    let errors = flow.map_or(0, |flow| flow.errors);
    if errors > 0 { vec![format!("+{errors} errors")] } else { Vec::new() }
}

fn device_row(pair: Pair<'_>, device: &DeviceStatus) -> Row {
    let before = pair.device_before(&device.name).zip(pair.before).map(|(device, sample)| sample.totals(device));
    let flow = flow(pair, &pair.now.totals(device), before.as_ref());
    let mut states = states_of(pair, device);
    states.extend(errors_of(flow.as_ref()));
    let zones = device.zoned.as_ref().map_or(String::new(), |zoned| format!(", {} zones", zoned.zones));
    let policy = device.policy.as_ref().map_or(String::new(), |policy| format!(", policy {policy}"));
    let about = format!("{} of {}{zones}{policy}: {}", device.kind, format_bytes(device.bytes), device.description);
    Row {
        key: device.name.clone(),
        branch: String::new(),
        name: device.name.clone(),
        device: Some(device.name.clone()),
        flow,
        in_flight: Some(device.counters.in_flight),
        plugged: device.active_plugs,
        longest_wait: pair.now.counts.disks.get(&device.name).and_then(|disk| disk.longest_wait),
        errors: device.counters.errors,
        elsewhere: "",
        states,
        about,
    }
}

/// What is wrong or odd with a device, the worst first.
fn states_of(pair: Pair<'_>, device: &DeviceStatus) -> Vec<String> {
    let mut states = Vec::new();
    let mut say = |holds: bool, what: &str| {
        if holds {
            states.push(what.to_owned())
        }
    };
    say(device.drive.as_ref().is_some_and(|drive| drive.power == "off"), "no power");
    say(device.plug_failure.is_some(), "plug failed");
    if let Some(head) = &device.multipath {
        let usable = head.paths.iter().filter(|path| path.usable).count();
        say(usable == 0, "no path");
        say((1..head.paths.len()).contains(&usable), &format!("{usable}/{} paths", head.paths.len()));
    }
    say(device.suspended, "suspended");
    let stuck = pair.now.status.stuck.iter().filter(|stuck| stuck.device == device.name).count();
    say(stuck > 0, &format!("{stuck} stuck"));
    say(device.health != "ok", &device.health);
    say(device.read_only && device.health != "read-only", "read-only");
    states
}
