//! A trial: one world, in which submitters send a load over the paths of a set.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shingle_core::block::{DeviceId, Stack};
use shingle_core::multipath::{AnaState, Groups, Head, HeadOptions, Node, PathConfig, PolicyKind, PolicyOptions};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_host::latency::Histogram;
use shingle_host::profile::{BuiltPath, PathSet};
use shingle_sim::World;

use super::load::Load;
use super::oracle::Ways;
use super::outcome::{Outcome, PathOutcome, Sample, moments};
use super::submitter::{AFTERWARDS, Chooser, Submitter};

/// Who chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// The oracle.
    Oracle,
    /// A policy as it is if nobody says otherwise.
    Policy(PolicyKind),
    /// A policy with these options.
    With(PolicyKind, PolicyOptions),
}

impl Contender {
    /// The policy `latency` that keeps a tenth over an idle window: the second one of the publication.
    pub const LATENCY_DECAY_10: Self =
        Self::With(PolicyKind::Latency, PolicyOptions { decay: Some(10), window: None, low_water: None });

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Oracle => "oracle".into(),
            Self::Policy(kind) => kind.name().into(),
            Self::With(kind, PolicyOptions { decay, window, low_water }) => {
                let decay = decay.map(|percent| format!(", decay {percent}"));
                let window = window.map(|window| format!(", window {} us", window.as_nanos() as f64 / 1e3));
                let low_water = low_water.map(|samples| format!(", low-water {samples}"));
                let options: String = [decay, window, low_water].into_iter().flatten().collect();
                format!("{}{options}", kind.name())
            }
        }
    }
}

/// One world.
pub struct Trial<'a> {
    /// The paths.
    pub set: &'a PathSet,
    /// What is sent over them.
    pub load: &'a Load,
    /// Of what is drawn: the weather of the paths, and what is sent.
    pub seed: u64,
    /// Parts of the time in which the paths are looked at.
    pub samples: u32,
}

