//! Replays the scenario of a mutation, records it anew, or searches for one by seeds.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use shingle_sim::Recording;
use shingle_sim::model::Rule;
use shingle_sim::swarm::{Recorder, SwarmOptions, replay, run, shrink};

/// A planted bug and how it is found.
pub struct Mutation<'a> {
    /// The file of its scenario, without the ending.
    pub name: &'a str,
    /// A run with the bug.
    pub planted: SwarmOptions,
    /// The same without it.
    pub sound: SwarmOptions,
    pub rules: Rules<'a>,
    /// Seeds of a search.
    pub seeds: &'a [u64],
    /// Seeds of these that have to find it.
    pub at_least: u64,
}

/// Rules that a run with the mutation breaks.
#[derive(Clone, Copy)]
pub enum Rules<'a> {
    Any,
    /// One of these; a run that breaks another proves nothing.
    One(&'a [Rule]),
    /// One of these and no other.
    Only(&'a [Rule]),
}

impl Rules<'_> {
    fn has(self, rule: Rule) -> bool {
        match self {
            Rules::Any => true,
            Rules::One(rules) | Rules::Only(rules) => rules.contains(&rule),
        }
    }
}

/// Scenarios of which the shortest is taken.
const MAX_FOUND: usize = 8;
/// Choices below which a scenario is short enough to look for no other.
const SHORT: usize = 150;

/// The first seeds.
pub fn first<const N: usize>() -> [u64; N] {
    std::array::from_fn(|seed| seed as u64)
}

/// What the environment asks for.
enum Task {
    /// `SHINGLE_RECORD=all` or `missing`: search, shrink, and write the scenario, or only one that is not there.
    Record {
        only_missing: bool,
    },
    /// `SHINGLE_SEARCH=N`: search by seeds from N on. From 0 on as many seeds as [`Mutation::at_least`] says have to find it; elsewhere one.
    Search(u64),
    Replay,
}

fn task() -> Task {
    let variable = |name| std::env::var(name).ok();
    match (variable("SHINGLE_RECORD").as_deref(), variable("SHINGLE_SEARCH")) {
        (Some("all"), _) => Task::Record { only_missing: false },
        (Some("missing"), _) => Task::Record { only_missing: true },
        (Some(other), _) => panic!("SHINGLE_RECORD={other}: write all or missing"),
        (None, Some(first)) => Task::Search(first.parse().expect("SHINGLE_SEARCH is a seed")),
        (None, None) => Task::Replay,
    }
}

