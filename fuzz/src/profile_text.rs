//! Profiles of drives, whole ones with values changed or any text: nothing panics, every mistake is shown with its place, and
//! what has no mistake becomes a drive or says why not.

use arbitrary::Arbitrary;
use libfuzzer_sys::Corpus;
use shingle_core::block::Stack;
use shingle_host::config::Source;
use shingle_host::profile::{PathSet, Profile, ProfileError};

use crate::of_value;

/// The profiles that ship, with lines of them changed, left out or put in.
#[derive(Arbitrary, Debug)]
struct Input {
    profile: u8,
    changes: Vec<(u8, Change)>,
    text: Option<String>,
}

#[derive(Arbitrary, Debug)]
enum Change {
    Gone,
    Number(i64),
    Fraction(f64),
    Word(String),
    Size(u16, u8),
    Time(u16, u8),
    Before(String),
}

const SHIPPED: [&str; 14] = [
    include_str!("../../host/profiles/link-fc32.toml"),
    include_str!("../../host/profiles/null.toml"),
    include_str!("../../host/profiles/paths-asymmetric.toml"),
    include_str!("../../host/profiles/paths-cable.toml"),
    include_str!("../../host/profiles/paths-changing.toml"),
    include_str!("../../host/profiles/paths-hosts.toml"),
    include_str!("../../host/profiles/paths-stall.toml"),
    include_str!("../../host/profiles/ram.toml"),
    include_str!("../../host/profiles/smr-14tb.toml"),
    include_str!("../../host/profiles/smr-15tb.toml"),
    include_str!("../../host/profiles/smr-26tb.toml"),
    include_str!("../../host/profiles/smr-30tb.toml"),
    include_str!("../../host/profiles/ssd-500gb.toml"),
    include_str!("../../host/profiles/zns-1tb.toml"),
];

fn text(input: &Input) -> String {
    if let Some(text) = &input.text {
        return text.clone();
    }
    let mut lines: Vec<String> =
        SHIPPED[usize::from(input.profile) % SHIPPED.len()].lines().map(String::from).collect();
    for (at, change) in &input.changes {
        let at = usize::from(*at) % lines.len();
        let key = lines[at].split('=').next().unwrap_or("").to_owned();
        lines[at] = match change {
            Change::Gone => String::new(),
            Change::Number(number) => format!("{key}= {number}"),
            Change::Fraction(number) => format!("{key}= {number:?}"),
            Change::Word(word) => format!("{key}= {word:?}"),
            Change::Size(number, unit) => {
                format!("{key}= \"{number}{}\"", ["", "KiB", "MiB", "GiB", "TiB"][usize::from(unit % 5)])
            }
            Change::Time(number, unit) => {
                format!("{key}= \"{number}{}\"", ["ns", "us", "ms", "s", "m"][usize::from(unit % 5)])
            }
            Change::Before(text) => format!("{text}\n{}", lines[at]),
        };
    }
    lines.join("\n")
}

/// Runs one input.
pub fn run(bytes: &[u8]) -> Corpus {
    of_value(bytes, fuzz)
}

fn fuzz(input: Input) {
    match PathSet::parse("fuzzed", Source { path: "fuzzed.toml".into(), text: text(&input) }) {
        Ok(set) => {
            let mut stack = Stack::new();
            let paths = set.add_to(&mut stack, false, 1).expect("what was read makes a set");
            assert_eq!(paths.len(), set.paths.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Profile::parse("fuzzed", Source { path: "fuzzed.toml".into(), text: text(&input) }) {
        Ok(profile) => {
            let mut stack = Stack::new();
            match profile.model.add_to(&mut stack, false) {
                Ok(id) => assert!(stack.limits(id).capacity > 0),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if let ProfileError::Wrong(error) = error {
                assert!(!error.diagnostics.is_empty() && !error.render(true).is_empty());
            }
        }
    }
}
