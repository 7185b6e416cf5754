//! fio's job files: `[global]` for all sections that follow, and a section per job.

use std::ops::Range;
use std::path::Path;

use clap::{Args, Command, FromArgMatches};

use crate::cli::CliError;
use shingle_host::config::{ConfigError, Diagnostic, Source, nearest};
use shingle_lab::bench::JobOptions;
use shingle_lab::fit::read_text;

/// The longest job file.
const LONGEST_BYTES: u64 = 1 << 20;

/// Reads a job file: its jobs in order, with everything that is wrong if something is.
pub fn read(path: &Path) -> Result<Vec<JobOptions>, CliError> {
    let failed = |what: String| CliError::Failed(format!("cannot read the job file {}: {what}", path.display()));
    let text = read_text(path, LONGEST_BYTES).map_err(failed)?;
    parse(&text).map_err(|diagnostics| ConfigError { source: Source { path: path.into(), text }, diagnostics }.into())
}

/// The jobs of such a text that this program has made.
pub fn jobs(text: &str) -> Result<Vec<JobOptions>, CliError> {
    let failed = |diagnostics| ConfigError { source: Source { path: "jobs".into(), text: text.into() }, diagnostics };
    parse(text).map_err(|diagnostics| failed(diagnostics).into())
}

/// A key with its value, if it has one, and where they stand.
#[derive(Clone)]
struct KeyLine {
    word: String,
    key: Range<usize>,
    line: Range<usize>,
}

/// A section: its name, and what is in it and in the global sections before it.
struct Section {
    name: String,
    at: Range<usize>,
    keys: Vec<KeyLine>,
}

fn parse(text: &str) -> Result<Vec<JobOptions>, Vec<Diagnostic>> {
    let (sections, mut wrong) = sections(text);
    if sections.is_empty() && wrong.is_empty() {
        wrong.push(Diagnostic::general("the job file has no job").help("add a section, such as [write]"));
    }
    let jobs = sections.iter().filter_map(|section| job(section).map_err(|mistake| wrong.push(*mistake)).ok());
    let jobs: Vec<JobOptions> = jobs.collect();
    // A mistake in a global section is one of every job.
    let mut seen = Vec::new();
    wrong.retain(|mistake| {
        !seen.contains(mistake) && {
            seen.push(mistake.clone());
            true
        }
    });
    if wrong.is_empty() { Ok(jobs) } else { Err(wrong) }
}

fn sections(text: &str) -> (Vec<Section>, Vec<Diagnostic>) {
    let (mut sections, mut wrong, mut global) = (Vec::<Section>::new(), Vec::new(), Vec::new());
    let (mut in_global, mut at, known) = (None, 0, keys());
    for raw in text.split_inclusive('\n') {
        let line = raw.trim();
        let start = at + raw.find(line).unwrap_or(0);
        let place = start..start + line.len();
        at += raw.len();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty()) else {
                wrong.push(Diagnostic::at(place, "this is no name of a section").help("write it as in [write]"));
                continue;
            };
            in_global = Some(name == "global");
            if name != "global" {
                sections.push(Section { name: name.into(), at: place, keys: global.clone() });
            }
            continue;
        }
        let key = match key_line(line, place, &known) {
            Ok(key) => key,
            Err(mistake) => {
                wrong.push(*mistake);
                continue;
            }
        };
        match (in_global, sections.last_mut()) {
            (Some(true), _) => global.push(key),
            (Some(false), Some(section)) => section.keys.push(key),
            _ => wrong.push(Diagnostic::at(key.key, "this key is in no section").help("begin with [global]")),
        }
    }
    (sections, wrong)
}

/// Reads `key=value`, or `key` alone.
fn key_line(line: &str, place: Range<usize>, known: &[String]) -> Result<KeyLine, Box<Diagnostic>> {
    let (key, value) = line.split_once('=').map_or((line, None), |(key, value)| (key.trim_end(), Some(value.trim())));
    let at = place.start..place.start + key.len();
    if !known.iter().any(|name| name == key) {
        let mistake = Diagnostic::at(at, format!("unknown key `{key}`"));
        return Err(Box::new(match nearest(key, known.iter().map(String::as_str)) {
            Some(near) => mistake.label(format!("did you mean `{near}`?")),
            None => mistake.help(format!("known keys are: {}", known.join(", "))),
        }));
    }
    let word = value.map_or_else(|| format!("--{key}"), |value| format!("--{key}={value}"));
    Ok(KeyLine { word, key: at, line: place })
}

