//! `shingle metrics`: what a daemon has done, for those who watch many.

use clap::{Args, ValueEnum};
use shingle_host::control::protocol::GetMetrics;
use shingle_host::metrics::Format;

use super::remote::RemoteArgs;
use super::{CliError, output};

/// Print what a running daemon has done, as metrics
#[derive(Args)]
#[command(after_help = "\
Metrics can be had over HTTP and in a file as well: `man shingle-metrics` or docs/metrics.md has how, and what each of them is.")]
pub struct MetricsArgs {
    /// How they are written
    #[arg(long, value_enum, default_value = "openmetrics")]
    format: Written,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Written {
    /// OpenMetrics 1.0
    #[value(name = "openmetrics")]
    OpenMetrics,
    /// The older text format of Prometheus
    Prometheus,
}

/// Runs `shingle metrics`.
pub fn run(args: &MetricsArgs) -> Result<(), CliError> {
    let format = match args.format {
        Written::OpenMetrics => Format::OpenMetrics,
        Written::Prometheus => Format::Prometheus,
    };
    output::print(&args.remote.connect()?.call(&GetMetrics { format })?.text)
}
