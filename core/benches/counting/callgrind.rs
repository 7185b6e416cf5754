//! Instructions by callgrind: a bench runs itself under it, once with many bios and once with few.

use std::process::Command;

const FEW: u64 = 20_000;
const MANY: u64 = 120_000;
const WORD: &str = "--carry";

/// What a child is to do: the name of a load, and how many bios.
pub fn asked(arguments: &[String]) -> Option<(String, u64)> {
    let at = arguments.iter().position(|argument| argument == WORD)?;
    Some((arguments[at + 1].clone(), arguments[at + 2].parse().expect("a number")))
}

/// Instructions per bio of the load of this name: what all else costs is in the difference.
pub fn per_bio(name: &str) -> f64 {
    (count(name, MANY) - count(name, FEW)) as f64 / (MANY - FEW) as f64
}

fn count(name: &str, bios: u64) -> u64 {
    let valgrind = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let program = std::env::current_exe().expect("a program has a path");
    let mut command = Command::new("valgrind");
    let output = command.args(valgrind).arg(program).args([WORD, name, &bios.to_string()]).output();
    let said = output.unwrap_or_else(|error| panic!("valgrind: {error}; apt-get install valgrind")).stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    let line = said.lines().find_map(|line| line.split("Collected : ").nth(1));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("valgrind says {said}"))
}
