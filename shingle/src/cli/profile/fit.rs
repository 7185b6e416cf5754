//! `shingle profile fit`: a profile out of what fio measured on a real drive.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::new_file::NewFile;
use crate::cli::{CliError, output, words};
use shingle_host::profile::Profile;
use shingle_lab::fit::{Document, Figure, Fit, Fitted, LeftOut, Parameter, Residual, fit, read};

/// Make a profile of a real drive out of what fio measured on it
///
/// The loads of the measurements run on the simulated drive alone, and its times and rates are changed until it does what the
/// real one did. What the host takes counts as the drive's. Some measurements are held out, to see what the profile is worth for
/// loads that it was not fitted to.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct FitArgs {
    /// Results of fio, written with --output-format=json
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// A profile of a drive of the same kind to begin with, by name or path. What no measurement tells stays as it is there
    #[arg(long, value_name = "NAME|PATH", value_parser = words::profile())]
    base: String,
    /// File for the new profile; without it, only what would be in it is shown
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Overwrite the file
    #[arg(short, long, requires = "output")]
    force: bool,
    /// Hold out one of so many measurements, in their order; 0: none
    #[arg(long, value_name = "N", default_value_t = 4)]
    hold_out: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Measure a drive that has been filled, each job in zones of its own: rw=read, randread, write, or write with
write_zone_append; with one I/O in flight, for its time, and with many, for its rate. Other jobs are left out, and named.

Examples:
  fio --name=w --filename=/dev/nvme0n1 --direct=1 --zonemode=zbd --rw=write --bs=4k --runtime=30 --output-format=json --output=w.json
  shingle profile fit --base zns-1tb-4k w.json r.json rr.json -o mine.toml
  shingle bench --profile mine.toml --rw=randread --bs=16k --iodepth=32 --runtime=10s --time_based";

/// Runs the command.
pub fn run(args: &FitArgs) -> Result<(), CliError> {
    let (mut measurements, mut left_out) = (Vec::new(), Vec::new());
    for path in &args.results {
        let reading = read(path).map_err(CliError::Failed)?;
        measurements.extend(reading.measurements);
        left_out.extend(reading.left_out);
    }
    let mut document = Document::new(Profile::source(&args.base)?)?;
    let file = args.output.as_deref().map(|path| NewFile::open_unless_there(path, args.force)).transpose()?;
    let found = output::with_percent("fitting", |progress| fit(&document, &measurements, args.hold_out, progress));
    let found = found.map_err(CliError::failed)?;
    for Fitted { after, by, .. } in &found.parameters {
        document.set(after, Some(&format!("fitted; matters most to {by}")));
    }
    let held_out = found.residuals.iter().filter(|residual| residual.held_out).count();
    let what = format!(
        "Fitted from {} to {} measurements, beside {} held out.",
        args.base,
        found.residuals.len() - held_out,
        held_out
    );
    document.describe(&what, &format!("A drive like {}, fitted to measurements", args.base));
    if let Some(file) = file {
        file.fill(document.text().as_bytes())?;
    }
    if args.json { output::print_json(&to_json(&found, &left_out)) } else { output::print(&to_text(&found, &left_out)) }
}

/// What a measurement was used for.
fn role(held_out: bool) -> &'static str {
    if held_out { "held out" } else { "fitted" }
}

/// What is compared, and its unit.
fn unit(figure: Figure) -> &'static str {
    match figure {
        Figure::Latency(_) => "us",
        Figure::Rate(_) => "IOPS",
    }
}

fn off(ours: f64, measured: f64) -> f64 {
    (ours / measured - 1.0) * 100.0
}

fn to_text(found: &Fit, left_out: &[LeftOut]) -> String {
    let rows = found.residuals.iter().map(|Residual { measurement, held_out, before, after }| {
        let measured = measurement.figure.value();
        vec![
            measurement.name.clone(),
            format!("{measured:.1} {}", unit(measurement.figure)),
            format!("{before:.1}"),
            format!("{after:.1}"),
            format!("{:+.1} %", off(*after, measured)),
            role(*held_out).to_owned(),
        ]
    });
    let header = ["measurement", "measured", "before", "after", "off by", ""];
    let mut shown = output::table(&header, &[1, 2, 3, 4], rows);
    let value = |parameter: &Parameter| format!("{:.4} {}", parameter.value, parameter.unit()).trim_end().to_owned();
    let row = |Fitted { before, after, by }: &Fitted| vec![before.name(), value(before), value(after), by.clone()];
    let rows = found.parameters.iter().map(row);
    shown += "\n";
    shown += &output::table(&["parameter", "before", "after", "matters most to"], &[1, 2], rows);
    if !found.undetermined.is_empty() {
        let names: Vec<String> = found.undetermined.iter().map(Parameter::name).collect();
        shown += &format!("\nas they were, since these measurements do not tell: {}\n", names.join(", "));
    }
    for LeftOut { name, reason } in left_out {
        shown += &format!("left out: {name}: {reason}\n");
    }
    shown
}

fn to_json(found: &Fit, left_out: &[LeftOut]) -> Value {
    let measurement = |Residual { measurement, held_out, before, after }: &Residual| {
        json!({
            "name": measurement.name,
            "unit": unit(measurement.figure),
            "measured": measurement.figure.value(),
            "before": before,
            "after": after,
            "role": role(*held_out),
        })
    };
    let parameter = |Fitted { before, after, by }: &Fitted| json!({"name": before.name(), "unit": before.unit(), "before": before.value, "after": after.value, "by": by});
    json!({
        "measurements": found.residuals.iter().map(measurement).collect::<Vec<_>>(),
        "parameters": found.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "undetermined": found.undetermined.iter().map(Parameter::name).collect::<Vec<_>>(),
        "left_out": left_out.iter().map(|LeftOut { name, reason }| json!({"name": name, "reason": reason})).collect::<Vec<_>>(),
    })
}
