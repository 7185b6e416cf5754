//! Several faulty paths over one disk, the head above them, and who operates it.
//!
//! ```text
//!   hosts ──> plug ──> head ──┬── path ──┬──> disk
//!   operator ── messages ──┘  ├── path ──┤
//!                             └── path ──┘ each with its own commands under way when the host's power goes
//! ```

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::base::{add, between, some};
use super::options::SwarmOptions;
use super::path::{Board, FaultyPath, PathHabits};
use crate::choices::{Choices, choices_by_name};
use crate::disk::{CrashConfig, Leaf};
use crate::model::Violation;
use shingle_core::block::{Bio, Cx, DeviceId, Op, Reason, Silence, Stack, Why};
use shingle_core::multipath::{
    AnaState, Group, Groups, Head, HeadOptions, PathConfig, PathHealth, PolicyKind, PolicyOptions, Rules,
};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

choices_by_name!(AnaState, PolicyKind, Silence);

/// Most paths of a recorded scenario.
const MAX_PATHS: usize = 8;

/// What a seed draws of paths.
#[derive(Clone, Debug)]
pub(super) struct PathsPlan {
    pub paths: Vec<PathHabits>,
    pub policy: PolicyKind,
    /// Options of the policy, if it has any.
    pub policy_options: PolicyOptions,
    pub options: HeadOptions,
    /// Whether nothing ever happens to the first path.
    pub steady: bool,
    /// Whether the disk never fails.
    pub sound: bool,
    /// Whether a path never tells that it is silent.
    pub mute: bool,
    /// When the disk loses its power while the host goes on, if it does.
    pub outages: Option<Outages>,
}

/// Losses of power of the disk alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outages {
    /// How many in a life, at most.
    pub most: u64,
    /// The longest time before each.
    pub pause: Duration,
    /// The longest time without power.
    pub length: Duration,
}

impl Outages {
    fn draw(rng: &mut Rng) -> Self {
        let millis = |rng: &mut Rng, from: &[u64]| Duration::from_millis(some(rng, from));
        let pause = millis(rng, &[3, 30, 300]);
        Self { most: between(rng, 1, 4), pause, length: millis(rng, &[1, 20, 400]) }
    }
}

impl PathsPlan {
    /// Paths over `disk`, which is `sound` or not.
    pub fn draw(disk: &CrashConfig, sound: bool, rng: &mut Rng) -> Self {
        // From a copy, so that the worlds of older seeds stay as they were.
        let own = &mut rng.clone().fork();
        let outages = own.chance(1, 3).then(|| Outages::draw(own));
        let policy_options = if own.chance(1, 3) { draw_policy_options(own) } else { PolicyOptions::default() };
        let steady = rng.chance(1, 2) && outages.is_none();
        let mut paths: Vec<PathHabits> = (0..between(rng, 2, 4)).map(|_| draw_path(disk, rng)).collect();
        if steady {
            (paths[0].refused, paths[0].given_up, paths[0].dropped) = (0, 0, 0);
        }
        let longest = paths.iter().map(|path| bound_of(path, disk).0).max().unwrap_or_default();
        // One that never tells, and has told all that it will when the head has waited for so long.
        let told = paths.iter_mut().skip(1).find(|path| path.silence == Silence::Told);
        let mute = told.filter(|_| rng.chance(1, 3)).map(|path| path.answer = None).is_some();
        let ms = |rng: &mut Rng, from: &[u64]| Duration::from_millis(some(rng, from));
        let waits = rng.chance(1, 2);
        let options = HeadOptions {
            no_path_timeout: (!waits).then(|| ms(rng, &[5, 100, 2_000])),
            most_waiting: some(rng, &[1, 4, 1 << 16]),
            attempts: some(rng, &[0, 1, 5]),
            pause: ms(rng, &[1, 100]),
            probe: ms(rng, &[50, 1_000]),
            change_timeout: ms(rng, &[5, 1_000]),
            delayed_removal: ms(rng, &[0, 5, 500]),
            silence_timeout: mute.then_some(Duration(longest)),
            may_double_appends: rng.chance(1, 3),
            ..HeadOptions::default()
        };
        let options = HeadOptions { rules: rules_for(options.no_path_timeout, options.attempts), ..options };
        let policy = some(rng, &PolicyKind::ALL);
        let policy_options = of_policy(policy, policy_options);
        Self { paths, policy, policy_options, options, steady, sound, mute, outages }
    }

