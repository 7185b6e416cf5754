//! Recorded runs of volumes: a replay takes the same steps.

use alloc::collections::BTreeMap;
use alloc::string::ToString;

use crate::choices::{Origin, SharedRecording};
use crate::recording::Recording;
use crate::swarm::{Profile, Report, SwarmOptions, replay, run_from};

/// Runs a seed and replays what it recorded.
fn takes_the_same_steps(profile: Profile, seed: u64) {
    let options = SwarmOptions { profile, one_cut_of: Some(32), ..SwarmOptions::default() };
    let choices = SharedRecording::new(Recording::of_all(profile, seed).into());
    let recorded =
        run_from(seed, &options, &Origin::Recorder(choices.clone())).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run_from(seed, &options, &Origin::Seed).as_ref(), Ok(&recorded), "recording changes seed {seed}");
    let text = choices.lock().to_string();
    let read = Recording::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let again = replay(&read, &options);
    // What kinds of requests a generator has drawn is none of a replay.
    let of_steps = |report: &Report| Report { noted: BTreeMap::new(), ..report.clone() };
    let steps = again.outcome.as_ref().map(of_steps);
    assert_eq!(steps, Ok(of_steps(&recorded)), "{} seed {seed}", profile.name());
    assert_eq!(again.unused, [""; 0], "{} seed {seed}", profile.name());
}

#[test]
fn a_replay_of_a_recorded_volume_takes_the_same_steps() {
    for seed in 0..8 {
        takes_the_same_steps(Profile::Stl, seed);
        takes_the_same_steps(Profile::DmZoned, seed);
    }
}
