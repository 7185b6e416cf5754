//! `shingle reproduce`: published tables, run again.

use std::env::VarError;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use indicatif::ProgressBar;

use super::new_file::NewFile;
use super::own_paths::OwnPaths;
use super::{CliError, interrupt, output};
use shingle_lab::reproduce::{self, Findings, Imprint, Options, Part, Publication, RunError, Watch};

/// Run published tables of zone write plugging, QD1 writing, mapping without clones, dm-zoned and multipath, and print ours beside
/// them
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct ReproduceArgs {
    /// Which tables
    #[arg(value_enum)]
    publication: Publication,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write a page with plots, one file without anything outside of it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Only cells with this in their name, as in `nullblk` or `qd1-sequential / 32`, and their baselines
    #[arg(long, value_name = "FILTER")]
    only: Option<String>,
    /// Cut runs short: shows that everything runs, the figures mean little
    #[arg(long)]
    quick: bool,
    /// Minutes of dmzoned's virtual time; 120 as published, with --quick 15
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = clap::value_parser!(u32).range(1..=1440))]
    minutes: Option<u32>,
    /// Of stl: how often aged volumes are written, of which the last time counts; 3 if left out. With --quick, 12 and --minutes 600 the skewed ones come to rest
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: Option<u32>,
    /// Of stl: a drive of your own in place of the one of its kind: the name of a profile, or a file
    #[arg(long, value_name = "FILE|NAME", conflicts_with = "from")]
    profile: Option<String>,
    /// Seed of the simulated cells
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show a report saved with --json instead of running anything
    #[arg(long, value_name = "REPORT.json", conflicts_with_all = ["only", "quick", "seed"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    own: OwnPaths,
}

const AFTER_HELP: &str = "\
null_blk's rows and those of noclone run for real, on this machine: only how systems compare can be held against the
publication. The drives are models that run in virtual time: the same seed gives the same figures. docs/reproduce.md
tells what each class means.

Examples:
  shingle reproduce zwp --only nullblk
  shingle reproduce qd1 --html qd1.html --json > qd1.json
  shingle reproduce noclone --only noclone-depth
  shingle reproduce dmzoned --only single --html dmzoned.html
  shingle reproduce latency --only tcp-30ms
  shingle reproduce latency --paths mine.toml --rate 20000 --reads 70 --html mine.html
  shingle reproduce qd1 --from qd1.json";

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<(), CliError> {
    let page = args.html.as_deref().map(NewFile::open).transpose()?;
    let imprint = imprint()?;
    let publication = args.publication;
    if args.minutes.is_some() && !matches!(publication, Publication::Dmzoned | Publication::Stl) {
        return Err(CliError::Usage(
            "--minutes is for dmzoned and stl: the other tables have no length of time".into(),
        ));
    }
    if args.times.is_some() && publication != Publication::Stl {
        return Err(CliError::Usage("--times is for stl: in the other tables nothing ages".into()));
    }
    if args.profile.is_some() && publication != Publication::Stl {
        return Err(CliError::Usage("--profile is for stl: the other tables have their drives".into()));
    }
    if args.own.is_asked_for() && publication != Publication::Latency {
        return Err(CliError::Usage("--paths is for latency: the other tables have no paths".into()));
    }
    let found = match &args.from {
        Some(path) => saved(path, publication)?,
        None => {
            output::remark_build_profile();
            let paths = args.own.sets().map_err(|error| CliError::Usage(error.to_string()))?;
            let (only, minutes) = (args.only.clone(), args.minutes);
            let (quick, seed, times, profile) = (args.quick, args.seed, args.times, args.profile.clone());
            measure(&Options { publication, only, quick, seed, minutes, times, paths, profile })?
        }
    };
    if let Some(page) = page {
        page.fill(found.sheet.to_html(&imprint).as_bytes())?;
    }
    if args.json {
        return output::print_json(&found.json);
    }
    let part = |part: Part| match part {
        Part::Lines(lines) => lines,
        Part::Table { header, right, rows } => output::table(&header, &right, rows),
    };
    output::print(&found.text.into_iter().map(part).collect::<String>())
}

/// What stands below a page. The time is that of now, or what SOURCE_DATE_EPOCH says, for pages that have to come out the same
/// (reproducible-builds.org).
fn imprint() -> Result<Imprint, CliError> {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
        Err(VarError::NotPresent) => Some(now()),
        set => set.ok().and_then(|text| text.parse().ok()),
    };
    let seconds = seconds.ok_or_else(|| {
        CliError::Usage("SOURCE_DATE_EPOCH is no number of seconds since 1970: set it to one, or unset it".into())
    })?;
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    Ok(Imprint::new(seconds, std::iter::once("shingle".to_owned()).chain(words)))
}

fn saved(path: &Path, publication: Publication) -> Result<Findings, CliError> {
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let found = read.and_then(|text| publication.read(&text));
    found.map_err(|what| CliError::Failed(format!("cannot show {}: {what}", path.display())))
}

/// Runs something long with a bar, until it ends or is interrupted.
fn measure(options: &Options) -> Result<Findings, CliError> {
    let stop = interrupt::catch()?;
    let mut bar = Bar(output::bar(Some(0), "{bar:30} {percent:>3} % ({eta} left) {msg}"));
    let result = reproduce::run(options, &stop, &mut bar);
    bar.0.finish_and_clear();
    result.map_err(|error| match error {
        RunError::NothingToRun(message) => CliError::Usage(message),
        RunError::Failed(message) => CliError::Failed(message),
        RunError::Stopped => CliError::Failed("interrupted: nothing is shown of a run that did not end".into()),
    })
}

/// A bar with the name of the cell that runs; on anything but a terminal it draws nothing.
struct Bar(ProgressBar);

impl Watch for Bar {
    fn steps(&mut self, steps: u64) {
        self.0.set_length(steps);
    }

    fn begin(&mut self, name: &str) {
        self.0.set_message(name.to_owned());
    }

    fn step(&mut self) {
        self.0.inc(1);
    }
}