    /// The paths with each value recorded, or replaced by the recorded one; rates are not. What has to fit to the paths is computed from them.
    pub fn pinned(drawn: Option<Self>, disk: &CrashConfig, choices: &mut Choices) -> Option<Self> {
        let count = choices.pin("paths", 0, drawn.as_ref().map_or(0, |plan| plan.paths.len()));
        // A recorded scenario has at least two paths, or none.
        let drawn = drawn.filter(|_| count > 0)?;
        let path = |number: usize| {
            let path = *drawn.paths.get(number).unwrap_or(&drawn.paths[0]);
            choices.scoped("path", number as u64 + 1, |choices| pinned_path(path, disk, choices))
        };
        let paths: Vec<PathHabits> = (0..count.clamp(2, MAX_PATHS)).map(path).collect();
        let HeadOptions {
            no_path_timeout, most_waiting, attempts, pause, probe, change_timeout, delayed_removal, ..
        } = drawn.options;
        let no_path_timeout = choices.pin("no-path-timeout-ns", None, no_path_timeout);
        let attempts = choices.pin("attempts", 5, u32::from(attempts)) as u8;
        let mute = paths.iter().any(|path| path.silence == Silence::Told && path.answer.is_none());
        let longest = paths.iter().map(|path| bound_of(path, disk).0).max().unwrap_or_default();
        let options = HeadOptions {
            rules: rules_for(no_path_timeout, attempts),
            no_path_timeout,
            most_waiting: choices.pin("most-waiting", 1 << 16, most_waiting),
            attempts,
            pause: choices.pin("pause-ns", Duration::from_millis(1), pause),
            probe: choices.pin("probe-ns", Duration::from_millis(50), probe),
            change_timeout: choices.pin("change-timeout-ns", Duration::from_millis(1_000), change_timeout),
            delayed_removal: choices.pin("delayed-removal-ns", Duration::ZERO, delayed_removal),
            silence_timeout: mute.then_some(Duration(longest)),
            may_double_appends: choices.pin("may-double-appends", false, drawn.options.may_double_appends),
            ..drawn.options
        };
        let policy = choices.decide("path-policy", (PolicyKind::RoundRobin, &PolicyKind::ALL), |_| drawn.policy);
        let PolicyOptions { decay, window, low_water } = drawn.policy_options;
        let policy_options = PolicyOptions {
            decay: choices.pin("policy-decay", None, decay),
            window: choices.pin("policy-window-ns", None, window),
            low_water: choices.pin("policy-low-water", None, low_water),
        };
        let policy_options = of_policy(policy, policy_options);
        let steady = choices.pin("is-steady", false, drawn.steady);
        let sound = choices.pin("is-sound", false, drawn.sound);
        let outages =
            choices.pin("has-outages", false, drawn.outages.is_some()).then(|| drawn.outages.unwrap_or_default());
        Some(Self { paths, policy, policy_options, options, steady, sound, mute, outages })
    }

    /// One group, or with dm-multipath's rules the first path before the others.
    fn groups(&self) -> Groups {
        if self.options.rules == Rules::Nvme {
            return Groups::one_with(self.policy, self.policy_options);
        }
        let group =
            |paths: usize| Group::new(self.policy, self.policy.build_with(&self.policy_options), [1].repeat(paths));
        Groups::new(Vec::from([group(1), group(self.paths.len() - 1)]), 0)
    }