impl Trial<'_> {
    /// What comes out if this one chooses.
    ///
    /// # Errors
    /// If the set makes no devices or no head.
    pub fn run(&self, contender: Contender) -> Result<Outcome, String> {
        self.run_unless(contender, &AtomicBool::new(false)).map(|found| found.expect("nobody stops it"))
    }

    /// The same, or `None` if `stop` is set before the end.
    ///
    /// # Errors
    /// If the set makes no devices or no head.
    pub fn run_unless(&self, contender: Contender, stop: &AtomicBool) -> Result<Option<Outcome>, String> {
        let one = self.run_one((contender, false), stop)?;
        if contender != Contender::Oracle {
            return Ok(one);
        }
        let other = self.run_one((contender, true), stop)?;
        Ok(one.zip(other).map(|(one, other)| if one.mean() <= other.mean() { one } else { other }))
    }

    fn run_one(
        &self,
        (contender, is_selfless): (Contender, bool),
        stop: &AtomicBool,
    ) -> Result<Option<Outcome>, String> {
        let (mut world, submitters) = self.build(contender, is_selfless)?;
        let (ramp, length) = (self.load.ramp, self.load.length);
        world.run(Instant::ZERO + ramp);
        let mut before = self.look(&world, &submitters);
        let mut samples = Vec::new();
        for n in 1..=u64::from(self.samples.max(1)) {
            world.run(Instant::ZERO + ramp + Duration(length.0 * n / u64::from(self.samples.max(1))));
            let now = self.look(&world, &submitters);
            let sent = now.sent.iter().zip(&before.sent).map(|(now, before)| now - before).collect();
            samples.push(Sample { sent, in_flight: now.in_flight.clone() });
            before = now;
            if stop.load(Relaxed) {
                return Ok(None);
            }
        }
        world.run(Instant::ZERO + ramp + length + AFTERWARDS);
        Ok(Some(self.outcome(&world, &submitters, samples)))
    }

    fn build(&self, contender: Contender, is_selfless: bool) -> Result<(World, Vec<usize>), String> {
        let (mut stack, mut rng) = (Stack::new(), Rng::new(self.seed));
        let paths = self.set.add_to(&mut stack, false, rng.draw()).map_err(|error| error.to_string())?;
        let mut choosers = Vec::new();
        for host in self.set.hosts() {
            let own: Vec<&BuiltPath> = paths.iter().filter(|path| path.host == host).collect();
            for _ in 0..self.load.submitters {
                let node = Node(choosers.len() as u8);
                let chooser = choose_with(&mut stack, &own, (contender, is_selfless), node)?;
                choosers.push((chooser, stack.limits(own[0].device).capacity));
            }
        }
        let mut world = World::new(stack);
        let submitter = |(chooser, capacity)| Submitter::new(self.load, chooser, capacity, rng.draw());
        let submitters: Vec<_> = choosers.into_iter().map(submitter).collect();
        let numbers = submitters.into_iter().map(|submitter| world.add(Box::new(submitter))).collect();
        Ok((world, numbers))
    }

    /// What all paths of the set have got since the beginning, and have under way.
    fn look(&self, world: &World, submitters: &[usize]) -> Sample {
        let count = self.set.paths.len();
        let mut all = Sample { sent: vec![0; count], in_flight: vec![0; count] };
        let per_host = self.load.submitters as usize;
        for (number, submitter) in submitters.iter().filter_map(|n| world.actor::<Submitter>(*n)).enumerate() {
            let host = self.set.hosts()[number / per_host];
            let own = self.set.paths.iter().enumerate().filter(|(_, path)| path.host == host);
            for ((place, _), (sent, in_flight)) in own.zip(submitter.paths(&world.stack)) {
                all.sent[place] += sent;
                all.in_flight[place] += in_flight;
            }
        }
        all
    }

    fn outcome(&self, world: &World, submitters: &[usize], samples: Vec<Sample>) -> Outcome {
        let mut latency = Histogram::new();
        let (mut failed, mut lost, mut probes) = (0, 0, 0);
        for submitter in submitters.iter().filter_map(|n| world.actor::<Submitter>(*n)) {
            latency.merge(&submitter.latency);
            failed += submitter.failed;
            lost += submitter.lost + submitter.left();
            probes += submitter.probes(&world.stack);
        }
        let path = |(place, path): (usize, &shingle_host::profile::PathProfile)| {
            let sent = samples.iter().map(|sample| sample.sent[place]).sum();
            let (in_flight, in_flight_deviation) =
                moments(samples.iter().map(|sample| f64::from(sample.in_flight[place])));
            PathOutcome { name: path.name.clone(), sent, in_flight, in_flight_deviation }
        };
        let paths = self.set.paths.iter().enumerate().map(path).collect();
        Outcome { latency, failed, lost, probes, paths, samples }
    }
}

fn choose_with(
    stack: &mut Stack,
    paths: &[&BuiltPath],
    (contender, is_selfless): (Contender, bool),
    node: Node,
) -> Result<Chooser, String> {
    if contender == Contender::Oracle {
        return Ok(Chooser::Oracle(Ways::new(paths.iter().map(|path| (path.device, path.optimized)), is_selfless)));
    }
    let config = |path: &&BuiltPath| {
        let state = if path.optimized { AnaState::Optimized } else { AnaState::NonOptimized };
        PathConfig { silence: stack.silence(path.device), identity: None, state, ..PathConfig::new(path.device) }
    };
    let configs: Vec<PathConfig> = paths.iter().map(config).collect();
    let limits = |config: PathConfig| {
        let limits = stack.limits(config.device);
        (config, limits)
    };
    let (options, all) = (HeadOptions { node, ..HeadOptions::default() }, configs.into_iter().map(limits));
    let all: Vec<_> = all.collect();
    let groups = match contender {
        Contender::Policy(kind) => Groups::one(kind),
        Contender::With(kind, options) => Groups::one_with(kind, options),
        Contender::Oracle => unreachable!("it has no head"),
    };
    let head = Head::grouped(&all, groups, options);
    let head: Result<DeviceId, _> = stack.add(Box::new(head.map_err(|error| error.to_string())?));
    head.map(Chooser::Head).map_err(|error| error.to_string())
}
