//! A recorded scenario: the choices that made a run of the simulator fail, as text.
//!
//! ```text
//! # stl: replay continues after a gap
//! profile stl
//! seed 2081513836
//! rule Durability
//! disks: zone-blocks=16 zoned-disks=2
//! life 1/host 1/op 3: kind=Write block=12 blocks=4 flags=FUA
//! life 1/disk 2/command 9: fault=Fail(Io)
//! life 1/after 40: cut=true
//! ```
//!
//! A line has a scope and the choices that were made in it, each a label and a value. What a line does not say takes its calm value
//! ([`Choices`](crate::choices::Choices)). Lines and choices can be removed by hand; their order means nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use crate::profile::Profile;

/// Scope of a choice: parts from the outermost to the innermost, as in `life 1/host 2/op 17`. A part without a number has 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope(Vec<(String, u64)>);

impl Scope {
    pub(crate) fn child(&self, name: &str, number: u64) -> Self {
        let mut parts = self.0.clone();
        parts.push((name.to_string(), number));
        Self(parts)
    }

    /// The first `depth` parts.
    pub(crate) fn prefix(&self, depth: usize) -> Self {
        Self(self.0[..depth.min(self.0.len())].to_vec())
    }

    pub(crate) fn depth(&self) -> usize {
        self.0.len()
    }

    fn is_within(&self, outer: &Scope) -> bool {
        self.0.starts_with(&outer.0)
    }

    fn parse(text: &str) -> Option<Self> {
        let part = |part: &str| match part.rsplit_once(' ') {
            Some((name, number)) => Some((name.to_string(), number.parse().ok()?)),
            None => Some((part.to_string(), 0)),
        };
        text.split('/').filter(|part| !part.is_empty()).map(part).collect::<Option<_>>().map(Self)
    }
}

shingle_core::impl_display!(Scope, |self, f| {
    for (place, (name, number)) in self.0.iter().enumerate() {
        let slash = if place > 0 { "/" } else { "" };
        match number {
            0 => write!(f, "{slash}{name}")?,
            number => write!(f, "{slash}{name} {number}")?,
        }
    }
    Ok(())
});

/// The choices of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The profile of the swarm.
    pub profile: Profile,
    /// The rule that the run breaks, by name.
    pub rule: String,
    /// The seed that has shown it.
    pub seed: u64,
    /// Lines of text in front: what the run shows.
    pub title: Vec<String>,
    choices: BTreeMap<Scope, Vec<(String, String)>>,
    keeps_all: bool,
    /// Choices that were asked for in a replay.
    taken: BTreeSet<(Scope, String)>,
    /// Values that a replay could not use.
    misfits: Vec<String>,
}

/// An error of the text of a recording, with its line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingError {
    line: usize,
    what: String,
}

shingle_core::impl_error!(RecordingError, |self, f| write!(f, "line {}: {}", self.line, self.what));

/// The first word of the line that has the version.
const MAGIC: &str = "shingle-scenario 1";

impl Recording {
    /// An empty recording of a seed.
    pub(crate) fn new(profile: Profile, seed: u64) -> Self {
        Self { profile, seed, ..Self::default() }
    }