    /// Puts the paths and their head over a disk.
    pub fn build(
        &self,
        stack: &mut Stack,
        disk: DeviceId,
        choices: &mut Choices,
        options: &SwarmOptions,
    ) -> Result<Heads, String> {
        let limits = stack.limits(disk).clone();
        let (mut paths, mut configs, board) = (Vec::new(), Vec::new(), Board::default());
        for habits in &self.paths {
            let is_optimized = paths.is_empty() || choices.usual("is-optimized", 1, 2);
            let state = if is_optimized { AnaState::Optimized } else { AnaState::NonOptimized };
            // In a group that stands before the others a path gets all, whatever it is.
            let board = if self.options.rules == Rules::Dm { Board::default() } else { board.clone() };
            let choices = choices.fork("path", paths.len() as u64 + 1);
            let path = FaultyPath::new((disk, &limits), *habits, (state, &board), choices);
            let path = add(stack, Box::new(path))?;
            configs.push((config_of(path, state, stack), &limits));
            paths.push(path);
        }
        let head = Head::grouped(&configs, self.groups(), self.options.clone()).map_err(|error| error.to_string())?;
        let head = add(stack, Box::new(guarded(head, options)))?;
        let may_lack = !(self.steady && self.sound);
        let may_be_uncertain = !self.options.may_double_appends;
        let Self { steady, sound, mute, .. } = *self;
        Ok(Heads { head, paths, steady, sound, mute, may_lack, may_be_uncertain, calm: true })
    }
}

#[cfg(feature = "sabotage")]
fn guarded(head: Head, options: &SwarmOptions) -> Head {
    head.without(options.sabotage_paths)
}

#[cfg(not(feature = "sabotage"))]
fn guarded(head: Head, _: &SwarmOptions) -> Head {
    head
}

fn config_of(path: DeviceId, state: AnaState, stack: &Stack) -> PathConfig {
    let (silence, identity) = (stack.silence(path), Some("the disk".to_string()));
    let losses = stack.device(path).map(FaultyPath::losses);
    PathConfig { silence, identity, state, losses, ..PathConfig::new(path) }
}

/// After so long nothing lands any more that was given up: what arrives late is done when the disk has had its time.
fn bound_of(path: &PathHabits, disk: &CrashConfig) -> Duration {
    Duration(path.late.0 + path.way[1].0 + 2 * disk.timeout.0 + 1)
}

/// Rules for a head with these options. Where nobody else brings paths back, what waits for one for ever could be stuck.
fn rules_for(no_path_timeout: Option<Duration>, attempts: u8) -> Rules {
    if no_path_timeout.is_none() || attempts > 0 { Rules::Nvme } else { Rules::Dm }
}

fn pinned_path(drawn: PathHabits, disk: &CrashConfig, choices: &mut Choices) -> PathHabits {
    let among = [Silence::AtOnce, Silence::Told, Silence::After(Duration::ZERO)];
    // Of a stated time only that there is one.
    let kind = if let Silence::After(_) = drawn.silence { among[2] } else { drawn.silence };
    let mut path = PathHabits {
        way: [drawn.way[0], choices.pin("way-ns", drawn.way[0], drawn.way[1])],
        ordered: choices.pin("ordered", true, drawn.ordered),
        down: choices.pin("down-ns", Duration::ZERO, drawn.down),
        patience: choices.pin("patience-ns", Duration::ZERO, drawn.patience),
        late: choices.pin("late-ns", Duration::ZERO, drawn.late),
        silence: choices.decide("silence", (Silence::AtOnce, &among), |_| kind),
        answer: choices.pin("answer-ns", Some(Duration::ZERO), drawn.answer),
        ..drawn
    };
    if let Silence::After(_) = path.silence {
        path.silence = Silence::After(bound_of(&path, disk));
    }
    path
}

/// Options within their ranges, the ends of which are more likely.
fn draw_policy_options(rng: &mut Rng) -> PolicyOptions {
    PolicyOptions {
        decay: Some(some(rng, &[0, 10, 99])),
        window: Some(Duration::from_micros(some(rng, &[100, 1_000, 50_000]))),
        low_water: Some(some(rng, &[1, 5, 1_000_000])),
    }
}

