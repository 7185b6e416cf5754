//! `shingle sim` as users run it.

use std::process::Command;

use serde_json::Value;

/// Runs the program; exit code, stdout and stderr.
fn sim(words: &str) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_shingle")).arg("sim").args(words.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn json(words: &str) -> Value {
    let (code, stdout, stderr) = sim(&format!("{words} --json"));
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn a_range_of_seeds_is_summed_up_and_jobs_do_not_change_what_happens() {
    let (one, two) = (json("--seeds 0..20 --profile all"), json("--seeds 0..20 --profile all --jobs 2"));
    assert_eq!(one["seeds"], 20);
    assert!(one["ops"].as_u64() > Some(2000) && one["failures"].as_array().is_some_and(Vec::is_empty), "{one}");
    for same in ["ops", "power_cuts", "faults", "events", "virtual_ns", "sum"] {
        assert_eq!(one[same], two[same], "{same}");
    }
    let (code, stdout, _) = sim("--seeds 0..3");
    assert_eq!(code, 0);
    assert!(stdout.contains("POWER CUTS") && stdout.lines().count() == 2, "{stdout}");
}

#[test]
fn the_trace_of_a_seed_is_the_same_bytes_every_time() {
    let path = |n: u32| std::env::temp_dir().join(format!("shingle-sim-{}-{n}.trace", std::process::id()));
    let trace = |n: u32| {
        let (code, _, stderr) = sim(&format!("--seed 5 --ops 200 --trace {}", path(n).display()));
        assert_eq!(code, 0, "{stderr}");
        let text = std::fs::read(path(n)).unwrap();
        std::fs::remove_file(path(n)).unwrap();
        text
    };
    let first = trace(1);
    assert!(first.len() > 10_000 && first == trace(2));
}

#[test]
fn a_soak_runs_the_seeds_of_every_profile_and_leaves_cuts_of_volumes_out() {
    let soak = json("--for 1h --seeds 5..7 --ops 60 --jobs 2");
    assert!(soak["first"] == 5 && soak["stopped"] == false, "{soak}");
    let profiles = soak["profiles"].as_array().unwrap();
    let names: Vec<_> = profiles.iter().map(|tally| tally["profile"].as_str().unwrap()).collect();
    assert_eq!(names, ["plug", "append", "zones", "all", "mapper", "dmzoned", "ublk", "paths", "stl"]);
    for tally in profiles {
        let alone = json(&format!("--seeds 5..7 --ops 60 --profile {}", tally["profile"].as_str().unwrap()));
        assert!(tally["seeds"] == 2 && tally["real_ns"].as_u64() > Some(0), "{tally}");
        if tally["profile"] == "dmzoned" || tally["profile"] == "stl" {
            assert!(tally["power_cuts"].as_u64() < alone["power_cuts"].as_u64(), "{tally} {alone}");
        } else {
            assert_eq!((&tally["sum"], &tally["faults"]), (&alone["sum"], &alone["faults"]), "{tally}");
        }
    }
    let (code, stdout, stderr) = sim("--for 1h --seeds 5..6 --ops 20 --profile all");
    assert!(code == 0 && stderr.contains("--seeds 5.."), "{stderr}");
    assert!(stdout.starts_with("PROFILE") && stdout.lines().count() == 2, "{stdout}");
}

#[test]
fn a_wrong_command_line_says_what_to_write() {
    for (words, says) in [
        ("--seeds 7..3", "0..1000"),
        ("--profile fast", "plug, append, zones, all"),
        ("--trace x", "--seed"),
        ("--seeds 5..", "--for"),
        ("--for 1h", "--seeds"),
        ("--failures x --seeds 1..2", "--for"),
        ("--seed 1 --seeds 1..2", "cannot be used with"),
    ] {
        let (code, _, stderr) = sim(words);
        assert!(code == 2 && stderr.contains(says), "{words}: {code} {stderr}");
    }
}

/// A scenario that was recorded for the mutation `fua_is_nothing` of `stl`.
const SCENARIO: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/tests/recorded/scenarios/stl-fua-is-nothing.scenario");

#[test]
fn a_recorded_scenario_is_replayed_and_names_its_rule() {
    let (code, stdout, stderr) = sim(&format!("--replay {SCENARIO}"));
    assert_eq!(
        (code, stdout.as_str()),
        (0, "no rule is broken; the scenario was recorded for: Durability\n"),
        "{stderr}"
    );
    let replay = json(&format!("--replay {SCENARIO}"));
    assert!(
        replay["profile"] == "stl" && replay["broken"].is_null() && replay["choices"].as_u64() > Some(3),
        "{replay}"
    );
}

#[test]
fn a_file_that_is_no_scenario_is_an_error_with_its_line() {
    let path = std::env::temp_dir().join(format!("shingle-sim-{}.scenario", std::process::id()));
    for (text, says) in [
        ("", "line 1: empty file"),
        ("a trace\n", "line 1: not a scenario of this version"),
        ("shingle-scenario 1\nprofile fast\n", "line 2: unknown profile \"fast\""),
        ("shingle-scenario 1\nlife 1: look\n", "line 2: \"look\" has no value"),
        ("shingle-scenario 1\nlife one\n", "line 2: no scope"),
    ] {
        std::fs::write(&path, text).unwrap();
        let (code, _, stderr) = sim(&format!("--replay {}", path.display()));
        assert!(code == 1 && stderr.contains(says), "{text:?}: {code} {stderr}");
    }
    std::fs::remove_file(&path).unwrap();
    let (code, _, stderr) = sim(&format!("--replay {}", path.display()));
    assert!(code == 1 && stderr.contains("cannot read the scenario"), "{stderr}");
}

#[test]
fn a_digest_depends_on_seeds_and_not_on_jobs() {
    let digest =
        |words: &str| json(&format!("--digest --ops 40 --profile plug {words}"))["digest"].as_str().unwrap().to_owned();
    let first = digest("--seeds 0..6");
    assert_eq!(first, digest("--seeds 0..6 --jobs 2"));
    assert_ne!(first, digest("--seeds 1..7"));
    assert_ne!(first, digest("--seeds 0..5"));
}