    /// Reads a recording.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let mut read = Self::default();
        let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let wrong = |line: usize, what: &str| RecordingError { line, what: what.to_string() };
        let first = lines.by_ref().find(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let (_, line) = first.ok_or_else(|| wrong(1, "empty file"))?;
        if line != MAGIC {
            return Err(wrong(1, &format!("not a scenario of this version: the first line is not \"{MAGIC}\"")));
        }
        read.title =
            text.lines().take_while(|line| line.starts_with('#')).map(|line| line[1..].trim().to_string()).collect();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            read.read_line(line).map_err(|what| wrong(number, &what))?;
        }
        Ok(read)
    }

    fn read_line(&mut self, line: &str) -> Result<(), String> {
        if let Some(name) = line.strip_prefix("profile ") {
            let known = Profile::ALL.into_iter().find(|profile| profile.name() == name);
            self.profile = known.ok_or_else(|| format!("unknown profile \"{name}\""))?;
            return Ok(());
        }
        if let Some(seed) = line.strip_prefix("seed ") {
            self.seed = seed.parse().map_err(|_| format!("\"{seed}\" is no seed"))?;
            return Ok(());
        }
        if let Some(rule) = line.strip_prefix("rule ") {
            self.rule = rule.to_string();
            return Ok(());
        }
        let (scope, choices) = line.split_once(':').ok_or("no scope: write \"scope: label=value ...\"")?;
        let scope = Scope::parse(scope).ok_or_else(|| format!("\"{scope}\" is no scope"))?;
        self.add_item(scope.clone());
        for choice in choices.split_whitespace() {
            let (label, value) = choice.split_once('=').ok_or_else(|| format!("\"{choice}\" has no value"))?;
            self.add(scope.clone(), label.to_string(), value.to_string());
        }
        Ok(())
    }

    /// Adds a choice. The first one of a label in a scope counts.
    pub(crate) fn add(&mut self, scope: Scope, label: String, value: String) {
        let choices = self.choices.entry(scope).or_default();
        if choices.iter().all(|(known, _)| *known != label) {
            choices.push((label, value));
        }
    }

    /// Adds an item of a list, perhaps without choices.
    pub(crate) fn add_item(&mut self, scope: Scope) {
        self.choices.entry(scope).or_default();
    }

    /// An empty recording that keeps also what has shown nothing.
    #[cfg(test)]
    pub(crate) fn of_all(profile: Profile, seed: u64) -> Self {
        Self { keeps_all: true, ..Self::new(profile, seed) }
    }

    /// Removes all within a scope, as it has shown nothing.
    pub(crate) fn forget(&mut self, outer: &Scope) {
        if self.keeps_all {
            return;
        }
        // Scopes within another one follow it.
        let mut rest = self.choices.split_off(outer);
        let next = rest.keys().find(|scope| !scope.is_within(outer)).cloned();
        if let Some(next) = next {
            self.choices.append(&mut rest.split_off(&next));
        }
    }

    /// The value of a choice, for a replay.
    pub(crate) fn take(&mut self, scope: &Scope, label: &str) -> Option<String> {
        let value = self.choices.get(scope)?.iter().find(|(known, _)| known == label)?.1.clone();
        self.taken.insert((scope.clone(), label.to_string()));
        Some(value)
    }

    pub(crate) fn misfit(&mut self, what: String) {
        self.misfits.push(what);
    }

    /// The number of the next item of this name in `scope` after `last`.
    pub(crate) fn next_item(&self, scope: &Scope, name: &str, last: u64) -> Option<u64> {
        let (from, to) = (scope.child(name, last + 1), scope.child(name, u64::MAX));
        let (next, _) = self.choices.range((Bound::Included(from), Bound::Included(to))).next()?;
        Some(next.0[scope.depth()].1)
    }

    /// Number of choices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.choices.values().map(Vec::len).sum()
    }

    /// True if all choices take their calm value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.choices.is_empty()
    }

    /// Choices that a replay did not use: those with a value that has lost its meaning, and those that nothing asked for.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        let of_scope = |(scope, choices): (&Scope, &Vec<(String, String)>)| {
            let unasked = |(label, _): &&(String, String)| !self.taken.contains(&(scope.clone(), label.clone()));
            let text = |(label, value): &(String, String)| format!("{scope}: {label}={value} was not asked for");
            choices.iter().filter(unasked).map(text).collect::<Vec<_>>()
        };
        self.misfits.iter().cloned().chain(self.choices.iter().flat_map(of_scope)).collect()
    }

    /// A copy for another replay.
    #[must_use]
    pub(crate) fn fresh(&self) -> Self {
        Self { taken: BTreeSet::new(), misfits: Vec::new(), ..self.clone() }
    }

    /// Scope and label of every choice.
    pub(crate) fn keys(&self) -> Vec<(Scope, String)> {
        let of = |(scope, choices): (&Scope, &Vec<(String, String)>)| {
            choices.iter().map(|(label, _)| (scope.clone(), label.clone())).collect::<Vec<_>>()
        };
        self.choices.iter().flat_map(of).collect()
    }

    /// A copy without these choices.
    pub(crate) fn without(&self, gone: &BTreeSet<(Scope, String)>) -> Self {
        let mut left = self.fresh();
        for (scope, choices) in &mut left.choices {
            choices.retain(|(label, _)| !gone.contains(&(scope.clone(), label.clone())));
        }
        left
    }

    /// A copy without the choices within these scopes.
    pub(crate) fn without_scopes(&self, gone: &BTreeSet<Scope>) -> Self {
        let mut left = self.fresh();
        left.choices.retain(|scope, _| !(1..=scope.depth()).any(|depth| gone.contains(&scope.prefix(depth))));
        left
    }

    /// The scopes of so many parts, or of fewer where there are no more.
    pub(crate) fn scopes(&self, depth: usize) -> BTreeSet<Scope> {
        self.choices.keys().map(|scope| scope.prefix(depth)).collect()
    }

    /// A copy with another value of one choice.
    pub(crate) fn with_value(&self, (scope, label): &(Scope, String), value: String) -> Self {
        let mut changed = self.fresh();
        let choices = changed.choices.get_mut(scope).into_iter().flatten();
        choices.filter(|(known, _)| known == label).for_each(|choice| choice.1 = value.clone());
        changed
    }

    /// The value of a choice.
    pub(crate) fn value(&self, (scope, label): &(Scope, String)) -> Option<&str> {
        let choices = self.choices.get(scope)?;
        choices.iter().find(|(known, _)| known == label).map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title.iter().flat_map(|line| line.lines()).try_for_each(|line| writeln!(f, "# {line}"))?;
        writeln!(f, "{MAGIC}\nprofile {}\nseed {}", self.profile.name(), self.seed)?;
        if !self.rule.is_empty() {
            writeln!(f, "rule {}", self.rule)?;
        }
        for (scope, choices) in &self.choices {
            write!(f, "{scope}:")?;
            choices.iter().try_for_each(|(label, value)| write!(f, " {label}={value}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}
