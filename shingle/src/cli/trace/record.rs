//! `shingle trace record`.

use std::io::BufWriter;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;

use crate::cli::new_file::NewFile;
use crate::cli::remote::RemoteArgs;
use crate::cli::{CliError, interrupt, output};
use shingle_host::config::{format_bytes, parse_duration};
use shingle_host::control::{RecordError, Taken, Wanted, record};
use shingle_host::trace::{ENTRY_BYTES, EndReason};

/// Record the bios of a running daemon
///
/// Records until the duration or the count is reached, or until Ctrl-C. The daemon keeps a bounded number of events for
/// the recorder; events that it could not keep are counted and reported.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 recorded, 1 not or not all of it, 2 wrong command line. The file is described in \
                        `man shingle-trace-format`, or docs/trace-format.md."
)]
pub struct RecordArgs {
    /// The device; all of them if left out. `NAME/disk` is the disk below the plug of a zoned disk
    #[arg(long)]
    device: Option<String>,
    /// Stop after this time: 10s, 500ms
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Stop after this many events; a bio makes two or more
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// File for the recording
    #[arg(short, long)]
    output: PathBuf,
    /// Overwrite the file if there is one
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs the command.
pub fn run(args: &RecordArgs) -> Result<(), CliError> {
    let path = args.output.display();
    let mut client = args.remote.connect()?;
    let file = NewFile::open_unless_there(&args.output, args.force)?;
    let stop = interrupt::catch()?;
    let wanted = Wanted { device: args.device.clone(), duration: args.duration, count: args.count };
    let bar = bar(args);
    let recorded = record(&mut client, &wanted, BufWriter::new(file), (&stop, &mut |taken| show(&bar, taken)));
    bar.finish_and_clear();
    let (taken, reason) = recorded.map_err(|error| match error {
        RecordError::Io(error) => CliError::Failed(format!(
            "cannot write the recording to {path}: {error}; the file is not complete and cannot be read"
        )),
        other => CliError::failed(other),
    })?;
    let of = args.device.as_deref().unwrap_or("all devices");
    output::print(&format!(
        "recorded {} events of {of} in {:.1} s into {path}; next: shingle trace show {path}\n",
        taken.events,
        taken.at as f64 / 1e9
    ))?;
    if taken.lost > 0 {
        output::remark(&format!(
            "warning: {} events were lost, because they came faster than they were written; record one device only\n",
            taken.lost
        ));
    }
    if reason == EndReason::Disconnected {
        return Err(CliError::Failed("the daemon went away: the recording ends there".into()));
    }
    Ok(())
}

/// The line about what is going on.
fn bar(args: &RecordArgs) -> ProgressBar {
    let length = args.duration.map(|length| length.as_millis() as u64);
    output::bar(length, if length.is_some() { "recording {bar:40} {msg}" } else { "recording {spinner} {msg}" })
}

fn show(bar: &ProgressBar, Taken { events, lost, at }: Taken) {
    let size = format_bytes(events * ENTRY_BYTES as u64);
    let lost = if lost > 0 { format!(", {lost} LOST") } else { String::new() };
    bar.set_position(at / 1_000_000);
    bar.set_message(format!("{events} events, {size}{lost}, {:.1} s", at as f64 / 1e9));
}
