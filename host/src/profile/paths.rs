//! Sets of paths: one disk, and the ways to it from one host or several.
//!
//! ```text
//!   [[path]] ──> controller of [array] ──> [[segment]] ──> ... ──> [array] ──> [ram]
//!   [[path]] ──────────────────────────────────^
//! ```
//!
//! A head stands above the paths of its host; that is not a part of the set, so that each can be tried over the same paths.

use std::collections::BTreeMap;

use shingle_core::block::{DeviceId, Stack};
use shingle_core::random::Rng;
use shingle_core::time::Duration;
use shingle_drives::{Array, ArrayConfig, Controller, Link, LinkConfig, RamConfig, RamDisk};

use super::build::{BuildError, add};
use super::links::{read_link, read_path, read_time};
use super::values::{SECOND, Table, Values};
use super::{ProfileError, Read, ram};
use crate::fields::{At, Diagnostic, Source};

/// The sets that ship, by name.
const SHIPPED: [(&str, &str); 11] = [
    ("paths-fc32-two", include_str!("../../profiles/paths-fc32-two.toml")),
    ("paths-fc32-four", include_str!("../../profiles/paths-fc32-four.toml")),
    ("paths-tcp-30ms", include_str!("../../profiles/paths-tcp-30ms.toml")),
    ("paths-asymmetric", include_str!("../../profiles/paths-asymmetric.toml")),
    ("paths-jitter", include_str!("../../profiles/paths-jitter.toml")),
    ("paths-stall", include_str!("../../profiles/paths-stall.toml")),
    ("paths-burst", include_str!("../../profiles/paths-burst.toml")),
    ("paths-fast-fail", include_str!("../../profiles/paths-fast-fail.toml")),
    ("paths-changing", include_str!("../../profiles/paths-changing.toml")),
    ("paths-cable", include_str!("../../profiles/paths-cable.toml")),
    ("paths-hosts", include_str!("../../profiles/paths-hosts.toml")),
];

const MOST_HOSTS: usize = 4;
const MOST_PATHS: usize = 8;
const MOST_SEGMENTS: usize = 8;
const MOST_CONTROLLERS: usize = 16;

/// One disk and the ways to it.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSet {
    /// What it is called.
    pub name: String,
    /// What it is, in a line.
    pub description: String,
    /// The disk at the end.
    pub disk: RamConfig,
    /// Its controllers, if they differ.
    pub array: Option<ArrayConfig>,
    /// Wires that several paths share; each leads to one before it.
    pub segments: Vec<Segment>,
    /// The paths of all hosts, in the order of the file.
    pub paths: Vec<PathProfile>,
}

/// A wire that several paths share.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// What it is called.
    pub name: String,
    /// The segment behind it, by its place in the list; `None`: the disk, or the array.
    pub to: Option<usize>,
    /// What it is like.
    pub link: LinkConfig,
}

/// One path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathProfile {
    /// What it is called.
    pub name: String,
    /// The host whose it is.
    pub host: String,
    /// The controller it leads to, by its place in the array's list.
    pub controller: Option<usize>,
    /// The segment it goes through, by its place in the list.
    pub through: Option<usize>,
    /// Whether the disk is at home behind it: what ANA calls optimized.
    pub optimized: bool,
    /// What it is like.
    pub link: LinkConfig,
}

/// A path in a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltPath {
    /// What it is called.
    pub name: String,
    /// The host whose it is.
    pub host: String,
    /// Whether the disk is at home behind it.
    pub optimized: bool,
    /// Its device.
    pub device: DeviceId,
}

impl PathSet {
    /// The names of the sets that ship.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The set of that name, or in the file at that path.
    ///
    /// # Errors
    /// If there is none, it cannot be read, or it has mistakes.
    pub fn find(name_or_path: &str) -> Result<Self, ProfileError> {
        let source = Self::source(name_or_path)?;
        Self::parse(&super::name_of(&source, name_or_path), source)
    }

    /// The text of that set.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn source(name_or_path: &str) -> Result<Source, ProfileError> {
        super::find_source(&SHIPPED, name_or_path)
    }

    /// Reads a set; all mistakes come at once, each with its line.
    ///
    /// # Errors
    /// The mistakes.
    pub fn parse(name: &str, source: Source) -> Result<Self, ProfileError> {
        super::parse_with(source, |text, errors| {
            let set = super::read(text, errors, &[("paths", read as Read<Parts>)]).map(|(description, set)| {
                let (disk, array, segments, paths) = set;
                Self { name: name.to_owned(), description, disk, array, segments, paths }
            });
            // What each table allows need not go together.
            let devices = set.as_ref().map(|set| set.add_to(&mut Stack::new(), false, 1));
            errors.extend(devices.and_then(Result::err).map(|error| Diagnostic::general(error.to_string())));
            set
        })
    }

    /// The hosts, in the order in which they first appear.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = Vec::new();
        for path in &self.paths {
            if !hosts.contains(&path.host.as_str()) {
                hosts.push(&path.host);
            }
        }
        hosts
    }

    /// Adds the disk and all ways to it to `stack`; what is drawn follows from `seed`. `keep_data`: what is written is there when it
    /// is read, at the price of that much memory.
    ///
    /// # Errors
    /// If the parameters make no devices.
    pub fn add_to(&self, stack: &mut Stack, keep_data: bool, seed: u64) -> Result<Vec<BuiltPath>, BuildError> {
        let mut rng = Rng::new(seed);
        let disk = RamConfig { memory_backed: keep_data, seed: rng.draw(), ..self.disk.clone() };
        let mut end = add(stack, RamDisk::new(&disk))?;
        if let Some(array) = &self.array {
            let array = ArrayConfig { seed: rng.draw(), ..array.clone() };
            end = add(stack, Array::new(end, stack.limits(end), array))?;
        }
        let mut segments: Vec<DeviceId> = Vec::new();
        for Segment { to, link, .. } in &self.segments {
            let below = to.map_or(end, |to| segments[to]);
            segments.push(add_link(stack, below, LinkConfig { keep_data, seed: rng.draw(), ..link.clone() })?);
        }
        let build = |path: &PathProfile| {
            let mut below = path.through.map_or(end, |through| segments[through]);
            if let Some(array) = stack.device::<Array>(end) {
                let controller = Controller::new(below, array, path.controller.unwrap_or(0));
                below = add(stack, controller)?;
            }
            let link = LinkConfig { keep_data, seed: rng.draw(), ..path.link.clone() };
            let (name, host, optimized) = (path.name.clone(), path.host.clone(), path.optimized);
            Ok(BuiltPath { name, host, optimized, device: add_link(stack, below, link)? })
        };
        self.paths.iter().map(build).collect()
    }
}