/// These options if the policy takes them; otherwise none.
fn of_policy(policy: PolicyKind, options: PolicyOptions) -> PolicyOptions {
    if options.check(policy).is_ok() { options } else { PolicyOptions::default() }
}

fn draw_path(disk: &CrashConfig, rng: &mut Rng) -> PathHabits {
    let micros = |rng: &mut Rng, from: &[u64]| Duration::from_micros(some(rng, from));
    let millis = |rng: &mut Rng, from: &[u64]| Duration::from_millis(some(rng, from));
    let late = millis(rng, &[1, 20, 200]);
    let slowest = micros(rng, &[10, 100, 3_000]);
    let kind = rng.below(4);
    let answers = kind == 1 || kind == 2 || rng.chance(1, 2);
    let mut habits = PathHabits {
        way: [Duration::from_micros(1), slowest],
        ordered: rng.chance(1, 2),
        refused: some(rng, &[0, 0, 5]),
        given_up: some(rng, &[0, 10, 40]),
        dropped: some(rng, &[0, 2, 8]),
        down: millis(rng, &[1, 30, 300]),
        patience: millis(rng, &[1, 20, 100]),
        late,
        silence: Silence::AtOnce,
        answer: answers.then(|| micros(rng, &[1, 500, 20_000, 100_000])),
    };
    habits.silence = match kind {
        0 => Silence::AtOnce,
        3 => Silence::After(bound_of(&habits, disk)),
        _ => Silence::Told,
    };
    habits
}

/// The head of a world, and its paths.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    pub head: DeviceId,
    pub paths: Vec<DeviceId>,
    /// Whether nothing ever happens to the first path.
    pub steady: bool,
    sound: bool,
    mute: bool,
    /// Whether all paths may fail at once.
    may_lack: bool,
    may_be_uncertain: bool,
    /// Whether nothing goes wrong now.
    calm: bool,
}

