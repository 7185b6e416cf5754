//! Scenarios that were found once, and are run again without a generator: recording, replaying and shrinking them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::options::SwarmOptions;
use super::outcome::{Failure, Report};
use super::run_from;
use crate::choices::{Origin, SharedRecording};
use crate::model::Rule;
use crate::recording::{Recording, Scope};

/// A replay and how it ended.
#[derive(Debug)]
pub struct Replay {
    /// The report, or the rule that was broken.
    pub outcome: Result<Report, Box<Failure>>,
    /// What of the recording the run did not use: values that mean nothing any more, and choices that nothing asked for.
    pub unused: Vec<String>,
}

impl Replay {
    /// True if the run breaks the rule that the recording names.
    #[must_use]
    pub fn breaks(&self, rule: &str) -> bool {
        self.outcome.as_ref().is_err_and(|failure| format!("{:?}", failure.violation.rule) == rule)
    }
}

/// Records the choices of a run. It keeps what was recorded so far also when the run panics.
#[derive(Clone, Debug, Default)]
pub struct Recorder(SharedRecording);

impl Recorder {
    /// Runs one seed as [`run`](super::run) does, and records its choices.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(&self, seed: u64, options: &SwarmOptions) -> Result<Report, Box<Failure>> {
        *self.0.lock() = Recording::new(options.profile, seed);
        run_from(seed, options, &Origin::Recorder(self.0.clone()))
    }

    /// What was recorded of a run that has broken `rule`.
    #[must_use]
    pub fn take(self, rule: Rule) -> Recording {
        let mut recording = core::mem::take(&mut *self.0.lock());
        recording.rule = format!("{rule:?}");
        recording
    }
}

/// Runs a recorded scenario. Of `options` all counts but the profile and the limits of a seed.
#[must_use]
pub fn replay(recording: &Recording, options: &SwarmOptions) -> Replay {
    let player = SharedRecording::new(recording.fresh().into());
    let options = SwarmOptions { profile: recording.profile, ops: None, one_cut_of: None, ..options.clone() };
    let outcome = run_from(recording.seed, &options, &Origin::Player(player.clone()));
    let unused = player.lock().unused();
    Replay { outcome, unused }
}

/// Most replays of one attempt to make a recording smaller.
pub const MAX_REPLAYS: u32 = 1_500;

/// The smallest part of a recording that `shows` what it is to show, as far as removing scopes, removing choices and lowering numbers finds
/// it with [`MAX_REPLAYS`] replays.
pub fn shrink(recording: Recording, shows: &mut dyn FnMut(&Recording) -> bool) -> Recording {
    let mut shrinker = Shrinker { best: recording, shows, left: MAX_REPLAYS };
    loop {
        let before = shrinker.best.len();
        shrinker.remove_labels(0);
        for depth in 1..=MAX_DEPTH {
            shrinker.remove_scopes(depth);
            shrinker.remove_labels(depth);
        }
        shrinker.remove_choices();
        shrinker.lower_numbers();
        if shrinker.best.len() == before || shrinker.left == 0 {
            return shrinker.best;
        }
    }
}

/// Parts of the longest scope of a recording that are removed one by one.
const MAX_DEPTH: usize = 8;

struct Shrinker<'a> {
    best: Recording,
    shows: &'a mut dyn FnMut(&Recording) -> bool,
    /// Replays that may still be made.
    left: u32,
}

impl Shrinker<'_> {
    /// Takes a smaller recording if that shows the same.
    fn attempt(&mut self, smaller: Recording) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let shows = (self.shows)(&smaller);
        if shows {
            self.best = smaller;
        }
        shows
    }

    fn remove_scopes(&mut self, depth: usize) {
        let scopes: Vec<Scope> = self.best.scopes(depth).into_iter().collect();
        self.remove(scopes, |best, gone| best.without_scopes(gone));
    }

    /// Removes all choices of a label at once, within each scope of so many parts.
    fn remove_labels(&mut self, depth: usize) {
        let mut groups: BTreeMap<(Scope, String), BTreeSet<(Scope, String)>> = BTreeMap::new();
        for (scope, label) in self.best.keys() {
            groups.entry((scope.prefix(depth), label.clone())).or_default().insert((scope, label));
        }
        let groups: Vec<_> = groups.into_values().filter(|group| group.len() > 1).collect();
        self.remove(groups, |best, gone| best.without(&gone.iter().flatten().cloned().collect()));
    }

    fn remove_choices(&mut self) {
        let keys = self.best.keys();
        self.remove(keys, Recording::without);
    }

    /// Removes runs of `parts`: long ones first, then ever shorter ones.
    fn remove<T: Ord + Clone>(&mut self, mut parts: Vec<T>, without: impl Fn(&Recording, &BTreeSet<T>) -> Recording) {
        let mut length = parts.len();
        while length > 0 && self.left > 0 {
            let mut from = 0;
            while from < parts.len() {
                let gone: BTreeSet<T> = parts.iter().skip(from).take(length).cloned().collect();
                if self.attempt(without(&self.best, &gone)) {
                    parts.drain(from..(from + length).min(parts.len()));
                } else {
                    from += length;
                }
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
    }

    /// Halves numbers as long as that shows the same.
    fn lower_numbers(&mut self) {
        for key in self.best.keys() {
            while let Some(number) = self.best.value(&key).and_then(|word| word.parse::<u64>().ok()).filter(|n| *n > 1)
            {
                if !self.attempt(self.best.with_value(&key, (number / 2).to_string())) {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(text: &str) -> Recording {
        Recording::parse(&format!("shingle-scenario 1\nprofile stl\nrule Data\n{text}")).unwrap()
    }

    #[test]
    fn shrinking_leaves_only_what_shows_the_failure() {
        let noise: String =
            (1..50).map(|n| format!("life 1/host 1/op {n}: request=READ:{n}:1:none delay-ns={n}\n")).collect();
        let whole = recording(&format!(
            "{noise}life 2/disk 1: fault=Lose delay-ns=900\nlife 2/host 1/op 7: request=FLUSH:0:0:none\n"
        ));
        let shows = |smaller: &Recording| {
            let text = smaller.to_string();
            text.contains("fault=Lose") && text.contains("op 7: request=FLUSH")
        };
        let small = shrink(whole, &mut |smaller| shows(smaller));
        assert_eq!(small, recording("life 2/disk 1: fault=Lose\nlife 2/host 1/op 7: request=FLUSH:0:0:none\n"));
    }

    #[test]
    fn shrinking_lowers_numbers_while_they_show_the_failure() {
        let number = |smaller: &Recording| -> Option<u64> {
            let text = smaller.to_string();
            text.split_once("delay-ns=")?.1.trim().parse().ok()
        };
        let small = shrink(recording("disks: delay-ns=900"), &mut |smaller| number(smaller).is_some_and(|n| n > 100));
        assert_eq!(number(&small), Some(112));
    }
}