fn command() -> Command {
    JobOptions::augment_args(Command::new("job")).no_binary_name(true).args_override_self(true).disable_help_flag(true)
}

/// The keys of a job: its options without the dashes.
fn keys() -> Vec<String> {
    let command = command();
    let names = command
        .get_arguments()
        .flat_map(|arg| arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default()));
    names.map(str::to_owned).collect()
}

fn job(section: &Section) -> Result<JobOptions, Box<Diagnostic>> {
    let words = || section.keys.iter().map(|key| key.word.as_str());
    let parsed = command().try_get_matches_from(words()).and_then(|matches| JobOptions::from_arg_matches(&matches));
    let mut job = parsed.map_err(|error| Box::new(blame(section, &error)))?;
    job.name.get_or_insert_with(|| section.name.clone());
    job.check().map_err(|error| Box::new(Diagnostic::at(section.at.clone(), error.to_string())))?;
    Ok(job)
}

/// The line that the command line's parser does not like, or the section if it is not one alone.
fn blame(section: &Section, error: &clap::Error) -> Diagnostic {
    // Behind an empty line are tips for command lines.
    let said = |error: &clap::Error| {
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        lines.join(" ").trim_start_matches("error: ").to_owned()
    };
    let alone = |key: &&KeyLine| {
        command().try_get_matches_from([key.word.as_str()]).is_err_and(|alone| said(&alone) == said(error))
    };
    let place = section.keys.iter().find(alone).map_or(&section.at, |key| &key.line);
    Diagnostic::at(place.clone(), said(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<(String, String)> {
        let mistakes = parse(text).map(|_| ()).unwrap_err();
        let place = |mistake: &Diagnostic| mistake.span.clone().map_or("", |span| &text[span]).to_owned();
        mistakes.iter().map(|mistake| (place(mistake), format!("{} {}", mistake.title, mistake.label))).collect()
    }

    #[test]
    fn a_section_has_its_own_keys_before_those_of_the_global_sections_before_it() {
        let text = "; fio's\n# comments\n[global]\nbs = 64k\nrw=write\ntime_based\nruntime=2\n\n[a]\n[b]\nbs=4k\nbs=8k\nstonewall\n\
                    [global]\niodepth=4\n[c]\nname=other\nreadwrite=randrw\nthinktime=50\n";
        let options = parse(text).unwrap();
        let brief: Vec<_> = options.iter().map(|o| (o.name(), o.block_bytes, o.iodepth, o.rw.name())).collect();
        assert_eq!(brief, [("a", 65536, 1, "write"), ("b", 8192, 1, "write"), ("other", 65536, 4, "randrw")]);
        let (second, fifty) = (std::time::Duration::from_secs(2), std::time::Duration::from_micros(50));
        assert!(options.iter().all(|o| o.time_based && o.runtime == Some(second)));
        assert_eq!((options[0].stonewall, options[1].stonewall), (false, true));
        assert_eq!((options[2].thinktime, options[2].thinktime_blocks), (Some(fifty), 1));
    }

    #[test]
    fn mistakes_are_shown_where_they_are_once_each() {
        let found = mistakes("[global]\niodepht=4\n[a]\nbs=5\n[b]\nfnord=1\n[\n");
        let starts = [
            ("iodepht", "did you mean `iodepth`?"),
            ("fnord", "unknown key"),
            ("[", "no name of a section"),
            ("bs=5", "multiple of 512"),
        ];
        assert_eq!(found.len(), starts.len(), "{found:?}");
        for ((place, says), (at, say)) in found.iter().zip(starts) {
            assert!(place == at && says.contains(say), "{found:?}");
        }
        assert_eq!(mistakes("[global]\nbs=x\n[a]\n[b]\n").len(), 1);
        assert!(mistakes("rw=read\n[a]\n")[0].1.contains("in no section"));
        assert!(mistakes("[global]\nrw=read\n")[0].1.contains("no job"));
        assert_eq!(mistakes("[a]\ntime_based\n")[0].0, "[a]");
        assert!(mistakes("[a]\nverify=crc33\n")[0].1.contains("crc32c"));
    }

    #[test]
    fn whatever_the_text_is_it_is_read_or_refused() {
        for text in [
            "",
            "[",
            "]",
            "[]",
            "=",
            "[a]\n=",
            "[a]\n==4k",
            "[a]\n-",
            "[a]\nbs=",
            "[a]\nbs",
            "\u{0}",
            "[a]\nname=\u{e9}\n\u{e9}=1",
        ] {
            let _ = parse(text);
        }
    }
}
