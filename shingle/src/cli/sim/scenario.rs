//! Scenarios of `shingle sim`: written when a seed fails, and run again with `--replay`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use shingle_sim::Recording;
use shingle_sim::swarm::{Failure, MAX_REPLAYS, SwarmOptions, shrink};

use super::{SimArgs, world};
use crate::cli::new_file::NewFile;
use crate::cli::{CliError, output};

/// Runs the scenario of a file.
pub(super) fn run(args: &SimArgs, path: &Path) -> Result<(), CliError> {
    let text = fs::read_to_string(path);
    let text =
        text.map_err(|error| CliError::Failed(format!("{}: cannot read the scenario: {error}", path.display())))?;
    let recording = Recording::parse(&text);
    let recording = recording.map_err(|error| CliError::Failed(format!("{}: {error}", path.display())))?;
    let trace = args.trace.as_deref().map(NewFile::open).transpose()?;
    let options = SwarmOptions { trace: trace.is_some(), ..SwarmOptions::default() };
    let mut replay = world::replay(&recording, &options);
    let text = match &mut replay.outcome {
        Ok(report) => report.trace.take(),
        Err(failure) => failure.trace.take(),
    };
    if let Some(file) = trace {
        file.fill(text.unwrap_or_default().as_bytes())?;
    }
    let broken = replay.outcome.as_ref().err().map(|failure| failure.violation.to_string());
    if args.json {
        let profile = recording.profile.name();
        let (rule, choices) = (&recording.rule, recording.len());
        output::print_json(&json!({
            "profile": profile, "rule": rule, "choices": choices, "broken": broken, "unused": replay.unused,
        }))?;
    } else if broken.is_none() {
        let rule = if recording.rule.is_empty() { "no rule" } else { &recording.rule };
        output::print(&format!("no rule is broken; the scenario was recorded for: {rule}\n"))?;
    }
    if !replay.unused.is_empty() {
        let (unused, all) = (replay.unused.len(), recording.len());
        output::remark(&format!("warning: {}: {unused} of {all} recorded choices are not used\n", path.display()));
        replay.unused.iter().for_each(|line| output::remark(&format!("  {line}\n")));
    }
    let Some(broken) = broken else { return Ok(()) };
    output::remark(&format!("error: {}: {broken}\n", path.display()));
    Err(CliError::Silent)
}

/// Writes the shrunk scenario of a failure to the folder, and returns what to say of that.
pub(super) fn keep(failure: &Failure, options: &SwarmOptions, folder: &Path) -> String {
    let options = SwarmOptions { profile: failure.profile, ops: None, trace: false, ..options.clone() };
    let Some(recording) = world::record(failure.seed, &options) else {
        return "  scenario: none, as the seed does not fail again while it is recorded\n".into();
    };
    let bar = output::bar(Some(MAX_REPLAYS.into()), "shrinking the scenario {bar:40} {pos}/{len} replays at most{msg}");
    let mut small = shrink(recording, &mut |smaller| {
        bar.inc(1);
        bar.set_message(format!(", {} choices", smaller.len()));
        world::replay(smaller, &options).breaks(&smaller.rule)
    });
    bar.finish_and_clear();
    small.title = vec![failure.violation.to_string()];
    let path = folder.join(format!("sim-{}-{}.scenario", failure.profile.name(), failure.seed));
    match fs::write(&path, small.to_string()) {
        Ok(()) => told(&path, &small),
        Err(error) => format!("  scenario: cannot be written to {}: {error}\n", path.display()),
    }
}

fn told(path: &Path, recording: &Recording) -> String {
    let path = path.display();
    format!("  scenario: {path}, {} choices\n  replay: shingle sim --replay {path}\n", recording.len())
}

/// The folder for scenarios of failures.
pub(super) fn folder(args: &SimArgs) -> PathBuf {
    args.scenarios.clone().unwrap_or_else(|| PathBuf::from("."))
}
