//! Recorded runs of disks, paths, mapped devices and ublk servers: a replay takes the same steps.

use alloc::string::ToString;

use super::{Profile, SwarmOptions, replay, run, run_from};
use crate::choices::{Origin, SharedRecording};
use crate::recording::Recording;

/// Runs a seed, records it, and replays what was recorded.
fn takes_the_same_steps(profile: Profile, seed: u64) {
    let options = SwarmOptions { profile, trace: true, ..SwarmOptions::default() };
    let choices = SharedRecording::new(Recording::new(profile, seed).into());
    let name = profile.name();
    let drawn = run(seed, &options);
    assert_eq!(
        run_from(seed, &options, &Origin::Recorder(choices.clone())),
        drawn,
        "{name} {seed}: recording changes the run"
    );
    let text = choices.lock().to_string();
    let read = Recording::parse(&text).unwrap_or_else(|error| panic!("{name} {seed}: {error}"));
    let again = replay(&read, &options);
    let (drawn, again, unused) =
        (drawn.unwrap(), again.outcome.unwrap_or_else(|failure| panic!("{failure}")), again.unused);
    let traces = [&drawn, &again].map(|report| report.trace.as_ref().unwrap().lines());
    let [mut drawn_lines, mut again_lines] = traces;
    let place = (1..).find_map(|line| {
        let (one, other) = (drawn_lines.next(), again_lines.next());
        (one != other || one.is_none()).then_some((line, one, other))
    });
    if let Some((line, one, other)) = place.filter(|(_, one, other)| one != other) {
        panic!("{name} {seed}: line {line} of the trace is {one:?}, and {other:?} in the replay; unused: {unused:?}");
    }
    assert_eq!(unused, [""; 0], "{name} {seed}");
    assert_eq!(
        (drawn.ops, drawn.noted, drawn.sum, drawn.events),
        (again.ops, again.noted, again.sum, again.events),
        "{name} {seed}"
    );
}

#[test]
fn a_replay_of_a_recorded_disk_takes_the_same_steps() {
    for seed in 0..12 {
        takes_the_same_steps(Profile::Plug, seed);
        takes_the_same_steps(Profile::Append, seed);
        takes_the_same_steps(Profile::Zones, seed);
        takes_the_same_steps(Profile::All, seed);
    }
}

#[test]
fn a_replay_of_recorded_paths_takes_the_same_steps() {
    (0..12).for_each(|seed| takes_the_same_steps(Profile::Paths, seed));
}

#[test]
fn a_replay_of_recorded_mapped_devices_takes_the_same_steps() {
    (0..12).for_each(|seed| takes_the_same_steps(Profile::Mapper, seed));
}

#[test]
fn a_replay_of_a_recorded_ublk_server_takes_the_same_steps() {
    (0..12).for_each(|seed| takes_the_same_steps(Profile::Ublk, seed));
}