fn add_link(stack: &mut Stack, below: DeviceId, config: LinkConfig) -> Result<DeviceId, BuildError> {
    add(stack, Link::new(below, stack.limits(below), config))
}

type Parts = (RamConfig, Option<ArrayConfig>, Vec<Segment>, Vec<PathProfile>);

/// Names that are there to be referred to, in their order.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    /// Notes a new one.
    fn define(&mut self, table: &mut Table<'_>) -> String {
        let Some(At { value, span }) = table.name("name", "\"a\"") else { return String::new() };
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if value.is_empty() || value.len() > 32 || !value.chars().all(fits) {
            let label = "write 1 to 32 letters, digits, `-`, `_` and `.`";
            table.error(Diagnostic::at(span, "this is no name").label(label));
        } else if self.0.contains(&value) {
            table.error(Diagnostic::at(span, format!("there is another `{value}`")).label("choose another name"));
        }
        self.0.push(value.clone());
        value
    }

    /// The place of the one that key `key` refers to, if the key is there.
    fn refer(&self, table: &mut Table<'_>, key: &'static str) -> Option<usize> {
        if !table.has(key) {
            return None;
        }
        let At { value, span } = table.name(key, "\"a\"")?;
        let found = self.0.iter().position(|name| *name == value);
        if found.is_none() {
            let known =
                if self.0.is_empty() { "there are none".into() } else { format!("known are: {}", self.0.join(", ")) };
            table.error(Diagnostic::at(span, format!("`{key}` names nothing that stands before it")).label(known));
        }
        found
    }
}

fn read(values: &mut Values<'_>) -> Option<Parts> {
    let disk = ram::read(values);
    let (mut controllers, mut segments) = (Names::default(), Names::default());
    let array = values.has("array").then(|| read_array(values, &mut controllers));
    let wires = values.tables("segment", 0..=MOST_SEGMENTS, |table| {
        let to = segments.refer(table, "to");
        Segment { name: segments.define(table), to, link: read_link(table) }
    });
    let mut names = Names::default();
    let paths = values.tables("path", 1..=MOST_HOSTS * MOST_PATHS, |table| {
        let name = names.define(table);
        let controller = read_controller(table, array.is_some(), &controllers);
        let through = segments.refer(table, "through");
        read_one(table, name, controller, through)
    });
    check_hosts(values, &paths);
    Some((disk?, array.map_or(Some(None), |array| array.map(Some))?, wires, paths))
}

/// Reads `[array]` and its controllers.
fn read_array(values: &mut Values<'_>, names: &mut Names) -> Option<ArrayConfig> {
    let array = values.table("array", |table| {
        let allowed = Duration::ZERO..=SECOND;
        let read = read_time(table, ["read", "read-sd", "read-shape"], allowed.clone());
        let write = read_time(table, ["write", "write-sd", "write-shape"], allowed);
        for (name, time) in [("read", &read), ("write", &write)] {
            table.check(time.validate().map_err(|error| format!("`{name}`: {error}")));
        }
        ArrayConfig { weights: Vec::new(), servers: table.count("servers", 1..=65_536), read, write, seed: 1 }
    });
    let weights = values.tables("controller", 1..=MOST_CONTROLLERS, |table| {
        names.define(table);
        table.count("weight", 1..=10_000)
    });
    array.map(|array| ArrayConfig { weights, ..array })
}

fn read_controller(table: &mut Table<'_>, has_array: bool, names: &Names) -> Option<usize> {
    if has_array && !table.has("controller") {
        table.missing("controller", "\"a\"");
    }
    // Without an array it is a key that does not exist.
    if has_array { names.refer(table, "controller") } else { None }
}

fn read_one(table: &mut Table<'_>, name: String, controller: Option<usize>, through: Option<usize>) -> PathProfile {
    const STATES: [(&str, bool); 2] = [("optimized", true), ("non-optimized", false)];
    let host = if table.has("host") { table.name("host", "\"host\"").map(|at| at.value) } else { None };
    let state = if table.has("state") { table.word("state", &STATES) } else { None };
    let (host, optimized) = (host.unwrap_or_else(|| "host".into()), state.unwrap_or(true));
    PathProfile { name, host, controller, through, optimized, link: read_path(table) }
}

fn check_hosts(values: &mut Values<'_>, paths: &[PathProfile]) {
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    paths.iter().for_each(|path| *hosts.entry(&path.host).or_default() += 1);
    if hosts.len() > MOST_HOSTS {
        values.error(Diagnostic::general(format!("{} hosts are more than {MOST_HOSTS}", hosts.len())));
    }
    for (host, count) in hosts.into_iter().filter(|(_, count)| *count > MOST_PATHS) {
        values.error(Diagnostic::general(format!("host `{host}` has {count} paths, and {MOST_PATHS} are the most")));
    }
}
