//! `shingle top`: what a running daemon does, on a terminal.
//!
//! ```text
//!   keyboard ── keys ──┐
//!   poll ── samples ───┼──> Top ──> frame: lines ──> draw ──> terminal
//!     ^                │     │
//!     └── what to ask ─┼─────┘
//!   signals ── end ────┘
//! ```
//!
//! [`model::Top`] has neither a clock nor a terminal: all that happens is told to it, and it says what the lines of the screen are and what
//! is to be asked. What a device shows of itself in an interval is the difference of two samples ([`counts`], [`tree`], [`stuck`], [`paths`],
//! [`cleaning`]); zones are asked for only while their map is shown ([`zone_map`]).

mod cleaning;
mod counts;
mod draw;
mod frame;
mod model;
mod paths;
mod poll;
mod sample;
mod screen;
mod stuck;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod zone_map;

use std::io::IsTerminal;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::terminal;
use shingle_host::config::parse_duration;

use self::model::{INTERVALS, Input, Top, View};
use self::poll::Poller;
use self::text::{Glyphs, Line};
use super::error::colours;
use super::remote::RemoteArgs;
use super::{CliError, output};

/// Watch what a running daemon does: devices, zones, what is stuck, paths and cleaning
///
/// Keys are told by `?`. docs/top.md tells what is shown.
#[derive(Args)]
pub struct TopArgs {
    /// The device whose zones are shown, or at which the cursor stands
    device: Option<String>,
    /// How often the daemon is asked: 100ms to 3600s
    #[arg(long, default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// What is shown first
    #[arg(long, value_enum, default_value = "devices")]
    view: View,
    /// Print it once as text, of what happens in one interval
    #[arg(long)]
    once: bool,
    /// No colours, as with NO_COLOR in the environment
    #[arg(long)]
    no_color: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs the command.
pub fn run(args: TopArgs) -> Result<(), CliError> {
    let glyphs = Glyphs::of(["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).ok()));
    let mut top = Top::new(args.interval, args.view, glyphs);
    args.device.iter().for_each(|device| top.choose(device));
    let start = Instant::now();
    let mut poller = Poller::new(args.remote, start);
    args.device.as_ref().map_or(Ok(()), |device| check_device(device, &mut poller))?;
    if args.once {
        return once(top, poller);
    }
    let has_colour = !args.no_color && colours(&std::io::stdout());
    screen::run(top, poller, start, has_colour)
}

/// Two samples, and what happened between them.
fn once(mut top: Top, mut poller: Poller) -> Result<(), CliError> {
    let is_terminal = std::io::stdout().is_terminal();
    let of_terminal = if is_terminal { terminal::size().ok().map(|(columns, _)| columns) } else { None };
    let of_shell = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    top.apply(Input::Size(of_terminal.or_else(of_shell).unwrap_or(80), 24));
    let mut plugs = Vec::new();
    for is_last in [false, true] {
        let sample = poller.sample(&plugs)?;
        top.apply(Input::Sample(Box::new(sample)));
        plugs = top.want().plugs;
        if !is_last {
            thread::sleep(top.want().interval);
        }
    }
    if let Some(wanted) = top.want().zones {
        while poller.is_reading(&wanted) {
            top.apply(poller.zones(&wanted)?);
        }
    }
    let lines: String = top.page().iter().map(|line| text_of(line) + "\n").collect();
    output::print(&lines)
}

/// Fails if the daemon has no device of this name.
fn check_device(name: &str, poller: &mut Poller) -> Result<(), CliError> {
    let sample = poller.sample(&[])?;
    if sample.device(name).is_some() {
        return Ok(());
    }
    let known: Vec<&str> = sample.status.devices.iter().map(|device| device.name.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(CliError::Failed(format!("the daemon has no device `{name}`; there are: {known}")))
}

fn text_of(line: &Line) -> String {
    line.0.iter().map(|(_, text)| text.as_str()).collect::<String>().trim_end().to_owned()
}

/// The lines of a view that is a list.
#[derive(Default)]
struct Listing {
    header: Option<String>,
    entries: Vec<Entry>,
    /// What is said if there are none.
    empty: &'static str,
}

/// A line, and the device that it is about.
struct Entry {
    line: Line,
    device: Option<String>,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let (interval, (least, most)) = (parse_duration(text)?, INTERVALS);
    if (least..=most).contains(&interval) { Ok(interval) } else { Err("an interval is from 100ms to 3600s".into()) }
}