impl Heads {
    fn head<'a>(&self, stack: &'a Stack) -> Option<&'a Head> {
        stack.device(self.head)
    }

    /// Appends that were sent again although they may have been done.
    pub fn doubled(&self, stack: &Stack) -> u64 {
        self.head(stack).map_or(0, |head| head.counters().doubled_appends)
    }

    /// How often the disk has lost its cache, as far as the head has heard.
    pub fn losses(&self, stack: &Stack) -> u64 {
        self.head(stack).map_or(0, |head| head.counters().losses)
    }

    /// Whether a request may fail because of `why`, since paths did, or the disk's power, if that `was_lost`.
    pub fn excuse(&self, op: Op, why: Option<&Why>, was_lost: bool) -> bool {
        let mut why = why;
        while let Some(Why { reason: Reason::Below(below), .. }) = why {
            why = Some(below);
        }
        match why.map(|why| &why.reason) {
            Some(Reason::NoPath) => self.may_lack && !self.calm,
            Some(Reason::CacheLost) => was_lost,
            Some(Reason::Uncertain) => {
                !self.sound || self.mute && changes(op) || op == Op::ZoneAppend && self.may_be_uncertain
            }
            _ => false,
        }
    }

    /// Does something to each path.
    pub fn with_paths(&self, stack: &mut Stack, mut change: impl FnMut(&mut FaultyPath, &mut Cx<'_>)) {
        for path in &self.paths {
            stack.with_device(*path, |path: &mut FaultyPath, cx| change(path, cx));
        }
    }

    /// The number that the head has for a path; `None` if it has none, or does not use it any more.
    pub fn number(&self, path: DeviceId, stack: &Stack) -> Option<usize> {
        let in_use = |it: &_| matches!(it, shingle_core::multipath::PathReport { device, health, .. } if *device == path && *health != PathHealth::Leaving);
        self.head(stack)?.paths().find(in_use).map(|it| it.number)
    }

    /// Adds a path that was removed, unless it is not gone yet; whether it is a path then.
    pub fn add(&self, path: DeviceId, stack: &mut Stack, now: Instant) -> Result<bool, String> {
        if self.number(path, stack).is_some() {
            return Ok(true);
        }
        if stack.below(self.head).contains(&path) {
            return Ok(false);
        }
        let state = stack.device(path).map_or(AnaState::Optimized, FaultyPath::state);
        Head::add_path(stack, self.head, &config_of(path, state, stack)).map_err(|error| error.to_string())?;
        stack.with_device(path, |path: &mut FaultyPath, _| path.remove(false, now));
        Ok(true)
    }

    /// From now on everything can go wrong with the paths, or nothing: then they are all in use.
    pub fn calm(&mut self, stack: &mut Stack, calm: bool, now: Instant) {
        self.calm = calm;
        self.with_paths(stack, |path, _| path.calm(calm, now));
        for path in self.paths.iter().filter(|_| calm) {
            let Some(number) = self.number(*path, stack) else { continue };
            let number = number.to_string();
            for words in [&["reinstate_path", &number][..], &["state", &number, "optimized"]] {
                stack.message(self.head, words).expect("a head knows its paths");
            }
        }
    }

    /// The first rule that the head broke.
    pub fn complaint(&self, stack: &Stack) -> Option<(Instant, String)> {
        let of_path = |path: &DeviceId| stack.device::<FaultyPath>(*path)?.complaint.clone();
        let without = self.head(stack).map_or(0, |head| head.counters().without_path);
        let lacked = || format!("{without} bios failed without a path, and the first path never failed");
        let lacked = (without > 0 && !self.may_lack).then(|| (Instant::ZERO, lacked()));
        self.paths.iter().find_map(of_path).or(lacked)
    }

    /// What happened, for the report.
    pub fn figures(&self, stack: &Stack) -> Vec<(&'static str, u64)> {
        let faults = |path: &DeviceId| stack.device::<FaultyPath>(*path).map_or(0, |path| path.faults);
        let counters = self.head(stack).map(Head::counters).unwrap_or_default();
        Vec::from([
            ("path error", self.paths.iter().map(faults).sum()),
            ("no path", counters.without_path),
            ("uncertain append", counters.uncertain_appends),
            ("doubled append", counters.doubled_appends),
            ("unsettled change", counters.unsettled),
            ("lost cache", counters.losses),
        ])
    }

    /// The host's power goes, and the disk stays: what is left on it, with some of what was on its way.
    pub fn lose_host(&self, stack: &Stack, disk: DeviceId, choices: &mut Choices) -> Option<Box<dyn core::any::Any>> {
        let paths = self.paths.iter().filter_map(|path| stack.device::<FaultyPath>(*path));
        let late: Vec<&Bio> = paths.flat_map(FaultyPath::travelling).collect();
        Some(stack.device::<Leaf>(disk)?.0.lose_host(late, choices))
    }
}

shingle_core::impl_display!(PathsPlan, |self, f| {
    let Self { paths, policy, options, steady, mute, outages, .. } = self;
    let HeadOptions { rules, no_path_timeout, most_waiting, may_double_appends, delayed_removal, .. } = options;
    write!(f, "{} paths by {}, rules {rules:?}, steady {steady}, mute {mute}, ", paths.len(), policy.name())?;
    write!(
        f,
        "without one {no_path_timeout:?} of {most_waiting}, removal after {delayed_removal:?}, may double {may_double_appends}: "
    )?;
    paths.iter().try_for_each(|path| write!(f, "{:?} ", path.silence))?;
    outages.map_or(Ok(()), |outages| write!(f, "{outages:?}"))
});

/// Whether it matters when a command takes effect.
fn changes(op: Op) -> bool {
    !matches!(op, Op::Read | Op::Flush | Op::ReportZones)
}

/// What a head did that it must not do.
pub(super) fn violation((at, what): (Instant, String)) -> Violation {
    Violation { rule: crate::model::Rule::Path, at, what }
}
