//! `shingle reproduce`: published tables, run again.

use std::env::VarError;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::new_file::NewFile;
use super::{CliError, interrupt, output};
use shingle_lab::reproduce::figures::{grouped, off, span, times};
use shingle_lab::reproduce::{
    self, CellOutcome, Class, Imprint, Options, Publication, Report, RunError, TableOutcome, Watch, dmzoned, from_json,
    to_html, to_json,
};

/// Run published tables of zone write plugging, QD1 writing, mapping without clones and dm-zoned, and print ours beside them
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct ReproduceArgs {
    /// Which tables
    #[arg(value_enum)]
    publication: PublicationArg,
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
    /// Seed of the simulated cells
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show a report saved with --json instead of running anything
    #[arg(long, value_name = "REPORT.json", conflicts_with_all = ["only", "quick", "seed"])]
    from: Option<PathBuf>,
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
  shingle reproduce qd1 --from qd1.json";

#[derive(Clone, Copy, ValueEnum)]
enum PublicationArg {
    /// Zone write plugging: five systems on null_blk, a ZNS SSD and an SMR disk
    Zwp,
    /// QD1 writing: an SMR disk of 30 TB
    Qd1,
    /// Device mapper without clones: layers over a RAM disk
    Noclone,
    /// dm-zoned: two hours of files on an SMR disk, alone and with an SSD
    Dmzoned,
}

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<(), CliError> {
    let page = args.html.as_deref().map(NewFile::open).transpose()?;
    let imprint = imprint()?;
    let publication = match args.publication {
        PublicationArg::Zwp => Publication::Zwp,
        PublicationArg::Qd1 => Publication::Qd1,
        PublicationArg::Noclone => Publication::Noclone,
        PublicationArg::Dmzoned => return run_dmzoned(args, &imprint, page),
    };
    if args.minutes.is_some() {
        return Err(CliError::Usage("--minutes is for dmzoned: the other tables have no length of time".into()));
    }
    let report = match &args.from {
        Some(path) => saved(path, publication)?,
        None => {
            let only = args.only.clone();
            measure(&Options { publication, only, quick: args.quick, seed: args.seed })?
        }
    };
    if let Some(page) = page {
        page.fill(to_html(&report, &imprint).as_bytes())?;
    }
    if args.json {
        return output::print_json(&to_json(&report));
    }
    output::print(&text(&report))
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

/// Two hours of dm-zoned are a report of their own.
fn run_dmzoned(args: &ReproduceArgs, imprint: &Imprint, page: Option<NewFile>) -> Result<(), CliError> {
    let minutes = if args.quick { dmzoned::QUICK_MINUTES } else { dmzoned::MINUTES };
    let report = match &args.from {
        Some(path) => read_report(path, dmzoned::from_json)?,
        None => {
            let minutes = args.minutes.unwrap_or(minutes);
            let options = dmzoned::Options { only: args.only.clone(), minutes, seed: args.seed };
            watched(|stop, bar| dmzoned::run(&options, stop, bar))?
        }
    };
    if let Some(page) = page {
        page.fill(dmzoned::to_html(&report, imprint).map_err(CliError::Failed)?.as_bytes())?;
    }
    if args.json {
        return output::print_json(&dmzoned::to_json(&report).map_err(CliError::Failed)?);
    }
    output::print(&dmzoned_text(&report).map_err(CliError::Failed)?)
}

fn dmzoned_text(report: &dmzoned::Report) -> Result<String, String> {
    let ([runs, phases], goals) = dmzoned::to_text(report)?;
    let mut text = output::table(&runs.0, &[2, 3, 4, 5, 6], runs.1);
    text.push('\n');
    text += &output::table(&phases.0, &[1, 3, 4, 5, 6], phases.1);
    text += &goals_text(&goals);
    Ok(text)
}

fn read_report<R>(path: &PathBuf, read: fn(&str) -> Result<R, String>) -> Result<R, CliError> {
    let fail = |what: String| CliError::Failed(format!("cannot show {}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    read(&text).map_err(fail)
}

fn saved(path: &PathBuf, publication: Publication) -> Result<Report, CliError> {
    let report = read_report(path, from_json)?;
    if report.publication != publication {
        let path = path.display();
        return Err(CliError::Failed(format!("cannot show {path}: it is the report of another publication")));
    }
    Ok(report)
}

fn measure(options: &Options) -> Result<Report, CliError> {
    watched(|stop, bar| reproduce::run(options, stop, bar))
}

/// Runs something long with a bar, until it ends or is interrupted.
fn watched<R>(run: impl FnOnce(&Arc<AtomicBool>, &mut Bar) -> Result<R, RunError>) -> Result<R, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::catch(&stop)?;
    let mut bar = Bar(ProgressBar::new(0));
    let result = run(&stop, &mut bar);
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
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} % ({eta} left) {msg}") {
            self.0.set_style(style);
        }
    }

    fn begin(&mut self, name: &str) {
        self.0.set_message(name.to_owned());
    }

    fn step(&mut self) {
        self.0.inc(1);
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for table in &report.tables {
        let _ = writeln!(text, "{}: {}", table.name, table.title);
        table.source.lines().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
        for group in table.groups() {
            text.push('\n');
            text += &if group[0].simulated { simulated(table, group) } else { measured(report, table, group) };
        }
        text.push('\n');
    }
    text + &summary(report)
}

/// What a load is called in the first of its rows; the others leave it out.
fn label(cells: &[CellOutcome], place: usize) -> String {
    let cell = &cells[place];
    let is_first = place == 0 || cells[place - 1].load != cell.load;
    if is_first { format!("{} ({})", cell.load, cell.unit) } else { String::new() }
}

fn or_nothing(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(String::new, show)
}

fn simulated(table: &TableOutcome, cells: &[CellOutcome]) -> String {
    let title = if cells[0].group.is_empty() { "model" } else { &cells[0].group };
    let header = [title, "", "published", "ours", "off", "", "x baseline", "ours", "longest wait", "class"];
    let row = |place: usize| {
        let cell = &cells[place];
        let (published, ours) = table.to_baseline(cell);
        vec![
            label(cells, place),
            cell.system.clone(),
            or_nothing(cell.published, grouped),
            grouped(cell.ours.value),
            or_nothing(cell.ratio(), off),
            cell.is_within().map_or("", |within| if within { "ok" } else { "OFF" }).to_owned(),
            or_nothing(published, times),
            or_nothing(ours, times),
            span(cell.ours.longest_wait_ns),
            cell.class.to_string(),
        ]
    };
    output::table(&header, &[2, 3, 4, 6, 7, 8], (0..cells.len()).map(row))
}

fn measured(report: &Report, table: &TableOutcome, cells: &[CellOutcome]) -> String {
    let cores = format!("{} cores", report.cores);
    let header =
        [&cells[0].group, "", "published", "1 core", &cores, "x baseline", "1 core", &cores, "longest wait", "class"];
    let row = |place: usize| {
        let cell = &cells[place];
        let (published, ours) = table.to_baseline(cell);
        vec![
            label(cells, place),
            cell.system.clone(),
            or_nothing(cell.published, grouped),
            grouped(cell.ours.value),
            or_nothing(cell.ours.all_cores, grouped),
            or_nothing(published, times),
            or_nothing(ours, times),
            or_nothing(cell.ours.all_cores_to_baseline, times),
            span(cell.ours.longest_wait_ns),
            cell.class.to_string(),
        ]
    };
    output::table(&header, &[2, 3, 4, 5, 6, 7, 8], (0..cells.len()).map(row))
}

fn summary(report: &Report) -> String {
    let row = |class: &reproduce::ClassSummary| {
        let tolerance = class.class.tolerance().map_or(String::new(), |t| format!("within {:.0} %", t * 100.0));
        let within = class.class.tolerance().map_or(String::new(), |_| format!("{} of {}", class.within, class.judged));
        let telling = if class.class == Class::Predicted {
            format!("{} of {}", class.telling_within, class.telling)
        } else {
            String::new()
        };
        let worst = class.worst.as_ref().map_or(String::new(), |(name, ratio)| format!("{} {name}", off(*ratio)));
        vec![class.class.to_string(), class.cells.to_string(), tolerance, within, telling, worst]
    };
    let mut text = output::table(
        &["summary", "cells", "tolerance", "within", "no copies", "furthest off"],
        &[1],
        report.summary().iter().map(row),
    );
    if report.summary().iter().any(|class| class.class == Class::Predicted) {
        text.push_str(
            "\nno copies: predicted rows that the figure of the old kernel would not meet. The others are met by copying it, and tell \
             nothing.\n",
        );
    }
    text += &goals_text(&reproduce::goals(report));
    if report.quick {
        text.push_str("\nRuns were cut short by --quick: the figures show that everything runs, no more.\n");
    }
    if report.cells().any(|(_, cell)| cell.class == Class::Measured) {
        text.push_str("\nMeasured rows are this machine's: hold only the columns `x baseline` against each other.\n");
    }
    if let Some(spread) = report.spread() {
        let _ = writeln!(text, "Measured ratios are right to {:.1} % in 95 of 100 cases.", spread * 100.0);
    }
    text
}

fn goals_text(goals: &[reproduce::Goal]) -> String {
    if goals.is_empty() {
        return String::new();
    }
    let goal = |goal: &reproduce::Goal| {
        vec![if goal.is_reached { "yes" } else { "NO" }.to_owned(), goal.text.clone(), goal.found.clone()]
    };
    format!("\n{}", output::table(&["goal", "of ours", "found"], &[], goals.iter().map(goal)))
}