impl Mutation<'_> {
    /// Asserts that the mutation is found.
    pub fn is_found(&self) {
        match task() {
            Task::Replay => self.replay(),
            Task::Search(first) => self.search(first),
            Task::Record { only_missing } if only_missing && path(self.name).exists() => {}
            Task::Record { .. } => self.record(),
        }
    }

    fn replay(&self) {
        let recording = read(self.name);
        let with = replay(&recording, &self.planted);
        let outcome = with.outcome.as_ref().map(|_| "no rule is broken").map_err(ToString::to_string);
        assert!(with.breaks(&recording.rule), "{}: not {}, but: {outcome:?}", self.name, recording.rule);
        let rule = with.outcome.as_ref().err().map_or(Rule::Panic, |failure| failure.violation.rule);
        assert!(self.rules.has(rule), "{}: {rule:?} is no consequence of the mutation", self.name);
        let without = replay(&recording, &self.sound);
        if let Err(failure) = without.outcome {
            panic!("{}: without the mutation: {failure}", self.name);
        }
        let unused: Vec<&String> = with.unused.iter().filter(|choice| without.unused.contains(choice)).collect();
        assert!(unused.is_empty(), "{}: no run uses {unused:?}", self.name);
    }

    fn search(&self, first: u64) {
        if first > 0 {
            return self.search_afresh(first);
        }
        let broken: Vec<Rule> =
            self.seeds.iter().filter_map(|seed| Some(run(*seed, &self.planted).err()?.violation.rule)).collect();
        let found = broken.iter().filter(|rule| self.rules.has(**rule)).count() as u64;
        let seen: BTreeSet<Rule> = broken.iter().copied().collect();
        println!("{}: found by {found} of {} seeds; rules broken: {seen:?}", self.name, self.seeds.len());
        let is_strict = matches!(self.rules, Rules::Only(_));
        assert!(!is_strict || found == broken.len() as u64, "{}: {seen:?}", self.name);
        assert!(found >= self.at_least, "{}: {found} seeds find it", self.name);
    }

    /// Searches by ten times as many seeds, until one finds the mutation.
    fn search_afresh(&self, first: u64) {
        if let [seed] = self.seeds {
            return println!("skipped: {}: too few scenarios show it to search by other seeds than {seed}", self.name);
        }
        let options = SwarmOptions { one_cut_of: self.planted.one_cut_of.or(self.share(4)), ..self.planted.clone() };
        let seeds = first..first.saturating_add(10 * self.seeds.len() as u64);
        let finds = |seed: &u64| run(*seed, &options).is_err_and(|failure| self.rules.has(failure.violation.rule));
        let found = seeds.clone().find(finds);
        println!("{}: found by seed {found:?} of {seeds:?}", self.name);
        assert!(found.is_some(), "{}: none of the seeds {seeds:?} finds it", self.name);
    }

    /// One of so many power cuts, where a scenario has many.
    fn share(&self, of: u64) -> Option<u64> {
        self.planted.profile.has_branches().then_some(of)
    }

    /// Writes the shortest of the scenarios that the first seeds show, shrunk.
    fn record(&self) {
        // Few power cuts of many scenarios show a mutation sooner than all of one.
        let shares = [self.share(16), self.share(2), None];
        let found = shares.into_iter().find_map(|share| self.shortest(self.planted.one_cut_of.or(share)));
        let found = found.unwrap_or_else(|| panic!("{}: none of {} seeds shows it", self.name, self.seeds.len()));
        let mut small = self.shrunk(found);
        small.title = vec![self.name.to_owned()];
        write(self.name, &small);
    }

    /// The shortest of the scenarios that show the mutation.
    fn shortest(&self, one_cut_of: Option<u64>) -> Option<Recording> {
        let options = SwarmOptions { one_cut_of, ..self.planted.clone() };
        let mut shortest: Option<Recording> = None;
        for recording in self.seeds.iter().filter_map(|seed| self.recorded(*seed, &options)).take(MAX_FOUND) {
            let best = shortest.take().filter(|best| best.len() <= recording.len()).unwrap_or(recording);
            let is_short = best.len() < SHORT;
            shortest = Some(best);
            if is_short {
                break;
            }
        }
        shortest
    }

    /// The scenario of a seed, if that breaks a rule with the mutation and none without it.
    fn recorded(&self, seed: u64, options: &SwarmOptions) -> Option<Recording> {
        if catch_unwind(|| run(seed, options)).is_ok_and(|outcome| outcome.is_ok()) {
            return None;
        }
        let recorder = Recorder::default();
        let rule = match catch_unwind(AssertUnwindSafe(|| recorder.run(seed, options))) {
            Ok(outcome) => outcome.err()?.violation.rule,
            Err(_) => Rule::Panic,
        };
        let recording = recorder.take(rule);
        (self.rules.has(rule) && self.shows(&recording)).then_some(recording)
    }

    fn shrunk(&self, recording: Recording) -> Recording {
        let before = recording.len();
        let small = shrink(recording, &mut |smaller| self.shows(smaller));
        println!("{}: seed {}, {before} choices, {} after shrinking", self.name, small.seed, small.len());
        small
    }

    fn shows(&self, recording: &Recording) -> bool {
        let quiet = |options| catch_unwind(AssertUnwindSafe(|| replay(recording, options)));
        let breaks = quiet(&self.planted).is_ok_and(|with| with.breaks(&recording.rule));
        breaks && quiet(&self.sound).is_ok_and(|without| without.outcome.is_ok())
    }
}

/// The folder of the scenarios.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/scenarios")
}

fn path(name: &str) -> PathBuf {
    folder().join(format!("{name}.scenario"))
}

/// Reads a scenario.
pub fn read(name: &str) -> Recording {
    let path = path(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Recording::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes a scenario.
pub fn write(name: &str, recording: &Recording) {
    std::fs::write(path(name), recording.to_string()).unwrap();
}
